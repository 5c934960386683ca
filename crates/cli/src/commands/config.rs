//! `bowline config`: shows and changes settings.

use std::path::PathBuf;

use bowline_config::{KEYS, Key, edit};
use serde_json::json;

use crate::args::config::{ConfigAction, ConfigArgs};
use crate::error::{CommandError, Fault};
use crate::ui::Stdout;
use crate::ui::tables::TextTable;
use crate::{remedies, suggest};

/// Runs the command.
pub(crate) fn run(args: &ConfigArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    match &args.action {
        ConfigAction::Show { all, json } => show(*all, *json, stdout),
        ConfigAction::Get { key } => get(key, stdout),
        ConfigAction::Set { key, value, project } => {
            check(key, value)?;
            Ok(edit::set(&file(*project)?, key, value)?)
        }
        ConfigAction::Unset { key, project } => Ok(edit::unset(&file(*project)?, key)?),
    }
}

/// Rejects a value that names an unknown provider. The file itself may name one that a project defines later.
fn check(key: &str, value: &str) -> Result<(), CommandError> {
    let names_providers = match Key::spelled(key).ok().and_then(|name| Key::named(&name)).map(|key| key.name)
    {
        Some("run.provider") => !value.eq_ignore_ascii_case(bowline::route::AUTO),
        Some("profiles.*.provider") => true,
        Some(_) | None => false,
    };
    // `edit::set` rejects an empty value with a better message.
    if !names_providers || value.trim().is_empty() || value.starts_with("acp:") {
        return Ok(());
    }
    value.split(',').try_for_each(|name| suggest::listed(name.trim()).map(drop))
}

/// A line of the table.
struct SettingRow {
    key: String,
    value: String,
    origin: String,
    about: &'static str,
}

fn show(all: bool, as_json: bool, stdout: &mut Stdout) -> Result<(), CommandError> {
    let config = crate::config::load(None)?;
    let set = config.settings.all().map(|(key, setting)| SettingRow {
        key: key.to_owned(),
        value: setting.value.clone(),
        origin: setting.origin.to_string(),
        about: Key::named(key).map(|key| key.about).unwrap_or_default(),
    });
    let mut rows: Vec<SettingRow> = set.collect();
    if all {
        let open = KEYS.iter().filter(|key| config.settings.get(key.name).is_none());
        rows.extend(open.map(|key| SettingRow {
            key: key.name.to_owned(),
            value: if key.default.is_empty() { "-".to_owned() } else { key.default.to_owned() },
            origin: "default".to_owned(),
            about: key.about,
        }));
    }
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| json!({"key": row.key, "value": row.value, "origin": row.origin, "about": row.about}))
            .collect();
        let files: Vec<String> = config.files().iter().map(|path| path.display().to_string()).collect();
        return stdout.print(&format!("{:#}\n", json!({"files": files, "settings": rows})));
    }
    let layout = stdout.layout();
    let mut text = if rows.is_empty() {
        layout.paragraph(0, "no settings; `bowline config show --all` lists the available ones")
    } else if all {
        let head = ["SETTING", "VALUE", "FROM", "DESCRIPTION"];
        let rows =
            rows.into_iter().map(|row| [row.key, row.value, row.origin, remedies::with_flags(row.about)]);
        TextTable::new(head, rows).whole(&[0]).render(layout)
    } else {
        let rows = rows.into_iter().map(|row| [row.key, row.value, row.origin]);
        TextTable::new(["SETTING", "VALUE", "FROM"], rows).whole(&[0]).render(layout)
    };
    for file in config.files() {
        text.push_str(&layout.paragraph(0, &format!("read: {}", file.display())));
    }
    stdout.print_laid_out(&text)
}

fn get(name: &str, stdout: &mut Stdout) -> Result<(), CommandError> {
    let name = &*Key::spelled(name).map_err(|what| CommandError::new(Fault::Usage, what))?;
    let Some(key) = Key::named(name) else {
        let error = CommandError::new(Fault::Usage, format!("`{name}` is not a setting"));
        let error = suggest::likely(error, name, KEYS.iter().map(|key| key.name));
        return Err(error.hint("`bowline config show --all` lists the settings"));
    };
    let config = crate::config::load(None)?;
    let value = config.settings.text(name).unwrap_or(key.default);
    if value.is_empty() {
        // Print nothing, so that a script can detect a setting without a value.
        return Err(CommandError::told(1));
    }
    stdout.print(&format!("{value}\n"))
}

/// Returns the settings file to change.
pub(crate) fn file(project: bool) -> Result<PathBuf, CommandError> {
    let places = bowline_config::Places::from_env(None);
    let path = if project {
        places.project_settings().or_else(|| places.new_project_settings())
    } else {
        places.user_settings()
    };
    path.ok_or_else(|| {
        CommandError::new(Fault::Configuration, "no directory for the settings file")
            .hint("set HOME or XDG_CONFIG_HOME")
    })
}
