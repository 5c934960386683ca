//! The options of the renderer for a request: level of detail, and facts about the provider for hints.

use bowline::PermissionMode;
use bowline::detect::Surroundings;
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::run::{Flag, RunFlag};

use super::choose::NamedProvider;
use super::request::permission;
use crate::args::request::RequestArgs;
use crate::args::run::RunArgs;
use crate::human::{AgentHints, DetailLevel, Remedies, RenderOptions};
use crate::ui::terminal;

/// Returns the level of detail.
pub(super) fn detail(args: &RunArgs) -> DetailLevel {
    match args.verbose {
        0 if args.quiet => DetailLevel::Quiet,
        0 => DetailLevel::Usual,
        1 => DetailLevel::Verbose,
        _ => DetailLevel::Everything,
    }
}

/// Returns the options of the renderer.
pub(super) fn render_options(
    args: &RequestArgs,
    detail: DetailLevel,
    named: Option<&NamedProvider>,
) -> RenderOptions {
    let mut options =
        terminal::options(detail, permission(args.permission), terminal::cwd(args.cwd.as_deref()));
    options.provider = named.map(|named| named.name().to_owned());
    if let Some(manifest) = named.and_then(NamedProvider::manifest) {
        let has = |flag| manifest.run.flags.get(&flag).is_some_and(Flag::is_done);
        let in_sandbox =
            manifest.permission.get(&PermissionMode::Edit).is_some_and(|edit| edit.sandboxes_commands);
        let (by_name, by_dir) = (has(RunFlag::AllowTool), has(RunFlag::AddDir));
        let (names, allowed) = (manifest.run.allow_names.clone(), args.allow_tool.clone());
        options.remedies = Remedies { by_name, in_sandbox, by_dir, names, allowed };
        options.agent = AgentHints {
            name: Some(manifest.name.clone()),
            login: manifest.auth.login.clone(),
            model: args.model.clone(),
            nearest_model: args.model.as_deref().and_then(|model| nearest_model(manifest, model)),
        };
    }
    options
}

/// Returns the model of a provider that is closest to an unknown name. Uses the cached list; does not start the program.
fn nearest_model(manifest: &Manifest, model: &str) -> Option<String> {
    let known = bowline::models::known(manifest, None, &Surroundings::from_env());
    if known.iter().any(|it| it.id == model) {
        return None;
    }
    let ids = known.iter().filter(|it| !it.hidden).map(|it| it.id.as_str());
    bowline::closest_name(model, ids).map(str::to_owned)
}

/// Returns the notice that an agent without approvals only reads, with the flag that allows more.
pub(super) fn reads_only(manifest: &Manifest, args: &RequestArgs) -> Option<String> {
    let asks = permission(args.permission) == PermissionMode::Ask;
    let plain = args.allow_tool.is_empty() && !args.no_tools;
    (asks && plain && manifest.only_reads_under_ask()).then(|| {
        let name = &manifest.name;
        format!("{name} cannot ask for permission, so it only reads; --permission edit lets it change files")
    })
}
