//! The list of cases. The order is that of a reader's questions: is the program there, does it answer, does it obey,
//! what does it cost, how does it fail, what does it leave behind.

mod afterwards;
mod basics;
mod claims;
mod conversations;
mod deciding;
pub(crate) mod faults;
mod host_tools;
mod options;
mod policies;
mod repository;
mod runners;
mod sessions;
mod stopping;

use bowline_protocol::{PermissionMode, ResumeSupport, UsageReports};
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::run::RunFlag;
use claims::{
    asking, asks, changes_input, ends_idle, every_program, forks, host_tool, live, mode, option, policed,
    remembered, repository_code, resumes, steers_while_asking, whole_prompt,
};

use crate::case::{CaseBody, CaseClaim, ContractCase, SuitePart};

/// Returns every case, in the order of a report.
pub fn all() -> impl Iterator<Item = &'static ContractCase> {
    BEFORE_FAULTS.iter().chain(faults::CASES).chain(AFTER_FAULTS)
}

/// Returns the cases of a part of the suite; only those with these names, if there are any.
pub fn chosen(suite: SuitePart, only: &[String]) -> Vec<&'static ContractCase> {
    let in_suite = |case: &&ContractCase| suite == SuitePart::Full || case.smoke;
    let named = |case: &&ContractCase| only.is_empty() || only.iter().any(|name| name == case.name);
    all().filter(in_suite).filter(named).collect()
}

const fn case(
    name: &'static str,
    about: &'static str,
    claim: fn(&Manifest) -> CaseClaim,
    body: CaseBody,
) -> ContractCase {
    ContractCase { name, about, smoke: false, runs: 1, alone: false, claim, body, pending: None }
}

const fn smoke(
    name: &'static str,
    about: &'static str,
    claim: fn(&Manifest) -> CaseClaim,
    body: CaseBody,
) -> ContractCase {
    ContractCase { name, about, smoke: true, runs: 1, alone: false, claim, body, pending: None }
}

/// Gives a case the time of two runs: it has two, or a heavy one.
const fn twice(case: ContractCase) -> ContractCase {
    ContractCase { runs: 2, ..case }
}

/// Gives a case the time of three runs: it starts the program three times.
const fn thrice(case: ContractCase) -> ContractCase {
    ContractCase { runs: 3, ..case }
}

/// Gives a case the machine for itself, and the time of four runs.
const fn alone(case: ContractCase) -> ContractCase {
    ContractCase { runs: 4, alone: true, ..case }
}

const BEFORE_FAULTS: &[ContractCase] = &[
    smoke(
        "detect",
        "Bowline finds the program and reads its version",
        every_program,
        CaseBody::Runs(|context| Box::pin(basics::detect(context))),
    ),
    case(
        "flags",
        "the help lists every option that Bowline passes, with the meaning that Bowline relies on",
        every_program,
        CaseBody::Runs(|context| Box::pin(basics::flags(context))),
    ),
    smoke(
        "text",
        "the answer arrives whole, once, and the turn completes",
        every_program,
        CaseBody::Runs(|context| Box::pin(basics::text(context))),
    ),
    smoke(
        "streaming",
        "text arrives while the model writes, not all at the end",
        |it| CaseClaim::when(asking(it).streams_text),
        CaseBody::Runs(|context| Box::pin(basics::streaming(context))),
    ),
    case(
        "thinking",
        "thinking is reported, separate from the answer",
        |it| CaseClaim::when(it.capabilities.reports_thinking),
        CaseBody::Runs(|context| Box::pin(basics::thinking(context))),
    ),
    smoke(
        "edit",
        "a tool call edits a file; its start and end are reported",
        every_program,
        CaseBody::Runs(|context| Box::pin(basics::edit(context))),
    ),
    case(
        "shell",
        "an allowed command runs, and its output is reported",
        |it| mode(it, PermissionMode::Yolo),
        CaseBody::Runs(|context| Box::pin(basics::shell(context))),
    ),
    case(
        "files-touched",
        "an edited file is reported within a minute",
        every_program,
        CaseBody::Runs(|context| Box::pin(basics::files_touched(context))),
    ),
    twice(smoke(
        "policy-gate",
        "a risky action without permission is refused, or not offered to the model",
        |it| mode(it, PermissionMode::Ask),
        CaseBody::Runs(|context| Box::pin(basics::policy_gate(context))),
    )),
    twice(case(
        "policy-deny",
        "a policy denies an action in every mode, and allows another without a person",
        policed,
        CaseBody::Runs(|context| Box::pin(policies::denied(context))),
    )),
    twice(case(
        "repository-code",
        "hooks, MCP servers and plugins of an untrusted repository do not run, and it sets no address",
        repository_code,
        CaseBody::Runs(|context| Box::pin(repository::code(context))),
    )),
    twice(smoke(
        "usage",
        "the reported tokens equal the served tokens",
        |it| CaseClaim::when(it.capabilities.reports_usage != UsageReports::None),
        CaseBody::Runs(|context| Box::pin(basics::usage(context))),
    )),
    case(
        "cost",
        "the cost is reported",
        |it| CaseClaim::when(it.capabilities.reports_usage == UsageReports::Cost),
        CaseBody::Runs(|context| Box::pin(basics::cost(context))),
    ),
    smoke(
        "model",
        "the request goes to the chosen model",
        |it| option(it, RunFlag::Model),
        CaseBody::Runs(|context| Box::pin(options::model(context))),
    ),
    case(
        "effort",
        "the chosen effort reaches the model",
        |it| option(it, RunFlag::Effort),
        CaseBody::Runs(|context| Box::pin(options::effort(context))),
    ),
    twice(case(
        "system-prompt",
        "a system prompt reaches the model, and replaces the program's own if the manifest claims that",
        |it| option(it, RunFlag::System),
        CaseBody::Runs(|context| Box::pin(options::system(context))),
    )),
    twice(case(
        "append-system",
        "an addition to the system prompt reaches the model, together with the program's own",
        |it| option(it, RunFlag::AppendSystem),
        CaseBody::Runs(|context| Box::pin(options::append_system(context))),
    )),
    case(
        "schema",
        "the answer satisfies a JSON Schema",
        |it| option(it, RunFlag::Schema),
        CaseBody::Runs(|context| Box::pin(options::schema(context))),
    ),
    case(
        "image",
        "an image reaches the model",
        |it| option(it, RunFlag::Image),
        CaseBody::Runs(|context| Box::pin(options::image(context))),
    ),
    twice(case(
        "host-tool",
        "the agent calls a function of the program that embeds Bowline, and the model gets its result",
        host_tool,
        CaseBody::Runs(|context| Box::pin(host_tools::called(context))),
    )),
    twice(smoke(
        "large-prompt",
        "a prompt of 900 KB arrives whole",
        whole_prompt,
        CaseBody::Runs(|context| Box::pin(options::large_prompt(context))),
    )),
    twice(smoke(
        "resume",
        "a resumed session keeps its id and its conversation",
        |it| CaseClaim::when(it.capabilities.resume == ResumeSupport::ById),
        CaseBody::Runs(|context| Box::pin(sessions::resume(context))),
    )),
    case(
        "resume-unknown",
        "resuming an unknown session fails instead of starting a new one",
        |it| CaseClaim::when(it.capabilities.resume == ResumeSupport::ById),
        CaseBody::Runs(|context| Box::pin(sessions::resume_unknown(context))),
    ),
    twice(case(
        "two-turns",
        "a live session answers two prompts, and the second answer knows the first",
        remembered,
        CaseBody::Runs(|context| Box::pin(conversations::two_turns(context))),
    )),
    twice(case(
        "queue-input",
        "a prompt that is sent during a turn waits for its end, and is answered next",
        every_program,
        CaseBody::Runs(|context| Box::pin(conversations::queue(context))),
    )),
    twice(case(
        "send-input",
        "a user message reaches the agent during its work, once",
        |it| live(it, |has| has.steers, "it cannot be steered while it works"),
        CaseBody::Runs(|context| Box::pin(conversations::send_input(context))),
    )),
    twice(case(
        "send-in-text",
        "a user message that is sent while the model writes is answered before the session rests, once",
        |it| live(it, |has| has.steers, "it cannot be steered while it works"),
        CaseBody::Runs(|context| Box::pin(conversations::send_in_text(context))),
    )),
    twice(case(
        "interrupt-text",
        "an interrupted answer ends as cancelled, and the session goes on",
        every_program,
        CaseBody::Runs(|context| Box::pin(conversations::interrupt_text(context))),
    )),
    twice(case(
        "interrupt-tool",
        "an interrupted tool ends with all its processes, and the session goes on",
        |it| mode(it, PermissionMode::Yolo),
        CaseBody::Runs(|context| Box::pin(conversations::interrupt_tool(context))),
    )),
    twice(case(
        "interrupt-approval",
        "an interrupt denies an open approval, and the session goes on",
        asks,
        CaseBody::Runs(|context| Box::pin(deciding::interrupted(context))),
    )),
    thrice(case(
        "fork",
        "a fork of a live session begins with its conversation, and leaves it as it is",
        forks,
        CaseBody::Runs(|context| Box::pin(conversations::fork(context))),
    )),
    thrice(case(
        "resume-live",
        "a live session goes on under its id after its agent was killed, and after a stop",
        resumes,
        CaseBody::Runs(|context| Box::pin(conversations::resume(context))),
    )),
    twice(case(
        "resume-runner-killed",
        "a live session goes on under its id after its runner was killed in a turn, and nothing is sent twice",
        resumes,
        CaseBody::Runs(|context| Box::pin(runners::killed(context))),
    )),
    twice(case(
        "upgrade-between-turns",
        "a live session goes on after its program was replaced by another version between two turns",
        ends_idle,
        CaseBody::Runs(|context| Box::pin(sessions::upgraded(context))),
    )),
    twice(case(
        "three-watchers",
        "of three watchers one is stopped and one killed; the session goes on, and the others see every event",
        every_program,
        CaseBody::Runs(|context| Box::pin(runners::watched(context))),
    )),
    twice(case(
        "approve",
        "an action that a person allows is done, and asked again the next time",
        asks,
        CaseBody::Runs(|context| Box::pin(deciding::approve(context))),
    )),
    twice(case(
        "approve-changed",
        "an action that a person allows with another input is done with that input",
        changes_input,
        CaseBody::Runs(|context| Box::pin(deciding::changed(context))),
    )),
    twice(case(
        "steer-during-approval",
        "a user message that is sent while an approval is open leaves it open, and reaches the agent once",
        steers_while_asking,
        CaseBody::Runs(|context| Box::pin(deciding::steered(context))),
    )),
    twice(case(
        "approve-session",
        "an action that a person allows for the session is not asked again",
        asks,
        CaseBody::Runs(|context| Box::pin(deciding::for_session(context))),
    )),
    twice(case(
        "deny",
        "an action that a person denies is not done, and the session goes on",
        asks,
        CaseBody::Runs(|context| Box::pin(deciding::deny(context))),
    )),
    twice(case(
        "deny-overdue",
        "an action that is not decided in time is denied",
        asks,
        CaseBody::Runs(|context| Box::pin(deciding::overdue(context))),
    )),
    twice(case(
        "parallel-homes",
        "two sessions run at once, each in its own home directory",
        every_program,
        CaseBody::Runs(|context| Box::pin(sessions::parallel_homes(context))),
    )),
    twice(case(
        "parallel-shared",
        "two sessions run at once in one home directory",
        every_program,
        CaseBody::Runs(|context| Box::pin(sessions::parallel_shared(context))),
    )),
    alone(case(
        "ten-at-once",
        "ten live sessions run at once, and each gets its own answer",
        every_program,
        CaseBody::Runs(|context| Box::pin(sessions::ten_at_once(context))),
    )),
    smoke(
        "stop",
        "stopped during an answer: no process is left, and the partial text is kept",
        every_program,
        CaseBody::Runs(|context| Box::pin(stopping::in_the_answer(context))),
    ),
    smoke(
        "ends-when-asked",
        "the program exits on its stop signal, before it is killed",
        every_program,
        CaseBody::Runs(|context| Box::pin(stopping::when_asked(context))),
    ),
    case(
        "stop-in-tool",
        "stopped during a tool call: no process is left",
        |it| mode(it, PermissionMode::Yolo),
        CaseBody::Runs(|context| Box::pin(stopping::in_a_tool(context))),
    ),
    twice(case(
        "timeout",
        "the timeout ends a run that hangs",
        every_program,
        CaseBody::Runs(|context| Box::pin(stopping::timeout(context))),
    )),
];

const AFTER_FAULTS: &[ContractCase] = &[
    smoke(
        "understood",
        "Bowline decodes every line of the output",
        every_program,
        CaseBody::After(afterwards::understood),
    ),
    smoke(
        "leaves-nothing",
        "a program that exits by itself leaves no process behind",
        every_program,
        CaseBody::After(afterwards::leaves_nothing),
    ),
    smoke(
        "no-survivors",
        "no process is alive after a run",
        every_program,
        CaseBody::After(afterwards::no_survivors),
    ),
    smoke(
        "stays-home",
        "the program connects to the simulator only",
        every_program,
        CaseBody::After(afterwards::stays_home),
    ),
];
