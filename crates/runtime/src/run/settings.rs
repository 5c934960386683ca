//! Settings as values. The library reads no settings file: a caller fills these in, usually with `bowline-config`.

mod error;
mod external;
mod router;

use std::collections::BTreeMap;

use bowline_engine::budget::Amounts;
use bowline_engine::fallback::StreamFallback;
use bowline_engine::retry::Fallback;
use bowline_engine::route::RouteStrategy;
use bowline_providers::invocation::Unrestricted;
use bowline_providers::prices::Row;

use crate::agents::profile::Profile;
use crate::agents::roster::Roster;
use crate::run::attention::Attention;
use crate::run::policy::PolicySource;
use crate::run::trust::TrustRecord;

pub use bowline_providers::invocation::external::{ByModel, ExternalCli, OutputFormat};
pub use error::{ConfigCause, ConfigError};
pub use external::External;
pub use router::{EntryKind, FileOwner, HintTuning, Lacks, Router, RouterEntry, Routing, UnknownKey};

/// The settings of runs. The default has the built-in providers and no limits.
///
/// ```
/// use bowline::settings::{BudgetLimits, RunSettings};
///
/// let mut settings = RunSettings::default();
/// settings.budgets = BudgetLimits::default();
/// let task = bowline::task("Summarise this page").provider("auto").settings(settings.into());
/// # drop(task);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunSettings {
    /// The providers that a task may name, and among which the router chooses if there is no [`Self::router`].
    pub roster: Roster,
    /// The list of providers to choose from.
    pub router: Option<Router>,
    /// External CLIs by model.
    pub external: External,
    /// The strategy that orders the providers. Takes precedence over that of the router.
    pub strategy: Option<RouteStrategy>,
    /// The number of retries for each provider.
    pub retries: Option<u32>,
    /// When to fall back to another provider.
    pub fallback: Option<Fallback>,
    /// Whether to wait for the reset of a limit.
    pub wait_for_limit: Option<bool>,
    /// When a run may send the prompt again without streaming.
    pub stream_fallback: Option<StreamFallback>,
    /// Whether a program that cannot be restricted may run.
    pub unrestricted: Option<Unrestricted>,
    /// Options of single providers, by their names.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The profiles, by name.
    pub profiles: BTreeMap<String, Profile>,
    /// The user's own prices.
    pub prices: Vec<Row>,
    /// The budgets of a request, a day and a project.
    pub budgets: BudgetLimits,
    /// How to call a person when an agent needs one.
    pub attention: Attention,
    /// The pins of the project in which the task works.
    pub pins: Option<TrustRecord>,
    /// The policies of the user and of the project.
    pub policy: Option<PolicySource>,
}

/// Options of one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Native arguments of its program.
    pub args: Vec<String>,
    /// Its output format, for runs with streaming.
    pub format: Option<String>,
}

/// The budgets of the settings, by scope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BudgetLimits {
    /// Of one request, over all attempts.
    pub request: Amounts,
    /// Of a day.
    pub day: Amounts,
    /// Of a project.
    pub project: Amounts,
}
