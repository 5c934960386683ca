//! Whether an agent works, in three steps: it is installed, it prints its version, it answers a request.
//!
//! The last step costs money and runs only on demand.

use std::time::Duration;

use bowline_protocol::{Category, PermissionMode, Timestamp};
use bowline_providers::manifest::Manifest;
use serde::Serialize;

use crate::agents::profile::Profile;
use crate::run::error::Error;
use crate::run::record::Record;
use crate::run::task::task;

/// The health of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It is not installed.
    Missing,
    /// It is installed and does not print its version.
    Found,
    /// It prints its version.
    Answers,
    /// It answered a request.
    Live,
}

/// The result of a test request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Live {
    /// Whether the agent answered.
    pub answered: bool,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The category of the error, if the request was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// When a reached limit resets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// The hint of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The timeout of a request.
const PATIENCE: Duration = Duration::from_secs(90);

/// The prompt of the smallest possible request.
const PROMPT: &str = "Answer with the one word: ready";

/// Sends one small request with the user's own login, which costs money.
///
/// The agent may change nothing, runs in an empty directory, and keeps no journal.
///
/// Needs a tokio runtime.
pub async fn live(manifest: &'static Manifest, profile: Option<&Profile>) -> Live {
    let began = crate::system::clock::instant();
    let result = request(manifest, profile).await;
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (problem, failure) = match result {
        Ok(record) if record.is_completed() => (None, None),
        Ok(record) => match record.failure {
            Some(failure) => (Some(format!("{} ({})", failure.message, failure.category)), Some(failure)),
            None => (Some(format!("the turn was {}", record.outcome_word())), None),
        },
        Err(error) => (Some(crate::system::causes::in_full(&error)), None),
    };
    let category = failure.as_ref().map(|failure| failure.category);
    let (resets_at, hint) = failure.map(|failure| (failure.resets_at, failure.hint)).unwrap_or_default();
    Live { answered: problem.is_none(), took_ms, problem, category, resets_at, hint }
}

async fn request(manifest: &'static Manifest, profile: Option<&Profile>) -> Result<Record, Error> {
    let place = crate::sessions::scratch::scratch("bowline-live")
        .map_err(|(path, source)| Error::SideFile { path: path.display().to_string(), source })?;
    let mut task = task(PROMPT)
        .of_provider(manifest)
        .permission(PermissionMode::Read)
        .cwd(place.path())
        .timeout(PATIENCE)
        .without_files()
        .without_journal();
    if let Some(profile) = profile {
        task = task.profile(profile.clone());
    }
    task.run().await
}
