//! Why a case is red: lines that let a reader understand it without another run.

use std::fmt;

/// The result of a case.
pub(crate) type CaseVerdict = Result<(), CaseFailure>;

/// Evidence against a program, or against Bowline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CaseFailure(pub(crate) Vec<String>);

impl CaseFailure {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self(vec![what.to_string()])
    }

    /// Adds a line.
    pub(crate) fn and(mut self, what: impl fmt::Display) -> Self {
        self.0.push(what.to_string());
        self
    }
}

impl From<bowline::Error> for CaseFailure {
    fn from(error: bowline::Error) -> Self {
        chain(&error)
    }
}

impl From<std::io::Error> for CaseFailure {
    fn from(error: std::io::Error) -> Self {
        chain(&error)
    }
}

impl From<bowline_simulator::StartError> for CaseFailure {
    fn from(error: bowline_simulator::StartError) -> Self {
        chain(&error)
    }
}

fn chain(error: &dyn std::error::Error) -> CaseFailure {
    let mut trouble = CaseFailure::new(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        trouble = trouble.and(format_args!("because: {error}"));
        cause = error.source();
    }
    trouble
}

/// Succeeds if a claim holds; otherwise describes the problem.
pub(crate) fn hold(claim: bool, otherwise: impl FnOnce() -> String) -> CaseVerdict {
    if claim { Ok(()) } else { Err(CaseFailure(vec![otherwise()])) }
}

/// Shortens a text for evidence.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 300;
    let line = text.replace('\n', "\\n");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &line[..end], text.len()),
        None => format!("{line:?}"),
    }
}
