//! Whether an agent works, in three steps: it is there, it says its version, it answers a request.
//!
//! The last step costs money and is taken only when somebody asks for it.

use std::time::Duration;

use bowline_protocol::{Category, PermissionMode, Timestamp};
use bowline_providers::manifest::Manifest;
use serde::Serialize;

use crate::{Error, Profile, Record, task};

/// How well an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It is not there.
    Missing,
    /// It is there, and does not say its version.
    Found,
    /// It says its version.
    Answers,
    /// It answered a request.
    Live,
}

/// What came of a request that was made for the sake of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Live {
    /// Whether it was answered.
    pub answered: bool,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Of which category that is, where the request was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// When a limit that was met starts anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// What the failure itself says to try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// The request: as small as one can be.
const PROMPT: &str = "Answer with the one word: ready";

/// Makes one small request, with the user's own login: it costs what such a request costs.
///
/// The agent may change nothing; it works in an empty directory, and no journal is kept.
///
/// Needs a tokio runtime.
pub async fn live(manifest: &'static Manifest, profile: Option<&Profile>) -> Live {
    let began = crate::clock::instant();
    let result = request(manifest, profile).await;
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (problem, failure) = match result {
        Ok(record) if record.is_completed() => (None, None),
        Ok(record) => match record.failure {
            Some(failure) => (Some(format!("{} ({})", failure.message, failure.category)), Some(failure)),
            None => (Some(format!("the turn was {}", record.outcome_word())), None),
        },
        Err(error) => (Some(error.to_string()), None),
    };
    let category = failure.as_ref().map(|failure| failure.category);
    let (resets_at, hint) = failure.map(|failure| (failure.resets_at, failure.hint)).unwrap_or_default();
    Live { answered: problem.is_none(), took_ms, problem, category, resets_at, hint }
}

async fn request(manifest: &'static Manifest, profile: Option<&Profile>) -> Result<Record, Error> {
    let place = crate::host::scratch("bowline-live")
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
