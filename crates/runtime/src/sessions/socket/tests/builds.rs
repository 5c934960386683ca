//! Clients and runners of other builds and versions.

use std::sync::atomic::Ordering;

use bowline_protocol::{OrderRefused, Receipt};
use serde_json::{Value, json};

use super::{FakeRunner, RawClient, within};
use crate::sessions::socket::client::{ConnectError, OrderError, SocketClient};
use crate::sessions::socket::lines::LineVersions;
use crate::sessions::socket::server::SessionRequest;

fn versions(oldest: u32, newest: u32) -> LineVersions {
    LineVersions { oldest, newest }
}

/// A client that introduces itself like this, and the runner's first line.
async fn meet(runner: &FakeRunner, hello: &Value) -> (RawClient, Value) {
    let mut client = RawClient::connect(runner).await;
    let reply = call(&mut client, &json!({ "hello": hello })).await;
    (client, reply)
}

async fn call(client: &mut RawClient, line: &Value) -> Value {
    client.write(&line.to_string()).await;
    read(client).await
}

async fn read(client: &mut RawClient) -> Value {
    serde_json::from_str(&client.read().await.unwrap()).unwrap()
}

#[test]
fn both_sides_take_the_newest_version_that_they_share() {
    for (own, theirs, common) in [
        ((1, 1), (1, 1), Some(1)),
        ((1, 3), (2, 5), Some(3)),
        ((2, 5), (1, 3), Some(3)),
        ((1, 1), (2, 2), None),
        ((3, 3), (1, 2), None),
        // Nonsense of the other side.
        ((1, 2), (9, 1), None),
        ((1, 1), (0, u32::MAX), Some(1)),
    ] {
        let (own, theirs) = (versions(own.0, own.1), versions(theirs.0, theirs.1));
        assert_eq!(own.common(theirs), common, "{own:?} {theirs:?}");
    }
}

#[tokio::test]
async fn a_newer_client_speaks_to_an_older_runner_in_its_version() {
    let runner = FakeRunner::start();
    let connect =
        |versions| SocketClient::connect_speaking(versions, &runner.home, &runner.session, &runner.places);
    assert_eq!(connect(versions(1, 2)).await.unwrap().session(), &runner.session);
    let refused = connect(versions(2, 2)).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Version { runner: 1, client: 2 }), "{refused:?}");
}

#[tokio::test]
async fn a_runner_speaks_to_an_older_client() {
    let runner = FakeRunner::speaking(versions(1, 3));
    let (_client, hello) = meet(&runner, &json!({ "version": 2 })).await;
    assert_eq!(hello["hello"]["version"], 2, "{hello}");
    let (_client, hello) = meet(&runner, &json!({ "version": 9, "oldest": 2 })).await;
    assert_eq!(hello["hello"]["version"], 3, "{hello}");
    let (_client, hello) = meet(&runner, &json!({ "version": 4 })).await;
    assert_eq!(
        (&hello["error"]["code"], &hello["error"]["version"]),
        (&json!("version"), &json!(3)),
        "{hello}"
    );
    // Our own client, which speaks version 1 only, meets a runner that begins at 2.
    let runner = FakeRunner::speaking(versions(2, 3));
    let refused = SocketClient::connect_in(&runner.home, &runner.session, &runner.places).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Version { runner: 3, client: 1 }), "{refused:?}");
}

#[tokio::test]
async fn only_a_newer_client_with_full_rights_takes_a_session_over() {
    let mut runner = FakeRunner::start();
    let newer = json!({ "version": 1, "build": { "version": "999.0.0", "built": 1 } });
    let hand_over = json!({ "id": 1, "hand_over": {} });
    // One of the same build, and one that names none.
    let client = runner.client().await;
    let refused = client.hand_over().await.unwrap_err();
    assert!(matches!(refused, OrderError::Refused(OrderRefused::Unsupported { .. })), "{refused:?}");
    let (mut client, _) = meet(&runner, &json!({ "version": 1 })).await;
    assert_eq!(call(&mut client, &hand_over).await["refused"]["refused"], "unsupported");
    // One of an agent.
    runner.judge.watch_only.store(true, Ordering::Relaxed);
    let (mut client, _) = meet(&runner, &newer).await;
    assert_eq!(call(&mut client, &hand_over).await["refused"]["refused"], "forbidden");
    runner.judge.watch_only.store(false, Ordering::Relaxed);
    // A path of the client's is not a part of the call.
    let path = json!({ "id": 2, "hand_over": { "program": "/tmp/evil" } });
    let (mut client, hello) = meet(&runner, &newer).await;
    assert_eq!(call(&mut client, &path).await["error"]["code"], "bad_line");
    assert_eq!(hello["hello"]["build"]["version"], env!("CARGO_PKG_VERSION"));
    client.write(&hand_over.to_string()).await;
    let Some(SessionRequest::HandOver(request)) = within(runner.requests.recv()).await else {
        panic!("the only request that came through");
    };
    assert_eq!(request.program, std::env::current_exe().unwrap(), "the program that the kernel names");
    request.reply.send(Ok(Receipt::Done)).unwrap();
    assert_eq!(read(&mut client).await, json!({ "id": 1, "receipt": { "receipt": "done" } }));
}
