//! `bowline simulate --print-env`: what points a program at a simulator, as lines that a shell can read.
//!
//! The command writes files only below the directory of `--home`, so it never touches the user's settings.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bowline_providers::catalogue;
use bowline_providers::simulate::{Plan, plan};

use crate::error::{CommandError, Fault};
use crate::suggest;
use crate::ui::Stdout;

/// The key that programs get. The simulator takes any.
const KEY: &str = "made-up-key-for-the-simulator";

/// Prints the variables, and writes the files or prints them as comments.
pub(super) fn print(
    provider: &str,
    listen: SocketAddr,
    route: Option<&str>,
    home: Option<&Path>,
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    let manifest = suggest::provider(provider)?;
    if listen.port() == 0 {
        return Err(CommandError::new(Fault::Usage, "the address of a simulator needs its port")
            .hint("give the simulator's port with `--port N`"));
    }
    let home = home.map(std::path::absolute).transpose().map_err(|error| {
        CommandError::new(Fault::Usage, "could not use the directory of `--home`").caused_by(error)
    })?;
    if let Some(route) = route.filter(|route| !is_route(route)) {
        return Err(CommandError::new(Fault::Usage, format!("`{route}` is not a valid route"))
            .hint("use letters, digits, `-`, `_`, `.` and `~`"));
    }
    let base = bowline_simulator::base_url(listen, route);
    let shown = home.as_ref().map_or_else(|| "$HOME".to_owned(), |home| home.to_string_lossy().into_owned());
    let Some(plan) = plan(manifest, &base, &shown, KEY) else {
        let can: Vec<&str> = catalogue::built_in()
            .filter(|manifest| manifest.simulate.is_some())
            .map(|manifest| manifest.name.as_str())
            .collect();
        return Err(CommandError::new(
            Fault::Usage,
            format!("the manifest of `{}` has no `[simulate]` section", manifest.name),
        )
        .hint(format!("providers with that section: {}", can.join(", "))));
    };
    if let Some(home) = &home {
        write(&plan, home)?;
    }
    stdout.print(&text(&plan, home.as_deref()))
}

/// Returns whether a text needs no escapes in an address.
fn is_route(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~'))
}

/// Writes the files. Does not overwrite a file with other content.
fn write(plan: &Plan, home: &Path) -> Result<(), CommandError> {
    let failed = |path: PathBuf| {
        move |error: io::Error| {
            CommandError::new(Fault::Configuration, format!("could not write `{}`", path.display()))
                .caused_by(error)
        }
    };
    fs::create_dir_all(home).map_err(failed(home.to_owned()))?;
    for file in &plan.files {
        let path = home.join(&file.path);
        match fs::read(&path) {
            Ok(there) if there == file.text.as_bytes() => continue,
            Ok(_) => {
                return Err(CommandError::new(
                    Fault::Configuration,
                    format!("`{}` already exists with other content", path.display()),
                )
                .hint("pass `--home` a new directory, never your own home"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(path)(error)),
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed(folder.to_owned()))?;
        }
        fs::write(&path, &file.text).map_err(failed(path.clone()))?;
    }
    Ok(())
}

/// Formats the lines: variables, and everything else as comments.
fn text(plan: &Plan, home: Option<&Path>) -> String {
    let mut text = String::new();
    for note in &plan.notes {
        let _ = writeln!(text, "# note: {note}");
    }
    let _ = writeln!(text, "# model: {}", plan.model);
    if !plan.args.is_empty() {
        let _ = writeln!(text, "# arguments: {}", plan.args.join(" "));
    }
    match home {
        Some(home) => {
            for file in &plan.files {
                let _ = writeln!(text, "# written: {}", home.join(&file.path).display());
            }
            let _ = writeln!(text, "export HOME={}", quoted(&home.to_string_lossy()));
        }
        None => {
            for file in &plan.files {
                let _ = writeln!(
                    text,
                    "# file to write in a new home directory (`--home DIR` writes it): {}",
                    file.path
                );
                for line in file.text.trim_end().lines() {
                    let _ = writeln!(text, "{}", format!("#   {line}").trim_end());
                }
            }
        }
    }
    for (name, value) in &plan.env {
        let _ = writeln!(text, "export {name}={}", quoted(value));
    }
    text
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@~%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with('~') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_reads_a_word_as_it_is() {
        assert_eq!(quoted("http://127.0.0.1:8484/r/x~1/v1"), "http://127.0.0.1:8484/r/x~1/v1");
        assert_eq!(quoted("a b'c"), r"'a b'\''c'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("~/x"), "'~/x'");
        assert_eq!(quoted("$HOME"), "'$HOME'");
    }
}
