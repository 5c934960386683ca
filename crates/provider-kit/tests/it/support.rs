//! Runs the contract suite for executable providers on a program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline::Json;
use bowline::roster::{self, Executable};
use bowline_certify::executable::{ExecutablePlan, certify};
use bowline_certify::{CaseStatus, Report};
use tempfile::TempDir;

/// Runs a future on tokio.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

/// Runs the suite on a program.
pub(crate) async fn report(program: &Path, config: &[(&str, &str)], env: &[(&str, &str)]) -> Report {
    let path = program.to_str().expect("UTF-8");
    let manifest = roster::executable(&Executable::at("tried", path), Path::new("/")).expect("a provider");
    let json = |text: &str| Json::of(&text).expect("a text");
    let plan = ExecutablePlan {
        manifest,
        program: program.to_owned(),
        config: config.iter().map(|(name, value)| ((*name).to_owned(), json(value))).collect(),
        env: env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        only: Vec::new(),
    };
    certify(plan, |_| {}).await
}

/// Returns the red cells of a report, with their evidence.
pub(crate) fn red(report: &Report) -> BTreeMap<String, Vec<String>> {
    assert!(report.cells.len() >= 15, "the whole suite was tried: {report:?}");
    let red = report.cells.iter().filter(|cell| cell.status == CaseStatus::Red);
    red.map(|cell| (cell.case.clone(), cell.evidence.clone())).collect()
}

/// A program of a test, and its directory.
pub(crate) struct Program {
    _dir: TempDir,
    pub(crate) path: PathBuf,
}

impl Program {
    pub(crate) fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("provider");
        bowline_testkit::write_program(&path, text);
        Self { _dir: dir, path }
    }
}
