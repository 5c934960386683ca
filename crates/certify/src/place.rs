//! The surroundings of a run: a fresh home, project and model API.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline::{Event, Kind, PermissionMode, Record, SessionTask, Task};
use bowline_process::seclusion::NetworkAccess;
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::run::RunFlag;
use bowline_providers::simulate;
use bowline_simulator::{LedgerEntry, REFUSED, Simulator, SimulatorOptions};

use crate::account::SuiteTotals;
use crate::case_failure::{CaseFailure, CaseVerdict};
use crate::clock::Stopwatch;
use crate::own_command::{OwnCommand, RunnerStart};
use crate::subject::TestedProgram;

/// A made-up key.
const KEY: &str = "sk-bowline-made-up-0000000000000000";

/// The context of a case: it creates places.
#[derive(Clone, Debug)]
pub(crate) struct CaseContext {
    pub(crate) subject: Arc<TestedProgram>,
    pub(crate) case: &'static str,
    pub(crate) dir: PathBuf,
    /// The time limit of a run: less than that of its case, so that our own deadline can be observed.
    pub(crate) patience: Duration,
    pub(crate) network: NetworkAccess,
    pub(crate) account: Arc<SuiteTotals>,
    /// The command that runs the suite.
    pub(crate) command: Arc<OwnCommand>,
}

/// A place: the home, project and API of a run.
#[derive(Debug)]
pub(crate) struct CasePlace {
    context: CaseContext,
    /// None if connections are refused.
    api: Option<Arc<Simulator>>,
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    plan: simulate::Plan,
}

/// A run that was watched to its end.
#[derive(Debug)]
pub(crate) struct WatchedRun {
    pub(crate) record: Record,
    pub(crate) events: Vec<Event>,
    /// When each event was seen, from the start of the run.
    pub(crate) times: Vec<Duration>,
    /// How long the run took to end after the cancellation.
    pub(crate) stopping: Option<Duration>,
}

/// When to stop a run.
#[derive(Clone, Debug)]
pub(crate) enum StopCondition {
    /// This many text deltas have arrived.
    Deltas(usize),
    /// This file exists.
    File(PathBuf),
    /// The model was called, and this much time has passed.
    Asked(Duration),
    /// This simulator, or that of the place, got a request of any kind.
    Request(Arc<Simulator>),
}

impl CaseContext {
    /// Creates a place with a home of its own.
    pub(crate) async fn place(&self, name: &str) -> Result<CasePlace, CaseFailure> {
        let api = Simulator::start(SimulatorOptions::default()).await?;
        self.make(name, self.dir.join(name).join("home"), Some(Arc::new(api))).await
    }

    /// Creates a place in the home of another one, and with its API: one home has one configuration.
    pub(crate) async fn neighbour(&self, of: &CasePlace, name: &str) -> Result<CasePlace, CaseFailure> {
        self.make(name, of.home.clone(), of.api.clone()).await
    }

    /// Creates a place with an API that refuses connections.
    pub(crate) async fn deserted(&self, name: &str) -> Result<CasePlace, CaseFailure> {
        self.make(name, self.dir.join(name).join("home"), None).await
    }

    /// Adds a finished run to the totals of the suite.
    pub(crate) fn enter(&self, record: &Record, events: &[Event], asked: usize) {
        self.account.enter(self.case, record, events, asked);
    }

    async fn make(
        &self,
        name: &str,
        home: PathBuf,
        api: Option<Arc<Simulator>>,
    ) -> Result<CasePlace, CaseFailure> {
        let project = self.dir.join(name).join("project");
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&project)?;
        std::fs::create_dir_all(self.dir.join("tmp"))?;
        std::fs::write(project.join("README.md"), "# A project\n\nNothing is here yet.\n")?;
        let made = bowline::repository_in(&project, "certify").await;
        made.map_err(|why| CaseFailure::new(format_args!("git: {why}")))?;
        let manifest = self.subject.manifest;
        let base = api.as_ref().map_or(REFUSED.to_owned(), |api| api.base_url(None));
        let Some(plan) = simulate::plan(manifest, &base, &home.to_string_lossy(), KEY) else {
            return Err(CaseFailure::new(format_args!(
                "the manifest of {} has no [simulate]",
                manifest.name
            )));
        };
        for file in &plan.files {
            let path = home.join(&file.path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(path, &file.text)?;
        }
        Ok(CasePlace { context: self.clone(), api, home, project, plan })
    }
}

impl CasePlace {
    pub(crate) fn context(&self) -> &CaseContext {
        &self.context
    }

    /// Returns the address of the model.
    pub(crate) fn base_url(&self) -> String {
        self.api.as_ref().map_or(REFUSED.to_owned(), |api| api.base_url(None))
    }

    /// Removes the variables with the address of the model. Returns whether there were any.
    pub(crate) fn forget_address(&mut self) -> bool {
        let (base, before) = (self.base_url(), self.plan.env.len());
        self.plan.env.retain(|_, value| !value.contains(&base));
        self.plan.env.len() < before
    }

    /// Returns a task that changes nothing; its prompt selects the scenario.
    pub(crate) fn task(&self, prompt: &str) -> Task {
        self.allow(self.bare(prompt), PermissionMode::Ask)
    }

    /// Returns a task that may edit files.
    pub(crate) fn editing(&self, prompt: &str) -> Task {
        self.allow(self.bare(prompt), PermissionMode::Edit)
    }

    /// Returns a task with all permissions: this place is disposable.
    pub(crate) fn free(&self, prompt: &str) -> Task {
        self.allow(self.bare(prompt), PermissionMode::Yolo)
    }

    /// Returns a task in this mode.
    pub(crate) fn within(&self, prompt: &str, mode: PermissionMode) -> Task {
        self.allow(self.bare(prompt), mode)
    }

    /// Returns a task in this mode that runs in the format in which the program asks.
    pub(crate) fn asking(&self, prompt: &str, mode: PermissionMode) -> Task {
        let manifest = self.context.subject.manifest;
        let format = manifest.asking_format().unwrap_or(&manifest.default_format);
        self.allow(self.bare_in(prompt, &manifest.in_format(format)), mode)
    }

    /// Returns a session without a prompt in this mode, or in the next freer one that the program has.
    pub(crate) fn session(&self, mode: PermissionMode) -> SessionTask {
        let manifest = self.context.subject.manifest;
        let format = manifest.live_format().unwrap_or(&manifest.default_format);
        SessionTask::of(self.allow(self.bare_in("", &manifest.in_format(format)), mode))
    }

    /// Returns the start of a session in a runner of its own, with the options of [`Self::session`].
    pub(crate) fn runner_start(&self, mode: PermissionMode) -> RunnerStart {
        let subject = &self.context.subject;
        let format = subject.manifest.live_format().unwrap_or(&subject.manifest.default_format);
        let (permission, root) = self.allowed(mode);
        let mut env = self.variables(&subject.manifest.in_format(format));
        env.extend(root.map(|name| (name.to_owned(), "1".to_owned())));
        RunnerStart {
            provider: subject.manifest.name.clone(),
            binary: subject.program.clone(),
            cwd: self.project.clone(),
            model: self.plan.model.clone(),
            permission,
            env,
            resume: None,
        }
    }

    /// Gives a task the mode, or the next freer one that the program has.
    fn allow(&self, task: Task, mode: PermissionMode) -> Task {
        let (mode, root) = self.allowed(mode);
        let task = task.permission(mode);
        match root {
            Some(name) => task.env(name, "1"),
            None => task,
        }
    }

    /// Returns the mode, or the next freer one that the program has, and the variable that the program needs for it as root.
    fn allowed(&self, mode: PermissionMode) -> (PermissionMode, Option<&'static str>) {
        let modes = &self.context.subject.manifest.permission;
        // A program may refuse its freest mode as root unless a variable is set (`root_env` in its manifest).
        let root = rustix::process::getuid().is_root();
        let had = |it: &PermissionMode| modes.get(it).is_some_and(|how| how.refused.is_none());
        let mode = PermissionMode::ALL.into_iter().filter(|it| *it >= mode).find(had).unwrap_or(mode);
        (mode, modes.get(&mode).and_then(|how| how.root_env.as_deref()).filter(|_| root))
    }

    fn bare(&self, prompt: &str) -> Task {
        self.bare_in(prompt, self.context.subject.manifest)
    }

    /// Returns a task without a permission mode, with the variables that the program needs in the format of this manifest.
    fn bare_in(&self, prompt: &str, manifest: &Manifest) -> Task {
        let subject = &self.context.subject;
        let task = bowline::task(prompt)
            .of_provider(subject.manifest)
            .binary(&subject.program)
            .cwd(&self.project)
            .home(self.context.journal_home())
            .timeout(self.context.patience)
            .model(&self.plan.model);
        self.variables(manifest).into_iter().fold(task, |task, (name, value)| task.env(name, value))
    }

    /// Returns the variables that the program needs in the format of this manifest.
    fn variables(&self, manifest: &Manifest) -> Vec<(String, String)> {
        // In some formats a variable is the option for the model. A run sets it, and refuses another value.
        let by_option = manifest.run.flags.get(&RunFlag::Model).map(|how| &how.env);
        let tmp = self.context.dir.join("tmp");
        let mut variables = vec![
            ("HOME".to_owned(), self.home.to_string_lossy().into_owned()),
            ("TMPDIR".to_owned(), tmp.to_string_lossy().into_owned()),
        ];
        for (name, value) in &self.plan.env {
            if by_option.is_none_or(|set| !set.contains_key(name)) {
                variables.push((name.clone(), value.clone()));
            }
        }
        if self.context.network == NetworkAccess::Open {
            // If it can reach a network, at least point it at a proxy that refuses.
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
                variables.push((name.to_owned(), REFUSED.to_owned()));
            }
            for name in ["NO_PROXY", "no_proxy"] {
                variables.push((name.to_owned(), "127.0.0.1,localhost".to_owned()));
            }
        }
        variables
    }

    /// Returns the requests that a scenario answered, without side requests.
    pub(crate) fn requests(&self) -> Vec<LedgerEntry> {
        let is_main = |entry: &LedgerEntry| entry.choice.as_ref().is_some_and(|choice| choice.side.is_none());
        self.api.iter().flat_map(|api| api.ledger()).filter(is_main).collect()
    }

    /// Returns all requests.
    pub(crate) fn all_requests(&self) -> Vec<LedgerEntry> {
        self.api.iter().flat_map(|api| api.ledger()).collect()
    }

    /// Returns whether another simulator, or that of the place, got a request of any kind.
    pub(crate) fn has_request(&self, other: &Simulator) -> bool {
        !other.ledger().is_empty() || !self.all_requests().is_empty()
    }

    /// Returns whether a scenario answered.
    pub(crate) fn was_answered_by(&self, scenario: &str) -> bool {
        self.requests().iter().any(|entry| entry.choice.as_ref().is_some_and(|it| it.scenario == scenario))
    }

    /// Returns a model that the program requests only if the option names it.
    pub(crate) fn other_model(&self) -> &str {
        &self.plan.other_model
    }

    /// Runs a task to its end.
    pub(crate) async fn run(&self, task: Task) -> Result<WatchedRun, CaseFailure> {
        self.watch(task, None).await
    }

    /// Runs a task until a condition holds, and then stops it.
    pub(crate) async fn stop(&self, task: Task, when: StopCondition) -> Result<WatchedRun, CaseFailure> {
        self.watch(task, Some(when)).await
    }

    async fn watch(&self, task: Task, when: Option<StopCondition>) -> Result<WatchedRun, CaseFailure> {
        let time = Stopwatch::start();
        let mut turn = task.start().await?;
        let control = turn.control();
        let (mut events, mut times, mut deltas) = (Vec::new(), Vec::new(), 0);
        let mut stopped = None;
        // A new file and an open request cause no event, so the condition is also checked by time.
        let mut look = tokio::time::interval(Duration::from_millis(20));
        loop {
            tokio::select! {
                event = turn.try_next() => match event? {
                    Some(event) => {
                        deltas += usize::from(matches!(event.kind, Kind::TextDelta(_)));
                        times.push(time.elapsed());
                        events.push(event);
                    }
                    None => break,
                },
                _ = look.tick(), if when.is_some() && stopped.is_none() => {}
            }
            let due = when.as_ref().is_some_and(|when| match when {
                StopCondition::Deltas(most) => deltas >= *most,
                StopCondition::File(path) => path.exists(),
                StopCondition::Asked(since) => self.asked_for(*since),
                StopCondition::Request(other) => self.has_request(other),
            });
            if due && stopped.is_none() {
                stopped = Some(Stopwatch::start());
                control.cancel();
            }
        }
        let stopping = stopped.map(Stopwatch::elapsed);
        let record = turn.outcome().await?;
        self.context.enter(&record, &events, self.all_requests().len());
        Ok(WatchedRun { record, events, times, stopping })
    }

    /// Returns whether a request has been open for some time.
    fn asked_for(&self, since: Duration) -> bool {
        let first = self.requests().into_iter().map(|entry| entry.at).min();
        first.is_some_and(|at| crate::clock::now().duration_since(at).unsigned_abs() >= since)
    }
}

impl WatchedRun {
    /// Succeeds if the turn completed.
    pub(crate) fn completed(&self) -> CaseVerdict {
        if self.record.is_completed() { Ok(()) } else { Err(self.trouble("the turn did not complete")) }
    }

    /// Returns the answer.
    pub(crate) fn text(&self) -> &str {
        self.record.text.as_deref().unwrap_or_default()
    }

    /// Describes the problem, and how the run went.
    pub(crate) fn trouble(&self, what: impl std::fmt::Display) -> CaseFailure {
        let mut trouble = CaseFailure::new(what).and(format_args!("outcome: {}", self.record.outcome_word()));
        if let Some(failure) = &self.record.failure {
            trouble = trouble.and(format_args!(
                "failure {}/{}: {}",
                failure.category.as_str(),
                failure.code.as_str(),
                crate::case_failure::short(&failure.message)
            ));
            if let Some(tail) = failure.stderr_tail.as_deref().filter(|tail| !tail.trim().is_empty()) {
                trouble = trouble.and(format_args!("stderr: {}", crate::case_failure::short(tail.trim())));
            }
        }
        if let Some(journal) = &self.record.journal {
            trouble = trouble.and(format_args!("journal: {}", journal.display()));
        }
        trouble
    }

    /// Succeeds if a claim holds; otherwise describes the problem, and how the run went.
    pub(crate) fn hold(&self, claim: bool, otherwise: impl FnOnce() -> String) -> CaseVerdict {
        if claim { Ok(()) } else { Err(self.trouble(otherwise())) }
    }
}
