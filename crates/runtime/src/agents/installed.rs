//! The installed program as a run knows it before the start: its file, and its cached version and help. A run does not query
//! the program, with three exceptions: the version of a program that was replaced since the session began (two seconds at
//! most), the help of a program that rejected its options, and both for a program that must not run the code of an untrusted
//! repository, unless they are cached.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use bowline_protocol::kinds::{CapabilityDegraded, Level, Notice};
use bowline_protocol::{Capabilities, NativeSessionId, Resume, SessionId};
use bowline_providers::manifest::Manifest;
use bowline_providers::probe::{NarrowedCapabilities, Page, Version, check, narrow};

use crate::agents::detect::{self, Ask, Found, ProbeError};
use crate::sessions::journal::{Home, Program, SessionMeta};
use crate::system::clock;
use crate::system::surroundings::Surroundings;

/// The timeout for the version of a program that was replaced.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why the replacement matters.
const SESSIONS: &str = "its earlier sessions may look different to it";

/// How many earlier sessions to search.
const LOOKED_AT: usize = 200;

/// The known facts about the program of a run.
#[derive(Debug, Default)]
pub(crate) struct KnownProgram {
    program: Option<Program>,
    version: Option<String>,
    narrowed: Option<NarrowedCapabilities>,
    /// Whether its version and its help are known.
    settled: bool,
    /// Why it cannot be prevented from running a repository's own code.
    unkept: Option<String>,
}

impl KnownProgram {
    /// Finds the program of a provider, and what is cached about it.
    pub(crate) fn find(
        manifest: &'static Manifest,
        binary: Option<&Path>,
        surroundings: &Surroundings,
    ) -> Self {
        let found = detect::find(manifest, binary, &surroundings.search());
        found.map(|found| Self::about(&found, &Ask::of(surroundings))).unwrap_or_default()
    }

    /// Combines the file with its cached answers.
    fn about(found: &Found, ask: &Ask) -> Self {
        match ask.remembered(found) {
            Some(probe) => {
                let settled = !probe.pages.is_empty() || detect::is_proven(found.manifest, &probe.version);
                Self { settled, ..Self::told(found, Some(&probe.version), &probe.pages) }
            }
            None => Self { program: program(found), ..Self::default() },
        }
    }

    /// Combines the file with its version and help.
    fn told(found: &Found, version: Option<&Version>, pages: &[Page]) -> Self {
        let manifest = found.manifest;
        let narrowed = (!pages.is_empty()).then(|| narrow(manifest, &check(manifest, pages, version)));
        let unkept = narrowed.as_ref().and_then(|narrowed| narrowed.unkept.clone());
        Self {
            program: program(found),
            version: version.map(Version::to_string),
            narrowed,
            settled: true,
            unkept: unkept.or_else(|| manifest.repository.too_old(version)),
        }
    }

    /// Queries the version and the help of a program, and caches the answers as `doctor` does. Also for a version that passed the
    /// contract suite: it has just rejected its options.
    pub(crate) async fn asked(found: &Found, ask: &Ask) -> Self {
        let mut session = ask.session(found);
        let version = session.version().await.inspect_err(not_told).ok();
        let pages = session.pages().await.inspect_err(not_told).unwrap_or_default();
        Self::told(found, version.as_ref(), &pages)
    }

    /// Queries the version of a program, and its help unless that version passed the contract suite.
    pub(crate) async fn settled(found: &Found, ask: &Ask) -> Self {
        let mut session = ask.session(found);
        let version = session.version().await.inspect_err(not_told).ok();
        if version.as_ref().is_some_and(|version| detect::is_proven(found.manifest, version)) {
            return Self::told(found, version.as_ref(), &[]);
        }
        let pages = session.pages().await.inspect_err(not_told).unwrap_or_default();
        Self::told(found, version.as_ref(), &pages)
    }

    /// Returns whether its version and its help are known, as far as the program prints them.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns whether the help is unknown and can be queried.
    pub(crate) fn may_be_asked(&self, manifest: Option<&Manifest>) -> bool {
        self.program.is_some()
            && self.narrowed.is_none()
            && manifest.is_some_and(|manifest| !manifest.probe.pages.is_empty())
    }

    /// Returns the program's file.
    pub(crate) fn program(&self) -> Option<Program> {
        self.program.clone()
    }

    /// Returns its version.
    pub(crate) fn version(&self) -> Option<String> {
        self.version.clone()
    }

    /// Returns its capabilities in a format: those that the manifest declares, without those that the program is known to lack. A
    /// format with options of its own counts as a whole: the program has all of it or none.
    pub(crate) fn capabilities(&self, manifest: &Manifest, format: &str) -> Capabilities {
        let of_program =
            self.narrowed.as_ref().map_or(&manifest.capabilities, |narrowed| &narrowed.capabilities);
        manifest.capabilities_in(format, of_program)
    }

    /// Returns the format to use if the default one is not available.
    pub(crate) fn format(&self) -> Option<String> {
        self.narrowed.as_ref()?.format.as_ref().map(|(name, _)| name.clone())
    }

    /// Returns the better formats that it lacks, and why.
    pub(crate) fn lacking(&self) -> BTreeMap<String, String> {
        self.narrowed.as_ref().map(|narrowed| narrowed.lacking.clone()).unwrap_or_default()
    }

    /// Returns why it cannot be prevented from running a repository's own code.
    pub(crate) fn unkept(&self) -> Option<String> {
        self.unkept.clone()
    }

    /// Returns what a run in a format has to do without, because it is not the usual one. Only a run whose format was chosen by
    /// nothing but what the program has loses anything: not one without streaming, nor one in a format of the caller's.
    pub(crate) fn degraded(&self, format: &str) -> Option<CapabilityDegraded> {
        let (name, degraded) = self.narrowed.as_ref()?.format.as_ref()?;
        (name == format).then(|| degraded.clone())
    }

    /// Adds a notice if the program is another one than that of the resumed session. Returns the version that its own report must
    /// match. Only a changed file whose version is unknown is run for it.
    pub(crate) async fn since(
        &mut self,
        before: SessionMeta,
        binary: Option<&Path>,
        manifest: &'static Manifest,
        surroundings: &Surroundings,
    ) -> (Option<Notice>, Option<Succession>) {
        // A session of an earlier version has no program on file, and cannot be compared.
        let changed = before.program.is_some() && self.program.is_some() && self.program != before.program;
        if changed && self.version.is_none() {
            self.version = asked(binary, manifest, surroundings).await;
        }
        let notice = self.differs(&before, manifest).map(notice);
        let succession = before.provider_version.map(|version| {
            let believed = self.version.clone().unwrap_or_else(|| version.clone());
            Succession { title: manifest.title.clone(), version, believed }
        });
        (notice, succession)
    }

    fn differs(&self, before: &SessionMeta, manifest: &Manifest) -> Option<String> {
        let (then, now) = (before.program.as_ref()?, self.program.as_ref()?);
        if then == now {
            return None;
        }
        let title = &manifest.title;
        Some(match (&before.provider_version, &self.version) {
            (Some(then), Some(now)) if !same(then, now) => another(title, then, now),
            (Some(_), Some(_)) => return None,
            _ if then.path != now.path => {
                format!(
                    "{title} is another program than when this session began: `{}` then, `{}` now",
                    then.path, now.path
                )
            }
            (then, now_is) => {
                let then = then.as_ref().map(|then| format!(" (it was {then})")).unwrap_or_default();
                let now_is = now_is.as_ref().map(|now| format!(" by {now}")).unwrap_or_default();
                let when = clock::in_words(now.changed_at);
                format!("{title}{then} was replaced{now_is} on {when}, since this session began: {SESSIONS}")
            }
        })
    }
}

/// A program that may have been replaced since the session last ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Succession {
    title: String,
    /// The version that the session had last.
    version: String,
    /// The version that the program should have now.
    believed: String,
}

impl Succession {
    /// Compares with the version that the program reports, and returns a notice if it differs.
    pub(crate) fn heard(&self, version: &str) -> Option<Notice> {
        let news = !same(version, &self.believed) && !same(version, &self.version);
        news.then(|| notice(another(&self.title, &self.version, version)))
    }
}

/// Returns whether two texts are the same version; some have a `v` in front.
fn same(one: &str, other: &str) -> bool {
    one == other || Version::parse(one).is_some_and(|one| Some(one) == Version::parse(other))
}

fn notice(text: String) -> Notice {
    Notice { level: Level::Warn, text, code: Some("program_replaced".to_owned()) }
}

fn another(title: &str, then: &str, now: &str) -> String {
    format!("{title} was {then} when this session began and is {now} now: {SESSIONS}")
}

/// Queries the version with a short timeout, because a task waits for it.
async fn asked(
    binary: Option<&Path>,
    manifest: &'static Manifest,
    surroundings: &Surroundings,
) -> Option<String> {
    let found = detect::find(manifest, binary, &surroundings.search()).ok()?;
    let ask = Ask { deadline: PATIENCE, ..Ask::of(surroundings) };
    match ask.version(&found).await {
        Ok(version) => Some(version.to_string()),
        Err(error) => {
            not_told(&error);
            None
        }
    }
}

fn not_told(error: &ProbeError) {
    let error = error as &dyn std::error::Error;
    tracing::debug!(error, "a program did not answer a question about itself");
}

/// Returns the session that a run continues: its parent, or the latest one of the agent's session. Errors of reading it are
/// reported elsewhere.
pub(crate) fn before(
    home: &Home,
    parent: Option<&SessionId>,
    resume: Option<&Resume>,
    manifest: &Manifest,
) -> Option<SessionMeta> {
    match (parent, resume) {
        (Some(parent), _) => {
            let meta = SessionMeta::read(&home.session_dir(parent).ok()?).ok()?;
            // Another process may have written it.
            (meta.provider == manifest.name).then_some(meta)
        }
        (None, Some(Resume::Id { native_session } | Resume::Fork { native_session })) => {
            latest(home, native_session, manifest)
        }
        (None, Some(Resume::Latest) | None) => None,
    }
}

/// Finds the latest Bowline session of an agent's session. Searches only the newest ones: the names of their directories begin
/// with the time.
fn latest(home: &Home, native: &NativeSessionId, manifest: &Manifest) -> Option<SessionMeta> {
    let entries = std::fs::read_dir(home.sessions_dir()).ok()?;
    let mut dirs: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    dirs.sort();
    let metas = dirs.iter().rev().take(LOOKED_AT).filter_map(|dir| SessionMeta::read(dir).ok());
    metas
        .into_iter()
        .find(|meta| meta.native_session.as_ref() == Some(native) && meta.provider == manifest.name)
}

fn program(found: &Found) -> Option<Program> {
    let file = found.native.as_ref().unwrap_or(&found.real);
    let meta = std::fs::metadata(file).ok()?;
    let changed_at = clock::timestamp(meta.modified().unwrap_or(UNIX_EPOCH));
    Some(Program { path: file.display().to_string(), size: meta.len(), changed_at })
}

#[cfg(test)]
mod tests {
    use bowline_protocol::Timestamp;
    use bowline_providers::catalogue;

    use super::*;

    fn file(path: &str, size: u64) -> Program {
        Program { path: path.into(), size, changed_at: Timestamp::from_seconds(1_794_735_906) }
    }

    #[test]
    fn another_program_is_named() {
        let manifest = catalogue::built_in().next().unwrap();
        let mut before = SessionMeta::new(SessionId::from("s"), &manifest.name, Timestamp::EPOCH);
        let known = |program: Program, version: Option<&str>| KnownProgram {
            program: Some(program),
            version: version.map(str::to_owned),
            ..KnownProgram::default()
        };
        assert_eq!(known(file("/a", 1), None).differs(&before, manifest), None, "nothing is known of then");
        before.program = Some(file("/a", 1));
        assert_eq!(known(file("/a", 1), Some("2.0.0")).differs(&before, manifest), None, "the same file");
        let text = known(file("/b", 1), None).differs(&before, manifest).unwrap();
        assert!(text.contains("`/a` then, `/b` now"), "{text}");
        let text = known(file("/a", 2), None).differs(&before, manifest).unwrap();
        assert!(text.contains("was replaced on 2026-11-15 ") && !text.contains("Z"), "{text}");
        before.provider_version = Some("1.0.0".into());
        let text = known(file("/a", 2), None).differs(&before, manifest).unwrap();
        assert!(text.contains(" (it was 1.0.0) was replaced on 2026-11-15 "), "{text}");
        let text = known(file("/a", 2), Some("2.0.0")).differs(&before, manifest).unwrap();
        assert!(text.contains("was 1.0.0 when this session began and is 2.0.0 now"), "{text}");
        assert_eq!(known(file("/a", 2), Some("1.0.0")).differs(&before, manifest), None, "reinstalled");
        let succession = |believed: &str| Succession {
            title: "Agent".into(),
            version: "1.0.0".into(),
            believed: believed.into(),
        };
        let heard = |believed: &str, word: &str| succession(believed).heard(word).map(|notice| notice.text);
        assert_eq!(heard("1.0.0", "1.0.0"), None);
        assert_eq!(heard("2.0.0", "v2.0.0"), None, "that was told before the start");
        let text = heard("1.0.0", "2.0.0").unwrap();
        assert!(text.starts_with("Agent was 1.0.0 when this session began and is 2.0.0 now"), "{text}");
    }
}
