//! The settings files in a checkup: the files that every run reads, and the mistakes in them.

use bowline::doctor::{Condition, FilePosition, MachineItem};
use bowline::settings::ConfigError;

use crate::trust::ProjectTrust;
use crate::{Config, Places};

/// Checks the settings files and the user's manifests. A mistake in a settings file keeps all runs from starting; a bad manifest
/// only affects the names that it has.
pub fn checkup_items(places: Places, variable: &dyn Fn(&str) -> Option<String>) -> Vec<MachineItem> {
    const NAME: &str = "settings";
    let roster = places.roster();
    let mut items = match Config::each(places, variable, ProjectTrust::Pinned) {
        Ok(config) => {
            let files: Vec<String> = config.files().iter().map(|file| file.display().to_string()).collect();
            let what = if files.is_empty() {
                "no files, so the defaults count".to_owned()
            } else {
                files.join(", ")
            };
            let fair = |warning| MachineItem::new(NAME, Condition::Fair, warning, None);
            let warnings = config.warnings();
            let unused = config.left_out.iter();
            let unused = unused
                .map(|part| MachineItem::new(NAME, Condition::Fair, part.to_string(), Some("bowline trust")));
            let good = warnings.is_empty() && config.left_out.is_empty();
            let good = good.then(|| MachineItem::new(NAME, Condition::Good, what, None));
            good.into_iter().chain(warnings.into_iter().map(fair)).chain(unused).collect()
        }
        Err(errors) => errors.into_iter().map(|error| bad_file(NAME, error)).collect::<Vec<_>>(),
    };
    match roster.bad() {
        Ok(bad) => items.extend(bad.into_iter().map(|error| {
            MachineItem::new("manifest", Condition::Fair, in_full(&error), Some(&error.hint()))
        })),
        Err(error) => {
            items.push(MachineItem::new("manifest", Condition::Bad, in_full(&error), Some(&error.hint())));
        }
    }
    items
}

/// Writes an error with its causes in one line.
fn in_full(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Describes a mistake in a settings file, with its line.
fn bad_file(name: &'static str, error: ConfigError) -> MachineItem {
    let (what, remedies) = (in_full(&error), error.remedy().into_iter().collect());
    let place = error.at.zip(error.line).map(|((line, column), text)| FilePosition {
        file: error.path,
        line,
        column,
        text: text.into(),
    });
    MachineItem { name, condition: Condition::Bad, what, fix: error.hint, remedies, place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_wrong_in_the_settings_is_told_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join("bowline").join(path);
        std::fs::create_dir_all(at("providers")).unwrap();
        let places = || Places { user: Some(dir.path().join("bowline")), cwd: None, home: None };
        let look = || checkup_items(places(), &|_| None);
        let told = |items: &[MachineItem]| items.iter().map(|it| (it.name, it.condition)).collect::<Vec<_>>();
        assert_eq!(told(&look()), [("settings", Condition::Good)]);
        std::fs::write(at("bowline.toml"), "# mine\nrun.bogus = 1\n").unwrap();
        std::fs::write(at("router.yaml"), "providers: 3\n").unwrap();
        std::fs::write(at("providers/a.toml"), "name = 3\n").unwrap();
        let items = look();
        let bad = ("settings", Condition::Bad);
        assert_eq!(told(&items), [bad, bad, ("manifest", Condition::Fair)], "{items:?}");
        let place = |file: &str, line, column, text: &str| {
            Some(FilePosition { file: at(file), line, column, text: text.to_owned() })
        };
        assert_eq!(items[0].place, place("bowline.toml", 2, 5, "run.bogus = 1"));
        assert_eq!(items[1].place, place("router.yaml", 1, 12, "providers: 3"));
        assert!(items[0].what.contains("2 | run.bogus = 1"), "{}", items[0].what);
    }
}
