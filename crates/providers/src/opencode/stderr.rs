//! Reports that are only on stderr: permissions that were denied because no person could be asked, the model
//! of text mode, and the log.

use bowline_protocol::kinds::{ApprovalAsked, ApprovalDecided, ModelChanged};
use bowline_protocol::{
    ApprovalCategory, ApprovalId, Category, Code, Decider, Decision, EnforcedBy, Kind, Risk,
};

use crate::ansi;
use crate::dialect::Output;
use crate::failure::Report;

/// The lines so far.
#[derive(Debug, Default)]
pub(super) struct OpencodeStderr {
    asked: u32,
    /// The log's message about an error that the program itself calls unknown.
    reason: Option<Code>,
}

impl OpencodeStderr {
    pub(super) fn line(&mut self, line: &str, out: &mut Output<'_>) {
        let line = ansi::strip(line);
        if let Some(asked) = refused_permission(&line) {
            // In `run`, 1.18.33 rejects every "ask" by itself, stops after the step and exits with 0. Only stderr shows it.
            self.refused(asked, out);
        }
        if let Some(model) = model(&line) {
            out.emit(Kind::ModelChanged(ModelChanged { model: model.to_owned(), reason: None }));
        }
        self.reason = self.reason.take().or_else(|| reason(&line));
    }

    /// Adds what the log knows to a failure that the program itself calls unknown.
    pub(super) fn explain(&self, report: Report) -> Report {
        let unknown = report.category == Some(Category::Unknown);
        match &self.reason {
            Some(code) if unknown => Report { category: None, code: Some(code.clone()), ..report },
            Some(_) | None => report,
        }
    }

    fn refused(&mut self, asked: &str, out: &mut Output<'_>) {
        self.asked += 1;
        let id = ApprovalId::from(format!("permission-{}", self.asked));
        out.emit(Kind::ApprovalAsked(ApprovalAsked::of_agent(id.clone(), category(asked), Risk::Med, asked)));
        out.emit(Kind::ApprovalDecided(ApprovalDecided {
            id,
            decision: Decision::Deny,
            by: Decider::Policy,
            rule: None,
            reason: Some("the program denied it without asking".to_owned()),
            changed_input: None,
            enforced_by: EnforcedBy::Agent,
        }));
    }
}

/// Reads `! permission requested: bash (touch x); auto-rejecting`.
fn refused_permission(line: &str) -> Option<&str> {
    let (before, asked) = line.split_once("permission requested: ")?;
    (before.trim() == "!").then_some(())?;
    asked.trim_end().strip_suffix("; auto-rejecting")
}

/// Reads `> build · some-model`, the headline of text mode: the agent's mode and the model.
fn model(line: &str) -> Option<&str> {
    let (mode, model) = line.trim().strip_prefix("> ")?.split_once(" · ")?;
    // Output of commands may begin with `> ` too.
    (!mode.contains(' ') && !model.contains(' ')).then_some(model)
}

fn category(asked: &str) -> ApprovalCategory {
    match asked.split([' ', '(']).next().unwrap_or_default() {
        "bash" => ApprovalCategory::Shell,
        "edit" | "write" | "patch" | "apply_patch" => ApprovalCategory::Edit,
        "read" | "list" | "glob" | "grep" => ApprovalCategory::Read,
        "webfetch" | "websearch" | "codesearch" => ApprovalCategory::Network,
        _ => ApprovalCategory::Other,
    }
}

fn reason(line: &str) -> Option<Code> {
    let named = |names: &[&str]| names.iter().any(|name| line.contains(name));
    if named(&["ModelNotFoundError"]) {
        Some(Code::ModelNotFound)
    } else if named(&["ProviderAuthError", "LoadAPIKeyError"]) {
        Some(Code::NotLoggedIn)
    } else {
        None
    }
}
