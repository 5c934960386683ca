//! From an invocation to an attempt of the engine: how it is read, and how long it may take.

use bowline_engine::{self as engine, AttemptPlan};
use bowline_protocol::kinds::Transport;
use bowline_providers::conversation::{Conversation, protocol_client};
use bowline_providers::dialects;
use bowline_providers::invocation::{self, Arg, Invocation};

use crate::run::task::Task;

/// Describes one way of starting the program.
pub(super) fn attempt(invocation: &Invocation, task: &Task) -> AttemptPlan {
    AttemptPlan {
        dialect: dialects::by_name(&invocation.dialect).expect("a manifest names dialects that exist"),
        shape: invocation.shape,
        program: invocation.program.clone(),
        options: options(invocation, &task.request.prompt),
        transport: match invocation.transport {
            invocation::StdioKind::Pipe => spoken(invocation).unwrap_or(Transport::Pipe),
            invocation::StdioKind::Pty => Transport::Pty,
        },
        conversation: conversation(invocation, task),
        degraded: invocation.degraded.clone(),
        limits: limits(invocation, task),
    }
}

/// Returns the conversation, with a person who answers questions if the task has one.
fn conversation(invocation: &Invocation, task: &Task) -> Option<Box<Conversation>> {
    let mut conversation = invocation.conversation.clone()?;
    conversation.answers_questions = matches!(task.approver, engine::Approver::Person { .. });
    Some(conversation)
}

/// Returns the names of the options on the command line, without the prompt, which may begin with `-` too.
fn options(invocation: &Invocation, prompt: &str) -> Vec<String> {
    let texts = invocation.args.iter().map(|arg| match arg {
        Arg::Plain(text) => text,
        Arg::File { before, .. } => before,
    });
    let names = texts.filter(|text| text.starts_with('-') && *text != prompt);
    names.filter_map(|text| text.split('=').next()).map(str::to_owned).collect()
}

/// Returns how long things may take in a form of the program, by its manifest and by the caller.
fn limits(invocation: &Invocation, task: &Task) -> engine::RunLimits {
    let usual = engine::RunLimits::default();
    let own = &invocation.limits;
    engine::RunLimits {
        spawn: own.spawn,
        first_event: own.first_event.filter(|_| !task.no_idle_timeout),
        idle: own.idle.filter(|_| !task.no_idle_timeout),
        in_tool: own.in_tool.filter(|_| !task.no_idle_timeout),
        total: own.total.filter(|_| !task.no_timeout),
        shutdown: own.shutdown.unwrap_or(usual.shutdown).min(usual.shutdown),
        grace: invocation.stop.grace.min(usual.grace),
    }
}

/// Returns what the protocol is called that carries the prompt, if one does.
fn spoken(invocation: &Invocation) -> Option<Transport> {
    invocation.conversation.as_ref()?;
    Some(protocol_client(&invocation.dialect)?.transport)
}
