//! The plan of a further process of a live session: the same task with another prompt, in the native session that was begun.

use std::pin::Pin;

use bowline_engine::budget::Budget;
use bowline_engine::{LifeRequest, Lifetime, LivePlan, Numbering, ResumeTarget, RunPlan, SessionOptions};
use bowline_protocol::{Kind, Millis, Resume, ResumeSupport, SessionId};

use super::driver;
use super::plan::{self, PlanFacts};
use super::side_files::SideFiles;
use super::spec::RunSpec;
use crate::agents::installed::Succession;
use crate::run::agent::Launch;
use crate::run::error::Error;
use crate::run::git::Tree;
use crate::run::task::{AttemptContext, LiveOptions, Task};
use crate::sessions::journal::JournalEnd;
use crate::system::host::Cleanup;

/// The needs of the plans of further processes: the task of the session without its first prompt.
pub(crate) struct Planner {
    pub(super) task: Task,
    pub(super) context: AttemptContext,
    pub(super) session: SessionId,
    pub(super) side_files: SideFiles,
    /// Whether the session has reported what its resumed processes cannot do.
    pub(super) loss_told: bool,
}

/// A further process, ready to be started.
pub(crate) struct NextLife {
    pub(crate) plan: Box<RunPlan>,
    pub(crate) launch: Launch,
    /// Files to remove after the session.
    pub(crate) side_files: Cleanup,
    pub(crate) tree: Option<Tree>,
    pub(crate) succession: Option<Succession>,
}

impl Planner {
    /// Takes the parts of a session's task that later processes need.
    pub(super) fn of(
        task: &Task,
        context: &AttemptContext,
        session: &SessionId,
        side_files: &SideFiles,
    ) -> Box<Self> {
        let (context, session, side_files) = (context.clone(), session.clone(), side_files.clone());
        // A stint that begins with a prompt reports it with its first plan. Without a prompt, that plan is never started.
        let loss_told = task.request.resume.is_some() && task.first_prompt().is_some();
        Box::new(Self { task: template(task), context, session, side_files, loss_told })
    }

    /// Plays all scripts of a test, also the one of the first plan: without a prompt, that plan is never started.
    #[cfg(feature = "testing")]
    pub(super) fn play_all(mut self: Box<Self>, cast: crate::run::testing::Cast) -> Box<Self> {
        (self.task.cast, self.task.script) = (cast, None);
        self
    }

    /// Makes the plan of a process.
    pub(crate) fn plan(
        &mut self,
        request: LifeRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Box<NextLife>, Error>> + Send>> {
        let LifeRequest { prompt, resume, options } = request;
        let mut task = self.task.clone();
        #[cfg(feature = "testing")]
        if !self.task.cast.is_empty() {
            let name = self.task.request.provider.clone().unwrap_or_default();
            task.script = Some(self.task.cast.take(&name, &name));
        }
        set_options(&mut task, options);
        task.request.prompt = prompt.text;
        task.request.attachments = prompt.attachments;
        let tells_loss = resume.is_some() && !std::mem::replace(&mut self.loss_told, resume.is_some());
        task.request.resume =
            resume.map(
                |ResumeTarget { id: native_session, fork }| {
                    if fork { Resume::Fork { native_session } } else { Resume::Id { native_session } }
                },
            );
        task.continues = Some(self.session.clone());
        let (context, side_files) = (self.context.clone(), self.side_files.clone());
        let id = prompt.id;
        Box::pin(async move {
            let spec = Box::pin(RunSpec::of(&mut task, &context)).await?;
            let mut cleanup = Cleanup::default();
            side_files.write(&spec.invocations, &mut cleanup)?;
            let attempts = plan::attempts(&spec.invocations, &task);
            let lost = driver::lost(&task, &spec.driver).filter(|_| tells_loss);
            let (launch, tree) = super::launch(&mut task, &spec, side_files.dir()).await?;
            let facts = PlanFacts {
                // The session numbers on, and keeps its budget.
                numbering: Numbering::default(),
                budget: Budget::default(),
                attempts,
                notices: spec.invocations[0].notices.clone(),
                opening: lost.map(Kind::CapabilityDegraded).into_iter().collect(),
                delay: Millis(0),
                files: tree.is_some(),
            };
            let mut plan = plan::plan(&spec, &task, facts);
            plan.prompt_id = id;
            let succession = spec.succession;
            Ok(Box::new(NextLife { plan: Box::new(plan), launch, side_files: cleanup, tree, succession }))
        })
    }
}

/// Makes the plan of a live session.
pub(super) fn live_plan(live: LiveOptions, plan: &RunPlan, end: Option<&JournalEnd>) -> LivePlan {
    // A process whose agent cannot resume the session is never ended for being idle.
    let resumes = plan.capabilities.as_ref().is_some_and(|it| it.resume == ResumeSupport::ById);
    LivePlan {
        idle: live.idle.filter(|_| resumes),
        offered: end.map(|end| end.offered.clone()).unwrap_or_default(),
        control: end.map(|end| end.control).unwrap_or_default(),
        resume: plan.resume.clone(),
        last_turn: end.and_then(|end| end.last_turn),
    }
}

/// Returns the task of a live session without its first prompt and what only the first process needs.
pub(crate) fn template(task: &Task) -> Task {
    let mut task = task.clone();
    task.request.prompt.clear();
    task.request.attachments.clear();
    task.request.context.clear();
    task.notices.clear();
    (task.callback, task.share) = (None, None);
    task
}

/// Puts the options that were changed while the session lived into its task.
fn set_options(task: &mut Task, options: SessionOptions) {
    let SessionOptions { model, effort, permission } = options;
    task.request.model = model.or(task.request.model.take());
    task.request.effort = effort.or(task.request.effort.take());
    if let Some(mode) = permission {
        task.request.permission = mode;
        task.mode_chosen = true;
    }
}

/// Returns how long the process of a task lives: for one prompt, unless the task is a live session whose protocol carries many.
pub(super) fn lifetime(task: &Task, spec: &RunSpec) -> Lifetime {
    if task.live.is_none() {
        return Lifetime::OnePrompt;
    }
    #[cfg(feature = "testing")]
    if let Some(script) = &task.script {
        return if script.is_kept() { Lifetime::Kept } else { Lifetime::PerPrompt };
    }
    let format = &spec.invocations[0].format;
    let manifest = spec.driver.manifest();
    let is_live = manifest.and_then(|it| it.live_format()) == Some(format.as_str());
    if is_live && spec.invocations[0].conversation.is_some() { Lifetime::Kept } else { Lifetime::PerPrompt }
}
