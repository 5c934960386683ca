//! `kill -9` of the runner, its keeper, a watcher, a `send` or the agent at a random moment, with prompts in the queue, steers on their
//! way, and in every second round approvals that are open. Whatever dies: the journal holds, every prompt that was accepted is
//! accounted for, none reaches the agent twice, every approval is decided once, and no process is left.
//!
//! The gate plays 20 rounds from a fixed seed. `LIVE_KILL_ROUNDS=200` plays more, `LIVE_KILL_SEED` plays others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

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
    Watcher,
    /// The command that is sending a prompt.
    Sender,
    Agent,
}

/// The parts in turns, so that 20 rounds have each of them four times, twice with approvals.
const VICTIMS: [Victim; 5] = [Victim::Runner, Victim::Keeper, Victim::Watcher, Victim::Sender, Victim::Agent];

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
        let victim = VICTIMS[round as usize % VICTIMS.len()];
        let asks = (round / VICTIMS.len() as u64) % 2 == 1;
        // From the first events to the end of the fourth turn, or so.
        let bytes = dice.below(70_000);
        println!("round {round}: {victim:?} dies when the journal has {bytes} bytes; approvals: {asks}");
        let offered = play_round(victim, bytes, asks);
        println!("round {round}: {offered} prompts are offered");
    }
}

/// Plays a round, and returns how many prompts the next runner offers.
fn play_round(victim: Victim, bytes: u64, asks: bool) -> usize {
    let live = LiveWorld::new();
    // In the mode `edit`, the agent asks before it notes a prompt.
    let mode = if asks { "edit" } else { "yolo" };
    let session = live.start(Some(&prompt(0)), &["--permission", mode, "--name", "victim"]);
    let watcher = live.call(&["attach", &session.id, "--from", "1", "-o", "jsonl"]).start();
    let (sending, is_over) = (Mutex::new(None), AtomicBool::new(false));
    let accepted = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send_all(&live, &session, &sending));
        if asks {
            scope.spawn(|| approve_all(&session, &is_over));
        }
        let size = || std::fs::metadata(session.dir().join("events.jsonl")).map_or(0, |meta| meta.len());
        // Also if a check below fails: the thread that approves must not wait for ever.
        let _end = RoundEnd(&is_over);
        wait_until("the moment", || size() >= bytes || sender.is_finished() && is_at_rest(&session));
        let pid = match victim {
            Victim::Runner => Some(session.runner),
            Victim::Keeper => keeper(&session),
            Victim::Watcher => pid(watcher.id()),
            Victim::Sender => sending.lock().expect("no panic").and_then(pid),
            Victim::Agent => session.agents().last().copied(),
        };
        if let Some(pid) = pid {
            // The agent may be between two processes, and the command may have ended.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let accepted = sender.join().expect("the sender ends");
        if !matches!(victim, Victim::Runner) {
            wait_until("the rest of the session", || is_at_rest(&session) || session_is_over(&session));
        }
        accepted
    });
    // A runner that lost its keeper may have ended already.
    let _ = session.order("stop", &[]);
    session.is_gone();
    let _ = watcher.end_among_others();
    // Whatever was repaired: a later runner goes on, and sends nothing by itself.
    let received = received(&live);
    let again = live.start(None, &["--resume", &session.id]);
    let offered = prompts(&again.is("idle")["offered"]);
    assert_eq!(self::received(&live), received, "nothing was sent by itself");
    // The session can go on, also if the agent was killed before its first word.
    again.send(&["say back"], &[]);
    again.is("idle");
    assert_eq!(again.outcomes().last().map(String::as_str), Some("completed"));
    let journal = again.stop();
    check(&journal, &accepted, &offered, &received);
    offered.len()
}

/// Ends the thread that approves.
struct RoundEnd<'a>(&'a AtomicBool);

impl Drop for RoundEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// The prompts that were accepted.
#[derive(Default)]
struct Accepted {
    /// The texts of prompts for a turn of their own.
    prompts: Vec<String>,
    /// The ids of steers that the agent acknowledged.
    steers: Vec<String>,
}

/// Sends the queued prompts and a steer behind each, with a client each. A client finds no runner once that is killed.
fn send_all(live: &LiveWorld, session: &Session<'_>, sending: &Mutex<Option<u32>>) -> Accepted {
    let send = |flags: &[&str], text: &str| -> Option<Value> {
        let command = live.call(&["send", &session.id, "--json", text]).with(flags).start();
        // Not later: a pid of a command that has ended may be another process.
        *sending.lock().expect("no panic") = Some(command.id());
        let ended = command.end_among_others();
        *sending.lock().expect("no panic") = None;
        (ended.status.code() == Some(0)).then(|| ended.json())
    };
    let mut accepted = Accepted::default();
    for number in 1..=QUEUED {
        let text = prompt(number);
        if send(&[], &text).is_some() {
            accepted.prompts.push(text);
        }
        // Between two turns there is nothing to steer, and it is refused.
        if let Some(receipt) = send(&["--steer"], &format!("steer-{number}")) {
            assert_eq!(receipt["receipt"], "steered", "{receipt}");
            accepted.steers.push(receipt["prompt"].as_str().expect("an id").to_owned());
        }
    }
    accepted
}

/// Approves what is asked, until the round is over.
fn approve_all(session: &Session<'_>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let ended = session.order("status", &["--json"]);
        if ended.status.code() != Some(0) {
            // A killed runner never comes back in this round.
            return;
        }
        match ended.json()["approvals"][0]["id"].as_str() {
            // The agent may have withdrawn it meanwhile.
            Some(id) => drop(session.order("approve", &[id])),
            None => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    }
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
fn check(journal: &Journal, accepted: &Accepted, offered: &BTreeMap<String, String>, received: &[String]) {
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
    for steer in &accepted.steers {
        assert!(queue.contains_key(steer.as_str()), "the steer {steer} is not in the journal");
    }
    for prompt in &accepted.prompts {
        let (began, waits) = (texts.contains(prompt.as_str()), offered.values().any(|text| text == prompt));
        assert!(began != waits, "it began: {began}, is offered: {waits}: {prompt}");
    }
    let ids = |kind| {
        let mut ids: Vec<String> = journal.of(kind).iter().map(|it| it["kind"]["id"].to_string()).collect();
        ids.sort();
        ids
    };
    let asked = ids("approval_asked");
    assert_eq!(asked, ids("approval_decided"), "each approval is decided once");
    assert!(asked.windows(2).all(|pair| pair[0] != pair[1]), "two requests have one id: {asked:?}");
}
