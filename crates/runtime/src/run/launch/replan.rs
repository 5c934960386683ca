//! A second plan, made with the program's help, for a program that rejected its options.
//!
//! A run does not wait for the help of a program before it starts it: most programs have all that their manifest lists, and reading
//! the help is a start of its own. Only after a usage error is the help read, as `doctor` reads it, and kept as `doctor` keeps
//! it, so that the next run knows.

use std::time::Duration;

use bowline_engine::{AttemptPlan, ReplanResult};
use bowline_process as process;
use bowline_protocol::kinds::CapabilityDegraded;
use bowline_protocol::{Capabilities, Request, SessionId};
use bowline_providers::invocation::Streaming;
use bowline_providers::manifest::Manifest;

use super::side_files::SideFiles;
use super::spec::{texts, with_images};
use super::{Driver, attempt};
use crate::agents::command::{command, located};
use crate::agents::detect::{self, Ask, Found};
use crate::agents::installed::KnownProgram;
use crate::run::task::Task;
use crate::system::host::Cleanup;

/// How long one answer of the program may take. The version and a page of help are two.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads version and help of a task's program before it is started.
pub(super) async fn settled(task: &Task, manifest: &'static Manifest) -> Option<KnownProgram> {
    Some(KnownProgram::settled(&installed(task, manifest).await?, &patient(task)).await)
}

/// Finds the program of a task. A missing program is no error here: the spawn reports it.
async fn installed(task: &Task, manifest: &'static Manifest) -> Option<Found> {
    detect::find_anywhere(manifest, task.binary.as_deref(), task.variables()).await.ok()
}

/// Returns how the program is queried.
fn patient(task: &Task) -> Ask {
    Ask { deadline: PATIENCE, ..Ask::of(task.variables()) }
}

/// What is left of a task once its run is on its way: all that another plan needs.
pub(crate) struct Replanner {
    pub(super) task: Task,
    pub(super) driver: Driver,
    pub(super) request: Request,
    pub(super) session: SessionId,
    pub(super) side_files: SideFiles,
    /// What the program was believed to do in the form that it rejected.
    pub(super) capabilities: Capabilities,
}

/// The result of reading the help.
pub(crate) struct SecondPlan {
    pub(crate) replanned: ReplanResult,
    pub(crate) start: Option<SecondStart>,
}

/// How the program is started by a second plan.
pub(crate) struct SecondStart {
    pub(crate) command: process::Command,
    /// Files to remove after it.
    pub(crate) cleanup: Cleanup,
    /// What the program does in its new form.
    pub(crate) capabilities: Capabilities,
}

impl SecondPlan {
    /// The plan stays as it is.
    pub(crate) fn unchanged() -> Self {
        Self { replanned: ReplanResult::Unchanged, start: None }
    }

    fn refused(reason: impl std::fmt::Display) -> Self {
        let text = format!("the program rejected its options and is not started again: {reason}");
        Self { replanned: ReplanResult::Refused(text), start: None }
    }
}

impl Replanner {
    /// Reads the help and plans again. Nothing of the prompt leaves this process meanwhile.
    pub(crate) async fn replan(self: Box<Self>) -> SecondPlan {
        let Self { task, driver, request, session, side_files, capabilities: before } = *self;
        let Some(manifest) = driver.manifest() else { return SecondPlan::unchanged() };
        let Some(found) = installed(&task, manifest).await else { return SecondPlan::unchanged() };
        let known = KnownProgram::asked(&found, &patient(&task)).await;
        let mut invocation = match driver.invoke(&task, &request, &known, Streaming::On) {
            Ok(invocation) => invocation,
            // What the help lacks was needed: what the plan has left would only be rejected again, or do without it.
            Err(refusal) => return SecondPlan::refused(refusal),
        };
        let mut degraded = std::mem::take(&mut invocation.degraded);
        degraded.extend(known.degraded(&invocation.format));
        // The help lacks nothing that the plan uses, or could not be read. A second plan would be the same.
        if degraded.is_empty() {
            return SecondPlan::unchanged();
        }
        if let Err(error) = with_images(&mut invocation) {
            return SecondPlan::refused(error);
        }
        invocation.find_secrets(&texts(&task), task.env_of_request());
        let mut cleanup = Cleanup::default();
        if let Err(error) = side_files.write(std::slice::from_ref(&invocation), &mut cleanup) {
            return SecondPlan::refused(error);
        }
        let mut command = command(&invocation, &session, side_files.dir(), task.variables());
        command.stdout_room = manifest.run.stdout_room;
        located(std::slice::from_mut(&mut command), manifest, task.binary.as_deref(), task.variables()).await;
        let capabilities = known.capabilities(manifest, &invocation.format);
        degraded.extend(also_lost(&before, &capabilities, &degraded));
        let attempt = Box::new(AttemptPlan { degraded, ..attempt(&invocation, &task) });
        let replanned = ReplanResult::Instead(attempt, std::mem::take(&mut invocation.notices));
        SecondPlan { replanned, start: Some(SecondStart { command, cleanup, capabilities }) }
    }
}

/// Names what a lesser form does not report, beside what is named already, for the same reason. Options that the program lacks
/// and the run does not use are no loss of the run.
fn also_lost(
    before: &Capabilities,
    after: &Capabilities,
    named: &[CapabilityDegraded],
) -> Vec<CapabilityDegraded> {
    let Some(first) = named.first() else { return Vec::new() };
    let lost = [
        ("streams_text", before.streams_text && !after.streams_text),
        ("reports_thinking", before.reports_thinking && !after.reports_thinking),
        ("reports_tools", before.reports_tools && !after.reports_tools),
        ("reports_usage", before.reports_usage != after.reports_usage),
        ("approvals", before.approvals != after.approvals),
        ("steers", before.steers && !after.steers),
        ("interrupts", before.interrupts && !after.interrupts),
    ];
    let lost =
        lost.into_iter().filter(|(name, is_lost)| *is_lost && named.iter().all(|it| it.capability != *name));
    lost.map(|(name, _)| CapabilityDegraded { capability: name.to_owned(), ..first.clone() }).collect()
}
