//! The arguments of `bowline doctor`, `bowline models` and `bowline limits`.

pub(crate) const DOCTOR_EXAMPLES: &str = "Each line begins with a mark: + usable, ! installed but not usable, - not installed. Doctor \
    detects a login by the presence of files and variables, without reading them, and by the program's own status command. \
    Results are cached until the program's file changes.

Examples:
  bowline doctor
  bowline doctor NAME --live
  bowline doctor --profile work
  bowline doctor --json

Exit code 4 if no agent is usable, 3 if the data directory or a settings file is broken.";

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Providers to check (`bowline providers` lists them). Default: all
    #[arg(value_name = "PROVIDER")]
    pub(crate) providers: Vec<String>,

    /// Check the account of this profile (`bowline config show` lists profiles)
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Also send one small request to each usable agent; your account is charged for it
    #[arg(long)]
    pub(crate) live: bool,

    /// Ignore the cache and query every program again
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const MODELS_EXAMPLES: &str =
    "An alias refers to the current model of its kind; a pinned name always refers to the same model. \
    Results are cached for a day.

Examples:
  bowline models
  bowline models NAME --json
  bowline models --profile work";

#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// Provider to list models of. Default: every installed one
    #[arg(value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,

    /// List the models of this profile (`bowline config show` lists profiles)
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Include models that the program hides in its own list
    #[arg(long)]
    pub(crate) all: bool,

    /// Ignore the cache and query the program again
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LIMITS_EXAMPLES: &str = "Results are cached for a minute.

Examples:
  bowline limits
  bowline limits NAME --json
  bowline limits --profile work";

#[derive(Debug, clap::Args)]
pub(crate) struct LimitsArgs {
    /// Provider to show limits of. Default: every installed one that reports limits
    #[arg(value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,

    /// Show the limits of this profile (`bowline config show` lists profiles)
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
