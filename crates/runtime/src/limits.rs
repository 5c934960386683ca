//! How much of an account's limits is used, where its program can tell. Asked at most once a minute.

use std::time::Duration;

use bowline_protocol::Timestamp;
use bowline_providers::ask::{Subject, Told};
use bowline_providers::manifest::Manifest;
use serde::{Deserialize, Serialize};

use crate::detect::{self, Ask, Breadth, Surroundings};
use crate::keep::Keep;
use crate::profile::Profile;
use crate::{Error, clock, roster};

pub use bowline_providers::ask::Window;

/// How long an answer is good, also one that told nothing.
const GOOD_FOR: Duration = Duration::from_secs(60);

/// The limits of an account.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// The provider.
    pub provider: String,
    /// The profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The plan of the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Each window in which usage is counted.
    pub windows: Vec<Window>,
    /// When the program told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Why nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl Limits {
    /// Returns when requests are served again, if a window is used up.
    pub fn exhausted_until(&self) -> Option<Timestamp> {
        let full = self.windows.iter().filter(|it| it.used_percent.is_some_and(|used| used >= 100.0));
        full.filter_map(|window| window.resets_at).max()
    }
}

/// What is kept: an answer, or why there was none.
#[derive(Serialize, Deserialize)]
enum Kept {
    Told(bowline_providers::ask::Limits),
    Silent(String),
}

/// Returns the limits of the account that a provider is logged in to.
///
/// ```no_run
/// # async fn example() -> Result<(), bowline::Error> {
/// for window in bowline::limits("codex").await?.windows {
///     println!("{}: {:?} % used, until {:?}", window.name, window.used_percent, window.resets_at);
/// }
/// # Ok(()) }
/// ```
///
/// Needs a tokio runtime.
pub async fn limits(provider: &str) -> Result<Limits, Error> {
    let manifest = roster::find(provider)?;
    Ok(of(manifest, None, &Surroundings::from_env(), &Ask::at_length()).await)
}

/// Returns the limits of an account, with a profile and in surroundings of the caller's choice.
///
/// Needs a tokio runtime.
pub async fn of(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
    ask: &Ask,
) -> Limits {
    let surroundings = &*Profile::seen(profile, manifest, surroundings);
    let (kept, at) = match manifest.ask.limits {
        Some(_) => asked(manifest, profile, surroundings, ask).await,
        None => (Kept::Silent("it has no way to tell".to_owned()), None),
    };
    let (plan, windows, trouble) = match kept {
        Kept::Told(told) => (told.plan, told.windows, None),
        Kept::Silent(why) => (None, Vec::new(), Some(why)),
    };
    let profile = profile.map(|profile| profile.name.clone());
    Limits { provider: manifest.name.clone(), profile, plan, windows, at, trouble }
}

/// Returns the limits that the program told within the last minute, without asking it.
pub(crate) fn remembered(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
) -> Option<Limits> {
    let surroundings = &*Profile::seen(profile, manifest, surroundings);
    let keep = Keep::of(surroundings, "limits")?;
    let (kept, at) = keep.get(&key(manifest, profile, surroundings), GOOD_FOR, clock::wall())?;
    let (plan, windows) = match kept {
        Kept::Told(told) => (told.plan, told.windows),
        Kept::Silent(_) => return None,
    };
    let profile = profile.map(|profile| profile.name.clone());
    Some(Limits { provider: manifest.name.clone(), profile, plan, windows, at: Some(at), trouble: None })
}

/// Remembers that a program did not tell in time, so that the next one need not wait for it too.
pub(crate) fn not_in_time(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
) {
    let surroundings = &*Profile::seen(profile, manifest, surroundings);
    let Some(keep) = Keep::of(surroundings, "limits") else { return };
    let key = key(manifest, profile, surroundings);
    keep.put(&key, &Kept::Silent("it did not tell in time".to_owned()), clock::wall());
}

fn key(manifest: &Manifest, profile: Option<&Profile>, surroundings: &Surroundings) -> String {
    let home = manifest.auth.home.as_ref().and_then(|home| surroundings.get(&home.env)).unwrap_or_default();
    // Two programs may go by one name: an entry of a router's file, and the provider that is named like it.
    let profile = profile.map(|profile| &profile.name);
    format!("{} {} {} {profile:?}", manifest.name, manifest.program, home.display())
}

async fn asked(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
    ask: &Ask,
) -> (Kept, Option<Timestamp>) {
    let keep = Keep::with(ask, surroundings, "limits");
    let key = key(manifest, profile, surroundings);
    let now = clock::wall();
    if let Some((kept, at)) = keep.as_ref().and_then(|keep| keep.get(&key, GOOD_FOR, now)) {
        return (kept, Some(at));
    }
    let found = match detect::find_anywhere(manifest, None, surroundings).await {
        Ok(found) => found,
        // It may be there in a moment, and looking costs little.
        Err(missing) => return (Kept::Silent(format!("{missing}: {}", missing.kind)), None),
    };
    let kept = match ask.about(Subject::Limits, Breadth::All, &found, surroundings).await {
        Some(Ok(Told::Limits(limits))) => Kept::Told(limits),
        Some(Err(error)) => Kept::Silent(error.kind.to_string()),
        Some(Ok(Told::Login(_) | Told::Models(_))) | None => Kept::Silent("it has no way to tell".to_owned()),
    };
    if let Some(keep) = &keep {
        keep.put(&key, &kept, now);
    }
    (kept, Some(now))
}
