//! The facts about the workspace that the judge cannot look up: links, the branch, settings of agents, our own files.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use bowline::journal::Home;
use bowline::policy::{PolicyAction, WorkspaceFacts};
use bowline_config::Places;
use bowline_providers::catalogue;

use crate::error::{CommandError, Fault};

/// The most words of a command whose paths are looked at for links.
const MOST_WORDS: usize = 500;

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
    let mut roots: Vec<PathBuf> = vec![places.project().unwrap_or_else(|| dir.clone())];
    roots.push(dir.clone());
    Ok(WorkspaceFacts {
        links: links(&dir, action),
        branch: branch(&roots[0]),
        roots,
        scratch: vec![std::env::temp_dir()],
        home: places.home.clone(),
        agent_settings: agent_settings(),
        own,
        cwd: dir,
    })
}

/// Lists the files from which agents take settings and hooks. A `.env` is a secret, and no setting.
fn agent_settings() -> Vec<String> {
    let files = catalogue::built_in().flat_map(|manifest| &manifest.repository.files);
    let mut names: Vec<String> = files
        .map(|file| file.trim_end_matches('/').to_owned())
        .filter(|file| !file.is_empty() && !file.starts_with(".env"))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Reads the branch that is checked out, from the files of git.
fn branch(root: &Path) -> Option<String> {
    let git = root.join(".git");
    let dir = if git.is_dir() {
        git
    } else {
        let text = std::fs::read_to_string(&git).ok()?;
        root.join(text.trim().strip_prefix("gitdir: ")?)
    };
    let head = std::fs::read_to_string(dir.join("HEAD")).ok()?;
    head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
}

/// Looks for links in the paths that an action names.
fn links(cwd: &Path, action: &PolicyAction<'_>) -> BTreeMap<PathBuf, PathBuf> {
    let text = match action {
        PolicyAction::Shell(text) => (*text).to_owned(),
        PolicyAction::Program(words) => words.join("\n"),
        PolicyAction::Tool { input, .. } => input.to_string(),
        PolicyAction::Read(path) | PolicyAction::Write(path) => path.to_string_lossy().into_owned(),
        PolicyAction::Network(_) => String::new(),
    };
    let mut links = BTreeMap::new();
    let ends = |next: char| next.is_whitespace() || "'\"`;|&<>(){}=,:".contains(next);
    for word in text.split(ends).filter(|word| !word.is_empty() && !word.starts_with('-')).take(MOST_WORDS) {
        let mut path = PathBuf::new();
        for part in cwd.join(word).components() {
            if part == Component::ParentDir {
                path.pop();
                continue;
            }
            path.push(part);
            if let Ok(target) = std::fs::read_link(&path) {
                links.insert(path.clone(), target);
            }
        }
    }
    links
}
