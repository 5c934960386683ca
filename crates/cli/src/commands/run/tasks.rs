//! `bowline run --tasks`: runs the tasks of a file, a few at once and within one budget, and prints each result as it comes.
//!
//! The command starts the tasks itself instead of using `bowline::crew`, which returns records: the live table needs the events of each
//! task, and a signal first cancels the agents and then kills them.

mod display;
mod lines;
mod plan;

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use bowline::budget::Pot;
use bowline::{Event, Fallback, Record, SessionId, Task};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::display::{TaskDisplay, TaskFormat};
use self::plan::TaskPlan;
use super::closed_output;
use super::follow::AT_ONCE;
use super::parallel::check_installed;
use crate::args::run::RunArgs;
use crate::async_runtime;
use crate::commands::attention::settle;
use crate::error::{CommandError, Fault};
use crate::human::TICK;
use crate::output::sink::OutputFormat;
use crate::signals::{ProcessSignals, SignalAction, StopTargets};
use crate::ui::Stdout;

/// How many tasks run at once, unless `--at-once` sets it.
const USUAL_AT_ONCE: usize = 4;

/// The capacity of the output queue. If it is full, a task waits; its journal still grows.
const WAITING: usize = 64;

/// Output of one task, by its place in the file.
enum TaskOutput {
    Started(usize, SessionId),
    Events(usize, Vec<Event>),
    Done(usize, Box<Result<Record, bowline::Error>>),
}

/// Runs all tasks of a file.
pub(super) fn run(
    args: &RunArgs,
    file: &Path,
    format: OutputFormat,
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    let format = TaskFormat::of(format)?;
    let TaskPlan { tasks, groups } = plan::plan(&args.request, &lines::read(file)?)?;
    async_runtime::start()?.block_on(async {
        // First, so that from here on a signal stops the agents, and not this process alone.
        let signals = ProcessSignals::new()?;
        for resolved in &groups {
            // With a fallback, a missing program is not an error.
            let alone = !matches!(resolved.args.fallback, Some(Fallback::Next | Fallback::Any));
            // The caller's own binary needs no installed one.
            let alone = alone && resolved.args.binary.is_none();
            if let Some(named) = plan::only(resolved).filter(|_| alone) {
                check_installed(named, &resolved.args, &resolved.config).await?;
            }
        }
        let (waiting, display) = TaskDisplay::new(args, format, &groups, tasks, stdout);
        let ended = run_all(waiting, display, args, signals).await;
        for resolved in &groups {
            settle(&resolved.config.attention).await;
        }
        ended
    })
}

/// Runs the tasks in their order, at most so many at once, and shows their output.
async fn run_all(
    mut waiting: VecDeque<(usize, Task)>,
    mut display: TaskDisplay<'_>,
    args: &RunArgs,
    signals: ProcessSignals,
) -> Result<(), CommandError> {
    let at_once = args.at_once.unwrap_or(USUAL_AT_ONCE);
    let (send, mut output) = mpsc::channel(WAITING);
    let (targets, pot) = (StopTargets::growing(), Pot::default());
    let (passed_on, mut sent) = mpsc::unbounded_channel();
    tokio::spawn(signals.obey(targets.clone(), passed_on));
    let mut running = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_millis(TICK.0));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let (mut unwritable, mut lost) = (None, None);
    loop {
        while running.len() < at_once
            && let Some((place, task)) = waiting.pop_front()
        {
            display.begin(place);
            // A task joins the pot when it begins: every member is looked at whenever one of them reports its usage.
            running.spawn(follow(place, task.pot(&pot), targets.clone(), send.clone()));
        }
        if waiting.is_empty() {
            targets.close();
        }
        if running.is_empty() {
            break;
        }
        tokio::select! {
            // Signals come first, as in `follow::show`.
            biased;
            Some(sent) = sent.recv() => if let SignalAction::Stop(how) = sent {
                waiting.clear();
                display.stop(how);
            },
            Some(ended) = running.join_next() => if let Err(error) = ended {
                lost = Some(error);
            },
            // The command itself has a sender, so the channel does not end here.
            Some(piece) = output.recv() => if let Err(error) = display.take(piece, unwritable.is_some()) {
                unwritable = Some((error, display.sessions()));
                waiting.clear();
                targets.cancel();
            },
            _ = tick.tick(), if display.draws() => display.draw(),
        }
    }
    // The output of tasks that ended in this moment.
    drop(send);
    while let Some(piece) = output.recv().await {
        if let Err(error) = display.take(piece, unwritable.is_some()) {
            unwritable = Some((error, display.sessions()));
        }
    }
    let code = display.finish();
    if let Some((error, sessions)) = unwritable {
        return Err(match sessions {
            Some(sessions) => closed_output::stopped(error, &sessions),
            None => closed_output::beside_the_run(error),
        });
    }
    if let Some(error) = lost {
        return Err(CommandError::new(Fault::Internal, "could not follow a task").caused_by(error));
    }
    if code == 0 { Ok(()) } else { Err(CommandError::told(code)) }
}

/// Runs a task, and forwards its events and its record. The receiver reads until the last task has ended.
async fn follow(place: usize, task: Task, targets: StopTargets, send: mpsc::Sender<TaskOutput>) {
    let result = turn_of(place, task, &targets, &send).await;
    let _ = send.send(TaskOutput::Done(place, Box::new(result))).await;
}

async fn turn_of(
    place: usize,
    task: Task,
    targets: &StopTargets,
    send: &mpsc::Sender<TaskOutput>,
) -> Result<Record, bowline::Error> {
    let mut turn = task.start().await?;
    targets.add(turn.control());
    let _ = send.send(TaskOutput::Started(place, turn.session().clone())).await;
    loop {
        let events = turn.next_batch(AT_ONCE).await?;
        if events.is_empty() {
            break;
        }
        let _ = send.send(TaskOutput::Events(place, events)).await;
    }
    turn.outcome().await
}
