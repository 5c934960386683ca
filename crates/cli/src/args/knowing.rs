//! The arguments of `bowline doctor`, `bowline models` and `bowline limits`.

pub(crate) const DOCTOR_EXAMPLES: &str = "Each line: + it can be used, ! it is there and something is in the way, - it is \
    not installed. Logins are seen by files and variables, which are not read, and by the program's own word. Programs are \
    asked once; their answers are kept as long as the file is the same.

Examples:
  bowline doctor
  bowline doctor NAME --live
  bowline doctor --profile work
  bowline doctor --json

Exit code 4 if no agent can be used, 3 if something of our own keeps runs from working: the data home, or a file of settings \
    that is wrong.";

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Look at these providers only (`bowline providers` lists them)
    #[arg(value_name = "PROVIDER")]
    pub(crate) providers: Vec<String>,

    /// Look at this account instead of the usual one: a profile of the settings (`bowline config show`)
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Also make one small request of each agent that could answer it; it costs what such a request costs
    #[arg(long)]
    pub(crate) live: bool,

    /// Ask every program anew, whatever is kept
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const MODELS_EXAMPLES: &str =
    "An alias stands for whatever model is meant by it at the time; a pinned name \
    always means the same. What a program told is kept for a day.

Examples:
  bowline models
  bowline models NAME --json
  bowline models --profile work";

#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// Whose models; without it, those of every agent that is installed
    #[arg(value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,

    /// The models of this account instead of the usual one: a profile of the settings (`bowline config show`)
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Also those that the program does not show to people
    #[arg(long)]
    pub(crate) all: bool,

    /// Ask the program anew, whatever is kept
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LIMITS_EXAMPLES: &str = "What a program told is kept for a minute.

Examples:
  bowline limits
  bowline limits NAME --json
  bowline limits --profile work";

#[derive(Debug, clap::Args)]
pub(crate) struct LimitsArgs {
    /// Whose account; without it, that of every agent that is installed and can tell
    #[arg(value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,

    /// The limits of this account instead of the usual one: a profile of the settings (`bowline config show`)
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}
