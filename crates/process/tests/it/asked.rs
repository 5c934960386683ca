//! Which requests to be a keeper a program grants, which it ignores, and which it refuses.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use bowline_testkit::skip;
use libtest_mimic::Trial;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::support::own_program;

const NOBODY: u32 = 65534;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(format!("asked::{name}"), move || {
            test();
            Ok(())
        })
    };
    vec![
        trial("the_own_user_is_granted_it", the_own_user_is_granted_it),
        trial("another_kind_of_socket_is_ignored", another_kind_of_socket_is_ignored),
        trial("other_rights_than_the_parents_refuse_it", other_rights_than_the_parents_refuse_it),
    ]
}

/// Executes a program with a request to be a keeper. A program that ignores it prints its environment.
#[expect(clippy::disallowed_methods, reason = "the test is the parent that asks")]
fn ask(program: &Path, socket: SocketType, change: impl FnOnce(&mut Command)) -> (Child, OwnedFd) {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, socket, SocketFlags::CLOEXEC, None).expect("makes sockets");
    let mut command = Command::new(program);
    command.env_clear().env("BOWLINE_KEEPER", "auto").env("PLAY", "environment").current_dir("/");
    command.stdin(theirs).stdout(Stdio::piped()).stderr(Stdio::piped());
    change(&mut command);
    (command.spawn().expect("starts"), ours)
}

fn end(child: Child) -> Output {
    child.wait_with_output().expect("ends")
}

fn the_own_user_is_granted_it() {
    let (child, ours) = ask(&own_program(), SocketType::SEQPACKET, |_| {});
    let mut socket = File::from(ours);
    let hello = socket.read(&mut [0; 4096]).expect("reads");
    assert!(hello > 0, "a keeper reports that it is there");
    drop(socket);
    assert_eq!(end(child).stdout, b"", "it never came to `main`");
}

fn another_kind_of_socket_is_ignored() {
    let (child, _ours) = ask(&own_program(), SocketType::STREAM, |_| {});
    let output = end(child);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("PLAY=environment"), "{output:?}");
}

/// With a set-uid program, any local user would have a keeper with the rights of its owner.
fn other_rights_than_the_parents_refuse_it() {
    if !rustix::process::getuid().is_root() {
        return skip("asked::other_rights_than_the_parents_refuse_it", "only root can become another user");
    }
    let folder = tempfile::tempdir().expect("makes a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets the mode");
    let copy = folder.path().join("program");
    bowline_testkit::copy_program(&own_program(), &copy);
    for mode in [0o755, 0o4755] {
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).expect("sets the mode");
        let (child, ours) = ask(&copy, SocketType::SEQPACKET, |command| {
            command.uid(NOBODY);
        });
        let output = end(child);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{mode:o}: {output:?}");
        assert!(!matches!(File::from(ours).read(&mut [0; 4096]), Ok(1..)), "{mode:o}: no keeper was there");
    }
}
