//! The arguments of every command, and the help that people read.

pub(crate) mod config;
pub(crate) mod knowing;
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

/// One contract for every coding-agent command line.
#[derive(Debug, Parser)]
#[command(name = "bowline", version, max_term_width = 100)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Without a command, the help is shown.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Let an agent do something, and watch it
    #[command(after_help = run::EXAMPLES)]
    Run(Box<run::RunArgs>),
    /// Say which agent would be asked, why, and what would follow a failure
    #[command(after_help = route::EXAMPLES)]
    Route(Box<route::RouteArgs>),
    /// List the sessions that run, whoever started them
    #[command(after_help = sessions::SESSIONS_EXAMPLES)]
    Sessions(sessions::SessionsArgs),
    /// End sessions that run: by name, by key, or all
    #[command(after_help = sessions::STOP_EXAMPLES)]
    Stop(sessions::StopArgs),
    /// See a run from beginning to end, without any agent or network
    Demo(DemoArgs),
    /// Show and change settings
    #[command(after_help = config::EXAMPLES)]
    Config(config::ConfigArgs),
    /// Write a file of settings to begin with
    Init(config::InitArgs),
    /// Show what this project's files would run, and trust them as they are
    #[command(after_help = trust::EXAMPLES)]
    Trust(trust::TrustArgs),
    /// Show what models cost, as far as Bowline knows
    Prices(TableArgs),
    /// Turn what an agent printed into events, or into another format
    #[command(after_help = DECODE_EXAMPLES)]
    Decode(DecodeArgs),
    /// Say what kind of failure an error text is, and what may be done about it
    #[command(after_help = CLASSIFY_EXAMPLES)]
    Classify(ClassifyArgs),
    /// Serve fake model APIs on loopback, for trying agents without an account
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateArgs),
    /// Try on an agent program, offline, everything that is promised about it
    #[command(after_help = CERTIFY_EXAMPLES)]
    Certify(CertifyArgs),
    /// Say which agents are here, what each can do, and what helps where something is wrong
    #[command(after_help = knowing::DOCTOR_EXAMPLES)]
    Doctor(knowing::DoctorArgs),
    /// List the models that an agent offers
    #[command(after_help = knowing::MODELS_EXAMPLES)]
    Models(knowing::ModelsArgs),
    /// Say how much of an account's limits is used, and until when
    #[command(after_help = knowing::LIMITS_EXAMPLES)]
    Limits(knowing::LimitsArgs),
    /// List the providers
    Providers(TableArgs),
    /// Be an executable provider: let an agent answer `generate`, `stream` and `health`
    #[command(after_help = provide::EXAMPLES)]
    Provide(provide::ProvideArgs),
    /// Ask an executable provider whether it is well, or begin a new one
    Provider(provider::ProviderArgs),
    /// List the dialects
    Dialects(TableArgs),
    /// Print a script that completes commands in a shell
    Completions(config::CompletionsArgs),
    /// Print the manual page
    Man,
    /// Print the version
    Version,
    /// List what can stand in the place of the last word; the completion scripts call it
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete(CompleteArgs),
    /// Play the scripted agent that `--provider practice` runs
    #[command(name = "practice-agent", hide = true, disable_help_flag = true)]
    PracticeAgent(PracticeArgs),
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 the agent failed, 2 usage, 3 configuration, 4 provider missing or not \
    logged in, 5 budget or policy, 70 our own fault, 124 timed out, 130 cancelled, 141 the reader of a run \
    closed stdout, 143 terminated.";

const DECODE_EXAMPLES: &str = "Examples:
  bowline decode --dialect stream-json --view text answer.jsonl
  my-agent --json | bowline decode --dialect simple --view summary
  bowline decode --provider NAME --format json --exit-code 1 out.json";

const CLASSIFY_EXAMPLES: &str = "Examples:
  echo 'Too many requests. Retry after 30 seconds.' | bowline classify
  bowline classify --exit-code 1 stderr.txt";

// Each paragraph of a text below the options is one line: the parser wraps it for the terminal, once.
const CERTIFY_EXAMPLES: &str = "The program runs in a home of its own, with made-up keys, in a network namespace that has \
    loopback and nothing else, and talks to fake model APIs. No account is needed and nothing is paid. An executable provider \
    runs as it is, with the network that it has, and answers about ten requests.

Examples:
  bowline certify NAME
  bowline certify NAME --binary ./node_modules/.bin/agent --only text
  bowline certify --executable ./my-provider --set model=NAME --env API_KEY
  bowline certify NAME --save today.json --against last-week.json";

#[derive(Debug, clap::Args)]
pub(crate) struct CertifyArgs {
    /// Whose program it is (`bowline providers` lists them)
    #[arg(value_name = "PROVIDER", required_unless_present = "executable")]
    pub(crate) provider: Option<String>,

    /// An executable provider, by its path
    #[arg(long, value_name = "PATH", conflicts_with = "provider")]
    pub(crate) executable: Option<PathBuf>,

    /// A setting that every request to an executable provider has in its `config`, such as model=NAME
    #[arg(long, value_name = "NAME=VALUE", value_parser = request::setting)]
    pub(crate) set: Vec<(String, bowline::Json)>,

    /// A variable for an executable provider; NAME alone passes ours on
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = request::variable)]
    pub(crate) env: Vec<(String, String)>,

    /// The program, instead of the one that is installed
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,

    /// Try this case alone; may be given several times
    #[arg(long, value_name = "CASE")]
    pub(crate) only: Vec<String>,

    /// Try only what older versions have to pass
    #[arg(long)]
    pub(crate) smoke: bool,

    /// Keep the homes, projects and journals of all cases, not of the red ones alone
    #[arg(long)]
    pub(crate) keep: bool,

    /// Print the report as JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report, as JSON, to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,

    /// Say what changed since an earlier report
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DecodeArgs {
    /// How the output is to be read (`bowline dialects` lists them)
    #[arg(long, value_name = "NAME", conflicts_with = "provider")]
    pub(crate) dialect: Option<String>,

    /// Whose output it is (`bowline providers` lists them)
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,

    /// Which of the provider's formats it is in; without it, the output shows it
    #[arg(long, value_name = "NAME", requires = "provider", conflicts_with = "dialect")]
    pub(crate) format: Option<String>,

    #[arg(long, value_name = "NAME", default_value = "events", help = view_help())]
    pub(crate) view: String,

    #[command(flatten)]
    pub(crate) ending: EndingArgs,

    /// A file with what the agent wrote to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) stderr: Option<PathBuf>,

    /// The time to take for the present, such as 2026-11-15T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,

    /// What the agent wrote to standard output; `-` or nothing means our own standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ClassifyArgs {
    /// Whose error it is (`bowline providers` lists them)
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,

    #[command(flatten)]
    pub(crate) ending: EndingArgs,

    /// Our own deadline ended the run
    #[arg(long)]
    pub(crate) timed_out: bool,

    /// The time to take for the present, such as 2026-11-15T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,

    /// The error text; `-` or nothing means our own standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// How the agent's process ended.
#[derive(Debug, clap::Args)]
pub(crate) struct EndingArgs {
    /// The agent's exit code; a negative one is a signal
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) exit_code: Option<i32>,

    /// The signal that ended the agent, such as TERM or 15
    #[arg(long, value_name = "SIGNAL", conflicts_with = "exit_code")]
    pub(crate) signal: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TableArgs {
    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Do not wait between words
    #[arg(long)]
    pub(crate) fast: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// The words after `bowline`, the one that is typed last
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PracticeArgs {
    /// The agent's own arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<std::ffi::OsString>,
}

fn view_help() -> String {
    let names: Vec<&str> = bowline_providers::views::ALL.iter().map(|entry| entry.name).collect();
    format!("What to print: {}", names.join(", "))
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
