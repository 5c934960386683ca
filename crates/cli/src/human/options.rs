//! Facts for the renderer about the terminal, the request and the end of the run.

use bowline_protocol::{Millis, PermissionMode, SessionId, Timestamp};
use bowline_providers::manifest::run::AllowNames;
use jiff::tz::TimeZone;

use super::canvas::Screen;
use super::words::Glyphs;

/// The options of the renderer.
#[derive(Clone, Debug)]
pub(crate) struct RenderOptions {
    pub(crate) screen: Screen,
    pub(crate) glyphs: Glyphs,
    pub(crate) detail: DetailLevel,
    /// The time zone of printed times.
    pub(crate) zone: TimeZone,
    /// The permission mode, so that a denial names a flag that helps.
    pub(crate) permission: PermissionMode,
    pub(crate) remedies: Remedies,
    pub(crate) agent: AgentHints,
    /// The working directory of the agent; paths below it are printed relative to it.
    pub(crate) cwd: Option<String>,
    /// The provider, if it is known before the run.
    pub(crate) provider: Option<String>,
}

/// The flags that would allow a denied call.
#[derive(Clone, Debug)]
pub(crate) struct Remedies {
    /// Whether the agent supports `--allow-tool`.
    pub(crate) by_name: bool,
    /// Whether `--permission edit` runs commands in a sandbox.
    pub(crate) in_sandbox: bool,
    /// Whether the agent supports `--add-dir`.
    pub(crate) by_dir: bool,
    /// The names of tools in the agent's own option, where known.
    pub(crate) names: AllowNames,
    /// The tools that the request already allows.
    pub(crate) allowed: Vec<String>,
}

/// Facts about the agent for hints about a failure.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentHints {
    /// The provider.
    pub(crate) name: Option<String>,
    /// The command that logs in.
    pub(crate) login: Option<String>,
    /// The model of the request.
    pub(crate) model: Option<String>,
    /// The known model that is closest to it, if it is unknown.
    pub(crate) nearest_model: Option<String>,
}

impl Remedies {
    /// The remedies for an agent that is not known yet.
    pub(crate) const USUAL: Self = Self {
        by_name: true,
        in_sandbox: false,
        by_dir: true,
        names: AllowNames { execute: None, fetch: None },
        allowed: Vec::new(),
    };
}

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DetailLevel {
    /// `-q`: the answer, warnings, errors and denials.
    Quiet,
    Usual,
    /// `-v`.
    Verbose,
    /// `-vv`.
    Everything,
}

/// An interrupt of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Cancel the run.
    First,
    /// Kill the agent.
    Second,
}

/// Facts about the end of a run that no event carries.
#[derive(Clone, Debug)]
pub(crate) struct RunSummary {
    pub(crate) now: Timestamp,
    pub(crate) took: Millis,
    /// The Bowline id of the session.
    pub(crate) session: Option<SessionId>,
    /// The journal; `None` for a run without one.
    pub(crate) journal: Option<String>,
}
