//! An executable provider that is named on the command line by its path.

use std::path::Path;

use bowline::roster::{self, Executable};
use bowline_providers::manifest::Manifest;

use crate::error::{CommandError, Fault};

/// Makes a provider of an executable.
pub(crate) fn provider(path: &Path) -> Result<&'static Manifest, CommandError> {
    let shown = path.display();
    let wrong = |why: &str| CommandError::new(Fault::Usage, format!("`--executable {shown}` {why}"));
    let Some(text) = path.to_str().filter(|text| !text.is_empty()) else {
        return Err(wrong("is not a UTF-8 path").hint("use a UTF-8 path"));
    };
    if path.is_dir() {
        return Err(wrong("is a directory").hint("name the program in it"));
    }
    // A name without a slash is looked up on `PATH` when the program starts.
    if text.contains('/') && !path.exists() {
        let message = format!("`--executable {shown}` does not exist");
        return Err(CommandError::new(Fault::Missing, message).hint("check the path"));
    }
    let dir = std::env::current_dir().map_err(|error| wrong("cannot be resolved").caused_by(error))?;
    roster::executable(&Executable::at(name(path), text), &dir)
        .map_err(|error| wrong("cannot be used as a provider").caused_by(error))
}

/// Returns the name of a program without its directory and extension.
fn name(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = stem.chars().map(|c| if plain(c) { c } else { '-' }).collect();
    let name = name.trim_start_matches(['-', '_', '.']);
    if name.is_empty() || name.eq_ignore_ascii_case("auto") {
        "executable".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_called_as_its_file_is() {
        for (path, expected) in [
            ("/opt/ollama-provider", "ollama-provider"),
            ("./my provider.sh", "my-provider"),
            ("auto", "executable"),
            ("./-.sh", "executable"),
        ] {
            assert_eq!(name(Path::new(path)), expected, "{path}");
        }
    }
}
