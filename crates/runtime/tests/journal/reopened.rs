//! A journal that was cut anywhere is opened again, and goes on without a gap in its numbers and its bytes.

use bowline::journal::{Home, JournalError, Options, Reader, SessionMeta, Writer, repair};
use bowline_protocol::kinds::{EndReason, SessionStarted};
use bowline_protocol::{Kind, RawFile, Source};
use proptest::prelude::*;

use super::checker::check;
use super::{Script, now};

impl Script {
    /// Goes on with a session, as another runner.
    fn reopen(dir: &std::path::Path) -> (Self, bowline::journal::JournalEnd) {
        let (writer, end) = Writer::open(dir, Options::default(), now(), |_| ()).expect("opens");
        let session = writer.meta().id.clone();
        let mut script = Self { writer, session, seq: end.next_seq - 1, micros: 1_000_000 };
        let mut started = script.event(None, Kind::SessionStarted(SessionStarted::default()));
        (started.source, started.turn) = (Source::Bowline, None);
        script.writer.events(&[started]).expect("writes");
        (script, end)
    }

    /// Writes a whole turn.
    fn turn(&mut self, words: &[&str]) {
        self.start_turn();
        self.other(RawFile::Stdin, b"go on");
        for word in words {
            self.lines(&[(*word).to_owned(), format!("{word} again")]);
        }
        self.other(RawFile::Stderr, b"a warning");
        self.finish();
    }
}

#[test]
fn numbers_and_bytes_go_on_where_they_ended() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut script = Script::new(&Home::at(scratch.path()), "s-1", Options::default());
    script.turn(&["one"]);
    let dir = script.writer.dir().to_owned();
    let refused = Writer::open(&dir, Options::default(), now(), |_| ());
    let own = std::process::id();
    assert!(matches!(refused, Err(JournalError::Locked { pid: Some(pid), .. }) if pid == own), "{refused:?}");
    script.writer.close().expect("closes");

    for words in [&["two"][..], &["three", "four"]] {
        let (mut script, end) = Script::reopen(&dir);
        let found = (end.next_seq, end.next_turn, end.raw_len(RawFile::Stdout));
        assert_eq!((found.1, end.reason), (2, Some(EndReason::Exited)), "the script has one turn number");
        assert_eq!(end.repaired, bowline::journal::Repaired::default());
        assert!(found.0 > 1 && found.2 > 0 && end.raw_len(RawFile::Pty) == 0, "{found:?}");
        assert_eq!(
            end.raw_len(RawFile::Stdout),
            std::fs::metadata(dir.join("stdout.raw")).expect("a file").len()
        );
        script.turn(words);
        script.writer.close().expect("closes");
        check(&dir).expect("everything holds");
    }
    let mut reader = Reader::open(&dir).expect("opens");
    let mut count = 0;
    while let Some(event) = reader.next_event().expect("reads") {
        count += 1;
        assert_eq!(event.seq, count);
    }
}

#[test]
fn an_older_description_is_raised_and_a_newer_one_refused() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut script = Script::new(&Home::at(scratch.path()), "s-1", Options::default());
    script.turn(&["one"]);
    let dir = script.writer.dir().to_owned();
    script.writer.close().expect("closes");
    let path = dir.join("session.json");
    let put = |format: u32| {
        let text = std::fs::read_to_string(&path).expect("a file");
        let at = text.find(",").expect("more than one key");
        std::fs::write(&path, format!("{{\"format\": {format}{}", &text[at..])).expect("writes");
    };
    put(1);
    assert_eq!(SessionMeta::read(&dir).expect("reads").format, 1);
    let (script, _) = Script::reopen(&dir);
    assert_eq!(script.writer.meta().format, bowline::journal::META_FORMAT);
    drop(script);
    let found = bowline::journal::META_FORMAT + 1;
    put(found);
    let before = std::fs::read(dir.join("events.jsonl")).expect("a file");
    let refused = Writer::open(&dir, Options::default(), now(), |_| ());
    assert!(matches!(refused, Err(JournalError::NewerFormat { found: 3, known: 2, .. })), "{refused:?}");
    assert!(matches!(repair(&dir, now()), Err(JournalError::NewerFormat { .. })));
    assert_eq!(std::fs::read(dir.join("events.jsonl")).expect("a file"), before, "it is left as it is");
    assert!(Reader::open(&dir).expect("opens").next_event().expect("reads").is_some(), "its events are read");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Each file loses a part of its end, twice: in its first stint and in its second.
    #[test]
    fn a_journal_that_was_cut_anywhere_goes_on(
        cuts in proptest::array::uniform2((0.0..=1.0_f64, 0.0..=1.0_f64, 0.0..=1.0_f64)),
    ) {
        let scratch = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        let mut script = Script::new(&Home::at(scratch.path()), "s-1", Options::default());
        script.turn(&["one", "\u{e9}\u{1f511}"]);
        let dir = script.writer.dir().to_owned();
        script.writer.close().expect("closes");
        for (events, index, stdout) in cuts {
            for (name, kept) in [("events.jsonl", events), ("io.index", index), ("stdout.raw", stdout)] {
                let path = dir.join(name);
                let bytes = std::fs::read(&path).expect("a file");
                let kept = (bytes.len() as f64 * kept) as usize;
                std::fs::write(&path, &bytes[..kept]).expect("writes");
            }
            let (mut script, end) = Script::reopen(&dir);
            let stdout = std::fs::metadata(dir.join("stdout.raw")).expect("a file").len();
            prop_assert_eq!(end.raw_len(RawFile::Stdout), stdout);
            script.turn(&["two"]);
            script.writer.close().expect("closes");
            let checked = check(&dir);
            prop_assert!(checked.is_ok(), "{:?}", checked);
        }
    }
}
