//! Who may be asked, and what is known about each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline_engine::retry::Fallback;
use bowline_engine::route::{self, Ask, Candidate, Facts, Memory, canonical};
use bowline_protocol::Timestamp;
use bowline_providers::invocation::external::ExternalCli;
use bowline_providers::invocation::{Streaming, Unrestricted};
use bowline_providers::manifest::{Chosen, Manifest};
use bowline_providers::{catalogue, prices};

use super::AUTO;
use super::entry::{Room, row};
use super::listed::{is_own, manifest_of, own};
use crate::config::{Config, ConfigError, Entry, EntryKind, FileOwner, Router};
use crate::detect::{self, Search, Surroundings};
use crate::launch::{self, Driver};
use crate::profile::Profile;
use crate::roster::{self, Roster};
use crate::task::Task;
use crate::{Error, auth, limits, models};

/// The priority of those that no file gives one.
const USUAL_PRIORITY: i64 = 50;

/// How a candidate is run.
#[derive(Clone, Debug)]
pub(super) enum How {
    /// By a manifest.
    Manifest(&'static Manifest),
    /// By a description in the form of the specification for pi.
    External(Box<ExternalCli>),
    /// Not at all, for this reason.
    Not(String),
}

/// All who may be asked.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) ask: Ask,
    pub(super) candidates: Vec<(Candidate, Facts)>,
    pub(super) hows: Vec<How>,
    pub(super) entries: Vec<Option<Entry>>,
    /// The account of each, where it has one of its own.
    pub(super) profiles: Vec<Option<Profile>>,
    room: Room,
}

/// Says whether the caller named one provider.
pub(super) fn is_named(task: &Task) -> bool {
    task.request.provider.as_deref().is_some_and(|name| !name.eq_ignore_ascii_case(AUTO))
}

/// Says whether the caller listed the providers.
pub(super) fn is_listed(task: &Task) -> bool {
    !task.route.providers.is_empty()
}

impl Field {
    /// Gathers who may be asked, and what is known about each.
    pub(super) fn gather(
        task: &Task,
        config: &Config,
        memory: &Memory,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let ask = Ask {
            hint: task.route.hint.clone(),
            model: task.request.model.clone(),
            named: is_named(task),
            listed: is_listed(task),
            strategy: super::strategy(config),
            max_latency: config.router.as_ref().and_then(|router| router.routing.max_latency),
            prefer_local: super::tuning(task, config).is_some_and(|tuning| tuning.prefer_local),
            last: memory.last.clone(),
            now,
        };
        let mut field = Self {
            ask,
            candidates: Vec::new(),
            hows: Vec::new(),
            entries: Vec::new(),
            profiles: Vec::new(),
            room: Room::of(config),
        };
        let named = task.request.provider.as_deref().filter(|_| is_named(task));
        match named {
            Some(_) if task.manifest.is_some() => field.candidates_of(task.manifest),
            Some(name) => field.named(name, config.router.as_ref())?,
            None => {}
        }
        for (candidate, _) in &mut field.candidates {
            candidate.named = true;
            candidate.model = candidate.model.take().or_else(|| task.usual.model.clone());
        }
        if is_listed(task) {
            field.listed(&task.route.providers, config.router.as_ref())?;
        } else if named.is_none() || matches!(task.route.fallback, Some(Fallback::Next | Fallback::Any)) {
            field.choice(config.router.as_ref())?;
        }
        if !is_named(task) && !is_listed(task) {
            field.described(config)?;
        }
        let own = config.settings.prices();
        for place in 0..field.candidates.len() {
            field.account(place, task, config);
            field.list(place);
        }
        field.pass_model_on();
        for place in 0..field.candidates.len() {
            let facts = field.facts(place, task, memory, &own);
            field.candidates[place].1 = facts;
        }
        Ok(field)
    }

    /// Finds the account that a candidate is asked with.
    fn account(&mut self, place: usize, task: &Task, config: &Config) {
        let said = task.profile.clone().filter(|_| self.is_meant(place));
        if let (None, Some(name)) = (&said, &self.candidates[place].0.profile) {
            let profile = config.settings.profile(name);
            if profile.is_none() {
                let known = config.settings.profiles().join(", ");
                let known =
                    if known.is_empty() { "none are set".to_owned() } else { format!("there is {known}") };
                self.hows[place] = How::Not(format!("there is no profile `{name}`; {known}"));
            }
            return self.profiles.push(profile);
        }
        self.candidates[place].0.profile = said.as_ref().map(|profile| profile.name.clone());
        self.profiles.push(said);
    }

    /// Fills in the models that a candidate's program is known to list, to the account that it is asked with.
    fn list(&mut self, place: usize) {
        if let How::Manifest(manifest) = &self.hows[place] {
            let profile = self.profiles[place].as_ref();
            let known = models::known(manifest, profile, &Surroundings::from_env());
            // What stands for whatever the program takes by itself is nobody's model.
            let ids = known.into_iter().map(|model| model.id).filter(|id| id != "default");
            self.candidates[place].0.listed = ids.collect();
        }
    }

    /// Returns how somebody is asked about their account: with the program and the variables of their entry.
    pub(super) fn about(&self, place: usize) -> Option<&'static Manifest> {
        let How::Manifest(manifest) = &self.hows[place] else { return None };
        Some(self.entries[place].as_ref().map_or(*manifest, |entry| own(manifest, entry)))
    }

    /// The one that the caller named: in the router's file, else by the name of a provider.
    fn named(&mut self, name: &str, router: Option<&Router>) -> Result<(), Error> {
        if let Some((router, entry)) = router.and_then(|router| Some((router, router.entry(name)?))) {
            stands_in(entry, router)?;
            // Who names it wants it, also where it is not chosen by itself.
            self.entry(&Entry { enabled: true, ..entry.clone() }, router);
            return Ok(());
        }
        self.manifest(roster::find(name)?);
        Ok(())
    }

    /// The providers that the caller listed, each once.
    fn listed(&mut self, names: &[String], router: Option<&Router>) -> Result<(), Error> {
        for name in names {
            self.named(name, router)?;
            let known = self.candidates.len() - 1;
            let twice =
                self.candidates[..known].iter().any(|(it, _)| it.name == self.candidates[known].0.name);
            if twice {
                self.candidates.pop();
                self.hows.pop();
                self.entries.pop();
            }
        }
        Ok(())
    }

    /// Gives a model that none of the listed providers is known to have to all of them, as it would be given to one that is
    /// named: our lists of models are never complete.
    fn pass_model_on(&mut self) {
        let Some(model) = self.ask.model.as_ref().filter(|_| self.ask.listed) else { return };
        if !self.candidates.iter().any(|(candidate, _)| candidate.has(model)) {
            self.candidates.iter_mut().for_each(|(candidate, _)| candidate.any_model = true);
        }
    }

    /// Those among whom there is a choice, without the one that the caller named.
    fn choice(&mut self, router: Option<&Router>) -> Result<(), Error> {
        let named = self.candidates.first().map(|(candidate, _)| candidate.name.clone());
        let other = |name: &str| named.as_deref() != Some(name);
        if let Some(router) = router {
            let others = router.providers.iter().filter(|entry| other(&entry.name));
            others.for_each(|entry| self.entry(entry, router));
            return Ok(());
        }
        // A file that cannot be used is in the way of its own name only.
        let (all, _) = Roster::from_env().all()?;
        let free = all.iter().map(|entry| entry.manifest);
        self.candidates_of(
            free.filter(|manifest| manifest.chosen != Chosen::ByName && other(&manifest.name)),
        );
        Ok(())
    }

    /// Says whether what the caller said about an account and a program is meant for a candidate.
    fn is_meant(&self, place: usize) -> bool {
        if self.ask.listed { place == 0 } else { !self.ask.named || self.candidates[place].0.named }
    }

    fn candidates_of(&mut self, manifests: impl IntoIterator<Item = &'static Manifest>) {
        manifests.into_iter().for_each(|manifest| self.manifest(manifest));
    }

    fn add(&mut self, candidate: Candidate, how: How, entry: Option<Entry>) {
        self.candidates.push((candidate, Facts::default()));
        self.hows.push(how);
        self.entries.push(entry);
    }

    fn manifest(&mut self, manifest: &'static Manifest) {
        let candidate = Candidate {
            name: manifest.name.clone(),
            provider: manifest.name.clone(),
            enabled: true,
            priority: USUAL_PRIORITY,
            hints: hints(&manifest.hints),
            patterns: manifest.model_patterns.clone(),
            ..Candidate::default()
        };
        self.add(candidate, How::Manifest(manifest), None);
    }

    fn entry(&mut self, entry: &Entry, router: &Router) {
        let how = match manifest_of(entry, router) {
            Ok(manifest) => How::Manifest(manifest),
            Err(why) => How::Not(why),
        };
        let manifest = match &how {
            How::Manifest(manifest) => Some(*manifest),
            How::External(_) | How::Not(_) => None,
        };
        let mut candidate = Candidate {
            name: entry.name.clone(),
            provider: manifest.map_or_else(|| entry.name.clone(), |manifest| manifest.name.clone()),
            own: is_own(entry),
            profile: entry.profile.clone(),
            enabled: entry.enabled,
            priority: entry.priority,
            model: entry.model.clone(),
            hints: manifest.map(|manifest| hints(&manifest.hints)).unwrap_or_default(),
            patterns: manifest.map(|manifest| manifest.model_patterns.clone()).unwrap_or_default(),
            local: matches!(entry.kind, EntryKind::Executable { .. }),
            ..Candidate::default()
        };
        // What the file says comes before what the manifest knows.
        candidate.hints.extend(entry.models.clone());
        self.add(candidate, how, Some(entry.clone()));
    }

    /// The programs that a model of the specification for pi stands for.
    fn described(&mut self, config: &Config) -> Result<(), Error> {
        let Some(model) = &self.ask.model else { return Ok(()) };
        let wrong = |error: &ConfigError| Error::Config(Box::new(error.clone()));
        let Some(external) = config.external.get(model).map_err(wrong)? else {
            let has = |(candidate, _): &(Candidate, Facts)| candidate.enabled && candidate.has(model);
            return match config.external.broken() {
                Some(error) if !self.candidates.iter().any(has) => Err(wrong(error)),
                Some(_) | None => Ok(()),
            };
        };
        let candidate = Candidate {
            name: model.clone(),
            provider: model.clone(),
            enabled: true,
            priority: USUAL_PRIORITY,
            model: Some(model.clone()),
            ..Candidate::default()
        };
        self.add(candidate, How::External(Box::new(external.clone())), None);
        Ok(())
    }

    fn facts(&self, place: usize, task: &Task, memory: &Memory, own: &[prices::Row]) -> Facts {
        let candidate = &self.candidates[place].0;
        let model = candidate.meant(&self.ask).model;
        let key = candidate.key(model.as_deref());
        let mut facts = Facts {
            breaker: memory.state(&key, self.ask.now),
            latency: memory.latency(&key),
            price: self.price(place, model.as_deref(), own),
            ..Facts::default()
        };
        let driver = match &self.hows[place] {
            How::Not(reason) => {
                facts.absent = Some(reason.clone());
                return facts;
            }
            How::External(external) => {
                Driver::External(Box::new((candidate.name.clone(), (**external).clone())))
            }
            How::Manifest(manifest) => {
                let here = task.request.docker.is_none() && !task.is_scripted();
                if here {
                    let (profile, surroundings) = (self.profiles[place].as_ref(), Surroundings::from_env());
                    let about = self.about(place).unwrap_or(manifest);
                    facts.limit = used_up(about, profile, &surroundings);
                    let binary = self.binary(place, task.binary.as_ref());
                    if let Err(missing) = detect::find(manifest, binary.as_deref(), &Search::from_env()) {
                        facts.absent = Some(match binary {
                            Some(binary) => format!("`{}`: {}", binary.display(), missing.kind),
                            None => format!("`{}` is not installed", manifest.program),
                        });
                    }
                    let asks = !(manifest.auth.env.is_empty() && manifest.auth.files.is_empty());
                    // Who names it may know of a login that we do not see.
                    if asks && !candidate.named {
                        facts.login = self.login(place, task, about, surroundings);
                    }
                }
                #[cfg(feature = "testing")]
                if task.is_scripted() && !task.cast.has(&candidate.name, &candidate.provider) {
                    facts.absent = Some("the test has no script for it".to_owned());
                }
                Driver::Manifest(manifest)
            }
        };
        let named = candidate.named || matches!(self.hows[place], How::External(_));
        if task.request.resume.is_some() && !named {
            facts.cannot =
                Some("a session goes on only with the agent that it began with: name it".to_owned());
        } else if let Some(lacks) =
            self.entries[place].as_ref().and_then(|entry| self.room.lacks(entry, task))
        {
            facts.cannot = Some(lacks);
        } else {
            let mut wish = launch::wish(task, &driver, task.streaming);
            if !named {
                // Nothing that the router chose by itself runs without restrictions.
                wish.unrestricted = Unrestricted::Refuse;
            }
            if !(named || task.agent_args.is_empty()) {
                // They are the options of one program, which has to be named.
                let option = format!("--agent-arg={}", task.agent_args[0].escape_debug());
                facts.cannot = Some(format!("`{option}` is for the provider that is named"));
                return facts;
            }
            let built = launch::completed(task, &driver, model, self.profiles[place].as_ref())
                .and_then(|request| driver.build(&request, &wish).map_err(Error::from));
            facts.cannot = built.err().map(|error| match (&error, &self.hows[place]) {
                // Its file is the caller's own, and so is what has to be added to it.
                (Error::Refused(refusal), How::External(_)) => match &refusal.hint {
                    Some(hint) => format!("{error}; {hint}"),
                    None => error.to_string(),
                },
                _ => error.to_string(),
            });
        }
        facts
    }

    /// Looks for a login: in the variables and files that the program would have, then in its own word.
    fn login(
        &self,
        place: usize,
        task: &Task,
        about: &'static Manifest,
        surroundings: Surroundings,
    ) -> route::Login {
        let profile = self.profiles[place].as_ref();
        let known = auth::known(about, profile, &surroundings);
        let mut own = surroundings;
        let entry = self.entries[place].iter().flat_map(|entry| &entry.env);
        entry.chain(&task.request.env).for_each(|(name, value)| own.set(name, value));
        if known.verified || auth::look(about, profile, &own).is_authenticated() {
            route::Login::Seen
        } else if known.word.is_none() && about.ask.login.is_some() {
            route::Login::Unseen
        } else {
            route::Login::Missing(format!("no login was found: {}", about.auth.about))
        }
    }

    /// Returns what somebody's model costs: by the entry of the router's file, else by the price lists.
    fn price(&self, place: usize, model: Option<&str>, own: &[prices::Row]) -> Option<prices::Price> {
        match self.entries[place].as_ref().and_then(row) {
            Some(row) => prices::of("any", &[row]),
            None => prices::of(model?, own),
        }
    }

    /// Makes a task the one of a candidate: its provider, account, program, and what the router's file says of it.
    pub(super) fn dress(
        &self,
        place: usize,
        model: Option<String>,
        task: &mut Task,
        named: Option<&PathBuf>,
    ) {
        let candidate = &self.candidates[place].0;
        task.request.model = model.or_else(|| candidate.meant(&self.ask).model);
        task.request.provider = Some(candidate.provider.clone());
        (task.manifest, task.leg.external) = match &self.hows[place] {
            How::Manifest(manifest) => (Some(*manifest), None),
            How::External(external) => (None, Some((candidate.name.clone(), (**external).clone()))),
            How::Not(_) => (None, None),
        };
        task.profile.clone_from(&self.profiles[place]);
        task.binary = self.binary(place, named);
        // Who has one by now needs no other, and whoever is fallen back to has its own.
        task.usual.model = None;
        let entry = self.entries[place].as_ref();
        let timeout = entry.and_then(|entry| entry.timeout).or(task.usual.timeout);
        task.request.timeout_ms = task.request.timeout_ms.or(timeout);
        let Some(entry) = entry else { return };
        for (name, value) in &entry.env {
            task.request.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, value) in &entry.options {
            task.request.config.entry(name.clone()).or_insert_with(|| value.clone());
        }
        if entry.streaming == Some(false) {
            task.streaming = Streaming::Off;
        }
        let (own, usual) = (&mut task.request.sampling, entry.sampling);
        own.max_tokens = own.max_tokens.or(usual.max_tokens);
        own.temperature = own.temperature.or(usual.temperature);
        own.top_p = own.top_p.or(usual.top_p);
        task.leg.prices = row(entry).into_iter().collect();
        self.room.shorten(entry, task);
    }

    /// Returns the name by which a file has a candidate; nothing for one that is in none.
    pub(super) fn entry_name(&self, place: usize) -> Option<String> {
        let listed = self.entries[place].is_some() || matches!(self.hows[place], How::External(_));
        listed.then(|| self.candidates[place].0.name.clone())
    }

    /// Returns the program where it is not the usual one: that of the caller, else that of the router's file.
    fn binary(&self, place: usize, named: Option<&PathBuf>) -> Option<PathBuf> {
        let kind = self.entries[place].as_ref().map(|entry| &entry.kind);
        let own = match kind {
            Some(EntryKind::Agent { binary, .. }) => binary.clone(),
            Some(EntryKind::Executable { .. } | EntryKind::Foreign(_)) | None => None,
        };
        named.filter(|_| self.is_meant(place)).cloned().or(own)
    }
}

/// Refuses an entry of a project's file that has the name of a provider and would run something else under it: whoever names
/// that provider means the one that they know.
pub(super) fn stands_in(entry: &Entry, router: &Router) -> Result<(), Error> {
    let own = entry.owner == FileOwner::User;
    let Some(known) = roster::find(&entry.name).ok().filter(|_| !own) else { return Ok(()) };
    let same = match &entry.kind {
        EntryKind::Agent { provider, .. } => !is_own(entry) && catalogue::same_name(known, provider),
        EntryKind::Executable { .. } | EntryKind::Foreign(_) => false,
    };
    if same {
        return Ok(());
    }
    Err(Error::Config(Box::new(ConfigError {
        path: router.path.clone(),
        at: Some((entry.line, 1)),
        line: None,
        what: format!(
            "an entry of a project's file has the name of the provider `{}` and is something else",
            entry.name
        ),
        hint: Some("give the entry another name, or move it to a file of your own".to_owned()),
    })))
}

/// Returns the limit of an account that is used up, as its program told within the last minute.
fn used_up(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
) -> Option<route::Limit> {
    let limits = limits::remembered(manifest, profile, surroundings)?;
    let full = limits.windows.into_iter().filter(|it| it.used_percent.is_some_and(|used| used >= 100.0));
    let last = full.max_by_key(|window| window.resets_at)?;
    Some(route::Limit { window: last.name, resets_at: last.resets_at })
}

fn hints(hints: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    hints.iter().map(|(hint, model)| (canonical(hint), model.clone())).collect()
}
