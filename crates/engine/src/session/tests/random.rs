//! Live sessions with inputs in random order: every turn, prompt, receipt, approval and question ends exactly once, a receipt names the turn of
//! its own prompt, nothing is sent by itself after a turn that did not complete, and the announced state is the computed one.

use std::collections::BTreeMap;

use bowline_protocol::kinds::{ControlMode, Outcome, PromptRemoval, SessionState};
use bowline_protocol::{ApprovalVerdict, ChildRequest, Event, Exit, Kind, Millis, SessionOrder, WhenBusy};

use super::questions::{QUESTION, QUESTION_TAKEN_BACK};
use super::steers::STEERABLE;
use super::*;
use crate::run::tests::decisions::{SHELL, TAKEN_BACK};
use crate::run::tests::random::Dice;
use crate::run::{RunCommand, SyncId};

const SHELL_TAKEN_BACK: &str = r#"{"method":"$/cancel_request","params":{"requestId":1}}"#;

/// The sender of the orders, with what it has to remember for the checks.
struct Caller {
    dice: Dice,
    orders: u64,
    prompts: Vec<SentPrompt>,
}

/// An order that sends a prompt, also one to send an offered prompt.
struct SentPrompt {
    order: u64,
    text: String,
    is_now: bool,
    /// How many events there were.
    at: usize,
}

impl Caller {
    fn one_order(&mut self, world: &World) -> SessionOrder {
        let dice = &mut self.dice;
        match dice.roll(13) {
            0..=3 => {
                let busy = [WhenBusy::Queue, WhenBusy::Steer, WhenBusy::Now, WhenBusy::Refuse];
                prompt(&format!("prompt {}", self.orders), busy[dice.roll(4) as usize])
            }
            4 => SessionOrder::Dequeue { prompt: None },
            5 => SessionOrder::Interrupt,
            6 => {
                let verdicts =
                    [ApprovalVerdict::Allow { input: None }, ApprovalVerdict::Deny { message: None }];
                SessionOrder::Decide { approval: None, verdict: verdicts[dice.roll(2) as usize].clone() }
            }
            7 => {
                let offered = world.run.snapshot().map(|it| it.offered).unwrap_or_default();
                // Not always one that exists.
                let id = offered.get(dice.roll(3) as usize).map_or_else(|| "p1".into(), |it| it.id.clone());
                SessionOrder::SendOffered { prompt: id }
            }
            8 => {
                let modes = [ControlMode::AgentLed, ControlMode::HumanLed, ControlMode::Delegated];
                SessionOrder::SetControl { mode: modes[dice.roll(3) as usize] }
            }
            9 if dice.roll(2) == 0 => SessionOrder::Start {
                child: ChildRequest {
                    provider: "alpha".to_owned(),
                    prompt: "go".to_owned(),
                    model: None,
                    effort: None,
                    permission: None,
                    name: None,
                },
            },
            9 => SessionOrder::SetOption { option: "model".to_owned(), value: "m".to_owned() },
            10 if dice.roll(8) == 0 => SessionOrder::Stop,
            10 => SessionOrder::Compact,
            11 => prompt(&format!("prompt {}", self.orders), WhenBusy::Steer),
            _ => {
                // The second one is none of the choices; none dismisses the question.
                let answers = [vec!["red".to_owned()], vec!["yes".to_owned()], Vec::new()];
                let open = world.run.snapshot().map(|it| it.questions).unwrap_or_default();
                let question = open.get(dice.roll(3) as usize).map(|it| it.id.clone());
                SessionOrder::Reply { question, answers: answers[dice.roll(3) as usize].clone() }
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others send no prompt")]
    fn order(&mut self, world: &mut World) {
        self.orders += 1;
        let what = self.one_order(world);
        let text = match &what {
            SessionOrder::Prompt { text, .. } => Some(text.clone()),
            SessionOrder::SendOffered { prompt } => {
                let offered = world.run.snapshot().map(|it| it.offered).unwrap_or_default();
                offered.into_iter().find(|it| it.id == *prompt).map(|it| it.text)
            }
            _ => None,
        };
        let is_now = matches!(&what, SessionOrder::Prompt { when_busy: WhenBusy::Now, .. });
        let (order, at) = (self.orders, world.events.len());
        self.prompts.extend(text.map(|text| SentPrompt { order, text, is_now, at }));
        world.order(order, what);
    }

    /// Gives one input that fits more often than not, so that sessions get somewhere.
    fn one_input(&mut self, world: &mut World) {
        let dice = &mut self.dice;
        match dice.roll(28) {
            0..=5 => self.order(world),
            6 | 7 => drop(world.says(&done(3 + dice.roll(6)))),
            8 => drop(world.says(SHELL)),
            9 => drop(world.says(TAKEN_BACK)),
            10 => drop(world.says(&says("text"))),
            11 => drop(world.give(RunInput::Synced(SyncId(dice.roll(6))))),
            12 => drop(
                world
                    .says(&format!(r#"{{"id":{},"result":{{"stopReason":"cancelled"}}}}"#, 3 + dice.roll(5))),
            ),
            13 => {
                let planned = world.planned();
                next_process(world, |plan| plan.prompt = Some(planned));
            }
            14 => introduce(world, dice),
            15 if dice.roll(4) == 0 => drop(world.exits(0).swept()),
            16 if dice.roll(6) == 0 => drop(world.give(RunInput::Exited(Exit::Code(1)))),
            19 => drop(world.give(RunInput::Files(Vec::new()))),
            17 => drop(world.give(RunInput::Spawned { pid: 9, containment: "test" })),
            18 if dice.roll(6) == 0 => drop(world.give(RunInput::StdoutClosed)),
            20 | 21 => {
                let id = 3 + dice.roll(6);
                world.says(&format!(r#"{{"id":{id},"result":{{"outcome":"injected"}}}}"#));
            }
            22 => {
                let id = 3 + dice.roll(6);
                world.says(&format!(r#"{{"id":{id},"error":{{"code":-32603,"message":"no"}}}}"#));
            }
            23 if dice.roll(6) == 0 => drop(world.killed(9).swept()),
            // The same id may be open, so that the agent asks twice under it.
            24 | 25 => drop(world.says(QUESTION)),
            26 => drop(world.says(&QUESTION.replace(r#""id":5"#, r#""id":6"#))),
            27 if dice.roll(2) == 0 => {
                world.says(&format!("{SHELL}\n{QUESTION}\n{QUESTION_TAKEN_BACK}\n{SHELL_TAKEN_BACK}"));
            }
            27 => drop(world.says(QUESTION_TAKEN_BACK)),
            _ => drop(world.wait(dice.roll(20_000))),
        }
    }
}

/// Introduces the agent: one that takes steers, one that fetches them, or one that cannot be steered.
fn introduce(world: &mut World, dice: &mut Dice) {
    let fetches = r#"{"id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"qwen-code"}}}"#;
    world.says([HELLO, STEERABLE, STEERABLE, fetches][dice.roll(4) as usize]).says(SESSION);
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
        (0_i64, BTreeMap::<&str, i64>::new(), BTreeMap::<String, i64>::new());
    for event in &world.events {
        match &event.kind {
            Kind::TurnStarted(_) => turns += 1,
            Kind::TurnEnded(_) => turns -= 1,
            Kind::PromptQueued(queued) => *prompts.entry(queued.id.as_str()).or_default() += 1,
            Kind::PromptRemoved(removed) => *prompts.entry(removed.id.as_str()).or_default() -= 1,
            Kind::ApprovalAsked(it) => *asked.entry(format!("approval {}", it.id)).or_default() += 1,
            Kind::ApprovalDecided(it) => *asked.entry(format!("approval {}", it.id)).or_default() -= 1,
            Kind::QuestionAsked(it) => *asked.entry(format!("question {}", it.id)).or_default() += 1,
            Kind::QuestionAnswered(it) => *asked.entry(format!("question {}", it.id)).or_default() -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&turns), "seed {seed}: one turn at a time: {}", world.log());
        assert!(asked.values().all(|open| *open >= 0), "seed {seed}: it ended twice: {}", world.log());
    }
    assert_eq!(turns, 0, "seed {seed}: a turn never ended: {}", world.log());
    // A dequeued offer is removed a second time: it was returned before.
    assert!(prompts.values().all(|open| *open <= 0), "seed {seed}: a prompt waits for ever: {}", world.log());
    assert!(asked.values().all(|open| *open == 0), "seed {seed}: it never ended: {asked:?} {}", world.log());
    assert_eq!(world.log().matches("session_ended").count(), 1, "seed {seed}: {}", world.log());
    let last = world.events.last().map(|it| it.kind.type_name());
    assert_eq!(last, Some("session_ended"), "seed {seed}: nothing follows: {}", world.log());
    let seqs: Vec<u64> = world.events.iter().map(|it| it.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "seed {seed}: gapless");
}

/// A turn as its events have it.
struct SeenTurn<'a> {
    /// Its prompt.
    text: &'a str,
    /// The places of its events.
    from: usize,
    to: usize,
    outcome: Outcome,
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only turns and their prompts are looked at")]
fn turns(world: &World) -> BTreeMap<u32, SeenTurn<'_>> {
    let mut turns = BTreeMap::new();
    for (place, event) in world.events.iter().enumerate() {
        let Some(turn) = event.turn else { continue };
        match &event.kind {
            Kind::TurnStarted(_) => {
                let seen = SeenTurn { text: "", from: place, to: place, outcome: Outcome::Completed };
                turns.insert(turn, seen);
            }
            Kind::UserMessage(message) => {
                // The first one: steers follow.
                turns.entry(turn).and_modify(|it| {
                    if it.text.is_empty() {
                        it.text = &message.text;
                    }
                });
            }
            Kind::TurnEnded(ended) => {
                turns.entry(turn).and_modify(|it| (it.to, it.outcome) = (place, ended.outcome));
            }
            _ => {}
        }
    }
    turns
}

/// Checks the receipts of prompts, and that nothing was sent by itself.
fn check_prompts(world: &World, caller: &Caller, seed: u64) {
    let (log, turns) = (world.log(), turns(world));
    for SentPrompt { order, text, .. } in &caller.prompts {
        let begun = turns.iter().find(|(turn, _)| log.contains(&format!("!answer({order}, started:{turn})")));
        if let Some((turn, seen)) = begun {
            assert_eq!(seen.text, text, "seed {seed}: order {order} has the receipt of turn {turn}: {log}");
        }
    }
    let mut begun = BTreeMap::<&str, u32>::new();
    for (turn, seen) in &turns {
        let Some(sent) = caller.prompts.iter().rev().find(|it| it.text == seen.text && it.at <= seen.from)
        else {
            continue;
        };
        // Text that an agent prints outside of a prompt is a turn, too, and may begin with a steer that it reads late.
        let left_queue = |event: &Event| matches!(&event.kind, Kind::PromptRemoved(it) if it.reason == PromptRemoval::Sent);
        if !world.events[seen.from.saturating_sub(2)..seen.from].iter().any(left_queue) {
            continue;
        }
        assert_eq!(
            begun.insert(seen.text, *turn),
            None,
            "seed {seed}: `{}` was sent twice: {log}",
            seen.text
        );
        let broken = turns.values().filter(|it| it.outcome != Outcome::Completed);
        for broken in broken.filter(|it| it.to > sent.at && it.to < seen.from) {
            // A prompt for now means to end the turn, and lets the queue be.
            let begins =
                |text: &str| turns.values().find(|it| it.text == text).map_or(usize::MAX, |it| it.from);
            let for_now = |it: &SentPrompt| it.is_now && it.at <= broken.to && begins(&it.text) > broken.to;
            assert!(caller.prompts.iter().any(for_now), "seed {seed}: turn {turn} was sent by itself: {log}");
        }
        let lost = format!("!answer({}, refused: the agent's process ended", sent.order);
        assert!(!log.contains(&lost), "seed {seed}: a lost steer was sent by itself: {log}");
    }
}

/// The number of sessions; fewer if the test is repeated for every mutant of the code.
fn seeds() -> u64 {
    option_env!("BOWLINE_RANDOM_RUNS").and_then(|runs| runs.parse().ok()).unwrap_or(60_000) / 4
}

#[test]
fn everything_that_begins_in_a_live_session_ends_once() {
    let mut seen = BTreeMap::<&str, u64>::new();
    for seed in 1..=seeds() {
        let dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut caller = Caller { dice, orders: 0, prompts: Vec::new() };
        let dice = &mut caller.dice;
        let mut world = World::live(|plan, live| {
            plan.prompt = plan.prompt.take().filter(|_| dice.roll(2) == 0);
            live.idle = (dice.roll(2) == 0).then_some(Millis(9_000));
            plan.files = dice.roll(2) == 0;
            plan.attempts[0].limits.total = (dice.roll(2) == 0).then_some(Millis(100_000));
        });
        world.give(RunInput::Begin);
        if dice.roll(4) > 0 {
            world.give(RunInput::Spawned { pid: 7, containment: "test" });
            introduce(&mut world, dice);
        }
        for _ in 0..dice.roll(60) {
            caller.one_input(&mut world);
            check_state(&world, seed);
        }
        world.command(RunCommand::Cancel);
        world.wait(3_600_000);
        check(&world, caller.orders, seed);
        check_prompts(&world, &caller, seed);
        for part in [
            "prompt_removed:returned",
            "prompt_removed:sent",
            "!plan",
            "notice:idle",
            "interrupt_ignored",
            "refused: the agent's process ended",
            "refused: the turn ended before",
            "refused: the agent did not acknowledge it within 15 s",
            "steered:",
            "held:",
            "state:waiting_for_input",
            "refused: not possible: the answer is none of the choices",
            "refused: several are open",
        ] {
            *seen.entry(part).or_default() += u64::from(world.log().contains(part));
        }
    }
    assert!(seeds() < 1_000 || seen.values().all(|count| *count > 20), "seldom reached: {seen:?}");
}
