//! Retries and fallbacks of the router: a retry goes on in the session and its numbers, a fallback is a linked session, and the
//! stream, the watches and the cursor of a turn span both.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bowline::journal::{Home, Reader, Repaired, SessionMeta, repair, update_meta};
use bowline::kinds::SessionState;
use bowline::testing::{self, Script, World, script};
use bowline::{Event, EventCursor, Fallback, Kind, Record, SessionId, Task};

use crate::says;

const OVERLOADED: &str = r#"{"session": "n-0", "steps": [{"fail": "529 overloaded_error"}]}"#;
const QUOTA: &str = r#"{"session": "n-0", "steps": [{"say": ""}, {"fail": "insufficient_quota"}]}"#;

/// Fails so many times, and then plays the last script.
fn fails_then(count: usize, last: Script) -> Script {
    (0..count).rev().fold(last, |rest, _| script(OVERLOADED).then(rest))
}

/// Reads the rest of a watch.
async fn rest(mut watch: bowline::EventWatch) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = watch.next().await.expect("the journal") {
        events.push(event);
    }
    events
}

/// Runs a task, and returns the events of its stream and its record.
async fn run(task: Task) -> (Vec<Event>, Record) {
    let mut turn = task.start().await.expect("a turn");
    let mut events = Vec::new();
    while let Some(event) = turn.try_next().await.expect("the journal") {
        events.push(event);
    }
    (events, turn.outcome().await.expect("a record"))
}

fn turns(events: &[Event]) -> Vec<Option<u32>> {
    let started = events.iter().filter(|event| matches!(event.kind, Kind::TurnStarted(_)));
    started.map(|event| event.turn).collect()
}

fn dir(world: &World, session: &SessionId) -> PathBuf {
    world.home().session_dir(session).expect("a name")
}

#[tokio::test(start_paused = true)]
async fn a_retry_continues_the_session_and_its_numbers() {
    let world = testing::world();
    world.provider("claude", fails_then(2, says("hello")));
    let (own, record) = run(world.task("Say hello").provider("claude").retries(2)).await;
    assert_eq!((record.text.as_deref(), record.attempts.len()), (Some("hello"), 3));
    assert!(own.iter().zip(1..).all(|(event, seq)| event.seq == seq && event.session == record.session));
    assert_eq!(turns(&own), [Some(1), Some(2), Some(3)]);
    // Each attempt says where in the session it begins: with a start of its own, behind the end of the one before.
    for (place, attempt) in record.attempts.iter().enumerate() {
        assert_eq!(attempt.session, record.session);
        let first = usize::try_from(attempt.first_seq).expect("small") - 1;
        assert!(matches!(own[first].kind, Kind::SessionStarted(_)), "{:?}", own[first]);
        assert_eq!(own[first].turn, None);
        assert!(place == 0 || matches!(own[first - 1].kind, Kind::SessionEnded(_)));
    }
    // The journal has the same.
    let dir = dir(&world, &record.session);
    let mut reader = Reader::open(&dir).expect("the journal");
    for event in &own {
        assert_eq!(reader.next_event().expect("the journal").as_ref(), Some(event));
    }
    assert_eq!(reader.next_event().expect("the journal"), None);
    // The native session is that of the last attempt.
    let meta = reader.meta().expect("the description");
    assert_eq!((meta.native_session.as_ref().map(|it| it.as_str()), meta.parent), (Some("n-1"), None));
    assert_eq!(meta.state, SessionState::Completed);
    assert_eq!(std::fs::read_dir(world.home().sessions_dir()).expect("the sessions").count(), 1);
    assert_eq!(repair(&dir, meta.registered_at).expect("repairs"), Repaired::default(), "it is in order");
    let object = serde_json::to_value(&record).expect("an object");
    assert_eq!(
        (object["text"].as_str(), object["attempts"].as_array().map(Vec::len)),
        (Some("hello"), Some(3))
    );
    assert_eq!(object["attempts"][1]["first_seq"], record.attempts[1].first_seq);
    // The session goes on with the next prompt.
    world.provider("claude", says("again"));
    let next = world.task("Once more").provider("claude").resume(record.session.as_str()).run().await;
    assert_eq!(next.expect("a record").session, record.session);
}

#[tokio::test(start_paused = true)]
async fn a_retry_without_a_lasting_journal_numbers_on() {
    for task in [Task::ephemeral as fn(Task) -> Task, Task::without_journal] {
        let plain = bowline::task("Say hello").provider("claude").retries(2);
        let (own, record) = run(task(plain.script(fails_then(2, says("hello"))))).await;
        assert!(own.iter().zip(1..).all(|(event, seq)| event.seq == seq && event.session == record.session));
        assert_eq!((turns(&own), record.text.as_deref()), (vec![Some(1), Some(2), Some(3)], Some("hello")));
        assert_eq!(record.journal, None);
        // The bytes of a process follow those of the process before it.
        let starts = own.iter().filter_map(|event| {
            if let Kind::ProcessSpawned(spawned) = &event.kind { Some(spawned.raw_start) } else { None }
        });
        let starts: Vec<u64> = starts.collect();
        assert!(starts.len() == 3 && starts.is_sorted_by(|one, next| one < next), "{starts:?}");
        assert!(!std::env::temp_dir().join(format!("bowline-{}", record.session)).exists());
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_a_linked_session_behind_the_retries() {
    let world = testing::world();
    world.provider("claude", script(OVERLOADED));
    world.provider("codex", fails_then(1, says("by codex")));
    let task = world.task("Do it").providers(["claude", "codex"]).fallback(Fallback::Any).retries(1);
    let (own, record) = run(task).await;
    let sessions: Vec<_> = record.attempts.iter().map(|attempt| attempt.session.clone()).collect();
    let [first, again, second, last] = &sessions[..] else { panic!("{sessions:?}") };
    assert_eq!((first, second), (again, last));
    assert_ne!(first, second);
    let parent = |session| SessionMeta::read(&dir(&world, session)).expect("the description").parent;
    assert_eq!((parent(first), parent(second)), (None, Some(first.clone())), "also behind its own retry");
    for session in [first, second] {
        let of_it: Vec<_> = own.iter().filter(|event| event.session == *session).cloned().collect();
        assert!(of_it.iter().zip(1..).all(|(event, seq)| event.seq == seq), "{session}");
        assert_eq!(turns(&of_it), [Some(1), Some(2)]);
    }
}

/// Chooses by a fixed rule, so that a case that fails can be played again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Reads a turn by its cursor only: each watch is dropped after a few events, and the next one begins behind the last event.
async fn read_in_pieces(turn: &bowline::Turn, dice: &mut Dice) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let mut watch = match events.last() {
            Some(last) => turn.watch_after(&EventCursor::from(last)),
            None => turn.watch_from(1),
        }
        .expect("a journal");
        for _ in 0..=dice.roll(3) {
            match watch.next().await.expect("the journal") {
                Some(event) => events.push(event),
                None => return events,
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_anywhere_goes_on_by_its_cursor() {
    for seed in 1..=24_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let world = testing::world();
        let names = ["claude", "codex", "gemini"];
        for name in names {
            let failures = usize::try_from(dice.roll(4)).expect("small");
            let last = if dice.roll(2) == 0 { says(name) } else { script(QUOTA) };
            world.provider(name, fails_then(failures, last));
        }
        let task = world.task("Do it").providers(names).fallback(Fallback::Any).retries(2);
        let mut turn = task.start().await.expect("a turn");
        // While it runs: the turn itself is read later, from the journals.
        let pieces = read_in_pieces(&turn, &mut dice).await;
        let mut own = Vec::new();
        while let Some(event) = turn.try_next().await.expect("the journal") {
            own.push(event);
        }
        assert_eq!(pieces, own, "seed {seed}: each event once");
        for pair in own.windows(2) {
            let follows = pair[0].session == pair[1].session && pair[1].seq == pair[0].seq + 1;
            assert!(follows || pair[1].seq == 1, "seed {seed}: {pair:?}");
        }
        for (place, event) in own.iter().enumerate() {
            let watch = turn.watch_after(&EventCursor::from(event)).expect("a journal");
            assert_eq!(rest(watch).await, own[place + 1..], "seed {seed}: behind event {place}");
        }
        // Each session has its turns in order, and each begun turn one end.
        let record = turn.outcome().await.expect("a record");
        let ends = own.iter().filter(|event| matches!(event.kind, Kind::TurnEnded(_))).count();
        assert_eq!(turns(&own).len(), ends, "seed {seed}");
        let sessions = own.iter().filter(|event| event.seq == 1).count();
        let starts = own.iter().filter(|event| {
            matches!(event.kind, Kind::SessionStarted(_)) && event.source == bowline_protocol::Source::Bowline
        });
        assert_eq!(starts.count(), record.attempts.len(), "seed {seed}");
        assert!(sessions <= names.len(), "seed {seed}: one for each provider: {:?}", record.attempts);
    }
}

/// Looks at the lock of a session until it is told to stop, and returns how often it was free.
fn look_at_lock(home: &Home, session: &SessionId, over: &Arc<AtomicBool>) -> std::thread::JoinHandle<u32> {
    let (dir, over) = (home.session_dir(session).expect("a name"), over.clone());
    std::thread::spawn(move || {
        let reader = Reader::open(&dir).expect("the journal");
        let mut free = 0;
        loop {
            let is_free = !reader.is_live().expect("looks");
            // Asked behind the look: a thread that waits for a CPU between the two sees the lock of a run that is over.
            if over.load(Ordering::SeqCst) {
                return free;
            }
            free += u32::from(is_free);
        }
    })
}

#[tokio::test(start_paused = true)]
async fn no_other_process_gets_the_session_between_two_attempts() {
    let world = testing::world();
    world.provider("claude", fails_then(12, says("hello")));
    let over = Arc::new(AtomicBool::new(false));
    let (flag, looks) = (over.clone(), Arc::new(Mutex::new(None)));
    let (home, found) = (world.home(), looks.clone());
    let task = world.task("Say hello").provider("claude").retries(12).on_event(move |event| {
        // From its first event to its answer.
        if event.seq == 1 {
            *found.lock().expect("no panic") = Some(look_at_lock(&home, &event.session, &flag));
        }
        if matches!(event.kind, Kind::TextDelta(_)) {
            flag.store(true, Ordering::SeqCst);
        }
    });
    let record = task.run().await.expect("a record");
    assert_eq!((record.text.as_deref(), record.attempts.len()), (Some("hello"), 13));
    let looks = looks.lock().expect("no panic").take().expect("a thread");
    assert_eq!(looks.join().expect("no panic"), 0, "the lock was free");
    let reader = Reader::open(&dir(&world, &record.session)).expect("the journal");
    assert!(!reader.is_live().expect("looks"), "it is free when the record is there");
}

/// Drops a run at an event of its second attempt, and returns the directory of its session.
async fn dropped_at(world: &World, second: Script, at: fn(&Kind) -> bool) -> PathBuf {
    world.provider("claude", script(OVERLOADED).then(second));
    let (seen, session) = (Arc::new(tokio::sync::Notify::new()), Arc::new(Mutex::new(None)));
    let (told, found) = (seen.clone(), session.clone());
    let task = world.task("Say hello").provider("claude").retries(2).on_event(move |event| {
        if event.seq > 1 && at(&event.kind) {
            *found.lock().expect("no panic") = Some(event.session.clone());
            told.notify_one();
        }
    });
    tokio::select! {
        biased;
        () = seen.notified() => {}
        record = task.run() => panic!("{record:?}"),
    }
    let session = session.lock().expect("no panic").take().expect("a session");
    dir(world, &session)
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_in_a_retry_ends_its_session() {
    let hangs = r#"{"session": "n-1", "steps": [{"say": "so far"}, {"hang": true}]}"#;
    let moments: [fn(&Kind) -> bool; 2] =
        [|kind| matches!(kind, Kind::Retrying(_)), |kind| matches!(kind, Kind::TextDelta(_))];
    for at in moments {
        let world = testing::world();
        let dir = dropped_at(&world, script(hangs), at).await;
        let mut reader = Reader::open(&dir).expect("the journal");
        assert!(!reader.is_live().expect("looks"));
        let meta = reader.meta().expect("the description");
        assert_eq!(meta.state, SessionState::Failed);
        let marks = || std::fs::read_dir(world.home().path().join("open")).expect("the marks").count();
        assert_eq!(marks(), 0);
        assert_eq!(repair(&dir, meta.registered_at).expect("repairs"), Repaired::default());
        let mut bounds = Vec::new();
        while let Some(event) = reader.next_event().expect("the journal") {
            let starts = event.source == bowline_protocol::Source::Bowline;
            if starts && matches!(event.kind, Kind::SessionStarted(_) | Kind::SessionEnded(_)) {
                bounds.push(event.kind.type_name().to_owned());
            }
        }
        assert_eq!(bounds, ["session_started", "session_ended"].repeat(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_comes_between_two_attempts_is_not_lost() {
    let world = testing::world();
    world.provider("claude", fails_then(1, says("hello")));
    let home = world.home();
    let task = world.task("Say hello").provider("claude").retries(1).on_event(move |event| {
        if matches!(event.kind, Kind::SessionEnded(_)) && event.turn == Some(1) {
            let dir = home.session_dir(&event.session).expect("a name");
            let abort = bowline::journal::Abort { at: event.at, reason: None };
            update_meta(&dir, |meta| meta.abort = Some(abort)).expect("marks");
        }
    });
    let record = task.run().await.expect("a record");
    let meta = SessionMeta::read(&dir(&world, &record.session)).expect("the description");
    assert!(meta.abort.is_some() && record.attempts.len() == 2, "{meta:?}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_cannot_open_the_journal_leaves_the_attempt_before_it() {
    let world = testing::world();
    world.provider("claude", script(OVERLOADED));
    let open = world.home().path().join("open");
    let task = world.task("Say hello").provider("claude").retries(2).on_event(move |event| {
        // The directory of the marks is gone when the retry wants to set its mark, and a file has its name.
        if matches!(event.kind, Kind::SessionEnded(_)) {
            std::fs::rename(&open, open.with_extension("away")).expect("renames");
            std::fs::write(&open, "").expect("writes");
        }
    });
    let record = task.run().await.expect("a record");
    assert_eq!(record.attempts.len(), 1, "{:?}", record.attempts);
    assert!(record.attempts[0].then.contains("; this failed: "), "{}", record.attempts[0].then);
    let reader = Reader::open(&dir(&world, &record.session)).expect("the journal");
    assert!(!reader.is_live().expect("looks"));
    assert_eq!(reader.meta().expect("the description").state, SessionState::Failed);
}
