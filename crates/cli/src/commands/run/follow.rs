//! Follows one run: shows its events, acts on signals, and reports the end.

use std::time::Duration;

use bowline::{Code, Outcome, Record, Task, Turn, exit};
use bowline_protocol::Millis;
use bowline_providers::manifest::Manifest;
use tokio::sync::mpsc;

use super::asking::Asker;
use super::{closed_output, uncertified};
use crate::error::CommandError;
use crate::human::{Interrupt, RunSummary, TICK};
use crate::output::sink::Sink;
use crate::remedies;
use crate::signals::{ProcessSignals, SignalAction, StopSignal, StopTargets};
use crate::time;
use crate::ui::terminal;

/// The maximum number of events in a batch.
pub(super) const AT_ONCE: usize = 256;

/// Runs a task with a sink for its events, and returns how it ended.
pub(crate) async fn to_the_end(task: Task, sink: Sink) -> Result<(Record, u8), CommandError> {
    let (record, stopped) = drive(task, sink, false, None).await?;
    let code = exit_code(&record, stopped);
    Ok((record, code))
}

/// Runs a task, shows its events, and returns how it ended.
pub(super) async fn drive(
    task: Task,
    mut sink: Sink,
    ephemeral: bool,
    provider: Option<&'static Manifest>,
) -> Result<(Record, StopSignal), CommandError> {
    // Before the agent starts: until the handlers are there, a Ctrl-C ends this process at once (signal(7)).
    let signals = ProcessSignals::new()?;
    let mut turn = task.sole_process().start().await.map_err(CommandError::from)?;
    let version = provider.and_then(uncertified::ask);
    let (passed_on, mut sent) = mpsc::unbounded_channel();
    tokio::spawn(signals.obey(StopTargets::of(vec![turn.control()]), passed_on));
    let shown = show(&mut turn, &mut sink, &mut sent).await;
    let stopped = match shown {
        Ok(stopped) => stopped,
        Err(error) => {
            let session = turn.session().clone();
            let sessions = if ephemeral { Vec::new() } else { vec![session] };
            // Wait for the end: only the record shows whether the agent was stopped or had finished.
            return Err(match turn.stop().await {
                // The agent may have ended before the cancellation.
                Ok(record) if record.outcome != Outcome::Cancelled => {
                    closed_output::unfinished(error, &record, !ephemeral)
                }
                _ => closed_output::stopped(error, &sessions),
            });
        }
    };
    let record = turn.outcome().await.map_err(CommandError::from)?;
    let mut summary = summary(&record);
    summary.journal = record.journal.as_ref().filter(|_| !ephemeral).map(|dir| dir.display().to_string());
    sink.finish(&summary, &record).map_err(|error| closed_output::unfinished(error, &record, !ephemeral))?;
    warn_of(&record, &mut sink)?;
    // After a signal the user knows why the run ended.
    if stopped == StopSignal::No {
        explain_attempts(&record, &mut sink)?;
    }
    if let Some(line) = uncertified::answer(version).await {
        sink.mention(&line)?;
    }
    Ok((record, stopped))
}

/// Returns the facts about the end of a run for the footer. A caller adds the journal if it is worth a line.
pub(super) fn summary(record: &Record) -> RunSummary {
    RunSummary {
        now: time::now(),
        took: Millis(u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX)),
        session: Some(record.session.clone()),
        journal: None,
    }
}

/// Prints the warnings of the record: what the run could not keep or count.
pub(super) fn warn_of(record: &Record, sink: &mut Sink) -> Result<(), CommandError> {
    for warning in record.warnings() {
        sink.warn(&warning.to_string())?;
    }
    if let Some(failure) = &record.journal_failure {
        sink.warn(&format!("the journal of this run is incomplete: {}", failure.message))?;
    }
    if let Some(why) = &record.ledger_failure {
        sink.warn(&format!(
            "could not record the cost of this run ({why}): budgets of a day or a project do not include it"
        ))?;
    }
    Ok(())
}

/// Prints the failure of each attempt, and why no other provider followed.
fn explain_attempts(record: &Record, sink: &mut Sink) -> Result<(), CommandError> {
    // The message of a budget covers all attempts.
    let over_budget = record.failure.as_ref().is_some_and(|failure| failure.code == Code::Budget);
    if record.is_completed() || (over_budget && record.attempts.len() == 1) {
        return Ok(());
    }
    for attempt in &record.attempts {
        sink.tell(&format!("{}: {}", attempt.name, remedies::with_flags(&attempt.then)))?;
    }
    if record.footprint.may_have_worked() && !record.attempts.is_empty() {
        sink.tell(
            "hint: check what the agent did before you run the task again; `--repeat-tools` retries without a check",
        )?;
    }
    Ok(())
}

/// Shows events until the run ends.
async fn show(
    turn: &mut Turn,
    sink: &mut Sink,
    sent: &mut mpsc::UnboundedReceiver<SignalAction>,
) -> Result<StopSignal, CommandError> {
    let mut stopped = StopSignal::No;
    let mut asker = Asker::new(turn.control());
    let mut tick = tokio::time::interval(Duration::from_millis(TICK.0));
    // After a blocked write one tick is enough. Tokio's default would send all missed ticks at once.
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            // Signals come first: a flood of events must not delay the reaction to Ctrl-C. Ticks come last, because events
            // redraw the status too.
            biased;
            Some(sent) = sent.recv() => match sent {
                SignalAction::Window => sink.resize(terminal::width()),
                SignalAction::Stop(how) if stopped == StopSignal::No => {
                    stopped = how;
                    sink.interrupted(Interrupt::First, time::now())?;
                }
                SignalAction::Stop(_) => sink.interrupted(Interrupt::Second, time::now())?,
            },
            input = asker.next() => asker.handle(input, sink)?,
            events = turn.next_batch(AT_ONCE) => match events.map_err(CommandError::from)? {
                events if events.is_empty() => return Ok(stopped),
                events => sink.events(&events, time::now())?,
            },
            _ = tick.tick() => sink.tick(time::now())?,
        }
        asker.attend(sink)?;
    }
}

/// Returns the exit code of the run. Only this process knows which signal cancelled it.
pub(super) fn exit_code(record: &Record, stopped: StopSignal) -> u8 {
    match record.exit_code() {
        exit::CANCELLED => stopped.code(),
        code => code,
    }
}
