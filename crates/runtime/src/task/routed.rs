//! What a task says to the router, and what one attempt of several knows about the others.

use std::sync::Arc;
use std::time::Duration;

use bowline_engine::budget::Amounts;
use bowline_engine::retry::Fallback;
use bowline_protocol::{Kind, Millis, SessionId};
use bowline_providers::invocation::external::ExternalCli;
use bowline_providers::prices::Row;

use super::{Task, millis};
use crate::budget::{Pot, Share};
use crate::config::Config;
use crate::route::Beside;
use crate::trust::ProjectTrust;
use crate::{Error, route};

/// What the caller wants of the router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Which providers are asked, in this order.
    pub(crate) providers: Vec<String>,
    /// What sort of model.
    pub(crate) hint: Option<String>,
    /// How often each is asked again.
    pub(crate) retries: Option<u32>,
    /// When another one is asked.
    pub(crate) fallback: Option<Fallback>,
    /// Whether a limit is waited for.
    pub(crate) wait_for_limit: Option<bool>,
    /// Whether a tool may run twice.
    pub(crate) repeat_tools: bool,
}

/// What counts where neither the caller nor the router's file says anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usual {
    /// The model of whoever is named.
    pub(crate) model: Option<String>,
    /// The time of an attempt.
    pub(crate) timeout: Option<Millis>,
}

/// What one attempt of several knows about the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leg {
    /// The attempt before it.
    pub(crate) parent: Option<SessionId>,
    /// The name that it has in a file: of an entry of the router, or of a program in the form of the specification for pi.
    pub(crate) entry: Option<String>,
    /// What is said first.
    pub(crate) opening: Vec<Kind>,
    /// How long to wait.
    pub(crate) delay: Millis,
    /// What the attempts before it used.
    pub(crate) used: Amounts,
    /// Its part of a budget that others use too.
    pub(crate) share: Option<Share>,
    /// What its model costs, by the router's file.
    pub(crate) prices: Vec<Row>,
    /// A program that is described in the form of the specification for pi, and the model that stands for it.
    pub(crate) external: Option<(String, ExternalCli)>,
}

impl Task {
    /// Says what sort of model is wanted, such as `fast` or `capable`. Without a provider, the router chooses one too.
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

    /// Chooses these providers, in this order, and no others: the first that can be used is asked, and after a failure that
    /// allows it the next one. Replaces [`Task::provider`].
    ///
    /// A provider that is not installed, not logged in, out of quota or unable to honour the request is skipped, and the event
    /// `route_chosen` says why. Retries and budgets are those of the router. [`Task::binary`] and [`Task::profile`] are for
    /// the first of the list. A model goes to the providers that are known to have it; if none is, to all of them.
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

    /// Says how often an agent is asked again after a failure that allows it. Who names one provider and does not call
    /// this asks once.
    pub fn retries(mut self, retries: u32) -> Self {
        self.route.retries = Some(retries);
        self
    }

    /// Says when another agent is asked after a failure.
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.route.fallback = Some(fallback);
        self
    }

    /// Waits for a limit that is used up, however long that takes.
    pub fn wait_for_limit(mut self) -> Self {
        self.route.wait_for_limit = Some(true);
        self
    }

    /// Asks again also after a tool ran: side effects may happen twice.
    pub fn repeat_tools(mut self) -> Self {
        self.route.repeat_tools = true;
        self
    }

    /// Chooses the model of a provider that is named, where neither [`Task::model`] nor its entry in the router's file does.
    pub fn usual_model(mut self, model: impl Into<String>) -> Self {
        self.usual.model = Some(model.into());
        self
    }

    /// Limits the time of an attempt, where neither [`Task::timeout`] nor its entry in the router's file does.
    pub fn usual_timeout(mut self, limit: Millis) -> Self {
        self.usual.timeout = Some(limit);
        self
    }

    /// Returns the model of a provider that is named.
    pub(crate) fn chosen_model(&self) -> Option<String> {
        self.request.model.clone().or_else(|| self.usual.model.clone())
    }

    /// Goes by these settings instead of the files of the working directory and the user. Budgets that they have count for
    /// this task also if its provider is named.
    pub fn config(mut self, config: Arc<Config>) -> Self {
        self.config = Some(config);
        self
    }

    /// Says whether the project's own files may run programs, pass variables and name addresses. Without this call, they may
    /// as far as the user has pinned them with `bowline trust`. It also says whether an agent that may only read or ask runs the
    /// repository's hooks, MCP servers and plugins. A [`Task::config`] was read with a trust of its own.
    pub fn trust_project(mut self, trust: ProjectTrust) -> Self {
        self.trust = trust;
        self
    }

    /// Limits the tokens, over all attempts.
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.spend.tokens = Some(tokens);
        self
    }

    /// Limits the time of work, over all attempts. What there is of an answer then is kept, and the failure is a budget's.
    pub fn max_time(mut self, limit: Duration) -> Self {
        self.spend.time = Some(millis(limit));
        self
    }

    /// Shares its limits with other tasks that run beside it: what each uses counts for all of them.
    pub fn pot(mut self, pot: &Pot) -> Self {
        self.leg.share = Some(pot.share());
        self
    }

    /// Runs beside others that ask the same of somebody else, and falls back to none of those. The provider is named before.
    pub fn beside(mut self, beside: &Beside) -> Self {
        if let Some(name) = &self.request.provider {
            beside.take(name);
        }
        self.beside = Some(beside.clone());
        self
    }

    /// Says whether no process is started.
    #[cfg_attr(not(feature = "testing"), expect(clippy::unused_self, reason = "there are no scripts then"))]
    pub(crate) fn is_scripted(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.script.is_some() || !self.cast.is_empty();
        #[cfg(not(feature = "testing"))]
        return false;
    }

    /// Says whether the router sees to it.
    pub(crate) fn is_routed(&self) -> bool {
        let name = self.request.provider.as_deref();
        let auto = name.is_some_and(|name| name.eq_ignore_ascii_case(route::AUTO));
        let found = name.is_none() && (self.request.model.is_some() || self.route.hint.is_some());
        // What a router's file says about a provider counts also for whoever names it.
        let router = self.config.as_ref().and_then(|config| config.router.as_ref());
        let listed = router.zip(name).is_some_and(|(router, name)| router.entry(name).is_some());
        auto || found || listed || self.route != Wishes::default()
    }

    /// Makes the task of one attempt.
    pub(crate) fn attempt(&self) -> Self {
        Self {
            request: self.request.clone(),
            label: self.label.clone(),
            binary: self.binary.clone(),
            profile: self.profile.clone(),
            parent: self.parent.clone(),
            notices: self.notices.clone(),
            not_text: self.not_text.clone(),
            format: self.format.clone(),
            agent_args: self.agent_args.clone(),
            journal: self.journal.clone(),
            callback: None,
            route: Wishes::default(),
            usual: self.usual.clone(),
            config: self.config.clone(),
            leg: Leg::default(),
            beside: None,
            #[cfg(feature = "testing")]
            script: None,
            #[cfg(feature = "testing")]
            cast: crate::testing::Cast::default(),
            ..*self
        }
    }

    /// Returns who would be asked and why, without asking anybody.
    pub fn explain(&self) -> Result<route::Explanation, Error> {
        self.check_names()?;
        route::explain(self)
    }
}
