//! Shows the tasks of a file: the live table, each answer when its task ends, and the summary.

use std::collections::VecDeque;

use bowline::kinds::Outcome;
use bowline::{Millis, Record, SessionId, Task, Timestamp, budget};
use serde::Serialize;

use super::super::follow::{exit_code, summary, warn_of};
use super::super::parallel::answer;
use super::super::progress::ParallelProgress;
use super::super::{ResolvedRequest, detail, render_options};
use super::TaskOutput;
use super::plan::{self, PlannedTask};
use crate::args::run::RunArgs;
use crate::error::{CommandError, Fault};
use crate::human::{DetailLevel, Screen, TableScreen, TaskRow, TaskState, task_table};
use crate::output::notices::TerminalNotices;
use crate::output::sink::{OutputFormat, Sink};
use crate::output::view::with_field;
use crate::signals::StopSignal;
use crate::time;
use crate::ui::{Stdout, object, terminal};

/// The formats of `--tasks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskFormat {
    /// For people: each answer under its heading.
    Human,
    /// The same, without drawing.
    Text,
    /// One object for each task.
    Objects,
}

impl TaskFormat {
    /// Finds the format, or rejects one of events: those of several tasks would be mixed.
    pub(super) fn of(format: OutputFormat) -> Result<Self, CommandError> {
        let view = match format {
            OutputFormat::Human => return Ok(Self::Human),
            OutputFormat::View(view) => view.name,
        };
        match view {
            "text" => Ok(Self::Text),
            "summary" | "events" => Ok(Self::Objects),
            other => Err(CommandError::new(
                Fault::Usage,
                format!("`--output {other}` cannot be used with `--tasks`"),
            )
            .hint("`-o json` prints an object for each task; the journal of each session has its events")),
        }
    }
}

/// A task that is shown.
struct TaskEntry {
    id: String,
    group: usize,
    permission: Option<bowline::PermissionMode>,
    state: TaskState,
    /// The output of the task, while it runs.
    sink: Option<Sink>,
    session: Option<SessionId>,
    provider: Option<String>,
    began: Option<Timestamp>,
    took: Option<Millis>,
    cost: Option<f64>,
    /// Why it did not complete.
    note: String,
    code: u8,
}

/// The object of a task without a record.
#[derive(Serialize)]
struct NotBegunObject<'a> {
    task: &'a str,
    outcome: &'static str,
    text: Option<&'a str>,
    session: Option<&'a SessionId>,
    error: &'a str,
    exit_code: u8,
}

/// Shows the tasks on our streams.
pub(super) struct TaskDisplay<'a> {
    args: &'a RunArgs,
    format: TaskFormat,
    groups: &'a [ResolvedRequest],
    stdout: &'a mut Stdout,
    progress: ParallelProgress,
    /// The tasks in the order of the file.
    entries: Vec<TaskEntry>,
    began: Timestamp,
    stopped: StopSignal,
}

impl<'a> TaskDisplay<'a> {
    /// Makes the display, and the queue of the tasks.
    pub(super) fn new(
        args: &'a RunArgs,
        format: TaskFormat,
        groups: &'a [ResolvedRequest],
        tasks: Vec<PlannedTask>,
        stdout: &'a mut Stdout,
    ) -> (VecDeque<(usize, Task)>, Self) {
        let options = render_options(&args.request, detail(args), None);
        let progress = ParallelProgress::new(options, format == TaskFormat::Human);
        let mut queue = VecDeque::with_capacity(tasks.len());
        let entries = tasks.into_iter().enumerate().map(|(place, planned)| {
            queue.push_back((place, planned.task));
            let named = plan::only(&groups[planned.group]).map(|named| named.name().to_owned());
            TaskEntry {
                id: planned.id,
                group: planned.group,
                permission: planned.permission,
                state: TaskState::Waiting,
                sink: None,
                session: None,
                provider: named,
                began: None,
                took: None,
                cost: None,
                note: String::new(),
                code: 0,
            }
        });
        let entries = entries.collect();
        let began = time::now();
        (queue, Self { args, format, groups, stdout, progress, entries, began, stopped: StopSignal::No })
    }

    /// Shows that a task begins.
    pub(super) fn begin(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        let resolved = &self.groups[entry.group];
        let detail = detail(self.args).min(DetailLevel::Verbose);
        let mut options = render_options(&resolved.args, detail, plan::only(resolved));
        // Several renderers cannot draw on one terminal.
        options.screen = Screen::PIPES;
        options.permission = entry.permission.unwrap_or(options.permission);
        let mut sink = Sink::of_task(options, &entry.id, self.progress.ui());
        sink.notify(TerminalNotices::of_task(&resolved.config.attention));
        entry.sink = Some(sink);
        (entry.state, entry.began) = (TaskState::Running, Some(time::now()));
    }

    /// Shows that a signal stops the command. Waiting tasks do not begin.
    pub(super) fn stop(&mut self, how: StopSignal) {
        let first = self.stopped == StopSignal::No;
        self.stopped = how;
        if first && !self.draws() {
            self.progress.ui().borrow_mut().status(CANCELLING);
        }
    }

    /// Shows output of a task. If standard output is closed, only the part for standard error.
    pub(super) fn take(&mut self, output: TaskOutput, closed: bool) -> Result<(), CommandError> {
        match output {
            TaskOutput::Started(place, session) => {
                self.entries[place].session = Some(session);
                Ok(())
            }
            TaskOutput::Events(place, events) => match &mut self.entries[place].sink {
                Some(sink) => sink.events(&events, time::now()),
                None => Ok(()),
            },
            TaskOutput::Done(place, result) => {
                let printed = match *result {
                    Ok(record) => self.ended(place, &record, closed),
                    Err(error) => self.without_record(place, error, closed),
                };
                // The first error of standard output is reported at the end; the same error again says nothing new.
                if closed { Ok(()) } else { printed }
            }
        }
    }

    /// Returns the sessions of the tasks that run, none of them if they keep no journal; `None` if no task runs.
    pub(super) fn sessions(&self) -> Option<Vec<SessionId>> {
        let running = self.entries.iter().filter(|entry| entry.state == TaskState::Running);
        let sessions: Vec<SessionId> = running.filter_map(|entry| entry.session.clone()).collect();
        if sessions.is_empty() {
            return None;
        }
        Some(if self.args.request.ephemeral { Vec::new() } else { sessions })
    }

    fn ended(&mut self, place: usize, record: &Record, closed: bool) -> Result<(), CommandError> {
        let entry = &mut self.entries[place];
        let Some(mut sink) = entry.sink.take() else { return Ok(()) };
        entry.state = match record.outcome {
            Outcome::Completed => TaskState::Completed,
            Outcome::Failed => TaskState::Failed,
            Outcome::Cancelled => TaskState::Cancelled,
            Outcome::Truncated => TaskState::Truncated,
        };
        entry.code = exit_code(record, self.stopped);
        entry.provider = sink.provider().map(str::to_owned).or(entry.provider.take());
        entry.note = record.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
        let summary = summary(record);
        (entry.took, entry.cost) = (Some(summary.took), record.cost);
        let schema = self.groups[entry.group].schema.as_ref();
        let unfit = schema.and_then(|schema| schema.holds(&format!("task {}", entry.id), record).err());
        if let Some(unfit) = &unfit {
            (entry.state, entry.code) = (TaskState::Failed, unfit.exit_code());
            entry.note = unfit.summary();
        }
        let (id, state) = (entry.id.clone(), entry.state);
        let told = sink.finish(&summary, record).and_then(|()| warn_of(record, &mut sink));
        if let Some(unfit) = &unfit {
            self.progress.ui().borrow_mut().error(unfit);
        }
        told?;
        if closed {
            return Ok(());
        }
        if self.format == TaskFormat::Objects {
            self.stdout.print(&with_field("task", &id, &object(record)?))?;
            return self.stdout.flush();
        }
        let is_done = state == TaskState::Completed;
        let heading = if is_done { id } else { format!("{id}: {}", state.word()) };
        let footer = sink.footer(&summary);
        let page = if self.format == TaskFormat::Human { self.progress.page() } else { None };
        // The table may be on the terminal that shows the answer.
        self.progress.ui().borrow_mut().erase();
        answer(&heading, record, page, self.stdout)?;
        self.progress.footer(&footer);
        Ok(())
    }

    /// Shows a task that could not be run, or whose events could not be read.
    fn without_record(
        &mut self,
        place: usize,
        error: bowline::Error,
        closed: bool,
    ) -> Result<(), CommandError> {
        let over_budget = matches!(error, bowline::Error::OverBudget { .. });
        let error = CommandError::from(error);
        let entry = &mut self.entries[place];
        let sink = entry.sink.take();
        entry.state = if entry.session.is_some() { TaskState::Failed } else { TaskState::NotBegun };
        entry.code = error.exit_code();
        entry.note = error.message().to_owned();
        if let Some(mut sink) = sink {
            if over_budget {
                sink.tell(&format!("not begun: {}", entry.note))?;
            } else {
                error.text().unwrap_or_default().lines().try_for_each(|line| sink.tell(line))?;
            }
        }
        if closed || self.format != TaskFormat::Objects {
            return Ok(());
        }
        let outcome = if entry.session.is_some() { "failed" } else { "not_begun" };
        let (session, exit_code) = (entry.session.as_ref(), entry.code);
        let ended =
            NotBegunObject { task: &entry.id, outcome, text: None, session, error: &entry.note, exit_code };
        self.stdout.print_object(&ended)
    }

    pub(super) fn draws(&self) -> bool {
        self.progress.draws()
    }

    /// Draws the table.
    pub(super) fn draw(&mut self) {
        let now = time::now();
        let rows: Vec<TaskRow<'_>> = self.entries.iter().map(|entry| entry.row(now)).collect();
        let options = self.progress.options();
        let screen = TableScreen {
            width: usize::from(terminal::width()),
            height: usize::from(terminal::height()),
            glyphs: options.glyphs,
            colour: options.screen.stderr.colour,
        };
        let last = match self.stopped {
            StopSignal::No => self.counts(now),
            StopSignal::Interrupted | StopSignal::Terminated => CANCELLING.to_owned(),
        };
        let lines = task_table(&rows, &last, screen);
        self.progress.draw_lines(lines);
    }

    /// Returns the number of tasks in each state, the cost and the time.
    fn counts(&self, now: Timestamp) -> String {
        let count = |state| self.entries.iter().filter(|entry| entry.state == state).count();
        let counts = STATES.map(|state| (count(state), state.word()));
        let mut parts: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let costs: Vec<f64> = self.entries.iter().filter_map(|entry| entry.cost).collect();
        if !costs.is_empty() {
            parts.push(budget::dollars(costs.iter().sum()));
        }
        parts.push(Millis(now.since(self.began).0 / 1000 * 1000).to_string());
        parts.join(", ")
    }

    /// Prints the summary, and returns the exit code.
    pub(super) fn finish(&mut self) -> u8 {
        for entry in self.entries.iter_mut().filter(|entry| entry.state == TaskState::Waiting) {
            (entry.state, entry.code) = (TaskState::NotBegun, self.stopped.code());
        }
        if detail(self.args) > DetailLevel::Quiet {
            let all = self.entries.len();
            let tasks = if all == 1 { "task" } else { "tasks" };
            let text = format!("{all} {tasks}: {}", self.counts(time::now()));
            self.progress.ui().borrow_mut().status(&text);
        } else {
            self.progress.ui().borrow_mut().erase();
        }
        code_of(self.entries.iter().map(|entry| entry.code), self.stopped)
    }
}

const CANCELLING: &str = "cancelling; Ctrl-C again kills the agents";

/// The states in the order of the summary.
const STATES: [TaskState; 7] = [
    TaskState::Running,
    TaskState::Waiting,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Truncated,
    TaskState::Cancelled,
    TaskState::NotBegun,
];

impl TaskEntry {
    fn row(&self, now: Timestamp) -> TaskRow<'_> {
        let sink = self.sink.as_ref();
        TaskRow {
            id: &self.id,
            state: self.state,
            provider: sink.and_then(Sink::provider).or(self.provider.as_deref()),
            took: self.took.or_else(|| Some(now.since(self.began?))),
            cost: self.cost.or_else(|| sink?.cost()),
            action: sink.and_then(|sink| sink.doing(now)).unwrap_or_else(|| self.note.clone()),
        }
    }
}

/// Returns the exit code of the command: 0 if all tasks completed, that of the signal that stopped it, that of the tasks that did not
/// complete if they have the same, else 1.
fn code_of(codes: impl Iterator<Item = u8>, stopped: StopSignal) -> u8 {
    let mut failed = codes.filter(|code| *code != bowline::exit::COMPLETED);
    match failed.next() {
        None => bowline::exit::COMPLETED,
        Some(_) if stopped != StopSignal::No => stopped.code(),
        Some(first) if failed.all(|code| code == first) => first,
        Some(_) => bowline::exit::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cause_for_all_is_the_exit_code() {
        let code = |codes: &[u8], stopped| code_of(codes.iter().copied(), stopped);
        assert_eq!(code(&[0, 0], StopSignal::No), 0);
        assert_eq!(code(&[0, 5, 5], StopSignal::No), 5);
        assert_eq!(code(&[0, 124], StopSignal::No), 124);
        assert_eq!(code(&[1, 5], StopSignal::No), 1);
        assert_eq!(code(&[124, 5], StopSignal::No), 1);
        assert_eq!(code(&[1, 130, 0], StopSignal::Interrupted), 130);
        assert_eq!(code(&[143, 143], StopSignal::Terminated), 143);
        assert_eq!(code(&[0, 0], StopSignal::Interrupted), 0, "all had completed before the signal");
    }
}
