//! Spending on file, and the budget that it leaves for the next run.
//!
//! Each attempt appends one line to the file of its month in the data home (`ledger`). The spending of a day or a project is the
//! sum over these lines and over the usage of current runs (`running`). A line contains no text of the conversation. The process
//! that cleans up after a killed run writes its line. Pretended spending is not recorded.

mod ledger;
mod pot;
mod running;

use std::path::Path;

use bowline_engine::Run;
use bowline_engine::budget::{self, Budget, BudgetLimit, BudgetScope};
use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{Millis, SessionId, Source, Timestamp, UsageSource};
use bowline_providers::manifest::Manifest;
use bowline_providers::usage;
use bowline_providers::views::Digest;

use crate::agents::roster;
use crate::config::{Config, Places};
use crate::run::error::Error;
use crate::run::task::{JournalChoice, Task};
use crate::sessions::journal::{Home, Reader, SessionMeta};
use crate::system::clock;
use crate::system::host;
pub use bowline_engine::budget::{Amounts, dollars};
pub(crate) use ledger::{DIR, RUNNING};
pub use ledger::{Ledger, Line, Past};
use ledger::{Of, Tally};
pub use pot::Pot;
pub(crate) use pot::Share;
use running::Running;
pub(crate) use running::{is_being_spent, sweep};

/// Returns the day in the local time zone.
fn today(now: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(now.as_millis()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d").to_string()
}

/// The spending of a run: published while it runs, and written to the ledger at its end.
#[derive(Debug)]
pub(crate) struct Account {
    /// Where it is written, and what is known of it from the beginning.
    book: Option<(Ledger, Line)>,
    running: Option<Running>,
    budget: Budget,
    prompt_chars: u64,
}

impl Account {
    /// Computes the budget of a task, and warns about lines that cannot be read. A budget that is used up is an error, and nothing
    /// is started.
    pub(crate) fn open(
        task: &Task,
        provider: &str,
        manifest: Option<&Manifest>,
        session: &SessionId,
    ) -> Result<(Self, Budget, Vec<Notice>), Error> {
        let config = task.config.as_deref();
        let home = match &task.journal {
            // Pretended spending counts in no budget.
            _ if manifest.is_some_and(|manifest| manifest.pretends) => None,
            JournalChoice::At(home) => Some(home.clone()),
            // A task that leaves no trace still spends money. Record the amount and nothing else.
            JournalChoice::Default | JournalChoice::Temporary if !task.is_scripted() => Home::from_env().ok(),
            JournalChoice::Default | JournalChoice::Temporary | JournalChoice::None => None,
        };
        let project = match config {
            Some(config) => config.places.project(),
            None => Places::from_env(task.request.cwd.as_ref().map(Path::new)).project(),
        };
        let own_prices = config.map(|config| config.settings.prices()).unwrap_or_default();
        let mut budget = Budget {
            limits: Vec::new(),
            prices: task.attempt_context.prices.iter().cloned().chain(own_prices).collect(),
            model: model(task, manifest),
        };
        let own = Amounts { cost: task.request.max_cost_usd, ..task.spend };
        let amounts = merged(own, config, "request");
        match &task.attempt_context.share {
            Some(share) => {
                let amounts = stricter(amounts, share.limits());
                let used = task.attempt_context.used.plus(&share.spent_by_others());
                within("these tasks", amounts, used)?;
                limit(&mut budget, BudgetScope::Request, amounts, task.attempt_context.used)?;
            }
            None => limit(&mut budget, BudgetScope::Request, amounts, task.attempt_context.used)?,
        }
        let (mut bad, mut tallies) = (Vec::<String>::new(), Vec::new());
        let line = Line {
            day: today(clock::wall()),
            at: clock::wall(),
            session: Some(session.clone()).filter(|_| !task.request.ephemeral),
            run: task.request.ephemeral.then(random_name),
            provider: provider.to_owned(),
            profile: task.profile.as_ref().map(|profile| profile.name.clone()),
            model: budget.model.clone(),
            project,
            cost_usd: None,
            basis: String::new(),
            tokens: 0,
        };
        let book = home.as_ref().map(|home| (Ledger::of(home), line));
        if let Some((ledger, line)) = &book {
            let failed = |source| Error::Ledger { source };
            let day = (
                BudgetScope::Day,
                merged(Amounts::default(), config, "day"),
                Some(Of::Day(line.day.clone())),
            );
            let project = line.project.clone().map(Of::Project);
            let project = (BudgetScope::Project, merged(Amounts::default(), config, "project"), project);
            for (extent, amounts, of) in [day, project] {
                let Some(of) = of.filter(|_| !amounts.is_empty()) else { continue };
                let mut tally = Tally::new(of);
                let running = ledger.running(None).map_err(failed)?;
                let before = tally.look(ledger, &running).map_err(failed)?;
                limit(&mut budget, extent, amounts, before)?;
                bad.extend(
                    tally.take_unread().into_iter().filter(|line| !bad.contains(line)).collect::<Vec<_>>(),
                );
                tallies.push((extent, tally, before));
            }
        }
        let notice =
            |text| Notice { level: Level::Warn, text, code: Some("ledger_line_unreadable".to_owned()) };
        let running = book.clone().map(|(ledger, line)| Running::new(ledger, line, tallies));
        let prompt_chars = task.request.prompt.chars().count() as u64;
        let account = Self { book, running, budget: budget.clone(), prompt_chars };
        Ok((account, budget, bad.into_iter().map(notice).collect()))
    }

    /// Publishes the usage of the run so far, and returns the usage of other runs if it changed.
    pub(crate) fn look(&mut self, run: &Run, up: Millis) -> Option<Vec<(BudgetScope, Amounts)>> {
        self.running.as_mut()?.look(run, up)
    }

    /// Returns when the next update is due, as time since the run began.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        self.running.as_ref()?.deadline()
    }

    /// Writes the usage of a run to the ledger. Returns it, with the error of writing.
    pub(crate) fn close(mut self, digest: &Digest) -> Option<(budget::SpendSum, Option<std::io::Error>)> {
        let (mut usage, mut cost) = (digest.usage()?, digest.cost_usd());
        let mut estimated = digest.usage_source() == Some(UsageSource::Estimated);
        let said = digest.text().map_or(0, |text| text.chars().count() as u64);
        if usage.total() == 0 && said > 0 {
            // An agent that was stopped may wrongly report no usage.
            (usage, cost, estimated) = (usage::estimate(self.prompt_chars, said), None, true);
        }
        let model = digest.model().or(self.budget.model.as_deref());
        let sum = budget::sum(usage, cost, estimated, model, &self.budget.prices);
        let Some((ledger, mut line)) = self.book.take() else { return Some((sum, None)) };
        if self.running.is_some() {
            line.at = clock::wall();
            line.day = today(line.at);
        }
        line.model = model.map(str::to_owned);
        (line.cost_usd, line.basis, line.tokens) = (sum.cost, sum.basis.clone(), usage.total());
        let unwritten = ledger.add(&line).err();
        if let Some(error) = &unwritten {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                "what was spent could not be written down"
            );
        }
        // Behind its line: what it had told while it ran goes with `running`.
        let unwritten = unwritten.or_else(|| self.running.as_mut()?.trouble());
        Some((sum, unwritten))
    }
}

/// Returns the requested model of a task, or the default that Bowline itself passes.
fn model(task: &Task, manifest: Option<&Manifest>) -> Option<String> {
    task.chosen_model().or_else(|| manifest?.told_model().map(str::to_owned))
}

fn random_name() -> String {
    let bytes = host::random().into_iter().chain(host::random());
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the usage of a run whose runner was killed, as far as its journal has it, unless the runner wrote it.
pub(crate) fn settle(dir: &Path, meta: &SessionMeta) -> Result<(), Error> {
    let Some(home) = dir.parent().and_then(Path::parent) else { return Ok(()) };
    if roster::find(&meta.provider).is_ok_and(|manifest| manifest.pretends) {
        return Ok(());
    }
    let ledger = Ledger::of(&Home::at(home));
    let id = meta.id.as_str();
    if !ledger.has(id).map_err(|source| Error::Ledger { source })? {
        let (mut digest, mut at) = (Digest::default(), meta.registered_at);
        let mut reader = Reader::open(dir)?;
        while let Some(event) = reader.next_event()? {
            if event.source == Source::Agent {
                at = event.at;
            }
            digest.event(&event);
        }
        let places = Places::from_env(meta.cwd.as_ref().map(Path::new));
        // A file that is wrong is told to whoever runs something; here it only means that there are no prices of one's own.
        let prices = Config::load(places.cwd.as_deref()).map(|config| config.settings.prices());
        let line = Line {
            day: today(at),
            at,
            session: Some(meta.id.clone()),
            run: None,
            provider: meta.provider.clone(),
            profile: meta.profile.clone(),
            model: None,
            project: places.project(),
            cost_usd: None,
            basis: String::new(),
            tokens: 0,
        };
        let account = Account {
            book: Some((ledger.clone(), line)),
            running: None,
            budget: Budget { prices: prices.unwrap_or_default(), ..Budget::default() },
            prompt_chars: 0,
        };
        // What cannot be written is in the log; the run that finds it has a line of its own, which says the same aloud.
        account.close(&digest);
    }
    running::forget(&ledger, id);
    Ok(())
}

/// Adds a limit to a budget, or returns that it is used up. A limit of 0 always is.
fn limit(budget: &mut Budget, extent: BudgetScope, amounts: Amounts, before: Amounts) -> Result<(), Error> {
    if amounts.is_empty() {
        return Ok(());
    }
    within(&extent.to_string(), amounts, before)?;
    budget.limits.push(BudgetLimit { extent, amounts, before });
    Ok(())
}

/// Fails if a limit is reached already.
fn within(scope: &str, amounts: Amounts, before: Amounts) -> Result<(), Error> {
    let over = |what: String| Err(Error::OverBudget { scope: scope.to_owned(), what });
    if amounts.cost == Some(0.0) || amounts.tokens == Some(0) || amounts.time == Some(Millis(0)) {
        return over("the limit is 0".to_owned());
    }
    if let (Some(most), Some(spent)) = (amounts.cost, before.cost)
        && spent >= most
    {
        return over(format!("{} of {}", dollars(spent), dollars(most)));
    }
    if let (Some(most), Some(spent)) = (amounts.tokens, before.tokens)
        && spent >= most
    {
        return over(format!("{spent} of {most} tokens"));
    }
    Ok(())
}

/// Returns the stricter of two limits.
fn stricter(one: Amounts, other: Amounts) -> Amounts {
    let cost = match (one.cost, other.cost) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
    let time = least(one.time.map(|it| it.0), other.time.map(|it| it.0)).map(Millis);
    Amounts { cost, tokens: least(one.tokens, other.tokens), time }
}

/// Returns the caller's limits, and where the caller sets none, the lower one of the settings and of the router's file: either of
/// them may come from a project, which cannot raise the user's.
fn merged(own: Amounts, config: Option<&Config>, scope: &str) -> Amounts {
    let settings = config.map(|config| config.settings.budget(scope)).unwrap_or_default();
    let router =
        config.and_then(|config| config.router.as_ref()?.budgets.get(scope).copied()).unwrap_or_default();
    let files = stricter(settings, router);
    Amounts {
        cost: own.cost.or(files.cost),
        tokens: own.tokens.or(files.tokens),
        time: own.time.or(files.time),
    }
}
