//! The router and the doctor on the real programs: the test `routes` of the command, which is told where they are.

use std::fs;

use anyhow::Result;
use serde_json::json;

use super::folder;
use crate::real_clis::{Installed, Suite};
use crate::report;
use crate::sh::{Call, Stopwatch};

pub(super) fn run(installed: &Installed) -> Result<()> {
    report::line("    routes: retry, fallback, breaker, budget, doctor and `acp:<command>` on real programs");
    let newest = installed.programs.iter().filter(|it| it.pin.suite == Suite::Full);
    let programs: Vec<_> = newest.map(|it| json!({ "provider": it.pin.provider, "path": it.path })).collect();
    let file = folder()?.join("programs.json");
    fs::write(&file, json!({ "node": installed.node, "programs": programs }).to_string())?;
    let time = Stopwatch::start();
    let test = Call::cargo("test --quiet --package bowline-cli --test routes");
    test.env("BOWLINE_REAL_PROGRAMS", file).run()?;
    report::line(format_args!("    routes: {:.0} s", time.elapsed().as_secs_f64()));
    Ok(())
}
