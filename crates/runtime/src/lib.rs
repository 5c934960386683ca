//! Drives any coding-agent command line: one task, one stream of events, one honest outcome.
//!
//! There are two ways to run a task. [`Task::answer`] returns the answer, and a turn that failed is an `Err`:
//!
//! ```
//! # async fn example() -> Result<(), bowline::Error> {
//! let task = bowline::task("Name this branch: fixes login race").provider("claude").no_tools();
//! # let task = task.script(bowline::testing::says("fix/login-race"));
//! let name = task.answer().await?;
//! # assert_eq!(name, "fix/login-race");
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! [`Task::start`] returns a [`Turn`] with events and a [`Record`], and a turn that failed is data:
//!
//! ```
//! # async fn example() -> Result<(), bowline::Error> {
//! use bowline::Kind;
//!
//! let task = bowline::task("Audit this repository").provider("codex").cwd("/src/app");
//! # let task = task.script(bowline::testing::says("All is well."));
//! let mut turn = task.start().await?;
//! let control = turn.control(); // stops it, from any task
//! while let Some(event) = turn.next().await {
//!     if let Kind::TextDelta(delta) = &event.kind {
//!         print!("{}", delta.text);
//!     }
//! }
//! let record = turn.outcome().await?;
//! println!("{}: {:?}, left behind: {:?}", record.outcome_word(), record.usage, record.survivors);
//! # control.cancel();
//! # assert!(record.is_completed());
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! Call [`init`] first in `main`, also under `#[tokio::main]`: then no agent, and nothing that an agent started, outlives your
//! process, however it ends. All async calls need a tokio runtime with timers and IO, of either flavour; without one they return
//! [`Error::NoRuntime`]. Dropping a [`Turn`] stops its agent; [`Turn::detach`] opts out. A slow reader costs no memory: events wait in
//! the journal.
//!
//! Further modules:
//!
//! - [`blocking`]: the same calls without tokio
//! - [`registry`]: ends sessions by your own key, from any process
//! - [`route`]: chooses a provider, retries and falls back; [`settings`]: the values that a caller may set. The library reads no
//!   settings file; the crate `bowline-config` does
//! - [`trust`]: decides what a project's own files may do
//! - [`attention`]: calls a person when an agent needs one
//! - [`service`]: one interface for hosts that serve chats
//! - [`journal`]: reads recorded sessions
//! - [`adapter`]: every provider as one trait: detect, capabilities, start, send input, stop, events
//! - [`roster`]: providers by name; [`detect`]: installed agents and their options; [`auth`]: logins; [`mod@models`] and
//!   [`mod@limits`]: models and limits of the account; [`doctor`]: all of these at once
//! - [`manifest`]: the description of a provider; [`prices`]: the costs of models
//! - `bowline::testing` (feature `testing`): plays a script instead of starting a process
//!
//! `tracing` events contain ids and counts, never text of the conversation.

pub mod adapter;
mod agents;
pub mod blocking;
pub mod chat;
mod crew;
pub mod doctor;
pub mod exit;
pub mod health;
pub mod policy;
mod routing;
mod run;
pub mod service;
mod sessions;
mod system;

pub use bowline_engine::fallback::{StreamFallback, StreamRule};
pub use bowline_engine::footprint::Footprint;
pub use bowline_engine::retry::Fallback;
pub use bowline_engine::{Survivor, Watchdog};
pub use bowline_process::{KeeperError, RuntimeGap, SpawnError, SpawnErrorKind};
pub use bowline_protocol::kinds::Outcome;
pub use bowline_protocol::{
    AckGap, ApprovalCategory, ApprovalId, ApprovalOption, ApprovalRuling, ApprovalVerdict, Approvals,
    Attachment, BadSpan, BadTimestamp, Basis, Capabilities, Category, ChildRequest, Code, Decider, Decision,
    EnforcedBy, Event, Excerpt, Exit, Failure, FieldValue, GatedAction, Json, Kind, LastTurn, McpServer,
    Message, MessageId, Millis, NativeSessionId, NetworkMode, NotAField, OptionEffect, OrderRefused,
    OwnCategory, PermissionMode, PolicySpec, PolicyVerdict, PrFlow, PromptId, QuestionId, QueuedPrompt,
    RawFile, RawSpan, Receipt, Remedy, Request, RequestField, Resume, ResumeSupport, Risk, Role, Sampling,
    SessionId, SessionOrder, SessionSnapshot, Source, StructuredEdits, Subject, TaskId, TaskSpec, Timestamp,
    ToolId, TurnLimits, UnknownKind, Usage, UsageReports, UsageSource, WhenBusy, kinds,
};
pub use bowline_providers::invocation::{Preview, Refusal, StdioKind, Unrestricted};
pub use bowline_providers::manifest::{Manifest, ManifestError};
pub use bowline_providers::prices;
pub use bowline_providers::views::{ModelSource, Refused};

pub use crew::{Crew, CrewResult, CrewRun, crew};

pub use agents::limits::limits;
pub use agents::models::models;
pub use agents::profile::Profile;
pub use agents::{auth, certificate, limits, models, roster};
pub use routing::route;
pub use run::approval::Approval;
pub use run::error::{Error, ResumeGap};
pub use run::git::{git_in, repository_in};
pub use run::host_tools::{HostTool, HostToolError};
pub use run::live::{
    AttachedSession, IDLE, LiveSession, SessionFork, SessionTask, StartChild, Successor, SuccessorSlot,
    attach, attach_in, resume, session,
};
pub use run::record::{Attempt, Record, RecordWarning};
pub use run::task::{Task, task};
#[cfg(feature = "testing")]
pub use run::testing;
pub use run::turn::Turn;
pub use run::turn_record::{TurnRecord, TurnRecorder};
pub use run::watch::{EventCursor, EventWatch};
pub use run::{attention, settings, trust};
pub use sessions::control::Control;
pub use sessions::names::{LongName, NAME_LIMIT};
pub use sessions::{budget, journal, registry, resolve};
pub use system::host::{guarantee, init, init_lazily, replace_file, start_keeper};
pub use system::project;
pub use system::suggest::closest_name;

/// Runners of live sessions that outlive the command which starts them.
pub mod runner {
    pub use bowline_process::detach::DetachedProcess;

    pub use crate::sessions::detached::{
        DetachedReport, DetachedStreams, certainly_inside_an_agent, inside_an_agent, runner_above,
        start_runner, start_runner_of,
    };
}

/// The control socket of a live session, for another process than its runner.
pub mod remote {
    pub use crate::sessions::socket::client::{
        ConnectError, ConnectionEnd, OrderError, OrderSender, SocketClient,
    };
    pub use crate::sessions::socket::place::{DirProblem, SocketError};
    pub use crate::sessions::socket::rights::ClientRights;
}

/// The description of a provider: how its program is found, started and read. A user's file has the same keys.
pub mod manifest {
    pub use bowline_providers::ask::Subject;
    pub use bowline_providers::dialect::Shape;
    #[doc(inline)]
    pub use bowline_providers::manifest::*;
}

/// The command of a provider for a request, as [`settings::ExternalCli`] builds it.
pub mod invocation {
    pub use bowline_providers::conversation::{Conversation, ToolGating};
    pub use bowline_providers::dialect::HostPrompt;
    pub use bowline_providers::invocation::{
        Arg, Invocation, PhaseLimits, PromptTime, RepositoryCode, SideFile, StdinPlan, Streaming, User, Wish,
    };
}

/// Detection: which agents are installed, their versions, and the options that they really have.
pub mod detect {
    pub use bowline_providers::ask::NotTold;
    pub use bowline_providers::probe::help::{HelpFlag, Subcommand, ValueForm};
    pub use bowline_providers::probe::{Answer, Help, Page, Version};

    #[doc(inline)]
    pub use crate::agents::available::{installed, usable};
    #[doc(inline)]
    pub use crate::agents::detect::*;
}
