//! The list of what is promised. The order is that of a reader's questions: is it there, does it speak, does it obey,
//! what does it cost, what when things go wrong, what does it leave behind.

mod afterwards;
mod basics;
pub(crate) mod faults;
mod options;
mod repository;
mod sessions;
mod stopping;

use bowline_protocol::{Capabilities, PermissionMode, ResumeSupport, UsageReports};
use bowline_providers::manifest::run::{Mode, RunFlag};
use bowline_providers::manifest::{Manifest, PromptStyle};

use crate::case::{Body, Case, Claim, Suite};

/// Returns every case, in the order of a report.
pub fn all() -> impl Iterator<Item = &'static Case> {
    BEFORE_FAULTS.iter().chain(faults::CASES).chain(AFTER_FAULTS)
}

/// Returns the cases of a part of the suite; those of these names alone, if there are any.
pub fn chosen(suite: Suite, only: &[String]) -> Vec<&'static Case> {
    let in_suite = |case: &&Case| suite == Suite::Full || case.smoke;
    let named = |case: &&Case| only.is_empty() || only.iter().any(|name| name == case.name);
    all().filter(in_suite).filter(named).collect()
}

const fn case(name: &'static str, about: &'static str, claim: fn(&Manifest) -> Claim, body: Body) -> Case {
    Case { name, about, smoke: false, runs: 1, claim, body, pending: None }
}

const fn smoke(name: &'static str, about: &'static str, claim: fn(&Manifest) -> Claim, body: Body) -> Case {
    Case { name, about, smoke: true, runs: 1, claim, body, pending: None }
}

/// Gives a case the time of two runs: it has two, or one that is heavy.
const fn twice(case: Case) -> Case {
    Case { runs: 2, ..case }
}

fn everybody(_: &Manifest) -> Claim {
    Claim::Yes
}

/// Claims long prompts where they need not fit into an argument.
fn whole_prompt(manifest: &Manifest) -> Claim {
    match manifest.prompt {
        PromptStyle::Stdin | PromptStyle::Request | PromptStyle::Protocol => Claim::Yes,
        PromptStyle::Arg => {
            Claim::No(Some("it takes its prompt as an argument, of 96 KiB at most".to_owned()))
        }
    }
}

/// Claims what the manifest has an option for. One that is refused has its reason there.
fn option(manifest: &Manifest, flag: RunFlag) -> Claim {
    match manifest.run.flags.get(&flag) {
        Some(how) if how.is_done() => Claim::Yes,
        Some(how) => {
            Claim::No(how.refused.clone().or_else(|| how.ignored.clone()).or_else(|| how.granted.clone()))
        }
        None => Claim::No(None),
    }
}

/// Returns what a program can do in the format in which it is asked under `--permission ask`, as most cases ask it.
fn asking(manifest: &Manifest) -> Capabilities {
    let better = manifest.better_format(PermissionMode::Ask).map(|(name, _)| manifest.in_format(name));
    better.map_or_else(|| manifest.capabilities.clone(), |manifest| manifest.into_owned().capabilities)
}

/// Claims what needs a permission mode that the program has.
fn mode(manifest: &Manifest, mode: Mode) -> Claim {
    match manifest.permission.get(&mode) {
        Some(how) => how.refused.clone().map_or(Claim::Yes, |why| Claim::No(Some(why))),
        None => Claim::No(None),
    }
}

/// Claims that a repository's code does not run where a run is not refused because of it.
fn repository_code(manifest: &Manifest) -> Claim {
    match mode(manifest, Mode::Ask) {
        Claim::Yes => manifest.repository.refused.clone().map_or(Claim::Yes, |why| Claim::No(Some(why))),
        refused => refused,
    }
}

const BEFORE_FAULTS: &[Case] = &[
    smoke(
        "detect",
        "the program is found and says its version",
        everybody,
        Body::Runs(|room| Box::pin(basics::detect(room))),
    ),
    case(
        "flags",
        "the options that we use are in its help and mean what we think",
        everybody,
        Body::Runs(|room| Box::pin(basics::flags(room))),
    ),
    smoke(
        "text",
        "an answer arrives whole, once, and the turn is completed",
        everybody,
        Body::Runs(|room| Box::pin(basics::text(room))),
    ),
    smoke(
        "streaming",
        "the first words come long before the last",
        |it| Claim::when(asking(it).streams_text),
        Body::Runs(|room| Box::pin(basics::streaming(room))),
    ),
    case(
        "thinking",
        "thoughts are told, and are not part of the answer",
        |it| Claim::when(it.capabilities.reports_thinking),
        Body::Runs(|room| Box::pin(basics::thinking(room))),
    ),
    smoke(
        "edit",
        "a tool call edits a file, and its beginning and end are told",
        everybody,
        Body::Runs(|room| Box::pin(basics::edit(room))),
    ),
    case(
        "shell",
        "a command that is allowed runs, and what it printed is told",
        |it| mode(it, Mode::Yolo),
        Body::Runs(|room| Box::pin(basics::shell(room))),
    ),
    case(
        "files-touched",
        "a file that was edited is named within a minute",
        everybody,
        Body::Runs(|room| Box::pin(basics::files_touched(room))),
    ),
    twice(smoke(
        "policy-gate",
        "something risky that nobody allowed is refused, or not even offered",
        |it| mode(it, Mode::Ask),
        Body::Runs(|room| Box::pin(basics::policy_gate(room))),
    )),
    twice(case(
        "repository-code",
        "hooks, MCP servers and plugins of a repository that is not trusted do not run",
        repository_code,
        Body::Runs(|room| Box::pin(repository::code(room))),
    )),
    twice(smoke(
        "usage",
        "the tokens that we report are those that were served",
        |it| Claim::when(it.capabilities.reports_usage != UsageReports::None),
        Body::Runs(|room| Box::pin(basics::usage(room))),
    )),
    case(
        "cost",
        "the cost is reported",
        |it| Claim::when(it.capabilities.reports_usage == UsageReports::Cost),
        Body::Runs(|room| Box::pin(basics::cost(room))),
    ),
    smoke(
        "model",
        "the model that was chosen is asked",
        |it| option(it, RunFlag::Model),
        Body::Runs(|room| Box::pin(options::model(room))),
    ),
    case(
        "effort",
        "how much to think reaches the model",
        |it| option(it, RunFlag::Effort),
        Body::Runs(|room| Box::pin(options::effort(room))),
    ),
    twice(case(
        "system-prompt",
        "a system prompt reaches the model, and replaces the program's own where it is said to",
        |it| option(it, RunFlag::System),
        Body::Runs(|room| Box::pin(options::system(room))),
    )),
    twice(case(
        "append-system",
        "an addition to the system prompt reaches the model, beside the program's own",
        |it| option(it, RunFlag::AppendSystem),
        Body::Runs(|room| Box::pin(options::append_system(room))),
    )),
    case(
        "schema",
        "an answer is held to a JSON Schema",
        |it| option(it, RunFlag::Schema),
        Body::Runs(|room| Box::pin(options::schema(room))),
    ),
    case(
        "image",
        "an image reaches the model",
        |it| option(it, RunFlag::Image),
        Body::Runs(|room| Box::pin(options::image(room))),
    ),
    twice(smoke(
        "large-prompt",
        "a prompt of 900 KB arrives whole",
        whole_prompt,
        Body::Runs(|room| Box::pin(options::large_prompt(room))),
    )),
    twice(smoke(
        "resume",
        "a resumed session keeps its id and knows what was said",
        |it| Claim::when(it.capabilities.resume == ResumeSupport::ById),
        Body::Runs(|room| Box::pin(sessions::resume(room))),
    )),
    case(
        "resume-unknown",
        "a session that does not exist is told, not begun anew",
        |it| Claim::when(it.capabilities.resume == ResumeSupport::ById),
        Body::Runs(|room| Box::pin(sessions::resume_unknown(room))),
    ),
    Case {
        name: "send-input",
        about: "a word from the user reaches the agent while it works",
        smoke: false,
        runs: 1,
        claim: |it| Claim::when(it.capabilities.steers),
        body: Body::Runs(|room| Box::pin(sessions::send_input(room))),
        pending: Some("runs are one-way: two-way transports come with live sessions"),
    },
    twice(case(
        "parallel-homes",
        "two sessions at once, each with a home of its own",
        everybody,
        Body::Runs(|room| Box::pin(sessions::parallel_homes(room))),
    )),
    twice(case(
        "parallel-shared",
        "two sessions at once in one home",
        everybody,
        Body::Runs(|room| Box::pin(sessions::parallel_shared(room))),
    )),
    smoke(
        "stop",
        "stopped in the middle of an answer: nobody is left, the words so far are kept",
        everybody,
        Body::Runs(|room| Box::pin(stopping::in_the_answer(room))),
    ),
    smoke(
        "ends-when-asked",
        "it ends when it is asked to, before it is killed",
        everybody,
        Body::Runs(|room| Box::pin(stopping::when_asked(room))),
    ),
    case(
        "stop-in-tool",
        "stopped in the middle of a tool: nobody is left",
        |it| mode(it, Mode::Yolo),
        Body::Runs(|room| Box::pin(stopping::in_a_tool(room))),
    ),
    case(
        "timeout",
        "our deadline ends a run that waits for ever",
        everybody,
        Body::Runs(|room| Box::pin(stopping::timeout(room))),
    ),
];

const AFTER_FAULTS: &[Case] = &[
    smoke(
        "understood",
        "no line of its output was not understood",
        everybody,
        Body::After(afterwards::understood),
    ),
    smoke(
        "leaves-nothing",
        "a program that ends by itself leaves no process behind",
        everybody,
        Body::After(afterwards::leaves_nothing),
    ),
    smoke(
        "no-survivors",
        "no process is alive after a run",
        everybody,
        Body::After(afterwards::no_survivors),
    ),
    smoke(
        "stays-home",
        "nothing tried to reach anything but the simulator",
        everybody,
        Body::After(afterwards::stays_home),
    ),
];
