//! The `PATH` of the login shell. Who starts us from a desktop, an editor or a service has another one than who types
//! into a terminal, and version managers change it in the shell's own files.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use bowline_process as process;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::{Surroundings, ask};
use crate::clock;
use crate::keep::Keep;

/// How long the shell may take; some people's do much.
const DEADLINE: Duration = Duration::from_secs(2);

/// How long its answer is good.
const GOOD_FOR: Duration = Duration::from_secs(60 * 60);

/// What is remembered; nothing is worth remembering too.
#[derive(Serialize, Deserialize)]
struct Told {
    path: Option<String>,
}

/// Returns the login shell's `PATH` as it was told within the last hour.
pub(super) fn remembered(surroundings: &Surroundings) -> Option<OsString> {
    let (_, key) = key(surroundings)?;
    let (told, _) = Keep::of(surroundings, "shell")?.get::<Told>(&key, GOOD_FOR, clock::wall())?;
    told.path.map(OsString::from)
}

fn key(surroundings: &Surroundings) -> Option<(PathBuf, String)> {
    let shell = surroundings.path("SHELL")?;
    let key = format!("{} {}", shell.display(), surroundings.home()?.display());
    Some((shell, key))
}

/// Returns the login shell's `PATH`, if there is a shell and it says one in time.
pub(super) async fn path(surroundings: &Surroundings) -> Option<OsString> {
    /// The questions of one process share one answer.
    static ONE: Mutex<()> = Mutex::const_new(());
    let (shell, key) = key(surroundings)?;
    let keep = Keep::of(surroundings, "shell");
    let _one = ONE.lock().await;
    if let Some((told, _)) = keep.as_ref().and_then(|keep| keep.get::<Told>(&key, GOOD_FOR, clock::wall())) {
        return told.path.map(OsString::from);
    }
    let mut command = process::Command::new(&shell, "bowline-shell");
    // All shells that people log in with know these; `env` prints the same in all of them.
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
            // It would not say it to the next one either.
            if let Some(keep) = &keep {
                keep.put(&key, &Told { path: None }, clock::wall());
            }
            return None;
        }
    };
    let path = said.lines().rev().find_map(|line| line.strip_prefix("PATH=")).map(str::to_owned);
    if let Some(keep) = &keep {
        keep.put(&key, &Told { path: path.clone() }, clock::wall());
    }
    path.map(|path| OsString::from_vec(path.into_bytes())).filter(|path| !path.as_bytes().is_empty())
}
