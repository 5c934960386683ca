//! The facts about a candidate: whether it is installed, logged in, out of quota, and able to honour the request.

use bowline_engine::route::{self, CandidateFacts, RouteMemory};
use bowline_protocol::RequestField;
use bowline_providers::invocation::Unrestricted;
use bowline_providers::manifest::Manifest;
use bowline_providers::prices;

use super::candidates::{CandidateLaunch, Candidates};
use super::entry::row;
use crate::agents::profile::Profile;
use crate::agents::{auth, detect, limits};
use crate::run::error::Error;
use crate::run::launch::{self, Driver};
use crate::run::task::Task;
use crate::system::surroundings::Surroundings;

impl Candidates {
    pub(super) fn facts(
        &self,
        place: usize,
        task: &Task,
        memory: &RouteMemory,
        own: &[prices::Row],
    ) -> CandidateFacts {
        let candidate = &self.all[place].candidate;
        let model = candidate.model_for(&self.ask).model;
        let key = candidate.key(model.as_deref());
        let mut facts = CandidateFacts {
            breaker: memory.state(&key, self.ask.now),
            latency: memory.latency(&key),
            price: self.price(place, model.as_deref(), own),
            ..CandidateFacts::default()
        };
        let driver = match &self.all[place].launch {
            CandidateLaunch::Not(reason) => {
                facts.absent = Some(reason.clone());
                return facts;
            }
            CandidateLaunch::External(external) => {
                Driver::External(Box::new((candidate.name.clone(), (**external).clone())))
            }
            CandidateLaunch::Manifest(manifest) => {
                // A container has its own programs and logins, and a script needs neither.
                let here = task.request.docker.is_none() && !task.is_scripted();
                if here {
                    let (profile, surroundings) = (self.all[place].profile.as_ref(), &*self.variables);
                    let about = self.about(place).unwrap_or(manifest);
                    facts.limit = used_up(about, profile, surroundings);
                    let binary = self.binary(place, task.binary.as_ref());
                    if let Err(missing) = detect::find(manifest, binary.as_deref(), &surroundings.search()) {
                        facts.absent = Some(match binary {
                            Some(binary) => format!("`{}`: {}", binary.display(), missing.kind),
                            None => format!("`{}` is not installed", manifest.program),
                        });
                    }
                    let asks = !(manifest.auth.env.is_empty() && manifest.auth.files.is_empty());
                    // The caller of a named provider may know of a login that we cannot see.
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
        facts.cannot = self.cannot(place, task, &driver, model);
        facts
    }

    /// Returns why a candidate cannot honour the request.
    fn cannot(&self, place: usize, task: &Task, driver: &Driver, model: Option<String>) -> Option<String> {
        let candidate = &self.all[place].candidate;
        let named = candidate.named || matches!(self.all[place].launch, CandidateLaunch::External(_));
        if task.request.resume.is_some() && !named {
            return Some("only the provider of a session can resume it: name that provider".to_owned());
        }
        let entry = self.all[place].entry.as_ref();
        if let Some(lacks) = entry.and_then(|entry| self.context_limit.lacks(entry, task)) {
            return Some(lacks);
        }
        if !(named || task.agent_args.is_empty()) {
            // Native arguments belong to one program, so the caller has to name it.
            let field = RequestField::AgentArgs.value(task.agent_args[0].escape_debug().to_string());
            return Some(format!("`{field}` is for the provider that is named"));
        }
        let mut wish = launch::wish(task, driver, task.streaming);
        if !named {
            // The router never chooses an agent that would run without restrictions.
            wish.unrestricted = Unrestricted::Refuse;
        }
        let built = launch::completed(task, driver, model, self.all[place].profile.as_ref()).and_then(
            |mut request| {
                task.describe_tools(&mut request);
                driver.build(&request, &wish).map_err(Error::from)
            },
        );
        built.err().map(|error| match (&error, &self.all[place].launch) {
            // The file belongs to the caller, so show the hint for changing it.
            (Error::Refused(refusal), CandidateLaunch::External(_)) => match refusal.advice() {
                Some(hint) => format!("{error}; {hint}"),
                None => error.to_string(),
            },
            _ => error.to_string(),
        })
    }

    /// Looks for a login: in the variables and files of the program, then in its last cached report.
    fn login(
        &self,
        place: usize,
        task: &Task,
        about: &'static Manifest,
        surroundings: &Surroundings,
    ) -> route::LoginState {
        let profile = self.all[place].profile.as_ref();
        let known = auth::known(about, profile, surroundings);
        let mut own = surroundings.clone();
        let entry = self.all[place].entry.iter().flat_map(|entry| &entry.env);
        entry.chain(&task.request.env).for_each(|(name, value)| own.set(name, value));
        if known.verified || auth::look(about, profile, &own).is_authenticated() {
            route::LoginState::Seen
        } else if known.word.is_none() && about.ask.login.is_some() {
            route::LoginState::Unseen
        } else {
            route::LoginState::Missing(format!("no login was found: {}", about.auth.about))
        }
    }

    /// Returns the price of a candidate's model: from its entry in the router's file, else from the price lists.
    fn price(&self, place: usize, model: Option<&str>, own: &[prices::Row]) -> Option<prices::Price> {
        match self.all[place].entry.as_ref().and_then(row) {
            Some(row) => prices::of("any", &[row]),
            None => prices::of(model?, own),
        }
    }
}

/// Returns the used-up limit of an account, from its program's report of the last minute.
fn used_up(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
) -> Option<route::UsedUpLimit> {
    let limits = limits::remembered(manifest, profile, surroundings)?;
    let full = limits.windows.into_iter().filter(|it| it.used_percent.is_some_and(|used| used >= 100.0));
    // The account is usable again when the last of its full windows resets.
    let last = full.max_by_key(|window| window.resets_at)?;
    Some(route::UsedUpLimit { window: last.name, resets_at: last.resets_at })
}
