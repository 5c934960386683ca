//! Files of prompts that wait: the journal has their paths, and they are read when the prompt is sent.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::session::{LiveWorld, Session, play};

/// Sends an order over the socket, as a program does.
fn order(session: &Session<'_>, order: &Value) -> Value {
    let mut stream = UnixStream::connect(&session.socket).expect("the runner listens");
    let hello = json!({ "hello": { "version": 1, "program": "test" } });
    let order = json!({ "id": 1, "order": order });
    stream.write_all(format!("{hello}\n{order}\n").as_bytes()).expect("writes");
    let lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line).expect("JSON"));
    lines.find(|line| line["id"] == 1).expect("an answer")
}

#[test]
fn an_offered_prompt_keeps_its_files() {
    let live = LiveWorld::new();
    let image = live.path("work/shot.png");
    std::fs::write(&image, "not a real image").expect("writes");
    std::fs::write(live.path("work/notes.txt"), "notes").expect("writes");
    let session = live.plays(&["say one", "hang"], &["--name", "fix"]);
    session.says("one");
    let files = json!([{ "path": "shot.png" }, { "path": "notes.txt" }]);
    let prompt = json!({ "order": "prompt", "text": play(&["say two"]), "attachments": files });
    assert_eq!(order(&session, &prompt)["receipt"]["receipt"], "queued");
    assert_eq!(session.status()["queue"][0]["attachments"], files);
    session.done("interrupt", &[]);
    assert_eq!(session.has_played(1)["offered"][0]["attachments"], files);
    session.stop();

    let again = live.start(None, &["--resume", "fix"]);
    let offered = again.status()["offered"][0].clone();
    assert_eq!(offered["attachments"], files, "also for a later runner");
    let id = offered["id"].as_str().expect("an id");
    std::fs::remove_file(&image).expect("removes");
    again.order("send", &["--offered", id]).exits(1).tells(&["shot.png` of the prompt cannot be read"]);
    assert_eq!(again.status()["offered"][0]["id"], offered["id"], "it is still offered");
    std::fs::write(&image, "again").expect("writes");
    again.done("send", &["--offered", id]);
    again.has_played(2);
    let sent = std::fs::read_to_string(again.dir().join("stdin.raw")).expect("text");
    let line = sent.lines().rfind(|line| line.contains("say two")).expect("the prompt");
    // The image as it is now, in base64.
    assert!(line.contains("notes.txt") && line.contains("YWdhaW4="), "{line}");
    assert_eq!(again.stop().text(), "onetwo");
}
