//! `bowline providers` and `bowline dialects`: tables for people, JSON for programs.

use bowline::roster::{Entry, Roster};
use bowline_providers::dialects;

use super::tables::{Layout, Table};
use crate::args::TableArgs;
use crate::error::{CommandError, Fault};
use crate::output::Stdout;

/// Lists the providers.
pub(crate) fn providers(args: &TableArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let (providers, bad) = Roster::from_env().all()?;
    if args.json {
        stdout.print(&json(&providers)?)?;
    } else {
        stdout.print_laid_out(&rows(&providers, stdout.layout()))?;
    }
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

fn rows(providers: &[Entry], layout: Layout) -> String {
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
    let head = ["NAME", "PROGRAM", "FORMATS", "PROMPT", "FROM", "ALSO CALLED"];
    Table::new(head, rows).whole(&[0, 1]).render(layout)
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
    let table = Table::new(["NAME", "A TURN ENDS BY", "WHAT IT IS"], rows).whole(&[0]);
    stdout.print_laid_out(&table.render(stdout.layout()))
}
