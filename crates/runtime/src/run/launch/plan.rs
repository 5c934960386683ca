//! The plan of a run for the engine, complete when it is made.

use bowline_engine::budget::Budget;
use bowline_engine::fallback::StreamFallback;
use bowline_engine::{AttemptPlan, Lifetime, Numbering, ResumeTarget, RunPlan};
use bowline_protocol::kinds::Notice;
use bowline_protocol::{Kind, Millis, PromptId, Request, Resume};
use bowline_providers::invocation::Invocation;

use super::attempt::attempt;
use super::next_life::lifetime;
use super::spec::RunSpec;
use crate::run::task::Task;

/// The facts that the launch found out about a run.
pub(super) struct PlanFacts {
    pub(super) numbering: Numbering,
    /// The ways of starting the program, in their order.
    pub(super) attempts: Vec<AttemptPlan>,
    pub(super) notices: Vec<Notice>,
    /// The events that the journal begins with.
    pub(super) opening: Vec<Kind>,
    /// How long to wait before the start.
    pub(super) delay: Millis,
    pub(super) budget: Budget,
    /// Whether the files of the working tree are compared.
    pub(super) files: bool,
}

/// Makes the plan of a run.
pub(super) fn plan(spec: &RunSpec, task: &Task, facts: PlanFacts) -> RunPlan {
    let PlanFacts { numbering, attempts, mut notices, mut opening, delay, budget, files } = facts;
    let RunSpec { session, driver, request, .. } = spec;
    let first = &spec.invocations[0];
    notices.extend(spec.replaced.clone());
    let lesser = if spec.free { spec.known.degraded(&first.format) } else { None };
    opening.extend(first.degraded.iter().cloned().chain(lesser).map(Kind::CapabilityDegraded));
    let told = driver.manifest().and_then(|manifest| manifest.told_model()).map(str::to_owned);
    let lifetime = lifetime(task, spec);
    RunPlan {
        session: session.clone(),
        numbering,
        provider: driver.name().to_owned(),
        version: spec.known.version(),
        cwd: request.cwd.clone(),
        capabilities: spec.capabilities(),
        prompt: task.first_prompt(),
        prompt_id: PromptId::from(format!("p{}", numbering.next_seq)),
        lifetime,
        attempts,
        polite: first.stop.polite,
        stop_scope: first.stop.scope,
        resume: resume_target(request),
        stream_fallback: stream_fallback(task),
        notices,
        opening,
        delay,
        budget,
        model: request.model.clone().filter(|model| !model.is_empty() && model != "default").or(told),
        files,
        // The second plan of a live session would outlive its first prompt.
        replannable: lifetime == Lifetime::OnePrompt && spec.is_replannable(),
        zone: jiff::tz::TimeZone::system(),
        approver: task.approver,
    }
}

/// Describes the ways of starting the program.
pub(super) fn attempts(invocations: &[Invocation], task: &Task) -> Vec<AttemptPlan> {
    // A process that takes many prompts has one form.
    let most = if task.live.is_some() { 1 } else { invocations.len() };
    let attempts = invocations[..most].iter().map(|invocation| attempt(invocation, task));
    #[cfg(feature = "testing")]
    if let Some(script) = &task.script {
        let mut attempts: Vec<AttemptPlan> = attempts.collect();
        attempts.iter_mut().for_each(|attempt| script.speaks(attempt, task));
        return attempts;
    }
    attempts.collect()
}

/// Returns the session of the agent that a request resumes.
fn resume_target(request: &Request) -> Option<ResumeTarget> {
    let fork = matches!(request.resume, Some(Resume::Fork { .. }));
    match &request.resume {
        Some(Resume::Id { native_session } | Resume::Fork { native_session }) => {
            Some(ResumeTarget { id: native_session.clone(), fork })
        }
        Some(Resume::Latest) | None => None,
    }
}

/// Returns when a run may send the prompt again without streaming: from the caller, else the settings, else the default.
fn stream_fallback(task: &Task) -> StreamFallback {
    task.stream_fallback.or(task.settings.stream_fallback).unwrap_or_default()
}
