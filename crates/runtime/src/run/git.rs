//! Which files a turn changed, as git sees it: a snapshot before, a comparison after.
//!
//! Files that were changed before the turn began are told apart from those that it changed by what the file system reports
//! of them (size, time, inode). Files that git ignores are left out, and so are our own files: a home directory may be a
//! repository, and our journal in it is none of the agent's work. A commit made in the turn counts as well. Watching the
//! tree while the turn runs is deliberately not here.

mod ours;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_process as process;
use bowline_protocol::kinds::{FileOperation, TouchedFile};

use crate::sessions::journal::Home;
use crate::system::surroundings::Surroundings;
use ours::Ours;

/// The longest that git may take.
const PATIENCE: Duration = Duration::from_secs(4);

/// A directory in a working tree.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    git: GitProgram,
    dir: PathBuf,
    ours: Ours,
}

impl Tree {
    /// Returns the working tree that a directory lies in, if it looks as if it lay in one.
    pub(crate) fn around(
        supervisor: &process::Supervisor,
        dir: &Path,
        home: Option<&Home>,
        variables: &Surroundings,
    ) -> Option<Self> {
        // As git tells of it: without links.
        let dir = ours::real(dir);
        let inside = dir.ancestors().any(|dir| dir.join(".git").exists());
        inside.then(|| Self {
            git: GitProgram::new(supervisor.clone(), variables),
            ours: Ours::beside(&dir, home, variables),
            dir,
        })
    }

    /// Takes a snapshot; nothing when git does not take it for a working tree. Dropping the future ends git.
    pub(crate) async fn snapshot(self) -> Result<Option<Snapshot>, String> {
        let root = match git(&self.git, &self.dir, &["rev-parse", "--show-toplevel"]).await {
            Ok(top) => PathBuf::from(OsString::from_vec(trim(top))),
            // A bare repository, or a `.git` that is none.
            Err(why) if why.contains("not a git repository") || why.contains("work tree") => return Ok(None),
            Err(why) => return Err(why),
        };
        Snapshot::of(self, root).await.map(Some)
    }
}

/// The state of a working tree.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    tree: Tree,
    root: PathBuf,
    head: Option<String>,
    /// The files that differ from the head: their state in the file system, and git's two letters for them.
    dirty: BTreeMap<PathBuf, (Look, [u8; 2])>,
}

/// The state of a file in the file system; `None` if it does not exist.
type Look = Option<(u64, i64, i64, u64)>;

impl Snapshot {
    async fn of(tree: Tree, root: PathBuf) -> Result<Self, String> {
        let program = &tree.git;
        // A repository without a commit has no head.
        let head = git(program, &root, &["rev-parse", "--verify", "-q", "HEAD"]).await.ok();
        let head = head.map(|head| String::from_utf8_lossy(&trim(head)).into_owned());
        let filters = filters(program, &root).await?;
        // `--no-renames`: an entry with a rename has a second path, and the loop below reads one. `-z`: git does not quote
        // the paths.
        let args = ["status", "--porcelain=v1", "-z", "--no-renames", "-uall", "--ignore-submodules=all"];
        let status = git_with(program, &root, &args, &filters).await?;
        let mut dirty = BTreeMap::new();
        // An entry has two letters, a blank and the path.
        for entry in status.split(|byte| *byte == 0).filter(|entry| entry.len() > 3) {
            let path = PathBuf::from(OsString::from_vec(entry[3..].to_vec()));
            let look = look(&root.join(&path));
            dirty.insert(path, (look, [entry[0], entry[1]]));
        }
        Ok(Self { tree, root, head, dirty })
    }

    /// Compares the working tree with the snapshot. Paths are told from the directory of the run, others in full.
    /// Also returns the state as it is now.
    pub(crate) async fn changes(self) -> Result<(Vec<TouchedFile>, Self), String> {
        let after = Self::of(self.tree.clone(), self.root.clone()).await?;
        let mut changed: BTreeMap<PathBuf, FileOperation> = BTreeMap::new();
        if let (None, Some(now)) = (&self.head, &after.head) {
            // The first commit of all.
            let listed =
                git(&self.tree.git, &self.root, &["ls-tree", "-r", "-z", "--name-only", "--full-tree", now])
                    .await?;
            for path in listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
                changed.insert(PathBuf::from(OsString::from_vec(path.to_vec())), FileOperation::Create);
            }
        }
        if let (Some(before), Some(now)) = (&self.head, &after.head)
            && before != now
        {
            // Two programs that a repository may name for its diffs: neither may run.
            let args = [
                "diff",
                "--no-ext-diff",
                "--no-textconv",
                "--name-status",
                "-z",
                "--no-renames",
                before,
                now,
            ];
            let listed = git(&self.tree.git, &self.root, &args).await?;
            let mut fields = listed.split(|byte| *byte == 0);
            while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
                let operation = match status {
                    b"A" => FileOperation::Create,
                    b"D" => FileOperation::Delete,
                    _ => FileOperation::Write,
                };
                changed.insert(PathBuf::from(OsString::from_vec(path.to_vec())), operation);
            }
        }
        for (path, (before, _)) in &self.dirty {
            // It was changed or untracked before: only what the file system says tells whether it changed again.
            let now = look(&self.root.join(path));
            let operation = match (before, now) {
                // The agent may have committed a file that was changed before. The file itself is the same.
                (before, now) if *before == now => {
                    changed.remove(path);
                    continue;
                }
                (None, _) => FileOperation::Create,
                (Some(_), None) => FileOperation::Delete,
                (Some(_), Some(_)) => FileOperation::Write,
            };
            changed.insert(path.clone(), operation);
        }
        for (path, (now, status)) in after.dirty.iter().filter(|(path, _)| !self.dirty.contains_key(*path)) {
            let operation = match now {
                None => FileOperation::Delete,
                Some(_) if status.contains(&b'?') || status.contains(&b'A') => FileOperation::Create,
                Some(_) => FileOperation::Write,
            };
            changed.insert(path.clone(), operation);
        }
        let changed = changed.into_iter().map(|(path, operation)| (self.root.join(path), operation));
        let changed = changed.filter(|(path, _)| !self.tree.ours.has(path));
        let file = |(path, operation): (PathBuf, FileOperation)| {
            let path = path.strip_prefix(&self.tree.dir).unwrap_or(&path).to_string_lossy().into_owned();
            TouchedFile { path, operation }
        };
        let files = changed.map(file).collect();
        Ok((files, after))
    }
}

/// Returns settings that disarm every filter that the repository's configuration names.
///
/// A look must not run what an agent, or the author of a repository, has put there: filters are commands that git runs
/// to compare files.
async fn filters(program: &GitProgram, root: &Path) -> Result<Vec<Setting>, String> {
    // `--list` ends well also where there is none: a list that cannot be had must not be taken for an empty one.
    let named = git(program, root, &["config", "--null", "--name-only", "--list"]).await?;
    let mut drivers: Vec<&[u8]> = named
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"filter."))
        .filter_map(|name| Some(&name[..name.iter().rposition(|byte| *byte == b'.')?]))
        .collect();
    drivers.sort_unstable();
    drivers.dedup();
    let disarm = |driver: &&[u8]| {
        [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")].map(|(key, value)| {
            let name = [*driver, b".", key.as_bytes()].concat();
            (OsString::from_vec(name), OsString::from(value))
        })
    };
    Ok(drivers.iter().flat_map(disarm).collect())
}

/// A setting for one call: its name and its value.
type Setting = (OsString, OsString);

fn look(path: &Path) -> Look {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.size(), meta.mtime(), meta.mtime_nsec(), meta.ino()))
}

fn trim(mut bytes: Vec<u8>) -> Vec<u8> {
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    bytes
}

/// Runs git in a directory and returns what it prints; the error is what it says on standard error.
///
/// Repository variables of our own environment (`GIT_DIR` and its like) do not reach it.
///
/// Needs a tokio runtime.
pub async fn git_in(dir: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    let supervisor =
        crate::system::host::supervisor().map_err(|error| crate::system::causes::in_full(&error))?;
    git(&GitProgram::new(supervisor, &Surroundings::from_env()), dir, args).await
}

/// Makes a repository of a directory, with all that is in it in one commit of the author's.
///
/// Needs a tokio runtime.
pub async fn repository_in(dir: &Path, author: &str) -> Result<(), String> {
    let (name, email) = (format!("user.name={author}"), format!("user.email={author}@localhost"));
    // The user's settings may demand a signature, which needs a passphrase, and hooks.
    let commit = [
        "-c",
        &name,
        "-c",
        &email,
        "-c",
        "commit.gpgsign=false",
        "commit",
        "-q",
        "--no-verify",
        "-m",
        "before",
    ];
    for args in [&["init", "-q"][..], &["add", "-A"], &commit] {
        git_in(dir, args).await?;
    }
    Ok(())
}

/// Runs git and returns what it prints.
async fn git(program: &GitProgram, dir: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    git_with(program, dir, args, &[]).await
}

/// Runs git with settings. They go by variables: an argument is cut at the first `=`, and names may have one.
async fn git_with(
    program: &GitProgram,
    dir: &Path,
    args: &[&str],
    settings: &[Setting],
) -> Result<Vec<u8>, String> {
    let mut command = process::Command::new("git", "bowline-git");
    // `core.fsmonitor` may name a program of the repository, which git would run. Without optional locks, a look never holds
    // the `index.lock` that the agent's own git needs.
    let fixed = ["--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotepath=false"];
    command.args = fixed.iter().chain(args).map(OsString::from).collect();
    command.env.clone_from(&program.env);
    command.env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
    for (number, (name, value)) in settings.iter().enumerate() {
        command.env.push((format!("GIT_CONFIG_KEY_{number}").into(), name.clone()));
        command.env.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.clone()));
    }
    command.cwd = Some(dir.to_owned());
    crate::system::output::of(&program.supervisor, command, PATIENCE).await
}

/// Git, with the supervisor that starts it and its variables.
#[derive(Clone, Debug)]
struct GitProgram {
    supervisor: process::Supervisor,
    env: Vec<(OsString, OsString)>,
}

impl GitProgram {
    /// Takes the variables that git needs. `GIT_DIR` and its like would make it look elsewhere.
    fn new(supervisor: process::Supervisor, variables: &Surroundings) -> Self {
        let kept = ["PATH", "HOME", "USER", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"];
        let kept =
            kept.iter().filter_map(|name| Some((name.into(), variables.get_even_empty(name)?.to_owned())));
        let mut env: Vec<(OsString, OsString)> = kept.collect();
        env.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
        // Objects that are missing in a partial clone stay missing: git fetches nothing, and no remote's helper runs.
        env.push(("GIT_NO_LAZY_FETCH".into(), "1".into()));
        env.push(("GIT_ALLOW_PROTOCOL".into(), "".into()));
        // `snapshot` compares the text of git's errors, which git translates otherwise.
        env.push(("LC_ALL".into(), "C".into()));
        Self { supervisor, env }
    }
}
