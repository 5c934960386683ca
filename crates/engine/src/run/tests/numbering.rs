//! A run that continues a session: its events, turns and bytes follow those of the earlier runs.

use bowline_protocol::RawFile;

use super::super::*;
use super::world::{INIT, RESULT, World, text};

#[test]
fn a_run_goes_on_behind_the_runs_before_it() {
    let numbering = Numbering { next_seq: 41, next_turn: 3, stdout: 1_000, stderr: 50 };
    let mut world = World::with(|plan| {
        World::two_attempts(plan);
        plan.numbering = numbering;
    });
    world.start();
    // The first process fails before it did anything; the second one answers.
    world.says(INIT).exits(1).swept();
    world.give(RunInput::Spawned { pid: 8, containment: "test" });
    world.says(INIT).says(&text("Hello")).says(RESULT).exits(0).swept();
    let events = &world.events;
    assert!(events.iter().zip(41..).all(|(event, seq)| event.seq == seq), "no gap from 41 on");
    assert_eq!(events[0].turn, None, "the start of the run is in no turn");
    let turns: Vec<_> =
        events.iter().filter(|it| matches!(it.kind, Kind::TurnStarted(_))).map(|it| it.turn).collect();
    assert_eq!(turns, [Some(3), Some(4)]);
    let mut starts = Vec::new();
    for event in events {
        if let Kind::ProcessSpawned(spawned) = &event.kind {
            starts.push(spawned.raw_start);
        }
    }
    let line = INIT.len() as u64 + 1;
    assert_eq!(starts, [1_000, 1_000 + line]);
    // The next run of the session goes on behind this one.
    let end = events.len() as u64 + 41;
    let next = world.run.numbering();
    assert_eq!((next.next_seq, next.next_turn, next.stderr), (end, 5, 50));
    assert!(next.stdout > 1_000 + 2 * line, "{next:?}");
    let spans = events.iter().filter_map(|event| event.raw);
    assert!(spans.clone().count() > 0);
    for span in spans {
        assert!(span.file != RawFile::Stdout || span.start >= 1_000, "{span:?}");
    }
}
