//! `bowline doctor`: checks agents and the machine, and prints fixes.

mod lines;

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline::Profile;
use bowline::detect::{Cache, Search};
use bowline::doctor::{self, Checkup, Condition, MachineItem, News, Requests, Row};
use bowline::roster::{ManifestOrigin, Roster, RosterEntry};
use bowline_config::{Config, Places};
use bowline_providers::invocation::external::{ByModel, ExternalCli};
use bowline_providers::manifest::{Chosen, Manifest};
use serde::Serialize;

use crate::args::inspection::DoctorArgs;
use crate::async_runtime;
use crate::commands::account;
use crate::config;
use crate::error::{CommandError, Fault};
use crate::ui::Stdout;
use crate::ui::Ui;

/// The exit code if no agent is usable.
const NOTHING_USABLE: u8 = 4;

/// The exit code if runs fail with every agent. Such a run has the same code.
const BAD_MACHINE: u8 = 3;

/// The output of `--json`.
#[derive(Serialize)]
struct DoctorReport {
    v: u32,
    agents: Vec<Row>,
    /// External CLIs, by model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    external: Vec<ExternalRow>,
    machine: Vec<MachineItem>,
    usable: Vec<String>,
}

/// An external CLI, in the form of the specification for pi. Doctor looks for its program and never starts it.
#[derive(Serialize)]
struct ExternalRow {
    model: String,
    program: String,
    /// The path; `None` if it is not installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

/// Looks for the external CLIs of the configuration.
fn external() -> Vec<ExternalRow> {
    Config::load(None).map(|config| found(config.external.programs())).unwrap_or_default()
}

/// Looks for the programs of external CLIs.
fn found(programs: &ByModel) -> Vec<ExternalRow> {
    let row = |(model, program): (&String, &ExternalCli)| {
        let program = program.program(model).to_owned();
        let path = bowline::detect::on_path(&program, &Search::from_env());
        ExternalRow { model: model.clone(), program, path }
    };
    programs.iter().map(row).collect()
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let asked = account::providers_and_external(&args.providers, args.profile.as_deref())?;
    let (mut providers, mut accounts) = (asked.named, asked.accounts);
    let external =
        if args.providers.is_empty() && args.profile.is_none() { external() } else { found(&asked.external) };
    if providers.is_empty() && asked.external.is_empty() {
        (providers, accounts) = every_provider()?;
    }
    let settings = bowline_config::checkup_items(Places::from_env(None), &bowline_config::variable);
    let mut checkup = Checkup { accounts, settings, ..Checkup::of(providers.clone()) };
    if args.fresh {
        checkup.ask.cache = checkup.ask.cache.map(Cache::anew);
    }
    if args.live {
        checkup.live = Requests::One;
    }
    let mut report = async_runtime::start()?.block_on(watch(checkup, args, stdout))?;
    report.external = external;
    report.agents.sort_by_key(|row| providers.iter().position(|it| it.name == row.provider));
    let usable = report.agents.iter().filter(|row| row.is_usable());
    report.usable = usable.map(|row| row.provider.clone()).collect();
    // The router never picks an external CLI by itself, but `--provider` and `--model` run it.
    let found = report.external.iter().filter(|row| row.path.is_some()).map(|row| row.model.clone());
    report.usable.extend(found);
    let all = report.agents.len() + report.external.len();
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
        stdout.print_laid_out(&lines::end(&report.usable, all, &bad, layout))?;
    }
    stdout.flush()?;
    match (bad.is_empty(), report.usable.is_empty()) {
        (false, _) => Err(CommandError::told(BAD_MACHINE)),
        (true, true) => Err(CommandError::told(NOTHING_USABLE)),
        (true, false) => Ok(()),
    }
}

/// Prints each agent as soon as its check ends.
async fn watch(
    checkup: Checkup,
    args: &DoctorArgs,
    stdout: &mut Stdout,
) -> Result<DoctorReport, CommandError> {
    let mut news = doctor::begin(checkup)?;
    let layout = stdout.layout();
    if !args.json {
        stdout.print_laid_out(&lines::head(layout))?;
    }
    let mut report = DoctorReport {
        v: 1,
        agents: Vec::new(),
        external: Vec::new(),
        machine: Vec::new(),
        usable: Vec::new(),
    };
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

/// Returns all providers except those that are only chosen by name, and the enabled entries of the router's file with their
/// accounts.
fn every_provider() -> Result<(Vec<&'static Manifest>, BTreeMap<String, Profile>), CommandError> {
    // The user's own manifests are always listed.
    let (all, _) = Roster::from_env().all().map_err(bowline::Error::from)?;
    let meant = |entry: &RosterEntry| {
        entry.manifest.chosen != Chosen::ByName || entry.origin != ManifestOrigin::BuiltIn
    };
    let mut chosen: Vec<_> = all.into_iter().filter(meant).map(|entry| (entry.manifest, None)).collect();
    // The checks of the machine report invalid files.
    if let Ok(config) = config::load(None) {
        chosen.extend(of_the_file(&config));
    }
    Ok(account::each_once(chosen))
}

/// Returns the enabled entries of the router's file.
fn of_the_file(config: &Config) -> Vec<(&'static Manifest, Option<Profile>)> {
    let entries = config.router.iter().flat_map(|router| &router.providers).filter(|entry| entry.enabled);
    let settings = config.run_settings();
    let listed = entries.filter_map(|entry| match bowline::route::listed(&settings, &entry.name) {
        Ok(listed) => listed.map(|listed| (listed.manifest, listed.profile)),
        // One invalid entry must not hide the others.
        Err(error) => {
            Ui::new().warning(&error.to_string());
            None
        }
    });
    listed.collect()
}
