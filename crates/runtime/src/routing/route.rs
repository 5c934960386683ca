//! Routing: chooses a provider, and retries or falls back to another one after a failure.
//!
//! `bowline_engine::route` decides the order and `bowline_engine::retry` the step after a failure. This module gathers the
//! facts, waits, and starts one run after the other. A retry of the same provider continues the session: its directory and its
//! numbers. A fallback is a session of its own, and its parent is the session before it. The events of each attempt begin with
//! the reason for the choice. A subscriber gets one stream over all attempts, and one record at the end that lists them.
//!
//! Its types are not those of the engine. A `Candidate` of the engine is facts that a test can write down and compare; a
//! `GatheredCandidate` adds the manifest, the entry of the file and the profile that start it, and a `PreparedAttempt` holds locks and
//! files. Rejected: one type for both. The engine would know manifests and files, and its random tests would have to make them.

mod attempts;
mod candidates;
mod choice;
mod entry;
mod facts;
mod listed;
mod memory;

use std::sync::Arc;
use std::time::Duration;

use bowline_engine::footprint::Footprint;
use bowline_engine::retry::{self, Fallback, OutlookStart};
use bowline_engine::route::{RouteDecision, RouteMemory};
use bowline_protocol::{Failure, Millis, Sampling, Timestamp};
use bowline_providers::invocation::Preview;
use bowline_providers::manifest::Manifest;
use tokio::sync::{mpsc, oneshot};

use crate::agents::detect::Ask;
use crate::agents::limits;
use crate::agents::profile::Profile;
use crate::run::error::Error;
use crate::run::launch::{self, Watcher};
use crate::run::record::Record;
use crate::run::settings::{HintTuning, RunSettings};
use crate::run::subscribe::EventStream;
use crate::run::task::Task;
use crate::run::turn::Turn;
use crate::run::watch::WatchedRuns;
use crate::sessions::control;
use crate::system::clock;
use crate::system::suggest::closest_name;
use crate::system::surroundings::Surroundings;

use attempts::RoutedRun;
use candidates::Candidates;
use memory::Store;

pub use crate::run::error::NoRoute;
pub use crate::run::task::{AUTO, Beside};
pub use bowline_engine::retry::{
    NextStep, OutlookStep, RetryOutlook, RetryRules, RetryVerdict, RouteStop, between,
};
pub use bowline_engine::route::{
    CandidateVerdict, HINTS, NOT_ITS_MODEL, RouteProblem, RouteStrategy, Truncation, canonical,
};
pub use listed::{ListedProvider, listed};

/// The timeout for programs that report their limits. `routing.selection_timeout` overrides it.
const LIMITS_WITHIN: Duration = Duration::from_secs(3);

/// Reporting limits may take at most one part in this many of the caller's timeout.
const PART: u32 = 4;

/// The providers that the router would try, in order, and the reasons why it would skip the others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The requested kind of model.
    pub hint: Option<String>,
    /// The requested model.
    pub model: Option<String>,
    /// The strategy that orders the providers.
    pub strategy: RouteStrategy,
    /// The rules for retries and fallbacks.
    pub rules: RetryRules,
    /// The list of providers, if it comes from a file.
    pub router: Option<std::path::PathBuf>,
    /// Keys of that file that have no effect.
    pub without_effect: Vec<String>,
    /// A warning about a hint that no provider has a model for, with a suggestion.
    pub strange_hint: Option<String>,
    /// The verdict on every candidate.
    pub verdicts: Vec<CandidateVerdict>,
    /// The provider to try after the first one fails, with the file's fallback model.
    pub fallback_model: Option<(String, String)>,
    /// The reset time of the limit that the router would wait for before the first attempt.
    pub waits_until: Option<Timestamp>,
    /// How long the router waits for programs that report the usage of their limits, before it chooses.
    pub selection_timeout: Duration,
    /// Why the router would choose no provider.
    pub problem: Option<RouteProblem>,
    /// The providers to try, in order, with their keys in the router's memory.
    turns: Vec<RouteStop>,
    memory: RouteMemory,
    start: OutlookStart,
}

impl Explanation {
    /// Returns the providers that the router would try, in order, each with its model.
    pub fn turns(&self) -> &[RouteStop] {
        &self.turns
    }

    /// Returns the steps that would follow if every attempt failed like this. A run decides by the same code.
    ///
    /// ```
    /// # use bowline::{Category, Code, Failure, Footprint, testing};
    /// # fn main() -> Result<(), bowline::Error> {
    /// let task = bowline::task("Say hello").provider("claude").retries(1);
    /// # let task = task.script(testing::says("hello"));
    /// let failure = Failure::new(Category::Server, Code::ServerError, "503");
    /// let outlook = task.explain()?.after(&failure, Footprint::NoWork);
    /// assert_eq!(outlook.steps[0].verdict.reason, "server: retry 1 of 1 in up to 1 s");
    /// # Ok(()) }
    /// ```
    pub fn after(&self, failure: &Failure, footprint: Footprint) -> RetryOutlook {
        retry::outlook(&self.rules, &self.turns, &self.memory, failure, footprint, self.start)
    }
}

/// Returns the rules for retries and fallbacks: from the caller, else the settings, else the router's file, else the defaults.
fn rules(task: &Task, settings: &RunSettings) -> RetryRules {
    let options = &task.route;
    let routing = settings.router.as_ref().map(|router| &router.routing);
    // A task that names one provider and sets no retries gets one attempt.
    let named = candidates::is_named(task) && options.hint.is_none();
    let usual = if named { 0 } else { retry::RETRIES };
    let listed_retries = routing.and_then(|routing| routing.max_retries).filter(|_| !named);
    let set = Some(settings).filter(|_| !named);
    let set_retries = set.and_then(|set| set.retries);
    RetryRules {
        retries: options.retries.or(set_retries).or(listed_retries).unwrap_or(usual),
        fallback: match options.fallback {
            // A task that names one provider and sets no fallback uses only that one.
            None if candidates::is_named(task) => Fallback::None,
            // A task that lists several providers falls back to the next one.
            None if candidates::is_listed(task) => Fallback::Next,
            said => said
                .or_else(|| set?.fallback)
                .or(routing.and_then(|routing| routing.fallback))
                .unwrap_or_default(),
        },
        repeat_tools: options.repeat_tools,
        wait_for_limit: options.wait_for_limit.or_else(|| set?.wait_for_limit).unwrap_or(false),
        first_wait: routing.and_then(|routing| routing.first_wait).unwrap_or(retry::FIRST_WAIT),
        longest_wait: routing.and_then(|routing| routing.longest_wait).unwrap_or(retry::LONGEST_WAIT),
    }
}

/// Returns the sampling options: the caller's, else those of the hint.
fn tuned(task: &Task, settings: &RunSettings) -> Sampling {
    let tuning = tuning(task, settings).unwrap_or_default();
    let own = task.request.sampling;
    Sampling {
        max_tokens: own.max_tokens.or(tuning.max_tokens),
        temperature: own.temperature.or(tuning.temperature),
        ..own
    }
}

/// Returns the options of the hint in the router's file.
fn tuning(task: &Task, settings: &RunSettings) -> Option<HintTuning> {
    settings.router.as_ref()?.routing.hints.get(task.route.hint.as_ref()?).copied()
}

fn strategy(settings: &RunSettings) -> RouteStrategy {
    let listed = settings.router.as_ref().and_then(|router| router.routing.strategy);
    settings.strategy.or(listed).unwrap_or_default()
}

/// Returns a warning about a hint that no manifest and no entry has, with a suggestion.
fn strange_hint(candidates: &Candidates, settings: &RunSettings) -> Option<String> {
    let hint = candidates.ask.hint.as_ref()?;
    let mut known: Vec<&str> = HINTS.iter().map(|(name, _)| *name).collect();
    known.extend(candidates.all.iter().flat_map(|it| it.candidate.hints.keys()).map(String::as_str));
    known.extend(settings.router.iter().flat_map(|router| router.routing.hints.keys()).map(String::as_str));
    if known.contains(&hint.as_str()) {
        return None;
    }
    let meant = closest_name(hint, known).map(|meant| format!("; did you mean `{meant}`?"));
    Some(format!("no provider has a model for the hint `{hint}`{}", meant.unwrap_or_default()))
}

/// Explains which providers the router would try.
pub(crate) fn explain(task: &Task) -> Result<Explanation, Error> {
    let settings = &*task.settings;
    let (memory, now, rules) = (Store::of(task).read()?, clock::wall(), rules(task, settings));
    let candidates = Candidates::gather(task, settings, &memory, now)?;
    let mut decision = candidates.decide_to_tell();
    let waits_until = attempts::waited_for(&mut decision, &rules).map(|(until, _)| until);
    let RouteDecision { order, verdicts, problem } = decision;
    let turns = candidates.turns(&candidates.with_fallback_model(&order, settings));
    // The list is longer than the order only if the fallback model was added.
    let second = turns.get(1).filter(|_| turns.len() > order.len());
    Ok(Explanation {
        strange_hint: strange_hint(&candidates, settings),
        fallback_model: second.and_then(|it| Some((it.name.clone(), it.model.clone()?))),
        hint: task.route.hint.clone(),
        model: task.request.model.clone(),
        strategy: strategy(settings),
        selection_timeout: selection_timeout(settings),
        rules,
        router: settings.router.as_ref().map(|router| router.path.clone()),
        without_effect: settings
            .router
            .as_ref()
            .map(|router| router.without_effect.clone())
            .unwrap_or_default(),
        verdicts,
        problem,
        turns,
        memory,
        start: OutlookStart { at: waits_until.unwrap_or(now), waits: u32::from(waits_until.is_some()) },
        waits_until,
    })
}

/// Returns the command of the first attempt.
pub(crate) fn preview(task: &Task) -> Result<Preview, Error> {
    let settings = &*task.settings;
    let candidates = Candidates::gather(task, settings, &Store::of(task).read()?, clock::wall())?;
    let RouteDecision { order, verdicts, problem } = candidates.decide_to_ask();
    let Some(place) = order.first().filter(|_| problem.is_none()) else {
        let problem = problem.unwrap_or(RouteProblem::NoneUsable);
        return Err(Error::NoRoute(Box::new(NoRoute { problem, verdicts })));
    };
    let mut configured = Task::of(task.request.clone());
    configured.streaming = task.streaming;
    configured.defaults.timeout = task.defaults.timeout;
    configured.trust = task.trust;
    configured.settings.clone_from(&task.settings);
    configured.surroundings.clone_from(&task.surroundings);
    configured.not_text.clone_from(&task.not_text);
    configured.host_tools.clone_from(&task.host_tools);
    configured.request.sampling = tuned(task, settings);
    let context = candidates.configure(*place, None, &mut configured, task.binary.as_ref());
    launch::preview(&configured, &context)
}

/// Returns the timeout for programs that report their limits.
fn selection_timeout(settings: &RunSettings) -> Duration {
    let routing = settings.router.as_ref().map(|router| &router.routing);
    let within = routing.and_then(|routing| routing.selection_timeout);
    within.map_or(LIMITS_WITHIN, |within| Duration::from_millis(within.0))
}

/// A program that can report the usage of its limits, and its account.
type Limited = (&'static Manifest, Option<Profile>);

/// Returns the candidates that can report the usage of their limits, and the timeout for that. None if there is no choice.
fn limited(task: &Task) -> Result<(Vec<Limited>, Duration), Error> {
    let settings = &*task.settings;
    let within = selection_timeout(settings);
    let candidates = Candidates::gather(task, settings, &Store::of(task).read()?, clock::wall())?;
    // Not `take_turn`: this look must not use up a turn of the round-robin strategy.
    let order = candidates.decide().order;
    // A named provider comes first regardless of its limits.
    if order.len() < 2 || candidates.ask.named || task.is_scripted() || task.request.docker.is_some() {
        return Ok((Vec::new(), within));
    }
    let of = |place: usize| {
        let manifest = candidates.about(place).filter(|manifest| manifest.ask.limits.is_some())?;
        Some((manifest, candidates.all[place].profile.clone()))
    };
    Ok((order.into_iter().filter_map(of).collect(), within))
}

/// Returns the timeout for reporting limits: `usual`, or less for a task with a short timeout.
fn patience(task: &Task, usual: Duration) -> Duration {
    let timeout = task.request.timeout_ms.or(task.defaults.timeout.filter(|_| !task.no_timeout));
    let given = [timeout, task.spend.time].into_iter().flatten();
    given.map(|time| Duration::from_millis(time.0) / PART).fold(usual, Duration::min)
}

/// Queries programs for the usage of their limits, and does not wait longer than `within`. The answers are cached for a
/// minute. Returns the elapsed time, which is part of the caller's timeout.
async fn ask_about_limits(
    those: Vec<Limited>,
    usual: Duration,
    within: Duration,
    variables: &Arc<Surroundings>,
) -> Millis {
    let began = clock::instant();
    // At the timeout the set is dropped, which aborts the queries that are left and ends their programs.
    let mut asked = tokio::task::JoinSet::new();
    let mut silent = those.clone();
    for (manifest, profile) in those {
        let variables = variables.clone();
        asked.spawn(async move {
            limits::of(manifest, profile.as_ref(), &variables, &Ask::of(&variables)).await;
            (manifest, profile)
        });
    }
    let all = async {
        while let Some(told) = asked.join_next().await {
            silent.retain(|one| told.as_ref().map_or(true, |told| one != told));
        }
    };
    // A program that had less time than usual gets another chance at the next query.
    if tokio::time::timeout(within, all).await.is_err() && within == usual {
        for (manifest, profile) in silent {
            limits::not_in_time(manifest, profile.as_ref(), variables);
        }
    }
    Millis(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// Chooses, starts, and returns the turn over all attempts.
pub(crate) async fn start(task: Task) -> Result<Turn, Error> {
    let (control, inbox) = control::orders();
    let (receivers, events) = mpsc::unbounded_channel();
    let (those, usual) = limited(&task)?;
    let asked = ask_about_limits(those, usual, patience(&task, usual), task.variables()).await;
    let (sender, runs) = WatchedRuns::several();
    let mut run = RoutedRun::plan(task, inbox, Some((receivers, sender)), asked)?;
    let first = run.first(Watcher::Yes).await?;
    let session = first.session();
    let (told, done) = oneshot::channel();
    tokio::spawn(async move {
        // The caller may have dropped the receiver.
        let _ = told.send(run.go(first).await);
    });
    Ok(Turn::new(session, EventStream::several(events), runs, control, done))
}

/// Chooses a provider and runs to the end, without a subscriber.
pub(crate) async fn run(task: Task) -> Result<Record, Error> {
    // No handle sends orders: dropping the future ends the run.
    let (_control, inbox) = control::orders();
    let (those, usual) = limited(&task)?;
    let asked = ask_about_limits(those, usual, patience(&task, usual), task.variables()).await;
    let mut run = RoutedRun::plan(task, inbox, None, asked)?;
    let first = run.first(Watcher::No).await?;
    run.go(first).await
}
