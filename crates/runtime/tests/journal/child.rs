//! This test program, started again as a child with an order in its environment.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bowline::journal::{Home, Options, Reader};
use bowline_protocol::RawFile;

use super::{Script, now};

const ORDER: &str = "BOWLINE_TEST_JOURNAL_ORDER";
const HOME: &str = "BOWLINE_TEST_JOURNAL_HOME";

/// Prepares this program to be started again. The child's stdout can be read; the test runner's own words are in it.
pub(crate) fn again(program: &Path, order: &str, home: &Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "a test that is about the end of processes")]
    let mut command = Command::new(program);
    command.args(["--exact", "child::does_as_it_is_told", "--nocapture", "--test-threads=1"]);
    command.env(ORDER, order).env(HOME, home).stdin(Stdio::null());
    command
}

pub(crate) fn this_program() -> PathBuf {
    std::env::current_exe().expect("tests are programs")
}

/// Starts a child that does not come to an end by itself.
pub(crate) fn start(order: &str, home: &Path) -> Child {
    let mut command = again(&this_program(), order, home);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts")
}

/// Runs a child as another user and returns what it said, or its failure.
pub(crate) fn run_as(uid: Option<u32>, program: &Path, order: &str, home: &Path) -> Result<String, String> {
    let mut command = again(program, order, home);
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    let output = command.output().expect("starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(said)
    } else {
        Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Does nothing in an ordinary run of the tests: its orders come from the others.
#[test]
fn does_as_it_is_told() {
    #[expect(clippy::disallowed_methods, reason = "the orders of the parent")]
    let (Some(order), Some(home)) = (std::env::var_os(ORDER), std::env::var_os(HOME)) else { return };
    let home = Home::at(PathBuf::from(home));
    let order = order.into_string().expect("orders are words");
    match order.split_once(' ').unwrap_or((&order, "")) {
        ("write", seed) => write_for_ever(&home, seed.parse().expect("a number")),
        ("hold", _) => hold(&home),
        ("umask", mask) => modes_under(&home, u32::from_str_radix(mask, 8).expect("octal")),
        ("refused", _) => refused(&home),
        (other, _) => panic!("unknown order {other}"),
    }
}

/// Writes sessions at full speed, in chunks from tiny to large, until it is killed.
fn write_for_ever(home: &Home, seed: u64) {
    let mut random = seed;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for session in 0.. {
        let mut script = Script::new(home, &format!("s-{session}"), Options::default());
        script.other(RawFile::Stdin, b"the prompt\n");
        script.start_turn();
        for round in 0..40 {
            // One chunk in four is large, so that writes take long enough to be killed in.
            let (count, width) = if next(4) == 0 { (40 + next(40), 1500) } else { (1 + next(8), 80) };
            let line = |number| format!("{round} {number} {}", "x".repeat((number * 7 % width) as usize));
            let lines: Vec<String> = (0..count).map(line).collect();
            script.lines(&lines);
            if next(3) == 0 {
                script.other(RawFile::Stderr, b"a warning\n");
            }
            if next(16) == 0 {
                script.writer.sync().expect("syncs");
            }
        }
        // Dropped, not closed: a session whose runner goes on to something else is as lost as one whose runner dies.
    }
}

/// Holds a session, with a child of its own, until it is killed.
fn hold(home: &Home) {
    let mut script = Script::new(home, "s-held", Options::default());
    script.start_turn();
    #[expect(clippy::disallowed_methods, reason = "a child that must not inherit the lock")]
    let mut sleeper = Command::new("sleep").arg("300").stdin(Stdio::null()).spawn().expect("starts");
    let mut out = std::io::stdout();
    writeln!(out, "\nready {}", sleeper.id()).and_then(|()| out.flush()).expect("says so");
    sleeper.wait().expect("waits");
}

/// Makes every file of a session and checks that only its owner may touch them.
fn modes_under(home: &Home, umask: u32) {
    use std::os::unix::fs::PermissionsExt;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask as rustix::fs::RawMode));
    let mut script = Script::new(home, "s-1", Options::default());
    for file in [RawFile::Stdout, RawFile::Stderr, RawFile::Stdin, RawFile::Pty] {
        script.other(file, b"x");
    }
    script.start_turn();
    script.writer.set_meta(|meta| meta.label = Some("x".to_owned())).expect("changes");
    script.writer.sync().expect("syncs");
    let mode = |path: &Path| std::fs::metadata(path).expect("is there").permissions().mode() & 0o7777;
    for dir in [home.path(), &home.sessions_dir(), script.writer.dir()] {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(script.writer.dir()).expect("lists") {
        let path = entry.expect("lists").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().expect("a name").to_string_lossy().into_owned());
    }
    names.sort();
    let wanted =
        ["events.jsonl", "io.index", "pty.raw", "session.json", "stderr.raw", "stdin.raw", "stdout.raw"];
    assert_eq!(names, wanted);
    assert_eq!(Reader::open(script.writer.dir()).expect("opens").meta().expect("reads").registered_at, now());
}

/// Tries to make a session where it may not, and prints the error as a caller would see it.
fn refused(home: &Home) {
    let meta = bowline::journal::SessionMeta::new("s-1".into(), super::PROVIDER, now());
    let error = bowline::journal::Writer::create(home, meta, Options::default()).expect_err("may not");
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    let said = format!("\nerror: {error}\ncaused by: {cause}\nhint: {}\n", error.hint().unwrap_or_default());
    std::io::stdout().write_all(said.as_bytes()).expect("says so");
}
