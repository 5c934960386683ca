//! What the terminal is like, if there is one. The only place that looks.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use bowline::PermissionMode;

use crate::human::{AgentHints, Detail, Glyphs, Options, Remedies, Screen, Surface};

/// Returns what the renderer has to know about our own streams and the run.
pub(crate) fn options(detail: Detail, permission: PermissionMode, cwd: Option<String>) -> Options {
    let zone = jiff::tz::TimeZone::system();
    Options {
        screen: screen(),
        glyphs: glyphs(),
        detail,
        zone,
        permission,
        remedies: Remedies::USUAL,
        agent: AgentHints::default(),
        cwd,
        provider: None,
    }
}

/// Describes our own streams.
fn screen() -> Screen {
    let (term, colour) = (variable("TERM"), has_colour());
    let surface = |tty: bool| {
        if tty { Surface::terminal(width(), term.as_deref(), colour) } else { Surface::PIPE }
    };
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let (stdout_tty, stderr_tty) = (stdout.is_terminal(), stderr.is_terminal());
    let file = |stream: BorrowedFd<'_>| {
        let file = File::from(stream.try_clone_to_owned().ok()?).metadata().ok()?;
        Some((file.dev(), file.ino()))
    };
    let files = file(stdout.as_fd()).zip(file(stderr.as_fd()));
    let one_file = !stdout_tty && !stderr_tty && files.is_some_and(|(stdout, stderr)| stdout == stderr);
    let piped = stderr_tty && is_pipe(&stdout);
    Screen { stdout: surface(stdout_tty).rendering(), stderr: surface(stderr_tty), one_file, piped }
}

/// Says whether a terminal may be given colour.
pub(crate) fn has_colour() -> bool {
    variable("NO_COLOR").is_none() && variable("TERM").as_deref() != Some("dumb")
}

/// Returns the width of the terminal that shows standard output.
pub(crate) fn stdout_width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(80)
}

/// Says whether another program reads a stream, which may show it on the terminal that we draw on.
fn is_pipe(stream: &impl AsFd) -> bool {
    let file = stream.as_fd().try_clone_to_owned().ok().and_then(|file| File::from(file).metadata().ok());
    file.is_some_and(|file| file.file_type().is_fifo() || file.file_type().is_socket())
}

/// Waits until the reader of a pipe has taken everything out of it, and then a moment for it to print that; at most
/// [`READ_BY`]. When the reader has printed, only the reader knows.
pub(crate) fn wait_for_reader(pipe: impl AsFd) {
    const STEP: Duration = Duration::from_millis(2);
    let waits = READ_BY.as_millis() / STEP.as_millis();
    for _ in 0..waits {
        match rustix::io::ioctl_fionread(&pipe) {
            Ok(0) | Err(_) => break,
            Ok(_) => std::thread::sleep(STEP),
        }
    }
    std::thread::sleep(PRINTED_BY);
}

/// How long a reader is waited for that does not read.
const READ_BY: Duration = Duration::from_millis(250);

/// How long a reader has for printing what it has read.
const PRINTED_BY: Duration = Duration::from_millis(15);

/// Returns the width of the terminal.
pub(crate) fn width() -> u16 {
    let size = rustix::termios::tcgetwinsize(std::io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()));
    size.ok().map(|size| size.ws_col).filter(|width| *width > 0).unwrap_or(80)
}

/// Returns which signs the terminal can show.
fn glyphs() -> Glyphs {
    let [all, ctype, lang] = ["LC_ALL", "LC_CTYPE", "LANG"].map(variable);
    Glyphs::of_locale([all.as_deref(), ctype.as_deref(), lang.as_deref()])
}

/// Says whether we were started with hangups ignored.
pub(crate) fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Returns the directory of a run, or else the current one, as programs in it see it: absolute, and without links. One that
/// is not there may lie in a container.
pub(crate) fn cwd(asked: Option<&Path>) -> Option<String> {
    let dir = match asked {
        Some(dir) => Some(dir.canonicalize().unwrap_or_else(|_| dir.to_owned())),
        None => std::env::current_dir().ok(),
    };
    dir.map(|dir| dir.to_string_lossy().into_owned())
}

/// Returns a variable of our environment, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "the command line is an edge at which the environment is read")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
