//! What the files of settings say about a run, where the command line is silent.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use bowline::Profile;
use bowline::config::{Config, FileOwner, Origin, Router};
use bowline::roster::Roster;
use bowline_protocol::Millis;
use clap::ValueEnum as _;

use crate::args::request::{Limit, Permission, RequestArgs};
use crate::commands::{account, trust};
use crate::error::{CommandError, Fault};
use crate::terminal;

/// Reads the files that concern the directory of a run.
pub(crate) fn load(cwd: Option<&Path>) -> Result<Arc<Config>, CommandError> {
    let cwd = cwd.map(|dir| std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()));
    Ok(Arc::new(trust::load(cwd.as_deref())?))
}

/// Tells of files that cannot be used and that a run may do without, a line each.
pub(crate) fn warn(config: &Config) {
    let mut lines = config.warnings();
    // Whoever needs one that cannot even be listed is told so when it is looked up.
    let bad = Roster::from_env().bad().unwrap_or_default();
    lines.extend(bad.iter().map(ToString::to_string));
    for line in lines {
        let line = bowline_providers::ansi::harmless(&line).replace('\n', " ");
        // Nothing can be done about a standard error that does not take it.
        let _ = std::io::stderr().write_all(format!("warning: {line}\n").as_bytes());
    }
}

/// What the files of settings say where an entry of the router's file may say something else, which counts more.
#[derive(Clone, Debug, Default)]
pub(super) struct Usual {
    pub(super) model: Option<String>,
    pub(super) timeout: Option<Millis>,
}

impl Usual {
    /// Finds it for a command line that was filled in.
    pub(super) fn of(args: &RequestArgs, config: &Config) -> Self {
        let model = config.settings.text("run.model");
        let chosen = args.model.is_some() || args.hint.is_some();
        Self {
            model: model.filter(|_| !chosen).map(str::to_owned),
            timeout: config.settings.span("run.timeout").filter(|_| args.timeout.is_none()),
        }
    }
}

/// Fills in what the command line leaves open. What an entry of the router's file may say as well is taken from the environment
/// alone: it is the word of whoever starts the command, as an option is.
pub(super) fn applied(args: &RequestArgs, config: &Config) -> Result<RequestArgs, CommandError> {
    let mut args = args.clone();
    if let (Some(name), Some(_)) = (&args.provider, &args.executable) {
        let message = format!("`--provider {name}` and `--executable` name two providers");
        return Err(CommandError::new(Fault::Usage, message).hint("leave one of them out"));
    }
    let settings = &config.settings;
    let text = |key: &str| settings.text(key).map(str::to_owned);
    // A hint or a model on the command line asks for a choice; a usual provider would take it away.
    let chooses = args.hint.is_some() || args.model.is_some();
    let usual =
        || terminal::variable("BOWLINE_PROVIDER").or_else(|| text("run.provider").filter(|_| !chooses));
    // A session that goes on says itself whose it is.
    let named = args.resume.is_some() || args.executable.is_some() || args.profile.is_some();
    let usual = if args.provider.is_none() && !named { usual() } else { None };
    if usual.as_ref().is_some_and(|name| unasked(name, config)) {
        warn_of_unasked(config);
    } else {
        args.provider = args.provider.or(usual);
    }
    let by_variable =
        |key: &str| settings.get(key).is_some_and(|setting| matches!(setting.origin, Origin::Variable(_)));
    if args.hint.is_none() && by_variable("run.model") {
        args.model = args.model.or_else(|| text("run.model"));
    }
    args.permission =
        args.permission.or_else(|| Permission::from_str(settings.text("run.permission")?, false).ok());
    let limit =
        |key: &str| settings.span(key).map(|span| Limit::Of(std::time::Duration::from_millis(span.0)));
    if by_variable("run.timeout") {
        args.timeout = args.timeout.or_else(|| limit("run.timeout"));
    }
    args.idle_timeout = args.idle_timeout.or_else(|| limit("run.idle-timeout"));
    Ok(args)
}

/// Says whether a setting of the project decides which program runs, where the command line names neither a provider nor a model.
/// Such a program must be restricted: the user did not ask for one that is not.
pub(super) fn is_projects_choice(
    typed: &RequestArgs,
    applied: &RequestArgs,
    usual: &Usual,
    config: &Config,
) -> bool {
    if typed.executable.is_some() || typed.profile.is_some() {
        return false;
    }
    let provider = applied.provider.as_deref();
    let open = provider.is_none_or(|name| name.eq_ignore_ascii_case(bowline::route::AUTO));
    let by_provider = typed.provider.is_none() && provider.is_some() && is_projects("run.provider", config);
    // A model can stand for a program by itself, but only where no provider is named.
    let by_model = open && usual.model.is_some() && is_projects("run.model", config);
    by_provider || by_model
}

/// Says whether the value of a setting comes from a project's file.
fn is_projects(key: &str, config: &Config) -> bool {
    config.settings.get(key).is_some_and(|setting| matches!(setting.origin, Origin::Project(..)))
}

/// Says whether a provider is one that a project chose for itself, from its own file for the router that is not trusted.
fn unasked(name: &str, config: &Config) -> bool {
    let by_project = is_projects("run.provider", config);
    let router = config.router.as_ref().filter(|router| router.owner == FileOwner::Project);
    let from_it = |name: &str, router: &Router| {
        name.eq_ignore_ascii_case(bowline::route::AUTO) || router.entry(name).is_some()
    };
    by_project && router.is_some_and(|router| name.split(',').any(|name| from_it(name.trim(), router)))
}

fn warn_of_unasked(config: &Config) {
    let (Some(setting), Some(router)) = (config.settings.get("run.provider"), &config.router) else { return };
    let text = format!(
        "warning: `run.provider` of {} is not used: {} came with the project and is not trusted; `--provider {}` uses it\n",
        setting.origin,
        router.path.display(),
        setting.value
    );
    // Nothing can be done about a standard error that does not take it.
    let _ = std::io::stderr().write_all(bowline_providers::ansi::harmless(&text).as_bytes());
}

/// Finds the account that the command line names.
pub(super) fn profile(args: &RequestArgs, config: &Config) -> Result<Option<Profile>, CommandError> {
    args.profile.as_deref().map(|name| account::find(name, config)).transpose()
}
