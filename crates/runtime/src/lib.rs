//! Drives any coding-agent command line: one task, one stream of events, one honest outcome.
//!
//! Two doors. The *result* door gives the answer, and a turn that failed is an `Err`:
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
//! The *record* door lets you watch, and a turn that failed is data:
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
//! [`Error::NoRuntime`]. Dropping a [`Turn`] stops its agent; [`Turn::detach`] opts out. A slow reader is our problem: events wait in the
//! journal, in memory they do not pile up.
//!
//! Further rooms: [`blocking`] has the same calls without tokio, [`registry`] ends sessions by your own key from any
//! process, [`route`] chooses among providers and sees to retries and fallbacks, [`config`] reads the files that say how,
//! [`trust`] decides what a project's own files may do,
//! [`service`] is one boundary for hosts that serve chats, [`journal`] reads what was recorded, [`roster`] knows
//! who can be named, [`detect`] which agents are installed and what each can do, [`auth`] whether somebody is logged in,
//! [`mod@models`] and [`mod@limits`] what the account offers, [`doctor`] all of it at once, and `bowline::testing` (feature
//! `testing`) plays a script in the place of a process, so that your tests start nothing.
//! `tracing` is told ids and counts, never what was said.

mod agent;
mod aside;
pub mod auth;
pub mod blocking;
pub mod budget;
mod callback;
pub mod certificate;
pub mod chat;
mod clock;
pub mod config;
mod container;
pub mod detect;
pub mod doctor;
mod drive;
mod error;
pub mod exit;
mod git;
pub mod health;
mod host;
mod hub;
mod installed;
pub mod journal;
mod keep;
mod launch;
pub mod limits;
pub mod models;
mod near;
mod output;
mod profile;
mod record;
pub mod registry;
pub mod roster;
pub mod route;
pub mod service;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
mod trouble;
pub mod trust;
mod turn;
mod warden;

pub use bowline_engine::fallback::{Rule, StreamFallback};
pub use bowline_engine::footprint::Footprint;
pub use bowline_engine::retry::Fallback;
pub use bowline_engine::{Survivor, Watchdog};
pub use bowline_process::RuntimeGap;
pub use bowline_protocol::kinds::Outcome;
pub use bowline_protocol::{
    Attachment, Capabilities, Category, Code, Event, Excerpt, Exit, Failure, Json, Kind, McpServer, Message,
    Millis, NativeSessionId, PermissionMode, PolicySpec, RawFile, RawSpan, Request, Resume, Role, Sampling,
    SessionId, Timestamp, ToolId, Usage, UsageSource, kinds,
};
pub use bowline_providers::invocation::{Preview, Refusal, Unrestricted};
pub use bowline_providers::manifest::{Manifest, ManifestError};
pub use bowline_providers::views::{ModelSource, Refused};
pub use error::{Error, ResumeGap};
pub use git::{git_in, repository_in};
pub use host::{guarantee, init, init_lazily, start_keeper};
pub use limits::limits;
pub use models::models;
pub use near::near;
pub use profile::Profile;
pub use record::{Attempt, Record, RecordWarning};
pub use task::{NAME_LIMIT, Task, task};
pub use turn::{Control, Turn};
