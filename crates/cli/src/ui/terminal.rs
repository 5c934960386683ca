//! Properties of the terminal and of the standard streams. No other module queries them.

use std::fs::File;
use std::io::IsTerminal as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use bowline::PermissionMode;

use super::keyboard;
use crate::human::{AgentHints, DetailLevel, Glyphs, Remedies, RenderOptions, Screen, Surface};

/// Returns the options of the renderer for our own streams and the run.
pub(crate) fn options(detail: DetailLevel, permission: PermissionMode, cwd: Option<String>) -> RenderOptions {
    let zone = jiff::tz::TimeZone::system();
    RenderOptions {
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
    // Device and inode identify a file: after `>log 2>&1` two descriptors lead to one file.
    let one_file = !stdout_tty && !stderr_tty && files.is_some_and(|(stdout, stderr)| stdout == stderr);
    // In `bowline run … | less` the reader draws on the terminal that standard error draws on.
    let piped = stderr_tty && is_pipe(&stdout);
    Screen { stdout: surface(stdout_tty).rendering(), stderr: surface(stderr_tty), one_file, piped }
}

/// Returns whether colour may be used on a terminal.
pub(crate) fn has_colour() -> bool {
    // By no-color.org an empty NO_COLOR does not count. `variable` leaves empty ones out.
    variable("NO_COLOR").is_none() && variable("TERM").as_deref() != Some("dumb")
}

/// Returns the control sequence by which terminals show a desktop notice.
pub(crate) fn notice_sequence(text: &str) -> Option<String> {
    let term = variable("TERM")?;
    // The console prints unknown sequences, and multiplexers keep them from the terminal.
    if ["dumb", "linux", "screen", "tmux"].iter().any(|name| term.starts_with(name)) {
        return None;
    }
    // VTE and rxvt know only this one. The others know OSC 9 of iTerm2, and some know both and would show two notices.
    let by_name = term.starts_with("rxvt") || variable("VTE_VERSION").is_some();
    // The text of OSC 9 must not begin with a number: ConEmu takes that for another command.
    Some(match by_name {
        true => format!("\x1b]777;notify;Bowline;{text}\x07"),
        false => format!("\x1b]9;Bowline: {text}\x07"),
    })
}

/// Returns the width of the terminal that shows standard output.
pub(crate) fn stdout_width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(80)
}

/// Returns whether another program reads a stream. It may print to the terminal that we draw on.
fn is_pipe(stream: &impl AsFd) -> bool {
    let file = stream.as_fd().try_clone_to_owned().ok().and_then(|file| File::from(file).metadata().ok());
    file.is_some_and(|file| file.file_type().is_fifo() || file.file_type().is_socket())
}

/// Waits until the reader of standard output has emptied the pipe, at most [`READ_BY`], and then a moment for it to print. Nothing shows when
/// the reader has printed.
pub(crate) fn wait_for_reader() {
    let pipe = std::io::stdout();
    const STEP: Duration = Duration::from_millis(2);
    let waits = READ_BY.as_millis() / STEP.as_millis();
    for _ in 0..waits {
        // FIONREAD is the number of unread bytes in a pipe (pipe(7)). The kernel has no event for an empty pipe, so poll.
        match rustix::io::ioctl_fionread(&pipe) {
            Ok(0) | Err(_) => break,
            Ok(_) => std::thread::sleep(STEP),
        }
    }
    std::thread::sleep(PRINTED_BY);
}

/// The longest wait for a reader that does not read.
const READ_BY: Duration = Duration::from_millis(250);

/// The time that a reader gets to print what it has read.
const PRINTED_BY: Duration = Duration::from_millis(15);

/// Returns whether a person at the terminal can be asked: both sides of the conversation are the terminal, it can erase a line, and
/// no pipe leads to a program that may read keys itself, as a pager does.
pub(crate) fn can_ask() -> bool {
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let erases = Surface::terminal(width(), variable("TERM").as_deref(), false).erases;
    stderr.is_terminal() && erases && !is_pipe(&stdout) && variable("CI").is_none() && keyboard::is_there()
}

/// Returns the width of the terminal.
pub(crate) fn width() -> u16 {
    let size = rustix::termios::tcgetwinsize(std::io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()));
    // A pseudoterminal whose size was never set has 0 columns.
    size.ok().map(|size| size.ws_col).filter(|width| *width > 0).unwrap_or(80)
}

/// Returns the number of rows of the terminal.
pub(crate) fn height() -> u16 {
    let size = rustix::termios::tcgetwinsize(std::io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()));
    size.ok().map(|size| size.ws_row).filter(|height| *height > 0).unwrap_or(24)
}

/// Returns the characters that the terminal can show.
pub(crate) fn glyphs() -> Glyphs {
    // The order of locale(7): the first variable that is set counts.
    let [all, ctype, lang] = ["LC_ALL", "LC_CTYPE", "LANG"].map(variable);
    Glyphs::of_locale([all.as_deref(), ctype.as_deref(), lang.as_deref()])
}

/// Returns the directory of a run, or the current one: absolute, and without symbolic links. A directory that does not exist
/// here may be one of a container.
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
