//! Work for requests of the agent, beside the loop of the run: looking at the file system may wait for a disk or a network.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::policy::WorkspaceFacts;
use bowline_engine::{ActFacts, HostResult, HostWork, HostWorkId, ResolvedPaths};
use bowline_providers::dialect::{HostProblem, HostProblemKind};
use tokio::task::JoinSet;

use super::terminals::{self, HostTerminals};
use crate::run::agent::Launch;
use crate::run::policy::PolicyDesk;
use crate::system::real_path::real_path;
use crate::system::workspace;

/// How long a look at the file system may take. A network that does not answer must not hold the agent up for ever.
const LOOK_AT_MOST: Duration = Duration::from_secs(5);

/// How long a file may take to be read or written.
const CALL_AT_MOST: Duration = Duration::from_secs(30);

/// The work that is under way. Dropping it drops the results.
#[derive(Debug, Default)]
pub(super) struct HostDesk {
    works: JoinSet<(HostWorkId, HostResult)>,
    terminals: Arc<HostTerminals>,
}

impl HostDesk {
    /// Looks at the file system beside the loop, and returns `late` if that takes too long or panics.
    fn look(&mut self, id: HostWorkId, look: impl FnOnce() -> HostResult + Send + 'static, late: HostResult) {
        self.works.spawn(async move {
            let looked = tokio::time::timeout(LOOK_AT_MOST, tokio::task::spawn_blocking(look)).await;
            (id, looked.ok().and_then(Result::ok).unwrap_or(late))
        });
    }

    /// Begins a piece of work.
    pub(super) fn begin(
        &mut self,
        id: HostWorkId,
        work: HostWork,
        launch: &Launch,
        policy: Option<&Arc<PolicyDesk>>,
    ) {
        let place = if launch.is_in_container() { FilePlace::Container } else { FilePlace::Here };
        match work {
            HostWork::Resolve { files, roots } => {
                // Nothing is known of what was not found out in time, so that such a request counts as one outside.
                let unknown = ResolvedPaths { files: vec![None; files.len()], roots: Vec::new() };
                let look = move || HostResult::Resolved(resolved(&files, &roots, place));
                self.look(id, look, HostResult::Resolved(unknown));
            }
            HostWork::Judge { acts, files, roots } => {
                let policy = policy.cloned();
                let look = move || {
                    let paths = resolved(&files, &roots, place);
                    match policy {
                        Some(desk) => HostResult::Judged(Box::new(desk.facts(&acts, &roots, paths))),
                        None => unjudged("the run has none"),
                    }
                };
                self.look(id, look, unjudged("reading it took too long"));
            }
            HostWork::Call { .. } if place == FilePlace::Container => {
                // Not offered either: the files of this machine are not those of the agent.
                let message = "the host has no files of the container".to_owned();
                let problem = HostProblem { kind: HostProblemKind::Refused, message };
                self.works.spawn(async move { (id, HostResult::Called(Err(problem))) });
            }
            HostWork::Call { call, roots } if terminals::is_about_one(&call) => {
                let (terminals, shell) = (self.terminals.clone(), launch.shell());
                self.works.spawn(async move {
                    (id, HostResult::Called(terminals.carry_out(call, roots, shell).await))
                });
            }
            HostWork::Call { call, roots } => {
                self.works.spawn(async move {
                    let done = tokio::task::spawn_blocking(move || workspace::carry_out(call, &roots));
                    let result = match tokio::time::timeout(CALL_AT_MOST, done).await {
                        Ok(Ok(result)) => result,
                        // A write may still succeed later: a thread that waits for a disk cannot be stopped.
                        Ok(Err(_)) | Err(_) => {
                            let message = "the file system did not answer in time".to_owned();
                            Err(HostProblem { kind: HostProblemKind::Failed, message })
                        }
                    };
                    (id, HostResult::Called(result))
                });
            }
        }
    }

    /// Kills the commands of all terminals: the agent that had them is gone. What is being started is killed when it has started.
    pub(super) fn end_terminals(&mut self) {
        std::mem::take(&mut self.terminals).close();
    }

    /// Waits for a piece of work. `None` at once if none is under way.
    pub(super) async fn done(&mut self) -> Option<(HostWorkId, HostResult)> {
        loop {
            match self.works.join_next().await? {
                Ok(done) => return Some(done),
                // A panic on a blocking thread is a result above, so this is a fault of the task itself.
                Err(error) => tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a request of the agent stays open"
                ),
            }
        }
    }
}

/// Where the files of an agent are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilePlace {
    /// On this machine, under the same names.
    Here,
    /// In a container, whose file system is another one.
    Container,
}

/// Returns the result for a judgement without policies: it denies.
fn unjudged(why: &str) -> HostResult {
    HostResult::Judged(Box::new(ActFacts {
        policies: Err(why.to_owned()),
        workspace: WorkspaceFacts::default(),
        paths: ResolvedPaths::default(),
    }))
}

/// Follows the links of paths.
fn resolved(files: &[String], roots: &[String], place: FilePlace) -> ResolvedPaths {
    let project = PathBuf::from(roots.first().map(String::as_str).unwrap_or_default());
    // A relative directory counts against that of this process, as it does when the agent is started.
    let project = std::path::absolute(&project).unwrap_or(project);
    let real = |path: &String| {
        let path = project.join(Path::new(path));
        match place {
            FilePlace::Here => real_path(&path),
            FilePlace::Container => Some(path),
        }
    };
    ResolvedPaths { files: files.iter().map(real).collect(), roots: roots.iter().filter_map(real).collect() }
}
