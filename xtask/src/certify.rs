//! `cargo xtask certify`: the contract suite on the pinned programs, the controls that prove that it can fail, the router
//! and the doctor on the same programs, and what follows from the reports: `compat.toml` and `docs/compatibility.md`.
//!
//! Everything is tried as a user would try it, through the command. A red cell fails, and so does a red route.

mod compat;
mod controls;
mod routes;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::args::Certify;
use crate::real_clis::{self, Installed, Program, Suite};
use crate::report;
use crate::sh::{self, Call};

/// What of a report is needed here; `bowline certify --save` writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    provider: String,
    title: String,
    version: Option<String>,
    suite: String,
    cells: Vec<Cell>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Cell {
    case: String,
    about: String,
    status: String,
    reason: Option<String>,
}

impl Report {
    fn red(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| cell.status == "red")
    }

    fn status_of(&self, case: &str) -> Option<&str> {
        self.cells.iter().find(|cell| cell.case == case).map(|cell| cell.status.as_str())
    }
}

/// Runs the command.
pub fn run(args: &Certify) -> Result<()> {
    let installed = if args.latest { real_clis::newest()? } else { real_clis::pinned()? };
    let chosen: Vec<&Program> = installed
        .programs
        .iter()
        .filter(|it| args.provider.is_empty() || args.provider.contains(&it.pin.provider))
        .collect();
    if chosen.is_empty() {
        bail!("nothing is pinned for {}", args.provider.join(", "));
    }
    if args.reports {
        let report =
            |it: &&Program| read(&folder()?.join(format!("{}-{}.json", it.pin.provider, it.version)));
        let reports = chosen.iter().map(report).collect::<Result<Vec<_>>>()?;
        return follow(args, &reports);
    }
    build()?;
    if args.controls {
        return controls::run(&installed);
    }
    if args.routes {
        return routes::run(&installed);
    }
    let mut reports = Vec::new();
    let mut failed = Vec::new();
    for program in chosen {
        match certify(program, &installed) {
            Ok(report) => reports.push(report),
            Err(error) => {
                report::line(format_args!("    {error:#}"));
                failed.push(format!("{} {}", program.pin.provider, program.version));
            }
        }
    }
    if !failed.is_empty() {
        bail!("red: {}", failed.join(", "));
    }
    if args.provider.is_empty() && !args.latest {
        controls::run(&installed)?;
        follow(args, &reports)?;
        return routes::run(&installed);
    }
    Ok(())
}

/// Writes or compares what follows from the reports.
fn follow(args: &Certify, reports: &[Report]) -> Result<()> {
    let files = [compat::file(reports), table::file(reports)];
    if args.write { write(files) } else { compare(files) }
}

/// Everything, as the gate wants it.
pub(crate) fn whole() -> Result<()> {
    run(&Certify::default())
}

fn build() -> Result<()> {
    Call::cargo("build --quiet --package bowline-cli").run()
}

/// Puts one program through its suite. What is red has a second chance, visibly: a machine that was busy for a moment is
/// no fault of the program, and one that is at fault is red again.
fn certify(program: &Program, installed: &Installed) -> Result<Report> {
    let Program { pin, version, .. } = program;
    report::line(format_args!("    {} {version}", pin.provider));
    let file = folder()?.join(format!("{}-{version}.json", pin.provider));
    if suite(program, installed, &file).is_err() {
        let first = read(&file)?;
        let red: Vec<&str> = first.red().map(|cell| cell.case.as_str()).collect();
        report::line(format_args!("    {} {version} once more, because of {}", pin.provider, red.join(", ")));
        suite(program, installed, &file)
            .with_context(|| format!("{} {version} does not do what is promised", pin.provider))?;
    }
    read(&file)
}

fn suite(program: &Program, installed: &Installed, file: &Path) -> Result<()> {
    // What an earlier run left must not be taken for this one's.
    _ = fs::remove_file(file);
    let Program { pin, path, .. } = program;
    let call = bowline(installed)?.arg(&pin.provider).arg("--binary").arg(path).arg("--save").arg(file);
    let call = if pin.suite == Suite::Smoke { call.arg("--smoke") } else { call };
    // The case `upgrade-between-turns` begins with it.
    let is_older = |it: &&Program| it.pin.provider == pin.provider && it.pin.suite == Suite::Smoke;
    let older = installed.programs.iter().find(is_older).filter(|_| pin.suite == Suite::Full);
    let call = older.into_iter().fold(call, |call, older| call.arg("--older").arg(&older.path));
    call.run()
}

/// Begins a call of `bowline certify` with a Node.js that is new enough for every program.
fn bowline(installed: &Installed) -> Result<Call> {
    let path = sh::variable("PATH").unwrap_or_default();
    let dirs = installed.node.clone().into_iter().chain(std::env::split_paths(&path));
    let program = target()?.join("debug/bowline");
    Ok(Call::new(program).arg("certify").env("PATH", std::env::join_paths(dirs)?))
}

fn read(file: &Path) -> Result<Report> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}

/// Makes the folder for reports and returns it.
fn folder() -> Result<PathBuf> {
    let folder = target()?.join("certify");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn target() -> Result<PathBuf> {
    Ok(sh::variable("CARGO_TARGET_DIR").map_or_else(|| sh::root().join("target"), PathBuf::from))
}

fn write(files: [(&'static str, String); 2]) -> Result<()> {
    for (name, text) in files {
        fs::write(sh::root().join(name), text)?;
        report::line(format_args!("    {name} is written"));
    }
    Ok(())
}

fn compare(files: [(&'static str, String); 2]) -> Result<()> {
    for (name, text) in files {
        if fs::read_to_string(sh::root().join(name)).unwrap_or_default() != text {
            bail!(
                "{name} is not what the reports say: `cargo xtask certify --write` writes it; look at the difference"
            );
        }
    }
    Ok(())
}
