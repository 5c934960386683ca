//! The arguments of every command, and the help that people read.

pub(crate) mod config;
pub(crate) mod inspection;
pub(crate) mod live;
pub(crate) mod policy;
pub(crate) mod provide;
pub(crate) mod provider;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod sessions;
pub(crate) mod simulate;
pub(crate) mod trust;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Run any coding-agent CLI with the same options, events and exit codes.
#[derive(Debug, Parser)]
#[command(name = "bowline", version, max_term_width = 100)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// `None` prints the help.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent on a task
    #[command(after_help = run::EXAMPLES)]
    Run(Box<run::RunArgs>),
    /// Start a session that goes on without this terminal
    #[command(after_help = live::START_EXAMPLES, mut_args = live::for_sessions)]
    Start(Box<live::StartArgs>),
    /// Follow a session and type into it
    #[command(after_help = live::ATTACH_EXAMPLES)]
    Attach(live::AttachArgs),
    /// Send a prompt to a session
    #[command(after_help = live::SEND_EXAMPLES)]
    Send(live::SendArgs),
    /// Show the state of a session, what waits for you, and its queue
    #[command(after_help = live::STATUS_EXAMPLES)]
    Status(live::SessionArg),
    /// Allow an action that waits for your approval
    #[command(after_help = live::APPROVE_EXAMPLES)]
    Approve(live::ApproveArgs),
    /// Deny an action that waits for your approval
    #[command(after_help = live::DENY_EXAMPLES)]
    Deny(live::DenyArgs),
    /// Answer a question of an agent
    #[command(after_help = live::ANSWER_EXAMPLES)]
    Answer(live::AnswerArgs),
    /// End the running turn of a session; the session goes on
    #[command(after_help = live::INTERRUPT_EXAMPLES)]
    Interrupt(live::SessionArg),
    /// Take back a prompt that the agent has not read
    #[command(after_help = live::DEQUEUE_EXAMPLES)]
    Dequeue(live::DequeueArgs),
    /// Change the model, the effort, the permission mode or another option of a session
    #[command(after_help = live::SET_EXAMPLES)]
    Set(live::SetArgs),
    /// Compact the context of a session's agent
    Compact(live::SessionArg),
    /// Show or change who leads a session: the agent, you, or another program
    #[command(after_help = live::CONTROL_EXAMPLES)]
    Control(live::ControlArgs),
    /// Wait until a session has nothing to do; print the answer and exit like `run`
    #[command(after_help = live::WAIT_EXAMPLES)]
    Wait(live::WaitArgs),
    /// List running sessions
    #[command(after_help = sessions::SESSIONS_EXAMPLES)]
    Sessions(sessions::SessionsArgs),
    /// Stop running sessions: by name or id, by key, or all
    #[command(after_help = sessions::STOP_EXAMPLES)]
    Stop(sessions::StopArgs),
    /// Show which provider the router would choose, and why; start nothing
    #[command(after_help = route::EXAMPLES)]
    Route(Box<route::RouteArgs>),
    /// Play a demonstration run; needs no agent and no network
    Demo(DemoArgs),
    /// Show and change settings
    #[command(after_help = config::EXAMPLES)]
    Config(config::ConfigArgs),
    /// Create a settings file
    Init(config::InitArgs),
    /// Show what this project's files would run, and trust their current content
    #[command(after_help = trust::EXAMPLES)]
    Trust(trust::TrustArgs),
    /// Show what a policy decides about a command; runs do not enforce one yet
    #[command(after_help = policy::EXAMPLES)]
    Policy(policy::PolicyArgs),
    /// List the model prices that Bowline knows
    Prices(TableArgs),
    /// Convert the output of an agent into events or another format
    #[command(after_help = DECODE_EXAMPLES)]
    Decode(DecodeArgs),
    /// Classify an error text by failure category
    #[command(after_help = CLASSIFY_EXAMPLES)]
    Classify(ClassifyArgs),
    /// Serve fake model APIs on loopback, to test agents without an account
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateArgs),
    /// Test an agent program offline against the contract suite
    #[command(after_help = CERTIFY_EXAMPLES)]
    Certify(CertifyArgs),
    /// Check which agents are installed, logged in and usable, and how to fix problems
    #[command(after_help = inspection::DOCTOR_EXAMPLES)]
    Doctor(inspection::DoctorArgs),
    /// List the models that a provider offers
    #[command(after_help = inspection::MODELS_EXAMPLES)]
    Models(inspection::ModelsArgs),
    /// Show an account's usage limits: how much is used, and when they reset
    #[command(after_help = inspection::LIMITS_EXAMPLES)]
    Limits(inspection::LimitsArgs),
    /// List the providers
    Providers(TableArgs),
    /// Act as an executable provider: serve `generate`, `stream` and `health` with an agent
    #[command(after_help = provide::EXAMPLES)]
    Provide(provide::ProvideArgs),
    /// Check the health of an executable provider, or create a new one
    Provider(provider::ProviderArgs),
    /// List the dialects, the output formats that Bowline decodes
    Dialects(TableArgs),
    /// Print a completion script for a shell
    Completions(config::CompletionsArgs),
    /// Print the manual page
    Man,
    /// Print the version
    Version,
    /// List completions of the last word; the completion scripts call it
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete(CompleteArgs),
    /// Run a session; `bowline start` calls it
    #[command(name = "session-runner", hide = true)]
    SessionRunner,
    /// Run the scripted agent of `--provider practice`
    #[command(name = "practice-agent", hide = true, disable_help_flag = true)]
    PracticeAgent(PracticeArgs),
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 agent failed, 2 usage error, 3 configuration error, 4 provider not \
    installed or not logged in, 5 budget or policy, 70 internal error, 124 timeout, 130 cancelled, 141 stdout of a run \
    was closed, 143 terminated.";

const DECODE_EXAMPLES: &str = "Examples:
  bowline decode --dialect stream-json --view text answer.jsonl
  my-agent --json | bowline decode --dialect simple --view summary
  bowline decode --provider NAME --format json --exit-code 1 out.json";

const CLASSIFY_EXAMPLES: &str = "Examples:
  echo 'Too many requests. Retry after 30 seconds.' | bowline classify
  bowline classify --exit-code 1 stderr.txt";

// Each paragraph of a text below the options is one line: the parser wraps it for the terminal, once.
const CERTIFY_EXAMPLES: &str = "The program runs in a temporary home directory with made-up keys, in a network namespace with \
    loopback only, against fake model APIs. It needs no account and costs nothing. An executable provider runs unchanged, with \
    your network, and receives about ten requests.

Examples:
  bowline certify NAME
  bowline certify NAME --binary ./node_modules/.bin/agent --only text
  bowline certify --executable ./my-provider --set model=NAME --env API_KEY
  bowline certify NAME --save today.json --against last-week.json";

#[derive(Debug, clap::Args)]
pub(crate) struct CertifyArgs {
    /// Provider to test (`bowline providers` lists them)
    #[arg(value_name = "PROVIDER", required_unless_present = "executable")]
    pub(crate) provider: Option<String>,

    /// Test the executable provider at this path
    #[arg(long, value_name = "PATH", conflicts_with = "provider")]
    pub(crate) executable: Option<PathBuf>,

    /// Add a setting to the `config` of every request to an executable provider, such as model=NAME; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = request::setting)]
    pub(crate) set: Vec<(String, bowline::Json)>,

    /// Set a variable for an executable provider; NAME alone copies it from your environment; repeatable
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = request::variable)]
    pub(crate) env: Vec<(String, String)>,

    /// Program to test instead of the installed one
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,

    /// Older version of the program, which `upgrade-between-turns` replaces. Default: the program itself
    #[arg(long, value_name = "PATH")]
    pub(crate) older: Option<PathBuf>,

    /// Run this case only; repeatable
    #[arg(long, value_name = "CASE")]
    pub(crate) only: Vec<String>,

    /// Run only the cases that older versions must pass
    #[arg(long)]
    pub(crate) smoke: bool,

    /// Keep the homes, projects and journals of all cases, not only of those that failed
    #[arg(long)]
    pub(crate) keep: bool,

    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,

    /// Compare with an earlier report and print the changes
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DecodeArgs {
    /// Dialect of the output (`bowline dialects` lists them)
    #[arg(long, value_name = "NAME", conflicts_with = "provider")]
    pub(crate) dialect: Option<String>,

    /// Provider that printed the output (`bowline providers` lists them)
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,

    /// Output format of the provider. Default: detected from the output
    #[arg(long, value_name = "NAME", requires = "provider", conflicts_with = "dialect")]
    pub(crate) format: Option<String>,

    #[arg(long, value_name = "NAME", default_value = "events", help = view_help())]
    pub(crate) view: String,

    #[command(flatten)]
    pub(crate) ending: EndingArgs,

    /// File with the standard error of the agent
    #[arg(long, value_name = "FILE")]
    pub(crate) stderr: Option<PathBuf>,

    /// Use this time as the current time, such as 2026-11-15T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,

    /// File with the standard output of the agent. Default: `-`, standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ClassifyArgs {
    /// Provider that printed the error (`bowline providers` lists them)
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,

    #[command(flatten)]
    pub(crate) ending: EndingArgs,

    /// Treat the run as ended by Bowline's timeout
    #[arg(long)]
    pub(crate) timed_out: bool,

    /// Use this time as the current time, such as 2026-11-15T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,

    /// File with the error text. Default: `-`, standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// The end of the agent's process.
#[derive(Debug, clap::Args)]
pub(crate) struct EndingArgs {
    /// Exit code of the agent; a negative number is a signal
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) exit_code: Option<i32>,

    /// Signal that killed the agent, such as TERM or 15
    #[arg(long, value_name = "SIGNAL", conflicts_with = "exit_code")]
    pub(crate) signal: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TableArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Print without pauses
    #[arg(long)]
    pub(crate) fast: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// Words after `bowline`; the last one is incomplete
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PracticeArgs {
    /// Arguments of the agent
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<std::ffi::OsString>,
}

fn view_help() -> String {
    let names: Vec<&str> = bowline_providers::views::ALL.iter().map(|entry| entry.name).collect();
    format!("Output to print: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Calls a check with every command, and its names.
    fn each(command: &clap::Command, name: &str, check: &mut impl FnMut(&clap::Command, &str)) {
        check(command, name);
        for sub in command.get_subcommands() {
            each(sub, &format!("{name} {}", sub.get_name()), check);
        }
    }

    #[test]
    fn the_parser_finds_nothing_wrong_with_the_arguments() {
        Args::command().debug_assert();
    }

    #[test]
    fn text_below_the_options_is_wrapped_once() {
        each(&Args::command(), "bowline", &mut |command, name| {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                let is_prose =
                    |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
                let broken = is_prose(pair[0]) && is_prose(pair[1]);
                assert!(!broken, "{name}: a paragraph is one line, and not two:\n{}\n{}", pair[0], pair[1]);
            }
            for line in lines.iter().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= 80, "{name}: an example fits 80 columns: {line}");
            }
        });
    }

    #[test]
    fn every_page_of_help_fits_the_terminal() {
        for width in [80, 100] {
            each(&Args::command(), "bowline", &mut |command, name| {
                let page = command.clone().term_width(width).render_long_help().to_string();
                for line in page.lines() {
                    assert!(line.chars().count() <= width, "{name} at {width}: {line}");
                }
            });
        }
    }
}
