//! The decision on an approval: one function of the permission mode, the sort of action, and the files that it names.
//!
//! Every request of every agent is decided here, so a rule holds for all of them alike. Not here: the words in which a protocol
//! sends the decision, which are the dialect's.

use std::path::{Component, Path, PathBuf};

use bowline_protocol::{ApprovalCategory, OptionEffect, PermissionMode, Risk};
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::{ApprovalAnswer, DecisionRequest};

/// The decision of a permission mode.
#[derive(Clone, Debug, PartialEq)]
pub struct ModeDecision {
    /// The answer.
    pub answer: ApprovalAnswer,
    /// Why the mode denies an action that it seems to allow.
    pub notice: Option<&'static str>,
}

/// Decides a request by the permission mode of its conversation. No person is asked.
pub fn decide_by_mode(request: &DecisionRequest, talk: &Conversation) -> ModeDecision {
    // Thinking is `Other` with a low risk. An action of an unknown sort has a higher one.
    let reads = request.risk == Risk::Low
        && matches!(request.category, ApprovalCategory::Read | ApprovalCategory::Other);
    // A deletion has a high risk.
    let edits = request.category == ApprovalCategory::Edit && request.risk != Risk::High;
    let outside = if edits { reason_outside(request, talk) } else { None };
    let allowed = match talk.permission {
        PermissionMode::Read => reads,
        PermissionMode::Ask => false,
        PermissionMode::Edit => reads || (edits && is_within(request, talk)),
        PermissionMode::Yolo => true,
    };
    let (once, always) = (ApprovalAnswer::AllowOnce, ApprovalAnswer::AllowForSession);
    let answer = match (allowed, talk.permission) {
        (true, _) if is_offered(request, &once) => once,
        // Only here "always", which may outlive this session in the agent's settings: the user has allowed everything.
        (true, PermissionMode::Yolo) if is_offered(request, &always) => always,
        // An agent that offers no fitting way to allow it is refused.
        (true | false, _) => ApprovalAnswer::DENY,
    };
    let notice = outside.filter(|_| talk.permission == PermissionMode::Edit);
    ModeDecision { answer, notice }
}

/// Returns whether a person may allow what the mode does not: in `ask` and `edit`. `read` promises that nothing is changed.
pub fn is_open_to_a_person(mode: PermissionMode) -> bool {
    match mode {
        PermissionMode::Ask | PermissionMode::Edit => true,
        PermissionMode::Read | PermissionMode::Yolo => false,
    }
}

/// Returns whether the agent accepts an answer to its request. It can always be denied.
pub fn is_offered(request: &DecisionRequest, answer: &ApprovalAnswer) -> bool {
    let accepts = |effect| request.offers.is_empty() || request.offers.contains(&effect);
    match answer {
        ApprovalAnswer::AllowOnce => accepts(OptionEffect::AllowOnce),
        ApprovalAnswer::AllowForSession => accepts(OptionEffect::AllowAlways),
        ApprovalAnswer::AllowChanged(_) => request.changeable && accepts(OptionEffect::AllowOnce),
        ApprovalAnswer::Deny { .. } => true,
    }
}

/// Returns why an edit is not known to be inside the project. `None` if it is, or if the protocol does not name files.
fn reason_outside(request: &DecisionRequest, talk: &Conversation) -> Option<&'static str> {
    let paths = request.paths.as_ref()?;
    if paths.is_empty() {
        return Some(
            "an edit was refused: the agent named no files (`locations`), so it is not known whether they are in the project",
        );
    }
    (!is_within(request, talk)).then_some("an edit was refused: it names files outside of the project")
}

/// Returns whether a request names files, and all of them lie in the project or in a directory that the user added.
fn is_within(request: &DecisionRequest, talk: &Conversation) -> bool {
    let cwd = Path::new(&talk.cwd);
    let is_below = |path: &String| {
        let path = settled(&cwd.join(path));
        std::iter::once(&talk.cwd).chain(&talk.add_dirs).any(|dir| path.starts_with(settled(Path::new(dir))))
    };
    request.paths.as_ref().is_some_and(|paths| !paths.is_empty() && paths.iter().all(is_below))
}

/// Writes a path without `.` and `..`. Links are not followed: nothing is looked up here.
fn settled(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => path.push(part),
        }
        path
    })
}

#[cfg(test)]
mod tests;
