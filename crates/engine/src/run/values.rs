//! What goes into a run and what comes out: plain values.

use bowline_protocol::kinds::{CapabilityDegraded, Notice, Outcome, TouchedFile, Transport};
use bowline_protocol::{
    Capabilities, Event, Exit, Failure, Kind, Millis, NativeSessionId, SessionId, Timestamp,
};
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::Shape;
use bowline_providers::dialects;

use crate::budget::{Amounts, Budget, Extent};
use crate::fallback::{Rule, StreamFallback};
use crate::footprint::Footprint;

/// When something happens: the wall clock for people, and a clock that never jumps for deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time of day.
    pub wall: Timestamp,
    /// How long the run has been going on.
    pub up: Millis,
}

/// All that a run needs to know before it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The session.
    pub session: SessionId,
    /// The provider's name.
    pub provider: String,
    /// The version of its program, if it is known.
    pub version: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// What the provider can do.
    pub capabilities: Option<Capabilities>,
    /// What the user says.
    pub prompt: String,
    /// How the program is started: the usual way, then the non-streaming one if there is one.
    pub attempts: Vec<Attempt>,
    /// How long things may take.
    pub limits: Limits,
    /// How the program is asked to stop.
    pub polite: Polite,
    /// The session that has to be gone on with.
    pub resume: Option<Wanted>,
    /// When the request may be sent again without streaming.
    pub stream_fallback: StreamFallback,
    /// Remarks about the request, told at the beginning.
    pub notices: Vec<Notice>,
    /// What is told at the beginning: why this agent, what came before it, what cannot be had of it as it is installed.
    pub opening: Vec<Kind>,
    /// How long to wait before the program is started.
    pub delay: Millis,
    /// What it may use.
    pub budget: Budget,
    /// The model that answers unless another is named, where we ourselves say which.
    pub model: Option<String>,
    /// Whether to look at the files before and after: the working directory lies in a working tree.
    pub files: bool,
    /// The zone of times that the agent writes without one.
    pub zone: jiff::tz::TimeZone,
}

/// A session that has to be gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The agent's name for it.
    pub id: NativeSessionId,
    /// Whether a branch of it is wanted, which has a name of its own.
    pub fork: bool,
}

/// One way of starting the program.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// How it speaks then.
    pub dialect: &'static dialects::Entry,
    /// The shape of what it prints.
    pub shape: Shape,
    /// The program, for people.
    pub program: String,
    /// How we are connected.
    pub transport: Transport,
    /// What is asked, where a protocol carries it.
    pub conversation: Option<Box<Conversation>>,
    /// What this form has to do without beside a better one that was tried before it.
    pub degraded: Vec<CapabilityDegraded>,
}

/// How long things may take. What is absent is not limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Until the program runs.
    pub spawn: Option<Millis>,
    /// From there until it says anything.
    pub first_event: Option<Millis>,
    /// Between two signs of life.
    pub idle: Option<Millis>,
    /// Between two signs of life while a tool runs.
    pub in_tool: Option<Millis>,
    /// For all of it.
    pub total: Option<Millis>,
    /// From the end of the answer until the program is told to go.
    pub shutdown: Millis,
    /// From the wish to stop until the last means.
    pub grace: Millis,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            spawn: Some(Millis(30_000)),
            first_event: None,
            idle: None,
            in_tool: None,
            total: None,
            // Who has answered is gone a second later, and who is to stop after two: what is missing here is for the
            // kill, for the end of the pipes, and for a machine that has more to do.
            shutdown: Millis(550),
            grace: Millis(1_700),
        }
    }
}

/// How a program is asked to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polite {
    /// By a signal.
    Signal(Signal, Scope),
    /// By the end of its input.
    CloseStdin,
    /// By words in its own protocol, where there is something to be stopped; else by the end of its input.
    Protocol,
}

/// The signals that we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Whom a signal reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The process that we started.
    Leader,
    /// It and everything that descends from it: a launcher passes nothing on.
    Tree,
}

/// What a sweep found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// What was alive and is ended.
    pub ended: Vec<Survivor>,
    /// Those among them that had to be killed.
    pub killed: Vec<Survivor>,
    /// What could not be ended.
    pub survivors: Vec<Survivor>,
}

/// A process that is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// What it is.
    pub command: String,
}

/// Why a program could not be started.
#[derive(Clone, Debug, PartialEq)]
pub struct SpawnFailure {
    /// What it means for the turn.
    pub failure: Failure,
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Stop politely, and keep what there is.
    Cancel,
    /// Stop at once.
    Kill,
}

/// What happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// The run begins.
    Begin,
    /// The files were looked at before the start, or could not be, and why.
    Prepared(Result<(), String>),
    /// The program runs.
    Spawned {
        /// Its process id.
        pid: u32,
        /// The promise in force about what it may leave behind.
        containment: &'a str,
    },
    /// The program could not be started.
    SpawnFailed(SpawnFailure),
    /// It wrote to standard output.
    Stdout(&'a [u8]),
    /// It wrote to standard error.
    Stderr(&'a [u8]),
    /// There will be no more standard output.
    StdoutClosed,
    /// There will be no more standard error.
    StderrClosed,
    /// It ended.
    Exited(Exit),
    /// Its tree is gone, but for these.
    Swept(Swept),
    /// What git says about the files.
    Files(Vec<TouchedFile>),
    /// A client wants something.
    Command(Command),
    /// We cannot go on: the disk is full, say.
    Trouble(Failure),
    /// With the time in which the machine slept it took longer than this limit on all of it. Our own clock slept too.
    Overdue(Millis),
    /// What those have used who share the budget of its request.
    Others(Amounts),
    /// What was used of a day or a project before it, and by others meanwhile.
    Before(Vec<(Extent, Amounts)>),
    /// Something worth a remark happened to our own machinery.
    Remark(Notice),
    /// A deadline may have passed.
    Timer,
}

/// What is to be done. Events come first: what is done is known before it is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Look at the files before anybody changes them, and tell. Once something is to be spawned, nobody waits for it.
    Prepare,
    /// Start the program in the way of this attempt.
    Spawn(usize),
    /// Write to its standard input.
    Write(Vec<u8>),
    /// Close its standard input.
    CloseStdin,
    /// Send a signal.
    Signal(Signal, Scope),
    /// End the whole tree at once.
    KillTree,
    /// End what is left of the tree, and tell. It has this long between SIGTERM and SIGKILL.
    Sweep(Millis),
    /// Look what became of the files, and tell.
    LookAtFiles,
    /// It is over.
    Done(Box<Ended>),
}

/// What one input led to.
#[derive(Debug, Default)]
pub struct Step {
    /// What happened, numbered.
    pub events: Vec<Event>,
    /// What is to be done.
    pub actions: Vec<Action>,
    /// Whether the events have to be safe on disk before anything else happens.
    pub durable: bool,
}

impl Step {
    /// Empties it for the next input.
    pub fn clear(&mut self) {
        self.events.clear();
        self.actions.clear();
        self.durable = false;
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// How its last turn ended.
    pub outcome: Outcome,
    /// Why, if it did not end well.
    pub failure: Option<Failure>,
    /// How the process ended, if there was one.
    pub exit: Option<Exit>,
    /// What could not be ended.
    pub survivors: Vec<Survivor>,
    /// Processes that outlived a program which had ended by itself. They were ended.
    pub left_behind: Vec<Survivor>,
    /// Processes of a program that we ended, which did not end when they were asked to and were killed. The program's own
    /// process is not among them: its exit tells.
    pub killed: Vec<Survivor>,
    /// Which rule about streams without a result applied.
    pub rule: Rule,
    /// Whether the request was sent a second time.
    pub stream_fallback: bool,
    /// Whether a deadline of ours ended it.
    pub timed_out: Option<Watchdog>,
    /// Whether a tool ran.
    pub tool_ran: bool,
    /// What the program may have done with the prompt. Of a turn that ended well it says nothing.
    pub footprint: Footprint,
}

/// The watchdogs, by phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watchdog {
    /// The program did not start in time.
    Spawn,
    /// It said nothing at all.
    FirstEvent,
    /// It fell silent.
    Idle,
    /// It fell silent while a tool ran.
    InTool,
    /// All of it took too long.
    Total,
}

impl Watchdog {
    /// Returns the code of its notice.
    pub fn code(self) -> &'static str {
        match self {
            Self::Spawn => "watchdog_spawn",
            Self::FirstEvent => "watchdog_first_event",
            Self::Idle => "watchdog_idle",
            Self::InTool => "watchdog_in_tool",
            Self::Total => "watchdog_total",
        }
    }

    /// Says what to try, in the words of the command line.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Spawn | Self::FirstEvent => "try again; if it stays so, run the program by itself",
            Self::Idle => "give it more time with `--idle-timeout`, or try again",
            Self::InTool => "let it wait as long as it takes with `--idle-timeout none`, or try again",
            Self::Total => "give it more time with `--timeout`, or try again",
        }
    }

    /// Says what happened, in words.
    pub fn about(self, limit: Millis) -> String {
        let limit = seconds(limit);
        match self {
            Self::Spawn => format!("the program did not start within {limit}"),
            Self::FirstEvent => format!("the program said nothing within {limit}"),
            Self::Idle => format!("nothing came from the program for {limit}"),
            Self::InTool => format!("nothing came from the program for {limit} while a tool ran"),
            Self::Total => format!("the turn took longer than {limit}"),
        }
    }
}

/// Writes a span of time as people do.
pub(super) fn seconds(span: Millis) -> String {
    if span.0.is_multiple_of(1000) {
        format!("{} s", span.0 / 1000)
    } else {
        format!("{:.1} s", span.0 as f64 / 1000.0)
    }
}
