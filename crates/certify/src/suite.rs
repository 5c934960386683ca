//! Runs the cases, a few at a time, each with a time limit.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_process::seclusion::{self, NetworkAccess};
use bowline_providers::catalogue;
use bowline_providers::probe::Page;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::account::{RunTotals, SuiteTotals};
use crate::case::{CaseBody, CaseClaim, ContractCase, SuitePart};
use crate::case_failure::{CaseFailure, CaseVerdict};
use crate::cases::{self, faults};
use crate::clock::{self, Stopwatch};
use crate::own_command::OwnCommand;
use crate::place::CaseContext;
use crate::report::{CaseStatus, FORMAT, Report, ReportCell};
use crate::subject::TestedProgram;

/// How many cases run at once, unless the manifest sets another number.
const AT_ONCE: usize = 4;

/// The time limit of a case; a heavy one has it twice.
const LIMIT: Duration = Duration::from_secs(30);

/// The most lines of evidence in a cell.
const MOST_EVIDENCE: usize = 20;

/// The program, the cases, and where to run them.
#[derive(Clone, Debug)]
pub struct SuitePlan {
    /// The program.
    pub subject: TestedProgram,
    /// Which part of the suite.
    pub suite: SuitePart,
    /// The names of the only cases to try; none for all.
    pub only: Vec<String>,
    /// The command that runs the suite, for cases that need runners of their own.
    pub command: OwnCommand,
    /// The directory for the homes, projects and journals of the cases. Those of a red case stay there.
    pub scratch: PathBuf,
    /// Whether those of the other cases stay too.
    pub keep: KeptFolders,
    /// The network of this process.
    pub network: NetworkAccess,
    /// How many connections had tried to leave before the program was probed.
    pub attempts_before: u64,
}

/// Which homes, projects and journals of cases stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptFolders {
    /// Those of red cases.
    Red,
    /// All.
    All,
}

/// Progress, for the caller that waits.
#[derive(Debug)]
pub enum SuiteProgress<'a> {
    /// This many cases will run.
    Begun(usize),
    /// A case starts.
    Trying(&'static str),
    /// A case has a result.
    Done(&'a ReportCell),
}

/// Runs the suite on a program.
pub async fn certify(plan: SuitePlan, mut tell: impl FnMut(SuiteProgress<'_>)) -> Report {
    let time = Stopwatch::start();
    let subject = Arc::new(plan.subject);
    let command = Arc::new(plan.command);
    let account = Arc::new(SuiteTotals::default());
    let chosen = cases::chosen(plan.suite, &plan.only);
    tell(SuiteProgress::Begun(chosen.len()));
    let before = plan.attempts_before;

    let mut cells: Vec<Option<ReportCell>> = vec![None; chosen.len()];
    let at_once = subject.manifest.certify.at_once.unwrap_or(AT_ONCE).max(1);
    let gate = Arc::new(Semaphore::new(at_once));
    let (news, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let mut trying = JoinSet::new();
    let mut refused_connections = None;
    // Run the connection-refused cases last and alone: any earlier refused connection counts against `stays-home`.
    for deserted in [false, true] {
        for (index, case) in chosen.iter().copied().enumerate() {
            if matches!(case.body, CaseBody::After(_)) || case.is_deserted() != deserted {
                continue;
            }
            if let Some(cell) = unclaimed(case, &subject) {
                tell(SuiteProgress::Done(&cell));
                cells[index] = Some(cell);
                continue;
            }
            let dir = plan.scratch.join(case.name);
            // Shorter than the limit of the case: the run's own deadline has to come first, or the case could not judge it.
            let patience = LIMIT * case.runs - LIMIT / 5;
            let context = CaseContext {
                subject: Arc::clone(&subject),
                case: case.name,
                dir,
                patience,
                network: plan.network,
                account: Arc::clone(&account),
                command: Arc::clone(&command),
            };
            let (gate, news) = (Arc::clone(&gate), news.clone());
            trying.spawn(async move {
                // A case that is heavy for the whole machine takes all places. The semaphore is fair: the cases before it end first.
                let places = if case.alone { at_once } else { 1 };
                // It fails only if the semaphore is closed, which does not happen.
                let _permit = gate.acquire_many_owned(u32::try_from(places).unwrap_or(1)).await;
                // The receiver is gone only when the suite itself is dropped.
                let _ = news.send(case.name);
                (index, attempt(case, context, plan.keep).await)
            });
        }
        loop {
            tokio::select! {
                Some(name) = heard.recv() => tell(SuiteProgress::Trying(name)),
                done = trying.join_next() => match done {
                    Some(Ok((index, cell))) => {
                        tell(SuiteProgress::Done(&cell));
                        cells[index] = Some(cell);
                    }
                    // A case that panicked has no cell yet; it gets one below.
                    Some(Err(_)) => {}
                    None => break,
                }
            }
        }
        // Count after the first round only: the connections of the second round are refused on purpose.
        refused_connections.get_or_insert_with(seclusion::attempts_at_closed_ports);
    }

    let mut sums = account.sums();
    sums.attempts_to_leave = attempts_to_leave(plan.network, before, refused_connections.unwrap_or(Ok(0)));
    for (index, case) in chosen.iter().enumerate() {
        if let CaseBody::After(look) = case.body {
            let cell = unclaimed(case, &subject)
                .unwrap_or_else(|| judged(case, &subject, look(&sums), Duration::ZERO));
            tell(SuiteProgress::Done(&cell));
            cells[index] = Some(cell);
        }
    }
    let cells = cells.into_iter().zip(&chosen).map(|(cell, case)| {
        cell.unwrap_or_else(|| {
            judged(case, &subject, Err(CaseFailure::new("the case itself panicked")), Duration::ZERO)
        })
    });
    let cells: Vec<ReportCell> = cells.collect();
    report(&subject, plan.suite, plan.network, cells, sums, time.elapsed())
}

/// Counts the connections that left loopback since the suite began, refused ones included.
fn attempts_to_leave(
    network: NetworkAccess,
    before: u64,
    refused: std::io::Result<u64>,
) -> Result<u64, String> {
    match network {
        NetworkAccess::Loopback => seclusion::attempts_to_leave()
            .and_then(|left| Ok(left.saturating_sub(before) + refused?))
            .map_err(|error| format!("outgoing connections could not be counted: {error}")),
        NetworkAccess::Open => {
            Err("this process could not leave the network, so connections were not counted".to_owned())
        }
    }
}

/// Returns the cell of a case that the provider does not claim.
fn unclaimed(case: &ContractCase, subject: &TestedProgram) -> Option<ReportCell> {
    let manifest = subject.manifest;
    let reason = match (manifest.certify.not_claimed.get(case.name), (case.claim)(manifest)) {
        (Some(reason), _) => reason.clone(),
        (None, CaseClaim::No(Some(reason))) => reason,
        (None, CaseClaim::No(None)) => {
            let trouble = CaseFailure::new("it is not claimed, and the manifest has no reason");
            return Some(cell(case, CaseStatus::Red, None, trouble.0, Duration::ZERO));
        }
        (None, CaseClaim::Yes) => return None,
    };
    Some(cell(case, CaseStatus::NotClaimed, Some(reason), Vec::new(), Duration::ZERO))
}

async fn attempt(case: &'static ContractCase, context: CaseContext, keep: KeptFolders) -> ReportCell {
    let (subject, dir) = (Arc::clone(&context.subject), context.dir.clone());
    let time = Stopwatch::start();
    let body = async move {
        match &case.body {
            CaseBody::Runs(body) => body(context).await,
            CaseBody::Fault(fault) => faults::attempt(context, fault).await,
            // Not among the cases that run.
            CaseBody::After(_) => Ok(()),
        }
    };
    let limit = LIMIT * case.runs;
    let verdict = match tokio::time::timeout(limit, body).await {
        Ok(verdict) => verdict,
        Err(_) => Err(CaseFailure::new(format_args!("it did not finish within {} s", limit.as_secs()))),
    };
    let cell = judged(case, &subject, verdict, time.elapsed());
    if cell.status != CaseStatus::Red && keep == KeptFolders::Red {
        // A directory that cannot be removed is in a scratch directory and does no harm.
        let _ = std::fs::remove_dir_all(&dir);
    }
    cell
}

/// Turns a verdict into a cell. A pending case must fail.
fn judged(case: &ContractCase, subject: &TestedProgram, verdict: CaseVerdict, took: Duration) -> ReportCell {
    let known = subject.manifest.certify.pending.get(case.name).map(String::as_str);
    match (verdict, case.pending.or(known)) {
        (Ok(()), None) => cell(case, CaseStatus::Green, None, Vec::new(), took),
        (Err(trouble), None) => cell(case, CaseStatus::Red, None, trouble.0, took),
        (Err(_), Some(reason)) => cell(case, CaseStatus::Pending, Some(reason.to_owned()), Vec::new(), took),
        (Ok(()), Some(reason)) => {
            let passes = format!("it passes, but the manifest lists it as pending: {reason}");
            cell(case, CaseStatus::Red, None, vec![passes], took)
        }
    }
}

fn cell(
    case: &ContractCase,
    status: CaseStatus,
    reason: Option<String>,
    mut evidence: Vec<String>,
    took: Duration,
) -> ReportCell {
    if evidence.len() > MOST_EVIDENCE {
        let more = evidence.len() - MOST_EVIDENCE;
        evidence.truncate(MOST_EVIDENCE);
        evidence.push(format!("and {more} more"));
    }
    let (case, about) = (case.name.to_owned(), case.about.to_owned());
    ReportCell {
        case,
        about,
        status,
        reason,
        evidence,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    }
}

fn report(
    subject: &TestedProgram,
    suite: SuitePart,
    network: NetworkAccess,
    cells: Vec<ReportCell>,
    sums: RunTotals,
    took: Duration,
) -> Report {
    let manifest = subject.manifest;
    let isolation = match network {
        NetworkAccess::Loopback => "loopback alone",
        NetworkAccess::Open => "the network of this machine",
    };
    let guarantee = bowline::guarantee().map_or("none", |(word, _)| word);
    let known: BTreeSet<&str> = manifest
        .formats
        .values()
        .filter_map(|it| catalogue::vocabulary(&it.dialect))
        .flat_map(str::lines)
        .collect();
    let novel = sums.vocabulary.iter().filter(|path| !known.contains(path.as_str())).cloned().collect();
    Report {
        format: FORMAT,
        provider: manifest.name.clone(),
        title: manifest.title.clone(),
        version: subject.version.as_ref().ok().map(ToString::to_string),
        program: subject.program.display().to_string(),
        adapter_version: manifest.adapter_version.clone(),
        bowline: env!("CARGO_PKG_VERSION").to_owned(),
        at: clock::now(),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        suite: suite.as_str().to_owned(),
        isolation: format!("network: {isolation}; processes: {guarantee}"),
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        cells,
        flags: subject.pages.iter().map(|page| (page.args.join(" "), names(page))).collect(),
        kinds: sums.kinds,
        vocabulary: sums.vocabulary,
        novel,
        drift: None,
    }
}

fn names(page: &Page) -> BTreeSet<String> {
    page.help.flags.iter().flat_map(|flag| flag.names().map(str::to_owned)).collect()
}
