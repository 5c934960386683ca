//! `bowline models`: which models an agent offers.

use bowline::detect::{Ask, Cache, Surroundings};
use bowline::models::{self, ListSource, Model, Models};
use bowline_config::Config;
use bowline_protocol::Timestamp;
use bowline_providers::ansi::harmless;
use bowline_providers::manifest::Manifest;

use crate::args::inspection::ModelsArgs;
use crate::async_runtime;
use crate::commands::account;
use crate::error::{CommandError, Fault};
use crate::time;
use crate::ui::Stdout;
use crate::ui::tables::{Layout, TextTable};

/// Why nothing is known of some.
const UNTOLD: &str = "the program cannot list its models";

/// Runs the command.
pub(crate) fn run(args: &ModelsArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let asked = account::providers_and_external(args.provider.as_slice(), args.profile.as_deref())?;
    let (named, profiles) = (asked.named, asked.accounts);
    let all_installed = named.is_empty() && asked.external.is_empty();
    let providers: Vec<&'static Manifest> =
        if all_installed { bowline::detect::installed() } else { named.clone() };
    // An external CLI is chosen by its model, which is the name of its entry.
    let external = if all_installed {
        Config::load(None).map(|config| config.external.programs().clone()).unwrap_or_default()
    } else {
        asked.external
    };
    let mut ask = Ask::at_length();
    if args.fresh {
        ask.cache = ask.cache.map(Cache::anew);
    }
    let surroundings = Surroundings::from_env();
    let mut lists = async_runtime::start()?.block_on(async {
        let asked: Vec<_> = providers
            .iter()
            .map(|manifest| {
                let (manifest, surroundings, ask) = (*manifest, surroundings.clone(), ask.clone());
                let profile = profiles.get(&manifest.name).cloned();
                tokio::spawn(async move { models::of(manifest, profile.as_ref(), &surroundings, &ask).await })
            })
            .collect();
        let mut lists = Vec::new();
        for asked in asked {
            lists.push(asked.await.map_err(|error| {
                CommandError::new(Fault::Internal, "could not query models").caused_by(error)
            })?);
        }
        Ok::<_, CommandError>(lists)
    })?;
    if !args.all {
        lists.iter_mut().for_each(|list| list.models.retain(|model| !model.hidden));
    }
    if args.json {
        let mut all = lists.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
        if let Ok(all) = &mut all {
            all.extend(external.keys().map(|model| {
                serde_json::json!({ "provider": model, "external": true, "models": [{ "id": model }] })
            }));
        }
        let text = all.and_then(|all| serde_json::to_string_pretty(&all)).map_err(|error| {
            CommandError::new(Fault::Internal, "could not write the list").caused_by(error)
        })?;
        stdout.print(&format!("{text}\n"))?;
    }
    // One that was asked for by name and has nothing to show is an error; among others it is a line.
    if let ([manifest], [list]) = (&named[..], &lists[..])
        && list.models.is_empty()
    {
        let error =
            CommandError::new(Fault::Missing, format!("the models of {} are unknown", manifest.title));
        let error = match &list.trouble {
            Some(why) => error
                .caused_by(why.clone())
                .hint(format!("run `bowline doctor {}` for details", manifest.name)),
            None => error.caused_by(UNTOLD),
        };
        return Err(error.hint("`bowline run --model NAME` still accepts any name"));
    }
    if args.json {
        return Ok(());
    }
    if lists.is_empty() && external.is_empty() {
        return Err(CommandError::new(Fault::Missing, "no agent is installed")
            .hint("`bowline doctor` shows how to install one"));
    }
    let now = time::now();
    let layout = stdout.layout();
    lists.iter().try_for_each(|list| stdout.print_laid_out(&shown(list, now, layout)))?;
    let name = |text: &str| harmless(text).replace('\n', " ");
    for (model, program) in &external {
        let program = program.program(model);
        stdout.print(&format!("{}  external CLI: {}\n", name(model), name(program)))?;
    }
    Ok(())
}

/// Returns the lines about one agent.
fn shown(list: &Models, now: Timestamp, layout: Layout) -> String {
    let whose = match (list.source, list.at) {
        (ListSource::Program, _) => String::new(),
        (ListSource::Kept, Some(at)) => format!(" (as reported at {at})"),
        (ListSource::Kept, None) => String::new(),
        // Some programs cannot list models at all; others failed to.
        (ListSource::Manifest, _) if list.trouble.is_some() => {
            " (from Bowline's manifest; the program was not queried)".to_owned()
        }
        (ListSource::Manifest, _) => " (from Bowline's manifest; the program cannot be queried)".to_owned(),
    };
    let name = account::whose(&list.provider, list.profile.as_deref());
    if list.models.is_empty() {
        let why = layout.paragraph(2, list.trouble.as_deref().unwrap_or(UNTOLD));
        return format!("{}{why}\n", layout.paragraph(0, &format!("{name}: unknown")));
    }
    let trouble = list.trouble.as_ref().map(|why| layout.paragraph(2, why)).unwrap_or_default();
    let rows = list
        .models
        .iter()
        .map(|model| [model.id.clone(), kind(model), model.efforts.join(" "), remarks(model, now)]);
    let table = TextTable::new(["MODEL", "KIND", "EFFORTS", ""], rows).whole(&[0]).indent(2);
    let title = layout.paragraph(0, &format!("{name}{whose}"));
    format!("{title}{trouble}{}\n", table.render(layout))
}

fn kind(model: &Model) -> String {
    match model.alias_of.as_deref() {
        None => "pinned".to_owned(),
        Some("") => "alias".to_owned(),
        Some(of) => format!("alias of {of}"),
    }
}

fn remarks(model: &Model, now: Timestamp) -> String {
    let mut remarks = Vec::new();
    if model.default {
        remarks.push("default".to_owned());
    }
    if model.hidden {
        remarks.push("hidden".to_owned());
    }
    let instead = model.replaced_by.as_deref();
    match (model.is_retired(now), instead) {
        (true, Some(instead)) => remarks.push(format!("retired: use {instead}")),
        (true, None) => remarks.push("retired".to_owned()),
        (false, Some(instead)) => remarks.push(match model.retires_at {
            Some(at) => format!("retires at {at}: use {instead}"),
            None => format!("newer: {instead}"),
        }),
        (false, None) => {}
    }
    remarks.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_sees_of_a_list() {
        let model = |id: &str| Model { id: id.into(), name: id.into(), ..Model::default() };
        let list = Models {
            provider: "agent".into(),
            profile: None,
            models: vec![
                Model { default: true, alias_of: Some("big-2".into()), ..model("big") },
                Model { efforts: vec!["low".into(), "high".into()], ..model("big-2") },
                Model { replaced_by: Some("big-2".into()), ..model("big-1") },
                Model { replaced_by: Some("big-1".into()), retired: true, ..model("big-0") },
            ],
            source: ListSource::Program,
            at: None,
            trouble: None,
        };
        insta::assert_snapshot!(shown(&list, Timestamp::EPOCH, Layout::Pipe), @r"
        agent
          MODEL  KIND            EFFORTS
          big    alias of big-2            default
          big-2  pinned          low high
          big-1  pinned                    newer: big-2
          big-0  pinned                    retired: use big-1
        ");
    }
}
