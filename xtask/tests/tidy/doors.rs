//! The doors of the library: the only functions that read the variables of the process.
//!
//! A call on a task captures the variables once and passes them down, so that one run sees one state of them, and so that a caller
//! can set them. Code inside a run that reads them again breaks both.

use crate::{File, Violation};

const SOURCES: &str = "crates/runtime/src/";

/// The functions that may read variables: the file, and the function. Each is a public call that an embedder makes, or the capture
/// itself.
const DOORS: &[(&str, &str)] = &[
    ("adapter.rs", "adapter"),
    ("agents/available.rs", "installed"),
    ("agents/available.rs", "usable"),
    ("agents/certificate.rs", "find"),
    ("agents/detect.rs", "at_length"),
    ("agents/detect.rs", "from_env"),
    ("agents/detect.rs", "probe"),
    ("agents/detect.rs", "version"),
    ("agents/detect/cache.rs", "from_env"),
    ("agents/detect/search.rs", "from_env"),
    ("agents/limits.rs", "limits"),
    ("agents/models.rs", "models"),
    ("agents/roster.rs", "find"),
    ("agents/roster.rs", "from_env"),
    ("agents/roster/health.rs", "health"),
    ("doctor.rs", "of"),
    ("run/git.rs", "git_in"),
    ("run/live/serve.rs", "attach"),
    ("run/task.rs", "captured"),
    ("sessions/detached.rs", "start_runner_of"),
    ("sessions/journal/home.rs", "from_env"),
    ("sessions/registry.rs", "from_env"),
    // Only for a registry without variables; the session monitor passes those of a task.
    ("sessions/registry/lost.rs", "settle_lost"),
    ("sessions/socket/client.rs", "connect_from_env"),
    ("system/surroundings.rs", "from_env"),
];

/// The calls that read variables.
const READS: &[&str] = &["::from_env()", "env::var"];

/// Finds functions of the library that read variables and are not doors. Tests and comments do not count.
pub(crate) fn reads(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let Some(path) = file.path.strip_prefix(SOURCES) else { continue };
        let mut function = String::new();
        for (number, line) in file.lines().take_while(|(_, line)| *line != "mod tests {") {
            let code = crate::tree::code(line);
            if let Some((_, name)) = code.split_once("fn ") {
                function =
                    name.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
            }
            let is_read = READS.iter().any(|read| code.contains(read));
            if is_read && !DOORS.contains(&(path, function.as_str())) {
                let advice = "take the variables that the task captured, or add a door with its reason";
                found.push(file.violation(number, format!("`{function}` reads variables: {advice}")));
            }
        }
    }
    found
}

#[test]
fn a_read_behind_the_doors_is_caught() {
    let check = |path: &str, text: &str| {
        reads(&[File::new(&format!("{SOURCES}{path}"), text)])
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let found = check("run/drive.rs", "fn act() {\n    let all = Surroundings::from_env();\n}\n");
    assert!(found[0].starts_with("crates/runtime/src/run/drive.rs:2: `act` reads variables"), "{found:?}");
    assert_eq!(check("run/git.rs", "fn git_in() {}\nfn other() { std::env::var(\"HOME\") }\n").len(), 1);
    assert!(
        check("run/git.rs", "pub async fn git_in() {\n    git(&Surroundings::from_env())\n}\n").is_empty()
    );
    assert!(check("run/git.rs", "/// use Roster::from_env();\nfn a() {} // std::env::var(\n").is_empty());
}
