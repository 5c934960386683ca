//! Applies the settings to a run, where the command line leaves an option out.

use std::path::Path;
use std::sync::Arc;

use bowline::Profile;
use bowline::roster::Roster;
use bowline::settings::{FileOwner, Router};
use bowline_config::{Config, SettingOrigin};
use bowline_protocol::Millis;
use clap::ValueEnum as _;

use crate::args::request::{PermissionArg, RequestArgs, TimeLimit};
use crate::commands::account;
use crate::config;
use crate::error::{CommandError, Fault};
use crate::ui::{Ui, terminal};

/// Reads the configuration for the directory of a run.
pub(crate) fn load(cwd: Option<&Path>) -> Result<Arc<Config>, CommandError> {
    let cwd = cwd.map(|dir| std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()));
    Ok(Arc::new(config::load(cwd.as_deref())?))
}

/// Warns about unusable files that the run does not need, a line each.
pub(crate) fn warn(config: &Config) {
    let mut lines = config.warnings();
    // If the directory cannot be listed, the lookup of a provider reports it.
    let bad = Roster::from_env().bad().unwrap_or_default();
    lines.extend(bad.iter().map(ToString::to_string));
    let mut ui = Ui::new();
    lines.iter().for_each(|line| ui.warning(line));
}

/// Settings that an entry of the router's file may override.
#[derive(Clone, Debug, Default)]
pub(super) struct DefaultSettings {
    pub(super) model: Option<String>,
    pub(super) timeout: Option<Millis>,
    /// A project's `run.idle-timeout`, which may only shorten the provider's own limit.
    pub(super) idle_at_most: Option<Millis>,
}

impl DefaultSettings {
    /// Reads them for a command line that has the other settings applied.
    pub(super) fn of(args: &RequestArgs, config: &Config) -> Self {
        let model = config.settings.text("run.model");
        let chosen = args.model.is_some() || args.hint.is_some();
        Self {
            model: model.filter(|_| !chosen).map(str::to_owned),
            timeout: config.settings.span("run.timeout").filter(|_| args.timeout.is_none()),
            idle_at_most: config
                .settings
                .span("run.idle-timeout")
                .filter(|_| args.idle_timeout.is_none() && config.settings.only_lowers("run.idle-timeout")),
        }
    }
}

/// Fills in options that the command line leaves out. An option that an entry of the router's file may also set is taken from
/// environment variables only: they take precedence over the entry, as a flag does.
pub(super) fn applied(args: &RequestArgs, config: &Config) -> Result<RequestArgs, CommandError> {
    let mut args = args.clone();
    if let (Some(name), Some(_)) = (&args.provider, &args.executable) {
        let message = format!("`--provider {name}` and `--executable` name two providers");
        return Err(CommandError::new(Fault::Usage, message).hint("leave one of them out"));
    }
    let settings = &config.settings;
    let text = |key: &str| settings.text(key).map(str::to_owned);
    // With a hint or a model on the command line, the router chooses; a default provider would prevent that.
    let chooses = args.hint.is_some() || args.model.is_some();
    let usual =
        || terminal::variable("BOWLINE_PROVIDER").or_else(|| text("run.provider").filter(|_| !chooses));
    // A resumed session has its own provider.
    let named = args.resume.is_some() || args.executable.is_some() || args.profile.is_some();
    let usual = if args.provider.is_none() && !named { usual() } else { None };
    if usual.as_ref().is_some_and(|name| is_untrusted_choice(name, config)) {
        warn_of_untrusted_choice(config);
    } else {
        args.provider = args.provider.or(usual);
    }
    let by_variable = |key: &str| {
        settings.get(key).is_some_and(|setting| matches!(setting.origin, SettingOrigin::Variable(_)))
    };
    if args.hint.is_none() && by_variable("run.model") {
        args.model = args.model.or_else(|| text("run.model"));
    }
    args.permission =
        args.permission.or_else(|| PermissionArg::from_str(settings.text("run.permission")?, false).ok());
    let limit =
        |key: &str| settings.span(key).map(|span| TimeLimit::Of(std::time::Duration::from_millis(span.0)));
    if by_variable("run.timeout") {
        args.timeout = args.timeout.or_else(|| limit("run.timeout"));
    }
    if !settings.only_lowers("run.idle-timeout") {
        args.idle_timeout = args.idle_timeout.or_else(|| limit("run.idle-timeout"));
    }
    Ok(args)
}

/// Returns the setting of the project that selects the program, and its place, if the command line names neither a provider
/// nor a model. Such a program must be restricted, because the user did not select it.
pub(super) fn projects_choice(
    typed: &RequestArgs,
    applied: &RequestArgs,
    defaults: &DefaultSettings,
    config: &Config,
) -> Option<String> {
    if typed.executable.is_some() || typed.profile.is_some() {
        return None;
    }
    let provider = applied.provider.as_deref();
    let open = provider.is_none_or(|name| name.eq_ignore_ascii_case(bowline::route::AUTO));
    let by_provider = typed.provider.is_none() && provider.is_some() && is_projects("run.provider", config);
    // A model selects a program only if no provider is named.
    let by_model = open && defaults.model.is_some() && is_projects("run.model", config);
    let key = match (by_provider, by_model) {
        (true, _) => "run.provider",
        (false, true) => "run.model",
        (false, false) => return None,
    };
    let setting = config.settings.get(key)?;
    Some(format!("`{key} = {}` in {}", setting.value, setting.origin))
}

/// Returns whether a setting comes from a project's file.
fn is_projects(key: &str, config: &Config) -> bool {
    config.settings.get(key).is_some_and(|setting| matches!(setting.origin, SettingOrigin::Project(..)))
}

/// Returns whether the project's settings select a provider from the project's own untrusted router file.
fn is_untrusted_choice(name: &str, config: &Config) -> bool {
    is_projects("run.provider", config) && untrusted_router(name, config).is_some()
}

/// Returns the project's own untrusted router file, if one of these providers comes from it.
pub(super) fn untrusted_router<'a>(names: &str, config: &'a Config) -> Option<&'a Router> {
    let router = config.router.as_ref().filter(|router| router.owner == FileOwner::Project)?;
    let from_it =
        |name: &str| name.eq_ignore_ascii_case(bowline::route::AUTO) || router.entry(name).is_some();
    names.split(',').any(|name| from_it(name.trim())).then_some(router)
}

fn warn_of_untrusted_choice(config: &Config) {
    let (Some(setting), Some(router)) = (config.settings.get("run.provider"), &config.router) else { return };
    let text = format!(
        "`run.provider` of {} is not used: {} came with the project and is not trusted; `--provider {}` uses it",
        setting.origin,
        router.path.display(),
        setting.value
    );
    Ui::new().warning(&text);
}

/// Finds the profile that the command line names.
pub(super) fn profile(args: &RequestArgs, config: &Config) -> Result<Option<Profile>, CommandError> {
    args.profile.as_deref().map(|name| account::find(name, config)).transpose()
}
