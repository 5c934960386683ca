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
        while exit.is_none() || open > 0 {
            match child.next().await {
                process::Happening::Stdout { bytes, .. } if stdout.len() < MOST => stdout.extend(bytes),
                process::Happening::Stderr { bytes, .. } if stderr.len() < COMPLAINTS => stderr.extend(bytes),
                process::Happening::StdoutClosed | process::Happening::StderrClosed => open -= 1,
                process::Happening::Exited(ended) => exit = Some(ended),
                process::Happening::Stdout { .. }
                | process::Happening::Stderr { .. }
                | process::Happening::StdinWritten(_)
                | process::Happening::StdinClosed { .. }
                | process::Happening::Swept { .. }
                | process::Happening::KeeperLost => {}
            }
        }
        (stdout, stderr, exit)
    };
    let (stdout, stderr, exit) =
        tokio::time::timeout(patience, run).await.map_err(|_| format!("{name} took too long"))?;
    match exit {
        Some(process::Exit::Code(0)) => Ok(stdout),
        Some(process::Exit::Code(_) | process::Exit::Signal(_) | process::Exit::Unknown) | None => {
            let said = String::from_utf8_lossy(&stderr).trim().to_owned();
            let ended = exit.map_or_else(|| "an unknown end".to_owned(), |exit| exit.to_string());
            Err(if said.is_empty() { format!("{name}: {ended}") } else { format!("{name}: {said}") })
        }
    }
}
