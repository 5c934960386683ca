//! Many tasks at a time: a crew runs them over the same providers, at most so many at once, within one budget, and returns each result
//! as it comes.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # let world = bowline::testing::world();
//! # world.provider("claude", bowline::testing::says("Done."));
//! let crew = bowline::crew().providers(["claude", "codex"]).fallback(bowline::Fallback::Next).max_cost(5.0).at_once(4);
//! let tasks = ["Fix the parser", "Fix the tests"].map(bowline::task);
//! # let tasks = tasks.map(|task| world.prepare(task));
//! let mut results = crew.run(tasks);
//! while let Some(done) = results.next().await {
//!     let record = done.result?;
//!     println!("{}: {}, left behind: {:?}", done.index, record.outcome_word(), record.survivors);
//! }
//! # Ok::<(), bowline::Error>(()) }).unwrap();
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bowline_engine::retry::Fallback;
use bowline_process::check_runtime;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use crate::run::error::Error;
use crate::run::record::Record;
use crate::run::task::Task;
use crate::sessions::budget::Pot;

/// How many tasks run at once, unless the caller says otherwise.
const AT_ONCE: usize = 4;

/// Makes a crew. Its options apply to every task that has none of its own.
pub fn crew() -> Crew {
    Crew { providers: Vec::new(), fallback: None, max_cost: None, at_once: AT_ONCE }
}

/// The options that the tasks of a crew share.
#[derive(Clone, Debug)]
#[must_use = "a crew does nothing until it runs tasks"]
pub struct Crew {
    providers: Vec<String>,
    fallback: Option<Fallback>,
    max_cost: Option<f64>,
    at_once: usize,
}

impl Crew {
    /// Sets the providers of tasks that name none, in this order.
    pub fn providers(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.providers = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets when a task falls back to the next provider.
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// Limits the cost of all tasks together, in US dollars. Tasks that begin after it is used up fail with
    /// [`Error::OverBudget`](crate::Error::OverBudget).
    pub fn max_cost(mut self, usd: f64) -> Self {
        self.max_cost = Some(usd);
        self
    }

    /// Sets how many tasks run at once; at least one. Default: 4.
    pub fn at_once(mut self, tasks: usize) -> Self {
        self.at_once = tasks.max(1);
        self
    }

    /// Runs tasks. They begin in their order and at once, whether or not [`CrewRun::next`] is called. Needs a tokio runtime; without
    /// one, each task has the result [`Error::NoRuntime`].
    pub fn run(&self, tasks: impl IntoIterator<Item = Task>) -> CrewRun {
        let mut pot = Pot::default();
        if let Some(usd) = self.max_cost {
            pot = pot.max_cost(usd);
        }
        let waiting: VecDeque<(usize, Task)> =
            tasks.into_iter().map(|task| self.equipped(task, &pot)).enumerate().collect();
        let left = waiting.len();
        let waiting = Arc::new(Mutex::new(waiting));
        let (sender, results) = mpsc::unbounded_channel();
        let mut driver = JoinSet::new();
        match check_runtime() {
            Ok(()) => drop(driver.spawn(drive(waiting.clone(), self.at_once, sender))),
            // Spawning would panic. No task has begun, so each has the error as its result.
            Err(gap) => {
                for (index, _) in take_all(&waiting) {
                    // The receiver is in scope.
                    let _ = sender.send(CrewResult { index, result: Err(gap.into()) });
                }
            }
        }
        CrewRun { waiting, results, left, pot, _driver: driver }
    }

    fn equipped(&self, mut task: Task, pot: &Pot) -> Task {
        if task.request.provider.is_none() && task.route.providers.is_empty() && !self.providers.is_empty() {
            task = task.providers(self.providers.iter().map(String::as_str));
        }
        if let Some(fallback) = self.fallback {
            task = task.fallback(fallback);
        }
        task.pot(pot)
    }
}

/// The tasks that have not begun, with their places among those that were given.
type WaitingTasks = Arc<Mutex<VecDeque<(usize, Task)>>>;

/// The tasks of a crew on their way. Dropping it ends all agents.
#[derive(Debug)]
pub struct CrewRun {
    waiting: WaitingTasks,
    results: mpsc::UnboundedReceiver<CrewResult>,
    /// How many tasks have no result that was returned.
    left: usize,
    pot: Pot,
    /// The task that runs the others. Dropping it aborts them all.
    _driver: JoinSet<()>,
}

/// The result of one task.
#[derive(Debug)]
#[non_exhaustive]
pub struct CrewResult {
    /// The place of the task among those that were given, from 0 on.
    pub index: usize,
    /// The record of the task, also if its turn failed; an error if it could not be run, and [`Error::Lost`] if it panicked.
    pub result: Result<Record, Error>,
}

impl CrewRun {
    /// Waits for the next result; none when all tasks are done. Cancel safe.
    pub async fn next(&mut self) -> Option<CrewResult> {
        let result = self.results.recv().await?;
        self.left -= 1;
        Some(result)
    }

    /// Returns the number of tasks whose result [`Self::next`] has not returned.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Returns the usage of all tasks so far.
    pub fn spent(&self) -> crate::sessions::budget::Amounts {
        self.pot.spent()
    }

    /// Begins no further task. Those that run go on.
    pub fn begin_no_more(&mut self) {
        self.left -= take_all(&self.waiting).len();
    }
}

/// Runs tasks, at most so many at once, and sends the result of each.
async fn drive(waiting: WaitingTasks, at_once: usize, results: mpsc::UnboundedSender<CrewResult>) {
    let mut running: JoinSet<Result<Record, Error>> = JoinSet::new();
    // A task that panics returns no value, so its place is found by the id of its tokio task.
    let mut places = HashMap::new();
    loop {
        while running.len() < at_once {
            let Some((index, task)) = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
            else {
                break;
            };
            places.insert(running.spawn(task.run()).id(), index);
        }
        let Some(done) = running.join_next_with_id().await else { return };
        let (id, result) = match done {
            Ok(done) => done,
            Err(error) => (error.id(), Err(lost(&error))),
        };
        let index = places.remove(&id).expect("every task was entered when it was spawned");
        // Without a receiver this task is being aborted.
        let _ = results.send(CrewResult { index, result });
    }
}

/// Makes the error of a task that panicked, or whose runtime shuts down. Its agent is gone with its future.
fn lost(error: &JoinError) -> Error {
    tracing::warn!(error = error as &dyn std::error::Error, "a task of a crew was lost");
    Error::Lost
}

fn take_all(waiting: &WaitingTasks) -> VecDeque<(usize, Task)> {
    std::mem::take(&mut *waiting.lock().unwrap_or_else(PoisonError::into_inner))
}
