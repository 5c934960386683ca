//! Which processes count as an agent's: the whole tree of a child, whatever it did to hide, and no other process.

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use bowline_process::ancestry::{ProcessOrigin, SocketPeer, origin_of};
use bowline_process::{CgroupMode, SupervisorOptions};
use libtest_mimic::Trial;

use crate::support::*;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("ancestry::the_user_is_outside", the_user_is_outside),
        trial("ancestry::the_keeper_itself_is_inside", the_keeper_itself_is_inside),
        trial("ancestry::the_peer_must_still_exist", the_peer_must_still_exist),
        trial("ancestry::a_peer_inside_the_tree_is_known", a_peer_inside_the_tree_is_known),
        trial("ancestry::the_marker_alone_is_evidence", the_marker_alone_is_evidence),
    ];
    for (shape, size) in [("plain", 3), ("setsid", 3), ("daemon", 3), ("cleared", 2), ("subreaper", 4)] {
        for cgroup in [CgroupMode::Auto, CgroupMode::Never] {
            trials.push(trial(&format!("ancestry::inside::{shape}::{cgroup:?}"), move || {
                a_tree_is_inside(shape, size, cgroup)
            }));
        }
    }
    trials
}

/// Returns what this process and its children should be: the tests themselves may run below an agent.
fn as_this_process_is() -> bool {
    let mut pid = std::process::id();
    loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("reads");
        if status.starts_with("Name:\tbowline-keeper\n") {
            return true;
        }
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:\t")).expect("has one");
        pid = parent.parse().expect("is a number");
        if pid == 0 {
            return false;
        }
    }
}

fn is_agent(origin: &ProcessOrigin) -> bool {
    match origin {
        ProcessOrigin::Agent { .. } => true,
        ProcessOrigin::Outside => false,
        ProcessOrigin::Unknown { reason } => panic!("unknown: {reason}"),
    }
}

fn pids(proof: &str) -> Vec<u32> {
    let pid = |line: &String| line.split(' ').next().and_then(|pid| pid.parse().ok()).expect("a number");
    marked(&format!("PROOF={proof}")).iter().map(pid).collect()
}

async fn the_user_is_outside() {
    let expected = as_this_process_is();
    assert_eq!(is_agent(&origin_of(std::process::id())), expected);
    // A child that this crate did not start, such as a shell of the user.
    #[expect(clippy::disallowed_methods, reason = "a process of the user")]
    let mut child = std::process::Command::new("/bin/sleep").arg("60").spawn().expect("starts");
    let found = origin_of(child.id());
    child.kill().expect("is ours");
    child.wait().expect("ends");
    // Other tests of this process start agents without a keeper, and then its children count as theirs.
    let reason = match found {
        ProcessOrigin::Agent { reason } => reason,
        ProcessOrigin::Outside => String::new(),
        ProcessOrigin::Unknown { reason } => panic!("unknown: {reason}"),
    };
    assert!(expected || reason.is_empty() || reason.contains("runner"), "{reason}");
}

async fn the_keeper_itself_is_inside() {
    let supervisor = supervisor();
    let keeper = supervisor.keeper().expect("there is one");
    assert_eq!(
        origin_of(keeper),
        ProcessOrigin::Agent { reason: format!("it descends from the keeper {keeper}") }
    );
}

async fn a_tree_is_inside(shape: &'static str, size: usize, cgroup: CgroupMode) {
    let supervisor = supervisor_with(SupervisorOptions { cgroup, ..SupervisorOptions::default() });
    let keeper = supervisor.keeper().expect("there is one");
    let proof = format!("ancestry-{shape}-{cgroup:?}-{}", std::process::id());
    let mut command = agent("tree");
    command.env.extend([
        ("SHAPE".into(), shape.into()),
        ("STAYS".into(), "yes".into()),
        ("PROOF".into(), proof.clone().into()),
    ]);
    let _child = supervisor.spawn(command).await.expect("starts");
    wait_until("the tree is complete", || pids(&proof).len() == size);
    let expected = ProcessOrigin::Agent { reason: format!("it descends from the keeper {keeper}") };
    for pid in pids(&proof) {
        assert_eq!(origin_of(pid), expected, "{:?}", marked(&format!("PROOF={proof}")));
    }
}

/// A process whose keeper was killed has no keeper above it until its host ends it. Its marker is the evidence.
async fn the_marker_alone_is_evidence() {
    let proof = format!("ancestry-orphan-{}", std::process::id());
    #[expect(clippy::disallowed_methods, reason = "a process that lost its keeper looks like this")]
    let mut orphan = std::process::Command::new("/bin/sleep")
        .arg("60")
        .env_clear()
        .env("BOWLINE_SPAWN", "0123456789abcdef")
        .env("PROOF", &proof)
        .spawn()
        .expect("starts");
    wait_until("it has executed its program", || !pids(&proof).is_empty());
    let found = origin_of(orphan.id());
    orphan.kill().expect("is ours");
    orphan.wait().expect("ends");
    assert!(is_agent(&found));
}

/// Accepts one connection and returns its peer.
fn accept(listener: &UnixListener) -> (UnixStream, SocketPeer) {
    let (socket, _) = listener.accept().expect("a peer connects");
    let peer = SocketPeer::of(socket.as_fd()).expect("the kernel knows the peer");
    (socket, peer)
}

async fn a_peer_inside_the_tree_is_known() {
    let folder = tempfile::tempdir().expect("makes one");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("binds");
    let mut command = agent("connects");
    command.env.push(("SOCKET".into(), path.into()));
    let child = supervisor().spawn(command).await.expect("starts");
    let (_socket, peer) = accept(&listener);
    assert!(peer.is_same_user());
    assert_ne!(peer.pid(), Some(std::process::id()));
    assert!(is_agent(&peer.origin()), "{:?}", peer.origin());
    drop(child);
}

async fn the_peer_must_still_exist() {
    let folder = tempfile::tempdir().expect("makes one");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("binds");
    let _ours = UnixStream::connect(&path).expect("connects");
    let (_socket, peer) = accept(&listener);
    assert_eq!(peer.pid(), Some(std::process::id()));
    assert_eq!(is_agent(&peer.origin()), as_this_process_is());
    // A process that connects, hands its socket to a child, and exits.
    #[expect(clippy::disallowed_methods, reason = "a process of the user")]
    let mut child = std::process::Command::new(own_program())
        .env("PLAY", "hands-on")
        .env("SOCKET", &path)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    let (_socket, peer) = accept(&listener);
    wait_until("the process that connected has ended", || {
        matches!(peer.origin(), ProcessOrigin::Unknown { .. })
    });
    child.wait().expect("ends");
    let ProcessOrigin::Unknown { reason } = peer.origin() else { panic!("{:?}", peer.origin()) };
    assert!(reason.contains("has ended") || reason.contains("cannot be read"), "{reason}");
}
