//! `bowline providers` and `bowline dialects`: tables for people, JSON for programs.

use bowline_providers::{catalogue, dialects};

use crate::args::TableArgs;
use crate::error::{CommandError, Fault};
use crate::output::Stdout;

/// Lists the providers.
pub(crate) fn providers(args: &TableArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let providers = catalogue::built_in();
    if args.json {
        let text = serde_json::to_string_pretty(&providers.collect::<Vec<_>>()).map_err(|error| {
            CommandError::new(Fault::Internal, "could not write the list").caused_by(error)
        })?;
        return stdout.print(&format!("{text}\n"));
    }
    let rows = providers.map(|provider| {
        // The default stands first.
        let others = provider.formats.keys().filter(|name| **name != provider.default_format);
        let formats: Vec<&str> =
            std::iter::once(&provider.default_format).chain(others).map(String::as_str).collect();
        [
            provider.name.clone(),
            provider.program.clone(),
            formats.join(", "),
            provider.prompt.as_str().to_owned(),
            provider.aliases.join(", "),
        ]
    });
    stdout.print(&table(["NAME", "PROGRAM", "FORMATS", "PROMPT", "ALSO CALLED"], rows))
}

/// Lists the dialects.
pub(crate) fn dialects(args: &TableArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    if args.json {
        let list: Vec<_> = dialects::ALL
            .iter()
            .map(|entry| {
                serde_json::json!({
                    "name": entry.name,
                    "about": entry.about,
                    "terminal": entry.terminal.as_str(),
                })
            })
            .collect();
        return stdout.print(&format!("{:#}\n", serde_json::Value::from(list)));
    }
    let rows = dialects::ALL
        .iter()
        .map(|entry| [entry.name.to_owned(), entry.terminal.as_str().to_owned(), entry.about.to_owned()]);
    stdout.print(&table(["NAME", "A TURN ENDS BY", "WHAT IT IS"], rows))
}

/// Lays out a table with columns as wide as they need to be.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut all: Vec<[String; N]> = vec![head.map(str::to_owned)];
    all.extend(rows);
    let mut widths = [0; N];
    for row in &all {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &all {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
