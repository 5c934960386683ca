//! `--dry-run`: shows the command that a run would start.

use std::fmt::Write as _;

use bowline::{Preview, Task};
use bowline_providers::invocation::environment::listed;

use crate::error::{CommandError, Fault};
use crate::output::sink::OutputFormat;
use crate::remedies;
use crate::ui::Stdout;

/// The maximum number of characters of a value.
const SHOWN: usize = 200;

/// Prints the command that would be started.
pub(super) fn dry_run(task: &Task, format: OutputFormat, stdout: &mut Stdout) -> Result<(), CommandError> {
    let preview = task.preview().map_err(CommandError::from)?;
    let text = match format {
        OutputFormat::View(_) => {
            let json = serde_json::to_string_pretty(&preview).map_err(|error| {
                CommandError::new(Fault::Internal, "could not write the preview").caused_by(error)
            })?;
            format!("{json}\n")
        }
        OutputFormat::Human => in_words(&preview),
    };
    stdout.print(&text)
}

/// Describes the command that would be started.
fn in_words(preview: &Preview) -> String {
    let mut text = String::new();
    let mut words = vec![quoted(&preview.program)];
    words.extend(preview.args.iter().map(|arg| quoted(arg)));
    let _ = writeln!(text, "{}", words.join(" "));
    if let Some(cwd) = &preview.cwd {
        let _ = writeln!(text, "  in        {cwd}");
    }
    for (name, value) in &preview.env {
        let _ = writeln!(text, "  sets      {name}={}", quoted(value));
    }
    let passed = |name: &String| listed(&preview.env_keep, name) && !listed(&preview.env_removed, name);
    let mut names: Vec<String> =
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(passed).collect();
    names.sort();
    let _ = writeln!(text, "  passes on {}", names.join(" "));
    for (name, content) in &preview.files {
        let _ = writeln!(text, "  writes    {name} ({} bytes)", content.len());
    }
    for (name, value) in &preview.protocol {
        let _ = writeln!(text, "  sends     {name}: {}", beginning(value));
    }
    match &preview.stdin {
        Some(_) if !preview.protocol.is_empty() => {
            let _ = writeln!(text, "  reads     the protocol's messages from standard input");
        }
        Some(stdin) => {
            let _ = writeln!(text, "  reads     {} characters from standard input", stdin.chars().count());
        }
        None => {
            let _ = writeln!(text, "  reads     nothing");
        }
    }
    for notice in &preview.notices {
        let _ = writeln!(text, "  note      {}", remedies::of_our_notice(notice));
    }
    text
}

/// Returns the beginning of the first line of a value, with a mark if there is more: a prompt may be long.
fn beginning(value: &str) -> String {
    let line = value.lines().next().unwrap_or_default();
    let shown: String = line.chars().take(SHOWN).collect();
    if shown.len() == value.trim_end_matches('\n').len() {
        return shown;
    }
    format!("{shown}… ({} characters)", value.chars().count())
}

/// Quotes an argument for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_shown_in_part_has_a_mark() {
        assert_eq!(beginning("Fix it\n"), "Fix it");
        assert_eq!(beginning("Fix it\nand test it"), "Fix it… (18 characters)");
        assert_eq!(beginning("\nFix it"), "… (7 characters)");
        assert_eq!(beginning(&"x".repeat(201)), format!("{}… (201 characters)", "x".repeat(200)));
    }

    #[test]
    fn an_argument_is_quoted_as_a_shell_reads_it() {
        assert_eq!(quoted("--model"), "--model");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("a b"), "'a b'");
    }
}
