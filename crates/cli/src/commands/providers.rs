//! `bowline providers` and `bowline dialects`: tables for people, JSON for programs.

use bowline::roster::{Roster, RosterEntry};
use bowline::settings::External;
use bowline_config::Config;
use bowline_providers::dialects;
use bowline_providers::invocation::external::ExternalCli;

use crate::args::TableArgs;
use crate::error::{CommandError, Fault};
use crate::ui::Stdout;
use crate::ui::tables::{Layout, TextTable};

/// Lists the providers.
pub(crate) fn providers(args: &TableArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let (providers, bad) = Roster::from_env().all()?;
    // `bowline doctor`, and a run that needs the file, report what is wrong with it.
    let external = Config::load(None).map(|config| config.external).unwrap_or_default();
    if args.json {
        stdout.print(&json(&providers, &external)?)?;
    } else {
        stdout.print_laid_out(&rows(&providers, &external, stdout.layout()))?;
    }
    // List the unusable ones too, with the reason.
    match bad.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn json(providers: &[RosterEntry], external: &External) -> Result<String, CommandError> {
    let object = |entry: &RosterEntry| {
        let mut object = serde_json::to_value(entry.manifest)?;
        object["origin"] = entry.origin.to_string().into();
        Ok(object)
    };
    let list = providers.iter().map(object).collect::<Result<Vec<_>, serde_json::Error>>();
    let described = |(model, program): (&String, &ExternalCli)| {
        // Its variables may be secrets and are left out.
        serde_json::json!({
            "name": model,
            "program": program.program(model),
            "origin": origin(external),
            "external": true,
        })
    };
    let list = list.map(|mut list| {
        list.extend(external.programs().iter().map(described));
        list
    });
    let list = list
        .map_err(|error| CommandError::new(Fault::Internal, "could not write the list").caused_by(error))?;
    Ok(format!("{:#}\n", serde_json::Value::from(list)))
}

/// Returns the file that defines the external CLIs.
fn origin(external: &External) -> String {
    external.path().map(|path| path.display().to_string()).unwrap_or_default()
}

fn rows(providers: &[RosterEntry], external: &External, layout: Layout) -> String {
    let described = external.programs().iter().map(|(model, program)| {
        let program = program.program(model).to_owned();
        let (formats, prompt) = ("external".to_owned(), "arg".to_owned());
        [model.clone(), program, formats, prompt, origin(external), String::new()]
    });
    let rows = providers.iter().map(|RosterEntry { manifest: provider, origin }| {
        // The default comes first.
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
    let head = ["NAME", "PROGRAM", "FORMATS", "PROMPT", "FROM", "ALIASES"];
    TextTable::new(head, rows.chain(described)).whole(&[0, 1]).render(layout)
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
    let table = TextTable::new(["NAME", "A TURN ENDS BY", "DESCRIPTION"], rows).whole(&[0]);
    stdout.print_laid_out(&table.render(stdout.layout()))
}
