//! A harness for runs: a clock that tests move, and a log of all events and actions.

use bowline_protocol::kinds::{CapabilityDegraded, Transport};
use bowline_protocol::{Event, OrderRefused, Receipt, SessionOrder, Timestamp};
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::Shape;
use bowline_providers::dialects;
use bowline_providers::manifest::run::{StopMethod, StopScope};

use super::super::*;
use crate::budget::Budget;
use crate::fallback::StreamFallback;
use crate::session::{LifeRequest, LivePlan, Session};

pub(crate) const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
pub(crate) const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"s","usage":{"input_tokens":1,"output_tokens":1}}"#;
pub(crate) const TOOL: &str = r#"{"type":"assistant","message":{"id":"t","content":[{"type":"tool_use","id":"u1","name":"Bash","input":{"command":"ls"}}]},"session_id":"s"}"#;

/// A line of the agent with text.
pub(crate) fn text(words: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"m1","content":[{{"type":"text","text":"{words}"}}]}},"session_id":"s"}}"#
    )
}

pub(crate) struct World {
    pub(crate) run: Session,
    pub(crate) now: Millis,
    pub(crate) events: Vec<Event>,
    log: Vec<String>,
    /// The grace of the last sweep.
    pub(crate) grace: Option<Millis>,
    ended: Option<RunEnd>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut RunPlan)) -> Self {
        let mut plan = Self::plan();
        change(&mut plan);
        Self::of(Session::of_one_prompt(plan))
    }

    pub(crate) fn plan() -> RunPlan {
        RunPlan {
            session: "s1".into(),
            numbering: Numbering::default(),
            provider: "test".to_owned(),
            version: None,
            cwd: None,
            capabilities: None,
            prompt: Some("Say hello".to_owned()),
            prompt_id: "p1".into(),
            lifetime: Lifetime::OnePrompt,
            attempts: vec![attempt("claude", Shape::Lines)],
            polite: StopMethod::Sigint,
            stop_scope: StopScope::Leader,
            resume: None,
            stream_fallback: StreamFallback::default(),
            notices: Vec::new(),
            opening: Vec::new(),
            delay: Millis(0),
            budget: Budget::default(),
            model: None,
            files: false,
            replannable: false,
            zone: jiff::tz::TimeZone::UTC,
            approver: Approver::Mode,
        }
    }

    /// A live session whose agent speaks a protocol and takes many prompts.
    pub(crate) fn live(change: impl FnOnce(&mut RunPlan, &mut LivePlan)) -> Self {
        let mut live = LivePlan::default();
        let mut plan = Self::live_plan();
        change(&mut plan, &mut live);
        Self::of(Session::live(plan, live))
    }

    /// The plan of a process of that session.
    pub(crate) fn live_plan() -> RunPlan {
        let mut plan = Self::plan();
        Self::by_protocol(&mut plan);
        let talk = Conversation { answers_questions: true, ..Conversation::default() };
        plan.attempts[0].conversation = Some(Box::new(talk));
        plan.lifetime = Lifetime::Kept;
        plan.approver = Approver::Person { deadline: None };
        plan
    }

    fn of(run: Session) -> Self {
        Self { run, now: Millis(0), events: Vec::new(), log: Vec::new(), grace: None, ended: None }
    }

    /// Adds the form that does not stream, under the rule of the specification.
    pub(crate) fn two_attempts(plan: &mut RunPlan) {
        plan.stream_fallback = StreamFallback::BeforeTools;
        plan.attempts.push(attempt("claude", Shape::Document));
    }

    pub(crate) fn by_protocol(plan: &mut RunPlan) {
        plan.attempts = vec![attempt("acp", Shape::Lines)];
        plan.attempts[0].conversation = Some(Box::default());
        plan.polite = StopMethod::Protocol;
    }

    pub(crate) fn start(&mut self) {
        self.give(RunInput::Begin).give(RunInput::Prepared(Ok(())));
        self.give(RunInput::Spawned { pid: 7, containment: "test" });
    }

    pub(crate) fn give(&mut self, input: RunInput<'_>) -> &mut Self {
        let mut step = RunStep::default();
        let wall = Timestamp::from_millis(1_794_000_000_000).after(self.now);
        self.run.handle(input, Now { wall, up: self.now }, &mut step);
        for event in step.events {
            self.log.push(word(&event.kind));
            self.events.push(event);
        }
        for action in step.actions {
            self.log.push(match &action {
                RunAction::Prepare => "!prepare".to_owned(),
                RunAction::Spawn(attempt) => format!("!spawn({attempt})"),
                RunAction::Signal(signal, scope) => format!("!signal({signal:?}, {scope:?})"),
                RunAction::KillTree => "!kill".to_owned(),
                RunAction::Sweep(_) => "!sweep".to_owned(),
                RunAction::LookAtFiles => "!look".to_owned(),
                RunAction::Replan => "!replan".to_owned(),
                RunAction::CloseStdin => "!close-stdin".to_owned(),
                RunAction::Write(_) => "!write".to_owned(),
                RunAction::Answer(OrderId(order), result) => format!("!answer({order}, {})", answer(result)),
                RunAction::Sync(SyncId(number)) => format!("!sync({number})"),
                RunAction::Plan(request) => format!("!plan({}{})", request.prompt.text, forked(request)),
                RunAction::Host(HostWorkId(number), work) => format!("!host({number}, {})", work_name(work)),
                RunAction::Done(_) => "!done".to_owned(),
            });
            if let RunAction::Sweep(grace) = action {
                self.grace = Some(grace);
            }
            if let RunAction::Done(ended) = action {
                assert!(self.ended.is_none(), "a run ends once");
                self.ended = Some(*ended);
            }
        }
        self
    }

    pub(crate) fn says(&mut self, line: &str) -> &mut Self {
        self.give(RunInput::Stdout(format!("{line}\n").as_bytes()))
    }

    pub(crate) fn command(&mut self, command: RunCommand) -> &mut Self {
        self.give(RunInput::Command(command))
    }

    pub(crate) fn order(&mut self, order: u64, what: SessionOrder) -> &mut Self {
        let images = std::collections::BTreeMap::new();
        self.give(RunInput::Order { order: OrderId(order), what, images })
    }

    pub(crate) fn exits(&mut self, code: i32) -> &mut Self {
        self.closes().give(RunInput::Exited(Exit::Code(code)))
    }

    pub(crate) fn killed(&mut self, signal: i32) -> &mut Self {
        self.closes().give(RunInput::Exited(Exit::Signal(signal)))
    }

    fn closes(&mut self) -> &mut Self {
        self.give(RunInput::StdoutClosed).give(RunInput::StderrClosed)
    }

    pub(crate) fn swept(&mut self) -> &mut Self {
        self.give(RunInput::Swept(SweepResult::default()))
    }

    /// Lets time pass, with the timers that fall due.
    pub(crate) fn wait(&mut self, millis: u64) -> &mut Self {
        let until = self.now.plus(Millis(millis));
        while let Some(at) = self.run.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.timer();
        }
        self.now = until;
        self
    }

    fn timer(&mut self) {
        let before = (self.run.deadline(), self.log.len());
        self.give(RunInput::Timer);
        assert_ne!(before, (self.run.deadline(), self.log.len()), "a timer that changes nothing spins");
        assert!(self.log.len() < 10_000, "timers never come to an end");
    }

    /// Lets time pass until the run returns an action.
    pub(crate) fn wait_for_action(&mut self, action: &str) {
        let from = self.log.len();
        while !self.log[from..].iter().any(|entry| entry == action) {
            let at = self.run.deadline().unwrap_or_else(|| panic!("{action} never comes: {}", self.log()));
            self.now = self.now.max(at);
            self.timer();
            assert!(!self.run.is_over(), "over before {action}: {}", self.log());
        }
    }

    pub(crate) fn log(&self) -> String {
        self.log.join(" ")
    }

    /// The prompt of the last process that was to be planned.
    pub(crate) fn planned(&self) -> String {
        let planned = self.log.iter().rev().find_map(|entry| entry.strip_prefix("!plan(")?.strip_suffix(')'));
        planned.unwrap_or_default().to_owned()
    }

    pub(crate) fn ended(&self) -> RunEnd {
        self.ended.clone().unwrap_or_else(|| panic!("it is not over: {}", self.log()))
    }
}

/// Names the session that a process is to fork.
fn forked(request: &LifeRequest) -> String {
    let target = request.resume.as_ref().filter(|target| target.fork);
    target.map(|target| format!(", fork of {}", target.id)).unwrap_or_default()
}

pub(crate) fn attempt(dialect: &str, shape: Shape) -> AttemptPlan {
    let dialect = dialects::by_name(dialect).expect("a dialect");
    AttemptPlan {
        dialect,
        shape,
        program: "agent".to_owned(),
        options: ["--output-format", "--include-partial-messages", "--verbose"].map(str::to_owned).into(),
        transport: Transport::Pipe,
        conversation: None,
        degraded: Vec::new(),
        limits: RunLimits::default(),
    }
}

/// The plain-text form, as a program's help leaves it.
pub(crate) fn text_form() -> AttemptPlan {
    let degraded = CapabilityDegraded {
        capability: "streams_text".to_owned(),
        instead: "plain text".to_owned(),
        reason: "`--output-format` is not in its help".to_owned(),
    };
    AttemptPlan { degraded: vec![degraded], ..attempt("text", Shape::Text) }
}

/// One word for an event, with the fields that tests check.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds are named by their type alone")]
fn word(kind: &Kind) -> String {
    match kind {
        Kind::SessionStateChanged(changed) => format!("state:{}", snake(changed.state)),
        Kind::TurnEnded(ended) => format!("turn_ended:{}", snake(ended.outcome)),
        Kind::PromptRemoved(removed) => format!("prompt_removed:{}", snake(removed.reason)),
        Kind::Notice(notice) => format!("notice:{}", notice.code.as_deref().unwrap_or("-")),
        Kind::FallbackTaken(taken) => format!("fallback_taken:{}", taken.rule),
        Kind::ResumeAnswered(answered) => format!("resume_answered:{}", snake(answered.answer)),
        other => other.type_name().to_owned(),
    }
}

/// An answer in a few words.
fn answer(result: &Result<Receipt, OrderRefused>) -> String {
    match result {
        Ok(Receipt::Started { turn, .. }) => format!("started:{turn}"),
        Ok(Receipt::Steered { turn, .. }) => format!("steered:{turn}"),
        Ok(Receipt::Queued { ahead, held: true, .. }) => format!("held:{ahead}"),
        Ok(Receipt::Queued { ahead, held: false, .. }) => format!("queued:{ahead}"),
        Ok(Receipt::SessionStarted { .. }) => "session started".to_owned(),
        Ok(Receipt::Done) => "done".to_owned(),
        Err(refused) => format!("refused: {refused}"),
    }
}

/// One word for a piece of the host's work.
fn work_name(work: &HostWork) -> &'static str {
    match work {
        HostWork::Resolve { .. } => "resolve",
        HostWork::Judge { .. } => "judge",
        HostWork::Call { .. } => "call",
    }
}

/// The name of a variant as JSON writes it.
fn snake(word: impl serde::Serialize) -> String {
    serde_json::to_string(&word).expect("a word").trim_matches('"').to_owned()
}
