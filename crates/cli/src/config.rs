//! Loads the configuration, and warns about the parts of a project's files that need trust and have none.

use std::path::Path;
use std::sync::Once;

use bowline::settings::ConfigError;
use bowline_config::Config;

use crate::ui::Ui;

/// The maximum number of warnings about ignored parts.
const MOST_WARNINGS: usize = 10;

/// Reads the configuration of a directory, and warns once about ignored parts of the project's files.
pub(crate) fn load(cwd: Option<&Path>) -> Result<Config, ConfigError> {
    let config = Config::load(cwd)?;
    warn(&config);
    Ok(config)
}

/// Prints the warnings about ignored parts.
fn warn(config: &Config) {
    // A command may load the configuration several times; one warning is enough.
    static WARNED: Once = Once::new();
    if config.left_out.is_empty() {
        return;
    }
    WARNED.call_once(|| {
        let mut ui = Ui::new();
        for part in config.left_out.iter().take(MOST_WARNINGS) {
            ui.warning(&part.to_string());
        }
        if let Some(more) = config.left_out.len().checked_sub(MOST_WARNINGS).filter(|more| *more > 0) {
            ui.warning(&format!("{more} more parts of this project's files are ignored"));
        }
        for file in &config.changed {
            ui.warning(&format!("{} has changed since it was trusted", file.display()));
        }
        ui.hint("`bowline trust` shows what this project's files would run, and trusts them");
    });
}
