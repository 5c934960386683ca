//! A report as a table that a person reads from the top.

use std::fmt::Write as _;

use bowline_certify::{CaseStatus, Report};

/// Draws a report. A red case has its evidence below.
pub(super) fn draw(report: &Report) -> String {
    let mut text = String::new();
    let version = report.version.as_deref().unwrap_or("of unknown version");
    let _ = writeln!(text, "{} {version}  {}", report.title, report.program);
    let _ = writeln!(
        text,
        "adapter {}, {} suite, {}{}",
        report.adapter_version,
        report.suite,
        report.isolation,
        seconds(report.took_ms)
    );
    text.push('\n');
    let width = report.cells.iter().map(|cell| cell.case.len()).max().unwrap_or_default();
    for cell in &report.cells {
        let status = cell.status.as_str();
        let about = match (cell.status, &cell.reason) {
            (CaseStatus::NotClaimed | CaseStatus::Pending, Some(reason)) => reason,
            (CaseStatus::Green | CaseStatus::Red | CaseStatus::NotClaimed | CaseStatus::Pending, _) => {
                &cell.about
            }
        };
        let _ = writeln!(text, "  {status:<11}  {:<width$}  {about}", cell.case);
        for line in &cell.evidence {
            let _ = writeln!(text, "  {:<11}  {:<width$}    {line}", "", "");
        }
    }
    text.push_str(&novel(report));
    let count = |status| report.count(status);
    let _ = writeln!(
        text,
        "\n{} green, {} red, {} not claimed, {} pending",
        count(CaseStatus::Green),
        count(CaseStatus::Red),
        count(CaseStatus::NotClaimed),
        count(CaseStatus::Pending)
    );
    if let Some(changes) = &report.drift {
        text.push_str("\nDrift since the older report:\n");
        for change in changes {
            let _ = writeln!(text, "  {change}");
        }
        if changes.is_empty() {
            text.push_str("  none\n");
        }
    }
    text
}

/// Lists the fields that no recording has. Of the version that was certified they are no news: the recordings do not hold
/// everything that it can print, so they are only counted.
fn novel(report: &Report) -> String {
    let known = bowline_providers::compat::certified(&report.provider);
    match report.novel.len() {
        0 => String::new(),
        number if known.is_some() && known == report.version.as_deref() => {
            format!(
                "\n{number} fields are not in Bowline's recordings of this certified version; `--json` lists them\n"
            )
        }
        _ => {
            let head = "\nNew fields, not in Bowline's recordings (everything still decodes):\n";
            report.novel.iter().fold(head.to_owned(), |text, path| text + &format!("  {path}\n"))
        }
    }
}

/// Writes a time behind something; one that is nothing is not written.
pub(super) fn seconds(ms: u64) -> String {
    if ms == 0 { String::new() } else { format!(", {}.{} s", ms / 1000, ms % 1000 / 100) }
}
