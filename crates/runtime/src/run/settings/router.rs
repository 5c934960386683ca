//! The providers that the router may choose from, as values. `bowline-config` reads them from `router.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline_engine::budget::Amounts;
use bowline_engine::retry::Fallback;
use bowline_engine::route::{RouteStrategy, Truncation};
use bowline_protocol::{Json, Millis, Sampling};

/// Whose file something comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileOwner {
    /// The user's own.
    User,
    /// A project's, which came with its repository.
    #[default]
    Project,
    /// A project's, with the content that the user has trusted.
    TrustedProject,
}

/// The content of the file.
#[derive(Clone, Debug, Default)]
pub struct Router {
    /// The file.
    pub path: PathBuf,
    /// Whose it is.
    pub owner: FileOwner,
    /// The providers, in their order.
    pub providers: Vec<RouterEntry>,
    /// The strategy, retries and fallbacks.
    pub routing: Routing,
    /// The budgets of a request, a day and a project.
    pub budgets: BTreeMap<&'static str, Amounts>,
    /// Keys that are read and mean nothing here.
    pub without_effect: Vec<String>,
}

impl Router {
    /// Finds an entry by its name.
    pub fn entry(&self, name: &str) -> Option<&RouterEntry> {
        self.providers.iter().find(|entry| entry.name == name)
    }
}

/// A provider to choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterEntry {
    /// Its name here.
    pub name: String,
    /// The line in which it begins.
    pub line: usize,
    /// The owner of the file that defines it.
    pub owner: FileOwner,
    /// Its kind.
    pub kind: EntryKind,
    /// Whether it may be chosen.
    pub enabled: bool,
    /// Higher comes first.
    pub priority: i64,
    /// The account, where there are several.
    pub profile: Option<String>,
    /// How long a request may take.
    pub timeout: Option<Millis>,
    /// Its default model.
    pub model: Option<String>,
    /// Variables of its environment.
    pub env: BTreeMap<String, String>,
    /// Settings that only it understands.
    pub options: BTreeMap<String, Json>,
    /// Keys of an agent's `config` that the form does not have. They are passed on where the agent has a setting of this name.
    pub unknown: BTreeMap<String, UnknownKey>,
    /// Whether it streams. Default: yes.
    pub streaming: Option<bool>,
    /// Its default sampling options.
    pub sampling: Sampling,
    /// The price of a thousand tokens, in US dollars.
    pub cost_per_1k: Option<f64>,
    /// The options that it cannot honour.
    pub lacks: Lacks,
    /// Models by hint.
    pub models: BTreeMap<String, String>,
}

/// A key that the form does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownKey {
    /// The line in which it stands.
    pub line: usize,
    /// Its value.
    pub value: Json,
    /// The known key that was probably meant.
    pub nearest: Option<&'static str>,
}

/// The capabilities that a provider lacks, by its file. The router skips it for a request that needs one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// It cannot ask for tools of the host.
    pub tools: bool,
    /// It cannot continue a conversation.
    pub multi_turn: bool,
    /// It cannot look at images.
    pub vision: bool,
    /// Its context length in tokens.
    pub max_context: Option<u64>,
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// An agent that Bowline knows by this name, and its program where it is not the usual one.
    Agent {
        /// The provider.
        provider: String,
        /// The program.
        binary: Option<PathBuf>,
    },
    /// An executable that answers `generate`, `stream` and `health`.
    Executable {
        /// The program: a path, or a name that is looked for on `PATH`.
        path: PathBuf,
        /// Arguments before the command word.
        args: Vec<String>,
    },
    /// A type that Bowline cannot run. Such an entry is disabled.
    Foreign(String),
}

/// The routing options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routing {
    /// The strategy that orders the providers.
    pub strategy: Option<RouteStrategy>,
    /// When to fall back to another provider.
    pub fallback: Option<Fallback>,
    /// The model to use after the first one has failed.
    pub fallback_model: Option<String>,
    /// The number of retries for each provider.
    pub max_retries: Option<u32>,
    /// The wait before the first retry, at most.
    pub first_wait: Option<Millis>,
    /// The longest wait before a retry.
    pub longest_wait: Option<Millis>,
    /// The longest time to the first output. A slower provider comes last.
    pub max_latency: Option<Millis>,
    /// The timeout of the choice itself, which queries programs for the usage of their limits.
    pub selection_timeout: Option<Millis>,
    /// Whether a request has to fit into the context that an entry declares. Default: yes.
    pub fits: Option<bool>,
    /// Whether a request that does not fit is shortened, and how.
    pub shortens: bool,
    /// Which part is left out then.
    pub truncation: Option<Truncation>,
    /// The requirements of a hint besides a model.
    pub hints: BTreeMap<String, HintTuning>,
}

/// The requirements of a hint besides a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HintTuning {
    /// How long the answer may be, in tokens.
    pub max_tokens: Option<u64>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Whether executables come before agents: their models may run on this machine.
    pub prefer_local: bool,
}
