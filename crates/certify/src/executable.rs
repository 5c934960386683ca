//! The contract suite for executable providers: tests the CLI provider protocol on the program.
//!
//! Nothing is simulated here. The program runs as in any request, with the network and the variables that it is given,
//! and answers about ten requests; if the model behind it costs money, they cost money. The cases run one after the other,
//! so that a model on this machine has one request at a time.

mod call;
mod cases;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bowline::Json;
use bowline_process::Supervisor;
use bowline_providers::manifest::Manifest;

use crate::case_failure::{CaseFailure, CaseVerdict};
use crate::clock::{self, Stopwatch};
use crate::report::{CaseStatus, FORMAT, Report, ReportCell};
use crate::suite::SuiteProgress;
use call::ExecutableSubject;

pub use cases::{ExecutableCase, all as cases};

/// The program and the cases to run.
#[derive(Clone, Debug)]
pub struct ExecutablePlan {
    /// The provider; its prompt style is `request`.
    pub manifest: &'static Manifest,
    /// The program, as it was found.
    pub program: PathBuf,
    /// The `config` of every request.
    pub config: BTreeMap<String, Json>,
    /// Variables besides the manifest's.
    pub env: BTreeMap<String, String>,
    /// The names of the only cases to run; none for all.
    pub only: Vec<String>,
}

/// Runs the suite on an executable provider.
pub async fn certify(plan: ExecutablePlan, mut tell: impl FnMut(SuiteProgress<'_>)) -> Report {
    let time = Stopwatch::start();
    let chosen: Vec<&'static ExecutableCase> = cases()
        .filter(|case| plan.only.is_empty() || plan.only.iter().any(|name| name == case.name))
        .collect();
    tell(SuiteProgress::Begun(chosen.len()));
    let supervisor = Supervisor::start();
    let guarantee = supervisor.as_ref().map_or("none", |it| it.guarantee().as_str());
    let subject =
        supervisor.map_err(CaseFailure::new).and_then(|supervisor| ExecutableSubject::new(&plan, supervisor));
    let version = match &subject {
        Ok(subject) => subject.version().await,
        Err(trouble) => Err(trouble.clone()),
    };
    let mut cells = Vec::new();
    for case in chosen {
        let unclaimed = match case.of {
            "stream" if !plan.manifest.formats.contains_key("stream") => {
                Some("its configuration has `streams = false`")
            }
            "--version" if matches!(version, Ok(None)) => {
                Some("it rejects `--version` as an unknown command")
            }
            _ => None,
        };
        if let Some(reason) = unclaimed {
            let (status, reason) = (CaseStatus::NotClaimed, Some(reason.to_owned()));
            let cell = ReportCell { status, reason, ..cell(case, Ok(()), Duration::ZERO) };
            tell(SuiteProgress::Done(&cell));
            cells.push(cell);
            continue;
        }
        tell(SuiteProgress::Trying(case.name));
        let time = Stopwatch::start();
        let verdict = match &subject {
            Ok(subject) => (case.body)(subject).await,
            Err(trouble) => Err(trouble.clone()),
        };
        let cell = cell(case, verdict, time.elapsed());
        tell(SuiteProgress::Done(&cell));
        cells.push(cell);
    }
    let manifest = plan.manifest;
    Report {
        format: FORMAT,
        provider: manifest.name.clone(),
        title: manifest.title.clone(),
        version: version.ok().flatten().map(|version| version.to_string()),
        program: plan.program.display().to_string(),
        adapter_version: manifest.adapter_version.clone(),
        bowline: env!("CARGO_PKG_VERSION").to_owned(),
        at: clock::now(),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        suite: "executable".to_owned(),
        isolation: format!("network: the network of this machine; processes: {guarantee}"),
        took_ms: millis(time.elapsed()),
        cells,
        flags: BTreeMap::new(),
        kinds: BTreeMap::new(),
        vocabulary: Default::default(),
        novel: Default::default(),
        drift: None,
    }
}

fn cell(case: &ExecutableCase, verdict: CaseVerdict, took: Duration) -> ReportCell {
    let (status, evidence) = match verdict {
        Ok(()) => (CaseStatus::Green, Vec::new()),
        Err(trouble) => (CaseStatus::Red, trouble.0),
    };
    let (case, about) = (case.name.to_owned(), case.about.to_owned());
    ReportCell { case, about, status, reason: None, evidence, took_ms: millis(took) }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
