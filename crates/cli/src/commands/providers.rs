//! `bowline providers` and `bowline dialects`: tables for people, JSON for programs.

use bowline::roster::{Entry, Roster};
use bowline_providers::dialects;

use crate::args::TableArgs;
use crate::error::{CommandError, Fault};
use crate::output::Stdout;

/// Lists the providers.
pub(crate) fn providers(args: &TableArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let (providers, bad) = Roster::from_env().all()?;
    let text = if args.json { json(&providers)? } else { rows(&providers) };
    stdout.print(&text)?;
    // Those that can be used were told; whoever wrote the others wants to know why they are not among them.
    match bad.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn json(providers: &[Entry]) -> Result<String, CommandError> {
    let object = |entry: &Entry| {
        let mut object = serde_json::to_value(entry.manifest)?;
        object["origin"] = entry.origin.to_string().into();
        Ok(object)
    };
    let list = providers.iter().map(object).collect::<Result<Vec<_>, serde_json::Error>>();
    let list = list
        .map_err(|error| CommandError::new(Fault::Internal, "could not write the list").caused_by(error))?;
    Ok(format!("{:#}\n", serde_json::Value::from(list)))
}

fn rows(providers: &[Entry]) -> String {
    let rows = providers.iter().map(|Entry { manifest: provider, origin }| {
        // The default stands first.
        let others = provider.formats.keys().filter(|name| **name != provider.default_format);
        let formats: Vec<&str> =
            std::iter::once(&provider.default_format).chain(others).map(String::as_str).collect();
        [
            provider.name.clone(),
            provider.program.clone(),
            formats.join(", "),
            provider.prompt.as_str().to_owned(),
            origin.to_string(),
            provider.aliases.join(", "),
        ]
    });
    table(["NAME", "PROGRAM", "FORMATS", "PROMPT", "FROM", "ALSO CALLED"], rows)
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
