//! Prompts: each one is a play on a thread of its own, while the server reads on.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::live_session::LiveSession;
use super::{AcpServer, OpenSessions, RpcError};
use crate::control::Stop;
use crate::player::input::{Input, InputSource};
use crate::player::{Player, SharedPlay, Show, to_stderr};
use crate::script;
use crate::voices::acp;

/// How long the next prompt waits for a play that went on after its response.
const LEFTOVER: Duration = Duration::from_secs(1);

/// The play of a prompt, as its thread gets it.
struct PromptPlay {
    live: LiveSession,
    input: Input,
    schema: Option<Value>,
    shared: SharedPlay,
    sessions: OpenSessions,
}

impl AcpServer {
    /// Begins the play of a prompt. The play answers the request.
    pub(super) fn prompt(&self, id: &Value, params: &Value) -> Result<(), RpcError> {
        let session = params["sessionId"].as_str().unwrap_or_default();
        let unknown = || RpcError::unknown_session(session);
        if !self.lock().contains_key(session) {
            return Err(unknown());
        }
        let control = &self.shared.control;
        if control.is_busy() {
            return Err(RpcError::invalid_request(
                "a prompt is running: wait for its response, or cancel it",
            ));
        }
        if !self.end_play(LEFTOVER) {
            return Err(RpcError::internal("the work of the last prompt does not end".to_owned()));
        }
        let prompt = text_of(&params["prompt"]);
        if prompt.trim().is_empty() {
            return Err(RpcError::invalid_params("the prompt is empty".to_owned()));
        }
        let steps = match &self.script {
            Some(script) => script::of_script(script),
            None => script::of_prompt(&prompt),
        };
        let steps = steps.map_err(RpcError::invalid_params)?;
        // After the end of the play before it, which has put its results there.
        let mut sessions = self.lock();
        let live = sessions.get_mut(session).ok_or_else(unknown)?;
        live.session.prompted(&prompt);
        let live = live.clone();
        drop(sessions);
        let steps = script::part(steps, live.session.turns);
        let script = self.script.clone().unwrap_or_default();
        self.write(|stage| {
            live.enter(&prompt, stage);
            stage.answers = id.clone();
        });
        let input = Input { source: InputSource::Protocol, prompt, script, steps, stdin_bytes: 0 };
        let play = PromptPlay {
            live,
            input,
            schema: self.schema.clone(),
            shared: self.shared.clone(),
            sessions: Arc::clone(&self.sessions),
        };
        control.begin(session);
        let thread = std::thread::Builder::new().name("prompt".to_owned()).spawn(move || play.run());
        thread.map(drop).map_err(|error| {
            control.ended();
            RpcError::internal(format!("could not start a thread for the prompt: {error}"))
        })
    }
}

impl PromptPlay {
    fn run(self) {
        let Self { live, input, schema, shared, sessions } = self;
        let LiveSession { session, cwd, options, .. } = &live;
        let mut player = Player::new(options, shared.clone(), cwd.clone(), session.clone(), input);
        player.schema = schema;
        let stop = player.run().err();
        let mut show = shared.lock();
        match stop {
            None | Some(Stop::Over) => {}
            Some(Stop::Cancelled) => {
                if shared.control.close() {
                    let Show { voice, stage } = &mut *show;
                    voice.cancelled(stage);
                }
            }
            Some(Stop::Exit(code)) => {
                show.stage.out.flush();
                exit(i32::from(code));
            }
            Some(Stop::Fault(message)) => {
                to_stderr(format!("practice-agent: {message}\n").as_bytes());
                if shared.control.close() {
                    let id = show.stage.answers.clone();
                    let error = json!({"code": acp::INTERNAL_ERROR, "message": message});
                    acp::respond_error(&id, &error, &mut show.stage);
                }
            }
        }
        show.stage.out.flush();
        if let Some(error) = show.stage.out.take_error() {
            to_stderr(format!("practice-agent: could not write to standard output: {error}\n").as_bytes());
            exit(1);
        }
        let mut open = sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = open.get_mut(&live.session.id) {
            live.leave(&show.stage);
            live.session.turns += 1;
        }
        drop(open);
        drop(show);
        shared.control.ended();
    }
}

/// Ends the process.
#[expect(
    clippy::exit,
    reason = "the thread that reads standard input is blocked in a read; nothing else ends it"
)]
fn exit(code: i32) -> ! {
    std::process::exit(code)
}

/// Joins the texts of a prompt. A block that is no text stands there by its type.
pub(super) fn text_of(blocks: &Value) -> String {
    let text = |block: &Value| match block["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[{}]", block["type"].as_str().unwrap_or("block")),
    };
    blocks.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join("\n")
}
