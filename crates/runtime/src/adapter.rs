//! One interface for every provider: the six calls of the provider adapters specification.
//!
//! [`ProviderAdapter`] has them for every name that a task accepts, and each is a call of the library: nothing here starts, reads or
//! ends a process by itself.
//!
//! | specification 004 | here | the library's own call |
//! |---|---|---|
//! | `detect` | [`ProviderAdapter::detect`] | [`detect::find_anywhere`](crate::detect::find_anywhere) and [`detect::Ask`](crate::detect::Ask) |
//! | `capabilities` | [`ProviderAdapter::capabilities`] | the manifest, without those that the help of the program does not list |
//! | `startSession` | [`ProviderAdapter::start`] | [`SessionTask::open`] |
//! | `sendInput` | [`ProviderAdapter::send_input`] | [`LiveSession::steer`], else [`LiveSession::send`] |
//! | `stop` | [`ProviderAdapter::stop`] | [`LiveSession::stop`] |
//! | `onEvent` | [`ProviderAdapter::events`] | [`LiveSession::watch_from`] |
//!
//! The specification has one session for each adapter. Here a session is a value, so an adapter opens any number of them.

mod named;

use std::path::PathBuf;
use std::pin::Pin;

use bowline_protocol::{Capabilities, OrderRefused, Receipt, Request};

use crate::agents::detect::{Missing, ProbeError};
use crate::run::error::Error;
use crate::run::live::LiveSession;
#[cfg(doc)]
use crate::run::live::SessionTask;
use crate::run::record::Record;
use crate::run::task::task;
use crate::run::watch::EventWatch;
pub use named::NamedAdapter;

/// The future of a call of an adapter. Boxed, so that adapters can be used as `dyn`.
pub type AdapterFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A provider as the specification's six calls.
///
/// All calls need a tokio runtime.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use bowline::adapter::{NamedAdapter, ProviderAdapter};
/// use bowline::{Kind, Request};
///
/// # let world = bowline::testing::world();
/// # world.provider("claude", bowline::testing::says("It is about knots."));
/// let adapter: Box<dyn ProviderAdapter> = Box::new(NamedAdapter::of(bowline::task("").provider("claude"))?);
/// # let adapter: Box<dyn ProviderAdapter> = Box::new(NamedAdapter::of(world.task("").provider("claude"))?);
/// let session = adapter.start(Request { prompt: "Explain this".to_owned(), ..Request::default() }).await?;
/// let mut events = adapter.events(&session, 1)?;
/// while let Some(event) = events.next().await? {
///     match &event.kind {
///         Kind::TextDelta(delta) => print!("{}", delta.text),
///         Kind::TurnEnded(_) => break,
///         _ => {}
///     }
/// }
/// adapter.send_input(&session, "And who wrote it?".to_owned()).await?;
/// session.turn_over().await?;
/// let record = adapter.stop(session).await?;
/// assert!(record.survivors.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub trait ProviderAdapter: std::fmt::Debug + Send + Sync {
    /// Returns the name of the provider.
    fn provider(&self) -> &str;

    /// Finds the installed program, and asks it for its version.
    ///
    /// # Errors
    ///
    /// It is not installed, or its file cannot be executed.
    fn detect(&self) -> AdapterFuture<'_, Result<Detection, Missing>>;

    /// Returns what a session of the installed program can do: the declared capabilities, without those that its help shows that it
    /// lacks.
    ///
    /// # Errors
    ///
    /// As those of [`Self::detect`].
    fn capabilities(&self) -> AdapterFuture<'_, Result<Capabilities, Missing>>;

    /// Starts a session, with the prompt of the request if it has one.
    ///
    /// # Errors
    ///
    /// As those of [`SessionTask::open`]. A program that does not start, and a turn that fails, are events of the session.
    fn start(&self, request: Request) -> AdapterFuture<'_, Result<LiveSession, Error>>;

    /// Sends a text to a session. It begins a turn. If one runs, the agent gets it in that turn, or, if it takes no input while it
    /// works, when the turn is over.
    ///
    /// # Errors
    ///
    /// Why the session did not take the text.
    fn send_input<'a>(
        &'a self,
        session: &'a LiveSession,
        text: String,
    ) -> AdapterFuture<'a, Result<Receipt, OrderRefused>> {
        Box::pin(async move {
            match session.steer(text.clone()).await {
                Err(OrderRefused::NotSteerable { .. } | OrderRefused::TurnOver) => session.send(text).await,
                answer => answer,
            }
        })
    }

    /// Stops a session: the agent and all its processes end. The session can be resumed.
    ///
    /// # Errors
    ///
    /// The session could not be recorded.
    fn stop(&self, session: LiveSession) -> AdapterFuture<'_, Result<Record, Error>> {
        Box::pin(session.stop())
    }

    /// Returns the events of a session from a number on; 1 is the first.
    ///
    /// # Errors
    ///
    /// The session keeps no journal.
    fn events(&self, session: &LiveSession, seq: u64) -> Result<EventWatch, Error> {
        session.watch_from(seq)
    }
}

/// A program that is installed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Detection {
    /// The program.
    pub program: PathBuf,
    /// Its version, if it prints one.
    pub version: Option<String>,
    /// Why its version is unknown; nothing also if its provider has no way to ask for it.
    pub unknown: Option<ProbeError>,
}

/// Returns the adapter of a provider by its name: of a built-in manifest, one of the user's, or `acp:COMMAND`.
/// [`NamedAdapter::of`] takes settings, another program and other variables.
///
/// ```
/// use bowline::adapter::{ProviderAdapter, adapter};
///
/// assert_eq!(adapter("Practice")?.provider(), "practice");
/// # Ok::<(), bowline::Error>(())
/// ```
///
/// # Errors
///
/// No provider has this name, or its manifest cannot be used.
pub fn adapter(name: impl Into<String>) -> Result<NamedAdapter, Error> {
    NamedAdapter::of(task("").provider(name).roster(crate::agents::roster::Roster::from_env()))
}
