//! Event streams for tests: written by hand in one line per event, or drawn at random within what a decoder promises.

use std::collections::BTreeSet;

use bowline_protocol::kinds::*;
use bowline_protocol::{
    Basis, Category, Code, Event, Excerpt, FORMAT_VERSION, Failure, Json, Kind, Millis, Source, Timestamp,
    ToolId, Usage, UsageSource,
};
use proptest::prelude::*;

use super::{Setup, by_name};

/// Numbers the kinds and dates them: the first at half past ten, then one each second.
pub(crate) fn events(kinds: impl IntoIterator<Item = Kind>) -> Vec<Event> {
    let base: Timestamp = "2025-01-07T10:30:00Z".parse().unwrap();
    let mut turn = None;
    let mut number = |(index, kind): (usize, Kind)| {
        if let Kind::TurnStarted(_) = kind {
            turn = Some(turn.unwrap_or(0) + 1);
        }
        let at = base.after(Millis(1000 * index as u64));
        let (seq, session) = (index as u64 + 1, "s1".into());
        Event { v: FORMAT_VERSION, seq, at, session, turn, source: Source::Agent, raw: None, kind }
    };
    kinds.into_iter().enumerate().map(&mut number).collect()
}

/// Returns what a view prints for a stream.
pub(crate) fn render(view: &str, kinds: impl IntoIterator<Item = Kind>) -> String {
    let setup = Setup { provider: Some("practice".into()), ours: false };
    let mut view = (by_name(view).unwrap().make)(&setup);
    let mut out = String::new();
    for event in events(kinds) {
        view.event(&event, &mut out);
    }
    view.finish(&mut out);
    out
}

/// Returns the records that a view prints for a stream.
pub(crate) fn records(view: &str, kinds: impl IntoIterator<Item = Kind>) -> Vec<serde_json::Value> {
    render(view, kinds).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

pub(crate) fn session(native: &str, version: Option<&str>, model: Option<&str>) -> Kind {
    Kind::SessionStarted(SessionStarted {
        native_session: Some(native.into()),
        version: version.map(str::to_owned),
        model: model.map(str::to_owned),
        ..SessionStarted::default()
    })
}

pub(crate) fn turn() -> Kind {
    Kind::TurnStarted(TurnStarted { origin: TurnOrigin::Prompt, native_turn: None })
}

pub(crate) fn ended(outcome: Outcome) -> TurnEnded {
    let (stop, failure, usage, cost_usd) = (None, None, None, None);
    TurnEnded {
        outcome,
        stop,
        failure,
        usage,
        cost_usd,
        num_turns: None,
        running_tools: Vec::new(),
        running_tasks: Vec::new(),
    }
}

pub(crate) fn completed() -> Kind {
    Kind::TurnEnded(ended(Outcome::Completed))
}

/// Ends a turn well, with 32 tokens of prompt, a part of them cached, and 9 of answer.
pub(crate) fn completed_with_usage() -> Kind {
    let usage = Usage { input: 20, output: 9, cache_read: 10, cache_write: 2, reasoning: None };
    Kind::TurnEnded(TurnEnded { usage: Some(usage), cost_usd: Some(0.25), ..ended(Outcome::Completed) })
}

pub(crate) fn stopped(stop: StopReason) -> Kind {
    Kind::TurnEnded(TurnEnded { stop: Some(stop), ..ended(Outcome::Completed) })
}

pub(crate) fn cancelled() -> Kind {
    Kind::TurnEnded(ended(Outcome::Cancelled))
}

pub(crate) fn failed(message: &str) -> Kind {
    let failure = Failure::new(Category::RateLimit, Code::RateLimited, message);
    Kind::TurnEnded(TurnEnded { failure: Some(Box::new(failure)), ..ended(Outcome::Failed) })
}

/// The request is sent a second time.
pub(crate) fn fallback() -> Kind {
    let failure = Box::new(Failure::new(Category::Network, Code::ConnectionLost, "gone"));
    let (from, to, rule) = ("streaming".into(), "non-streaming".into(), "stream_fallback".into());
    Kind::FallbackTaken(FallbackTaken { from, to, rule, reason: None, failure })
}

pub(crate) fn text(message: &str, block: u32, text: &str) -> Kind {
    Kind::TextDelta(TextDelta { message: message.into(), block, text: text.into(), parent: None })
}

pub(crate) fn sub_text(message: &str, text: &str) -> Kind {
    let parent = Some("task".into());
    Kind::TextDelta(TextDelta { message: message.into(), block: 0, text: text.into(), parent })
}

pub(crate) fn thinking(message: &str, block: u32, text: &str) -> Kind {
    Kind::ThinkingDelta(ThinkingDelta { message: message.into(), block, text: text.into(), parent: None })
}

pub(crate) fn retracted(message: &str, from_block: u32) -> Kind {
    Kind::TextRetracted(TextRetracted { message: message.into(), from_block })
}

pub(crate) fn finished(message: &str) -> Kind {
    Kind::MessageFinished(MessageFinished { message: message.into(), phase: Phase::Final, model: None })
}

pub(crate) fn commentary(message: &str) -> Kind {
    Kind::MessageFinished(MessageFinished { message: message.into(), phase: Phase::Commentary, model: None })
}

pub(crate) fn tool(id: &str, name: &str, input: Option<&str>) -> ToolStarted {
    ToolStarted {
        id: id.into(),
        name: name.into(),
        kind: ToolKind::Other,
        owner: ToolOwner::Cli,
        input: input.map(|text| Json::parse(text).unwrap()),
        input_head: None,
        parent: None,
    }
}

pub(crate) fn cli_tool(id: &str, name: &str, input: Option<&str>) -> Kind {
    Kind::ToolStarted(tool(id, name, input))
}

pub(crate) fn host_tool(id: &str, name: &str, input: Option<&str>) -> Kind {
    Kind::ToolStarted(ToolStarted { owner: ToolOwner::Host, ..tool(id, name, input) })
}

pub(crate) fn sub_tool(id: &str, name: &str, input: Option<&str>) -> Kind {
    Kind::ToolStarted(ToolStarted { parent: Some("task".into()), ..tool(id, name, input) })
}

pub(crate) fn tool_piece(id: &str, piece: &str) -> Kind {
    let (input, output_delta, title) = (None, None, None);
    Kind::ToolUpdated(ToolUpdated {
        id: id.into(),
        input_delta: Some(piece.into()),
        input,
        output_delta,
        title,
    })
}

pub(crate) fn tool_input(id: &str, input: &str) -> Kind {
    let (input_delta, output_delta, title) = (None, None, None);
    let input = Some(Json::parse(input).unwrap());
    Kind::ToolUpdated(ToolUpdated { id: id.into(), input_delta, input, output_delta, title })
}

pub(crate) fn tool_output(id: &str, piece: &str) -> Kind {
    let (input_delta, input, title) = (None, None, None);
    let output_delta = Some(Excerpt::of(piece));
    Kind::ToolUpdated(ToolUpdated { id: id.into(), input_delta, input, output_delta, title })
}

pub(crate) fn tool_done(id: &str, status: ToolStatus, output: Option<&str>) -> Kind {
    let output = output.map(Excerpt::of);
    Kind::ToolFinished(ToolFinished { id: id.into(), status, output, exit_code: None })
}

pub(crate) fn usage(source: UsageSource, model: Option<&str>) -> Kind {
    Kind::UsageReported(UsageReported {
        usage: Usage { input: 1, output: 1, ..Usage::default() },
        basis: Basis::PerTurn,
        source,
        cost_usd: None,
        model: model.map(str::to_owned),
        message: None,
    })
}

pub(crate) fn notice(level: Level, text: &str) -> Kind {
    Kind::Notice(Notice { level, text: text.into(), code: None })
}

/// Returns whether a message of a random stream is a sub-agent's.
pub(crate) fn is_sub_agents(message: &str) -> bool {
    message.ends_with("m3") || message.ends_with("m4")
}

/// One step of a random turn. Numbers name messages and tools; messages 3 and 4 are sub-agents'.
#[derive(Clone, Debug)]
enum Step {
    Text(u8, u32, String),
    SubText(u8, String),
    Thinking(u8, u32, String),
    Retract(u8, u32),
    Finish(u8, bool),
    Tool(u8, ToolOwner, bool),
    Piece(u8),
    ToolDone(u8),
    Notice,
    Usage,
}

/// Draws a stream that keeps a decoder's promises and takes nothing back.
pub(crate) fn any_straight_stream() -> impl Strategy<Value = Vec<Kind>> {
    any_stream().prop_map(|mut kinds| {
        kinds.retain(|kind| !matches!(kind, Kind::TextRetracted(_)));
        kinds
    })
}

/// Draws a stream that keeps a decoder's promises.
pub(crate) fn any_stream() -> impl Strategy<Value = Vec<Kind>> {
    let piece = "[a-c .\n]{0,4}";
    let step = prop_oneof![
        8 => (0u8..3, 0u32..3, piece).prop_map(|(m, b, t)| Step::Text(m, b, t)),
        2 => (3u8..5, piece).prop_map(|(m, t)| Step::SubText(m, t)),
        3 => (0u8..3, 0u32..3, piece).prop_map(|(m, b, t)| Step::Thinking(m, b, t)),
        1 => (0u8..5, 0u32..3).prop_map(|(m, b)| Step::Retract(m, b)),
        1 => (0u8..5, any::<bool>()).prop_map(|(m, c)| Step::Finish(m, c)),
        2 => (0u8..4, any::<bool>()).prop_map(|(t, known)| Step::Tool(t, ToolOwner::Cli, known)),
        1 => (4u8..6, any::<bool>()).prop_map(|(t, known)| Step::Tool(t, ToolOwner::Host, known)),
        2 => (0u8..6).prop_map(Step::Piece),
        2 => (0u8..6).prop_map(Step::ToolDone),
        1 => Just(Step::Notice),
        1 => Just(Step::Usage),
    ];
    let outcome = prop_oneof![
        3 => Just(Outcome::Completed),
        1 => Just(Outcome::Failed),
        1 => Just(Outcome::Cancelled),
        1 => Just(Outcome::Truncated),
    ];
    let turn = (prop::collection::vec(step, 0..24), outcome);
    prop::collection::vec(turn, 0..4).prop_map(|turns| {
        let mut kinds = vec![session("n1", Some("1.0"), Some("m"))];
        for (number, (steps, outcome)) in turns.into_iter().enumerate() {
            kinds.extend(turn_of(number, steps, outcome));
        }
        kinds
    })
}

/// Plays the steps that make sense and closes what is open.
fn turn_of(number: usize, steps: Vec<Step>, outcome: Outcome) -> Vec<Kind> {
    let message = |m: u8| format!("t{number}m{m}");
    let call = |t: u8| ToolId::from(format!("t{number}c{t}"));
    let (mut speaking, mut silent) = (BTreeSet::new(), BTreeSet::new());
    let (mut running, mut used) = (BTreeSet::new(), BTreeSet::new());
    let mut kinds = vec![turn()];
    for step in steps {
        match step {
            Step::Text(m, block, piece) if !silent.contains(&m) => {
                speaking.insert(m);
                kinds.push(text(&message(m), block, &piece));
            }
            Step::SubText(m, piece) if !silent.contains(&m) => {
                speaking.insert(m);
                kinds.push(sub_text(&message(m), &piece));
            }
            Step::Thinking(m, block, piece) if !silent.contains(&m) => {
                kinds.push(thinking(&message(m), block, &piece));
            }
            Step::Retract(m, from) if speaking.contains(&m) => kinds.push(retracted(&message(m), from)),
            Step::Finish(m, aside) if speaking.remove(&m) => {
                silent.insert(m);
                kinds.push(if aside { commentary(&message(m)) } else { finished(&message(m)) });
            }
            Step::Tool(t, owner, known) if used.insert(t) => {
                running.insert(t);
                let started = tool(call(t).as_str(), "Read", known.then_some("{\"a\":\n1}"));
                kinds.push(Kind::ToolStarted(ToolStarted { owner, ..started }));
            }
            Step::Piece(t) if running.contains(&t) => kinds.push(tool_piece(call(t).as_str(), "{}")),
            Step::ToolDone(t) if running.remove(&t) => {
                kinds.push(tool_done(call(t).as_str(), ToolStatus::Completed, Some("ok")));
            }
            Step::Notice => kinds.push(notice(Level::Info, "note")),
            Step::Usage => kinds.push(usage(UsageSource::Estimated, None)),
            Step::Text(..)
            | Step::SubText(..)
            | Step::Thinking(..)
            | Step::Retract(..)
            | Step::Finish(..) => {}
            Step::Tool(..) | Step::Piece(_) | Step::ToolDone(_) => {}
        }
    }
    kinds.extend(speaking.into_iter().map(|m| finished(&message(m))));
    let failure = match outcome {
        Outcome::Failed => Some(Failure::new(Category::Server, Code::ServerError, "it broke")),
        Outcome::Truncated => Some(Failure::new(Category::Unknown, Code::Truncated, "")),
        Outcome::Completed | Outcome::Cancelled => None,
    };
    let running_tools = running.into_iter().map(call).collect();
    kinds.push(Kind::TurnEnded(TurnEnded {
        failure: failure.map(Box::new),
        running_tools,
        ..ended(outcome)
    }));
    kinds
}
