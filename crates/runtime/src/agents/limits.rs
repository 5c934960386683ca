//! The usage of an account's limits, if its program can report it. Queried at most once a minute.

use std::time::Duration;

use bowline_protocol::Timestamp;
use bowline_providers::ask::{AccountReport, Subject};
use bowline_providers::manifest::Manifest;
use serde::{Deserialize, Serialize};

use crate::agents::answer_cache::AnswerCache;
use crate::agents::detect::{self, Ask, Breadth};
use crate::agents::profile::Profile;
use crate::agents::roster::{Roster, RosterError};
use crate::system::clock;
use crate::system::surroundings::Surroundings;

pub use bowline_providers::ask::Window;

/// How long an answer is valid, also a failed one.
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
    /// When the program reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Why the limits are unknown.
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

/// A cached answer, or why there was none.
#[derive(Serialize, Deserialize)]
enum CachedLimits {
    Told(bowline_providers::ask::AccountLimits),
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
pub async fn limits(provider: &str) -> Result<Limits, RosterError> {
    let manifest = Roster::default().find(provider)?;
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
        None => (CachedLimits::Silent("it does not report limits".to_owned()), None),
    };
    let (plan, windows, trouble) = match kept {
        CachedLimits::Told(told) => (told.plan, told.windows, None),
        CachedLimits::Silent(why) => (None, Vec::new(), Some(why)),
    };
    let profile = profile.map(|profile| profile.name.clone());
    Limits { provider: manifest.name.clone(), profile, plan, windows, at, trouble }
}

/// Returns the limits that the program reported within the last minute, without running it.
pub(crate) fn remembered(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
) -> Option<Limits> {
    let surroundings = &*Profile::seen(profile, manifest, surroundings);
    let cache = AnswerCache::of(surroundings, "limits")?;
    let (kept, at) = cache.get(&key(manifest, profile, surroundings), GOOD_FOR, clock::wall())?;
    let (plan, windows) = match kept {
        CachedLimits::Told(told) => (told.plan, told.windows),
        CachedLimits::Silent(_) => return None,
    };
    let profile = profile.map(|profile| profile.name.clone());
    Some(Limits { provider: manifest.name.clone(), profile, plan, windows, at: Some(at), trouble: None })
}

/// Caches that a program did not report in time, so that the next query does not wait for it.
pub(crate) fn not_in_time(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
) {
    let surroundings = &*Profile::seen(profile, manifest, surroundings);
    let Some(cache) = AnswerCache::of(surroundings, "limits") else { return };
    let key = key(manifest, profile, surroundings);
    cache.put(&key, &CachedLimits::Silent("the program did not report in time".to_owned()), clock::wall());
}

fn key(manifest: &Manifest, profile: Option<&Profile>, surroundings: &Surroundings) -> String {
    let home = manifest.auth.home.as_ref().and_then(|home| surroundings.get(&home.env)).unwrap_or_default();
    // Two programs may have one name: an entry of a router's file, and the provider of that name.
    let profile = profile.map(|profile| &profile.name);
    format!("{} {} {} {profile:?}", manifest.name, manifest.program, home.display())
}

async fn asked(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
    ask: &Ask,
) -> (CachedLimits, Option<Timestamp>) {
    let cache = AnswerCache::with(ask, surroundings, "limits");
    let key = key(manifest, profile, surroundings);
    let now = clock::wall();
    if let Some((kept, at)) = cache.as_ref().and_then(|cache| cache.get(&key, GOOD_FOR, now)) {
        return (kept, Some(at));
    }
    let found = match detect::find_anywhere(manifest, None, surroundings).await {
        Ok(found) => found,
        // Do not cache a missing program: it may be installed soon, and the search costs little.
        Err(missing) => return (CachedLimits::Silent(format!("{missing}: {}", missing.kind)), None),
    };
    let kept = match ask.about(Subject::Limits, Breadth::All, &found, surroundings).await {
        Some(Ok(AccountReport::Limits(limits))) => CachedLimits::Told(limits),
        Some(Err(error)) => CachedLimits::Silent(error.kind.to_string()),
        Some(Ok(AccountReport::Login(_) | AccountReport::Models(_))) | None => {
            CachedLimits::Silent("it does not report limits".to_owned())
        }
    };
    if let Some(cache) = &cache {
        cache.put(&key, &kept, now);
    }
    (kept, Some(now))
}
