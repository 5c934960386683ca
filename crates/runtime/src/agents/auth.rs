//! The login state of an agent: `authenticated`, `installed` or `not_found`.
//!
//! [`look`] checks whether variables and files exist, and never reads files. [`check`] also queries the program itself if it can
//! report its login; then `verified` is true. Neither tries the login: only a request does, and it costs money.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_providers::ask::{AccountReport, Subject};
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::auth::LoginFile;
use serde::{Deserialize, Serialize};

use crate::agents::answer_cache::AnswerCache;
use crate::agents::detect::{self, Ask, Breadth, Found, ProbeErrorKind, Stamp};
use crate::agents::profile::Profile;
use crate::system::clock;
use crate::system::surroundings::Surroundings;

pub use bowline_providers::ask::Login;

/// How long a program's report about its login is valid, if the visible variables and files have not changed.
const GOOD_FOR: Duration = Duration::from_secs(10 * 60);

/// How long it is good that it had none to give.
const SILENT_FOR: Duration = Duration::from_secs(2 * 60);

/// The size of a file that holds no login, in bytes: empty brackets, `null` or `""`, with white space around them.
const EMPTY: u64 = 8;

/// The cached report of a program, or the reason why the cache has no report.
#[derive(Serialize, Deserialize)]
enum CachedLogin {
    Told(Login),
    Silent(String),
}

/// The state of the login to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Auth {
    /// The answer.
    pub status: Status,
    /// Whether the program is there.
    pub binary: Binary,
    /// Whether the program itself reports a login, or has answered a request.
    pub verified: bool,
    /// The evidence.
    pub evidence: Vec<Evidence>,
    /// The program's own report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<Login>,
    /// Why the program made no report, though it could.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<String>,
    /// Whether the login is unknown: the manifest names no file for it, and the program cannot report it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

/// Whether there is a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// There is a login.
    Authenticated,
    /// The program is or was here, and there is no login.
    Installed,
    /// There is no trace of it.
    NotFound,
}

/// Whether a program is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Binary {
    /// It is.
    Found,
    /// It is not.
    Absent,
}

/// The evidence for a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A variable is set.
    Variable(String),
    /// A file is there that holds a login.
    File(PathBuf),
    /// A file or directory is there that the program made.
    Trace(PathBuf),
    /// The program reports it.
    Word,
    /// None is needed.
    NotNeeded,
}

impl Auth {
    /// Returns whether there is a login.
    pub fn is_authenticated(&self) -> bool {
        self.status == Status::Authenticated
    }
}

/// Looks for a login, in variables and files. Nothing is started and nothing is read.
///
/// A profile that the provider cannot have is none; a task with it is refused.
pub fn look(manifest: &'static Manifest, profile: Option<&Profile>, surroundings: &Surroundings) -> Auth {
    let surroundings = &*Profile::seen(profile, manifest, surroundings);
    let found = detect::find(manifest, None, &surroundings.search()).ok();
    seen(manifest, found.is_some(), surroundings)
}

/// Looks for a login, and uses the program's cached report. Starts nothing.
pub(crate) fn known(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
) -> Auth {
    let surroundings = &*Profile::seen(profile, manifest, surroundings);
    let found = detect::find(manifest, None, &surroundings.search()).ok();
    let seen = seen(manifest, found.is_some(), surroundings);
    let kept = found.zip(AnswerCache::of(surroundings, "logins")).and_then(|(found, cache)| {
        cache.get::<CachedLogin>(&fingerprint(&seen, &found, surroundings), GOOD_FOR, clock::wall())
    });
    match kept {
        Some((CachedLogin::Told(login), _)) => with_word(seen, login),
        Some((CachedLogin::Silent(_), _)) | None => seen,
    }
}

/// Looks for a login, and queries the program itself if it can report one.
///
/// Needs a tokio runtime.
pub async fn check(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
    ask: &Ask,
) -> Auth {
    let found = detect::find_anywhere(manifest, None, surroundings).await.ok();
    check_found(manifest, found.as_ref(), profile, surroundings, ask).await
}

/// The same, of a program that was looked for already.
pub(crate) async fn check_found(
    manifest: &'static Manifest,
    found: Option<&Found>,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
    ask: &Ask,
) -> Auth {
    let surroundings = &*Profile::seen(profile, manifest, surroundings);
    let seen = seen(manifest, found.is_some(), surroundings);
    let Some(found) = found else { return seen };
    match word(&seen, found, surroundings, ask).await {
        Some(Ok(login)) => with_word(seen, login),
        Some(Err(silent)) => Auth { silent: Some(silent), ..seen },
        None => seen,
    }
}

/// Looks at variables and files only.
fn seen(manifest: &Manifest, found: bool, surroundings: &Surroundings) -> Auth {
    let auth = &manifest.auth;
    let mut evidence = Vec::new();
    if auth.none && found {
        evidence.push(Evidence::NotNeeded);
    }
    let set = auth.env.iter().filter(|name| is_set(surroundings, name));
    evidence.extend(set.cloned().map(Evidence::Variable));
    let there = |file: &String| placed(manifest, file, surroundings).filter(|path| path.exists());
    let login = |file: &String| there(file).filter(|path| holds_something(path));
    evidence.extend(auth.files.iter().filter_map(login).map(Evidence::File));
    let status = if !evidence.is_empty() {
        Status::Authenticated
    } else {
        evidence.extend(auth.traces.iter().filter_map(there).map(Evidence::Trace));
        if found || !evidence.is_empty() { Status::Installed } else { Status::NotFound }
    };
    let binary = if found { Binary::Found } else { Binary::Absent };
    let unknown = status == Status::Installed && is_its_own(manifest);
    Auth { status, binary, verified: false, evidence, word: None, silent: None, unknown }
}

/// Returns whether a file can hold a login. Some programs write `{}` when a run fails for want of one; its size
/// shows it, so the file is not opened.
fn holds_something(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() || meta.len() > EMPTY)
}

/// Returns whether there may be a login that Bowline cannot see: the manifest names no file, the program does not report it, and
/// a key is not the only way.
fn is_its_own(manifest: &Manifest) -> bool {
    let auth = &manifest.auth;
    let seen = auth.none || !auth.files.is_empty() || !auth.traces.is_empty();
    let told = manifest.ask.login.is_some();
    !seen && !told && (auth.env.is_empty() || auth.login.is_some())
}

/// People write `none` where a tool wants something to be written, and `false` where it is a switch.
fn is_set(surroundings: &Surroundings, name: &str) -> bool {
    surroundings.get(name).is_some_and(|value| {
        let value = value.to_string_lossy();
        !matches!(value.trim().to_ascii_lowercase().as_str(), "" | "none" | "null" | "false" | "0")
    })
}

/// Returns where a file of the manifest lies.
fn placed(manifest: &Manifest, file: &str, surroundings: &Surroundings) -> Option<PathBuf> {
    let home = surroundings.home();
    match manifest.auth.place(file) {
        LoginFile::Home(file) => Some(home?.join(file)),
        LoginFile::Settings(rest) => {
            let settings = manifest.auth.home.as_ref()?;
            match surroundings.get(&settings.env) {
                Some(moved) => Some(PathBuf::from(moved).join(rest)),
                None => Some(home?.join(file)),
            }
        }
    }
}

/// Puts what can be seen and what the program says together. A key of the environment stays a login though the program
/// says no: some look at their files alone.
fn with_word(seen: Auth, login: Login) -> Auth {
    let by_variable = seen.evidence.iter().any(|it| matches!(it, Evidence::Variable(_)));
    let logged_in = login.logged_in;
    let mut auth = Auth { verified: logged_in, word: Some(login), ..seen };
    if logged_in {
        auth.evidence.push(Evidence::Word);
        auth.status = Status::Authenticated;
    } else if !by_variable && auth.status == Status::Authenticated {
        auth.status = Status::Installed;
    }
    auth
}

/// Returns the program's word, or why it gave none, in one sentence: who asked knows which program it is.
async fn word(
    seen: &Auth,
    found: &Found,
    surroundings: &Surroundings,
    ask: &Ask,
) -> Option<Result<Login, String>> {
    found.manifest.ask.login.as_ref()?;
    let cache = AnswerCache::with(ask, surroundings, "logins");
    let now = clock::wall();
    let is_good = |kept: &CachedLogin, at| match kept {
        CachedLogin::Told(_) => true,
        CachedLogin::Silent(_) => Duration::from_millis(now.since(at).0) < SILENT_FOR,
    };
    let key = fingerprint(seen, found, surroundings);
    let kept = cache.as_ref().and_then(|cache| cache.get::<CachedLogin>(&key, GOOD_FOR, now));
    match kept.filter(|(kept, at)| is_good(kept, *at)) {
        Some((CachedLogin::Told(login), _)) => return Some(Ok(login)),
        Some((CachedLogin::Silent(why), _)) => return Some(Err(why)),
        None => {}
    }
    let breadth = if seen.is_authenticated() { Breadth::All } else { Breadth::First };
    let (word, lasts) = match ask.about(Subject::Login, breadth, found, surroundings).await? {
        Ok(AccountReport::Login(login)) => (Ok(login), true),
        Ok(AccountReport::Models(_) | AccountReport::Limits(_)) => return None,
        Err(error) => {
            let kind = &error.kind;
            let why = std::error::Error::source(kind).map_or_else(|| kind.to_string(), |it| it.to_string());
            // Do not cache the failure of a query: the next one may succeed.
            let lasts = matches!(kind, ProbeErrorKind::NotTold(_) | ProbeErrorKind::Ended { .. });
            (Err(why), lasts)
        }
    };
    if let Some(cache) = cache.filter(|_| lasts) {
        // Some programs write files during the query. Those must not invalidate the cache.
        let seen = self::seen(found.manifest, true, surroundings);
        let kept = word.clone().map_or_else(CachedLogin::Silent, CachedLogin::Told);
        cache.put(&fingerprint(&seen, found, surroundings), &kept, clock::wall());
    }
    Some(word)
}

/// All that can be seen from outside and that a word about a login may depend on: which program, whose home and settings,
/// which evidence, and which file each of it is.
fn fingerprint(seen: &Auth, found: &Found, surroundings: &Surroundings) -> String {
    let manifest = found.manifest;
    let program = found.native.as_ref().unwrap_or(&found.real);
    let moved = manifest.auth.home.as_ref().and_then(|home| surroundings.get(&home.env));
    let homes = [surroundings.home().unwrap_or_default(), moved.map(PathBuf::from).unwrap_or_default()];
    let mut parts = vec![manifest.name.clone(), Stamp::text(program)];
    parts.extend(homes.iter().map(|home| home.display().to_string()));
    for evidence in &seen.evidence {
        parts.push(match evidence {
            // The name alone. The cache writes this text to a file, and the value is a secret.
            Evidence::Variable(name) => name.clone(),
            Evidence::File(path) | Evidence::Trace(path) => Stamp::text(path),
            Evidence::Word | Evidence::NotNeeded => String::new(),
        });
    }
    parts.join("\n")
}
