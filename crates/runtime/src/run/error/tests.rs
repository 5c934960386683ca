//! Every error keeps its cause, down to what the system or the parser said.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};

use super::*;
use crate::run::testing::{script, world};

/// Returns whether something below Bowline caused an error. A new variant has to be looked at here.
fn has_cause(error: &Error) -> bool {
    match error {
        Error::NotResumable { source, .. } => source.is_some(),
        Error::HostTools(error) => matches!(error, HostToolError::Start { .. }),
        Error::Roster(_)
        | Error::Config(_)
        | Error::Ledger { .. }
        | Error::Memory { .. }
        | Error::Journal(_)
        | Error::Keeper(_)
        | Error::BadAnswer { .. }
        | Error::SideFile { .. }
        | Error::Attachment { .. }
        | Error::Socket(_)
        | Error::Background(_) => true,
        // These say all that there is to say: the request, or the agent, is at fault.
        Error::NoProvider
        | Error::UnknownProvider { .. }
        | Error::NoRoute(_)
        | Error::OverBudget { .. }
        | Error::Refused(_)
        | Error::NotText { .. }
        | Error::LongName { .. }
        | Error::NoRuntime(_)
        | Error::Turn(_)
        | Error::TooLong
        | Error::NoJournal
        | Error::NoSuchSession(_)
        | Error::Lost => false,
    }
}

/// Returns the last cause in words.
fn last_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => last_cause(cause),
        None => error.to_string(),
    }
}

fn fire() -> io::Error {
    io::Error::other("the disk is on fire")
}

fn no_json() -> serde_json::Error {
    serde_json::from_str::<u32>("x").unwrap_err()
}

#[test]
fn every_error_keeps_its_cause() {
    let path = || "x".to_owned();
    let full = io::Error::from(io::ErrorKind::StorageFull);
    let large = io::Error::from(io::ErrorKind::FileTooLarge);
    let (full_words, large_words) = (full.to_string(), large.to_string());
    let damaged = || JournalError::Damaged {
        path: PathBuf::from("x"),
        offset: 7,
        reason: "this is not an event".to_owned(),
        source: Some(no_json()),
    };
    let unread = Error::NotResumable {
        session: SessionId::from("s"),
        gap: ResumeGap::Unreadable,
        source: Some(Box::new(damaged())),
    };
    let fire_words = fire().to_string();
    let json_words = no_json().to_string();
    let config = ConfigError::of_file(Path::new("x"), "could not be read").caused_by(fire());
    let samples = [
        (unread, &json_words),
        (Error::from(damaged()), &json_words),
        (Error::from(JournalError::io("write", Path::new("x"), full)), &full_words),
        (Error::from(JournalError::io("write", Path::new("x"), large)), &large_words),
        (Error::from(JournalError::io("write", Path::new("x"), fire())), &fire_words),
        (Error::from(RosterError::Read { path: PathBuf::from("x"), source: fire() }), &fire_words),
        (Error::from(config), &fire_words),
        (Error::Ledger { source: fire() }, &fire_words),
        (Error::Memory { doing: "read", path: path(), source: fire() }, &fire_words),
        (Error::from(KeeperError::Start { program: PathBuf::from("x"), source: fire() }), &fire_words),
        (Error::from(KeeperError::Unreachable(fire())), &fire_words),
        (Error::BadAnswer { text: path(), record: None, source: no_json() }, &json_words),
        (Error::SideFile { path: path(), source: fire() }, &fire_words),
        (Error::Attachment { path: path(), source: fire() }, &fire_words),
        (
            Error::from(SocketError::Io { doing: "bind", path: PathBuf::from("x"), source: fire() }),
            &fire_words,
        ),
        (Error::Background(fire()), &fire_words),
        (Error::from(HostToolError::Start { source: fire() }), &fire_words),
    ];
    for (error, root) in samples {
        assert!(has_cause(&error), "{error:?}");
        assert!(error.source().is_some(), "{error:?} has lost its cause");
        assert_eq!(last_cause(&error), *root, "{error:?}");
        // The chain prints the cause; a message that has it too would print it twice.
        assert!(!error.to_string().contains(root.as_str()), "{error}");
    }
    for error in [Error::NoProvider, Error::TooLong, Error::Lost, Error::from(HostToolError::ServerName)] {
        assert!(!has_cause(&error) && error.source().is_none(), "{error:?}");
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_read_says_why() {
    let world = world();
    let says = r#"{"session": "n-1", "steps": [{"say": "a"}, {"result": {}}]}"#;
    world.provider("claude", script(says));
    let first = world.task("Do it").provider("claude").run().await.unwrap();
    let again = || world.task("Do it").provider("claude").resume(first.session.as_str()).run();
    let dir = first.journal.clone().unwrap();
    std::fs::write(dir.join("session.json"), "{\"format\": 1, half").unwrap();
    let error = again().await.unwrap_err();
    assert!(matches!(&error, Error::NotResumable { gap: ResumeGap::Unreadable, .. }), "{error:?}");
    assert!(last_cause(&error).starts_with("key must be a string"), "{}", last_cause(&error));
    std::fs::remove_file(dir.join("session.json")).unwrap();
    let error = again().await.unwrap_err();
    assert!(matches!(&error, Error::NotResumable { gap: ResumeGap::NotFound, .. }), "{error:?}");
    assert!(last_cause(&error).starts_with("there is no session at "), "{}", last_cause(&error));
}
