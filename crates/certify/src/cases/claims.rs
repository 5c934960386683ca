//! Which programs have to pass a case: claims, by the manifest.

use bowline_protocol::{Approvals, Capabilities, PermissionMode, ResumeSupport};
use bowline_providers::manifest::run::RunFlag;
use bowline_providers::manifest::{Manifest, PromptStyle};

use super::{CaseClaim, conversations, host_tools};

pub(super) fn every_program(_: &Manifest) -> CaseClaim {
    CaseClaim::Yes
}

/// Claims long prompts if they do not have to fit into an argument.
pub(super) fn whole_prompt(manifest: &Manifest) -> CaseClaim {
    match manifest.prompt {
        PromptStyle::Stdin | PromptStyle::Request | PromptStyle::Protocol => CaseClaim::Yes,
        PromptStyle::Arg => {
            CaseClaim::No(Some("it takes its prompt as an argument, of at most 96 KiB".to_owned()))
        }
    }
}

/// Claims a case if the manifest supports the option. A refused option has its reason there.
pub(super) fn option(manifest: &Manifest, flag: RunFlag) -> CaseClaim {
    match manifest.run.flags.get(&flag) {
        Some(how) if how.is_done() => CaseClaim::Yes,
        Some(how) => {
            CaseClaim::No(how.refused.clone().or_else(|| how.ignored.clone()).or_else(|| how.granted.clone()))
        }
        None => CaseClaim::No(None),
    }
}

/// Returns the capabilities of the format for `--permission ask`, which most cases use.
pub(super) fn asking(manifest: &Manifest) -> Capabilities {
    let better = manifest.better_format(PermissionMode::Ask).map(|(name, _)| manifest.in_format(name));
    better.map_or_else(|| manifest.capabilities.clone(), |manifest| manifest.into_owned().capabilities)
}

/// Claims a case that needs a permission mode.
pub(super) fn mode(manifest: &Manifest, mode: PermissionMode) -> CaseClaim {
    match manifest.permission.get(&mode) {
        Some(how) => how.refused.clone().map_or(CaseClaim::Yes, |why| CaseClaim::No(Some(why))),
        None => CaseClaim::No(None),
    }
}

/// Claims a case that needs a capability of live sessions.
pub(super) fn live(manifest: &Manifest, has: fn(&Capabilities) -> bool, otherwise: &str) -> CaseClaim {
    if has(&conversations::live(manifest)) {
        CaseClaim::Yes
    } else {
        CaseClaim::No(Some(otherwise.to_owned()))
    }
}

/// Claims that functions of the embedder can be called.
pub(super) fn host_tool(manifest: &Manifest) -> CaseClaim {
    if host_tools::is_claimed(manifest) { CaseClaim::Yes } else { option(manifest, RunFlag::McpConfig) }
}

/// Claims that a person can decide.
pub(super) fn asks(manifest: &Manifest) -> CaseClaim {
    live(manifest, |has| has.approvals == Approvals::Interactive, "it does not ask before it acts")
}

/// Claims that a live session can be resumed, be it with a process for each prompt.
pub(super) fn resumes(manifest: &Manifest) -> CaseClaim {
    if manifest.resumes_per_prompt() { CaseClaim::Yes } else { ends_idle(manifest) }
}

/// Claims that the process of a live session is ended when it is idle: the next one can do as much.
pub(super) fn ends_idle(manifest: &Manifest) -> CaseClaim {
    if manifest.resumes_per_prompt() {
        let why = "its idle process is kept: a further one would not ask for approvals";
        return CaseClaim::No(Some(why.to_owned()));
    }
    live(manifest, |has| has.resume == ResumeSupport::ById, "its live sessions cannot be resumed")
}

/// Claims that a live session can be forked.
pub(super) fn forks(manifest: &Manifest) -> CaseClaim {
    let format = manifest.live_format().unwrap_or(&manifest.default_format);
    option(&manifest.in_format(format), RunFlag::Fork)
}

/// Claims that a steer can meet an open approval.
pub(super) fn steers_while_asking(manifest: &Manifest) -> CaseClaim {
    match live(manifest, |has| has.steers, "it cannot be steered while it works") {
        CaseClaim::Yes => asks(manifest),
        refused => refused,
    }
}

/// Claims that a person can change the input of a tool.
pub(super) fn changes_input(manifest: &Manifest) -> CaseClaim {
    match asks(manifest) {
        CaseClaim::Yes => live(
            manifest,
            |has| has.changes_input,
            "its protocol has no decision that changes the input of a tool",
        ),
        refused => refused,
    }
}

/// Claims that a second prompt knows the first one: in the same process, or in one that resumes the session.
pub(super) fn remembered(manifest: &Manifest) -> CaseClaim {
    let kept = manifest.live_format().is_some();
    let resumed = manifest.capabilities.resume == ResumeSupport::ById;
    if kept || resumed {
        CaseClaim::Yes
    } else {
        CaseClaim::No(Some("it has a process for each prompt, and its sessions cannot be resumed".to_owned()))
    }
}

/// Claims that policies can be enforced: the program asks before it acts in one of its formats.
pub(super) fn policed(manifest: &Manifest) -> CaseClaim {
    if manifest.asking_format().is_some() {
        CaseClaim::Yes
    } else {
        CaseClaim::No(Some("it does not ask in any of its formats".to_owned()))
    }
}

/// Claims that a repository's code does not run, unless all such runs are refused.
pub(super) fn repository_code(manifest: &Manifest) -> CaseClaim {
    match mode(manifest, PermissionMode::Ask) {
        CaseClaim::Yes => {
            let how = &manifest.repository;
            let refused = how.refused.clone().filter(|_| how.refused_for.is_empty());
            refused.map_or(CaseClaim::Yes, |why| CaseClaim::No(Some(why)))
        }
        refused => refused,
    }
}
