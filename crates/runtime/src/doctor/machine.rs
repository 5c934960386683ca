//! Our own surroundings: where journals go, the settings files, what is promised about processes, git, how
//! many files can be watched, and whether sessions survive a logout.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_process as process;
use bowline_protocol::Remedy;
use serde::Serialize;

use crate::agents::detect::question;
use crate::sessions::journal::Home;
use crate::system::causes::in_full;
use crate::system::host;
use crate::system::surroundings::Surroundings;

/// Something about the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineItem {
    /// The subject.
    pub name: &'static str,
    /// How it is.
    pub condition: Condition,
    /// In words.
    pub what: String,
    /// The fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The same as the fix, where a caller has its own command for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// Where in a file it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<FilePosition>,
}

impl MachineItem {
    /// Makes an item without a place.
    pub fn new(name: &'static str, condition: Condition, what: impl Into<String>, fix: Option<&str>) -> Self {
        let (what, fix) = (what.into(), fix.map(str::to_owned));
        Self { name, condition, what, fix, remedies: Vec::new(), place: None }
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilePosition {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// The line as it stands there.
    pub text: String,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// As it should be.
    Good,
    /// It will do.
    Fair,
    /// Runs will fail, or lose something.
    Bad,
}

/// Less than this is soon full of journals.
const LITTLE: u64 = 1 << 30;

/// Less than this does not hold one long run.
const NOTHING: u64 = 64 << 20;

/// How long git may take to say its version.
const DEADLINE: Duration = Duration::from_secs(2);

/// Fewer watches than this do not cover a usual project with its dependencies.
const WATCHES: u64 = 65_536;

/// Looks at everything.
pub(super) async fn items(surroundings: &Surroundings, settings: Vec<MachineItem>) -> Vec<MachineItem> {
    let mut items = vec![home(surroundings)];
    items.extend(settings);
    items.extend([keeper(), git(surroundings).await]);
    items.extend(inotify(Path::new("/proc/sys/fs/inotify")));
    items.push(super::logout::item(surroundings));
    items
}

/// The data home: it can be written to, and there is room.
fn home(surroundings: &Surroundings) -> MachineItem {
    const FIX: &str = "export BOWLINE_HOME=/a/directory/that/can/be/written";
    let path = match Home::of(surroundings) {
        Ok(home) => home.path().to_owned(),
        Err(error) => return MachineItem::new("data home", Condition::Bad, in_full(&error), Some(FIX)),
    };
    let shown = path.display();
    if let Err(error) = Home::at(&path).check() {
        return MachineItem::new("data home", Condition::Bad, in_full(&error), error.hint().as_deref());
    }
    if let Err(error) = host::try_out(&path) {
        let what = format!("{shown} cannot be written to: {error}");
        return MachineItem::new("data home", Condition::Bad, what, Some(FIX));
    }
    let free = rustix::fs::statvfs(&path).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    let Ok(free) = free else {
        return MachineItem::new("data home", Condition::Good, format!("{shown}"), None);
    };
    let what = format!("{shown}, {} free", size(free));
    match free {
        NOTHING.. if free >= LITTLE => MachineItem::new("data home", Condition::Good, what, None),
        NOTHING.. => {
            MachineItem::new("data home", Condition::Fair, what, Some("make room, or move BOWLINE_HOME"))
        }
        _ => MachineItem::new("data home", Condition::Bad, what, Some("make room, or move BOWLINE_HOME")),
    }
}

fn size(bytes: u64) -> String {
    let (mega, giga) = (bytes >> 20, bytes >> 30);
    if giga >= 10 { format!("{giga} GiB") } else { format!("{mega} MiB") }
}

/// The guarantee about processes that agents leave behind.
fn keeper() -> MachineItem {
    match host::supervisor() {
        Ok(supervisor) => {
            let guarantee = supervisor.guarantee();
            let about = host::guarantee().map_or_else(|_| guarantee.about().to_owned(), |(_, about)| about);
            let condition = match guarantee {
                process::Guarantee::Cgroup | process::Guarantee::Subreaper => Condition::Good,
                process::Guarantee::Group => Condition::Fair,
            };
            let what = format!("{}: {about}", guarantee.as_str());
            MachineItem::new("processes", condition, what, None)
        }
        Err(error) => MachineItem::new("processes", Condition::Bad, in_full(&error), None),
    }
}

/// Git tells which files an agent changed.
async fn git(surroundings: &Surroundings) -> MachineItem {
    const FIX: &str = "install git";
    let mut command = process::Command::new("git", "bowline-doctor");
    command.args = vec!["--version".into()];
    command.env = vec![("PATH".into(), surroundings.get("PATH").unwrap_or_default().to_owned())];
    match question(command, DEADLINE).await {
        Ok(answer) if answer.code == Some(0) => MachineItem::new(
            "git",
            Condition::Good,
            answer.stdout.trim().trim_start_matches("git version "),
            None,
        ),
        Ok(_) | Err(_) => MachineItem::new(
            "git",
            Condition::Fair,
            "is not there: which files an agent changed is not known",
            Some(FIX),
        ),
    }
}

/// How much of the file system can be watched. Other systems have no such limit.
fn inotify(dir: &Path) -> Option<MachineItem> {
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok();
    let (watches, instances) = (read("max_user_watches")?, read("max_user_instances")?);
    let what = format!("{watches} watches, {instances} watchers");
    Some(if watches < WATCHES || instances < 128 {
        let fix = "sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512";
        MachineItem::new("inotify", Condition::Fair, what, Some(fix))
    } else {
        MachineItem::new("inotify", Condition::Good, what, None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_watches_are_told_with_what_helps() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(inotify(dir.path()), None, "another system");
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("max_user_watches", "524288\n");
        write("max_user_instances", "512\n");
        let good = inotify(dir.path()).unwrap();
        assert_eq!((good.condition, good.what.as_str()), (Condition::Good, "524288 watches, 512 watchers"));
        write("max_user_watches", "8192\n");
        let few = inotify(dir.path()).unwrap();
        assert_eq!(few.condition, Condition::Fair);
        assert!(few.fix.is_some_and(|fix| fix.starts_with("sudo sysctl fs.inotify.max_user_watches=")));
    }

    #[test]
    fn a_home_that_cannot_be_written_to_is_bad() {
        let dir = tempfile::tempdir().unwrap();
        let home = |path: &Path| super::home(&Surroundings::of([("BOWLINE_HOME", path)]));
        assert_ne!(home(dir.path()).condition, Condition::Bad);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let bad = home(&file);
        assert_eq!(bad.condition, Condition::Bad);
        assert!(bad.what.contains("cannot be written to"), "{}", bad.what);
    }
}
