//! A live session of a newer Bowline: this one neither writes into its directory, nor signals its runner, and says that it cannot.

use std::collections::BTreeMap;
use std::path::Path;

use super::session::LiveWorld;

/// All files of a directory, with their contents.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let name = path.display().to_string();
        if path.is_dir() {
            files.extend(contents(&path));
        } else {
            files.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
    files
}

#[test]
fn a_live_session_of_a_newer_version_is_left_alone() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--name", "fix", "--key", "team"]);
    session.has_played(1);
    // The runner lives and holds the lock. Only the description is of another version.
    let meta = session.dir().join("session.json");
    let ours = std::fs::read_to_string(&meta).expect("a description");
    let newer =
        ours.replacen("\"format\": 2", "\"format\": 99", 1).replacen("\"format\":2", "\"format\":99", 1);
    assert_ne!(newer, ours);
    std::fs::write(&meta, newer).expect("written");
    let (before, id) = (contents(&session.dir()), session.id.clone());

    // The cleanup of a run.
    live.world().practice(&["say hello"]).start().end_among_others().exits(0);
    let shown = live.end(&["sessions"]).exits(0);
    assert!(shown.stdout.contains(&id) && shown.stdout.contains("newer version"), "{}", shown.stdout);
    shown.tells(&["has format 99; this version reads up to 2", "use the newer version of bowline"]);
    let all = live.end(&["sessions", "--all"]).exits(0);
    assert!(!all.stderr.contains("sessions remove"), "{}", all.stderr);
    let listed = live.end(&["sessions", "--json"]).exits(0).json();
    assert_eq!(
        (&listed[0]["session"], &listed[0]["running"]),
        (&id.as_str().into(), &true.into()),
        "{listed}"
    );
    live.end(&["stop", "--all"])
        .exits(1)
        .tells(&[&format!("error: could not stop: {id}"), "hint: a newer version"]);
    live.end(&["stop", &id]).exits(1).tells(&["could not stop", "has format 99", "hint: a newer version"]);
    live.end(&["sessions", "remove", &id]).exits(2).tells(&["is running"]);

    assert_eq!(contents(&session.dir()), before, "nothing was written");
    assert!(rustix::process::test_kill_process(session.runner).is_ok(), "the runner lives");
    std::fs::write(&meta, ours).expect("written");
    session.is("idle");
    assert_eq!(session.stop().text(), "one");
}
