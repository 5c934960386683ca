//! Runs with inputs in random order: every run ends, once, and its counts are right.

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{ApprovalVerdict, Category, Code, Failure, PermissionMode, SessionOrder};
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::HostAnswer;
use bowline_providers::manifest::run::HostOffer;

use super::super::*;
use super::decisions::{DONE, EDIT, EDIT_TAKEN_BACK, HELLO, READ, SESSION, SHELL, TAKEN_BACK, resolved};
use super::host::COMMAND;
use super::world::{INIT, RESULT, TOOL, World, text, text_form};
use crate::fallback::StreamFallback;

/// Every form has a total limit: without it, a silent program may take for ever.
const LIMITED: RunLimits = RunLimits {
    spawn: Some(Millis(30_000)),
    first_event: None,
    idle: None,
    in_tool: None,
    total: Some(Millis(600_000)),
    shutdown: Millis(550),
    grace: Millis(1_700),
};

/// A small generator, so that a failing run can be played again by its seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn one_input(world: &mut World, dice: &mut Dice) {
    let lines = [INIT, RESULT, TOOL, "noise", "{not json", "{\"type\":\"moon\"}"];
    match dice.roll(23) {
        0 => world.give(RunInput::Begin),
        20 => world.give(RunInput::Prepared(Ok(()))),
        21 => world.give(RunInput::Prepared(Err("git is not there".to_owned()))),
        22 => world.give(RunInput::Replanned(match dice.roll(3) {
            0 => ReplanResult::Unchanged,
            1 => ReplanResult::Instead(Box::new(AttemptPlan { limits: LIMITED, ..text_form() }), Vec::new()),
            _ => ReplanResult::Refused("it cannot be kept from the repository's code".to_owned()),
        })),
        1 => world.give(RunInput::Spawned { pid: 7, containment: "test" }),
        2..=6 => world.says(lines[dice.roll(lines.len() as u64) as usize]),
        7 => world.says(&text("words")),
        8 => world.give(RunInput::Stdout(&INIT.as_bytes()[..dice.roll(INIT.len() as u64) as usize])),
        9 if dice.roll(2) == 0 => world.give(RunInput::Stderr(b"error: unknown option '--output-format'\n")),
        9 => world.give(RunInput::Stderr(b"trouble\n")),
        10 => world.give(RunInput::StdoutClosed),
        11 => world.give(RunInput::StderrClosed),
        12 => world.give(RunInput::Exited(Exit::Code(dice.roll(3) as i32))),
        13 => world.give(RunInput::Exited(Exit::Signal(9))),
        14 => world.swept(),
        15 => world.command(if dice.roll(2) == 0 { RunCommand::Cancel } else { RunCommand::Kill }),
        16 => world.give(RunInput::Files(Vec::new())),
        17 if dice.roll(4) == 0 => {
            world.give(RunInput::Trouble(Failure::new(Category::Configuration, Code::DiskFull, "full")))
        }
        18 if dice.roll(4) == 0 => world.give(RunInput::SpawnFailed(SpawnFailure {
            failure: Failure::new(Category::NotFound, Code::NotInstalled, "absent"),
        })),
        19 if dice.roll(8) == 0 => world.give(RunInput::Overdue(Millis(600_000))),
        _ => world.wait(dice.roll(4_000)),
    };
}

/// Invariants of every run, when it is over.
#[expect(clippy::wildcard_enum_match_arm, reason = "only turns are counted")]
fn check(world: &World, seed: u64) {
    assert!(world.run.is_over(), "seed {seed}: it never ended: {}", world.log());
    let mut open: Option<u32> = None;
    for (place, event) in world.events.iter().enumerate() {
        assert_eq!(event.seq, place as u64 + 1, "seed {seed}: a gap in the numbers");
        match &event.kind {
            Kind::TurnStarted(_) => {
                assert_eq!(open, None, "seed {seed}: two turns at once: {}", world.log());
                open = event.turn;
            }
            Kind::TurnEnded(ended) => {
                assert_eq!(
                    open.take(),
                    event.turn,
                    "seed {seed}: an end without a beginning: {}",
                    world.log()
                );
                let bad = matches!(ended.outcome, Outcome::Failed | Outcome::Truncated);
                assert_eq!(ended.failure.is_some(), bad, "seed {seed}: {}", world.log());
            }
            _ => {}
        }
    }
    assert_eq!(open, None, "seed {seed}: a turn never ended: {}", world.log());
    // A retry begins here.
    let (next, last) = (world.run.numbering(), world.events.iter().filter_map(|event| event.turn).max());
    let numbers = (world.events.len() as u64 + 1, last.unwrap_or(0) + 1);
    assert_eq!((next.next_seq, next.next_turn), numbers, "seed {seed}: {}", world.log());
    let log = world.log();
    assert!(log.ends_with("session_ended !done"), "seed {seed}: {log}");
    assert!(log.matches("!spawn").count() <= 2 && log.matches("!replan").count() <= 1, "seed {seed}: {log}");
    let (spawned, swept) = (log.matches("process_spawned").count(), log.matches("!sweep").count());
    let leaked = log.matches("process_leaked").count();
    assert!(spawned <= swept + leaked, "seed {seed}: a process was forgotten: {log}");
    check_once(world, seed);
}

/// The invariant of a prompt: it is sent a second time only if the rule allows it.
fn check_once(world: &World, seed: u64) {
    let log = world.log();
    let Some((first, _)) = log.split_once("fallback_taken") else {
        assert!(!log.contains("!spawn(1)"), "seed {seed}: sent again without a word: {log}");
        return;
    };
    let shows = |signs: &[&str]| signs.iter().any(|sign| first.contains(sign));
    match world.run.process().plan.stream_fallback {
        StreamFallback::Never => panic!("seed {seed}: sent again: {log}"),
        StreamFallback::Untouched => {
            let started = first.matches("session_started").count();
            let signs = ["text_delta", "tool_started", "unrecognized", "usage_reported"];
            assert!(started == 1 && !shows(&signs), "seed {seed}: sent again after a sign of work: {log}");
        }
        StreamFallback::BeforeTools => assert!(!shows(&["tool_started"]), "seed {seed}: after a tool: {log}"),
        StreamFallback::Always => {}
    }
}

/// A run over a two-way protocol whose agent asks for permissions, with syncs and the agent's lines in any order.
fn asking(seed: u64) -> World {
    let mut dice = Dice(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1);
    let mut world = World::with(|plan| {
        World::by_protocol(plan);
        plan.attempts[0].limits = LIMITED;
        if dice.roll(2) == 0 {
            plan.approver = Approver::Person { deadline: (dice.roll(2) == 0).then_some(Millis(1_000)) };
            let permission = [PermissionMode::Ask, PermissionMode::Edit][dice.roll(2) as usize];
            plan.attempts[0].conversation = Some(Box::new(Conversation {
                permission,
                cwd: "/src".to_owned(),
                host_terminals: HostOffer::Offered,
                ..Conversation::default()
            }));
        }
    });
    world.start();
    world.says(HELLO).says(SESSION);
    let mut orders = 0;
    for _ in 0..dice.roll(24) {
        match dice.roll(13) {
            0..=2 => {
                let lines = [READ, SHELL, EDIT, TAKEN_BACK, EDIT_TAKEN_BACK, COMMAND];
                world.says(lines[dice.roll(6) as usize])
            }
            12 if dice.roll(2) == 0 => {
                let result = HostResult::Called(Ok(HostAnswer::Ended));
                world.give(RunInput::Host(HostWorkId(dice.roll(6)), result))
            }
            12 => {
                resolved(&mut world, dice.roll(4), ["/src/a.rs", "/etc/a.rs"][dice.roll(2) as usize]);
                &mut world
            }
            3..=6 => world.give(RunInput::Synced(SyncId(dice.roll(4)))),
            7 if dice.roll(3) == 0 => world.says(DONE),
            8 if dice.roll(3) == 0 => world.command(RunCommand::Cancel),
            9 if dice.roll(3) == 0 => world.give(RunInput::Exited(Exit::Code(0))),
            10 if dice.roll(3) == 0 => world.give(RunInput::StdoutClosed),
            11 => {
                orders += 1;
                let approval = Some(["0", "1", "2", "6"][dice.roll(4) as usize].into());
                let verdicts =
                    [ApprovalVerdict::Allow { input: None }, ApprovalVerdict::Deny { message: None }];
                let verdict = verdicts[dice.roll(2) as usize].clone();
                world.order(orders, SessionOrder::Decide { approval, verdict })
            }
            _ => world.wait(dice.roll(300)),
        };
    }
    let answered = world.log().matches("!answer").count() as u64;
    assert_eq!(answered, orders, "seed {seed}: every order is answered once: {}", world.log());
    // A person without a deadline may wait for ever.
    world.command(RunCommand::Cancel);
    world.wait(3_600_000);
    world
}

/// Every approval that was asked is decided exactly once, and no decision is sent before its sync.
#[expect(clippy::wildcard_enum_match_arm, reason = "only approvals are counted")]
fn check_decisions(world: &World, seed: u64) {
    let mut open = std::collections::BTreeMap::<&str, i64>::new();
    for event in &world.events {
        match &event.kind {
            Kind::ApprovalAsked(asked) => *open.entry(asked.id.as_str()).or_default() += 1,
            Kind::ApprovalDecided(decided) => {
                let open = open.entry(decided.id.as_str()).or_default();
                *open -= 1;
                assert!(*open >= 0, "seed {seed}: {} was decided twice: {}", decided.id, world.log());
            }
            _ => {}
        }
    }
    assert!(open.values().all(|open| *open == 0), "seed {seed}: never decided: {}", world.log());
}

#[test]
fn every_approval_is_decided_exactly_once() {
    let (mut decided, runs) = (0, seeds() / 6);
    for seed in 1..=runs {
        let world = asking(seed);
        check(&world, seed);
        check_decisions(&world, seed);
        decided += u64::from(world.log().contains("approval_decided"));
    }
    // A part of the runs, because `cargo xtask mutants` plays few of them.
    assert!(decided * 2 > runs, "the random inputs hardly ever ask: {decided} of {runs} runs");
}

/// The number of runs.
const SEEDS: u64 = 60_000;

/// Returns the number of runs: fewer if the test is repeated for every mutant of the code.
fn seeds() -> u64 {
    option_env!("BOWLINE_RANDOM_RUNS").and_then(|runs| runs.parse().ok()).unwrap_or(SEEDS)
}

#[test]
fn every_run_ends_once_and_reports_it() {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for seed in 1..=seeds() {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut world = World::with(|plan| {
            plan.files = dice.roll(2) == 0;
            plan.replannable = dice.roll(2) == 0;
            if dice.roll(2) == 0 {
                World::two_attempts(plan);
                plan.stream_fallback = StreamFallback::ALL[dice.roll(4) as usize];
            }
            if dice.roll(3) == 0 {
                plan.resume = Some(ResumeTarget { id: "s".into(), fork: dice.roll(2) == 0 });
            }
            let idle = (dice.roll(2) == 0).then_some(Millis(2_000));
            let first_event = (dice.roll(2) == 0).then_some(Millis(3_000));
            for limits in plan.attempts.iter_mut().map(|attempt| &mut attempt.limits) {
                *limits = RunLimits { idle, first_event, ..LIMITED };
            }
        });
        if dice.roll(16) == 0 {
            // A case that random inputs seldom reach: a program that rejects its arguments and prints little else.
            world.start();
            world.give(RunInput::Stderr(b"error: unknown option '--output-format'\n"));
            (0..dice.roll(3)).for_each(|_| one_input(&mut world, &mut dice));
            world.exits(2).swept();
        }
        for _ in 0..dice.roll(80) {
            one_input(&mut world, &mut dice);
        }
        // From here on only time passes.
        world.give(RunInput::Begin);
        world.wait(3_600_000);
        check(&world, seed);
        let ended = world.ended();
        *seen.entry(format!("{:?} {:?}", ended.outcome, ended.rule)).or_default() += 1;
        let policy = world.run.process().plan.stream_fallback.as_str();
        *seen.entry(format!("fallback {policy} {}", ended.stream_fallback)).or_default() += 1;
    }
    // The random inputs reach every way in which a run can end.
    for way in [
        "Completed Result",
        "Cancelled Aborted",
        "Failed GiveUp",
        "Failed NotSentAgain",
        "Truncated KeepText",
        "fallback untouched true",
        "fallback before-tools true",
        "fallback always true",
    ] {
        assert!(seeds() < SEEDS || seen.get(way).is_some_and(|count| *count > 10), "{way} in {seen:?}");
    }
}
