//! Which provider is meant when a run begins.

use bowline_providers::catalogue;
use bowline_providers::manifest::Manifest;

use crate::args::run::RunArgs;
use crate::commands::executable;
use crate::error::{CommandError, Fault};
use crate::{suggest, terminal};

/// Returns the provider: the executable or the one that was asked for, else that of the environment, else the only one that
/// is installed and logged in.
pub(crate) fn provider(args: &RunArgs) -> Result<&'static Manifest, CommandError> {
    if let Some(path) = &args.executable {
        return executable::provider(path);
    }
    if let Some(name) = args.provider.clone().or_else(|| terminal::variable("BOWLINE_PROVIDER")) {
        return suggest::provider(&name);
    }
    let usable = bowline::detect::usable();
    if let [only] = usable[..] {
        return Ok(only);
    }
    let usable: Vec<&str> = usable.iter().map(|manifest| manifest.name.as_str()).collect();
    let names: Vec<&str> = catalogue::built_in().map(|manifest| manifest.name.as_str()).collect();
    let error = CommandError::new(Fault::Usage, "no provider is chosen");
    let error = if usable.is_empty() {
        let installed: Vec<&str> =
            bowline::detect::installed().iter().map(|manifest| manifest.name.as_str()).collect();
        let found = if installed.is_empty() {
            "none of them is installed".to_owned()
        } else {
            format!("{} installed, but no login was found", installed.join(" and "))
        };
        error.hint(format!("Bowline knows {}: {found}", names.join(", ")))
    } else {
        error.hint(format!("{} are installed and logged in", usable.join(" and ")))
    };
    Err(error
        .hint("choose one with `--provider NAME`, or set BOWLINE_PROVIDER")
        .hint("to see how it works without any of them: `bowline demo`"))
}
