//! The journal as its users see it: what was written is read again, in order, from any place, while it grows.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bowline_protocol::kinds::{
    EndReason, ProcessSpawned, SessionEnded, SessionState, TextDelta, Transport, TurnOrigin, TurnStarted,
};
use bowline_protocol::{
    Event, FORMAT_VERSION, Kind, MessageId, RawFile, RawSpan, SessionId, Source, Timestamp,
};

use super::*;

const NOW: &str = "2026-11-15T08:30:00.123Z";

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

fn at(micros: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros)
}

pub(super) fn event(seq: u64, raw: Option<RawSpan>, kind: Kind) -> Event {
    let (session, source) = (SessionId::from("s-1"), Source::Agent);
    Event { v: FORMAT_VERSION, seq, at: now(), session, turn: Some(1), source, raw, kind }
}

fn text(seq: u64, text: &str) -> Event {
    let message = MessageId::from("m1");
    event(seq, None, Kind::TextDelta(TextDelta { message, block: 0, text: text.to_owned(), parent: None }))
}

fn started(seq: u64) -> Event {
    event(seq, None, Kind::TurnStarted(TurnStarted { origin: TurnOrigin::Prompt, native_turn: None }))
}

fn meta() -> SessionMeta {
    SessionMeta::new("s-1".into(), "some-provider", now())
}

fn writer(home: &Path, options: Options) -> Writer {
    Writer::create(&Home::at(home), meta(), options).expect("creates")
}

fn seqs(reader: &mut Reader) -> Vec<u64> {
    std::iter::from_fn(|| reader.next_event().expect("reads")).map(|event| event.seq).collect()
}

#[test]
fn what_was_written_is_read_again() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    assert_eq!(writer.raw(RawFile::Stdin, at(1), b"prompt").expect("writes"), 0);
    assert_eq!(writer.raw(RawFile::Stdout, at(2), b"one\n").expect("writes"), 0);
    assert_eq!(writer.raw(RawFile::Stderr, at(3), b"oops\n").expect("writes"), 0);
    assert_eq!(writer.raw(RawFile::Stdout, at(4), b"two\n").expect("writes"), 4);
    let span = RawSpan { file: RawFile::Stdout, start: 4, end: 7 };
    let events = [started(1), event(2, Some(span), text(2, "two").kind)];
    writer.events(&events).expect("writes");
    writer.sync().expect("syncs");

    let mut reader = Reader::open(writer.dir()).expect("opens");
    assert!(reader.is_live().expect("looks"));
    assert_eq!(reader.meta().expect("reads"), *writer.meta());
    assert!(reader.poll().expect("looks"));
    assert_eq!(reader.next_event().expect("reads"), Some(events[0].clone()));
    assert_eq!(reader.next_event().expect("reads"), Some(events[1].clone()));
    assert_eq!(reader.next_event().expect("reads"), None);
    assert!(!reader.poll().expect("looks"));
    assert_eq!(reader.raw(span).expect("reads"), b"two");
    assert!(matches!(reader.raw(RawSpan { end: 9, ..span }), Err(JournalError::NoSuchBytes { len: 8, .. })));

    let mut index = reader.index().expect("opens");
    let records: Vec<IndexRecord> = std::iter::from_fn(|| index.next_record().expect("reads")).collect();
    let order: Vec<_> =
        records.iter().map(|record| (record.micros, record.span.file, record.span.start)).collect();
    let wanted =
        [(1, RawFile::Stdin, 0), (2, RawFile::Stdout, 0), (3, RawFile::Stderr, 0), (4, RawFile::Stdout, 4)];
    assert_eq!(order, wanted);
    assert_eq!(records[3].at(), at(4));

    writer.events(&[text(3, "later")]).expect("writes");
    assert!(reader.poll().expect("looks"));
    assert_eq!(seqs(&mut reader), [3]);
    writer.close().expect("closes");
    assert!(!reader.is_live().expect("looks"));
}

/// Copies a session as a runner leaves it that is killed now.
fn killed(writer: &Writer, home: &Path) -> std::path::PathBuf {
    let dir = home.join("killed");
    std::fs::create_dir_all(&dir).expect("creates");
    for entry in std::fs::read_dir(writer.dir()).expect("lists") {
        let entry = entry.expect("lists");
        std::fs::copy(entry.path(), dir.join(entry.file_name())).expect("copies");
    }
    dir
}

#[test]
fn the_end_of_a_stint_is_the_last_event_also_of_a_runner_that_is_killed_behind_it() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    writer.raw(RawFile::Stdout, at(1), b"one\n").expect("writes");
    let ended = Kind::SessionEnded(SessionEnded { exit: None, reason: EndReason::Exited });
    writer.events(&[text(1, "one"), event(2, None, ended)]).expect("writes");
    let report = repair(&killed(&writer, home.path()), now()).expect("repairs");
    assert_eq!(report, Repaired::default(), "the time of the bytes is on file before the end");
}

#[test]
fn records_are_written_together_and_a_repair_makes_up_for_those_that_are_lost() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    let mut index = Reader::open(writer.dir()).expect("opens").index().expect("opens");
    let mut on_file = || std::iter::from_fn(|| index.next_record().expect("reads")).count();
    assert_eq!(on_file(), 0, "before the first byte there is no index");
    writer.events(&[started(1)]).expect("writes");
    for number in 0..64 {
        writer.raw(RawFile::Stdout, at(number), b"one\n").expect("writes");
    }
    assert_eq!(on_file(), 0);
    writer.raw(RawFile::Stdout, at(64), b"two\n").expect("writes");
    assert_eq!(on_file(), 64, "enough of them are there");
    writer.raw(RawFile::Stderr, at(65), b"oops\n").expect("writes");
    let used = writer.used();

    let dir = killed(&writer, home.path());
    let report = repair(&dir, now()).expect("repairs");
    let lost = [
        RawSpan { file: RawFile::Stdout, start: 256, end: 260 },
        RawSpan { file: RawFile::Stderr, start: 0, end: 5 },
    ];
    assert_eq!((&report.unindexed[..], report.missing.len()), (&lost[..], 0));
    assert!(report.has_gap());
    let reader = Reader::open(&dir).expect("opens");
    assert_eq!(reader.raw(lost[0]).expect("reads"), b"two\n", "no byte is lost");
    let mut index = reader.index().expect("opens");
    let records: Vec<IndexRecord> = std::iter::from_fn(|| index.next_record().expect("reads")).collect();
    assert_eq!(records.iter().filter(|record| record.recovered).count(), 2);
    assert_eq!(repair(&dir, now()).expect("repairs"), Repaired::default());

    writer.write_index().expect("writes");
    assert_eq!((on_file(), writer.used()), (2, used), "what waits counts already");
    writer.raw(RawFile::Stderr, at(66), b"oops\n").expect("writes");
    writer.sync().expect("syncs");
    assert_eq!(on_file(), 1);
    writer.raw(RawFile::Stderr, at(67), b"oops\n").expect("writes");
    writer.close().expect("closes");
    assert_eq!(on_file(), 1);
}

#[test]
fn a_session_without_a_byte_has_no_index_and_needs_no_repair_but_its_end() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    writer.events(&[started(1)]).expect("writes");
    assert!(!writer.dir().join(INDEX_FILE).exists());
    let report = repair(&killed(&writer, home.path()), now()).expect("repairs");
    assert!(!report.has_gap());
    assert_eq!(report.appended.len(), 2);
}

#[test]
fn a_torn_line_is_not_yet_an_event() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    writer.events(&[started(1)]).expect("writes");
    let path = writer.dir().join(EVENTS_FILE);
    let mut line = serde_json::to_vec(&text(2, "x")).expect("writes");
    line.push(b'\n');
    let mut reader = Reader::open(writer.dir()).expect("opens");
    assert_eq!(seqs(&mut reader), [1]);
    let old = std::fs::read(&path).expect("reads");
    for end in 1..line.len() {
        std::fs::write(&path, [&old, &line[..end]].concat()).expect("writes");
        assert_eq!(reader.next_event().expect("reads"), None, "after {end} bytes");
    }
    std::fs::write(&path, [&*old, &line].concat()).expect("writes");
    assert_eq!(seqs(&mut reader), [2]);
}

#[test]
fn a_reader_finds_any_number() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    let events: Vec<Event> = (1..=3000).map(|seq| text(seq, &"x".repeat(seq as usize * 7 % 400))).collect();
    writer.events(&events).expect("writes");
    let mut reader = Reader::open(writer.dir()).expect("opens");
    for seq in (0..=3000).step_by(37).chain([1, 2, 2999, 3000]) {
        reader.seek(seq).expect("seeks");
        let found = reader.next_event().expect("reads").expect("is there");
        assert_eq!(found.seq, seq.max(1));
    }
    reader.seek(3001).expect("seeks");
    assert_eq!(reader.next_event().expect("reads"), None);
    writer.events(&[text(3001, "new")]).expect("writes");
    assert_eq!(seqs(&mut reader), [3001]);
    assert!(reader.memory() < 1 << 20);
}

#[test]
fn events_out_of_order_are_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    for wrong in [vec![text(2, "")], vec![text(1, ""), text(3, "")], vec![text(1, ""), text(1, "")]] {
        assert!(matches!(writer.events(&wrong), Err(JournalError::OutOfOrder { .. })));
    }
    writer.events(&[]).expect("nothing is in order");
    writer.events(&[text(1, "")]).expect("writes");
    assert_eq!(seqs(&mut Reader::open(writer.dir()).expect("opens")), [1]);
}

#[test]
fn a_full_quota_still_takes_the_end() {
    let home = tempfile::tempdir().expect("a directory");
    let quota = 256 * 1024;
    let mut writer = writer(home.path(), Options { quota, ..Options::default() });
    writer.events(&[text(1, "hello")]).expect("writes");
    let chunk = [b'x'; 10_000];
    let refused = loop {
        if let Err(error) = writer.raw(RawFile::Stdout, at(1), &chunk) {
            break error;
        }
    };
    assert!(matches!(refused, JournalError::QuotaExceeded { limit } if limit == quota));
    assert!(refused.is_out_of_room() && refused.hint().is_some());
    assert!(writer.raw(RawFile::Stderr, at(1), &chunk).is_err(), "whatever the stream");
    let long = "y".repeat(60_000);
    assert!(matches!(writer.events(&[text(2, &long)]), Err(JournalError::QuotaExceeded { .. })));

    // Event 2 is lost; the end is numbered after it by an engine that does not know that.
    let end = event(3, None, Kind::SessionEnded(SessionEnded { exit: None, reason: EndReason::Stopped }));
    let written = writer.closing(vec![end]).expect("there is room for the end");
    let said: Vec<_> = written.iter().map(|event| (event.seq, event.kind.type_name())).collect();
    assert_eq!(said, [(2, "gap"), (3, "session_ended")]);
    let Kind::Gap(gap) = &written[0].kind else { panic!("a gap comes first") };
    assert_eq!(gap.events, Some(1));
    assert_eq!(seqs(&mut Reader::open(writer.dir()).expect("opens")), [1, 2, 3]);
    assert!(writer.used() <= quota, "{} of {quota}", writer.used());
    let dir = writer.dir().to_owned();
    writer.close().expect("closes");
    assert_eq!(repair(&dir, now()).expect("repairs"), Repaired::default(), "nothing is out of order");
}

#[test]
fn a_description_is_changed_by_several() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    let abort = Abort { at: now(), reason: Some("kill_all".to_owned()) };
    update_meta(writer.dir(), |meta| meta.abort = Some(abort.clone())).expect("marks");
    writer.set_meta(|meta| meta.state = SessionState::Running).expect("changes");
    assert_eq!((writer.meta().state, &writer.meta().abort), (SessionState::Running, &Some(abort)));
    let there = writer.meta().runner.expect("we are known");
    assert!(there.is_there());
    assert!(!Runner { started: Some(1), ..there }.is_there(), "another process with our number");

    let many = std::thread::scope(|scope| {
        let add = || {
            for _ in 0..20 {
                let label =
                    |meta: &mut SessionMeta| meta.label = Some(meta.label.take().unwrap_or_default() + "x");
                update_meta(writer.dir(), label).expect("changes");
            }
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).count()
    });
    let label = SessionMeta::read(writer.dir()).expect("reads").label.expect("is set");
    assert_eq!(label.len(), many * 20, "no change is lost");
}

#[test]
fn newer_directories_are_left_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = writer(home.path(), Options::default()).dir().to_owned();
    let path = dir.join(META_FILE);
    std::fs::write(&path, r#"{"format":3,"all":"else is new"}"#).expect("writes");
    assert!(matches!(SessionMeta::read(&dir), Err(JournalError::NewerFormat { found: 3, known: 2, .. })));
    assert!(matches!(repair(&dir, now()), Err(JournalError::NewerFormat { .. })));
}

#[test]
fn sessions_are_listed_and_broken_ones_reported() {
    let temporary = tempfile::tempdir().expect("a directory");
    let home = Home::at(temporary.path().join("not/there/yet"));
    assert_eq!(home.sessions().expect("lists").count(), 0);
    let mut writers = Vec::new();
    for id in ["s-2", "s-1"] {
        let meta = SessionMeta { id: id.into(), ..meta() };
        writers.push(Writer::create(&home, meta, Options::default()).expect("creates"));
    }
    std::fs::create_dir(home.sessions_dir().join("s-0")).expect("creates");
    std::fs::write(home.sessions_dir().join("a file"), "").expect("writes");
    writers.pop().expect("there are two").close().expect("closes");
    let mut listed = home.sessions().expect("lists");
    assert!(matches!(listed.next(), Some(Err(JournalError::NoSession { .. }))));
    let rest: Vec<_> = listed.map(|entry| entry.expect("is whole")).collect();
    let states: Vec<_> =
        rest.iter().map(|entry| (entry.meta.id.as_str(), entry.is_live().expect("looks"))).collect();
    assert_eq!(states, [("s-1", false), ("s-2", true)]);
    let again = SessionMeta { id: "s-1".into(), ..meta() };
    assert!(matches!(Writer::create(&home, again, Options::default()), Err(JournalError::Exists { .. })));
}

#[test]
fn names_of_sessions_sort_by_time_and_name_directories() {
    let home = Home::at("/nowhere");
    let first = new_session_id(Timestamp::from_millis(1_000), [255; 5]);
    let second = new_session_id(Timestamp::from_millis(1_001), [0; 5]);
    assert_eq!((first.as_str(), first < second), ("s-19700101-000001000-zzzzzzzz", true));
    assert_ne!(home.new_id(now()).expect("random"), home.new_id(now()).expect("random"));
    assert!(home.session_dir(&home.new_id(now()).expect("random")).is_ok());
    for bad in ["", ".", "..", "a/b", ".hidden", "a\0b", "a b", &"x".repeat(129)] {
        assert!(matches!(home.session_dir(&bad.into()), Err(JournalError::BadId { .. })), "{bad:?}");
    }
}

#[test]
fn a_reader_that_waits_at_a_torn_line_sees_what_a_repair_puts_there() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    writer.events(&[started(1)]).expect("writes");
    let dir = writer.dir().to_owned();
    drop(writer);
    let path = dir.join(EVENTS_FILE);
    let torn = [std::fs::read(&path).expect("reads"), br#"{"v":1,"seq":2,"at":"20"#.to_vec()].concat();
    std::fs::write(&path, torn).expect("writes");
    let mut reader = Reader::open(&dir).expect("opens");
    assert_eq!(seqs(&mut reader), [1]);
    assert!(reader.poll().expect("looks"), "there is half a line");
    let report = repair(&dir, now()).expect("repairs");
    assert_eq!((report.cut_events, report.appended.len()), (23, 3));
    let said: Vec<Event> = std::iter::from_fn(|| reader.next_event().expect("reads")).collect();
    assert_eq!(said, report.appended);
}

#[test]
fn whole_lines_that_make_no_sense_are_put_aside() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    writer.events(&[started(1), text(2, "kept")]).expect("writes");
    let dir = writer.dir().to_owned();
    drop(writer);
    let path = dir.join(EVENTS_FILE);
    let good = std::fs::read(&path).expect("reads");
    let bad = b"\0\0\0\0\n{\"v\":1}\nhalf";
    std::fs::write(&path, [&good, &bad[..]].concat()).expect("writes");
    let mut reader = Reader::open(&dir).expect("opens");
    reader.seek(2).expect("seeks");
    assert_eq!(reader.next_event().expect("reads").map(|event| event.seq), Some(2));
    let offset = good.len() as u64;
    assert!(matches!(reader.next_event(), Err(JournalError::Damaged { offset: at, .. }) if at == offset));

    let report = repair(&dir, now()).expect("repairs");
    assert_eq!((report.cut_events, report.cut_lines), (bad.len() as u64, 2));
    let Kind::Gap(gap) = &report.appended[0].kind else { panic!("a gap comes first") };
    assert_eq!((gap.events, gap.bytes), (Some(2), Some(bad.len() as u64)));
    assert_eq!(std::fs::read(dir.join("events.jsonl.damaged")).expect("reads"), bad);
    assert!(std::fs::read(&path).expect("reads").starts_with(&good));
    assert_eq!(repair(&dir, now()).expect("repairs"), Repaired::default());
}

/// A session may have processes that speak different dialects: a second plan, a second try without streaming.
#[test]
fn the_whole_output_of_a_tool_is_decoded_as_its_process_speaks() {
    let output = "long line\n".repeat(10_000);
    let claude = [
        serde_json::json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m", "tools": []}),
        serde_json::json!({"type": "assistant", "message": {"id": "m1", "role": "assistant", "content": [
            {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cat big"}}]}}),
        serde_json::json!({"type": "user", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": output}]}}),
    ];
    let content = |text: &str| serde_json::json!({"content": [{"type": "text", "text": text}]});
    let update = |text: &str| {
        serde_json::json!({"type": "tool_execution_update", "toolCallId": "t2", "toolName": "bash",
            "args": {"command": "cat big"}, "partialResult": content(text)})
    };
    let pi = [
        serde_json::json!({"type": "agent_start"}),
        serde_json::json!({"type": "tool_execution_start", "toolCallId": "t2", "toolName": "bash",
            "args": {"command": "cat big"}}),
        update("first\n"),
        // The event carries what is new in the update, which only those before it tell.
        update(&format!("first\n{output}")),
        serde_json::json!({"type": "tool_execution_end", "toolCallId": "t2", "toolName": "bash",
            "result": content(&format!("first\n{output}")), "isError": false}),
    ];
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    let (mut seq, mut start, mut wanted) = (0, 0, Vec::new());
    for (name, lines) in [("claude", &claude[..]), ("pi", &pi[..]), ("claude", &claude[..])] {
        let mut events = Vec::new();
        let mut add = |raw, kind| {
            seq += 1;
            events.push(event(seq, raw, kind));
        };
        let (dialect, transport) = (Some(name.to_owned()), Transport::Pipe);
        let (program, raw_start) = ("agent".to_owned(), start);
        add(
            None,
            Kind::ProcessSpawned(ProcessSpawned {
                pid: 7,
                program,
                transport,
                containment: None,
                dialect,
                raw_start,
            }),
        );
        let bytes: String = lines.iter().map(|line| format!("{line}\n")).collect();
        writer.raw(RawFile::Stdout, at(1), bytes.as_bytes()).expect("writes");
        let entry = bowline_providers::dialects::by_name(name).expect("a dialect");
        let (mut decoder, mut drafts) = (bowline_providers::decode::Decoder::new(entry), Vec::new());
        decoder.stdout(bytes.as_bytes(), &bowline_providers::moment::Moment::utc(now()), &mut drafts);
        for draft in drafts {
            let raw = draft.raw.map(|raw| RawSpan { start: raw.start + start, end: raw.end + start, ..raw });
            add(raw, draft.kind);
        }
        writer.events(&events).expect("writes");
        wanted.extend(events.into_iter().filter_map(|event| {
            let output = whole::output_of(&event.kind).map(|(_, output)| output.clone());
            output.filter(|output| output.is_cut()).map(|output| (event, output.bytes))
        }));
        start += bytes.len() as u64;
    }
    let reader = Reader::open(writer.dir()).expect("opens");
    assert_eq!(wanted.len(), 4, "three ends, one update: {wanted:?}");
    for (event, bytes) in wanted {
        let whole = reader.tool_output(&event).expect("reads").unwrap_or_default();
        assert_eq!(whole.len() as u64, bytes, "event {}", event.seq);
        assert!(whole.ends_with(&output), "event {}", event.seq);
    }
}

#[test]
fn a_runner_keeps_its_session_between_two_runs() {
    let home = tempfile::tempdir().expect("a directory");
    let mut writer = writer(home.path(), Options::default());
    let (dir, hold) = (writer.dir().to_owned(), writer.hold());
    let over = Kind::SessionEnded(SessionEnded { exit: None, reason: EndReason::Exited });
    writer.events(&[text(1, "so far"), event(2, None, over)]).expect("writes");
    writer.close_with(|meta| meta.state = SessionState::Failed).expect("closes");
    assert!(is_live(&dir).expect("looks"));
    let other = Writer::open(&dir, Options::default(), now(), |_| ());
    assert!(matches!(other, Err(JournalError::Locked { .. })), "{other:?}");
    // Another process wants to end it, between its runs.
    let abort = Abort { at: now(), reason: None };
    update_meta(&dir, |meta| meta.abort = Some(abort.clone())).expect("marks");
    let change = |meta: &mut SessionMeta| meta.state = SessionState::Starting;
    let (writer, end) = Writer::reopen(hold.clone(), Options::default(), now(), change).expect("opens");
    assert_eq!((end.next_seq, &writer.meta().abort), (3, &Some(abort)), "the mark was for this runner");
    assert!(unfinished::is_marked(&dir));
    // The run could not begin: the session is as before, and still kept.
    drop(writer);
    assert_eq!(hold.repair(now()).expect("repairs"), Repaired::default());
    assert_eq!(SessionMeta::read(&dir).expect("reads").state, SessionState::Failed);
    assert!(!unfinished::is_marked(&dir) && is_live(&dir).expect("looks"));
    drop(hold);
    assert!(!is_live(&dir).expect("looks"));
}
