//! A case: one promise, and how to test it.

use std::future::Future;
use std::pin::Pin;

use bowline_providers::manifest::Manifest;

use crate::account::RunTotals;
use crate::case_failure::CaseVerdict;
use crate::cases::faults::FaultCase;
use crate::place::CaseContext;

/// One promise.
#[derive(Debug)]
pub struct ContractCase {
    /// The name, for `--only` and for reports.
    pub name: &'static str,
    /// The promise, in a sentence.
    pub about: &'static str,
    /// Whether older programs run it too.
    pub smoke: bool,
    /// How many times the usual time limit it has.
    pub(crate) runs: u32,
    /// Whether no other case may run beside it.
    pub(crate) alone: bool,
    /// Whether a manifest claims it.
    pub(crate) claim: fn(&Manifest) -> CaseClaim,
    /// How to test it.
    pub(crate) body: CaseBody,
    /// The part of Bowline that has to be built before it can hold.
    pub(crate) pending: Option<&'static str>,
}

impl ContractCase {
    /// Returns whether the model's address has to refuse connections.
    pub(crate) fn is_deserted(&self) -> bool {
        matches!(self.body, CaseBody::Fault(FaultCase { scenario: None, .. }))
    }

    /// Returns whether a manifest claims the case, or gives a reason why not.
    pub fn is_answered_by(&self, manifest: &Manifest) -> bool {
        manifest.certify.not_claimed.contains_key(self.name) || (self.claim)(manifest) != CaseClaim::No(None)
    }
}

/// Which part of the suite is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuitePart {
    /// Every case.
    Full,
    /// The cases that older programs run.
    Smoke,
}

impl SuitePart {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Smoke => "smoke",
        }
    }
}

/// Whether a manifest claims a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaseClaim {
    /// It does.
    Yes,
    /// It does not. The reason is in the manifest under the name of the case, or this one.
    No(Option<String>),
}

impl CaseClaim {
    pub(crate) fn when(capable: bool) -> Self {
        if capable { Self::Yes } else { Self::No(None) }
    }
}

pub(crate) type CaseTrial = Pin<Box<dyn Future<Output = CaseVerdict> + Send>>;

/// How to test a case.
pub(crate) enum CaseBody {
    /// With runs of its own.
    Runs(fn(CaseContext) -> CaseTrial),
    /// With a run against a model API that fails.
    Fault(&'static FaultCase),
    /// From the totals of all other runs.
    After(fn(&RunTotals) -> CaseVerdict),
}

impl std::fmt::Debug for CaseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Runs(_) => "Runs",
            Self::Fault(_) => "Fault",
            Self::After(_) => "After",
        })
    }
}
