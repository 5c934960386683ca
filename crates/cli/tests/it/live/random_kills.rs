//! `kill -9` of the runner, its keeper, a client or the agent at a random moment, with prompts in the queue. Whatever dies: the
//! journal holds, every prompt that was accepted is accounted for, none reaches the agent twice, and no process is left.
//!
//! The gate plays 20 rounds from a fixed seed. `LIVE_KILL_ROUNDS=200` plays more, `LIVE_KILL_SEED` plays others.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use super::crashes::keeper;
use super::session::{LiveWorld, Session, play};
use crate::journal::{Journal, kind};
use crate::world::wait_until;

/// How many prompts are queued behind the first one.
const QUEUED: usize = 4;

/// The part that dies.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Runner,
    Keeper,
    Client,
    Agent,
}

/// A generator of random numbers that is the same everywhere (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

#[expect(clippy::disallowed_methods, reason = "a person asks for more rounds by a variable")]
fn number(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.parse().expect("a number"))
}

/// The directives of a prompt. The agent writes down that it got it, and works for long enough that others wait.
fn prompt(number: usize) -> String {
    let note = format!("tool run echo prompt-{number} >>received");
    let (file, answer) = (format!("tool write file-{number}.txt text"), format!("say answer-{number}"));
    let (work, pause) = ("delta 15 x 30", "sleep 40ms");
    play(&[&note, work, pause, work, pause, &file, work, pause, &answer])
}

#[test]
#[expect(clippy::print_stdout, reason = "the runner of the tests shows it if a round fails")]
fn nothing_is_lost_doubled_or_left_whatever_is_killed() {
    let (rounds, seed) = (number("LIVE_KILL_ROUNDS", 20), number("LIVE_KILL_SEED", 16));
    for round in 0..rounds {
        let mut dice = Dice(seed.wrapping_mul(1_000_003).wrapping_add(round));
        // In turns, so that 20 rounds have each of them five times.
        let victim = [Victim::Runner, Victim::Keeper, Victim::Client, Victim::Agent][(round % 4) as usize];
        // From the first events to the end of the fourth turn, or so.
        let bytes = dice.below(70_000);
        println!("round {round}: {victim:?} dies when the journal has {bytes} bytes");
        let offered = play_round(victim, bytes);
        println!("round {round}: {offered} prompts are offered");
    }
}

/// Plays a round, and returns how many prompts the next runner offers.
fn play_round(victim: Victim, bytes: u64) -> usize {
    let live = LiveWorld::new();
    let session = live.start(Some(&prompt(0)), &["--permission", "yolo", "--name", "victim"]);
    let watcher = live.call(&["attach", &session.id, "--from", "1", "-o", "jsonl"]).start();
    let watcher_pid = Pid::from_raw(i32::try_from(watcher.id()).expect("a pid")).expect("a pid");
    let accepted = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send_all(&session));
        let size = || std::fs::metadata(session.dir().join("events.jsonl")).map_or(0, |meta| meta.len());
        wait_until("the moment", || size() >= bytes || sender.is_finished() && is_at_rest(&session));
        let pid = match victim {
            Victim::Runner => Some(session.runner),
            Victim::Keeper => keeper(&session),
            Victim::Client => Some(watcher_pid),
            Victim::Agent => session.agents().last().copied(),
        };
        if let Some(pid) = pid {
            // The agent may be between two processes.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        sender.join().expect("the sender ends")
    });
    if !matches!(victim, Victim::Runner) {
        wait_until("the rest of the session", || is_at_rest(&session) || session_is_over(&session));
    }
    // A runner that lost its keeper may have ended already.
    let _ = session.order("stop", &[]);
    session.is_gone();
    let _ = watcher.end_among_others();
    // Whatever was repaired: a later runner goes on, and sends nothing by itself.
    let received = received(&live);
    let again = live.start(None, &["--resume", &session.id]);
    let offered = prompts(&again.is("idle")["offered"]);
    assert_eq!(self::received(&live), received, "nothing was sent by itself");
    let journal = again.stop();
    check(&journal, &accepted, &offered, &received);
    offered.len()
}

/// Sends the queued prompts with a client each, and returns those that were accepted. A client finds no runner once it is killed.
fn send_all(session: &Session<'_>) -> Vec<String> {
    let all = (1..=QUEUED).map(prompt);
    all.filter(|prompt| session.order("send", &["--json", prompt]).status.code() == Some(0)).collect()
}

fn is_at_rest(session: &Session<'_>) -> bool {
    let ended = session.order("status", &["--json"]);
    ended.status.code() == Some(0) && {
        let status = ended.json();
        status["state"] == "idle" && status["queue"].is_null()
    }
}

fn session_is_over(session: &Session<'_>) -> bool {
    session.events().last().is_some_and(|event| kind(event) == "session_ended")
}

/// Returns the ids and the texts of prompts.
fn prompts(list: &Value) -> BTreeMap<String, String> {
    let text = |prompt: &Value, key: &str| prompt[key].as_str().expect("a text").to_owned();
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|prompt| (text(prompt, "id"), text(prompt, "text"))).collect()
}

/// Returns the prompts that the agent noted, in order.
fn received(live: &LiveWorld) -> Vec<String> {
    let text = std::fs::read_to_string(live.path("work/received")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Checks what must hold, whatever was killed.
fn check(journal: &Journal, accepted: &[String], offered: &BTreeMap<String, String>, received: &[String]) {
    journal.check();
    let mut once = BTreeSet::new();
    assert!(
        received.iter().all(|prompt| once.insert(prompt)),
        "a prompt reached the agent twice: {received:?}"
    );
    let mut texts = BTreeSet::new();
    for message in journal.of("user_message") {
        let text = message["kind"]["text"].as_str().expect("a text");
        assert!(texts.insert(text), "a prompt began two turns: {message}");
    }
    // Every prompt in the queue left it once, or is offered.
    let mut queue: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in &journal.events {
        let id = event["kind"]["id"].as_str().unwrap_or_default();
        match kind(event) {
            "prompt_queued" => assert!(queue.insert(id, Vec::new()).is_none(), "{id} was queued twice"),
            "prompt_removed" => {
                let reason = event["kind"]["reason"].as_str().expect("a reason");
                queue.get_mut(id).expect("it was queued").push(reason);
            }
            _ => {}
        }
    }
    for (id, reasons) in &queue {
        let sent = reasons.iter().filter(|reason| **reason == "sent").count();
        match offered.contains_key(*id) {
            true => assert_eq!(sent, 0, "{id} was sent and is offered: {reasons:?}"),
            false => assert_eq!(*reasons, ["sent"], "{id} is neither sent nor offered"),
        }
    }
    for prompt in accepted {
        let (began, waits) = (texts.contains(prompt.as_str()), offered.values().any(|text| text == prompt));
        assert!(began != waits, "it began: {began}, is offered: {waits}: {prompt}");
    }
    let asked: Vec<_> = journal.of("approval_asked").iter().map(|it| it["kind"]["id"].clone()).collect();
    let decided: Vec<_> = journal.of("approval_decided").iter().map(|it| it["kind"]["id"].clone()).collect();
    assert_eq!(asked.len(), decided.len(), "each approval is decided once");
}
