//! Why a case is red: lines that let a reader understand it without another run.

use std::fmt;

/// The result of a case.
pub(crate) type Verdict = Result<(), Trouble>;

/// Evidence against a program, or against Bowline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble(pub(crate) Vec<String>);

impl Trouble {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self(vec![what.to_string()])
    }

    /// Adds a line.
    pub(crate) fn and(mut self, what: impl fmt::Display) -> Self {
        self.0.push(what.to_string());
        self
    }
}

impl From<bowline::Error> for Trouble {
    fn from(error: bowline::Error) -> Self {
        chain(&error)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        chain(&error)
    }
}

impl From<bowline_simulator::StartError> for Trouble {
    fn from(error: bowline_simulator::StartError) -> Self {
        chain(&error)
    }
}

fn chain(error: &dyn std::error::Error) -> Trouble {
    let mut trouble = Trouble::new(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        trouble = trouble.and(format_args!("because: {error}"));
        cause = error.source();
    }
    trouble
}

/// Succeeds if a claim holds; otherwise describes the problem.
pub(crate) fn hold(claim: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if claim { Ok(()) } else { Err(Trouble(vec![otherwise()])) }
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
