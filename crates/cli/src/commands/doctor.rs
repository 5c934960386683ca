//! `bowline doctor`: what is here, what works, and what helps where it does not.

mod lines;

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline::Profile;
use bowline::config::Config;
use bowline::detect::{Cache, Search};
use bowline::doctor::{self, Checkup, Condition, Item, News, Requests, Row};
use bowline::roster::{Entry, Origin, Roster};
use bowline_providers::invocation::external::ExternalCli;
use bowline_providers::manifest::{Chosen, Manifest};
use serde::Serialize;

use crate::args::knowing::DoctorArgs;
use crate::commands::run::runtime;
use crate::commands::{account, trust};
use crate::error::{CommandError, Fault};
use crate::output::Stdout;

/// The exit code of a machine on which no agent can be used.
const NOTHING_USABLE: u8 = 4;

/// The exit code of a machine on which runs fail whatever the agent: that of such a run.
const BAD_MACHINE: u8 = 3;

/// All that was found out, for programs.
#[derive(Serialize)]
struct Report {
    v: u32,
    agents: Vec<Row>,
    /// External CLIs, by the model that stands for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    external: Vec<ExternalRow>,
    machine: Vec<Item>,
    usable: Vec<String>,
}

/// A program in the form of the specification for pi. It is looked for and never asked: nothing is known of it but its line.
#[derive(Serialize)]
struct ExternalRow {
    model: String,
    program: String,
    /// Where it is; absent where it is not installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

/// Looks for the external CLIs of the configuration.
fn external() -> Vec<ExternalRow> {
    let Ok(config) = Config::load(None) else { return Vec::new() };
    let row = |(model, program): (&String, &ExternalCli)| {
        let program = program.executable.clone().unwrap_or_else(|| model.clone());
        let path = bowline::detect::on_path(&program, &Search::from_env());
        ExternalRow { model: model.clone(), program, path }
    };
    config.external.programs().iter().map(row).collect()
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let (mut providers, mut accounts) = account::meant(&args.providers, args.profile.as_deref())?;
    if providers.is_empty() {
        (providers, accounts) = everybody()?;
    }
    let external = if args.providers.is_empty() && args.profile.is_none() { external() } else { Vec::new() };
    let mut checkup = Checkup { accounts, ..Checkup::of(providers.clone()) };
    if args.fresh {
        checkup.ask.cache = checkup.ask.cache.map(Cache::anew);
    }
    if args.live {
        checkup.live = Requests::One;
    }
    let mut report = runtime()?.block_on(watch(checkup, args, stdout))?;
    report.external = external;
    report.agents.sort_by_key(|row| providers.iter().position(|it| it.name == row.provider));
    let usable = report.agents.iter().filter(|row| row.is_usable());
    report.usable = usable.map(|row| row.provider.clone()).collect();
    let bad = report.machine.iter().filter(|item| item.condition == Condition::Bad);
    let bad: Vec<&str> = bad.map(|item| item.name).collect();
    if args.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| {
            CommandError::new(Fault::Internal, "could not write the report").caused_by(error)
        })?;
        stdout.print(&format!("{text}\n"))?;
    } else {
        let layout = stdout.layout();
        stdout.print_laid_out(&lines::external(&report.external))?;
        stdout.print_laid_out(&lines::machine(&report.machine, layout))?;
        stdout.print_laid_out(&lines::end(&report.usable, report.agents.len(), &bad, layout))?;
    }
    stdout.flush()?;
    match (bad.is_empty(), report.usable.is_empty()) {
        (false, _) => Err(CommandError::told(BAD_MACHINE)),
        (true, true) => Err(CommandError::told(NOTHING_USABLE)),
        (true, false) => Ok(()),
    }
}

/// Shows each agent as soon as it is known.
async fn watch(checkup: Checkup, args: &DoctorArgs, stdout: &mut Stdout) -> Result<Report, CommandError> {
    let mut news = doctor::begin(checkup)?;
    let layout = stdout.layout();
    if !args.json {
        stdout.print_laid_out(&lines::head(layout))?;
    }
    let mut report =
        Report { v: 1, agents: Vec::new(), external: Vec::new(), machine: Vec::new(), usable: Vec::new() };
    while let Some(news) = news.recv().await {
        match news {
            News::Agent(row) => {
                if !args.json {
                    stdout.print_laid_out(&lines::agent(&row, layout))?;
                    stdout.flush()?;
                }
                report.agents.push(*row);
            }
            News::Machine(item) => report.machine.push(item),
        }
    }
    Ok(report)
}

/// Returns all providers but those that are only chosen by name, and those that the router's file has under names of its own
/// with their accounts.
fn everybody() -> Result<(Vec<&'static Manifest>, BTreeMap<String, Profile>), CommandError> {
    // What a person has described themselves is listed whether it is chosen freely or not.
    let (all, _) = Roster::from_env().all().map_err(bowline::Error::from)?;
    let meant = |entry: &Entry| entry.manifest.chosen != Chosen::ByName || entry.origin != Origin::BuiltIn;
    let mut chosen: Vec<_> = all.into_iter().filter(meant).map(|entry| (entry.manifest, None)).collect();
    // What is wrong with the files is told among our own surroundings.
    if let Ok(config) = trust::load(None) {
        chosen.extend(of_the_file(&config));
    }
    Ok(account::each_once(chosen))
}

/// Returns those that the router's file has switched on.
fn of_the_file(config: &Config) -> Vec<(&'static Manifest, Option<Profile>)> {
    let entries = config.router.iter().flat_map(|router| &router.providers).filter(|entry| entry.enabled);
    let listed = entries.filter_map(|entry| match bowline::route::listed(config, &entry.name) {
        Ok(listed) => listed.map(|listed| (listed.manifest, listed.profile)),
        // What is wrong with one of them is no reason to say nothing of the others.
        Err(error) => {
            tell(&format!("warning: {error}\n"));
            None
        }
    });
    listed.collect()
}

fn tell(text: &str) {
    use std::io::Write as _;
    // Nothing can be done about a standard error that does not take it.
    let _ = std::io::stderr().write_all(bowline_providers::ansi::harmless(text).as_bytes());
}
