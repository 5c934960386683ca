//! An agent in a container: what has to be ended there, because `docker exec` does not.
//!
//! The command that runs on our side is only a messenger. Signals go into the container by a second `docker exec`, which
//! finds the agent by the pid that it wrote down and by the session's mark. What is still alive there after it was
//! killed, or what nobody can ask about any more, is told as left behind.

use std::ffi::OsString;
use std::time::Duration;

use bowline_engine::Survivor;
use bowline_process as process;
use bowline_providers::invocation::docker::{self, Container, Signal};

/// The longest that one question to the container may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often it is looked whether the killed are gone, and the time between.
const LOOKS: (usize, Duration) = (10, Duration::from_millis(50));

/// A container in which an agent runs.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    pub(crate) supervisor: process::Supervisor,
    pub(crate) provider: String,
    pub(crate) container: String,
    pub(crate) session: String,
    /// The environment that `docker` itself needs.
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl Inside {
    /// Signals the agent and all that it started, without waiting for it.
    pub(crate) fn signal(&self, signal: Signal) {
        let inside = self.clone();
        tokio::spawn(async move {
            if let Err(why) = inside.ask(signal).await {
                // The sweep at the end asks again and tells.
                tracing::warn!(
                    container = inside.container,
                    why,
                    "the agent in the container was not signalled"
                );
            }
        });
    }

    /// Ends what is left in the container and returns what could not be ended.
    pub(crate) async fn sweep(self) -> Vec<Survivor> {
        let (looks, pause) = LOOKS;
        let mut left = Vec::new();
        for _ in 0..looks {
            left = match self.ask(Signal::Kill).await {
                Ok(left) => left,
                Err(why) => {
                    let command = format!("the agent in container {} ({why})", self.container);
                    return vec![Survivor { pid: 0, command }];
                }
            };
            if left.is_empty() {
                return left;
            }
            tokio::time::sleep(pause).await;
        }
        left
    }

    /// Sends a signal into the container and returns who was there to get it.
    async fn ask(&self, signal: Signal) -> Result<Vec<Survivor>, String> {
        let container = Container { name: &self.container, cwd: None, session: &self.session, key: None };
        let words =
            docker::stop(&self.provider, &container, signal).map_err(|refusal| refusal.to_string())?;
        let (program, args) = words.split_first().ok_or("there is no command")?;
        let mut command = process::Command::new(program, "bowline-docker");
        command.args = args.iter().map(OsString::from).collect();
        command.env.clone_from(&self.env);
        let output = crate::output::of(&self.supervisor, command, PATIENCE).await?;
        let survivor = |line: &str| {
            let (pid, name) = line.split_once(' ').unwrap_or((line, ""));
            Some(Survivor {
                pid: pid.parse().ok()?,
                command: format!("{name} in container {}", self.container),
            })
        };
        Ok(String::from_utf8_lossy(&output).lines().filter_map(survivor).collect())
    }
}
