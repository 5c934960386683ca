//! The negative controls: a real program that is spoiled in one way turns exactly the cells red that it should.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{bowline, folder, read};
use crate::real_clis::{Installed, Suite};
use crate::report;
use crate::sh;

#[derive(Deserialize)]
struct Controls {
    control: Vec<Control>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Control {
    script: String,
    about: String,
    providers: Vec<String>,
    only: Vec<String>,
    red: BTreeSet<String>,
}

pub(super) fn run(installed: &Installed) -> Result<()> {
    let scripts = sh::root().join("conformance/controls");
    let text = fs::read_to_string(scripts.join("controls.toml"))?;
    let controls: Controls = toml::from_str(&text).context("conformance/controls/controls.toml")?;
    for control in &controls.control {
        let script = fs::read_to_string(scripts.join(&control.script)).context(control.script.clone())?;
        for provider in &control.providers {
            report::line(format_args!("    control: {provider}: {}", control.about));
            try_on(provider, control, &script, installed)?;
        }
    }
    Ok(())
}

fn try_on(provider: &str, control: &Control, script: &str, installed: &Installed) -> Result<()> {
    let real = installed
        .programs
        .iter()
        .find(|it| it.pin.provider == provider && it.pin.suite == Suite::Full)
        .with_context(|| format!("nothing is pinned for {provider}"))?;
    // The program's environment is cleared, so that the script has to know by itself what it spoils.
    let real = format!("REAL='{}'\n", real.path.display());
    let spoiled = folder()?.join(format!("{provider}-{}", control.script));
    fs::write(&spoiled, script.replacen('\n', &format!("\n{real}"), 1))?;
    fs::set_permissions(&spoiled, fs::Permissions::from_mode(0o755))?;

    let file = folder()?.join(format!("control-{provider}-{}.json", control.script));
    let call = |file: &Path| -> Result<BTreeSet<String>> {
        // A report of an earlier run must not be taken for one of this run.
        _ = fs::remove_file(file);
        let mut call = bowline(installed)?.arg(provider).arg("--binary").arg(&spoiled);
        for case in &control.only {
            call = call.arg("--only").arg(case);
        }
        // The call must fail; the report says whether for the right reason.
        _ = call.arg("--save").arg(file).quiet_output();
        let report = read(file)?;
        for cell in report.red().filter(|cell| !control.red.contains(&cell.case)) {
            let reason = cell.reason.as_deref().unwrap_or("no reason given");
            report::line(format_args!("    control: {provider}: {} is red: {reason}", cell.case));
        }
        Ok(report.red().map(|cell| cell.case.clone()).collect())
    };
    let mut red = call(&file)?;
    if red != control.red {
        // Like a red cell of the suite, a wrong set gets a second try: a case with a time limit can fail on a busy
        // machine. A control that is wrong is wrong twice.
        report::line(format_args!("    control: {provider} once more, because {red:?} is red"));
        red = call(&file)?;
    }
    if red != control.red {
        bail!(
            "{} on {provider}: {:?} should be red, and {red:?} is; the report is {}",
            control.script,
            control.red,
            file.display()
        );
    }
    Ok(())
}
