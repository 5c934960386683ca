//! A case: one thing that is promised, and how it is tried.

use std::future::Future;
use std::pin::Pin;

use bowline_providers::manifest::Manifest;

use crate::account::Sums;
use crate::cases::faults::Fault;
use crate::place::Room;
use crate::trouble::Verdict;

/// One thing that is promised.
#[derive(Debug)]
pub struct Case {
    /// The name, for `--only` and for reports.
    pub name: &'static str,
    /// What is promised, in a sentence.
    pub about: &'static str,
    /// Whether an older program is put through it too.
    pub smoke: bool,
    /// How many times the usual time it has.
    pub(crate) runs: u32,
    /// Who claims it.
    pub(crate) claim: fn(&Manifest) -> Claim,
    /// How it is tried.
    pub(crate) body: Body,
    /// What of Bowline has to be built before it can hold.
    pub(crate) pending: Option<&'static str>,
}

impl Case {
    /// Says whether nobody is to be found at the model's address.
    pub(crate) fn is_deserted(&self) -> bool {
        matches!(self.body, Body::Fault(Fault { scenario: None, .. }))
    }

    /// Says whether a manifest claims the case, or says why it does not.
    pub fn is_answered_by(&self, manifest: &Manifest) -> bool {
        manifest.certify.not_claimed.contains_key(self.name) || (self.claim)(manifest) != Claim::No(None)
    }
}

/// Which part of the suite is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Every case.
    Full,
    /// Those that an older program is put through.
    Smoke,
}

impl Suite {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Smoke => "smoke",
        }
    }
}

/// Whether a provider is said to be able to do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is.
    Yes,
    /// It is not; the reason stands in its manifest under the name of the case, or is this one.
    No(Option<String>),
}

impl Claim {
    pub(crate) fn when(capable: bool) -> Self {
        if capable { Self::Yes } else { Self::No(None) }
    }
}

pub(crate) type Trying = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// How a case is tried.
pub(crate) enum Body {
    /// With runs of its own.
    Runs(fn(Room) -> Trying),
    /// With a run in which the model's API does not work.
    Fault(&'static Fault),
    /// By what all other runs left.
    After(fn(&Sums) -> Verdict),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Runs(_) => "Runs",
            Self::Fault(_) => "Fault",
            Self::After(_) => "After",
        })
    }
}
