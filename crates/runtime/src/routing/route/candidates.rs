//! The candidates of a request, and the facts about each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bowline_engine::retry::Fallback;
use bowline_engine::route::{Candidate, CandidateFacts, HINTS, RouteMemory, RouteRequest, canonical};
use bowline_protocol::Timestamp;
use bowline_providers::catalogue;
use bowline_providers::invocation::Streaming;
use bowline_providers::invocation::external::ExternalCli;
use bowline_providers::manifest::{Chosen, Manifest};
use bowline_providers::models::suited;

use super::AUTO;
use super::entry::{ContextLimit, row};
use super::listed::{is_own, manifest_of, own};
use crate::agents::models;
use crate::agents::profile::Profile;
use crate::agents::roster::Roster;
use crate::run::error::Error;
use crate::run::settings::{ConfigError, EntryKind, FileOwner, Router, RouterEntry, RunSettings};
use crate::run::task::{AttemptContext, Task};
use crate::system::surroundings::Surroundings;

/// The priority of a provider without one in a file.
const USUAL_PRIORITY: i64 = 50;

/// How a candidate is run.
#[derive(Clone, Debug)]
pub(super) enum CandidateLaunch {
    /// With a manifest.
    Manifest(&'static Manifest),
    /// As an external CLI, described in pi's form.
    External(Box<ExternalCli>),
    /// It cannot be run, for this reason.
    Not(String),
}

/// A candidate, the facts about it, and how it is run.
#[derive(Debug)]
pub(super) struct GatheredCandidate {
    pub(super) candidate: Candidate,
    pub(super) facts: CandidateFacts,
    pub(super) launch: CandidateLaunch,
    /// Its entry in the router's file.
    pub(super) entry: Option<RouterEntry>,
    /// Its profile, if it has one of its own.
    pub(super) profile: Option<Profile>,
}

/// All candidates of a request.
#[derive(Debug)]
pub(super) struct Candidates {
    pub(super) ask: RouteRequest,
    pub(super) all: Vec<GatheredCandidate>,
    pub(super) context_limit: ContextLimit,
    roster: Roster,
    pub(super) variables: Arc<Surroundings>,
}

/// Returns whether the caller named one provider.
pub(super) fn is_named(task: &Task) -> bool {
    task.request.provider.as_deref().is_some_and(|name| !name.eq_ignore_ascii_case(AUTO))
}

/// Returns whether the caller listed the providers.
pub(super) fn is_listed(task: &Task) -> bool {
    !task.route.providers.is_empty()
}

fn wrong(error: &ConfigError) -> Error {
    Error::Config(Box::new(error.clone()))
}

impl Candidates {
    /// Gathers the candidates, and the facts about each.
    pub(super) fn gather(
        task: &Task,
        settings: &RunSettings,
        memory: &RouteMemory,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let ask = RouteRequest {
            hint: task.route.hint.clone(),
            model: task.request.model.clone(),
            named: is_named(task),
            listed: is_listed(task),
            strategy: super::strategy(settings),
            max_latency: settings.router.as_ref().and_then(|router| router.routing.max_latency),
            prefer_local: super::tuning(task, settings).is_some_and(|tuning| tuning.prefer_local),
            last: memory.last.clone(),
            now,
        };
        let mut candidates = Self {
            ask,
            all: Vec::new(),
            context_limit: ContextLimit::of(settings),
            roster: settings.roster.clone(),
            variables: task.variables().clone(),
        };
        let named = task.request.provider.as_deref().filter(|_| is_named(task));
        match named {
            Some(_) if task.manifest.is_some() => candidates.candidates_of(task.manifest),
            Some(name) => candidates.named(name, settings)?,
            None => {}
        }
        for GatheredCandidate { candidate, .. } in &mut candidates.all {
            candidate.named = true;
            candidate.model = candidate.model.take().or_else(|| task.defaults.model.clone());
        }
        if is_listed(task) {
            candidates.listed(&task.route.providers, settings)?;
        } else if named.is_none() || matches!(task.route.fallback, Some(Fallback::Next | Fallback::Any)) {
            candidates.choice(settings.router.as_ref())?;
        }
        if !is_named(task) && !is_listed(task) {
            candidates.described(settings)?;
        }
        let own = settings.prices.clone();
        // Two passes: `pass_model_on` needs the models of all candidates, and the facts depend on its result.
        for place in 0..candidates.all.len() {
            candidates.account(place, task, settings);
            candidates.list(place);
        }
        candidates.pass_model_on();
        for place in 0..candidates.all.len() {
            let facts = candidates.facts(place, task, memory, &own);
            candidates.all[place].facts = facts;
        }
        Ok(candidates)
    }

    /// Finds the profile of a candidate.
    fn account(&mut self, place: usize, task: &Task, settings: &RunSettings) {
        let said = task.profile.clone().filter(|_| self.is_meant(place));
        if let (None, Some(name)) = (&said, &self.all[place].candidate.profile) {
            let profile = settings.profiles.get(name).cloned();
            if profile.is_none() {
                let known = settings.profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                let known =
                    if known.is_empty() { "none are set".to_owned() } else { format!("there is {known}") };
                self.all[place].launch =
                    CandidateLaunch::Not(format!("there is no profile `{name}`; {known}"));
            }
            self.all[place].profile = profile;
            return;
        }
        self.all[place].candidate.profile = said.as_ref().map(|profile| profile.name.clone());
        self.all[place].profile = said;
    }

    /// Fills in the cached list of models that the candidate's program reported for its profile.
    fn list(&mut self, place: usize) {
        if let CandidateLaunch::Manifest(manifest) = &self.all[place].launch {
            let profile = self.all[place].profile.as_ref();
            let known = models::known(manifest, profile, &self.variables);
            let hints = &mut self.all[place].candidate.hints;
            for (hint, _) in HINTS {
                // The file and the manifest take precedence over a guess from the names of models.
                if let (false, Some(model)) = (hints.contains_key(hint), suited(&known, hint, self.ask.now)) {
                    hints.insert(hint.to_owned(), model.id.clone());
                }
            }
            // `default` stands for the program's own choice and is not the name of a model.
            let ids = known.into_iter().map(|model| model.id).filter(|id| id != "default");
            self.all[place].candidate.listed = ids.collect();
        }
    }

    /// Returns the manifest for queries about the account, with the program and the variables of the entry.
    pub(super) fn about(&self, place: usize) -> Option<&'static Manifest> {
        let CandidateLaunch::Manifest(manifest) = &self.all[place].launch else { return None };
        Some(self.all[place].entry.as_ref().map_or(*manifest, |entry| own(manifest, entry)))
    }

    /// Adds the named candidate: an entry of the router's file, else a provider, else an external CLI.
    fn named(&mut self, name: &str, settings: &RunSettings) -> Result<(), Error> {
        let router = settings.router.as_ref();
        if let Some((router, entry)) = router.and_then(|router| Some((router, router.entry(name)?))) {
            stands_in(entry, router, &self.roster)?;
            // Naming an entry enables it.
            self.entry(&RouterEntry { enabled: true, ..entry.clone() }, router);
            return Ok(());
        }
        match settings.roster.find(name) {
            Ok(manifest) => self.manifest(manifest),
            Err(error) => match settings.external.get(name).map_err(wrong)? {
                Some(external) => self.external(name, external),
                None => return Err(error.into()),
            },
        }
        Ok(())
    }

    /// Adds the providers that the caller listed, each once.
    fn listed(&mut self, names: &[String], settings: &RunSettings) -> Result<(), Error> {
        for name in names {
            self.named(name, settings)?;
            let known = self.all.len() - 1;
            let twice =
                self.all[..known].iter().any(|it| it.candidate.name == self.all[known].candidate.name);
            if twice {
                self.all.pop();
            }
        }
        Ok(())
    }

    /// Passes a model that none of the listed providers is known to have to all of them, as for a named provider: lists of
    /// models are never complete.
    fn pass_model_on(&mut self) {
        let Some(model) = self.ask.model.as_ref().filter(|_| self.ask.listed) else { return };
        if !self.all.iter().any(|it| it.candidate.has(model)) {
            self.all.iter_mut().for_each(|it| it.candidate.any_model = true);
        }
    }

    /// Adds the candidates to choose from, without the one that the caller named.
    fn choice(&mut self, router: Option<&Router>) -> Result<(), Error> {
        let named = self.all.first().map(|it| it.candidate.name.clone());
        let other = |name: &str| named.as_deref() != Some(name);
        if let Some(router) = router {
            let others = router.providers.iter().filter(|entry| other(&entry.name));
            others.for_each(|entry| self.entry(entry, router));
            return Ok(());
        }
        // A broken manifest affects its own provider only.
        let (all, _) = self.roster.all()?;
        let free = all.iter().map(|entry| entry.manifest);
        self.candidates_of(
            free.filter(|manifest| manifest.chosen != Chosen::ByName && other(&manifest.name)),
        );
        Ok(())
    }

    /// Returns whether the caller's profile and program apply to a candidate.
    fn is_meant(&self, place: usize) -> bool {
        if self.ask.listed { place == 0 } else { !self.ask.named || self.all[place].candidate.named }
    }

    fn candidates_of(&mut self, manifests: impl IntoIterator<Item = &'static Manifest>) {
        manifests.into_iter().for_each(|manifest| self.manifest(manifest));
    }

    fn add(&mut self, candidate: Candidate, launch: CandidateLaunch, entry: Option<RouterEntry>) {
        let facts = CandidateFacts::default();
        self.all.push(GatheredCandidate { candidate, facts, launch, entry, profile: None });
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
        self.add(candidate, CandidateLaunch::Manifest(manifest), None);
    }

    fn entry(&mut self, entry: &RouterEntry, router: &Router) {
        let launch = match manifest_of(entry, router, &self.roster) {
            Ok(manifest) => CandidateLaunch::Manifest(manifest),
            Err(gap) => CandidateLaunch::Not(gap.what),
        };
        let manifest = match &launch {
            CandidateLaunch::Manifest(manifest) => Some(*manifest),
            CandidateLaunch::External(_) | CandidateLaunch::Not(_) => None,
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
        // The file takes precedence over the manifest.
        candidate.hints.extend(entry.models.clone());
        self.add(candidate, launch, Some(entry.clone()));
    }

    /// Adds the external CLI whose model name the request has.
    fn described(&mut self, settings: &RunSettings) -> Result<(), Error> {
        let Some(model) = self.ask.model.clone() else { return Ok(()) };
        let model = model.as_str();
        let Some(external) = settings.external.get(model).map_err(wrong)? else {
            let has = |it: &GatheredCandidate| it.candidate.enabled && it.candidate.has(model);
            return match settings.external.broken() {
                Some(error) if !self.all.iter().any(has) => Err(wrong(error)),
                Some(_) | None => Ok(()),
            };
        };
        self.external(model, external);
        Ok(())
    }

    fn external(&mut self, model: &str, external: &ExternalCli) {
        let candidate = Candidate {
            name: model.to_owned(),
            provider: model.to_owned(),
            enabled: true,
            priority: USUAL_PRIORITY,
            model: Some(model.to_owned()),
            ..Candidate::default()
        };
        self.add(candidate, CandidateLaunch::External(Box::new(external.clone())), None);
    }

    /// Configures a task for a candidate: provider, profile, program, and the options of its entry. Returns the context of the
    /// attempt, with the external CLI and the prices of the entry.
    pub(super) fn configure(
        &self,
        place: usize,
        model: Option<String>,
        task: &mut Task,
        named: Option<&PathBuf>,
    ) -> AttemptContext {
        let mut context = AttemptContext { entry: self.entry_name(place), ..AttemptContext::default() };
        let candidate = &self.all[place].candidate;
        task.request.model = model.or_else(|| candidate.model_for(&self.ask).model);
        task.request.provider = Some(candidate.provider.clone());
        (task.manifest, context.external) = match &self.all[place].launch {
            CandidateLaunch::Manifest(manifest) => (Some(*manifest), None),
            CandidateLaunch::External(external) => {
                (None, Some((candidate.name.clone(), (**external).clone())))
            }
            CandidateLaunch::Not(_) => (None, None),
        };
        task.profile.clone_from(&self.all[place].profile);
        task.binary = self.binary(place, named);
        // The candidate's model is decided, and a fallback has a model of its own.
        task.defaults.model = None;
        let entry = self.all[place].entry.as_ref();
        let timeout = entry.and_then(|entry| entry.timeout).or(task.defaults.timeout);
        task.request.timeout_ms = task.request.timeout_ms.or(timeout);
        let Some(entry) = entry else { return context };
        for (name, value) in &entry.env {
            task.request.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, value) in &entry.options {
            task.request.config.entry(name.clone()).or_insert_with(|| value.clone());
        }
        // Reading the file has already warned about keys that the agent has no setting for.
        let has = |name: &str| task.manifest.is_some_and(|manifest| manifest.has_setting(name));
        let passed: Vec<_> = entry.unknown.iter().filter(|(name, _)| has(name)).collect();
        for (name, key) in passed {
            task.request.config.entry(name.clone()).or_insert_with(|| key.value.clone());
        }
        if entry.streaming == Some(false) {
            task.streaming = Streaming::Off;
        }
        let (own, usual) = (&mut task.request.sampling, entry.sampling);
        own.max_tokens = own.max_tokens.or(usual.max_tokens);
        own.temperature = own.temperature.or(usual.temperature);
        own.top_p = own.top_p.or(usual.top_p);
        context.prices = row(entry).into_iter().collect();
        self.context_limit.shorten(entry, task);
        context
    }

    /// Returns the name of a candidate in a file; none if no file lists it.
    fn entry_name(&self, place: usize) -> Option<String> {
        let listed =
            self.all[place].entry.is_some() || matches!(self.all[place].launch, CandidateLaunch::External(_));
        listed.then(|| self.all[place].candidate.name.clone())
    }

    /// Returns a program other than the default: the caller's, else that of the router's file.
    pub(super) fn binary(&self, place: usize, named: Option<&PathBuf>) -> Option<PathBuf> {
        let kind = self.all[place].entry.as_ref().map(|entry| &entry.kind);
        let own = match kind {
            Some(EntryKind::Agent { binary, .. }) => binary.clone(),
            Some(EntryKind::Executable { .. } | EntryKind::Foreign(_)) | None => None,
        };
        named.filter(|_| self.is_meant(place)).cloned().or(own)
    }
}

/// Rejects an entry of a project's file that has the name of a provider and would run another program: a caller who names that
/// provider expects the known one.
pub(super) fn stands_in(entry: &RouterEntry, router: &Router, roster: &Roster) -> Result<(), Error> {
    let own = entry.owner == FileOwner::User;
    let Some(known) = roster.find(&entry.name).ok().filter(|_| !own) else { return Ok(()) };
    let same = match &entry.kind {
        EntryKind::Agent { provider, .. } => !is_own(entry) && catalogue::same_name(known, provider),
        EntryKind::Executable { .. } | EntryKind::Foreign(_) => false,
    };
    if same {
        return Ok(());
    }
    let what = format!(
        "an entry of a project's file has the name of the provider `{}` and is something else",
        entry.name
    );
    let error = ConfigError {
        at: Some((entry.line, 1)),
        hint: Some("give the entry another name, or move it to a file of your own".to_owned()),
        ..ConfigError::of_file(&router.path, what)
    };
    Err(error.into())
}

fn hints(hints: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    hints.iter().map(|(hint, model)| (canonical(hint), model.clone())).collect()
}
