//! `bowline provide`: makes any agent an executable provider, by the CLI provider protocol.
//!
//! The protocol's request is that of a model API, but an agent takes only a prompt. So the command puts the system prompt and the
//! earlier messages in front of the prompt, passes the model on, and lists everything else in the metadata of the response.
//! Budgets, prices and the entry of the router's file apply as for `bowline run`.

use std::io::Read;
use std::time::Duration;

use bowline::attention::Attention;
use bowline::detect::{Ask, Search};
use bowline::{Json, Message, Request, Role, Task};
use bowline_protocol::Millis;
use bowline_provider as kit;
use bowline_providers::manifest::{Manifest, PromptStyle};

use super::{provider, run};
use crate::args::provide::{ProvideArgs, ProvideCommand};
use crate::args::request::TimeLimit;
use crate::error::{CommandError, Fault};
use crate::human::DetailLevel;
use crate::output::sink::Sink;
use crate::suggest;
use crate::ui::Stdout;
use crate::ui::terminal;

/// The timeout of the version. The caller of `health` waits five seconds.
const HEALTH: Duration = Duration::from_secs(4);

/// Runs the command.
pub(crate) fn run(args: &ProvideArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let (manifest, profile) = suggest::listed(&args.provider)?;
    let view = match args.command {
        ProvideCommand::Health => return health(args, manifest, stdout),
        ProvideCommand::Generate => "generate",
        ProvideCommand::Stream => "chunks",
    };
    let format = suggest::output(view)?;
    let config = run::load(args.cwd.as_deref())?;
    run::warn(&config);
    let request = request()?;
    let task = task(args, manifest, &request)?;
    // An entry of the router's file brings its own options.
    let listed = config.router.as_ref().is_some_and(|router| router.entry(&args.provider).is_some());
    let task = match profile {
        _ if listed => task.provider(&args.provider),
        Some(profile) => task.of_provider(manifest).profile(profile),
        None => task.of_provider(manifest),
    };
    let mut settings = config.run_settings();
    // The host that calls this command shows its own users what happens.
    settings.attention = Attention::default();
    let task = task.settings(settings.into());
    let cwd = terminal::cwd(args.cwd.as_deref());
    let options = terminal::options(DetailLevel::Usual, run::permission(Some(args.permission)), cwd);
    let sink = Sink::new(format, options, Some(manifest.name.clone()));
    let (_, code) = crate::async_runtime::start()?.block_on(run::to_the_end(task, sink))?;
    if code == 0 { Ok(()) } else { Err(CommandError::told(code)) }
}

fn request() -> Result<kit::Request, CommandError> {
    let mut text = Vec::new();
    std::io::stdin().lock().read_to_end(&mut text).map_err(|error| {
        CommandError::new(Fault::Usage, "could not read the request from standard input").caused_by(error)
    })?;
    kit::Request::parse(&text).map_err(|error| {
        CommandError::new(Fault::Usage, error.to_string()).hint(r#"write `{"prompt": "…"}`"#)
    })
}

fn task(
    args: &ProvideArgs,
    manifest: &'static Manifest,
    request: &kit::Request,
) -> Result<Task, CommandError> {
    let prompt = match manifest.prompt {
        // The provider accepts messages.
        PromptStyle::Request => request.prompt.clone(),
        // Earlier messages do not replace an empty prompt.
        PromptStyle::Stdin | PromptStyle::Arg if request.prompt.trim().is_empty() => String::new(),
        PromptStyle::Stdin | PromptStyle::Arg | PromptStyle::Protocol => flattened(request),
    };
    let native = manifest.prompt == PromptStyle::Request;
    let mut asked = Request {
        prompt,
        model: request.model().map(str::to_owned).or_else(|| args.model.clone()),
        permission: run::permission(Some(args.permission)),
        ..Request::default()
    };
    asked.sampling.max_tokens = request.max_tokens;
    asked.sampling.temperature = request.temperature;
    asked.sampling.top_p = request.top_p;
    asked.tools = request.tools.iter().map(json).collect::<Result<_, _>>()?;
    for (name, value) in &request.metadata {
        asked.metadata.insert(name.clone(), json(value)?);
    }
    let mut unknown = Vec::new();
    for (name, value) in request.config.iter().filter(|(name, _)| *name != "model") {
        if native || manifest.run.config.contains_key(name) {
            asked.config.insert(name.clone(), json(value)?);
        } else {
            unknown.push(format!("`config.{name}` is not passed on: the program has no such setting"));
        }
    }
    if native {
        asked.system_prompt.clone_from(&request.system_prompt);
        asked.context = request.context.iter().map(message).collect::<Result<_, _>>()?;
    }
    let mut task = Task::of(asked);
    for text in unknown {
        task = task.notice("setting_ignored", text);
    }
    if !native && !request.metadata.is_empty() {
        let text = "`metadata` is not passed on: the program does not accept it".to_owned();
        task = task.notice("setting_ignored", text);
    }
    if !native && request.context.iter().any(|message| !message.tool_calls.is_empty()) {
        let text = "tool calls of the earlier conversation are not passed on".to_owned();
        task = task.notice("context_shortened", text);
    }
    if let Some(binary) = &args.binary {
        task = task.binary(binary);
    }
    if let Some(cwd) = &args.cwd {
        if !cwd.is_dir() {
            let message = format!("`--cwd {}` is not a directory", cwd.display());
            return Err(CommandError::new(Fault::Usage, message).hint("check the path"));
        }
        task = task.cwd(cwd);
    }
    Ok(match args.timeout {
        None => task,
        Some(TimeLimit::None) => task.timeout_ms(None),
        Some(TimeLimit::Of(span)) => {
            task.timeout_ms(Some(Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))))
        }
    })
}

fn json(value: &serde_json::Value) -> Result<Json, CommandError> {
    Json::of(value)
        .map_err(|error| CommandError::new(Fault::Internal, "a value is not JSON").caused_by(error))
}

/// Converts a message.
fn message(said: &kit::Message) -> Result<Message, CommandError> {
    let role = match said.role.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "tool" => Role::Tool,
        other => {
            let message = format!("the request has a message with the role `{other}`");
            return Err(CommandError::new(Fault::Usage, message)
                .hint("possible roles: system, user, assistant, tool"));
        }
    };
    let tool_calls = said.tool_calls.iter().map(json).collect::<Result<_, _>>()?;
    Ok(Message { role, content: said.content.clone(), tool_calls, tool_call_id: said.tool_call_id.clone() })
}

/// Writes a request as one text: the system prompt, then each message with its role.
fn flattened(request: &kit::Request) -> String {
    let mut text = String::new();
    if let Some(system) = request.system_prompt.as_deref().filter(|system| !system.trim().is_empty()) {
        text.push_str(system);
        text.push_str("\n\n");
    }
    if request.context.is_empty() {
        return text + &request.prompt;
    }
    for message in &request.context {
        let who = match message.role.as_str() {
            "assistant" => "Assistant",
            "system" => "System",
            "tool" => "Tool",
            _ => "User",
        };
        text.push_str(&format!("{who}: {}\n", message.content));
    }
    text + "User: " + &request.prompt
}

/// Reports whether the agent is installed and prints its version.
fn health(args: &ProvideArgs, manifest: &'static Manifest, stdout: &mut Stdout) -> Result<(), CommandError> {
    if !manifest.probe.health.is_empty() {
        return provider::say_health(manifest, false, stdout);
    }
    let found = bowline::detect::find(manifest, args.binary.as_deref(), &Search::from_env())?;
    let ask = Ask { deadline: HEALTH, ..Ask::from_env() };
    let version = crate::async_runtime::start()?
        .block_on(ask.version(&found))
        .map_err(|error| CommandError::new(Fault::Missing, error.to_string()).caused_by(error.kind))?;
    stdout.print(&format!("OK: {} {version}\n", manifest.title))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_becomes_a_text() {
        let text = |json: &str| flattened(&kit::Request::parse(json.as_bytes()).expect("a request"));
        assert_eq!(text(r#"{"prompt":"hi"}"#), "hi");
        assert_eq!(text(r#"{"prompt":"hi","system_prompt":"Be brief."}"#), "Be brief.\n\nhi");
        assert_eq!(
            text(
                r#"{"prompt":"now","system_prompt":"sys","context":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"tool","content":"c"}]}"#
            ),
            "sys\n\nUser: a\nAssistant: b\nTool: c\nUser: now"
        );
    }
}
