//! Whether policies hold on the real program: a denied action does not happen, whatever mode the program is asked to run in.

use bowline::policy::PolicySource;
use bowline::{Kind, PermissionMode, PolicySpec};
use bowline_protocol::kinds::ApprovalDecided;
use bowline_protocol::{Decider, Decision};

use crate::case_failure::{CaseFailure, CaseVerdict};
use crate::place::{CaseContext, CasePlace, WatchedRun};

/// The file that the agent wants to make.
const ASKED: &str = "risky.txt";

fn source(spec: &PolicySpec) -> Result<PolicySource, CaseFailure> {
    PolicySource::of_spec(spec).map_err(CaseFailure::new)
}

fn decisions(seen: &WatchedRun) -> Vec<&ApprovalDecided> {
    let mut decisions = Vec::new();
    for event in &seen.events {
        if let Kind::ApprovalDecided(it) = &event.kind {
            decisions.push(it);
        }
    }
    decisions
}

async fn risky(
    place: &CasePlace,
    mode: PermissionMode,
    policy: &PolicySpec,
) -> Result<WatchedRun, CaseFailure> {
    let file = place.project.join(ASKED);
    let prompt = format!("[[risky file={}]] Do it.", file.display());
    place.run(place.asking(&prompt, mode).policy(source(policy)?)).await
}

/// The policy denies every command and every write, in every mode in which the agent could act. Another place shows that the same policy
/// without the denials lets the action happen, without a person.
pub(super) async fn denied(context: CaseContext) -> CaseVerdict {
    let everything = || vec!["*".to_owned()];
    let denies = PolicySpec {
        shell_denylist: everything(),
        write_denylist: vec!["**".to_owned()],
        ..PolicySpec::default()
    };
    for (name, mode) in [("ask", PermissionMode::Ask), ("yolo", PermissionMode::Yolo)] {
        let place = context.place(name).await?;
        let seen = risky(&place, mode, &denies).await?;
        let file = place.project.join(ASKED);
        seen.hold(!file.exists(), || format!("a denied action was done under `{}`", mode.as_str()))?;
        let by_rule = |it: &&ApprovalDecided| {
            it.decision == Decision::Deny
                && it.by == Decider::Policy
                && it.rule.as_deref().is_some_and(|rule| rule.starts_with("policy:"))
        };
        let made = decisions(&seen);
        seen.hold(made.iter().any(by_rule), || {
            format!("no rule of the policy denied it under `{}`: {made:?}", mode.as_str())
        })?;
    }
    let place = context.place("allowed").await?;
    let seen = risky(&place, PermissionMode::Ask, &PolicySpec::default()).await?;
    seen.hold(place.project.join(ASKED).exists(), || {
        format!("the policy allows the action, and it was not done: {:?}", decisions(&seen))
    })
}
