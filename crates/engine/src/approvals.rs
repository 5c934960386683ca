//! The decision on an approval: one function of the permission mode, the sort of action, and the files that it names. If policies
//! are in force, `ruling` puts them before it.
//!
//! Every request of every agent is decided here, so a rule holds for all of them alike. Not here: the words in which a protocol
//! sends the decision, which are the dialect's, and links, which only the caller can follow ([`RealPlace`]).
//!
//! A decision holds for the moment at which it is taken: an agent that may write can replace a directory by a link afterwards.

mod ruling;

use std::path::{Component, Path, PathBuf};

use bowline_protocol::{ApprovalCategory, OptionEffect, PermissionMode, Risk};
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::{ApprovalAnswer, DecisionRequest};

pub use ruling::{
    PolicyReach, PolicyRuling, PolicySet, RuledDecision, decide_by_policy, ruling_of, unreadable,
};

/// The decision of a permission mode.
#[derive(Clone, Debug, PartialEq)]
pub struct ModeDecision {
    /// The answer.
    pub answer: ApprovalAnswer,
    /// Why the mode denies an action that it seems to allow.
    pub notice: Option<&'static str>,
}

/// Whether the files of a request really lie in the project or in a directory that the user added, after all symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealPlace {
    /// Links were not followed, because the decision does not depend on them ([`depends_on_links`]).
    NotLookedUp,
    /// All of them do.
    Inside,
    /// At least one does not, or its place could not be found out.
    Outside,
}

/// Returns whether the decision on a request depends on where symbolic links lead: by its text, it would be allowed for its place.
pub fn depends_on_links(request: &DecisionRequest, talk: &Conversation) -> bool {
    talk.permission == PermissionMode::Edit && is_edit(request) && is_within(request, talk)
}

/// Decides a request by the permission mode of its conversation. No person is asked.
pub fn decide_by_mode(request: &DecisionRequest, talk: &Conversation, place: RealPlace) -> ModeDecision {
    // Thinking is `Other` with a low risk. An action of an unknown sort has a higher one.
    let reads = request.risk == Risk::Low
        && matches!(request.category, ApprovalCategory::Read | ApprovalCategory::Other);
    let edits = is_edit(request);
    let outside = if edits { reason_outside(request, talk, place) } else { None };
    let allowed = match talk.permission {
        PermissionMode::Read => reads,
        PermissionMode::Ask => false,
        // Both: an agent may shorten `link/..` in a path as text, or leave that to the kernel.
        PermissionMode::Edit => reads || (edits && is_within(request, talk) && place == RealPlace::Inside),
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

/// Returns whether a request is an edit. A deletion does not count as an edit: its risk is high.
fn is_edit(request: &DecisionRequest) -> bool {
    request.category == ApprovalCategory::Edit && request.risk != Risk::High
}

/// Returns why an edit is not known to be inside the project. `None` if it is, or if the protocol does not name files.
fn reason_outside(request: &DecisionRequest, talk: &Conversation, place: RealPlace) -> Option<&'static str> {
    let paths = request.paths.as_ref()?;
    if paths.is_empty() {
        return Some(
            "an edit was refused: the agent named no files (`locations`), so it is not known whether they are in the project",
        );
    }
    if !is_within(request, talk) {
        return Some("an edit was refused: it names files outside of the project");
    }
    (place == RealPlace::Outside).then_some(
        "an edit was refused: a symbolic link leads to a file outside of the project, or its place is not known",
    )
}

/// Returns whether a request names files, and all of them lie in the project or in a directory that the user added.
fn is_within(request: &DecisionRequest, talk: &Conversation) -> bool {
    let cwd = Path::new(&talk.cwd);
    let is_below = |path: &String| {
        let path = settled(&cwd.join(path));
        // Every path starts with an empty one, but a directory that is not known contains nothing.
        let mut dirs = std::iter::once(&talk.cwd).chain(&talk.add_dirs).filter(|dir| !dir.is_empty());
        dirs.any(|dir| path.starts_with(settled(Path::new(dir))))
    };
    request.paths.as_ref().is_some_and(|paths| !paths.is_empty() && paths.iter().all(is_below))
}

/// Writes a path without `.` and `..`. Nothing is looked up here, so links are not followed: see [`RealPlace`].
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
