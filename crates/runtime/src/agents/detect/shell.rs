//! The `PATH` of the login shell. A process started from a desktop, an editor or a service has another `PATH` than a terminal,
//! and version managers change it in the shell's own files.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use bowline_process as process;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::ask;
use crate::agents::answer_cache::AnswerCache;
use crate::system::clock;
use crate::system::surroundings::Surroundings;

/// The timeout for the shell; some configurations do much work.
const DEADLINE: Duration = Duration::from_secs(2);

/// How long its answer is valid.
const GOOD_FOR: Duration = Duration::from_secs(60 * 60);

/// The cached answer; the absence of a `PATH` is cached too.
#[derive(Serialize, Deserialize)]
struct ShellPath {
    path: Option<String>,
}

/// Returns the login shell's `PATH` if it was read within the last hour.
pub(super) fn remembered(surroundings: &Surroundings) -> Option<OsString> {
    let (_, key) = key(surroundings)?;
    let (told, _) =
        AnswerCache::of(surroundings, "shell")?.get::<ShellPath>(&key, GOOD_FOR, clock::wall())?;
    told.path.map(OsString::from)
}

fn key(surroundings: &Surroundings) -> Option<(PathBuf, String)> {
    let shell = surroundings.path("SHELL")?;
    let key = format!("{} {}", shell.display(), surroundings.home()?.display());
    Some((shell, key))
}

/// Returns the login shell's `PATH`, if there is a shell and it prints one in time.
pub(super) async fn path(surroundings: &Surroundings) -> Option<OsString> {
    /// The queries of one process share one answer.
    static ONE: Mutex<()> = Mutex::const_new(());
    let (shell, key) = key(surroundings)?;
    let cache = AnswerCache::of(surroundings, "shell");
    let _one = ONE.lock().await;
    // Under the lock: the query before this one may have filled the cache.
    if let Some((told, _)) =
        cache.as_ref().and_then(|cache| cache.get::<ShellPath>(&key, GOOD_FOR, clock::wall()))
    {
        return told.path.map(OsString::from);
    }
    let mut command = process::Command::new(&shell, "bowline-shell");
    // All common login shells have these options, and `env` prints the same in all of them.
    command.args = ["-l", "-c", "env"].map(OsString::from).to_vec();
    let kept = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "XDG_CONFIG_HOME", "ZDOTDIR"];
    let kept = kept.into_iter().filter_map(|name| Some((name.into(), surroundings.get(name)?.to_owned())));
    command.env = kept.collect();
    command.env.push(("TERM".into(), "dumb".into()));
    command.cwd = surroundings.home().filter(|home| home.is_dir());
    let said = match ask::run(command, DEADLINE, None).await {
        Ok(answer) => answer.stdout,
        Err(error) => {
            let shell = shell.display();
            tracing::debug!(%shell, error = &error as &dyn std::error::Error, "the login shell did not say its PATH");
            // Cache the failure: the next query would fail too.
            if let Some(cache) = &cache {
                cache.put(&key, &ShellPath { path: None }, clock::wall());
            }
            return None;
        }
    };
    // The last one: the shell's own files may print such a line before `env` does.
    let path = said.lines().rev().find_map(|line| line.strip_prefix("PATH=")).map(str::to_owned);
    if let Some(cache) = &cache {
        cache.put(&key, &ShellPath { path: path.clone() }, clock::wall());
    }
    path.map(|path| OsString::from_vec(path.into_bytes())).filter(|path| !path.as_bytes().is_empty())
}
