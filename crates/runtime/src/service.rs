//! One boundary for hosts that serve chats: a request goes in, a response comes out, and callbacks report what happens
//! in between. The types are those of the command line layer specification.
//!
//! ```
//! # use bowline::testing;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use bowline::Request;
//! use bowline::service::{AgentRequest, Callbacks, CliService};
//!
//! let service = CliService::new(Request { provider: Some("claude".into()), ..Request::default() });
//! # let service = service.script(testing::says("It is Tuesday."));
//! let request = AgentRequest { key: Some("chat-42".into()), ..AgentRequest::new("What day is it?") };
//! let mut shown = String::new();
//! let response = service
//!     .execute_streaming(request, Callbacks::new().on_text_delta(|text| shown.push_str(text)))
//!     .await?;
//! assert_eq!((response.result.as_str(), response.is_error), ("It is Tuesday.", false));
//! assert_eq!(shown, response.result);
//! # Ok::<(), bowline::Error>(()) }).unwrap();
//! ```
//!
//! A stream that ends without a result is no loss by itself. If the caller stopped it, the response is empty. There is text and
//! no error: the text is the response. Otherwise the request is sent once more without streaming, and the response
//! has `stream_fallback`; not after a tool was reported, unless [`CliService::stream_fallback`] allows that. This is
//! the specification's rule. A [`Task`] by itself is stricter: it sends a prompt again only if the program provably did
//! nothing with it ([`StreamFallback::Untouched`]). The engine decides all this.

mod response;
mod streaming;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bowline_engine::fallback::StreamFallback;
use bowline_protocol::{Millis, NativeSessionId, Request, Resume};
use bowline_providers::chat::Limits;
use bowline_providers::dialect::Commentary;
use bowline_providers::dialects;
use serde::{Deserialize, Serialize};

pub use response::{AgentResponse, CliResponse};
pub use streaming::Callbacks;

use crate::agents::roster::Roster;
use crate::run::error::Error;
use crate::run::settings::RunSettings;
use crate::run::task::Task;
use crate::sessions::journal::Home;

/// A host's request. Absent fields take the defaults of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentRequest {
    /// The user's text.
    pub prompt: String,
    /// Replaces the agent's system prompt.
    pub system_prompt: Option<String>,
    /// Is added to the agent's system prompt.
    pub append_system_prompt: Option<String>,
    /// Another model than the service's.
    pub model_override: Option<String>,
    /// Another provider than the service's.
    pub provider_override: Option<String>,
    /// The chat: sessions of one key are ended together.
    pub key: Option<String>,
    /// The purpose of the session, as in `main`.
    pub label: Option<String>,
    /// The session to go on with. Comes before `continue_session`.
    pub resume_session: Option<NativeSessionId>,
    /// Whether to go on with the last session in the working directory.
    pub continue_session: bool,
    /// How long it may take in all.
    pub timeout_ms: Option<Millis>,
}

impl AgentRequest {
    /// Makes a request of a prompt alone. The service has the rest.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self { prompt: prompt.into(), ..Self::default() }
    }
}

/// Serves requests: the one gateway of a host to its agents.
#[derive(Clone, Debug)]
pub struct CliService {
    defaults: Request,
    home: Option<Home>,
    settings: Arc<RunSettings>,
    stream_fallback: StreamFallback,
    portions: Option<Limits>,
    #[cfg(feature = "testing")]
    script: Option<crate::run::testing::Script>,
}

impl CliService {
    /// Makes a service. Absent fields of a request take these defaults.
    pub fn new(defaults: Request) -> Self {
        Self {
            defaults,
            home: None,
            settings: Arc::default(),
            // The rule of the specification; a task by itself is stricter.
            stream_fallback: StreamFallback::BeforeTools,
            portions: None,
            #[cfg(feature = "testing")]
            script: None,
        }
    }

    /// Keeps journals in this data home instead of the user's.
    #[must_use]
    pub fn home(mut self, home: Home) -> Self {
        self.home = Some(home);
        self
    }

    /// Uses these settings for every request. Without them, a service has the built-in providers.
    #[must_use]
    pub fn settings(mut self, settings: Arc<RunSettings>) -> Self {
        self.settings = settings;
        self
    }

    /// Sets when a request may be sent once more without streaming: by default as long as no tool was reported.
    #[must_use]
    pub fn stream_fallback(mut self, when: StreamFallback) -> Self {
        self.stream_fallback = when;
        self
    }

    /// Gives text to the callbacks in portions that read well, instead of as it comes.
    #[must_use]
    pub fn portions(mut self, limits: Limits) -> Self {
        self.portions = Some(limits);
        self
    }

    /// Plays this script instead of starting processes.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn script(mut self, script: crate::run::testing::Script) -> Self {
        self.script = Some(script);
        self
    }

    /// Serves a request without streaming, where the provider can do that.
    ///
    /// A turn that failed is a response that says so; an error means that the request could not even be tried.
    ///
    /// Needs a tokio runtime.
    pub async fn execute(&self, request: AgentRequest) -> Result<AgentResponse, Error> {
        let task = self.task(request).no_stream();
        let task = match task.preview() {
            // Some programs only stream. If something else is wrong, it is so both ways, and told below.
            Err(Error::Refused(_)) => task.stream(),
            Ok(_) | Err(_) => task,
        };
        AgentResponse::of(&task.run().await?)
    }

    /// Serves a request and tells what happens meanwhile.
    ///
    /// Needs a tokio runtime.
    pub async fn execute_streaming(
        &self,
        request: AgentRequest,
        callbacks: Callbacks<'_>,
    ) -> Result<AgentResponse, Error> {
        let task = self.task(request).stream_fallback(self.stream_fallback);
        let commentary = commentary(task.request.provider.as_deref(), &self.settings.roster);
        let mut turn = task.start().await?;
        streaming::Show::new(callbacks, self.portions, commentary).watch(&mut turn).await?;
        AgentResponse::of(&turn.outcome().await?)
    }

    /// Puts a request over the defaults.
    fn task(&self, request: AgentRequest) -> Task {
        let defaults = self.defaults.clone();
        let resume = match (request.resume_session, request.continue_session) {
            (Some(native_session), _) => Some(Resume::Id { native_session }),
            (None, true) => Some(Resume::Latest),
            (None, false) => defaults.resume.clone(),
        };
        let mut task = Task::of(Request {
            prompt: request.prompt,
            system_prompt: request.system_prompt.or(defaults.system_prompt),
            append_system_prompt: request.append_system_prompt.or(defaults.append_system_prompt),
            model: request.model_override.or(defaults.model),
            provider: request.provider_override.or(defaults.provider),
            key: request.key.or(defaults.key),
            timeout_ms: request.timeout_ms.or(defaults.timeout_ms),
            resume,
            ..defaults
        });
        task.label = request.label;
        task = task.settings(self.settings.clone());
        if let Some(home) = &self.home {
            task = task.home(home.clone());
        }
        #[cfg(feature = "testing")]
        if let Some(script) = &self.script {
            task = task.script(script.clone());
        }
        task
    }
}

/// Returns what tells a provider's answer from its other words.
fn commentary(provider: Option<&str>, roster: &Roster) -> Commentary {
    let manifest = provider.and_then(|name| roster.find(name).ok());
    let format = manifest.and_then(|manifest| {
        manifest.formats.get(manifest.run.format.as_ref().unwrap_or(&manifest.default_format))
    });
    let entry = format.and_then(|format| dialects::by_name(&format.dialect));
    entry.map_or(Commentary::Told, |entry| entry.commentary)
}
