//! What a person sees of a checkup: a line for each agent, and what is wrong with it below.

use std::fmt::Write as _;

use bowline::auth::{Evidence, Status};
use bowline::doctor::{Condition, Item, Problem, Row};
use bowline::health::Health;
use bowline_providers::ansi::harmless;
use bowline_providers::manifest::run::Mode;

use crate::commands::account;

/// The longest words about a login that fit into their column.
const LOGIN: usize = 34;

/// Returns the lines about an agent.
pub(super) fn agent(row: &Row) -> String {
    let mut text = String::new();
    let whose = account::whose(&row.provider, row.profile.as_deref());
    if row.health == Health::Missing {
        let why: Vec<String> =
            row.problems.iter().map(|problem| format!("{}{}", problem.what, fixed(problem))).collect();
        let _ = writeln!(text, "- {whose:9} {}", why.join("; "));
        return text;
    }
    let mark = if row.is_usable() { '+' } else { '!' };
    let certified = match row.is_certified() {
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
    let _ = writeln!(text, "{}", line.trim_end());
    if let Some(live) = row.live.as_ref().filter(|live| live.answered) {
        let seconds = live.took_ms / 1000;
        let tenths = live.took_ms % 1000 / 100;
        let _ = writeln!(text, "            a request was answered in {seconds}.{tenths} s");
    }
    for problem in &row.problems {
        let _ = writeln!(text, "            {}{}", problem.what, fixed(problem));
    }
    for remark in &row.remarks {
        let _ = writeln!(text, "            {remark}");
    }
    text
}

fn fixed(problem: &Problem) -> String {
    problem.fix.as_ref().map(|fix| format!("; fix: {fix}")).unwrap_or_default()
}

/// Says what is known about the login.
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
    let word = |mode: Mode| match row.modes.better.get(&mode) {
        Some(format) => format!("{} ({format})", mode.as_str()),
        None => mode.as_str().to_owned(),
    };
    let words: Vec<String> = row.modes.permissions.iter().map(|mode| word(Mode::from(*mode))).collect();
    words.join(" ")
}

/// Returns the lines about our own surroundings.
pub(super) fn machine(items: &[Item]) -> String {
    let mut text = String::from("\n");
    for item in items {
        let mark = match item.condition {
            Condition::Good => '+',
            Condition::Fair | Condition::Bad => '!',
        };
        // Why a promise is as it is does not fit on a line; `--json` has all of it.
        let what = item.what.split_once(": ").filter(|_| item.condition == Condition::Good);
        // A line of somebody's file may hold anything.
        let what = harmless(what.map_or(item.what.as_str(), |(word, _)| word));
        let _ = match &item.fix {
            // The line of a file stands below what is wrong with it, and what was expected below that.
            _ if what.contains('\n') => {
                let lines = what.lines().chain(item.fix.as_deref()).collect::<Vec<_>>();
                writeln!(text, "{mark} {:9} {}", item.name, lines.join("\n            "))
            }
            Some(fix) => writeln!(text, "{mark} {:9} {what}; fix: {fix}", item.name),
            None => writeln!(text, "{mark} {:9} {what}", item.name),
        };
    }
    text
}

/// Returns the last lines.
pub(super) fn end(usable: &[String], all: usize, bad: &[&str]) -> String {
    if !bad.is_empty() {
        let mut names = bad.to_vec();
        names.dedup();
        return format!("\nNo run will work before this does: {}\n", names.join(", "));
    }
    match usable {
        [] => "\nNo agent can be used. `bowline demo` shows a run without one.\n".to_owned(),
        [one] => format!("\n1 of {all} can be used: {one}\n"),
        several => format!("\n{} of {all} can be used: {}\n", several.len(), several.join(", ")),
    }
}
