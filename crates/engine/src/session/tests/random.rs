//! Live sessions with inputs in random order: every turn, prompt, receipt and approval ends exactly once, and the announced state is
//! the computed one.

use std::collections::BTreeMap;

use bowline_protocol::kinds::{ControlMode, SessionState};
use bowline_protocol::{ApprovalVerdict, Exit, Kind, Millis, SessionOrder, WhenBusy};

use super::*;
use crate::run::tests::decisions::{SHELL, TAKEN_BACK};
use crate::run::{RunCommand, SyncId};

/// A small generator, so that a failing session can be played again by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn one_order(dice: &mut Dice) -> SessionOrder {
    match dice.roll(12) {
        0..=3 => {
            let busy = [WhenBusy::Queue, WhenBusy::Steer, WhenBusy::Now, WhenBusy::Refuse];
            prompt("do it", busy[dice.roll(4) as usize])
        }
        4 => SessionOrder::Dequeue { prompt: None },
        5 => SessionOrder::Interrupt,
        6 => {
            let verdicts = [ApprovalVerdict::Allow { input: None }, ApprovalVerdict::Deny { message: None }];
            SessionOrder::Decide { approval: None, verdict: verdicts[dice.roll(2) as usize].clone() }
        }
        7 => SessionOrder::SendOffered { prompt: format!("p{}", dice.roll(40)).as_str().into() },
        8 => SessionOrder::SetControl {
            mode: [ControlMode::AgentLed, ControlMode::HumanLed][dice.roll(2) as usize],
        },
        9 => SessionOrder::SetOption { option: "model".to_owned(), value: "m".to_owned() },
        10 if dice.roll(8) == 0 => SessionOrder::Stop,
        10 => SessionOrder::Compact,
        _ => SessionOrder::Reply { question: None, answers: vec!["yes".to_owned()] },
    }
}

/// Gives one input that fits more often than not, so that sessions get somewhere.
fn one_input(world: &mut World, dice: &mut Dice, orders: &mut u64) {
    match dice.roll(21) {
        0..=5 => {
            *orders += 1;
            let order = one_order(dice);
            world.order(*orders, order);
        }
        6 | 7 => drop(world.says(&done(3 + dice.roll(4)))),
        8 => drop(world.says(SHELL)),
        9 => drop(world.says(TAKEN_BACK)),
        10 => drop(world.says(&says("text"))),
        11 => drop(world.give(RunInput::Synced(SyncId(dice.roll(6))))),
        12 => drop(
            world.says(&format!(r#"{{"id":{},"result":{{"stopReason":"cancelled"}}}}"#, 3 + dice.roll(3))),
        ),
        13 => next_process(world, |_| {}),
        14 => drop(world.says(HELLO).says(SESSION)),
        15 if dice.roll(4) == 0 => drop(world.exits(0).swept()),
        16 if dice.roll(6) == 0 => drop(world.give(RunInput::Exited(Exit::Code(1)))),
        19 => drop(world.give(RunInput::Files(Vec::new()))),
        17 => drop(world.give(RunInput::Spawned { pid: 9, containment: "test" })),
        18 if dice.roll(6) == 0 => drop(world.give(RunInput::StdoutClosed)),
        _ => drop(world.wait(dice.roll(20_000))),
    }
}

/// The announced state is the computed one whenever an input is handled.
fn check_state(world: &World, seed: u64) {
    let announced = world.events.iter().rev().find_map(|event| {
        if let Kind::SessionStateChanged(changed) = &event.kind { Some(changed.state) } else { None }
    });
    let state = world.run.state();
    // Between its ends a process may close: the run announces nothing then, and the state stays the last one.
    if state != SessionState::Created {
        assert_eq!(announced, Some(state), "seed {seed}: {}", world.log());
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only what begins and ends is counted")]
fn check(world: &World, orders: u64, seed: u64) {
    let answers = world.log().matches("!answer(").count() as u64;
    assert_eq!(answers, orders, "seed {seed}: every order is answered once: {}", world.log());
    let (mut turns, mut prompts, mut asked) =
        (0_i64, BTreeMap::<&str, i64>::new(), BTreeMap::<&str, i64>::new());
    for event in &world.events {
        match &event.kind {
            Kind::TurnStarted(_) => turns += 1,
            Kind::TurnEnded(_) => turns -= 1,
            Kind::PromptQueued(queued) => *prompts.entry(queued.id.as_str()).or_default() += 1,
            Kind::PromptRemoved(removed) => *prompts.entry(removed.id.as_str()).or_default() -= 1,
            Kind::ApprovalAsked(it) => *asked.entry(it.id.as_str()).or_default() += 1,
            Kind::ApprovalDecided(it) => *asked.entry(it.id.as_str()).or_default() -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&turns), "seed {seed}: one turn at a time: {}", world.log());
        assert!(asked.values().all(|open| *open >= 0), "seed {seed}: decided twice: {}", world.log());
    }
    assert_eq!(turns, 0, "seed {seed}: a turn never ended: {}", world.log());
    // A dequeued offer is removed a second time: it was returned before.
    assert!(prompts.values().all(|open| *open <= 0), "seed {seed}: a prompt waits for ever: {}", world.log());
    assert!(asked.values().all(|open| *open == 0), "seed {seed}: never decided: {}", world.log());
    assert_eq!(world.log().matches("session_ended").count(), 1, "seed {seed}: {}", world.log());
    let last = world.events.last().map(|it| it.kind.type_name());
    assert_eq!(last, Some("session_ended"), "seed {seed}: nothing follows: {}", world.log());
    let seqs: Vec<u64> = world.events.iter().map(|it| it.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "seed {seed}: gapless");
}

/// The number of sessions; fewer if the test is repeated for every mutant of the code.
fn seeds() -> u64 {
    option_env!("BOWLINE_RANDOM_RUNS").and_then(|runs| runs.parse().ok()).unwrap_or(60_000) / 4
}

#[test]
fn everything_that_begins_in_a_live_session_ends_once() {
    let mut seen = BTreeMap::<&str, u64>::new();
    for seed in 1..=seeds() {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut world = World::live(|plan, live| {
            live.prompt = dice.roll(2) == 0;
            live.idle = (dice.roll(2) == 0).then_some(Millis(9_000));
            plan.files = dice.roll(2) == 0;
            plan.attempts[0].limits.total = (dice.roll(2) == 0).then_some(Millis(100_000));
        });
        let mut orders = 0;
        world.give(RunInput::Begin);
        if dice.roll(4) > 0 {
            world.give(RunInput::Spawned { pid: 7, containment: "test" });
            world.says(HELLO).says(SESSION);
        }
        for _ in 0..dice.roll(60) {
            one_input(&mut world, &mut dice, &mut orders);
            check_state(&world, seed);
        }
        world.command(RunCommand::Cancel);
        world.wait(3_600_000);
        check(&world, orders, seed);
        for part in
            ["prompt_removed:returned", "prompt_removed:sent", "!plan", "notice:idle", "interrupt_ignored"]
        {
            *seen.entry(part).or_default() += u64::from(world.log().contains(part));
        }
    }
    assert!(seeds() < 1_000 || seen.values().all(|count| *count > 20), "seldom reached: {seen:?}");
}
