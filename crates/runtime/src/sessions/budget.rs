//! Spending on file, and the budget that it leaves for the next run.
//!
//! Each attempt appends one line to the file of its month in the data home (`ledger`). The spending of a day or a project is the
//! sum over these lines and over the usage of current runs (`running`). A line contains no text of the conversation. The process
//! that cleans up after a killed run writes its line. Pretended spending is not recorded.

mod error;
mod ledger;
mod pot;
mod running;

use std::path::{Path, PathBuf};

use bowline_engine::Session;
use bowline_engine::budget::{self, Budget, BudgetLimit, BudgetScope};
use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{Kind, Millis, SessionId, Source, Timestamp, UsageSource};
use bowline_providers::prices::Row;
use bowline_providers::usage;
use bowline_providers::views::Digest;

use crate::sessions::journal::stint::is_stint_start;
use crate::sessions::journal::{Home, Reader, SessionMeta};
use crate::system::{clock, host, project};
pub use bowline_engine::budget::{Amounts, dollars};
pub use error::BudgetError;
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
pub(crate) struct SpendTracker {
    /// Where it is written, and what is known of it from the beginning.
    book: Option<(Ledger, Line)>,
    running: Option<Running>,
    budget: Budget,
    prompt_chars: u64,
}

/// The limits of a run, and the spending that is known when it begins.
#[derive(Debug, Default)]
pub(crate) struct SpendingPlan {
    /// The data home with the ledger; none for a run whose spending is not recorded.
    pub(crate) home: Option<Home>,
    pub(crate) provider: String,
    pub(crate) profile: Option<String>,
    /// The requested model, or the default that Bowline itself passes.
    pub(crate) model: Option<String>,
    /// The directory of the project.
    pub(crate) project: Option<PathBuf>,
    /// The prices of the router's entry and of the settings, in this order.
    pub(crate) prices: Vec<Row>,
    pub(crate) request_limits: Amounts,
    pub(crate) day_limits: Amounts,
    pub(crate) project_limits: Amounts,
    /// The usage of earlier attempts of the same request.
    pub(crate) used: Amounts,
    /// Whether the ledger has a random name in the place of the session's id.
    pub(crate) ephemeral: bool,
    pub(crate) prompt_chars: u64,
}

impl SpendTracker {
    /// Computes the budget of a run, and warns about lines that cannot be read. A budget that is used up is an error, and nothing
    /// is started.
    pub(crate) fn open(
        plan: SpendingPlan,
        share: Option<&Share>,
        session: &SessionId,
    ) -> Result<(Self, Budget, Vec<Notice>), BudgetError> {
        let mut budget = Budget { limits: Vec::new(), prices: plan.prices, model: plan.model };
        let mut amounts = plan.request_limits;
        if let Some(share) = share {
            amounts = stricter(amounts, share.limits());
            within("these tasks", amounts, plan.used.plus(&share.spent_by_others()))?;
        }
        limit(&mut budget, BudgetScope::Request, amounts, plan.used)?;
        let (mut bad, mut tallies) = (Vec::<String>::new(), Vec::new());
        let line = Line {
            day: today(clock::wall()),
            at: clock::wall(),
            session: Some(session.clone()).filter(|_| !plan.ephemeral),
            run: plan.ephemeral.then(random_name),
            provider: plan.provider,
            profile: plan.profile,
            model: budget.model.clone(),
            project: plan.project,
            cost_usd: None,
            basis: String::new(),
            tokens: 0,
        };
        let book = plan.home.as_ref().map(|home| (Ledger::of(home), line));
        if let Some((ledger, line)) = &book {
            let failed = |source| BudgetError::Ledger { source };
            let day = (BudgetScope::Day, plan.day_limits, Some(Of::Day(line.day.clone())));
            let project = (BudgetScope::Project, plan.project_limits, line.project.clone().map(Of::Project));
            for (extent, amounts, of) in [day, project] {
                let Some(of) = of.filter(|_| !amounts.is_empty()) else { continue };
                let mut tally = Tally::new(of);
                // Before the lines are read: a run that ends in between is then in both lists, and counts once.
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
        let tracker = Self { book, running, budget: budget.clone(), prompt_chars: plan.prompt_chars };
        Ok((tracker, budget, bad.into_iter().map(notice).collect()))
    }

    /// Names the line after the stint: the session has a line for each of its earlier stints.
    pub(crate) fn continues(&mut self, session: &SessionId, first_seq: u64) {
        let name = ledger::stint_name(session, first_seq);
        let lines = self.book.as_mut().map(|(_, line)| line).into_iter();
        for line in lines.chain(self.running.as_mut().map(Running::line)) {
            line.run = line.run.take().or_else(|| name.clone());
        }
    }

    /// Publishes the usage of the run so far, and returns the usage of other runs if it changed.
    pub(crate) fn look(&mut self, run: &Session, up: Millis) -> Option<Vec<(BudgetScope, Amounts)>> {
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
        // Without `running` this is the line of a killed run, which keeps the time of its last event.
        if self.running.is_some() {
            line.at = clock::wall();
            line.day = today(line.at);
        }
        line.model = model.map(str::to_owned);
        (line.cost_usd, line.basis, line.tokens) = (sum.cost, sum.basis.clone(), usage.total());
        let unwritten = ledger.add(&line).err();
        if let Some(error) = &unwritten {
            tracing::warn!(error = error as &dyn std::error::Error, "could not record the spending of a run");
        }
        // Behind its line: what it had told while it ran goes with `running`.
        let unwritten = unwritten.or_else(|| self.running.as_mut()?.trouble());
        Some((sum, unwritten))
    }
}

/// Returns a random name for the line of a run that keeps its session's id to itself.
fn random_name() -> String {
    let bytes = host::random().into_iter().chain(host::random());
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the usage of a run whose runner was killed, as far as its journal has it, unless the runner wrote it.
///
/// The cost is computed with these prices. The home directory is where a project ends.
pub(crate) fn settle(
    dir: &Path,
    meta: &SessionMeta,
    prices: &[Row],
    home_dir: Option<&Path>,
) -> Result<(), BudgetError> {
    let Some(home) = dir.parent().and_then(Path::parent) else { return Ok(()) };
    if meta.pretends {
        return Ok(());
    }
    let ledger = Ledger::of(&Home::at(home));
    let stint = LastStint::read(dir, meta)?;
    let run = ledger::stint_name(&meta.id, stint.first_seq);
    let id = run.as_deref().unwrap_or(meta.id.as_str());
    // The runner may have been killed after it wrote its line, and before the end of its session.
    if !ledger.has(id).map_err(|source| BudgetError::Ledger { source })? {
        let LastStint { digest, at, .. } = &stint;
        let cwd = stint.cwd.as_deref().map(Path::new);
        let line = Line {
            day: today(*at),
            at: *at,
            session: Some(meta.id.clone()),
            run: run.clone(),
            provider: meta.provider.clone(),
            profile: meta.profile.clone(),
            model: None,
            project: cwd.map(|cwd| project::directory(&project::canonical(cwd), home_dir)),
            cost_usd: None,
            basis: String::new(),
            tokens: 0,
        };
        let tracker = SpendTracker {
            book: Some((ledger.clone(), line)),
            running: None,
            budget: Budget { prices: prices.to_vec(), ..Budget::default() },
            prompt_chars: 0,
        };
        // A failed write is in the log. The run that finds it also reports it by a line of its own.
        tracker.close(digest);
    }
    // Last: until the line is on file, the published usage has to count.
    running::forget(&ledger, id);
    Ok(())
}

/// The last stint of a journal: earlier ones have their own lines.
struct LastStint {
    first_seq: u64,
    digest: Digest,
    /// The time of its last event of the agent.
    at: Timestamp,
    cwd: Option<String>,
}

impl LastStint {
    fn read(dir: &Path, meta: &SessionMeta) -> Result<Self, BudgetError> {
        let began = |first_seq, cwd: Option<String>| Self {
            first_seq,
            digest: Digest::default(),
            at: meta.registered_at,
            cwd: cwd.or_else(|| meta.cwd.clone()),
        };
        let mut stint = began(1, None);
        let mut reader = Reader::open(dir)?;
        while let Some(event) = reader.next_event()? {
            if let (true, Kind::SessionStarted(started)) = (is_stint_start(&event), &event.kind) {
                stint = began(event.seq, started.cwd.clone());
            }
            // Events of Bowline may come from the repair, long after the run.
            if event.source == Source::Agent {
                stint.at = event.at;
            }
            stint.digest.event(&event);
        }
        Ok(stint)
    }
}

/// Adds a limit to a budget, or returns that it is used up. A limit of 0 always is.
fn limit(
    budget: &mut Budget,
    extent: BudgetScope,
    amounts: Amounts,
    before: Amounts,
) -> Result<(), BudgetError> {
    if amounts.is_empty() {
        return Ok(());
    }
    within(&extent.to_string(), amounts, before)?;
    budget.limits.push(BudgetLimit { extent, amounts, before });
    Ok(())
}

/// Fails if a limit is reached already.
fn within(scope: &str, amounts: Amounts, before: Amounts) -> Result<(), BudgetError> {
    let over = |what: String| Err(BudgetError::Over { scope: scope.to_owned(), what });
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
