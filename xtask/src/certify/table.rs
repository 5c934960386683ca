//! `docs/compatibility.md`: what is proven of which program, as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Report;

/// Returns the file.
pub(super) fn file(reports: &[Report]) -> (&'static str, String) {
    let mut text = String::from(
        "# Compatibility\n\n\
         After reading this page you know which promises of Bowline hold for which version of which agent.\n\n\
         `cargo xtask certify --write` generates this page from the reports of `bowline certify` on the programs that\n\
         `conformance/` pins; CI compares. Each program ran as it ships, without a network, against the simulator.\n\n\
         `yes` proven · `no` the program cannot do it, for the reason below · `later` needs a part of Bowline that does not\n\
         exist yet, or is a known fault · empty: older programs run only the smoke cases.\n\n| |",
    );
    for report in reports {
        let version = report.version.as_deref().unwrap_or("?");
        let _ = write!(text, " {} {version} |", report.title);
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(reports.len()));
    text.push('\n');
    let longest = reports.iter().max_by_key(|report| report.cells.len());
    for cell in longest.map(|report| report.cells.as_slice()).unwrap_or_default() {
        let _ = write!(text, "| `{}`: {} |", cell.case, cell.about);
        for report in reports {
            let word = match report.status_of(&cell.case) {
                Some("green") => "yes",
                Some("not_claimed") => "no",
                Some("pending") => "later",
                Some(other) => other,
                None => "",
            };
            let _ = write!(text, " {word} |");
        }
        text.push('\n');
    }
    text.push_str("\n## Reasons\n");
    for report in reports {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for cell in &report.cells {
            if let Some(reason) = &cell.reason {
                reasons.entry(reason).or_default().push(&cell.case);
            }
        }
        if reasons.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{} {}:\n\n", report.title, report.version.as_deref().unwrap_or("?"));
        for (reason, cases) in reasons {
            let cases: Vec<String> = cases.iter().map(|case| format!("`{case}`")).collect();
            let _ = writeln!(text, "- {}: {reason}", cases.join(", "));
        }
    }
    ("docs/compatibility.md", text)
}
