//! A terminal for tests: a shell line runs on it, and what a person would see is returned.

use std::io::Read as _;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::in_shell;
use crate::world::Call;

/// The most rows that a test looks at.
const ROWS: u16 = 120;

/// What a terminal showed.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) code: Option<i32>,
    /// The rows that are not empty at the end.
    pub(crate) rows: Vec<String>,
    /// All bytes, as the terminal got them.
    pub(crate) bytes: String,
}

/// Runs a call inside a line of shell, in which it is `"$0" "$@"`, on a terminal of that width.
pub(crate) fn shown(call: &Call<'_>, line: &str, width: u16) -> Shown {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("a terminal");
    unlockpt(&master).expect("a terminal");
    // It must not become the terminal of this process: its end would be a hangup for all tests.
    let slave = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    let size = Winsize { ws_row: ROWS, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size).expect("a terminal has a size");
    let own = call.command();
    let mut shell = in_shell(line);
    shell.arg(own.get_program()).args(own.get_args()).env_clear();
    shell.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
        .env("TERM", "xterm")
        .env("LANG", "C.UTF-8")
        .current_dir(own.get_current_dir().expect("a directory"));
    shell.stdin(Stdio::null()).stdout(slave.try_clone().expect("a stream")).stderr(slave);
    let mut child = shell.spawn().expect("a shell");
    // The shell's copies are the last ones.
    drop(shell);
    let mut bytes = Vec::new();
    // A terminal whose other side is gone gives an error at its end.
    let _ = std::fs::File::from(master).read_to_end(&mut bytes);
    let code = child.wait().expect("the shell ends").code();
    let cells = |number| std::num::NonZeroU16::new(number).expect("a size");
    let mut terminal = vt100::Parser::new(cells(ROWS), cells(width), 0);
    terminal.process(&bytes);
    let rows = terminal.screen().rows(0, width).map(|row| row.trim_end().to_owned());
    let rows = rows.filter(|row| !row.is_empty()).collect();
    Shown { code, rows, bytes: String::from_utf8_lossy(&bytes).into_owned() }
}
