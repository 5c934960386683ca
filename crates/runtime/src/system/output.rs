//! The output of a short command of our own: git, docker.

use std::time::Duration;

use bowline_process as process;

/// The most that such a command may say.
const MOST: usize = 64 * 1024 * 1024;

/// The most that is kept of its complaints.
const COMPLAINTS: usize = 4096;

/// Runs a command and returns what it prints; the error is what it says on standard error.
pub(crate) async fn of(
    supervisor: &process::Supervisor,
    command: process::Command,
    patience: Duration,
) -> Result<Vec<u8>, String> {
    let name = command.program.display().to_string();
    let mut child = supervisor.spawn(command).await.map_err(|error| format!("{name}: {}", error.kind))?;
    let run = async {
        let (mut stdout, mut stderr, mut exit) = (Vec::new(), Vec::new(), None);
        let mut open = 2;
        // The exit and the ends of both streams come in any order.
        while exit.is_none() || open > 0 {
            match child.next().await {
                process::ChildEvent::Stdout { bytes, .. } if stdout.len() < MOST => stdout.extend(bytes),
                process::ChildEvent::Stderr { bytes, .. } if stderr.len() < COMPLAINTS => {
                    stderr.extend(bytes)
                }
                process::ChildEvent::StdoutClosed | process::ChildEvent::StderrClosed => open -= 1,
                process::ChildEvent::Exited(ended) => exit = Some(ended),
                // Beyond the limits, read on and drop the bytes: a full pipe would block the command.
                process::ChildEvent::Stdout { .. }
                | process::ChildEvent::Stderr { .. }
                | process::ChildEvent::StdinWritten(_)
                | process::ChildEvent::StdinClosed { .. }
                | process::ChildEvent::Swept { .. }
                | process::ChildEvent::KeeperLost => {}
            }
        }
        (stdout, stderr, exit)
    };
    // At the timeout the child is dropped, which ends the command and all its processes.
    let (stdout, stderr, exit) =
        tokio::time::timeout(patience, run).await.map_err(|_| format!("{name} took too long"))?;
    match exit {
        Some(process::ExitStatus::Code(0)) => Ok(stdout),
        Some(
            process::ExitStatus::Code(_) | process::ExitStatus::Signal(_) | process::ExitStatus::Unknown,
        )
        | None => {
            let said = String::from_utf8_lossy(&stderr).trim().to_owned();
            let ended = exit.map_or_else(|| "unknown exit status".to_owned(), |exit| exit.to_string());
            Err(if said.is_empty() { format!("{name}: {ended}") } else { format!("{name}: {said}") })
        }
    }
}
