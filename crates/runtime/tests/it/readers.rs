//! A slow reader loses nothing and delays no run.

use std::path::Path;
use std::time::Duration;

use bowline::{Event, Kind, Turn};
use libtest_mimic::Trial;

use crate::support::{Stage, is_alive, trial};

/// How many pieces the agent says: far more than wait in memory.
const PIECES: usize = 20_000;

/// How many events are read slowly.
const SLOWLY: u64 = 300;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_slow_reader_gets_every_event_and_holds_nobody_up", with_journal),
        trial("a_slow_reader_of_a_journal_that_goes_gets_every_event", with_journal_that_goes),
        trial("a_slow_reader_without_a_journal_gets_every_event", without_journal),
        trial("an_agent_that_is_held_back_can_be_stopped", stopped_while_held_back),
        trial("when_bytes_came_is_on_file_while_the_agent_thinks", index_of_a_silent_agent),
    ]
}

/// An agent that says many pieces as fast as it can.
fn flood() -> Stage {
    Stage::new(&format!(
        r#"init
        printf '{{"type":"stream_event","event":{{"type":"message_start","message":{{"id":"m1","role":"assistant"}}}},"session_id":"n-1"}}\n'
        printf '{{"type":"stream_event","event":{{"type":"content_block_start","index":0,"content_block":{{"type":"text","text":""}}}},"session_id":"n-1"}}\n'
        awk 'BEGIN {{ for (i = 0; i < {PIECES}; i++) printf "{{\"type\":\"stream_event\",\"event\":{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"%d \"}}}},\"session_id\":\"n-1\"}}\n", i }}'
        result done"#
    ))
}

/// Checks numbers and text of what was read.
#[derive(Default)]
struct Seen {
    events: u64,
    text: String,
}

impl Seen {
    fn event(&mut self, event: &Event) {
        self.events += 1;
        assert_eq!(event.seq, self.events, "no gap, no repetition");
        if let Kind::TextDelta(delta) = &event.kind {
            self.text.push_str(&delta.text);
        }
    }

    fn check(&self) {
        let mut whole = String::new();
        for number in 0..PIECES {
            whole.push_str(&format!("{number} "));
        }
        assert!(self.text.starts_with(&whole), "{} bytes of {}", self.text.len(), whole.len());
        assert!(self.events > PIECES as u64);
    }
}

async fn read_slowly(turn: &mut bowline::Turn, seen: &mut Seen) {
    while seen.events < SLOWLY {
        seen.event(&turn.next().await.unwrap());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for the end of the run, and only then reads the other events. The slow reader did not delay it.
async fn read_rest_after_end(dir: &Path, mut turn: Turn, mut seen: Seen) {
    let reader = bowline::journal::Reader::open(dir).unwrap();
    while reader.is_live().unwrap() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    while let Some(event) = turn.next().await {
        seen.event(&event);
    }
    seen.check();
    assert!(turn.outcome().await.unwrap().is_completed());
}

async fn with_journal() {
    let stage = flood();
    let mut turn = stage.task("x").start().await.unwrap();
    let dir = stage.world.home().session_dir(turn.session()).unwrap();
    let mut seen = Seen::default();
    read_slowly(&mut turn, &mut seen).await;
    read_rest_after_end(&dir, turn, seen).await;
}

async fn with_journal_that_goes() {
    let stage = flood();
    let mut turn = stage.task("x").ephemeral().start().await.unwrap();
    let dir = std::env::temp_dir().join(format!("bowline-{}", turn.session()));
    let mut seen = Seen::default();
    seen.event(&turn.next().await.unwrap());
    // Not a single further event is taken before the run is over.
    let events = dir.join("sessions").join(turn.session().as_str());
    read_rest_after_end(&events, turn, seen).await;
    assert!(!dir.exists());
}

async fn without_journal() {
    let stage = flood();
    let mut turn = stage.task("x").without_journal().start().await.unwrap();
    let mut seen = Seen::default();
    read_slowly(&mut turn, &mut seen).await;
    loop {
        let events = turn.next_batch(500).await.unwrap();
        if events.is_empty() {
            break;
        }
        events.iter().for_each(|event| seen.event(event));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    seen.check();
    assert!(turn.outcome().await.unwrap().is_completed());
}

async fn stopped_while_held_back() {
    let stage = Stage::new(
        "echo $$ >$HERE/pid; init; while :; do say m1 'a piece of text that goes on and on and on'; done",
    );
    let mut turn = stage.task("x").without_journal().start().await.unwrap();
    turn.next().await.unwrap();
    let pid = stage.pid("pid");
    // The turn is not read, so the agent blocks in a write: its CPU time stays the same for half a second. It may have used
    // less than one tick by then.
    let (mut before, mut unchanged) = (0, 0);
    while unchanged < 5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = ticks(pid);
        unchanged = if now == before { unchanged + 1 } else { 0 };
        before = now;
    }
    turn.control().cancel();
    // The agent ends although the turn is still not read.
    while is_alive(pid) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut seen = Seen { events: 1, text: String::new() };
    while let Some(event) = turn.next().await {
        seen.event(&event);
    }
    assert_eq!(turn.outcome().await.unwrap().outcome, bowline::kinds::Outcome::Cancelled);
}

async fn index_of_a_silent_agent() {
    let stage = Stage::new("init; sleep 0.3; say m1 'the last words for a long time'; exec sleep 300");
    let mut turn = stage.task("x").start().await.unwrap();
    let dir = stage.world.home().session_dir(turn.session()).unwrap();
    let said = async {
        while !matches!(turn.next().await.unwrap().kind, Kind::TextDelta(_) | Kind::MessageFinished(_)) {}
    };
    tokio::time::timeout(Duration::from_secs(60), said).await.expect("it speaks");
    let mut index = bowline::journal::Reader::open(&dir).unwrap().index().unwrap();
    let covered = async {
        let mut covered = 0;
        while covered < std::fs::metadata(dir.join("stdout.raw")).unwrap().len() {
            match index.next_record().unwrap() {
                Some(record) if record.span.file == bowline_protocol::RawFile::Stdout => {
                    covered = record.span.end
                }
                Some(_) => {}
                // The run goes on meanwhile: it is what writes the record, though nothing happens.
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), covered).await.expect("all bytes have a record");
    turn.control().kill();
    while turn.next().await.is_some() {}
}

/// Returns how much time of the processor a process has used.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
