//! The text of a checkup: a line for each agent, with its problems below.

use std::fmt::Write as _;

use bowline::auth::{Evidence, Status};
use bowline::doctor::{Condition, MachineItem, Problem, Row};
use bowline::health::Health;
use bowline_protocol::PermissionMode;
use bowline_providers::ansi::harmless;

use super::ExternalRow;
use crate::commands::account;
use crate::remedies;
use crate::ui::tables::{self, Layout, Tone};

/// The maximum width of the login column.
const LOGIN: usize = 34;

/// The columns of an agent's line on a terminal, and their minimum widths: together with the gaps, 80.
const HEAD: [&str; 7] = ["", "AGENT", "VERSION", "CERTIFIED", "LOGIN", "ANSWERS", "PERMISSIONS"];
const WIDTHS: [usize; 7] = [1, 10, 9, 9, 17, 8, 14];

/// The indentation of the lines below an agent.
const BELOW: usize = 12;

/// Returns the headings, for a terminal.
pub(super) fn head(layout: Layout) -> String {
    match layout {
        Layout::Pipe => String::new(),
        Layout::Terminal { .. } => {
            tables::lines(&HEAD.map(str::to_owned), &widths(layout), 0, layout, |_| Tone::Head)
        }
    }
}

/// Returns the width of each column. Rows are printed one by one, so that a row cannot widen its column.
fn widths(layout: Layout) -> [usize; 7] {
    let Layout::Terminal { width, .. } = layout else { return WIDTHS };
    let mut widths = WIDTHS;
    let used: usize = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
    // The columns that wrap get the width beyond 80: permissions first, then the login.
    let more = width.saturating_sub(used);
    widths[6] += more.min(30);
    widths[4] += more.saturating_sub(30).min(LOGIN - widths[4]);
    widths
}

/// Returns the lines about an agent.
pub(super) fn agent(row: &Row, layout: Layout) -> String {
    let whose = account::whose(&row.provider, row.profile.as_deref());
    if row.health == Health::Missing {
        let why: Vec<String> =
            row.problems.iter().map(|problem| format!("{}{}", problem.what, fixed(problem))).collect();
        return missing(&whose, &why.join("; "), layout);
    }
    let mut text = match layout {
        Layout::Pipe => piped(row, &whose),
        Layout::Terminal { .. } => laid_out(row, whose, layout),
    };
    if let Some(live) = row.live.as_ref().filter(|live| live.answered) {
        let seconds = live.took_ms / 1000;
        let tenths = live.took_ms % 1000 / 100;
        let line = format!("answered a request in {seconds}.{tenths} s");
        text.push_str(&layout.paragraph(BELOW, &line));
    }
    for problem in &row.problems {
        text.push_str(&layout.paragraph(BELOW, &format!("{}{}", problem.what, fixed(problem))));
    }
    for remark in &row.remarks {
        text.push_str(&layout.paragraph(BELOW, remark));
    }
    text
}

/// Returns the line about an agent that is not installed.
fn missing(whose: &str, why: &str, layout: Layout) -> String {
    match layout {
        Layout::Pipe => format!("- {whose:9} {}\n", tables::in_one_line(why)),
        Layout::Terminal { width, .. } => {
            let [mark, name, ..] = WIDTHS;
            let cells = ["-".to_owned(), tables::in_one_line(whose), tables::in_one_line(why)];
            let widths = [mark, name, width.saturating_sub(mark + name + 4).max(20)];
            tables::lines(&cells, &widths, 0, layout, |_| Tone::Faint)
        }
    }
}

/// Returns an agent's line for a pipe. Its form does not change, because scripts read it.
fn piped(row: &Row, whose: &str) -> String {
    let mark = if row.is_usable() { '+' } else { '!' };
    let certified = match row.is_certified() {
        Some(true) if row.certified_here.is_some() => "certified here",
        Some(true) => "certified",
        Some(false) => "not certified",
        None => "",
    };
    let login: String = login(row).chars().take(LOGIN).collect();
    let mut line = format!(
        "{mark} {whose:9} {:10} {certified:14} {login:LOGIN$} {:8} {:18}",
        row.version.as_deref().unwrap_or("?"),
        row.modes.streams,
        permissions(row),
    );
    if let Some(how) = &row.how {
        line.push_str(&format!(" {how}"));
    }
    format!("{}\n", harmless(line.trim_end()))
}

/// Returns an agent's line for a terminal. `--json` also has the way it was found.
fn laid_out(row: &Row, whose: String, layout: Layout) -> String {
    let usable = row.is_usable();
    let certified = match row.is_certified() {
        Some(true) if row.certified_here.is_some() => "here",
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    let cells = [
        if usable { "+" } else { "!" }.to_owned(),
        whose,
        row.version.clone().unwrap_or_else(|| "?".to_owned()),
        certified.to_owned(),
        login(row),
        row.modes.streams.to_string(),
        permissions(row),
    ];
    let cells = cells.map(|cell| tables::in_one_line(&cell));
    let tone = |column: usize| match column {
        0 | 1 if usable => Tone::Good,
        0 | 1 => Tone::Warning,
        _ => Tone::Plain,
    };
    tables::lines(&cells, &widths(layout), 0, layout, tone)
}

fn fixed(problem: &Problem) -> String {
    remedies::hint_or(&problem.remedies, problem.fix.as_deref())
        .map(|fix| format!("; fix: {fix}"))
        .unwrap_or_default()
}

/// Describes the state of the login.
fn login(row: &Row) -> String {
    let auth = &row.auth;
    match auth.status {
        Status::Authenticated => {
            let by = auth.word.as_ref().filter(|word| word.logged_in).and_then(|word| word.method.clone());
            let seen = auth.evidence.iter().find_map(|evidence| match evidence {
                Evidence::Variable(name) => Some(name.clone()),
                Evidence::File(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
                Evidence::NotNeeded => Some("none needed".to_owned()),
                Evidence::Trace(_) | Evidence::Word => None,
            });
            match by.or(seen) {
                Some(by) => format!("logged in ({by})"),
                None => "logged in".to_owned(),
            }
        }
        Status::Installed | Status::NotFound if auth.unknown => "login unknown".to_owned(),
        Status::Installed | Status::NotFound => "not logged in".to_owned(),
    }
}

fn permissions(row: &Row) -> String {
    let word = |mode: PermissionMode| match row.modes.better.get(&mode) {
        Some(format) => format!("{} ({format})", mode.as_str()),
        None => mode.as_str().to_owned(),
    };
    let words: Vec<String> = row.modes.permissions.iter().map(|mode| word(*mode)).collect();
    words.join(" ")
}

/// Returns the lines about external CLIs.
pub(super) fn external(rows: &[ExternalRow]) -> String {
    let mut text = String::new();
    for row in rows {
        let (model, program) = (harmless(&row.model), harmless(&row.program));
        let _ = match &row.path {
            Some(path) => writeln!(text, "+ {model:9} external CLI, `--model {model}`: {}", path.display()),
            None => {
                writeln!(text, "- {model:9} external CLI, `--model {model}`: `{program}` is not installed")
            }
        };
    }
    text
}

/// Returns the lines about the machine.
pub(super) fn machine(items: &[MachineItem], layout: Layout) -> String {
    let mut text = String::from("\n");
    for item in items {
        let (mark, tone) = match item.condition {
            Condition::Good => ("+", Tone::Good),
            Condition::Fair => ("!", Tone::Warning),
            Condition::Bad => ("!", Tone::Bad),
        };
        // The reason after the colon does not fit on a line; `--json` has it.
        let what = item.what.split_once(": ").filter(|_| item.condition == Condition::Good);
        // The text may quote a line of a file, which may contain control sequences.
        let what = harmless(what.map_or(item.what.as_str(), |(word, _)| word));
        let mark = layout.paint(tone, mark);
        // The words in backticks of such a text are keys of a file, not fields of a request.
        let fix = remedies::hint(&item.remedies).or_else(|| item.fix.clone());
        let body = match &fix {
            // Several lines: the problem, the line of the file, and what was expected.
            _ if what.contains('\n') => {
                let lines = what.lines().chain(fix.as_deref()).collect::<Vec<_>>();
                format!("{:BELOW$}{}\n", "", lines.join("\n            "))
            }
            Some(fix) => layout.paragraph(BELOW, &format!("{what}; fix: {fix}")),
            None => layout.paragraph(BELOW, &what),
        };
        let _ = write!(text, "{mark} {:9} {}", item.name, body.trim_start());
    }
    text
}

/// Returns the last lines.
pub(super) fn end(usable: &[String], all: usize, bad: &[&str], layout: Layout) -> String {
    let line = if bad.is_empty() {
        match usable {
            [] => "No agent is usable. `bowline demo` plays a run without one.".to_owned(),
            [one] => format!("1 of {all} is usable: {one}"),
            several => format!("{} of {all} are usable: {}", several.len(), several.join(", ")),
        }
    } else {
        let mut names = bad.to_vec();
        names.dedup();
        format!("Runs fail until this is fixed: {}", names.join(", "))
    };
    format!("\n{}", layout.paragraph(0, &line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_terminal_fit_80_and_grow_with_it() {
        let total = |width: usize| {
            let layout = Layout::Terminal { width, colour: false };
            widths(layout).iter().sum::<usize>() + 2 * (WIDTHS.len() - 1)
        };
        assert_eq!((total(40), total(80), total(100)), (80, 80, 100));
        assert!(head(Layout::Terminal { width: 80, colour: false }).trim_end().len() <= 80);
        assert_eq!(head(Layout::Pipe), "");
    }
}
