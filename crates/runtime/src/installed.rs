//! What a run knows about the program that is installed, before it starts it: which file it is, and what it said about
//! itself when it was last asked. A run does not wait for answers to other questions, but for one: a program that was replaced
//! since the session began is asked for its version, in two seconds at most.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use bowline_protocol::kinds::{CapabilityDegraded, Level, Notice};
use bowline_protocol::{Capabilities, NativeSessionId, Resume};
use bowline_providers::invocation::Streaming;
use bowline_providers::manifest::Manifest;
use bowline_providers::probe::{Narrowed, Version, check, narrow};

use crate::clock;
use crate::detect::{self, Ask, Cache, Found, Search};
use crate::journal::{Home, Program, SessionMeta};
use crate::task::{JournalChoice, Task};

/// How long a program that was replaced may take to say its version.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why it matters.
const SESSIONS: &str = "its earlier sessions may look different to it";

/// How many earlier sessions are looked through.
const LOOKED_AT: usize = 200;

/// The program of a task, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Known {
    program: Option<Program>,
    version: Option<String>,
    narrowed: Option<Narrowed>,
}

impl Known {
    /// Looks at the program that a task would start. What runs in a container is not known.
    pub(crate) fn of(task: &Task, manifest: Option<&'static Manifest>) -> Self {
        let Some(manifest) = manifest else { return Self::default() };
        #[cfg(feature = "testing")]
        if task.is_scripted() {
            return Self::default();
        }
        if task.request.docker.is_some() {
            return Self::default();
        }
        let found = detect::find(manifest, task.binary.as_deref(), &Search::from_env());
        found.map(|found| Self::about(&found, Cache::from_env())).unwrap_or_default()
    }

    /// Puts together what the file is and what it said last.
    fn about(found: &Found, cache: Option<Cache>) -> Self {
        let ask = Ask { deadline: Ask::DEADLINE, cache };
        let remembered = ask.remembered(found);
        let narrowed = remembered
            .as_ref()
            .filter(|probe| !probe.pages.is_empty())
            .map(|probe| narrow(found.manifest, &check(found.manifest, &probe.pages, Some(&probe.version))));
        Self { program: program(found), version: remembered.map(|probe| probe.version.to_string()), narrowed }
    }

    /// Returns the program's file.
    pub(crate) fn program(&self) -> Option<Program> {
        self.program.clone()
    }

    /// Returns its version.
    pub(crate) fn version(&self) -> Option<String> {
        self.version.clone()
    }

    /// Returns what it can do in a format: what the manifest declares, less what the program is known not to have. Of a
    /// format with something of its own it has everything or nothing.
    pub(crate) fn capabilities(&self, manifest: &Manifest, format: &str) -> Capabilities {
        let of_program =
            self.narrowed.as_ref().map_or(&manifest.capabilities, |narrowed| &narrowed.capabilities);
        manifest.capabilities_in(format, of_program)
    }

    /// Returns the format to run it in, if the usual one cannot be had.
    pub(crate) fn format(&self) -> Option<String> {
        self.narrowed.as_ref()?.format.as_ref().map(|(name, _)| name.clone())
    }

    /// Returns the better formats that it does not have, and why.
    pub(crate) fn lacking(&self) -> BTreeMap<String, String> {
        self.narrowed.as_ref().map(|narrowed| narrowed.lacking.clone()).unwrap_or_default()
    }

    /// Returns why it cannot be kept from a repository's own code.
    pub(crate) fn unkept(&self) -> Option<String> {
        self.narrowed.as_ref()?.unkept.clone()
    }

    /// Returns what a run in a format has to do without, because it is not the usual one.
    pub(crate) fn degraded(&self, task: &Task, format: &str) -> Option<CapabilityDegraded> {
        let (name, degraded) = self.narrowed.as_ref()?.format.as_ref()?;
        (name == format && task.streaming == Streaming::On && task.format.is_none()).then(|| degraded.clone())
    }

    /// Says that the program is another one than that of the session which the task goes on with, and returns what its own word
    /// is to be held against. Only a file that has changed is asked for its version, if that is not known.
    pub(crate) async fn since(
        &mut self,
        before: SessionMeta,
        binary: Option<&Path>,
        manifest: &'static Manifest,
    ) -> (Option<Notice>, Option<Succession>) {
        let changed = before.program.is_some() && self.program.is_some() && self.program != before.program;
        if changed && self.version.is_none() {
            self.version = asked(binary, manifest).await;
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

/// A program that may have become another one while the session was not running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Succession {
    title: String,
    /// The version that the session had last.
    version: String,
    /// The version that the program is believed to have.
    believed: String,
}

impl Succession {
    /// Takes the program's own word; says so if it is another one than was believed.
    pub(crate) fn heard(&self, version: &str) -> Option<Notice> {
        let news = !same(version, &self.believed) && !same(version, &self.version);
        news.then(|| notice(another(&self.title, &self.version, version)))
    }
}

/// Says whether two words mean the same version; some are written with a `v`.
fn same(one: &str, other: &str) -> bool {
    one == other || Version::parse(one).is_some_and(|one| Some(one) == Version::parse(other))
}

fn notice(text: String) -> Notice {
    Notice { level: Level::Warn, text, code: Some("program_replaced".to_owned()) }
}

fn another(title: &str, then: &str, now: &str) -> String {
    format!("{title} was {then} when this session began and is {now} now: {SESSIONS}")
}

/// Asks the program for its version. It has little time: a task waits for it.
async fn asked(binary: Option<&Path>, manifest: &'static Manifest) -> Option<String> {
    let found = detect::find(manifest, binary, &Search::from_env()).ok()?;
    let ask = Ask { deadline: PATIENCE, ..Ask::from_env() };
    match ask.version(&found).await {
        Ok(version) => Some(version.to_string()),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, "a program that was replaced says no version");
            None
        }
    }
}

/// Returns the session which a task goes on with. One that cannot be read is told of by whoever needs it.
pub(crate) fn before(task: &Task, manifest: &Manifest) -> Option<SessionMeta> {
    if task.parent.is_none() && task.request.resume.is_none() {
        return None;
    }
    let home = match &task.journal {
        JournalChoice::At(home) => home.clone(),
        JournalChoice::Default | JournalChoice::Temporary | JournalChoice::None => Home::from_env().ok()?,
    };
    match (&task.parent, &task.request.resume) {
        (Some(parent), _) => {
            let meta = SessionMeta::read(&home.session_dir(parent).ok()?).ok()?;
            // Somebody else may have held it.
            (meta.provider == manifest.name).then_some(meta)
        }
        (None, Some(Resume::Id { native_session } | Resume::Fork { native_session })) => {
            latest(&home, native_session, manifest)
        }
        (None, Some(Resume::Latest) | None) => None,
    }
}

/// Finds the latest of our sessions in which an agent's session took part. Only the last ones are looked at: the names of
/// their directories begin with when they were made.
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
    use bowline_protocol::{SessionId, Timestamp};
    use bowline_providers::catalogue;

    use super::*;

    fn file(path: &str, size: u64) -> Program {
        Program { path: path.into(), size, changed_at: Timestamp::from_seconds(1_794_735_906) }
    }

    #[test]
    fn another_program_is_named() {
        let manifest = catalogue::built_in().next().unwrap();
        let mut before = SessionMeta::new(SessionId::from("s"), &manifest.name, Timestamp::EPOCH);
        let known = |program: Program, version: Option<&str>| Known {
            program: Some(program),
            version: version.map(str::to_owned),
            narrowed: None,
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
