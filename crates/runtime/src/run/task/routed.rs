//! A task's options for the router, and the context of one attempt among several.

use std::sync::Arc;
use std::time::Duration;

use bowline_engine::Numbering;
use bowline_engine::budget::Amounts;
use bowline_engine::retry::Fallback;
use bowline_protocol::{Kind, McpServer, Millis, SessionId};
use bowline_providers::invocation::external::ExternalCli;
use bowline_providers::prices::Row;

use super::{AUTO, Beside, Task, millis};
use crate::agents::roster::Roster;
use crate::run::error::Error;
use crate::run::settings::RunSettings;
use crate::run::trust::ProjectTrust;
use crate::sessions::budget::{Pot, Share};
use crate::sessions::journal::SessionHold;
use crate::system::host::Cleanup;
use crate::system::surroundings::Surroundings;

/// The caller's options for the router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteOptions {
    /// The providers to try, in this order.
    pub(crate) providers: Vec<String>,
    /// The kind of model, such as `fast`.
    pub(crate) hint: Option<String>,
    /// The number of retries for each provider.
    pub(crate) retries: Option<u32>,
    /// When to fall back to another provider.
    pub(crate) fallback: Option<Fallback>,
    /// Whether to wait for the reset of a limit.
    pub(crate) wait_for_limit: Option<bool>,
    /// Whether to retry after a tool ran.
    pub(crate) repeat_tools: bool,
}

/// The values to use where neither the caller nor the router's file sets one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    /// The model of a provider that the caller named.
    pub(crate) model: Option<String>,
    /// The timeout of an attempt.
    pub(crate) timeout: Option<Millis>,
    /// The upper bound of the idle timeout, also where the provider allows more.
    pub(crate) idle_at_most: Option<Millis>,
}

/// The context of one attempt: its predecessor, its entry, its delay and its budget.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttemptContext {
    /// The session of the attempt before it, which had another provider.
    pub(crate) parent: Option<SessionId>,
    /// The attempt before it, which had the same provider: its session goes on.
    pub(crate) continues: Option<RetriedAttempt>,
    /// Its name in a file: of an entry of the router's file, or of an external CLI in pi's form.
    pub(crate) entry: Option<String>,
    /// The events that its journal begins with.
    pub(crate) opening: Vec<Kind>,
    /// How long to wait before the start.
    pub(crate) delay: Millis,
    /// The usage of the attempts before it.
    pub(crate) used: Amounts,
    /// Its part of a budget that it shares with other tasks.
    pub(crate) share: Option<Share>,
    /// The prices of its model in the router's file.
    pub(crate) prices: Vec<Row>,
    /// The server for the tools of the task, once it listens.
    pub(crate) host_address: Option<McpServer>,
    /// An external CLI in pi's form, and the model name that selects it.
    pub(crate) external: Option<(String, ExternalCli)>,
}

impl AttemptContext {
    /// Returns the context of a task for the provider that it names, without a router: the name may be that of an external CLI.
    pub(crate) fn of_named(task: &Task) -> Result<Self, Error> {
        let RunSettings { external, roster, .. } = &*task.settings;
        let name =
            task.request.provider.as_deref().filter(|name| task.manifest.is_none() && external.has(name));
        // A manifest comes first, as with the router.
        let Some(name) = name.filter(|name| roster.find(name).is_err()) else { return Ok(Self::default()) };
        let described = external.get(name).map_err(|error| Error::from(error.clone()))?.cloned();
        Ok(Self { external: described.map(|cli| (name.to_owned(), cli)), ..Self::default() })
    }
}

/// The end of an attempt whose session the next attempt continues.
#[derive(Clone, Debug)]
pub(crate) struct RetriedAttempt {
    pub(crate) session: SessionId,
    /// Where the next attempt begins. Only for a session without a journal; a journal knows its end.
    pub(crate) numbering: Numbering,
    /// Its journal, kept for the next attempt; none if it has none.
    pub(crate) hold: Option<SessionHold>,
    /// Deletes a temporary journal behind the last attempt.
    pub(crate) cleanup: Arc<Cleanup>,
}

impl Task {
    /// Sets the kind of model, such as `fast` or `capable`. Without a provider, the router chooses one too.
    ///
    /// ```
    /// # let task =
    /// bowline::task("Summarise this page").provider("auto").hint("fast").retries(1)
    /// # ; drop(task);
    /// ```
    pub fn hint(mut self, hint: impl AsRef<str>) -> Self {
        self.route.hint = Some(bowline_engine::route::canonical(hint.as_ref()));
        self
    }

    /// Sets the providers to try, in this order, and no others. The router runs the first usable one, and after a failure that
    /// allows a fallback the next one. Replaces [`Task::provider`].
    ///
    /// The router skips a provider that is not installed, not logged in, out of quota or unable to honour the request, and the
    /// event `route_chosen` gives the reason. The router's retries and budgets apply. [`Task::binary`] and [`Task::profile`]
    /// apply to the first of the list. A model goes to the providers that are known to have it; if none is, to all of them.
    ///
    /// ```
    /// # use bowline::testing::{script, says};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let task = bowline::task("Fix the failing test").providers(["claude", "codex"]);
    /// # let out = script(r#"{"steps": [{"fail": "You've hit your usage limit. Try again at 3pm."}]}"#);
    /// # let task = task.scripts([out, says("It passes.")]);
    /// let record = task.run().await?;
    /// let asked: Vec<&str> = record.attempts.iter().map(|attempt| attempt.name.as_str()).collect();
    /// # assert_eq!(asked, ["claude", "codex"]);
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    pub fn providers<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.route.providers = names.into_iter().map(Into::into).collect();
        (self.request.provider, self.manifest) = (None, None);
        self
    }

    /// Sets the number of retries after a failure that allows one. Default: 0 for a task that names one provider.
    pub fn retries(mut self, retries: u32) -> Self {
        self.route.retries = Some(retries);
        self
    }

    /// Sets when the router falls back to another provider after a failure.
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.route.fallback = Some(fallback);
        self
    }

    /// Waits for the reset of a limit that is used up, however long that takes.
    pub fn wait_for_limit(mut self) -> Self {
        self.route.wait_for_limit = Some(true);
        self
    }

    /// Allows a retry also after a tool ran. Side effects may then happen twice.
    pub fn repeat_tools(mut self) -> Self {
        self.route.repeat_tools = true;
        self
    }

    /// Sets the model of a named provider where neither [`Task::model`] nor its entry in the router's file sets one.
    pub fn usual_model(mut self, model: impl Into<String>) -> Self {
        self.defaults.model = Some(model.into());
        self
    }

    /// Sets the timeout of an attempt where neither [`Task::timeout`] nor its entry in the router's file sets one.
    pub fn usual_timeout(mut self, limit: Millis) -> Self {
        self.defaults.timeout = Some(limit);
        self
    }

    /// Sets an upper bound for [`Task::idle_timeout`] and the provider's own idle timeout. It is for a source that may
    /// tighten limits but not widen them, such as a project's settings.
    pub fn idle_timeout_at_most(mut self, limit: Millis) -> Self {
        self.defaults.idle_at_most = Some(limit);
        self
    }

    /// Returns the model of a named provider.
    pub(crate) fn chosen_model(&self) -> Option<String> {
        self.request.model.clone().or_else(|| self.defaults.model.clone())
    }

    /// Uses these settings. Without them, a task has the built-in providers and the limits of this builder only: the library
    /// reads no settings file. `bowline_config::Config::run_settings` returns those of the user and the project.
    pub fn settings(mut self, settings: Arc<RunSettings>) -> Self {
        self.settings = settings;
        self
    }

    /// Looks providers up in this roster. [`Roster::from_env`] also has the manifests of the user; without settings, a task has the
    /// built-in providers.
    ///
    /// ```
    /// use bowline::roster::Roster;
    ///
    /// let task = bowline::task("Audit this repository").provider("my-agent").roster(Roster::from_env());
    /// # drop(task);
    /// ```
    pub fn roster(mut self, roster: Roster) -> Self {
        Arc::make_mut(&mut self.settings).roster = roster;
        self
    }

    /// Uses these variables instead of those of this process: to find programs, the data home and logins, and for the agent.
    /// Without this call, the task takes the variables of this process when it is started.
    pub fn surroundings(mut self, surroundings: Surroundings) -> Self {
        self.surroundings = Some(Arc::new(surroundings));
        self
    }

    /// Sets whether the project's own files may run programs, pass variables and name addresses. Without this call, only files
    /// that the user has pinned with `bowline trust` may. It also decides whether an agent that may only read or ask runs the
    /// repository's hooks, MCP servers and plugins. The pins are those of [`Task::settings`].
    pub fn trust_project(mut self, trust: ProjectTrust) -> Self {
        self.trust = trust;
        self
    }

    /// Limits the tokens, over all attempts.
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.spend.tokens = Some(tokens);
        self
    }

    /// Limits the working time, over all attempts. At the limit the task keeps the partial answer and fails with a budget error.
    pub fn max_time(mut self, limit: Duration) -> Self {
        self.spend.time = Some(millis(limit));
        self
    }

    /// Shares its limits with other tasks that run at the same time: the usage of each counts for all of them.
    pub fn pot(mut self, pot: &Pot) -> Self {
        self.share = Some(pot.share());
        self
    }

    /// Runs at the same time as tasks with the same prompt for other providers, and never falls back to one of these. Call
    /// [`Task::provider`] first.
    pub fn beside(mut self, beside: &Beside) -> Self {
        if let Some(name) = &self.request.provider {
            beside.take(name);
        }
        self.beside = Some(beside.clone());
        self
    }

    /// Returns whether the task plays a script instead of starting a process.
    #[cfg_attr(not(feature = "testing"), expect(clippy::unused_self, reason = "there are no scripts then"))]
    pub(crate) fn is_scripted(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.script.is_some() || !self.cast.is_empty();
        #[cfg(not(feature = "testing"))]
        return false;
    }

    /// Returns whether the router handles the task.
    pub(crate) fn is_routed(&self) -> bool {
        let name = self.request.provider.as_deref();
        let auto = name.is_some_and(|name| name.eq_ignore_ascii_case(AUTO));
        let found = name.is_none() && (self.request.model.is_some() || self.route.hint.is_some());
        // An entry of the router's file also applies to a task that names its provider.
        let router = self.settings.router.as_ref();
        let listed = router.zip(name).is_some_and(|(router, name)| router.entry(name).is_some());
        // So does the entry of an external CLI, which has no manifest.
        let external = name.is_some_and(|name| self.settings.external.has(name));
        auto || found || listed || external || self.route != RouteOptions::default()
    }

    /// Makes the task of one attempt.
    pub(crate) fn attempt(&self) -> Self {
        Self {
            request: self.request.clone(),
            label: self.label.clone(),
            binary: self.binary.clone(),
            profile: self.profile.clone(),
            parent: self.parent.clone(),
            continues: None,
            notices: self.notices.clone(),
            not_text: self.not_text.clone(),
            format: self.format.clone(),
            agent_args: self.agent_args.clone(),
            journal: self.journal.clone(),
            callback: None,
            alerts: self.alerts.clone(),
            route: RouteOptions::default(),
            defaults: self.defaults.clone(),
            settings: self.settings.clone(),
            surroundings: self.surroundings.clone(),
            share: None,
            beside: None,
            host_tools: self.host_tools.clone(),
            #[cfg(feature = "testing")]
            script: None,
            #[cfg(feature = "testing")]
            cast: crate::run::testing::Cast::default(),
            policy: self.policy.clone(),
            ..*self
        }
    }
}
