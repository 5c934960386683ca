//! The terminals of an agent: commands that the host runs for it inside the workspace, and their output.
//!
//! A command is a child of the keeper like the agent, under the mark of the session, so that the death of any process of Bowline
//! ends it. It has pipes and no input. Decisions are taken before a request gets here.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_process as process;
use bowline_protocol::Exit;
use bowline_providers::dialect::{
    HostAnswer, HostCall, HostProblem, HostProblemKind, TerminalCommand, TerminalName,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::system::causes::in_full;
use crate::system::workspace;

/// How many terminals an agent may have at once.
const AT_MOST: usize = 16;

/// How much output of a terminal is kept, at most.
const OUTPUT: usize = 1 << 20;

/// How long the output may stay open after the command has exited, until its exit is reported. A process in the background may hold
/// it open for ever.
const LATE_OUTPUT: Duration = Duration::from_millis(200);

/// Returns whether a request is about a terminal.
pub(super) fn is_about_one(call: &HostCall) -> bool {
    match call {
        HostCall::CreateTerminal(_)
        | HostCall::TerminalOutput(_)
        | HostCall::WaitForExit(_)
        | HostCall::KillTerminal(_)
        | HostCall::ReleaseTerminal(_) => true,
        HostCall::ReadText { .. } | HostCall::WriteText { .. } => false,
    }
}

/// The terminals of one process of an agent. Dropping it kills their commands.
#[derive(Debug, Default)]
pub(super) struct HostTerminals(Mutex<TerminalTable>);

#[derive(Debug, Default)]
struct TerminalTable {
    /// `None` while the command is being started.
    open: BTreeMap<String, Option<HostTerminal>>,
    last: u64,
    /// The agent is gone.
    closed: bool,
}

/// A terminal. Dropping it kills its command.
#[derive(Debug)]
struct HostTerminal {
    output: Arc<Mutex<TerminalOutput>>,
    exit: watch::Receiver<Option<Exit>>,
    control: process::ChildControl,
    /// The task that reads the output, and owns the child.
    reader: AbortHandle,
}

impl Drop for HostTerminal {
    fn drop(&mut self) {
        // Not by the abort alone: the task is dropped only when the runtime gets to it.
        self.control.kill_tree();
        self.reader.abort();
    }
}

impl HostTerminals {
    /// Carries out a request. `shell` starts commands.
    pub(super) async fn carry_out(
        &self,
        call: HostCall,
        roots: Vec<String>,
        shell: Option<(process::Supervisor, process::Command)>,
    ) -> Result<HostAnswer, HostProblem> {
        match call {
            HostCall::CreateTerminal(command) => {
                let shell = shell.ok_or_else(|| refused("terminals are not offered".to_owned()))?;
                self.create(command, roots, shell).await.map(HostAnswer::Terminal)
            }
            HostCall::TerminalOutput(name) => self.with(&name, |terminal| {
                let exit = *terminal.exit.borrow();
                let (text, truncated) = locked(&terminal.output).text(exit.is_some());
                HostAnswer::Output { text, truncated, exit }
            }),
            HostCall::WaitForExit(name) => {
                let mut exit = self.with(&name, |terminal| terminal.exit.clone())?;
                // Without a sender, the terminal was released.
                match exit.wait_for(Option::is_some).await.map(|exit| *exit) {
                    Ok(Some(exit)) => Ok(HostAnswer::Exited(exit)),
                    Ok(None) | Err(_) => Err(refused(format!("the terminal `{}` was released", name.0))),
                }
            }
            HostCall::KillTerminal(name) => self.with(&name, |terminal| {
                terminal.control.kill_tree();
                HostAnswer::Ended
            }),
            HostCall::ReleaseTerminal(name) => {
                // One that is being started has no name that the agent could know.
                let released = self.table(|table| match table.open.get(&name.0) {
                    Some(Some(_)) => table.open.remove(&name.0),
                    Some(None) | None => None,
                });
                released.map(|_| HostAnswer::Ended).ok_or_else(|| unknown(&name))
            }
            HostCall::ReadText { .. } | HostCall::WriteText { .. } => {
                Err(refused("a file is no terminal".to_owned()))
            }
        }
    }

    /// Kills the commands of all terminals, and admits no more.
    pub(super) fn close(&self) {
        let open = self.table(|table| {
            table.closed = true;
            std::mem::take(&mut table.open)
        });
        drop(open);
    }

    async fn create(
        &self,
        command: TerminalCommand,
        roots: Vec<String>,
        (supervisor, shell): (process::Supervisor, process::Command),
    ) -> Result<TerminalName, HostProblem> {
        let TerminalCommand { program, args, env, cwd, output_limit } = command;
        let opened = tokio::task::spawn_blocking(move || workspace::directory(cwd.as_deref(), &roots)).await;
        let dir = opened.map_err(|error| failed(error.to_string()))??;
        let name = self.reserve()?;
        // A name is looked up in the search path. A path counts from the directory of the command.
        let program = if program.contains('/') { dir.path.join(program) } else { PathBuf::from(program) };
        let mut child = process::Command { program, ..shell };
        child.args = args.into_iter().map(Into::into).collect();
        child.env.extend(env.into_iter().map(|(name, value)| (name.into(), value.into())));
        child.cwd = Some(dir.for_child());
        let spawned = supervisor.spawn(child).await;
        drop(dir);
        let started = spawned.map(|child| HostTerminal::of(child, output_limit));
        self.table(|table| match started {
            Ok(terminal) if !table.closed => {
                table.open.insert(name.clone(), Some(terminal));
                Ok(TerminalName(name))
            }
            Ok(_) => Err(refused("the agent is gone".to_owned())),
            Err(error) => {
                table.open.remove(&name);
                Err(failed(in_full(&error)))
            }
        })
    }

    /// Takes a place for a terminal that is about to be started.
    fn reserve(&self) -> Result<String, HostProblem> {
        self.table(|table| {
            if table.closed {
                return Err(refused("the agent is gone".to_owned()));
            }
            if table.open.len() >= AT_MOST {
                return Err(refused(format!("there are {AT_MOST} terminals already; release one")));
            }
            table.last += 1;
            let name = format!("t{}", table.last);
            table.open.insert(name.clone(), None);
            Ok(name)
        })
    }

    fn with<T>(&self, name: &TerminalName, act: impl FnOnce(&HostTerminal) -> T) -> Result<T, HostProblem> {
        self.table(|table| match table.open.get(&name.0) {
            Some(Some(terminal)) => Ok(act(terminal)),
            Some(None) | None => Err(unknown(name)),
        })
    }

    fn table<T>(&self, act: impl FnOnce(&mut TerminalTable) -> T) -> T {
        act(&mut locked(&self.0))
    }
}

impl HostTerminal {
    fn of(child: process::Child, limit: Option<u64>) -> Self {
        let limit =
            limit.and_then(|limit| usize::try_from(limit).ok()).map_or(OUTPUT, |limit| limit.min(OUTPUT));
        let output = Arc::new(Mutex::new(TerminalOutput { limit, ..TerminalOutput::default() }));
        let (sender, exit) = watch::channel(None);
        let control = child.control();
        let reader = tokio::spawn(read(child, output.clone(), sender)).abort_handle();
        Self { output, exit, control, reader }
    }
}

/// Reads the output of a command, and reports its exit. Never ends by itself: the child lives as long as its terminal, because
/// dropping it kills also what the command left in the background.
async fn read(
    mut child: process::Child,
    output: Arc<Mutex<TerminalOutput>>,
    exit: watch::Sender<Option<Exit>>,
) {
    let mut open = 2;
    let mut ended: Option<(Exit, Instant)> = None;
    loop {
        let event = match ended {
            Some((code, until)) => match tokio::time::timeout_at(until, child.next()).await {
                Ok(event) => event,
                Err(_) => {
                    exit.send_replace(Some(code));
                    ended = None;
                    continue;
                }
            },
            None => child.next().await,
        };
        match event {
            process::ChildEvent::Stdout { bytes, .. } | process::ChildEvent::Stderr { bytes, .. } => {
                locked(&output).push(&bytes);
            }
            process::ChildEvent::StdoutClosed | process::ChildEvent::StderrClosed => open -= 1,
            process::ChildEvent::Exited(status) => {
                let code = match status {
                    process::ExitStatus::Code(code) => Exit::Code(code),
                    process::ExitStatus::Signal(signal) => Exit::Signal(signal),
                    // It died with its keeper, whose end kills its children with SIGKILL.
                    process::ExitStatus::Unknown => Exit::Signal(9),
                };
                ended = Some((code, Instant::now() + LATE_OUTPUT));
            }
            process::ChildEvent::StdinWritten(_)
            | process::ChildEvent::StdinClosed { .. }
            | process::ChildEvent::Swept { .. }
            | process::ChildEvent::KeeperLost => {}
        }
        if open == 0
            && let Some((code, _)) = ended.take()
        {
            exit.send_replace(Some(code));
        }
    }
}

/// The end of the output of a command.
#[derive(Debug, Default)]
struct TerminalOutput {
    bytes: VecDeque<u8>,
    limit: usize,
    /// Whether the beginning is missing.
    cut: bool,
}

impl TerminalOutput {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let above = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..above);
        self.cut |= above > 0;
    }

    /// Returns the text, and whether its beginning is missing. A character whose end was not read yet is left out.
    fn text(&mut self, is_complete: bool) -> (String, bool) {
        let mut bytes: &[u8] = self.bytes.make_contiguous();
        if self.cut {
            // The rest of a character whose beginning is gone.
            let rest = bytes.iter().take(3).take_while(|byte| (**byte & 0xC0) == 0x80).count();
            bytes = &bytes[rest..];
        }
        if !is_complete {
            let tail = bytes.len().saturating_sub(3);
            let begins = bytes[tail..].iter().rposition(|byte| *byte >= 0xC0).map(|place| tail + place);
            let is_partial = |begins: &usize| {
                std::str::from_utf8(&bytes[*begins..]).is_err_and(|error| error.error_len().is_none())
            };
            if let Some(begins) = begins.filter(is_partial) {
                bytes = &bytes[..begins];
            }
        }
        let text = String::from_utf8_lossy(bytes);
        // A byte that is not UTF-8 becomes three.
        let above = text.len().saturating_sub(self.limit);
        let from = text.ceil_char_boundary(above);
        (text[from..].to_owned(), self.cut || from > 0)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(name: &TerminalName) -> HostProblem {
    refused(format!("there is no terminal `{}`", name.0))
}

fn refused(message: String) -> HostProblem {
    HostProblem { kind: HostProblemKind::Refused, message }
}

fn failed(message: String) -> HostProblem {
    HostProblem { kind: HostProblemKind::Failed, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(limit: usize, pieces: &[&[u8]], is_complete: bool) -> (String, bool) {
        let mut output = TerminalOutput { limit, ..TerminalOutput::default() };
        pieces.iter().for_each(|piece| output.push(piece));
        assert!(output.bytes.len() <= limit);
        output.text(is_complete)
    }

    #[test]
    fn the_end_of_an_output_is_kept_and_no_character_is_cut() {
        for (limit, pieces, expected, cut) in [
            (10, &["one\n".as_bytes(), b"two\n"][..], "one\ntwo\n", false),
            (4, &[b"one\n", b"two\n"], "two\n", true),
            (4, &["aäöü".as_bytes()], "öü", true),
            (5, &["aäöü".as_bytes()], "öü", true),
            (6, &["aäöü".as_bytes()], "äöü", true),
            (3, &["😀😀".as_bytes()], "", true),
            (0, &[b"x"], "", true),
            (0, &[], "", false),
            // Bytes that are no text.
            (4, &[b"\xff\xff\xff\xff"], "\u{fffd}", true),
        ] {
            assert_eq!(output(limit, pieces, true), (expected.to_owned(), cut), "{limit} {pieces:?}");
        }
    }

    #[test]
    fn a_character_that_is_half_read_waits_for_its_end() {
        let half = &"x😀".as_bytes()[..3];
        assert_eq!(output(64, &[half], false), ("x".to_owned(), false));
        assert_eq!(output(64, &[half], true), ("x\u{fffd}".to_owned(), false));
        assert_eq!(output(64, &["x😀".as_bytes()], false), ("x😀".to_owned(), false));
        assert_eq!(output(64, &[b"x\xff"], false), ("x\u{fffd}".to_owned(), false));
    }
}
