//! The exact error of each failed start.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_process::{Command, SpawnErrorKind};
use libtest_mimic::Trial;

use crate::support::*;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("errors::descriptors_do_not_leak", descriptors_do_not_leak),
        trial("errors::a_user_without_rights_is_refused", a_user_without_rights_is_refused),
    ];
    let both = [
        trials_with_and_without_keeper("errors::each_has_its_kind", each_has_its_kind),
        trials_with_and_without_keeper("errors::a_busy_file_is_waited_for", a_busy_file_is_waited_for),
        trials_with_and_without_keeper("errors::a_file_that_stays_busy", a_file_that_stays_busy),
        trials_with_and_without_keeper("errors::the_path_is_searched", the_path_is_searched),
    ];
    trials.extend(both.into_iter().flatten());
    trials
}

fn file(folder: &Path, name: &str, mode: u32, content: &[u8]) -> PathBuf {
    let path = folder.join(name);
    if mode & 0o111 == 0 {
        fs::write(&path, content).expect("writes");
    } else {
        bowline_testkit::write_program(&path, content);
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("sets the mode");
    path
}

async fn kind(command: Command) -> SpawnErrorKind {
    let program = command.program.clone();
    let error = supervisor().spawn(command).await.expect_err("does not start");
    assert_eq!(error.program, program);
    assert_eq!(error.to_string(), format!("could not start `{}`", program.display()));
    error.kind
}

async fn each_has_its_kind() {
    let folder = tempfile::tempdir().expect("makes a folder");
    let plain = |program: &Path| Command::new(program, "test");
    let at = folder.path();

    let found = kind(plain(&at.join("missing"))).await;
    assert!(matches!(found, SpawnErrorKind::NotFound), "{found:?}");
    let found = kind(plain(&file(at, "not-a-folder", 0o644, b"x").join("program"))).await;
    assert!(matches!(found, SpawnErrorKind::NotFound), "{found:?}");
    let found = kind(plain(&file(at, "data", 0o644, b"#!/bin/sh\n"))).await;
    assert!(matches!(found, SpawnErrorKind::NotExecutable), "{found:?}");
    let found = kind(plain(at)).await;
    assert!(matches!(found, SpawnErrorKind::NotExecutable), "{found:?}");
    let found = kind(plain(&file(at, "no-line", 0o755, b"echo hello\n"))).await;
    assert!(matches!(found, SpawnErrorKind::WrongArchitecture), "{found:?}");
    let found = kind(plain(&file(at, "other-machine", 0o755, &foreign_program()))).await;
    assert!(matches!(found, SpawnErrorKind::WrongArchitecture), "{found:?}");
    let found = kind(plain(&file(at, "no-interpreter", 0o755, b"#!/does/not/exist\n"))).await;
    assert!(matches!(found, SpawnErrorKind::NoInterpreter), "{found:?}");

    let mut command = shell("true");
    command.cwd = Some(at.join("nowhere"));
    let found = kind(command).await;
    assert!(
        matches!(&found, SpawnErrorKind::NoSuchCwd { cwd, source }
            if *cwd == at.join("nowhere") && source.kind() == std::io::ErrorKind::NotFound),
        "{found:?}"
    );
    let mut command = shell("true");
    command.cwd = Some(file(at, "a-file", 0o644, b""));
    let found = kind(command).await;
    assert!(
        matches!(&found, SpawnErrorKind::NoSuchCwd { source, .. }
        if source.kind() == std::io::ErrorKind::NotADirectory),
        "{found:?}"
    );

    let mut command = shell("true");
    command.args.push("x".repeat(200_000).into());
    let found = kind(command).await;
    assert!(matches!(found, SpawnErrorKind::TooLong), "{found:?}");
    let mut command = shell("true");
    command.args.push("a\0b".into());
    let found = kind(command).await;
    assert!(matches!(found, SpawnErrorKind::Nul { what: "an argument" }), "{found:?}");
}

/// A program whose header names an unknown machine.
fn foreign_program() -> Vec<u8> {
    let mut program = fs::read("/proc/self/exe").expect("reads");
    program.truncate(4096);
    program[18..20].copy_from_slice(&0xfeed_u16.to_le_bytes());
    program
}

async fn a_busy_file_is_waited_for() {
    let folder = tempfile::tempdir().expect("makes a folder");
    let path = file(folder.path(), "updating", 0o755, &fs::read("/bin/true").expect("reads"));
    let writer = fs::OpenOptions::new().append(true).open(&path).expect("opens");
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(writer);
    });
    let record = run(Command::new(path, "test")).await;
    assert_eq!(record.exit, Some(bowline_process::ExitStatus::Code(0)));
    release.join().expect("ends");
}

async fn a_file_that_stays_busy() {
    let folder = tempfile::tempdir().expect("makes a folder");
    let path = file(folder.path(), "updating", 0o755, b"#!/bin/sh\n");
    let mut writer = fs::OpenOptions::new().append(true).open(&path).expect("opens");
    writer.write_all(b"true\n").expect("writes");
    let found = kind(Command::new(path, "test")).await;
    assert!(matches!(found, SpawnErrorKind::Busy), "{found:?}");
}

async fn the_path_is_searched() {
    let folder = tempfile::tempdir().expect("makes a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    fs::create_dir(&first).expect("makes");
    fs::create_dir(&second).expect("makes");
    let path = |folders: &[&Path]| -> Vec<(OsString, OsString)> {
        vec![("PATH".into(), std::env::join_paths(folders).expect("joins"))]
    };
    let command = |env| Command { env, ..Command::new("bowline-test-program", "test") };
    let found = kind(command(path(&[&first, &second]))).await;
    assert!(matches!(found, SpawnErrorKind::NotFound), "{found:?}");
    file(&first, "bowline-test-program", 0o644, b"#!/bin/sh\necho first\n");
    let found = kind(command(path(&[&first, &second]))).await;
    assert!(matches!(found, SpawnErrorKind::NotExecutable), "{found:?}");
    file(&second, "bowline-test-program", 0o755, b"#!/bin/sh\necho second\n");
    assert_eq!(run(command(path(&[&first, &second]))).await.text(), "second\n");
}

async fn descriptors_do_not_leak() {
    // A separate host, because other tests open and close descriptors meanwhile.
    let mut command = agent("host");
    command.env.push(("HOST".into(), "leak".into()));
    let record = run(command).await;
    assert_eq!(
        record.exit,
        Some(bowline_process::ExitStatus::Code(0)),
        "{}",
        String::from_utf8_lossy(&record.stderr)
    );
    assert_eq!(record.text(), "no leak\n");
}

/// Root may read and execute files of any mode, so the user `nobody` tries. It exits with 0 if it finds the expected errors.
async fn a_user_without_rights_is_refused() {
    if !rustix::process::getuid().is_root() {
        bowline_testkit::skip(
            "errors::a_user_without_rights_is_refused",
            "only root can become another user",
        );
        return;
    }
    let folder = tempfile::tempdir().expect("makes a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets the mode");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("makes");
    file(&closed, "program", 0o755, b"#!/bin/sh\n");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("sets the mode");
    file(folder.path(), "private", 0o700, b"#!/bin/sh\n");
    let output = crate::host::as_nobody("refused", folder.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "refused as it should\n");
}

/// The part that runs as `nobody`.
pub(crate) async fn refused(folder: &Path) {
    let plain =
        |program: &str| Command { cwd: Some("/".into()), ..Command::new(folder.join(program), "test") };
    let found = kind(plain("private")).await;
    assert!(matches!(found, SpawnErrorKind::NotExecutable), "{found:?}");
    let found = kind(plain("closed/program")).await;
    assert!(matches!(found, SpawnErrorKind::PermissionDenied), "{found:?}");
    let mut command = shell("true");
    command.cwd = Some(folder.join("closed"));
    let found = kind(command).await;
    assert!(
        matches!(&found, SpawnErrorKind::NoSuchCwd { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied),
        "{found:?}"
    );
}
