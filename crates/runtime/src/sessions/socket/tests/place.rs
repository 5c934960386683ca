//! A socket that is removed, replaced, or not the runner's.

use std::time::Duration;

use bowline_protocol::SessionId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::{FakeRunner, within};
use crate::sessions::journal::{SessionMeta, update_meta};
use crate::sessions::socket::client::{ConnectError, SocketClient};
use crate::system::clock;

#[tokio::test(start_paused = true)]
async fn a_socket_that_was_removed_is_bound_again() {
    let runner = FakeRunner::start();
    std::fs::remove_file(&runner.path).unwrap();
    std::fs::remove_dir(runner.path.parent().unwrap()).unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(runner.path.exists());
    let mut stream = UnixStream::connect(&runner.path).await.unwrap();
    stream.write_all(b"{\"hello\":{\"version\":1}}\n").await.unwrap();
    let mut first = [0; 9];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"{\"hello\":");
}

/// Waits until a client reaches the runner, for less time than the runner's own check takes.
async fn reached(runner: &FakeRunner) {
    within(async {
        while SocketClient::connect_in(&runner.home, &runner.session, &runner.places).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_socket_is_bound_again_as_soon_as_it_is_gone() {
    let runner = FakeRunner::start();
    let dir = runner.path.parent().unwrap();
    std::fs::remove_file(&runner.path).unwrap();
    reached(&runner).await;
    // Another file over it. A second time, so the new socket is watched, too.
    let other = dir.join("other");
    let _impostor = std::os::unix::net::UnixListener::bind(&other).unwrap();
    std::fs::rename(&other, &runner.path).unwrap();
    within(async {
        while !is_served(&runner).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    std::fs::rename(&runner.path, &other).unwrap();
    reached(&runner).await;
    std::fs::rename(dir, dir.with_file_name("moved")).unwrap();
    reached(&runner).await;
}

/// Whether the runner answers at its path. A listener without a process that accepts does not.
async fn is_served(runner: &FakeRunner) -> bool {
    let connected = SocketClient::connect_in(&runner.home, &runner.session, &runner.places);
    matches!(tokio::time::timeout(Duration::from_millis(200), connected).await, Ok(Ok(_)))
}

#[tokio::test]
async fn the_socket_of_another_session_is_no_runner() {
    let runner = FakeRunner::start();
    let other = SessionId::from("s-other");
    let dir = runner.home.session_dir(&other).unwrap();
    std::fs::create_dir_all(&dir).unwrap();
    let meta = SessionMeta::new(other.clone(), "practice", clock::wall());
    std::fs::write(dir.join("session.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
    let path = runner.places.candidates(&runner.home, &other).remove(0);
    std::os::unix::fs::symlink(&runner.path, &path).unwrap();
    let error = SocketClient::connect_in(&runner.home, &other, &runner.places).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the control socket of session s-other belongs to process {}, which is not the runner: it serves the session {}",
            std::process::id(),
            runner.session
        )
    );
}

#[tokio::test]
async fn a_process_that_is_not_the_recorded_runner_is_no_runner() {
    let runner = FakeRunner::start();
    let dir = runner.home.session_dir(&runner.session).unwrap();
    update_meta(&dir, |meta| {
        meta.runner.as_mut().unwrap().pid = 1;
    })
    .unwrap();
    let error = SocketClient::connect_in(&runner.home, &runner.session, &runner.places).await.unwrap_err();
    let ConnectError::NotRunner { reason, .. } = error else { panic!("{error:?}") };
    assert_eq!(reason, "the runner of the session is process 1");
}

#[tokio::test]
async fn a_directory_that_is_not_safe_is_passed_over() {
    let runner = FakeRunner::start();
    let place = tempfile::tempdir().unwrap();
    let open_dir = place.path().join("bowline");
    std::fs::create_dir(&open_dir).unwrap();
    std::fs::set_permissions(&open_dir, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    // The runner listens in the other directory, because it passes over this one as well.
    let places = super::SocketPlaces::at(place.path(), runner.path.parent().unwrap());
    within(SocketClient::connect_in(&runner.home, &runner.session, &places)).await.unwrap();
    // The runner of a live session is in none of them: the unsafe one is the reason.
    let events = runner.home.session_dir(&runner.session).unwrap().join("events.jsonl");
    let lock = std::fs::File::create(events).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let places = super::SocketPlaces::at(place.path(), &place.path().join("none"));
    let error = within(SocketClient::connect_in(&runner.home, &runner.session, &places)).await.unwrap_err();
    assert!(error.to_string().contains("is not safe"), "{error}");
}
