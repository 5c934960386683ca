//! Choosing an agent, and going on with another when one fails.
//!
//! The choice itself and what follows a failure are decided by `bowline_engine::route` and `bowline_engine::retry`; here the
//! facts are gathered, the waiting is done, and runs are started one after the other. Each attempt is a session of its own
//! whose parent is the attempt before it; its journal begins with why it was chosen and what came before. Whoever watches
//! sees one stream over all of them, and one record at the end that lists them.

mod beside;
mod candidates;
mod choice;
mod entry;
mod listed;
mod memory;
mod road;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::footprint::Footprint;
use bowline_engine::retry::{self, Fallback, Start};
use bowline_engine::route::{Decision, Memory};
use bowline_protocol::{Failure, Millis, Sampling, Timestamp};
use bowline_providers::invocation::Preview;
use bowline_providers::manifest::Manifest;
use tokio::sync::{mpsc, oneshot};

use crate::config::{Config, HintTuning, Origin};
use crate::detect::{Ask, Surroundings};
use crate::hub::Stream;
use crate::launch::{self, ORDERS, Watcher};
use crate::profile::Profile;
use crate::record::Record;
use crate::task::Task;
use crate::turn::{Control, Turn};
use crate::{Error, clock, limits, near};

use candidates::Field;
use memory::Store;
use road::Road;

pub use beside::Beside;
pub use bowline_engine::retry::{Next, Outlook, Rules, Step, Turn as Asked, between};
pub use bowline_engine::route::{HINTS, NOT_ITS_MODEL, Problem, Strategy, Verdict, canonical};
pub use listed::{Listed, listed};

/// How long programs have to tell of their limits, unless `routing.selection_timeout` says otherwise.
const LIMITS_WITHIN: Duration = Duration::from_secs(3);

/// The part of the caller's time that they have at most: the rest is for the work.
const PART: u32 = 4;

/// The name that leaves the choice to the router.
pub const AUTO: &str = "auto";

/// Who would be asked, in which order, and why the others would not.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// What sort of model was asked for.
    pub hint: Option<String>,
    /// Which model was asked for.
    pub model: Option<String>,
    /// Who comes first.
    pub strategy: Strategy,
    /// What follows a failure.
    pub rules: Rules,
    /// The list of providers, if it comes from a file.
    pub router: Option<std::path::PathBuf>,
    /// Keys of that file that mean nothing here.
    pub without_effect: Vec<String>,
    /// What is odd about the hint: that nobody has a model for it, and what may be meant.
    pub strange_hint: Option<String>,
    /// A word on every candidate.
    pub verdicts: Vec<Verdict>,
    /// Who would be asked after the first has failed, with the model that the file names for that.
    pub fallback_model: Option<(String, String)>,
    /// The limit that would be waited for before anybody is asked: until when.
    pub waits_until: Option<Timestamp>,
    /// Why nobody would be asked.
    pub problem: Option<Problem>,
    /// Those who would be asked, in their order, and what is remembered of them.
    turns: Vec<Asked>,
    memory: Memory,
    start: Start,
}

impl Explanation {
    /// Returns those who would be asked, in their order, each with its model.
    pub fn turns(&self) -> &[Asked] {
        &self.turns
    }

    /// Returns what would follow if every attempt failed like this, by the same decisions that a run goes by.
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
    pub fn after(&self, failure: &Failure, footprint: Footprint) -> Outlook {
        retry::outlook(&self.rules, &self.turns, &self.memory, failure, footprint, self.start)
    }
}

/// Why the router chose nobody.
#[derive(Clone, Debug)]
pub struct NoRoute {
    /// The problem.
    pub problem: Problem,
    /// A word on every candidate.
    pub verdicts: Vec<Verdict>,
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

/// The settings that a task goes by.
fn config_of(task: &Task) -> Result<Arc<Config>, Error> {
    match &task.config {
        Some(config) => Ok(config.clone()),
        None => {
            let cwd = task.request.cwd.as_ref().map(std::path::Path::new);
            Ok(Arc::new(Config::load_with(cwd, task.trust)?))
        }
    }
}

/// Puts together what follows a failure: the caller's word, the settings, the router's file, the usual.
fn rules(task: &Task, config: &Config) -> Rules {
    let wishes = &task.route;
    let routing = config.router.as_ref().map(|router| &router.routing);
    let fallback = |word: &str| Fallback::ALL.into_iter().find(|rule| rule.as_str() == word);
    // Who names one provider and says nothing about retries means one attempt.
    let named = candidates::is_named(task) && wishes.hint.is_none();
    let usual = if named { 0 } else { retry::RETRIES };
    let settings = |key: &str| config.settings.text(key).filter(|_| !named);
    let listed_retries = routing.and_then(|routing| routing.max_retries).filter(|_| !named);
    let set_retries = || {
        let many = settings("route.retries")?.parse::<u64>().ok()?;
        let many = u32::try_from(many).unwrap_or(u32::MAX);
        // A project's setting cannot raise what the router's file allows.
        let by_project =
            config.settings.get("route.retries").is_some_and(|it| matches!(it.origin, Origin::Project(..)));
        Some(if by_project { many.min(listed_retries.unwrap_or(many)) } else { many })
    };
    Rules {
        retries: wishes.retries.or_else(set_retries).or(listed_retries).unwrap_or(usual),
        fallback: match wishes.fallback {
            // Who names one provider and says nothing about others means that one.
            None if candidates::is_named(task) => Fallback::None,
            // Who lists several means that the next one is asked.
            None if candidates::is_listed(task) => Fallback::Next,
            said => said
                .or_else(|| fallback(settings("route.fallback")?))
                .or(routing.and_then(|routing| routing.fallback))
                .unwrap_or_default(),
        },
        repeat_tools: wishes.repeat_tools,
        wait_for_limit: wishes
            .wait_for_limit
            .or_else(|| settings("route.wait-for-limit")?.parse().ok())
            .unwrap_or(false),
        first_wait: routing.and_then(|routing| routing.first_wait).unwrap_or(retry::FIRST_WAIT),
        longest_wait: routing.and_then(|routing| routing.longest_wait).unwrap_or(retry::LONGEST_WAIT),
    }
}

/// Returns how the answer is to be sampled: the caller's word, else that of the hint.
fn tuned(task: &Task, config: &Config) -> Sampling {
    let tuning = tuning(task, config).unwrap_or_default();
    let own = task.request.sampling;
    Sampling {
        max_tokens: own.max_tokens.or(tuning.max_tokens),
        temperature: own.temperature.or(tuning.temperature),
        ..own
    }
}

/// Returns what the router's file says about the hint.
fn tuning(task: &Task, config: &Config) -> Option<HintTuning> {
    config.router.as_ref()?.routing.hints.get(task.route.hint.as_ref()?).copied()
}

fn strategy(config: &Config) -> Strategy {
    let named = |word: &str| Strategy::ALL.into_iter().find(|strategy| strategy.as_str() == word);
    config
        .settings
        .text("route.strategy")
        .and_then(named)
        .or(config.router.as_ref().and_then(|router| router.routing.strategy))
        .unwrap_or_default()
}

/// Says that a hint is a word that no manifest and no entry has, and what may be meant by it.
fn strange_hint(field: &Field, config: &Config) -> Option<String> {
    let hint = field.ask.hint.as_ref()?;
    let mut known: Vec<&str> = HINTS.iter().map(|(name, _)| *name).collect();
    known.extend(
        field.candidates.iter().flat_map(|(candidate, _)| candidate.hints.keys()).map(String::as_str),
    );
    known.extend(config.router.iter().flat_map(|router| router.routing.hints.keys()).map(String::as_str));
    if known.contains(&hint.as_str()) {
        return None;
    }
    let meant = near(hint, known).map(|meant| format!("; did you mean `{meant}`?"));
    Some(format!("nobody has a model for the hint `{hint}`{}", meant.unwrap_or_default()))
}

/// Says who would be asked, and why.
pub(crate) fn explain(task: &Task) -> Result<Explanation, Error> {
    let config = config_of(task)?;
    let (memory, now, rules) = (Store::of(task).read()?, clock::wall(), rules(task, &config));
    let field = Field::gather(task, &config, &memory, now)?;
    let mut decision = field.decide_to_tell();
    let waits_until = road::waited_for(&mut decision, &rules).map(|(until, _)| until);
    let Decision { order, verdicts, problem } = decision;
    let turns = field.turns(&field.with_fallback_model(&order, &config));
    // Only that model makes it one more than there are to be asked.
    let second = turns.get(1).filter(|_| turns.len() > order.len());
    Ok(Explanation {
        strange_hint: strange_hint(&field, &config),
        fallback_model: second.and_then(|it| Some((it.name.clone(), it.model.clone()?))),
        hint: task.route.hint.clone(),
        model: task.request.model.clone(),
        strategy: strategy(&config),
        rules,
        router: config.router.as_ref().map(|router| router.path.clone()),
        without_effect: config
            .router
            .as_ref()
            .map(|router| router.without_effect.clone())
            .unwrap_or_default(),
        verdicts,
        problem,
        turns,
        memory,
        start: Start { at: waits_until.unwrap_or(now), waits: u32::from(waits_until.is_some()) },
        waits_until,
    })
}

/// Returns what would be started for the one who would be asked first.
pub(crate) fn preview(task: &Task) -> Result<Preview, Error> {
    let config = config_of(task)?;
    let field = Field::gather(task, &config, &Store::of(task).read()?, clock::wall())?;
    let Decision { order, verdicts, problem } = field.decide_to_ask();
    let Some(place) = order.first().filter(|_| problem.is_none()) else {
        let problem = problem.unwrap_or(Problem::Nobody);
        return Err(Error::NoRoute(Box::new(NoRoute { problem, verdicts })));
    };
    let mut dressed = Task::of(task.request.clone());
    dressed.streaming = task.streaming;
    dressed.usual.timeout = task.usual.timeout;
    dressed.trust = task.trust;
    dressed.not_text.clone_from(&task.not_text);
    dressed.request.sampling = tuned(task, &config);
    field.dress(*place, None, &mut dressed, task.binary.as_ref());
    launch::preview(&dressed)
}

/// A program that can tell how much of its limits is used, and with which account.
type Limited = (&'static Manifest, Option<Profile>);

/// Returns the programs among whom there is a choice, and who can tell how much of their limits is used, and how long they
/// may take to tell it.
fn limited(task: &Task) -> Result<(Vec<Limited>, Duration), Error> {
    let config = config_of(task)?;
    let routing = config.router.as_ref().map(|router| &router.routing);
    let within = routing.and_then(|routing| routing.selection_timeout);
    let within = within.map_or(LIMITS_WITHIN, |within| Duration::from_millis(within.0));
    let field = Field::gather(task, &config, &Store::of(task).read()?, clock::wall())?;
    let order = field.decide().order;
    // Who was named is asked first, whatever its limits are.
    if order.len() < 2 || field.ask.named || task.is_scripted() || task.request.docker.is_some() {
        return Ok((Vec::new(), within));
    }
    let of = |place: usize| {
        let manifest = field.about(place).filter(|manifest| manifest.ask.limits.is_some())?;
        Some((manifest, field.profiles[place].clone()))
    };
    Ok((order.into_iter().filter_map(of).collect(), within))
}

/// Returns how long programs may take to tell of their limits before a task, where they usually have so long.
fn patience(task: &Task, usual: Duration) -> Duration {
    let timeout = task.request.timeout_ms.or(task.usual.timeout.filter(|_| !task.no_timeout));
    let given = [timeout, task.spend.time].into_iter().flatten();
    given.map(|time| Duration::from_millis(time.0) / PART).fold(usual, Duration::min)
}

/// Asks programs how much of their limits is used. The answers are remembered for a minute; who takes long is not waited for.
/// Returns how long it took: it is part of the caller's time.
async fn ask_about_limits(those: Vec<Limited>, usual: Duration, within: Duration) -> Millis {
    let began = clock::instant();
    let mut asked = tokio::task::JoinSet::new();
    let mut silent = those.clone();
    for (manifest, profile) in those {
        asked.spawn(async move {
            limits::of(manifest, profile.as_ref(), &Surroundings::from_env(), &Ask::from_env()).await;
            (manifest, profile)
        });
    }
    let all = async {
        while let Some(told) = asked.join_next().await {
            silent.retain(|one| told.as_ref().map_or(true, |told| one != told));
        }
    };
    // Who had less time than usual may tell the next one who asks.
    if tokio::time::timeout(within, all).await.is_err() && within == usual {
        for (manifest, profile) in silent {
            limits::not_in_time(manifest, profile.as_ref(), &Surroundings::from_env());
        }
    }
    Millis(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// Chooses, starts, and returns the turn over all attempts.
pub(crate) async fn start(task: Task) -> Result<Turn, Error> {
    let (orders, inbox) = mpsc::channel(ORDERS);
    let (inlets, events) = mpsc::unbounded_channel();
    let (those, usual) = limited(&task)?;
    let asked = ask_about_limits(those, usual, patience(&task, usual)).await;
    let mut road = Road::plan(task, inbox, Some(inlets), asked)?;
    let first = road.first(Watcher::Yes).await?;
    let session = first.session();
    let (told, done) = oneshot::channel();
    tokio::spawn(async move {
        // Whoever waited for it may have gone.
        let _ = told.send(road.go(first).await);
    });
    Ok(Turn::new(session, Stream::several(events), Control::new(orders), done))
}

/// Chooses and runs to the end, without anybody who reads the events.
pub(crate) async fn run(task: Task) -> Result<Record, Error> {
    // Nobody gives orders: dropping the future ends it.
    let (_orders, inbox) = mpsc::channel(1);
    let (those, usual) = limited(&task)?;
    let asked = ask_about_limits(those, usual, patience(&task, usual)).await;
    let mut road = Road::plan(task, inbox, None, asked)?;
    let first = road.first(Watcher::No).await?;
    road.go(first).await
}
