//! `bowline trust`: shows what a project's files would run, and pins their content.

use std::fmt::Write as _;

use bowline_config::Places;
use bowline_config::trust::{Claim, ClaimKind, ReviewedFile, TrustError, TrustReview, TrustState};
use bowline_providers::ansi;
use serde_json::{Value, json};

use crate::args::trust::TrustArgs;
use crate::commands::live::outside_of_agents;
use crate::error::{CommandError, Fault};
use crate::human::wrapped_lines;
use crate::ui::Stdout;
use crate::ui::tables::Layout;
use crate::ui::terminal;

/// The variables that mark the processes of an agent.
const SESSION_MARKS: [&str; 2] = ["BOWLINE_SESSION_ID", "BOWLINE_SPAWN"];

/// The action of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrustAction {
    Shown,
    Pinned,
    Removed,
    NothingToRemove,
}

/// Runs the command.
pub(crate) fn run(args: &TrustArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    // An agent that writes to the repository must not be able to trust what it wrote.
    if let Some(mark) = SESSION_MARKS.iter().find(|mark| terminal::variable(mark).is_some() && !args.show) {
        return Err(CommandError::new(Fault::NotAllowed, "an agent cannot trust project files")
            .caused_by(format!("{mark} is set: this process belongs to a session"))
            .hint("run `bowline trust` in your own terminal"));
    }
    // The variables can be cleared, the parents of a process cannot.
    if !args.show {
        outside_of_agents("trust project files")?;
    }
    let review = TrustReview::of(&Places::from_env(None)).map_err(failed)?;
    let done = if args.remove {
        if review.remove().map_err(failed)? { TrustAction::Removed } else { TrustAction::NothingToRemove }
    } else if args.show || (review.files.is_empty() && review.state == TrustState::Unpinned) {
        // A pin of nothing would call the first file of the project a changed one.
        TrustAction::Shown
    } else {
        review.pin().map_err(failed)?;
        TrustAction::Pinned
    };
    if args.json {
        return stdout.print(&format!("{:#}\n", report(&review, done)));
    }
    let text = text(&review, done);
    match stdout.layout() {
        Layout::Terminal { width, .. } => stdout.print(&wrapped_lines(&text, width)),
        Layout::Pipe => stdout.print(&ansi::harmless(&text)),
    }
}

fn failed(error: TrustError) -> CommandError {
    if let TrustError::Config(error) = error {
        return error.into();
    }
    if matches!(error, TrustError::Foreign { .. }) {
        return CommandError::new(Fault::Configuration, error.to_string())
            .hint("copy it, or `chown` it to yourself: its owner could change it after your review");
    }
    CommandError::new(Fault::Configuration, "could not update the trust").caused_by(error)
}

/// Puts a text on one line: names of a project must not forge lines of our output.
fn one_line(text: &str) -> String {
    ansi::harmless(text).replace('\n', " ")
}

fn text(review: &TrustReview, done: TrustAction) -> String {
    let mut text = format!("project: {}\n", one_line(&review.directory.display().to_string()));
    for file in &review.files {
        let path = file.path.strip_prefix(&review.directory).unwrap_or(&file.path).display().to_string();
        let _ = writeln!(text, "  {}{}", one_line(&path), remark(file));
        for (name, Claim { line, kind }) in &file.claims {
            let _ = writeln!(text, "    line {line}: `{}` {}", one_line(name), one_line(&kind.to_string()));
        }
    }
    if review.files.is_empty() {
        text.push_str("  no files that need trust\n");
    }
    // Without files there is no state to print, unless the trust was removed.
    let said_nothing = matches!(done, TrustAction::Pinned | TrustAction::NothingToRemove)
        || (done == TrustAction::Shown && review.state == TrustState::Unpinned);
    if review.files.is_empty() && said_nothing {
        return text;
    }
    let state = match (done, &review.state) {
        (TrustAction::Shown, TrustState::Unpinned) => {
            "not trusted; `bowline trust` trusts their current content"
        }
        (TrustAction::Shown, TrustState::Trusted) => "trusted; `bowline trust --remove` withdraws the trust",
        (TrustAction::Shown, TrustState::Changed(_)) => {
            "no longer trusted: files have changed; `bowline trust` trusts their current content"
        }
        (TrustAction::Pinned, _) => "trusted with their current content; a changed file is untrusted again",
        (TrustAction::Removed, _) => "no longer trusted",
        (TrustAction::NothingToRemove, _) => "was not trusted",
    };
    let _ = writeln!(text, "{state}");
    text
}

fn remark(file: &ReviewedFile) -> String {
    let mut words = Vec::new();
    if file.is_program {
        words.push("a program that a file above runs".to_owned());
    }
    if !file.agents.is_empty() {
        words.push(format!("{} may run code from it", file.agents.join(", ")));
    }
    if matches!(file.state, TrustState::Changed(_)) {
        words.push("new or changed since it was trusted".to_owned());
    }
    if words.is_empty() { String::new() } else { format!(": {}", words.join("; ")) }
}

fn report(review: &TrustReview, done: TrustAction) -> Value {
    let claim = |(name, claim): &(String, Claim)| {
        let (word, object) = match &claim.kind {
            ClaimKind::Runs { program, .. } => ("runs", program),
            ClaimKind::Reads { variable } => ("reads", variable),
            ClaimKind::Sets { variable, .. } => ("sets", variable),
            ClaimKind::Contacts { address, .. } => ("contacts", address),
            ClaimKind::Uses { profile } => ("uses", profile),
            ClaimKind::Configures { option, .. } => ("configures", option),
        };
        let mut all = json!({"line": claim.line, "name": name, "claim": word, "value": object});
        match &claim.kind {
            ClaimKind::Runs { args, .. } => all["args"] = json!(args),
            ClaimKind::Contacts { variable, .. } => all["variable"] = json!(variable),
            ClaimKind::Configures { value, .. } | ClaimKind::Sets { value, .. } => all["to"] = json!(value),
            ClaimKind::Reads { .. } | ClaimKind::Uses { .. } => {}
        }
        all
    };
    let files: Vec<Value> = review
        .files
        .iter()
        .map(|file| {
            json!({
                "path": file.path.to_string_lossy(),
                "program": file.is_program,
                "agents": file.agents,
                "changed": matches!(file.state, TrustState::Changed(_)),
                "claims": file.claims.iter().map(claim).collect::<Vec<_>>(),
            })
        })
        .collect();
    let state = match (done, &review.state) {
        (TrustAction::Pinned, _) | (TrustAction::Shown, TrustState::Trusted) => "trusted",
        (TrustAction::Shown, TrustState::Changed(_)) => "changed",
        (TrustAction::Removed | TrustAction::NothingToRemove, _)
        | (TrustAction::Shown, TrustState::Unpinned) => "unpinned",
    };
    json!({"v": 1, "directory": review.directory.to_string_lossy(), "state": state, "files": files})
}
