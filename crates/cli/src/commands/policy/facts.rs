//! The facts for a judgement of the command line: its directory, and our own files.

use std::path::{Path, PathBuf};

use bowline::journal::Home;
use bowline::policy::{PolicyAction, WorkspaceFacts, workspace_facts};
use bowline_config::Places;

use crate::error::{CommandError, Fault};

/// Gathers the facts for an action in a directory.
pub(super) fn gather(
    cwd: Option<&Path>,
    policies: &[PathBuf],
    action: &PolicyAction<'_>,
) -> Result<WorkspaceFacts, CommandError> {
    let places = Places::from_env(cwd);
    let Some(dir) = places.cwd.clone().filter(|dir| dir.is_dir()) else {
        let what = "the directory of the action does not exist";
        return Err(CommandError::new(Fault::Usage, what).hint("name one that exists with `--cwd DIR`"));
    };
    let mut own: Vec<PathBuf> = places.user.clone().into_iter().collect();
    own.extend(Home::from_env().ok().map(|home| home.path().to_owned()));
    own.extend(std::env::current_exe().ok());
    own.extend(policies.iter().filter_map(|file| std::path::absolute(file).ok()));
    let roots = vec![places.project().unwrap_or_else(|| dir.clone()), dir.clone()];
    Ok(workspace_facts(&dir, roots, places.home.clone(), own, action))
}
