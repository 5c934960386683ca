//! The policies of a task, and the facts about a workspace that the judge cannot look up itself: links, the branch, settings of
//! agents, our own files.
//!
//! The library reads no policy file. A caller gives a [`PolicySource`], usually one of `bowline-config`, which a run calls again
//! before each judgement.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub use bowline_engine::approvals::{PolicyReach, PolicySet};
use bowline_engine::policy::{PatternError, PolicyAction, PolicyRules, WorkspaceFacts};
use bowline_engine::{ActFacts, ResolvedPaths};
use bowline_protocol::PolicySpec;
use bowline_providers::catalogue;
use bowline_providers::dialect::RequestedAct;

/// The most words of a command whose paths are looked at for links.
const MOST_WORDS: usize = 500;

/// Where the policies of a task come from.
///
/// ```
/// use bowline::policy::{PolicyReach, PolicyRules, PolicySet, PolicySource};
///
/// let mut rules = PolicyRules::built_in();
/// rules.source = "nightly job".into();
/// let policy = PolicySource::of(PolicySet { rules: [rules].into(), reach: PolicyReach::Grants });
/// let task = bowline::task("Update the lock file").provider("claude").policy(policy);
/// # drop(task);
/// ```
#[derive(Clone)]
pub struct PolicySource {
    read: Arc<dyn Fn() -> Result<PolicySet, String> + Send + Sync>,
    files: Vec<PathBuf>,
}

impl std::fmt::Debug for PolicySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicySource").field("files", &self.files).finish_non_exhaustive()
    }
}

impl PolicySource {
    /// Returns policies that are read anew for each judgement. A judgement denies if that fails. `files` are the files that they come
    /// from: no agent may write them.
    pub fn reading(
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<PolicySet, String> + Send + Sync + 'static,
    ) -> Self {
        Self { read: Arc::new(read), files }
    }

    /// Returns policies that do not change.
    pub fn of(set: PolicySet) -> Self {
        Self::reading(Vec::new(), move || Ok(set.clone()))
    }

    /// Returns the policy of a request, in the form of the provider adapters specification.
    pub fn of_spec(spec: &PolicySpec) -> Result<Self, PatternError> {
        let rules = PolicyRules::of_spec("the policy of the request", spec)?;
        Ok(Self::of(PolicySet { rules: [rules].into(), reach: PolicyReach::Grants }))
    }

    /// Returns both: the strictest answer wins.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let files = self.files.iter().chain(&other.files).cloned().collect();
        Self::reading(files, move || {
            let (ours, theirs) = ((self.read)()?, (other.read)()?);
            let grants = ours.reach == PolicyReach::Grants || theirs.reach == PolicyReach::Grants;
            Ok(PolicySet {
                rules: ours.rules.iter().chain(theirs.rules.iter()).cloned().collect(),
                reach: if grants { PolicyReach::Grants } else { PolicyReach::Narrows },
            })
        })
    }

    /// Reads the policies.
    pub fn read(&self) -> Result<PolicySet, String> {
        (self.read)()
    }

    /// Returns the files that the policies come from.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

/// The needs of a run's judgements.
#[derive(Clone, Debug)]
pub(crate) struct PolicyDesk {
    pub(crate) source: PolicySource,
    /// Bowline's own data, settings and program.
    pub(crate) own: Vec<PathBuf>,
    pub(crate) home: Option<PathBuf>,
}

impl PolicyDesk {
    /// Looks up what a judgement needs. Files are read, so it may take time.
    pub(crate) fn facts(&self, acts: &[RequestedAct], roots: &[String], paths: ResolvedPaths) -> ActFacts {
        let roots: Vec<PathBuf> = roots.iter().map(PathBuf::from).filter(|root| root.is_absolute()).collect();
        let cwd = roots.first().cloned().unwrap_or_default();
        let own = self.own.iter().chain(&self.source.files).cloned().collect();
        let words: Vec<String> = acts.iter().map(text_of).collect();
        let workspace = facts_of(&cwd, roots, self.home.clone(), own, &words);
        ActFacts { policies: self.source.read(), workspace, paths }
    }
}

/// Returns the facts for judging an action in a directory. `own` are Bowline's own files and directories: no agent may write them.
pub fn workspace_facts(
    cwd: &Path,
    roots: Vec<PathBuf>,
    home: Option<PathBuf>,
    own: Vec<PathBuf>,
    action: &PolicyAction<'_>,
) -> WorkspaceFacts {
    let text = match action {
        PolicyAction::Shell(text) => (*text).to_owned(),
        PolicyAction::Program(words) => words.join("\n"),
        PolicyAction::Tool { input, .. } => input.to_string(),
        PolicyAction::Read(path) | PolicyAction::Write(path) => path.to_string_lossy().into_owned(),
        PolicyAction::Network(_) => String::new(),
    };
    facts_of(cwd, roots, home, own, &[text])
}

fn text_of(act: &RequestedAct) -> String {
    match act {
        RequestedAct::Shell(text) | RequestedAct::Read(text) | RequestedAct::Write(text) => text.clone(),
        RequestedAct::Program(words) => words.join("\n"),
        RequestedAct::Tool { input, .. } => input.to_string(),
        RequestedAct::Network(_) => String::new(),
    }
}

fn facts_of(
    cwd: &Path,
    roots: Vec<PathBuf>,
    home: Option<PathBuf>,
    own: Vec<PathBuf>,
    texts: &[String],
) -> WorkspaceFacts {
    WorkspaceFacts {
        links: links(cwd, texts),
        branch: roots.first().and_then(|root| branch(root)),
        roots,
        scratch: vec![std::env::temp_dir()],
        home,
        agent_settings: agent_settings(),
        own,
        cwd: cwd.to_owned(),
    }
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
        // A worktree or a submodule: the file names the directory.
        let text = std::fs::read_to_string(&git).ok()?;
        root.join(text.trim().strip_prefix("gitdir: ")?)
    };
    let head = std::fs::read_to_string(dir.join("HEAD")).ok()?;
    head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
}

/// Looks for links in the paths that texts name.
fn links(cwd: &Path, texts: &[String]) -> BTreeMap<PathBuf, PathBuf> {
    let mut links = BTreeMap::new();
    let ends = |next: char| next.is_whitespace() || "'\"`;|&<>(){}=,:".contains(next);
    let words = texts.iter().flat_map(|text| text.split(ends));
    for word in words.filter(|word| !word.is_empty() && !word.starts_with('-')).take(MOST_WORDS) {
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
