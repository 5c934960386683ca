//! Full disks, foreign homes, strange umasks, secrets.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use bowline::journal::{Home, JournalError, Mask, Options, Repaired, repair};
use bowline_protocol::RawFile;
use bowline_testkit::skip;

use super::checker::check;
use super::{Script, child, now};

/// The id of the unprivileged user.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A small file system in memory, as long as this lives.
struct Tiny {
    dir: tempfile::TempDir,
}

impl Tiny {
    fn mount(test: &str, options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mount = ["-t", "tmpfs", "-o", options, "tmpfs"];
        match command("mount").args(mount).arg(dir.path()).output() {
            Ok(output) if output.status.success() => Some(Self { dir }),
            Ok(output) => {
                skip(test, &format!("mount: {}", String::from_utf8_lossy(&output.stderr).trim()));
                None
            }
            Err(error) => {
                skip(test, &format!("mount: {error}"));
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let done = command("umount").arg(self.dir.path()).status();
        assert!(done.is_ok_and(|status| status.success()) || std::thread::panicking(), "could not unmount");
    }
}

#[expect(clippy::disallowed_methods, reason = "mount and umount have no other door")]
fn command(program: &str) -> Command {
    Command::new(program)
}

#[test]
fn a_full_disk_loses_nothing_and_still_takes_the_end() {
    let test = "a_full_disk_loses_nothing_and_still_takes_the_end";
    let Some(tiny) = Tiny::mount(test, "size=512k") else { return };
    let home = Home::at(tiny.path().join("home"));
    let mut script = Script::new(&home, "s-1", Options::default());
    script.start_turn();
    let mut written = 0;
    let refused = loop {
        let at = script.at();
        match script.writer.raw(RawFile::Stdout, at, &[b'x'; 5000]) {
            Ok(offset) => {
                assert_eq!(offset, written);
                written += 5000;
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, JournalError::DiskFull { .. }), "{refused:?}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("BOWLINE_HOME")));
    let raw = script.writer.dir().join("stdout.raw");
    assert_eq!(std::fs::metadata(&raw).expect("is there").len(), written, "half a chunk is cut off again");

    // The room for the end was promised by the file system before the disk was full.
    std::fs::write(tiny.path().join("hog"), vec![0; 1 << 20]).expect_err("the disk is full");
    let (turn, session) = script.endings();
    script.writer.closing(vec![turn, session]).expect("there is room for the end");
    let dir = script.writer.dir().to_owned();
    std::fs::remove_file(tiny.path().join("hog")).expect("removes");
    script.writer.close().expect("closes");
    assert_eq!(repair(&dir, now()).expect("repairs"), Repaired::default(), "nothing is out of order");
    let checked = check(&dir).expect("is whole");
    assert_eq!((checked.events, checked.indexed["stdout.raw"]), (3, written));
}

#[test]
fn events_that_meet_a_full_disk_are_told_as_a_gap() {
    let test = "events_that_meet_a_full_disk_are_told_as_a_gap";
    let Some(tiny) = Tiny::mount(test, "size=512k") else { return };
    let home = Home::at(tiny.path().join("home"));
    let mut script = Script::new(&home, "s-1", Options::default());
    script.start_turn();
    let long = "y".repeat(20_000);
    let refused = loop {
        let at = script.at();
        script.writer.raw(RawFile::Stdout, at, b"a short line\n").expect("a short line fits");
        let notice = script.notice(&long);
        if let Err(error) = script.writer.events(&[notice]) {
            break error;
        }
    };
    assert!(matches!(refused, JournalError::DiskFull { .. }), "{refused:?}");
    let (turn, session) = script.endings();
    let written = script.writer.closing(vec![turn, session]).expect("there is room for the end");
    let said: Vec<&str> = written.iter().map(|event| event.kind.type_name()).collect();
    assert_eq!(said, ["gap", "turn_ended", "session_ended"]);
    let dir = script.writer.dir().to_owned();
    script.writer.close().expect("closes");
    assert_eq!(check(&dir).expect("is whole").gaps.len(), 1);
}

/// Copies this program to where everybody may start it: the build directory may be closed to others.
fn open_copy(dir: &Path) -> PathBuf {
    let copy = dir.join("this-program");
    bowline_testkit::copy_program(&child::this_program(), &copy);
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).expect("sets the mode");
    copy
}

#[test]
fn a_home_that_may_not_be_written_is_told() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (program, uid) =
        if is_root() { (open_copy(scratch.path()), Some(NOBODY)) } else { (child::this_program(), None) };
    let home = scratch.path().join("home");
    std::fs::create_dir(&home).expect("creates");
    std::fs::set_permissions(&home, PermissionsExt::from_mode(0o555)).expect("sets the mode");
    // Another user's home is refused for that reason.
    std::os::unix::fs::chown(&home, uid, None).expect("gives it away");
    let said = child::run_as(uid, &program, "refused", &home).expect("runs");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(": ")).collect();
    let sessions = home.join("sessions");
    assert!(lines.contains(&&*format!("error: {} may not be written", sessions.display())), "{said}");
    assert!(lines.contains(&"caused by: Permission denied (os error 13)"), "{said}");
    assert!(lines.contains(&"hint: set BOWLINE_HOME to a directory that you may write"), "{said}");
}

#[test]
fn a_read_only_file_system_is_told() {
    let Some(tiny) = Tiny::mount("a_read_only_file_system_is_told", "size=64k,ro") else { return };
    let said =
        child::run_as(None, &child::this_program(), "refused", &tiny.path().join("home")).expect("runs");
    assert!(said.contains("caused by: Read-only file system (os error 30)"), "{said}");
    assert!(said.contains("hint: set BOWLINE_HOME"), "{said}");
}

#[test]
fn files_are_private_whatever_the_umask() {
    for umask in ["0", "022", "077", "777"] {
        let scratch = tempfile::tempdir().expect("a directory");
        let said = child::run_as(
            None,
            &child::this_program(),
            &format!("umask {umask}"),
            &scratch.path().join("home"),
        );
        said.unwrap_or_else(|said| panic!("umask {umask}: {said}"));
    }
}

#[test]
fn a_secret_reaches_no_file() {
    let scratch = tempfile::tempdir().expect("a directory");
    let secret = "sk-made-up-\"0123456789\"";
    let options = Options { mask: Mask::new([secret]), ..Options::default() };
    let mut script = Script::new(&Home::at(scratch.path()), "s-1", options);
    script.start_turn();
    // The chunk ends inside the secret; an event speaks of the line with its first half before the second half comes.
    let line = format!("{{\"text\":{}}}\n", serde_json::Value::from(secret));
    let (first, second) = line.split_at(16);
    assert_eq!(script.writer.raw(RawFile::Stdout, UNIX_EPOCH, first.as_bytes()).expect("writes"), 0);
    let early = script.notice_at(first, (0, first.len() as u64));
    script.writer.events(&[early]).expect("writes");
    assert_eq!(script.writer.raw(RawFile::Stdout, UNIX_EPOCH, second.as_bytes()).expect("writes"), 16);
    assert_eq!(script.writer.raw(RawFile::Stdin, UNIX_EPOCH, secret.as_bytes()).expect("writes"), 0);
    let notice = script.notice(&format!("the key is {secret}."));
    script.writer.events(&[notice]).expect("writes");
    let dir = script.writer.dir().to_owned();
    script.writer.close().expect("closes");

    let stars = |len: usize| "*".repeat(len);
    let text =
        |name: &str| String::from_utf8(std::fs::read(dir.join(name)).expect("reads")).expect("is text");
    assert_eq!(text("stdout.raw"), format!("{{\"text\":\"{}\"}}\n", stars(secret.len() + 2)));
    assert_eq!(text("stdin.raw"), stars(secret.len()));
    assert!(text("events.jsonl").contains(&format!("the key is {}.", stars(secret.len() + 2))));
    for entry in std::fs::read_dir(&dir).expect("lists") {
        let path = entry.expect("lists").path();
        let bytes = std::fs::read(&path).expect("reads");
        let leaked = String::from_utf8_lossy(&bytes).contains("0123456789");
        assert!(!leaked, "{} holds the secret", path.display());
    }
}
