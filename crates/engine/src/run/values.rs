//! The inputs and outputs of a run: plain values.

use std::collections::BTreeMap;

use bowline_protocol::kinds::{CapabilityDegraded, EndReason, Notice, Outcome, TouchedFile, Transport};
use bowline_protocol::{
    Capabilities, Event, Exit, Failure, Kind, Millis, NativeSessionId, OrderRefused, PromptId, Receipt,
    SessionId, SessionOrder, Timestamp,
};
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::Shape;
use bowline_providers::dialects;
use bowline_providers::manifest::run::{StopMethod, StopScope};

use super::host::{HostResult, HostWork, HostWorkId};
use super::watch::Watchdog;
use crate::budget::{Amounts, Budget, BudgetScope};
use crate::fallback::{StreamFallback, StreamRule};
use crate::footprint::Footprint;
use crate::session::LifeRequest;

/// The time of an input: the wall clock for people, and a monotonic clock for deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time of day.
    pub wall: Timestamp,
    /// The time since the run began.
    pub up: Millis,
}

/// Everything that a run needs before it begins.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The session.
    pub session: SessionId,
    /// Where its events, turns and bytes are numbered from.
    pub numbering: Numbering,
    /// The provider's name.
    pub provider: String,
    /// The version of its program, if it is known.
    pub version: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The capabilities of the provider.
    pub capabilities: Option<Capabilities>,
    /// The user's prompt; none in the first plan of a live session that waits for one. That plan is never started.
    pub prompt: Option<String>,
    /// The id of that prompt in the session.
    pub prompt_id: PromptId,
    /// How long the program lives.
    pub lifetime: Lifetime,
    /// How the program is started: the usual form first, then the non-streaming form if there is one.
    pub attempts: Vec<AttemptPlan>,
    /// How the program is stopped politely.
    pub polite: StopMethod,
    /// The processes that a polite signal goes to.
    pub stop_scope: StopScope,
    /// The session to resume.
    pub resume: Option<ResumeTarget>,
    /// When the request may be sent again without streaming.
    pub stream_fallback: StreamFallback,
    /// Notices about the request, emitted at the beginning.
    pub notices: Vec<Notice>,
    /// Events to emit at the beginning: why this agent, what came before it, what it lacks as installed.
    pub opening: Vec<Kind>,
    /// How long to wait before the program is started.
    pub delay: Millis,
    /// The budget.
    pub budget: Budget,
    /// The model that answers unless another is named, if Bowline chose it.
    pub model: Option<String>,
    /// Whether to read the files before and after: the working directory is in a working tree.
    pub files: bool,
    /// Whether the host can read the program's help and plan again ([`RunAction::Replan`]): it did not know the help when it
    /// made this plan, and the caller did not choose the form.
    pub replannable: bool,
    /// The zone of times that the agent writes without one.
    pub zone: jiff::tz::TimeZone,
    /// The side that decides the agent's requests which the permission mode neither allows nor forbids for good.
    pub approver: Approver,
}

/// How long the program of a run lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// For one prompt, which is the whole stint of the session.
    #[default]
    OnePrompt,
    /// For one prompt of a live session. The next prompt gets another process.
    PerPrompt,
    /// For many prompts of a live session, until it is idle for too long.
    Kept,
}

impl Lifetime {
    /// Returns whether the process is one of a live session, which goes on after it.
    pub fn is_live(self) -> bool {
        match self {
            Self::OnePrompt => false,
            Self::PerPrompt | Self::Kept => true,
        }
    }
}

/// The side that decides the agent's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approver {
    /// The permission mode alone. It denies what it does not allow.
    #[default]
    Mode,
    /// A person, through the caller ([`RunInput::Order`]): in the modes `ask` and `edit`, everything that the mode does not allow.
    /// The request is denied after this time. `read` still denies.
    Person {
        /// How long a request waits. `None` means without a limit.
        deadline: Option<Millis>,
    },
}

/// Where the numbering of a run begins. A run that continues a session goes on behind its earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    /// The number of the first event.
    pub next_seq: u64,
    /// The number of the first turn.
    pub next_turn: u32,
    /// The offset of the first byte of standard output, or of the terminal, in its raw file.
    pub stdout: u64,
    /// The offset of the first byte of standard error in its raw file.
    pub stderr: u64,
}

impl Default for Numbering {
    fn default() -> Self {
        Self { next_seq: 1, next_turn: 1, stdout: 0, stderr: 0 }
    }
}

/// A session to resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeTarget {
    /// The agent's id of it.
    pub id: NativeSessionId,
    /// Whether to fork it. The fork has an id of its own.
    pub fork: bool,
}

/// One form of starting the program.
#[derive(Clone, Debug)]
pub struct AttemptPlan {
    /// The dialect of its output.
    pub dialect: &'static dialects::DialectEntry,
    /// The shape of its output.
    pub shape: Shape,
    /// The program, to show to people.
    pub program: String,
    /// The options passed to it, without their values. A usage error has to name one of them.
    pub options: Vec<String>,
    /// How the program is connected to us.
    pub transport: Transport,
    /// The conversation, if a protocol carries the prompt.
    pub conversation: Option<Box<Conversation>>,
    /// The capabilities that this form lacks compared with a better one that was tried before it.
    pub degraded: Vec<CapabilityDegraded>,
    /// The time limits of this form. A form that prints nothing before its end is silent all the time, so its limits on silence
    /// are longer. The limits of the first form apply from the beginning.
    pub limits: RunLimits,
}

/// The result of reading the program's help after a usage error.
#[derive(Clone, Debug)]
pub enum ReplanResult {
    /// Keep the plan: the help has every option that was used, or cannot be read.
    Unchanged,
    /// The best form that the program has by its help, and notices about it. It replaces the forms that were not tried yet.
    Instead(Box<AttemptPlan>, Vec<Notice>),
    /// The program must not be started again: it lacks an option that a promise needs. Contains the reason.
    Refused(String),
}

/// Time limits. `None` means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Until the program runs.
    pub spawn: Option<Millis>,
    /// From then until its first output.
    pub first_event: Option<Millis>,
    /// Between two signs of life.
    pub idle: Option<Millis>,
    /// Between two signs of life while a tool runs.
    pub in_tool: Option<Millis>,
    /// For the whole run.
    pub total: Option<Millis>,
    /// From the end of the answer until SIGTERM.
    pub shutdown: Millis,
    /// From the request to stop until SIGKILL.
    pub grace: Millis,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            spawn: Some(Millis(30_000)),
            first_event: None,
            idle: None,
            in_tool: None,
            total: None,
            // A program is gone one second after its answer, and two seconds after a request to stop. The rest of that time is
            // for the kill, for closing the pipes, and for a busy machine.
            shutdown: Millis(550),
            grace: Millis(1_700),
        }
    }
}

/// The signals that a run sends. Not those of `process`, which may not depend on our vocabulary and can send more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepResult {
    /// The processes that were alive and were ended.
    pub ended: Vec<Survivor>,
    /// The processes among them that had to be killed.
    pub killed: Vec<Survivor>,
    /// The processes that could not be ended.
    pub survivors: Vec<Survivor>,
}

/// A process of the agent that outlived its program. `process` has a type of its own: it may not depend on our vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// Why a program could not be started.
#[derive(Clone, Debug, PartialEq)]
pub struct SpawnFailure {
    /// The failure of the turn.
    pub failure: Failure,
}

/// A command from the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunCommand {
    /// Stop politely, and keep the output so far.
    Cancel,
    /// Stop at once.
    Kill,
}

/// The number of a sync, counted from 1 within a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncId(pub u64);

/// The number of an order from the caller, which chooses it. The answer to the order has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderId(pub u64);

/// An input of a run: something that happened.
#[derive(Debug)]
pub enum RunInput<'a> {
    /// The run begins.
    Begin,
    /// The files were read before the start, or could not be, with the reason.
    Prepared(Result<(), String>),
    /// The program runs.
    Spawned {
        /// Its process id.
        pid: u32,
        /// The guarantee about processes that it may leave behind.
        containment: &'a str,
    },
    /// The program could not be started.
    SpawnFailed(SpawnFailure),
    /// It wrote to standard output.
    Stdout(&'a [u8]),
    /// It wrote to standard error.
    Stderr(&'a [u8]),
    /// Standard output is closed.
    StdoutClosed,
    /// Standard error is closed.
    StderrClosed,
    /// The program exited.
    Exited(Exit),
    /// The tree was swept.
    Swept(SweepResult),
    /// The changed files, from git.
    Files(Vec<TouchedFile>),
    /// The program's help was read, or could not be.
    Replanned(ReplanResult),
    /// A command from the caller.
    Command(RunCommand),
    /// An order of the caller. It is always answered ([`RunAction::Answer`]).
    Order {
        /// The number of the order.
        order: OrderId,
        /// The order.
        what: SessionOrder,
        /// The contents of the images of a prompt, by path.
        images: BTreeMap<String, Vec<u8>>,
    },
    /// The plan of the next process of a live session was made ([`RunAction::Plan`]), or could not be made.
    Planned(Result<Box<RunPlan>, Box<Failure>>),
    /// An error on our side that ends the run, such as a full disk.
    Trouble(Failure),
    /// Including the time in which the machine slept, the run took longer than this total limit. The monotonic clock slept too.
    Overdue(Millis),
    /// The usage of the agents that share the request's budget.
    Others(Amounts),
    /// The usage of a day or a project before this run, and by other runs since.
    Before(Vec<(BudgetScope, Amounts)>),
    /// The journal is synced up to the step with this [`RunAction::Sync`].
    Synced(SyncId),
    /// A piece of the host's work is done ([`RunAction::Host`]).
    Host(HostWorkId, HostResult),
    /// A notice about our own machinery.
    Remark(Notice),
    /// A deadline may have passed.
    Timer,
}

/// An action for the caller. Publish the step's events first, then carry out its actions.
#[derive(Clone, Debug, PartialEq)]
pub enum RunAction {
    /// Read the state of the files before the agent changes them, and report it. Stop waiting for it when `Spawn` comes.
    Prepare,
    /// Start the program in the form of this attempt.
    Spawn(usize),
    /// Write to its standard input.
    Write(Vec<u8>),
    /// Sync the journal, also the events of this step, and report it. A run without a journal reports it at once. If the sync fails,
    /// report [`RunInput::Trouble`] instead.
    Sync(SyncId),
    /// Report the result of an order to its sender.
    Answer(OrderId, Result<Receipt, OrderRefused>),
    /// Make the plan of the next process of a live session, and report it. Keep what it needs to be started.
    Plan(Box<LifeRequest>),
    /// Do this work for a request of the agent, and report it ([`RunInput::Host`]). Several may be under way.
    Host(HostWorkId, HostWork),
    /// Close its standard input.
    CloseStdin,
    /// Send a signal.
    Signal(StopSignal, StopScope),
    /// Kill the whole tree at once.
    KillTree,
    /// End the remaining processes of the tree, and report. They get this long between SIGTERM and SIGKILL.
    Sweep(Millis),
    /// Read which files changed, and report them.
    LookAtFiles,
    /// Read the program's help, plan again with the options that it has, and report. At most once in a run.
    Replan,
    /// The run is over.
    Done(Box<RunEnd>),
}

/// The events and actions that follow from one input.
#[derive(Debug, Default)]
pub struct RunStep {
    /// The numbered events.
    pub events: Vec<Event>,
    /// The actions to carry out.
    pub actions: Vec<RunAction>,
    /// Whether a sync of the journal has to follow.
    ///
    /// The caller writes the events to the journal before a subscriber sees them and before it carries out the actions, so
    /// they survive the end of its process. Only the sync makes them survive a power loss, and the actions do not wait for it: the
    /// caller starts it afterwards and may delay it, but syncs at the latest when the run ends. A power loss can therefore erase the
    /// event of an action that had its effect. Decisions on approvals are the exception: [`RunAction::Sync`] holds them back.
    pub durable: bool,
}

impl RunStep {
    /// Clears it for the next input.
    pub fn clear(&mut self) {
        self.events.clear();
        self.actions.clear();
        self.durable = false;
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// How its last turn ended.
    pub outcome: Outcome,
    /// Why, if it did not end well.
    pub failure: Option<Failure>,
    /// How the process ended, if one was started.
    pub exit: Option<Exit>,
    /// Why the run is over.
    pub reason: EndReason,
    /// The processes that could not be ended.
    pub survivors: Vec<Survivor>,
    /// Processes that outlived a program which had exited by itself. They were ended.
    pub left_behind: Vec<Survivor>,
    /// Processes of a program that we ended, which did not end on SIGTERM and were killed. The program's own process is not
    /// among them: see its exit.
    pub killed: Vec<Survivor>,
    /// The rule about streams without a result that applied.
    pub rule: StreamRule,
    /// Whether the request was sent a second time.
    pub stream_fallback: bool,
    /// The watchdog that ended the run.
    pub timed_out: Option<Watchdog>,
    /// Whether a tool ran.
    pub tool_ran: bool,
    /// The work that the program may have done with the prompt. Meaningless for a turn that ended well.
    pub footprint: Footprint,
}

impl RunEnd {
    /// Describes the end of a session that started no process.
    pub(crate) fn without_process(outcome: Outcome, reason: EndReason) -> Self {
        Self {
            outcome,
            failure: None,
            exit: None,
            reason,
            survivors: Vec::new(),
            left_behind: Vec::new(),
            killed: Vec::new(),
            rule: StreamRule::Result,
            stream_fallback: false,
            timed_out: None,
            tool_ran: false,
            footprint: Footprint::default(),
        }
    }
}
