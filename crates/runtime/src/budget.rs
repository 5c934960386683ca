//! What was spent, on file, and what that leaves for the next run.
//!
//! One line for each attempt, appended to a file for each month in the data home. A day and a project are sums over these
//! lines; who keeps no budget pays one small write. Nothing in a line says what was asked or answered.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bowline_engine::budget::{self, Amounts, Budget, Limit};
use bowline_protocol::{SessionId, Timestamp, UsageSource};
use bowline_providers::usage;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::journal::Home;
use crate::record::Record;
use crate::task::{JournalChoice, Task};
use crate::{Error, clock, host};

/// The directory of the files, in the data home.
const DIR: &str = "spending";

/// What one attempt used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The day, where the person is.
    pub day: String,
    /// When it ended.
    pub at: Timestamp,
    /// The session; absent where no trace was to be left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The provider.
    pub provider: String,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The project; absent where no trace was to be left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// What it cost; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What the cost rests on.
    pub basis: String,
    /// The tokens.
    pub tokens: u64,
}

/// The files.
#[derive(Clone, Debug)]
pub struct Ledger {
    dir: PathBuf,
}

impl Ledger {
    /// Keeps them in a data home.
    pub fn of(home: &Home) -> Self {
        Self { dir: home.path().join(DIR) }
    }

    /// Returns what a day used.
    pub fn day(&self, day: &str) -> std::io::Result<Amounts> {
        // The name of a file begins with the year and the month.
        let month = day.get(..7).unwrap_or(day);
        sum(self.lines(|name| name == month)?.iter().filter(|line| line.day == day))
    }

    /// Returns what a project ever used.
    pub fn project(&self, project: &Path) -> std::io::Result<Amounts> {
        sum(self.lines(|_| true)?.iter().filter(|line| line.project.as_deref() == Some(project)))
    }

    /// Returns the lines of some months.
    fn lines(&self, wanted: impl Fn(&str) -> bool) -> std::io::Result<Vec<Line>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut lines = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let month = path.file_stem().and_then(|stem| stem.to_str());
            if !month.is_some_and(&wanted) {
                continue;
            }
            for line in BufReader::new(File::open(&path)?).lines() {
                let line = line?;
                match serde_json::from_str(&line) {
                    Ok(line) => lines.push(line),
                    // A line that a crash cut short is the only sort that is expected.
                    Err(_) if line.trim().is_empty() => {}
                    Err(_) => {
                        tracing::warn!(path = %path.display(), "a line of what was spent cannot be read")
                    }
                }
            }
        }
        Ok(lines)
    }

    /// Adds a line.
    fn add(&self, line: &Line) -> std::io::Result<()> {
        host::private_dir(&self.dir)?;
        let month = line.day.get(..7).unwrap_or(&line.day);
        let path = self.dir.join(format!("{month}.jsonl"));
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        // In one piece, so that lines of several processes do not mix.
        file.write_all(&text)
    }
}

fn sum<'a>(lines: impl Iterator<Item = &'a Line>) -> std::io::Result<Amounts> {
    let mut all = Amounts { cost: Some(0.0), tokens: Some(0), time: None };
    for line in lines {
        all.cost = all.cost.map(|cost| cost + line.cost_usd.unwrap_or(0.0));
        all.tokens = all.tokens.map(|tokens| tokens.saturating_add(line.tokens));
    }
    Ok(all)
}

/// Returns the day, where the person is.
fn today(now: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(now.as_millis()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d").to_string()
}

/// What is written when a run has ended.
#[derive(Debug)]
pub(crate) struct Account {
    ledger: Option<Ledger>,
    provider: String,
    project: Option<PathBuf>,
    trace: bool,
    budget: Budget,
    prompt_chars: u64,
}

impl Account {
    /// Finds out what a task may use. A budget that is used up already is an error: nothing is started.
    pub(crate) fn open(task: &Task, provider: &str) -> Result<(Self, Budget), Error> {
        let config = task.config.as_deref();
        let home = match &task.journal {
            JournalChoice::At(home) => Some(home.clone()),
            // Who leaves no trace still spends money; that it was spent is kept, and nothing else.
            JournalChoice::Default | JournalChoice::Temporary if !task.is_scripted() => Home::from_env().ok(),
            JournalChoice::Default | JournalChoice::Temporary | JournalChoice::None => None,
        };
        let ledger = home.as_ref().map(Ledger::of);
        let project = config.and_then(|config| config.places.project());
        let mut budget = Budget {
            limits: Vec::new(),
            prices: config.map(|config| config.settings.prices()).unwrap_or_default(),
            model: task.request.model.clone(),
        };
        let own = Amounts { cost: task.request.max_cost_usd, ..task.spend };
        let amounts = merged(own, config, "request");
        limit(&mut budget, "this request", amounts, task.leg.used)?;
        let amounts = merged(Amounts::default(), config, "day");
        if let Some(ledger) = ledger.as_ref().filter(|_| !amounts.is_empty()) {
            let before = ledger.day(&today(clock::wall())).map_err(|source| Error::Ledger { source })?;
            limit(&mut budget, "today", amounts, before)?;
        }
        let amounts = merged(Amounts::default(), config, "project");
        if let (Some(ledger), Some(project)) = (ledger.as_ref().filter(|_| !amounts.is_empty()), &project) {
            let before = ledger.project(project).map_err(|source| Error::Ledger { source })?;
            limit(&mut budget, "this project", amounts, before)?;
        }
        let trace = !task.request.ephemeral;
        let prompt_chars = task.request.prompt.chars().count() as u64;
        let provider = provider.to_owned();
        let account = Self { ledger, provider, project, trace, budget: budget.clone(), prompt_chars };
        Ok((account, budget))
    }

    /// Writes down what a run used, and puts the cost into its record where the agent did not tell it.
    pub(crate) fn close(self, record: &mut Record) {
        let Some(mut usage) = record.usage else { return };
        let mut cost = record.cost_usd;
        let mut estimated = record.usage_source == Some(UsageSource::Estimated);
        let said = record.text.as_ref().map_or(0, |text| text.chars().count() as u64);
        if usage.total() == 0 && said > 0 {
            // An agent that was stopped may report that it used nothing, which is not so.
            (usage, cost, estimated) = (usage::estimate(self.prompt_chars, said), None, true);
        }
        let model = record.model.as_deref().or(self.budget.model.as_deref());
        let sum = budget::sum(usage, cost, estimated, model, &self.budget.prices);
        record.cost = sum.cost;
        record.cost_basis = Some(sum.basis.clone());
        let Some(ledger) = self.ledger else { return };
        let now = clock::wall();
        let line = Line {
            day: today(now),
            at: now,
            session: Some(record.session.clone()).filter(|_| self.trace),
            provider: self.provider,
            model: record.model.clone(),
            project: self.project.filter(|_| self.trace),
            cost_usd: sum.cost,
            basis: sum.basis,
            tokens: usage.total(),
        };
        if let Err(error) = ledger.add(&line) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "what was spent could not be written down"
            );
        }
    }
}

/// Adds a limit to a budget, or says that it is used up.
fn limit(budget: &mut Budget, scope: &str, amounts: Amounts, before: Amounts) -> Result<(), Error> {
    if amounts.is_empty() {
        return Ok(());
    }
    let over = |what: String| Err(Error::OverBudget { scope: scope.to_owned(), what });
    if let (Some(most), Some(spent)) = (amounts.cost, before.cost)
        && spent >= most
    {
        return over(format!("{} of {}", budget::dollars(spent), budget::dollars(most)));
    }
    if let (Some(most), Some(spent)) = (amounts.tokens, before.tokens)
        && spent >= most
    {
        return over(format!("{spent} of {most} tokens"));
    }
    budget.limits.push(Limit { scope: scope.to_owned(), amounts, before });
    Ok(())
}

/// The nearest word counts: what the caller says, the settings, the router's file.
fn merged(own: Amounts, config: Option<&Config>, scope: &str) -> Amounts {
    let settings = config.map(|config| config.settings.budget(scope)).unwrap_or_default();
    let router =
        config.and_then(|config| config.router.as_ref()?.budgets.get(scope).copied()).unwrap_or_default();
    Amounts {
        cost: own.cost.or(settings.cost).or(router.cost),
        tokens: own.tokens.or(settings.tokens).or(router.tokens),
        time: own.time.or(settings.time).or(router.time),
    }
}
