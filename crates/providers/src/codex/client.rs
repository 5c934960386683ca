//! Our side of `codex app-server`: it introduces itself, opens the thread, and translates the orders of its caller. The server
//! ends when its input does.
//!
//! ```text
//!                             ┌────────── turn completed ─────────┐
//! introducing ──> opening ──> ready ──prompt──> starting ──> turning
//!      │            │           └──compact──> compacting ──^
//!      └────────────┴── refused, or not what was wanted ──> over
//! ```
//!
//! All sent lines go to the reader as well, which makes the events. This module only decides what to send.

mod requests;
mod settings;
mod steers;

use bowline_protocol::{ApprovalId, Category, Code, Json, PromptId, QuestionId, RequestField, Resume};
use serde_json::{Value, json};

use self::requests::{FileChanges, OpenRequest, decision_request, response};
pub(super) use self::settings::Policy;
use self::settings::{TurnSettings, writable_roots};
use self::steers::UnreadSteers;
use super::account::introduction;
use super::dialect::app_server::AppServer;
use crate::conversation::{Conversation, unsupported};
use crate::dialect::{AckToken, ApprovalAnswer, Dialect, HostPrompt, Input, Output, QuestionReply, Sent};
use crate::failure::Report;
use crate::rpc::{Incoming, Peer, RpcError, RpcVersionField, UNKNOWN_METHOD};

/// Talks to the server about one thread.
#[derive(Debug)]
pub(super) struct AppServerClient {
    reader: AppServer,
    talk: Conversation,
    settings: TurnSettings,
    stage: CodexStage,
    peer: Peer,
    thread: String,
    /// Requests of the server that wait for the caller.
    open: Vec<OpenRequest>,
    steers: UnreadSteers,
    /// The files of changes that were announced: a request about a change names only its item.
    changes: FileChanges,
}

/// How many requests may wait for a decision. More are denied at once, so that a server cannot fill the memory.
const OPEN_AT_MOST: usize = 1024;

/// How far we are.
#[derive(Debug)]
enum CodexStage {
    Introducing,
    Opening,
    /// The thread is open, and no turn runs.
    Ready,
    /// A prompt was sent, and the turn has no id yet.
    Starting(Interrupting),
    /// A compaction was ordered, and its turn has no id yet.
    Compacting(Interrupting),
    Turning(RunningTurn),
    Over,
}

/// The turn that runs.
#[derive(Debug)]
struct RunningTurn {
    id: String,
    interrupting: Interrupting,
    /// Whether it is a compaction, which reads no steers.
    compacts: bool,
}

/// Whether the caller wants the turn to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interrupting {
    No,
    Yes,
}

impl AppServerClient {
    pub(super) fn new(talk: Conversation) -> Self {
        Self {
            // We are here for a prompt: a server that never gets to it has not succeeded.
            reader: AppServer { prompted: true, ..AppServer::default() },
            settings: TurnSettings::of(&talk),
            talk,
            stage: CodexStage::Introducing,
            peer: Peer::new(RpcVersionField::LeftOut),
            thread: String::new(),
            open: Vec::new(),
            steers: UnreadSteers::default(),
            changes: FileChanges::default(),
        }
    }

    /// Returns the first message, whatever the prompt is.
    pub(super) fn first_message() -> String {
        let (_, line) = Peer::new(RpcVersionField::LeftOut).call("initialize", &introduction());
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Names an option that cannot be had with the others, and why.
    pub(super) fn refuses(talk: &Conversation) -> Option<(RequestField, &'static str)> {
        let resumes = matches!(talk.resume, Some(Resume::Id { .. }));
        (talk.ephemeral && resumes)
            .then_some((RequestField::Ephemeral, "a thread that goes on is written down as it was before"))
    }

    fn ask(&mut self, method: &str, params: &Value, out: &mut Output<'_>) -> AckToken {
        let (number, line) = self.peer.call(method, params);
        out.say(&line, &mut self.reader);
        AckToken(number)
    }

    /// Continues after a response. The reader reports the server's refusals.
    fn answered(&mut self, call: u64, method: &str, result: Result<Value, RpcError>, out: &mut Output<'_>) {
        match (method, result) {
            ("turn/steer", result) => {
                // The end of the turn can overtake the response. A steer that is acknowledged after it will not be read.
                self.steers.answered(AckToken(call), result, out);
                if !matches!(self.stage, CodexStage::Turning(_)) {
                    self.steers.turn_over(out);
                }
            }
            ("thread/compact/start", result) => {
                // A refused compaction has no turn, so no `turn/completed` would end the stage.
                if result.is_err() && matches!(self.stage, CodexStage::Compacting(_)) {
                    self.stage = CodexStage::Ready;
                }
                let result = result.map(|_| ()).map_err(|error| error.message);
                out.acknowledged(AckToken(call), result);
            }
            // A turn that cannot be interrupted continues.
            ("turn/interrupt", _) => {}
            // The turn has failed. The thread is still there.
            ("turn/start", Err(_)) if matches!(self.stage, CodexStage::Starting(_)) => {
                self.stage = CodexStage::Ready;
            }
            ("turn/start", Ok(result)) => {
                // The notification `turn/started` names the same id. This response is the first line that does in 0.166.0.
                if let CodexStage::Starting(interrupting) = self.stage {
                    let turn = result.pointer("/turn/id").and_then(Value::as_str).unwrap_or_default();
                    self.turning(turn, interrupting, false, out);
                }
            }
            (_, Err(_)) => self.hang_up(out),
            ("initialize", Ok(_)) if matches!(self.stage, CodexStage::Introducing) => {
                let line = self.peer.notify("initialized");
                out.say(&line, &mut self.reader);
                self.open_thread(out);
            }
            (_, Ok(result)) if matches!(self.stage, CodexStage::Opening) => self.opened(&result, out),
            (_, Ok(_)) => {}
        }
    }

    /// The turn that was ordered runs under this id.
    fn turning(&mut self, turn: &str, interrupting: Interrupting, compacts: bool, out: &mut Output<'_>) {
        let id = turn.to_owned();
        self.stage = CodexStage::Turning(RunningTurn { id, interrupting: Interrupting::No, compacts });
        // It was ordered before the turn had an id to name.
        if interrupting == Interrupting::Yes {
            self.interrupt(out);
        }
    }

    /// Opens the thread: a new one, or the one that is to go on.
    fn open_thread(&mut self, out: &mut Output<'_>) {
        let talk = &self.talk;
        let policy = Policy::of(talk.permission, talk.gated);
        let mut params = json!({
            "approvalPolicy": policy.asks,
            // The user's settings may leave the answers to a model.
            "approvalsReviewer": "user",
            "sandbox": policy.sandbox,
        });
        let mut put = |key: &str, value: Value| params[key] = value;
        if !talk.cwd.is_empty() {
            put("cwd", json!(talk.cwd));
        }
        if let Some(model) = &talk.model {
            put("model", json!(model));
        }
        if !talk.add_dirs.is_empty() {
            // The request has no field for further directories: they are a setting of the sandbox.
            put("config", json!({ "sandbox_workspace_write.writable_roots": writable_roots(talk) }));
        }
        if talk.ephemeral {
            put("ephemeral", json!(true));
        }
        let method = match &talk.resume {
            // `resume = latest` is ignored, with a warning: which session is the latest is not told.
            None | Some(Resume::Latest) => "thread/start",
            Some(Resume::Id { native_session }) => {
                put("threadId", json!(native_session.as_str()));
                "thread/resume"
            }
            Some(Resume::Fork { native_session }) => {
                put("threadId", json!(native_session.as_str()));
                "thread/fork"
            }
        };
        if method != "thread/start" {
            // The old conversation is not wanted again.
            put("excludeTurns", json!(true));
        }
        self.stage = CodexStage::Opening;
        self.ask(method, &params, out);
    }

    /// Is ready in the thread that was opened, if it is the right one and allows what was asked for.
    fn opened(&mut self, opened: &Value, out: &mut Output<'_>) {
        let thread = opened.pointer("/thread/id").and_then(Value::as_str).unwrap_or_default();
        // Check before the prompt goes out: after `turn/start` the agent may already act in the wrong thread or sandbox.
        if let Some(report) = self.talk.not_meant(thread).or_else(|| self.differs(opened)) {
            return self.give_up(&report, out);
        }
        if let Some(Err(why)) = self.talk.schema.as_ref().map(Json::read::<Value>) {
            let report = unsupported(&format!("the output schema is not valid JSON: {why}"));
            return self.give_up(&report, out);
        }
        thread.clone_into(&mut self.thread);
        self.stage = CodexStage::Ready;
        out.ready();
    }

    /// Returns the parts of a prompt, as the server takes them.
    fn input(&self, prompt: &HostPrompt) -> Vec<Value> {
        let images = prompt.attachments.iter();
        let images =
            images.map(|file| json!({ "type": "localImage", "path": self.talk.absolute(&file.path) }));
        std::iter::once(json!({ "type": "text", "text": prompt.text })).chain(images).collect()
    }

    /// Returns why a thread may do other things than requested: settings of an administrator override ours.
    fn differs(&self, opened: &Value) -> Option<Report> {
        let policy = Policy::of(self.talk.permission, self.talk.gated);
        let wanted = [
            ("/approvalPolicy", policy.asks),
            ("/approvalsReviewer", "user"),
            ("/sandbox/type", policy.told),
        ];
        // A field that the server leaves out is no difference: there is nothing to compare.
        let is_other = |(place, wanted): &(&str, &str)| {
            opened.pointer(place).is_some_and(|told| told.as_str() != Some(wanted))
        };
        let (place, wanted) = wanted.into_iter().find(is_other)?;
        let message = format!(
            "the thread was opened with {} for `{}`, but `{wanted}` was requested",
            opened.pointer(place)?,
            place.trim_start_matches('/').replace('/', "."),
        );
        let (category, code) = (Some(Category::Configuration), Some(Code::Unsupported));
        Some(Report { category, code, ..Report::of(message) })
    }

    /// Handles a request of the server: an approval waits for a decision, a question for a reply if the caller answers questions.
    /// All else is answered at once.
    fn requested(&mut self, id: Value, method: String, params: Value, out: &mut Output<'_>) {
        // Two approvals may be open, the later command first (0.166.0). Nothing here depends on their order.
        let room = self.open.len() < OPEN_AT_MOST;
        if let Some(mut request) = decision_request(&id, &method, &params).filter(|_| room) {
            self.changes.describe(&params, &mut request);
            self.open.push(OpenRequest::approval(id, method, params, request.approval.clone()));
            return out.awaits_decision(request);
        }
        let asks = room && self.talk.answers_questions;
        if let Some(request) = asks.then(|| OpenRequest::questions(&id, &method, &params)).flatten() {
            request.question_ids().for_each(|question| out.awaits_reply(question.clone()));
            return self.open.push(request);
        }
        let line = match response(&method, &params, &ApprovalAnswer::DENY) {
            Some(result) => self.peer.answer(&id, &result),
            None => self.peer.refuse(&id, UNKNOWN_METHOD, &format!("this client does not know `{method}`")),
        };
        out.say(&line, &mut self.reader);
    }

    /// The turn is over. The server withdraws the requests of the thread. Those of sub-agents are denied: the reader has
    /// reported their end, so that the caller cannot decide them any more.
    fn turn_over(&mut self, out: &mut Output<'_>) {
        self.steers.turn_over(out);
        // `serverRequest/resolved` also comes for the withdrawn ones. By then they are no longer in the list.
        for OpenRequest { id, method, params, .. } in std::mem::take(&mut self.open) {
            let own =
                params.get("threadId").and_then(Value::as_str).is_none_or(|thread| thread == self.thread);
            if let Some(result) = response(&method, &params, &ApprovalAnswer::DENY).filter(|_| !own) {
                let line = self.peer.answer(&id, &result);
                out.say(&line, &mut self.reader);
            }
        }
        if !matches!(self.stage, CodexStage::Over) {
            self.stage = CodexStage::Ready;
        }
    }

    /// Ends it for a reason of ours.
    fn give_up(&mut self, report: &Report, out: &mut Output<'_>) {
        out.at(None, |out| out.failed(report));
        self.hang_up(out);
    }

    fn hang_up(&mut self, out: &mut Output<'_>) {
        self.stage = CodexStage::Over;
        out.hang_up();
    }

    fn heard(&mut self, line: &str, out: &mut Output<'_>) {
        match self.peer.hear(line) {
            Incoming::Reply { id, method, result } => self.answered(id, &method, result, out),
            Incoming::Call { id, method, params } => self.requested(id, method, params, out),
            // The server took the request back, or has read our response.
            Incoming::Notification { method, params } if method == "serverRequest/resolved" => {
                self.open.retain(|open| params.get("requestId") != Some(&open.id));
            }
            Incoming::Notification { method, params } => {
                if method == "item/started" {
                    self.changes.started(&params);
                }
                // Sub-agents have threads in the same process. Their turns are not ours.
                if params.get("threadId").and_then(Value::as_str) != Some(&self.thread) {
                    return;
                }
                match (method.as_str(), &self.stage) {
                    ("turn/completed", _) => self.turn_over(out),
                    ("turn/started", CodexStage::Compacting(interrupting)) => {
                        let interrupting = *interrupting;
                        let turn = params.pointer("/turn/id").and_then(Value::as_str).unwrap_or_default();
                        self.turning(turn, interrupting, true, out);
                    }
                    _ => {}
                }
            }
            // The reader has reported lines that are no message.
            Incoming::Strange => {}
        }
    }
}

impl Dialect for AppServerClient {
    fn open(&mut self, out: &mut Output<'_>) {
        self.ask("initialize", &introduction(), out);
    }

    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line(line) => self.steers.read(line, out),
            Input::Eof(_) => self.steers.process_over(out),
            Input::Stderr(_) | Input::Sent(_) => {}
        }
        // The reader first: its events about this line must precede those that our answer causes.
        self.reader.handle(input, out);
        // Most lines are pieces of text, which want no answer and are not read twice.
        if let Input::Line(line) = input
            && ["\"id\"", "\"turn/completed\"", "\"serverRequest/resolved\""]
                .iter()
                .any(|it| line.contains(it))
        {
            self.heard(line, out);
        }
    }

    fn prompt(&mut self, prompt: &HostPrompt, out: &mut Output<'_>) -> Sent {
        // While a turn runs, the server takes `turn/start` as a steer, in silence (0.166.0).
        if !matches!(self.stage, CodexStage::Ready) {
            return Sent::Cannot("no thread is open, or a turn runs");
        }
        let mut params = json!({ "threadId": self.thread, "input": self.input(prompt) });
        self.settings.write(&self.talk, &mut params);
        // `opened` has checked it.
        if let Some(Ok(schema)) = self.talk.schema.as_ref().map(Json::read::<Value>) {
            params["outputSchema"] = schema;
        }
        self.stage = CodexStage::Starting(Interrupting::No);
        out.prompts();
        self.ask("turn/start", &params, out);
        Sent::Done
    }

    fn steer(&mut self, prompt: &HostPrompt, out: &mut Output<'_>) -> Sent {
        let turn = match &self.stage {
            CodexStage::Turning(turn) if turn.compacts => {
                return Sent::Cannot("the agent compacts its context");
            }
            CodexStage::Turning(turn) if turn.interrupting == Interrupting::Yes => {
                return Sent::Cannot("the turn is being interrupted");
            }
            CodexStage::Turning(turn) => turn.id.clone(),
            CodexStage::Starting(_) => return Sent::Cannot("the agent has not reported the turn yet"),
            CodexStage::Introducing
            | CodexStage::Opening
            | CodexStage::Ready
            | CodexStage::Compacting(_)
            | CodexStage::Over => return Sent::Cannot("no turn runs"),
        };
        if self.steers.is_full() {
            return Sent::Cannot("too many messages wait for the agent");
        }
        let params = json!({
            "threadId": self.thread,
            "expectedTurnId": turn,
            // The item that shows that the agent reads it has this id.
            "clientUserMessageId": prompt.id.as_str(),
            "input": self.input(prompt),
        });
        out.prompts();
        let token = self.ask("turn/steer", &params, out);
        self.steers.add(prompt, token);
        Sent::Awaiting(token)
    }

    fn take_back(&mut self, _prompt: &PromptId, _out: &mut Output<'_>) -> Sent {
        Sent::Cannot("the agent does not give a message back that it has accepted")
    }

    fn interrupt(&mut self, out: &mut Output<'_>) -> Sent {
        match &mut self.stage {
            // Until the turn has an id there is no request to send. It follows as soon as there is one.
            CodexStage::Starting(interrupting) | CodexStage::Compacting(interrupting) => {
                *interrupting = Interrupting::Yes;
                Sent::Done
            }
            // After the turn has ended, the server answers a second request only when the next turn ends (0.166.0).
            CodexStage::Turning(turn) if turn.interrupting == Interrupting::Yes => {
                Sent::Cannot("the turn is being interrupted")
            }
            CodexStage::Turning(turn) => {
                turn.interrupting = Interrupting::Yes;
                let params = json!({ "threadId": self.thread, "turnId": turn.id });
                self.ask("turn/interrupt", &params, out);
                Sent::Done
            }
            CodexStage::Introducing | CodexStage::Opening | CodexStage::Ready | CodexStage::Over => {
                Sent::Cannot("no turn runs")
            }
        }
    }

    fn decide(&mut self, approval: &ApprovalId, answer: &ApprovalAnswer, out: &mut Output<'_>) -> Sent {
        let Some(place) = self.open.iter().position(|open| open.is_approval(approval)) else {
            return Sent::Cannot("the server no longer waits for it");
        };
        // The server ignores a late answer (0.166.0), so the first decision counts on both sides.
        let OpenRequest { id, method, params, .. } = self.open.remove(place);
        // `requested` keeps only methods that have a response.
        let Some(result) = response(&method, &params, answer) else {
            return Sent::Cannot("the server takes no decision on it");
        };
        let line = self.peer.answer(&id, &result);
        out.say(&line, &mut self.reader);
        Sent::Done
    }

    fn reply(&mut self, question: &QuestionId, reply: &QuestionReply, out: &mut Output<'_>) -> Sent {
        let of_question = |open: &OpenRequest| open.question_ids().any(|id| id == question);
        let Some(place) = self.open.iter().position(of_question) else {
            return Sent::Cannot("the server no longer waits for it");
        };
        if let Some(why) = self.open[place].refuses(reply) {
            return Sent::Cannot(why);
        }
        // Without a response, other questions of the same request still wait.
        if let Some(result) = self.open[place].take_reply(question, reply) {
            let request = self.open.remove(place);
            let line = self.peer.answer(&request.id, &result);
            out.say(&line, &mut self.reader);
        }
        Sent::Done
    }

    fn set_option(&mut self, option: &str, value: &str, _out: &mut Output<'_>) -> Sent {
        self.settings.set(option, value)
    }

    fn compact(&mut self, out: &mut Output<'_>) -> Sent {
        // While a turn runs, it would interrupt that turn (0.166.0).
        if !matches!(self.stage, CodexStage::Ready) {
            return Sent::Cannot("no thread is open, or a turn runs");
        }
        self.stage = CodexStage::Compacting(Interrupting::No);
        Sent::Awaiting(self.ask("thread/compact/start", &json!({ "threadId": self.thread }), out))
    }
}

#[cfg(test)]
mod tests;
