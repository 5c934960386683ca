//! The spending files: a file for each month with a line for each attempt that ended, and one small file for each current run
//! with its usage so far.
//!
//! Adding up both needs no lock: a run writes its line before it removes its small file, and a reader reads the small files
//! first. A run that is in both counts once, by its name.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bowline_engine::budget::Amounts;
use bowline_protocol::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::sessions::journal::{Home, SPENDING_DIR, SPENDING_NOW_DIR};
use crate::system::host;

/// The spending of one attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The day in the local time zone.
    pub day: String,
    /// When it ended.
    pub at: Timestamp,
    /// The session; absent for a task that leaves no trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The name of the run, so that it is not counted twice: a random one if the session is absent, that of the stint if the
    /// session has earlier ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
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
    /// The cost; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The basis of the cost.
    pub basis: String,
    /// The tokens.
    pub tokens: u64,
}

impl Line {
    /// Returns the name of the run.
    pub(super) fn id(&self) -> Option<&str> {
        self.run.as_deref().or(self.session.as_ref().map(SessionId::as_str))
    }

    pub(super) fn amounts(&self) -> Amounts {
        Amounts { cost: self.cost_usd, tokens: Some(self.tokens), time: None }
    }
}

/// Separates a session's id from the number of the first event of a stint. Ids do not contain it.
const STINT_MARK: char = '+';

/// Returns the name of a stint; none for the first one of a session, whose name is the session's id.
pub(super) fn stint_name(session: &SessionId, first_seq: u64) -> Option<String> {
    (first_seq > 1).then(|| format!("{session}{STINT_MARK}{first_seq}"))
}

/// Returns the id of the session in the name of a run.
pub(super) fn session_of(name: &str) -> &str {
    name.split(STINT_MARK).next().unwrap_or(name)
}

/// The files.
#[derive(Clone, Debug)]
pub struct Ledger {
    dir: PathBuf,
    running: PathBuf,
}

impl Ledger {
    /// Uses the files of a data home.
    pub fn of(home: &Home) -> Self {
        Self { dir: home.path().join(SPENDING_DIR), running: home.path().join(SPENDING_NOW_DIR) }
    }

    /// Returns the spending of a day, with the usage of current runs.
    pub fn day(&self, day: &str) -> io::Result<Past> {
        Tally::new(Of::Day(day.to_owned())).past(self)
    }

    /// Returns the total spending of a project, with the usage of current runs.
    pub fn project(&self, project: &Path) -> io::Result<Past> {
        Tally::new(Of::Project(project.to_owned())).past(self)
    }

    /// Returns whether a run has its line.
    pub(super) fn has(&self, id: &str) -> io::Result<bool> {
        let mut found = false;
        for (path, _) in self.months()? {
            each_line(&path, (0, 0), |_, line, _| found |= line.is_ok_and(|line| line.id() == Some(id)))?;
        }
        Ok(found)
    }

    /// Lists the files of the months with their lengths.
    fn months(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let mut months = Vec::new();
        for path in listed(&self.dir)? {
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                let length = std::fs::metadata(&path)?.len();
                months.push((path, length));
            }
        }
        Ok(months)
    }

    /// Returns the usage of all current runs but one.
    pub(super) fn running(&self, but: Option<&str>) -> io::Result<Vec<Line>> {
        let ids = self.running_ids()?.into_iter().filter(|id| Some(id.as_str()) != but);
        Ok(ids.filter_map(|id| self.running_line(&id)).collect())
    }

    /// Lists the current and killed runs.
    pub(super) fn running_ids(&self) -> io::Result<Vec<String>> {
        let id = |path: PathBuf| {
            path.file_name()?
                .to_str()?
                .strip_suffix(".json")
                .filter(|id| !id.starts_with('.'))
                .map(str::to_owned)
        };
        Ok(listed(&self.running)?.into_iter().filter_map(id).collect())
    }

    /// Returns the usage of a run so far; none if it has ended meanwhile.
    pub(super) fn running_line(&self, id: &str) -> Option<Line> {
        let path = self.running_file(id);
        let read = std::fs::read(&path).and_then(|text| Ok(serde_json::from_slice(&text)?));
        match read {
            Ok(line) => Some(line),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(path = %path.display(), error, "could not read the usage of a running session");
                None
            }
        }
    }

    pub(super) fn running_file(&self, id: &str) -> PathBuf {
        self.running.join(format!("{id}.json"))
    }

    /// Returns the lock file of a living run. The file with its amounts cannot be locked, because each update replaces it.
    pub(super) fn running_lock(&self, id: &str) -> PathBuf {
        self.running.join(format!("{id}.lock"))
    }

    /// Adds a line.
    pub(super) fn add(&self, line: &Line) -> io::Result<()> {
        host::private_dir(&self.dir)?;
        let month = line.day.get(..7).unwrap_or(&line.day);
        let path = self.dir.join(format!("{month}.jsonl"));
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let mut text = Vec::new();
        if is_torn(&mut file)? {
            // If a crash left half a line, begin a new one, so that this line is not lost too.
            text.push(b'\n');
        }
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
        // In one piece, so that lines of several processes do not mix.
        file.write_all(&text)
    }
}

/// Lists a directory that may not exist.
fn listed(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns whether the last line of a file has no end.
fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// How far a file was read: bytes, and lines.
type Place = (u64, u64);

/// Reads the lines of a file from a place on. A last line without an end is read, and not gone past: there may be more of it.
/// Each comes with its number and whether it has an end.
fn each_line(
    path: &Path,
    (mut bytes, mut number): Place,
    mut each: impl FnMut(u64, Result<Line, serde_json::Error>, bool),
) -> io::Result<Place> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(bytes))?;
    let (mut file, mut text) = (BufReader::new(file), Vec::new());
    loop {
        text.clear();
        let length = file.read_until(b'\n', &mut text)?;
        let ends = text.last() == Some(&b'\n');
        if !text.trim_ascii().is_empty() {
            each(number + 1, serde_json::from_slice(&text), ends);
        }
        if !ends {
            return Ok((bytes, number));
        }
        (bytes, number) = (bytes + length as u64, number + 1);
    }
}

/// The spending so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// How much.
    pub amounts: Amounts,
    /// Lines that cannot be parsed and were not counted, each with its place.
    pub unread: Vec<String>,
}

/// Which lines count.
#[derive(Clone, Debug)]
pub(super) enum Of {
    Day(String),
    Project(PathBuf),
}

impl Of {
    /// Returns whether a file may have such lines. Its name is the year and the month.
    fn is_in(&self, path: &Path) -> bool {
        match self {
            Self::Day(day) => {
                path.file_stem().and_then(|stem| stem.to_str()) == Some(day.get(..7).unwrap_or(day))
            }
            Self::Project(_) => true,
        }
    }

    fn counts(&self, line: &Line) -> bool {
        match self {
            Self::Day(day) => line.day == *day,
            Self::Project(project) => line.project.as_ref() == Some(project),
        }
    }
}

/// A sum over the lines that is kept up to date by reading only new lines.
#[derive(Debug)]
pub(super) struct Tally {
    of: Of,
    read: BTreeMap<PathBuf, Place>,
    past: Past,
    /// Runs that have their line, which includes their published usage.
    ended: HashSet<String>,
}

impl Tally {
    pub(super) fn new(of: Of) -> Self {
        Self { of, read: BTreeMap::new(), past: Past::default(), ended: HashSet::new() }
    }

    fn past(mut self, ledger: &Ledger) -> io::Result<Past> {
        // The current runs are listed before the lines are read: a run that ends in between is in both, and counts once.
        let amounts = self.look(ledger, &ledger.running(None)?)?;
        Ok(Past { amounts, ..self.past })
    }

    /// Returns which lines could not be read, once.
    pub(super) fn take_unread(&mut self) -> Vec<String> {
        std::mem::take(&mut self.past.unread)
    }

    /// Returns the sum, with the usage of current runs. List these before calling this.
    pub(super) fn look(&mut self, ledger: &Ledger, running: &[Line]) -> io::Result<Amounts> {
        let months = ledger.months()?;
        let shrunk =
            |(path, length): &(PathBuf, u64)| self.read.get(path).is_some_and(|(read, _)| read > length);
        if months.iter().any(shrunk) {
            // The file was changed.
            *self = Self::new(self.of.clone());
        }
        for (path, length) in months {
            let place = self.read.get(&path).copied().unwrap_or_default();
            if place.0 < length && self.of.is_in(&path) {
                let place = self.read_on(&path, place, running)?;
                self.read.insert(path, place);
            }
        }
        let runs =
            |line: &&Line| self.of.counts(line) && line.id().is_some_and(|id| !self.ended.contains(id));
        Ok(running.iter().filter(runs).fold(self.past.amounts, |sum, line| sum.plus(&line.amounts())))
    }

    fn read_on(&mut self, path: &Path, place: Place, running: &[Line]) -> io::Result<Place> {
        let Self { of, past, ended, .. } = self;
        each_line(path, place, |number, line, ends| match line {
            // Count it when it is complete.
            Ok(_) if !ends => {}
            Ok(line) => {
                if of.counts(&line) {
                    past.amounts = past.amounts.plus(&line.amounts());
                }
                // Of the lines on file at the start, keep only the names of current runs.
                let id =
                    line.id().filter(|id| place.0 > 0 || running.iter().any(|line| line.id() == Some(id)));
                ended.extend(id.map(str::to_owned));
            }
            // A crash or an edit has damaged this line. Count the others.
            Err(error) if place.0 == 0 => past.unread.push(unread(path, number, &error)),
            Err(_) => {}
        })
    }
}

fn unread(path: &Path, number: u64, error: &serde_json::Error) -> String {
    let why = error.to_string();
    let why = why.split(" at line ").next().unwrap_or_default();
    format!("{}:{number}: {why}; Bowline does not count this line", path.display())
}
