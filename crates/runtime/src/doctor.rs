//! The state of every agent and of our own surroundings on this machine.
//!
//! [`begin`] checks all of them at once and reports each as soon as it is known, so that a program that hangs delays no other.
//! Each row has the problems and their fixes.

mod logout;
mod machine;

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline_protocol::{Category, PermissionMode, Remedy};
use bowline_providers::manifest::Manifest;
use bowline_providers::probe::narrow::LostCapability;
use bowline_providers::probe::{NarrowedCapabilities, check, narrow};
use bowline_providers::{compat, probe};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::agents::auth::{self, Auth, Binary, Status};
use crate::agents::certificate::Certificate;
use crate::agents::detect::{self, Ask, Found, MissingKind, ProbeError, ProbeErrorKind};
use crate::agents::profile::Profile;
use crate::agents::roster;
use crate::health::{self, Health, Live};
use crate::run::error::Error;
use crate::sessions::journal::Home;
use crate::system::clock;
use crate::system::surroundings::Surroundings;

pub use machine::{Condition, FilePosition, MachineItem};

/// The items to check.
#[derive(Clone, Debug)]
pub struct Checkup {
    /// Whose programs.
    pub providers: Vec<&'static Manifest>,
    /// The accounts that are looked at instead of the usual ones, by the provider's name.
    pub accounts: BTreeMap<String, Profile>,
    /// The variables to look with.
    pub surroundings: Surroundings,
    /// How programs are asked.
    pub ask: Ask,
    /// Whether to make a request of each that could answer one. It costs what a small request costs.
    pub live: Requests,
    /// Problems that the caller found in its settings files. The library reads none; `bowline-config` returns these items.
    pub settings: Vec<MachineItem>,
}

/// Whether requests are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requests {
    /// No.
    #[default]
    None,
    /// One of each agent that could answer it.
    One,
}

impl Checkup {
    /// Looks at these providers as this process would see them.
    pub fn of(providers: Vec<&'static Manifest>) -> Self {
        let surroundings = Surroundings::from_env();
        let ask = Ask::of(&surroundings);
        let (accounts, settings) = (BTreeMap::new(), Vec::new());
        Self { providers, accounts, surroundings, ask, live: Requests::None, settings }
    }
}

/// The findings.
#[derive(Debug)]
pub enum News {
    /// About an agent.
    Agent(Box<Row>),
    /// About our own surroundings.
    Machine(MachineItem),
}

/// The findings about an agent.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The provider.
    pub provider: String,
    /// The product's name.
    pub title: String,
    /// The account that was looked at, where it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// How well it is.
    pub health: Health,
    /// Where the program is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// How it was found, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it may be used without one: it says none, and no version of it was ever certified that it could be held to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub version_unknown: bool,
    /// The version that passed the contract suite last; absent where none ever did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certified: Option<String>,
    /// The results of `bowline certify` here for the installed version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certified_here: Option<Certificate>,
    /// Its login.
    pub auth: Auth,
    /// How it can be run.
    pub modes: Modes,
    /// Capabilities of the manifest that the installed program lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Shortfall>,
    /// The result of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
    /// The problem.
    pub problems: Vec<Problem>,
    /// Facts that are unknown; runs work without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// How long it took to find out, in milliseconds.
    pub took_ms: u64,
}

/// How an agent can be run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Modes {
    /// How its answer comes: `text` as it is written, `messages` when each is complete, `answer` when all is done.
    pub streams: &'static str,
    /// The permission modes that it offers.
    pub permissions: Vec<PermissionMode>,
    /// The better formats, by the permission modes for which they are taken.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub better: BTreeMap<PermissionMode, String>,
}

/// A capability that an installed program does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shortfall {
    /// The capability.
    pub capability: String,
    /// Why.
    pub reason: String,
}

impl From<LostCapability> for Shortfall {
    fn from(lost: LostCapability) -> Self {
        Self { capability: lost.capability, reason: lost.reason }
    }
}

/// Something that is wrong, and what to do about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The problem.
    pub what: String,
    /// The fix; a command, if one does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The same as the fix, where it is not a command of the agent's or the system's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
}

impl Problem {
    fn with_remedy(what: String, remedy: Remedy) -> Self {
        Self { what, fix: Some(remedy.to_string()), remedies: vec![remedy] }
    }
}

impl Row {
    /// Returns whether a run of it can be expected to work.
    pub fn is_usable(&self) -> bool {
        (self.health >= Health::Answers || self.version_unknown)
            && (self.auth.is_authenticated() || self.auth.unknown)
            && self.live.as_ref().is_none_or(|live| live.answered)
    }

    /// Returns whether the version that is installed passed the contract suite, here or at the release of this Bowline; nothing
    /// where none ever did.
    pub fn is_certified(&self) -> Option<bool> {
        if let Some(here) = &self.certified_here {
            return Some(here.holds());
        }
        Some(self.certified.as_ref()? == self.version.as_ref()?)
    }
}

/// Begins to look at everything, and returns where it is told as it becomes known.
///
/// Needs a tokio runtime: it is [`Error::NoRuntime`] outside of one.
pub fn begin(checkup: Checkup) -> Result<mpsc::UnboundedReceiver<News>, Error> {
    bowline_process::check_runtime()?;
    let (told, news) = mpsc::unbounded_channel();
    for manifest in checkup.providers.clone() {
        let (checkup, told) = (checkup.clone(), told.clone());
        tokio::spawn(async move {
            let row = agent(manifest, &checkup).await;
            // The receiver may have been dropped.
            let _ = told.send(News::Agent(Box::new(row)));
        });
    }
    tokio::spawn(async move {
        for item in machine::items(&checkup.surroundings, checkup.settings).await {
            let _ = told.send(News::Machine(item));
        }
    });
    Ok(news)
}

/// Returns the names of a provider: an entry of a router's file has its provider's as another.
fn names(manifest: &Manifest) -> impl Iterator<Item = &str> {
    std::iter::once(manifest.name.as_str()).chain(manifest.aliases.iter().map(String::as_str))
}

/// Looks at one agent.
async fn agent(manifest: &'static Manifest, checkup: &Checkup) -> Row {
    let began = clock::instant();
    let (surroundings, profile) = (&checkup.surroundings, checkup.accounts.get(&manifest.name));
    let mut row = Row {
        provider: manifest.name.clone(),
        title: manifest.title.clone(),
        profile: profile.map(|profile| profile.name.clone()),
        health: Health::Missing,
        path: None,
        how: None,
        version: None,
        version_unknown: false,
        certified: names(manifest).find_map(compat::certified).map(str::to_owned),
        certified_here: None,
        auth: auth::look(manifest, profile, surroundings),
        modes: Modes::default(),
        lost: Vec::new(),
        live: None,
        problems: Vec::new(),
        remarks: Vec::new(),
        took_ms: 0,
    };
    match detect::find_anywhere(manifest, None, surroundings).await {
        Ok(found) => row.installed(&found, checkup).await,
        Err(missing) => {
            let what = match &missing.kind {
                MissingKind::Absent => "not installed".to_owned(),
                kind @ (MissingKind::NoSuchFile | MissingKind::NotExecutable { .. }) => kind.to_string(),
            };
            // A sentence is no command.
            let about = manifest.install.about.as_ref().map(|about| format!("; {about}")).unwrap_or_default();
            row.problems.push(Problem {
                what: what + &about,
                fix: manifest.install.command.clone(),
                ..Problem::default()
            });
        }
    }
    if checkup.live == Requests::One && row.is_usable() {
        let live = health::live(manifest, profile).await;
        match &live.problem {
            None => {
                (row.health, row.auth.verified) = (Health::Live, true);
                (row.auth.status, row.auth.unknown) = (Status::Authenticated, false);
            }
            Some(what) => {
                let what = format!("a request was not answered: {what}");
                row.problems.push(remedy(what, &live, manifest, profile));
            }
        }
        row.live = Some(live);
    }
    if row.auth.unknown && row.health != Health::Missing {
        row.remarks.push(format!("the login status is unknown: {}", manifest.auth.about));
    }
    row.took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    row
}

impl Row {
    /// Looks at a program that is there.
    async fn installed(&mut self, found: &Found, checkup: &Checkup) {
        let Checkup { surroundings, ask, accounts, .. } = checkup;
        let manifest = found.manifest;
        let profile = accounts.get(&manifest.name);
        self.health = Health::Found;
        self.path = Some(found.program().to_owned());
        self.how = Some(found.how.to_string());
        self.auth.binary = Binary::Found;
        if self.auth.status == Status::NotFound {
            self.auth.status = Status::Installed;
        }
        if !manifest.probe.health.is_empty() {
            return self.asked(found, ask).await;
        }
        let mut session = ask.session(found);
        let version = match session.version().await {
            Ok(version) => Some(version),
            // `--version` is a guess of ours there, and a run does without it.
            Err(ProbeError {
                kind: kind @ (ProbeErrorKind::NoVersion { .. } | ProbeErrorKind::TooSlow { .. }),
                args,
                ..
            }) if self.certified.is_none() => {
                self.version_unknown = true;
                self.remarks
                    .push(format!("its version is not known: {}", unanswered(&args, &kind, manifest).what));
                None
            }
            Err(error) => {
                // A program that does not even print its version is not started again.
                self.problems.push(unanswered(&error.args, &error.kind, manifest));
                return;
            }
        };
        if version.is_some() {
            self.health = Health::Answers;
        }
        self.version = version.as_ref().map(ToString::to_string);
        let proven = version.as_ref().is_some_and(|version| detect::is_proven(manifest, version));
        let login = auth::check_found(manifest, Some(found), profile, surroundings, ask);
        // A program that does not print its version is not asked for its help pages.
        let pages =
            async { if proven || version.is_none() { Ok(Vec::new()) } else { session.pages().await } };
        let (pages, auth) = tokio::join!(pages, login);
        self.auth = auth;
        self.can(manifest, pages.as_deref().unwrap_or_default(), version.as_ref());
        if let Err(error) = pages {
            self.problems.push(unanswered(&error.args, &error.kind, manifest));
        }
        let home = Home::of(surroundings).ok();
        self.certified_here = home
            .zip(self.version.as_deref())
            .and_then(|(home, version)| Certificate::read(&home, &manifest.name, version));
        let fix = Some(format!("bowline certify {}", manifest.name));
        if let Some(red) = self.certified_here.as_ref().filter(|here| !here.holds()) {
            let what =
                format!("this version failed {} here: {}", cases(red.failed.len()), red.failed.join(", "));
            self.problems.push(Problem { what, fix, ..Problem::default() });
        } else if let Some(certified) = self.certified.clone().filter(|_| self.is_certified() == Some(false))
        {
            let what = format!("this version was never certified; {certified} was");
            self.problems.push(Problem { what, fix, ..Problem::default() });
        }
        self.login(manifest);
    }

    /// Runs the health command of a program that has one, and reads its version, which may be absent.
    async fn asked(&mut self, found: &Found, ask: &Ask) {
        let manifest = found.manifest;
        self.can(manifest, &[], None);
        let (version, health) = tokio::join!(ask.version(found), roster::health(manifest));
        self.version = version.ok().map(|version| version.to_string());
        match health {
            Ok(Some(health)) if !health.well => {
                let what = if health.said.is_empty() {
                    "it reports that it is not healthy".to_owned()
                } else {
                    health.said
                };
                self.problems.push(Problem { what, fix: None, ..Problem::default() });
            }
            Ok(_) => self.health = Health::Answers,
            Err(error) => self.problems.push(unanswered(&error.args, &error.kind, manifest)),
        }
        self.login(manifest);
    }

    /// Adds how it can be run.
    fn can(&mut self, manifest: &Manifest, pages: &[probe::Page], version: Option<&probe::Version>) {
        let findings = if pages.is_empty() { Vec::new() } else { check(manifest, pages, version) };
        let narrowed = narrow(manifest, &findings);
        let answer_only = narrowed
            .format
            .as_ref()
            .is_some_and(|(name, _)| manifest.run.no_stream_format.as_ref() == Some(name));
        self.modes = Modes {
            streams: match (narrowed.capabilities.streams_text, answer_only) {
                (true, _) => "text",
                (false, true) => "answer",
                (false, false) => "messages",
            },
            permissions: narrowed.capabilities.permission_modes.clone(),
            better: better(manifest, &narrowed),
        };
        for (format, reason) in &narrowed.lacking {
            let what = format!("{format}: {reason}");
            self.problems.push(Problem { what, fix: manifest.install.command.clone(), ..Problem::default() });
        }
        for lost in narrowed.lost {
            let what = format!("{}: {}", lost.capability, lost.reason);
            self.problems.push(Problem { what, fix: manifest.install.command.clone(), ..Problem::default() });
            self.lost.push(lost.into());
        }
    }

    fn login(&mut self, manifest: &Manifest) {
        if let Some(silent) = &self.auth.silent {
            let what = format!("the program did not report its login status: {silent}");
            // A program that can be used is no worse for that.
            if !self.auth.is_authenticated() {
                self.problems.push(Problem { what, fix: manifest.auth.login.clone(), ..Problem::default() });
                return;
            }
        }
        if self.auth.is_authenticated() || self.auth.unknown {
            return;
        }
        let what = match &self.auth.word {
            Some(_) => "not logged in".to_owned(),
            None => format!("no login was found: {}", manifest.auth.about),
        };
        self.problems.push(Problem { what, fix: login_command(manifest), ..Problem::default() });
    }
}

fn cases(count: usize) -> String {
    if count == 1 {
        "1 case of `bowline certify`".to_owned()
    } else {
        format!("{count} cases of `bowline certify`")
    }
}

/// Returns the better formats that the program has, by the permission modes for which they are taken.
fn better(manifest: &Manifest, narrowed: &NarrowedCapabilities) -> BTreeMap<PermissionMode, String> {
    let modes = narrowed.capabilities.permission_modes.iter();
    let formats = modes.filter_map(|mode| Some((*mode, manifest.better_format(*mode)?.0)));
    let had = formats.filter(|(_, format)| !narrowed.lacking.contains_key(*format));
    had.map(|(mode, format)| (mode, format.to_owned())).collect()
}

/// Returns the problem of a request that was not answered. The cause decides what helps.
fn remedy(what: String, live: &Live, manifest: &Manifest, profile: Option<&Profile>) -> Problem {
    let provider = manifest.name.clone();
    let profile = profile.map(|profile| profile.name.clone());
    let fix = match live.category {
        Some(Category::Authentication) => login_command(manifest),
        Some(Category::Quota | Category::RateLimit) => match live.resets_at {
            Some(at) => Some(format!("wait until {}, when the limit starts anew", clock::in_words(at))),
            None if live.hint.is_some() => live.hint.clone(),
            None if manifest.ask.limits.is_some() => {
                return Problem::with_remedy(what, Remedy::ShowLimits { provider, profile });
            }
            None => Some("wait for the limit to start anew, or use another account".to_owned()),
        },
        Some(Category::NotFound) => live.hint.clone().or_else(|| manifest.install.command.clone()),
        Some(Category::Network | Category::Server | Category::Timeout) => {
            Some("check the network and the service, and try again".to_owned())
        }
        Some(Category::Validation | Category::Configuration | Category::Unknown) | None => live.hint.clone(),
    };
    match fix {
        Some(fix) => Problem { what, fix: Some(fix), ..Problem::default() },
        None => Problem::with_remedy(what, Remedy::RunOnce { provider, profile }),
    }
}

/// Returns what logs in.
fn login_command(manifest: &Manifest) -> Option<String> {
    let variable = || manifest.auth.env.first().map(|variable| format!("export {variable}=…"));
    manifest.auth.login.clone().or_else(variable)
}

/// A question that was not answered, as a problem.
fn unanswered(args: &[String], kind: &ProbeErrorKind, manifest: &Manifest) -> Problem {
    let command = format!("{} {}", manifest.program, args.join(" "));
    let what = match std::error::Error::source(kind) {
        Some(source) => format!("`{command}`: {kind}: {source}"),
        None => format!("`{command}`: {kind}"),
    };
    let fix = match kind {
        // It waits for something that it may show to a person, or the machine was busy.
        ProbeErrorKind::TooSlow { .. } => Some(format!("run `{command}` by hand, and see what it waits for")),
        ProbeErrorKind::Spawn(_)
        | ProbeErrorKind::Killed { .. }
        | ProbeErrorKind::NoVersion { .. }
        | ProbeErrorKind::Ended { .. }
        | ProbeErrorKind::NotTold(_) => manifest.install.command.clone(),
        ProbeErrorKind::Keeper(_) | ProbeErrorKind::Home { .. } => None,
    };
    Problem { what, fix, ..Problem::default() }
}
