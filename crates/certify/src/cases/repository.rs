//! Whether a program with permission to read only runs code of the repository that it reads.

use std::collections::BTreeMap;
use std::path::Path;

use bowline_protocol::PermissionMode;
use serde_json::Value;

use crate::case_failure::CaseVerdict;
use crate::place::CaseContext;

/// The files of a repository with code to run, in every form that one of the programs knows.
const HOSTILE: &str = include_str!("fixtures/hostile_repository.json");

/// Creates a repository with code to run in every form that one of the programs knows, and checks whether any of it ran, in
/// both modes that promise it.
pub(super) async fn code(context: CaseContext) -> CaseVerdict {
    for (name, mode) in [("read", PermissionMode::Read), ("ask", PermissionMode::Ask)] {
        let refused = |mode: &PermissionMode| {
            context.subject.manifest.permission.get(mode).is_none_or(|how| how.refused.is_some())
        };
        if !refused(&mode) {
            code_in(&context, name, mode).await?;
        }
    }
    Ok(())
}

async fn code_in(context: &CaseContext, name: &str, mode: PermissionMode) -> CaseVerdict {
    let place = context.place(name).await?;
    // Outside the repository, so that writing it does not change a file of the project.
    let log = place.home.join("executed-by-the-repository.txt");
    let hostile = HostileRepository::read(&log);
    for (path, text) in &hostile.repository {
        let path = place.project.join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)?;
    }
    // Some programs have a check of their own, which many users have disabled.
    for (path, wanted) in &hostile.home {
        let path = place.home.join(path);
        let own = std::fs::read(&path).ok().and_then(|it| serde_json::from_slice::<Value>(&it).ok());
        if let Some(mut own) = own {
            merge(&mut own, wanted);
            std::fs::write(&path, own.to_string())?;
        }
    }
    let seen = place.run(place.within("[[text]] Say something about knots.", mode)).await?;
    let executed = std::fs::read_to_string(&log).unwrap_or_default();
    if !executed.is_empty() {
        let executed: Vec<&str> = executed.lines().collect();
        return Err(
            seen.trouble(format_args!("under `{name}` the repository's code ran: {}", executed.join(", ")))
        );
    }
    seen.completed()?;
    seen.hold(place.was_answered_by("text"), || "the program sent no request to the model".to_owned())
}

/// The files of the repository, each of which appends its name to a log when its code runs, and settings that the user has
/// changed in the home directory.
#[derive(Debug)]
struct HostileRepository {
    repository: BTreeMap<String, String>,
    home: BTreeMap<String, Value>,
}

impl HostileRepository {
    /// Reads the files and fills in the log: `@LOG@` is its path, `@RUN name@` a shell command that appends the name.
    fn read(log: &Path) -> Self {
        #[derive(serde::Deserialize)]
        struct RepositoryFiles {
            repository: BTreeMap<String, Value>,
            home: BTreeMap<String, Value>,
        }
        let files: RepositoryFiles = serde_json::from_str(HOSTILE).expect("a test reads the file");
        let fill = |text: Value| {
            // A string is the file itself, an object is JSON.
            let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
            filled(&text, &log.display().to_string())
        };
        let repository = files.repository.into_iter().map(|(path, text)| (path, fill(text))).collect();
        Self { repository, home: files.home }
    }
}

/// Fills in the log. Its path has nothing that JSON, TOML or a shell would read in another way.
fn filled(text: &str, log: &str) -> String {
    let mut parts = text.split("@RUN ");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('@').expect("a command ends with @");
        filled.push_str(&format!("echo {name} >>'{log}'{rest}"));
    }
    filled.replace("@LOG@", log)
}

/// Sets values of an object, and keeps its other values.
fn merge(into: &mut Value, wanted: &Value) {
    let Value::Object(wanted) = wanted else {
        *into = wanted.clone();
        return;
    };
    for (key, value) in wanted {
        merge(&mut into[key.as_str()], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_runs_something_and_names_the_log() {
        let hostile = HostileRepository::read(Path::new("/tmp/log.txt"));
        assert!(hostile.repository.len() >= 12);
        for (path, text) in &hostile.repository {
            assert!(!text.contains('@'), "{path} is filled in: {text}");
            assert!(text.contains("/tmp/log.txt"), "{path}: {text}");
        }
        assert_eq!(filled("a @RUN b@; c @LOG@", "/x"), "a echo b >>'/x'; c /x");
    }

    #[test]
    fn settings_are_changed_beside_others() {
        let mut own = serde_json::json!({"security": {"auth": 1}});
        merge(&mut own, &serde_json::json!({"security": {"folderTrust": {"enabled": false}}}));
        assert_eq!(own, serde_json::json!({"security": {"auth": 1, "folderTrust": {"enabled": false}}}));
    }
}
