//! A terminal for tests: a shell line runs on it, and what a person would see is returned. A person may also type.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use rustix::time::Timespec;

use crate::clock::{LONG, now, wait_until};
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
    Terminal::start(call, line, width, Typist::Absent).end()
}

/// Whether a person types at a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typist {
    /// Standard input is empty.
    Absent,
    /// Standard input is the terminal.
    Present,
}

/// A terminal on which a shell line runs.
pub(crate) struct Terminal {
    master: File,
    /// Kept open, so that its modes can be read.
    slave: OwnedFd,
    child: Child,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Ends the reader, which keeps the terminal open.
    unplugged: Arc<AtomicBool>,
    reader: JoinHandle<()>,
    width: u16,
}

impl Terminal {
    pub(crate) fn start(call: &Call<'_>, line: &str, width: u16, typist: Typist) -> Self {
        // Children of other tests must not inherit either side: the terminal would never hang up.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a terminal");
        grantpt(&master).expect("a terminal");
        unlockpt(&master).expect("a terminal");
        // It must not become the terminal of this process: its end would be a hangup for all tests.
        let slave = ioctl_tiocgptpeer(&master, flags).expect("a terminal");
        let size = Winsize { ws_row: ROWS, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).expect("a terminal has a size");
        let own = call.command();
        let mut shell = in_shell(line);
        shell.arg(own.get_program()).args(own.get_args()).env_clear();
        shell.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.env("LANG", "C.UTF-8").current_dir(own.get_current_dir().expect("a directory"));
        if !own.get_envs().any(|(name, _)| name == "TERM") {
            shell.env("TERM", "xterm");
        }
        let stream = || slave.try_clone().expect("a stream");
        match typist {
            Typist::Absent => shell.stdin(Stdio::null()),
            Typist::Present => shell.stdin(stream()),
        };
        shell.stdout(stream()).stderr(stream());
        let child = shell.spawn().expect("a shell");
        let master = File::from(master);
        let (bytes, mut source) = (Arc::new(Mutex::new(Vec::new())), master.try_clone().expect("a terminal"));
        let shared = bytes.clone();
        let unplugged = Arc::new(AtomicBool::new(false));
        let stops = unplugged.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while !stops.load(Ordering::Relaxed) {
                let step = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                if let Ok(0) = poll(&mut [PollFd::new(&source, PollFlags::IN)], Some(&step)) {
                    continue;
                }
                // A terminal whose other side is gone gives an error at its end.
                let Ok(count @ 1..) = source.read(&mut buffer) else { return };
                shared.lock().expect("a lock").extend_from_slice(&buffer[..count]);
            }
        });
        Self { master, slave, child, bytes, unplugged, reader, width }
    }

    /// Types text.
    pub(crate) fn types(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("the terminal takes it");
    }

    /// Waits until a row has this text.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        let began = now();
        while !self.rows().iter().any(|row| row.contains(text)) {
            assert!(began.elapsed() < LONG, "`{text}` is not on the screen: {:#?}", self.rows());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Presses a key, or types a line, when a row has this text; not before a person could have read it.
    #[track_caller]
    pub(crate) fn answers(&mut self, text: &str, keys: &str) {
        self.shows(text);
        std::thread::sleep(std::time::Duration::from_millis(400));
        self.types(keys);
    }

    /// Returns whether the terminal reads lines and echoes them.
    pub(crate) fn reads_lines(&self) -> bool {
        let modes = tcgetattr(&self.slave).expect("the terminal is there").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Returns the modes of the terminal, as one text that can be compared.
    pub(crate) fn modes(&self) -> String {
        format!("{:?}", tcgetattr(&self.slave).expect("the terminal is there"))
    }

    /// Gives the terminal another width. The kernel sends SIGWINCH to the foreground of its session only, so this does it for the child.
    pub(crate) fn resize(&mut self, width: u16) {
        let size = Winsize { ws_row: ROWS, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).expect("a terminal has a size");
        self.width = width;
        self.signal(Signal::WINCH);
    }

    /// Sends a signal to the shell line.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a child");
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits until the terminal reads single keys.
    pub(crate) fn reads_keys(&self) {
        wait_until("single keys", || !self.reads_lines());
    }

    /// Returns the rows that are not empty now.
    pub(crate) fn rows(&self) -> Vec<String> {
        rows(&self.bytes.lock().expect("a lock"), self.width)
    }

    /// Closes the terminal, as a lost connection does, and waits for the end of the shell line.
    pub(crate) fn hang_up(self) {
        let Self { master, slave, mut child, unplugged, reader, .. } = self;
        unplugged.store(true, Ordering::Relaxed);
        reader.join().expect("a thread");
        drop((master, slave));
        child.wait().expect("the shell ends");
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Shown {
        let code = self.child.wait().expect("the shell ends").code();
        drop(self.slave);
        self.reader.join().expect("a thread");
        let bytes = self.bytes.lock().expect("a lock");
        Shown { code, rows: rows(&bytes, self.width), bytes: String::from_utf8_lossy(&bytes).into_owned() }
    }
}

/// Returns the rows that a terminal shows after some bytes and that are not empty.
fn rows(bytes: &[u8], width: u16) -> Vec<String> {
    let cells = |number| std::num::NonZeroU16::new(number).expect("a size");
    let mut terminal = vt100::Parser::new(cells(ROWS), cells(width), 0);
    terminal.process(bytes);
    let rows = terminal.screen().rows(0, width).map(|row| row.trim_end().to_owned());
    rows.filter(|row| !row.is_empty()).collect()
}
