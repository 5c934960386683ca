//! What was spent, on file, and what that leaves for the next run.
//!
//! One line for each attempt, appended to a file for each month in the data home. A day and a project are sums over these
//! lines; who keeps no budget pays one small write. Nothing in a line says what was asked or answered. The line of a run that
//! was killed is written by whoever settles its session.

mod pot;

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bowline_engine::budget::{self, Amounts, Budget, Limit};
use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{SessionId, Source, Timestamp, UsageSource};
use bowline_providers::usage;
use bowline_providers::views::Digest;
use serde::{Deserialize, Serialize};

use crate::config::{Config, Places};
use crate::journal::{Home, Reader, SessionMeta};
use crate::task::{JournalChoice, Task};
use crate::{Error, clock, host};
pub use pot::Pot;
pub(crate) use pot::Share;

/// The directory of the files, in the data home.
pub(crate) const DIR: &str = "spending";

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
    /// The account, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The project.
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
    pub fn day(&self, day: &str) -> std::io::Result<Past> {
        // The name of a file begins with the year and the month.
        let month = day.get(..7).unwrap_or(day);
        self.past(|name| name == month, |line| line.day == day)
    }

    /// Returns what a project ever used.
    pub fn project(&self, project: &Path) -> std::io::Result<Past> {
        self.past(|_| true, |line| line.project.as_deref() == Some(project))
    }

    /// Says whether a session has its line.
    fn has(&self, session: &SessionId) -> std::io::Result<bool> {
        let mut found = false;
        self.past(
            |_| true,
            |line| {
                found |= line.session.as_ref() == Some(session);
                false
            },
        )?;
        Ok(found)
    }

    /// Adds up lines of some months.
    fn past(
        &self,
        wanted: impl Fn(&str) -> bool,
        mut counts: impl FnMut(&Line) -> bool,
    ) -> std::io::Result<Past> {
        let mut past = Past::default();
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(past),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            if !path.file_stem().and_then(|stem| stem.to_str()).is_some_and(&wanted) {
                continue;
            }
            for (line, number) in BufReader::new(File::open(&path)?).split(b'\n').zip(1..) {
                let line = line?;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                match serde_json::from_slice::<Line>(&line) {
                    Ok(line) if counts(&line) => past.add(&line),
                    Ok(_) => {}
                    // A crash may have cut it short, or somebody has changed it. The others count all the same.
                    Err(error) => past.unread.push(unread(&path, number, &error)),
                }
            }
        }
        Ok(past)
    }

    /// Adds a line.
    fn add(&self, line: &Line) -> std::io::Result<()> {
        host::private_dir(&self.dir)?;
        let month = line.day.get(..7).unwrap_or(&line.day);
        let path = self.dir.join(format!("{month}.jsonl"));
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let mut text = Vec::new();
        if is_torn(&mut file)? {
            // What a crash left of a line costs that line and not this one too.
            text.push(b'\n');
        }
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
        // In one piece, so that lines of several processes do not mix.
        file.write_all(&text)
    }
}

/// Says whether the last line of a file has no end.
fn is_torn(file: &mut File) -> std::io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// What was spent before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// How much.
    pub amounts: Amounts,
    /// Lines of the files that cannot be read and were not counted, each with its place.
    pub unread: Vec<String>,
}

impl Past {
    fn add(&mut self, line: &Line) {
        let of = Amounts { cost: line.cost_usd, tokens: Some(line.tokens), time: None };
        self.amounts = self.amounts.plus(&of);
    }
}

fn unread(path: &Path, number: u64, error: &serde_json::Error) -> String {
    let why = error.to_string();
    let why = why.split(" at line ").next().unwrap_or_default();
    format!("{}:{number}: {why}; what this line says of what was spent is not counted", path.display())
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
    profile: Option<String>,
    project: Option<PathBuf>,
    trace: bool,
    budget: Budget,
    prompt_chars: u64,
    /// When the run ended, if that is known from elsewhere.
    at: Option<Timestamp>,
}

impl Account {
    /// Finds out what a task may use, and what stands in the files that cannot be read. A budget that is used up already is
    /// an error: nothing is started.
    pub(crate) fn open(task: &Task, provider: &str) -> Result<(Self, Budget, Vec<Notice>), Error> {
        let config = task.config.as_deref();
        let home = match &task.journal {
            JournalChoice::At(home) => Some(home.clone()),
            // Who leaves no trace still spends money; that it was spent is kept, and nothing else.
            JournalChoice::Default | JournalChoice::Temporary if !task.is_scripted() => Home::from_env().ok(),
            JournalChoice::Default | JournalChoice::Temporary | JournalChoice::None => None,
        };
        let ledger = home.as_ref().map(Ledger::of);
        let project = match config {
            Some(config) => config.places.project(),
            None => Places::from_env(task.request.cwd.as_ref().map(Path::new)).project(),
        };
        let own_prices = config.map(|config| config.settings.prices()).unwrap_or_default();
        let mut budget = Budget {
            limits: Vec::new(),
            prices: task.leg.prices.iter().cloned().chain(own_prices).collect(),
            model: task.chosen_model(),
        };
        let own = Amounts { cost: task.request.max_cost_usd, ..task.spend };
        let amounts = merged(own, config, "request");
        limit(&mut budget, "this request", amounts, task.leg.used)?;
        let mut bad: Vec<String> = Vec::new();
        let failed = |source| Error::Ledger { source };
        let amounts = merged(Amounts::default(), config, "day");
        if let Some(ledger) = ledger.as_ref().filter(|_| !amounts.is_empty()) {
            let before = ledger.day(&today(clock::wall())).map_err(failed)?;
            limit(&mut budget, "today", amounts, before.amounts)?;
            bad.extend(before.unread);
        }
        let amounts = merged(Amounts::default(), config, "project");
        if let (Some(ledger), Some(project)) = (ledger.as_ref().filter(|_| !amounts.is_empty()), &project) {
            let before = ledger.project(project).map_err(failed)?;
            limit(&mut budget, "this project", amounts, before.amounts)?;
            bad.extend(before.unread.into_iter().filter(|line| !bad.contains(line)).collect::<Vec<_>>());
        }
        let notice =
            |text| Notice { level: Level::Warn, text, code: Some("ledger_line_unreadable".to_owned()) };
        let account = Self {
            ledger,
            provider: provider.to_owned(),
            profile: task.profile.as_ref().map(|profile| profile.name.clone()),
            project,
            trace: !task.request.ephemeral,
            budget: budget.clone(),
            prompt_chars: task.request.prompt.chars().count() as u64,
            at: None,
        };
        Ok((account, budget, bad.into_iter().map(notice).collect()))
    }

    /// Writes down what a run used, and returns it, with what kept it from being written.
    pub(crate) fn close(
        self,
        session: &SessionId,
        digest: &Digest,
    ) -> Option<(budget::Sum, Option<std::io::Error>)> {
        let (mut usage, mut cost) = (digest.usage()?, digest.cost_usd());
        let mut estimated = digest.usage_source() == Some(UsageSource::Estimated);
        let said = digest.text().map_or(0, |text| text.chars().count() as u64);
        if usage.total() == 0 && said > 0 {
            // An agent that was stopped may report that it used nothing, which is not so.
            (usage, cost, estimated) = (usage::estimate(self.prompt_chars, said), None, true);
        }
        let model = digest.model().or(self.budget.model.as_deref());
        let sum = budget::sum(usage, cost, estimated, model, &self.budget.prices);
        let Some(ledger) = self.ledger else { return Some((sum, None)) };
        let at = self.at.unwrap_or_else(clock::wall);
        let line = Line {
            day: today(at),
            at,
            session: Some(session.clone()).filter(|_| self.trace),
            provider: self.provider,
            profile: self.profile,
            model: digest.model().map(str::to_owned),
            project: self.project,
            cost_usd: sum.cost,
            basis: sum.basis.clone(),
            tokens: usage.total(),
        };
        let unwritten = ledger.add(&line).err();
        if let Some(error) = &unwritten {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                "what was spent could not be written down"
            );
        }
        Some((sum, unwritten))
    }
}

/// Writes down what a run used whose runner was killed, as far as its journal tells, unless the runner came to it.
pub(crate) fn settle(dir: &Path, meta: &SessionMeta) -> Result<(), Error> {
    let Some(home) = dir.parent().and_then(Path::parent) else { return Ok(()) };
    let ledger = Ledger::of(&Home::at(home));
    if ledger.has(&meta.id).map_err(|source| Error::Ledger { source })? {
        return Ok(());
    }
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
    let account = Account {
        ledger: Some(ledger),
        provider: meta.provider.clone(),
        profile: meta.profile.clone(),
        project: places.project(),
        trace: true,
        budget: Budget { prices: prices.unwrap_or_default(), ..Budget::default() },
        prompt_chars: 0,
        at: Some(at),
    };
    // What cannot be written is in the log; the run that finds it has a line of its own, which says the same aloud.
    account.close(&meta.id, &digest);
    Ok(())
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
