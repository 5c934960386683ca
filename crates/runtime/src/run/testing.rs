//! A test double for programs that embed Bowline: a scripted agent, and no process.
//!
//! Only the process is left out. The request is built and refused as it would be, the decoder reads the script's
//! output, the engine decides, the journal is written, and events and outcome come through the same calls:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let script = bowline::testing::script(r#"{"steps": [
//!     {"tool": {"name": "Read", "input": {"path": "a.rs"}, "output": "fn main() {}"}},
//!     {"say": "It is empty."},
//!     {"result": {"usage": {"input": 12, "output": 4}}}
//! ]}"#);
//! let answer = bowline::task("What is in a.rs?").provider("claude").script(script).answer().await?;
//! assert_eq!(answer, "It is empty.");
//! # Ok::<(), bowline::Error>(()) }).unwrap();
//! ```
//!
//! A script is JSON, so it lies beside the test and can be read:
//!
//! The practice agent (`crates/practice`) has scripts, too, and the test double does not read them. It plays in the host's process,
//! on tokio's clock, which a test can pause; the practice agent is a process that blocks and sleeps. The JSON here is public API
//! and changes as rarely as it; practice scripts follow what the contract suite needs. And the library would depend on an agent,
//! while other crates treat the practice agent like any other.
//!
//! | field | meaning |
//! |---|---|
//! | `steps` | what the agent does, in order; after the last step it exits with code 0 |
//! | `prompts` | in the place of `steps`: a list of steps for each prompt, see below |
//! | `retry` | what it does when the request is sent once more without streaming; without it, `steps` again |
//! | `on_stop` | `"obey"` (the default) ends at the polite wish, `"ignore"` only when it is killed, or a list of steps that are played then |
//! | `dialect` | the dialect of `stdout`; `pi-events` by default, whatever the provider's own is |
//! | `session`, `model` | what it calls the session and the model, for the shorthands |
//!
//! | step | meaning |
//! |---|---|
//! | `{"say": "…"}` or `{"say": ["…", "…"]}` | a message, in one piece or in several |
//! | `{"think": "…"}` | a thought |
//! | `{"tool": {"name": "…", "input": {…}, "output": "…", "error": true}}` | a tool call; without `output` it does not end |
//! | `{"tool": {"name": "…", "input": {…}, "host": true}}` | a call of a tool of the task ([`Task::tool`](crate::Task::tool)): the function runs, and its result is the output |
//! | `{"result": {"usage": {"input": 1, "output": 2}, "cost_usd": 0.01}}` | the end of a turn that went well; `{}` will do |
//! | `{"fail": "429 rate limit"}` | the end of a turn that did not, in the words of the provider |
//! | `{"stdout": {…}}` | one line of JSON, in the dialect |
//! | `{"stdout_text": "…"}`, `{"stderr": "…"}` | bytes as they are |
//! | `{"wait_ms": 20}` | time passes: tokio's, so a paused clock makes it free |
//! | `{"hang": true}` | nothing more happens until the caller stops it |
//! | `{"exit": 1}`, `{"signal": 9}` | the end of the process |
//!
//! The shorthands print `pi-events`; with another `dialect`, write its lines as `stdout`. A script that exits without
//! `result` or `fail` is a stream that broke off. Waits follow tokio's clock: use `#[tokio::test(start_paused = true)]`.
//!
//! ## Live sessions and approvals
//!
//! A script with `prompts` in the place of `steps` is a process that takes many prompts, as a live session needs it: it has a list
//! of steps for each prompt, and the last list stands for all further ones. An interrupt ends the steps of its prompt, and a
//! process that the session starts anew plays the script from the beginning. `tool`, `say`, `think`, `result`, `fail` and the steps
//! without a dialect are as above; these three are for such a process alone:
//!
//! | step | meaning |
//! |---|---|
//! | `{"ask": {"name": "…", "input": {…}, "output": "…", "allowed": […], "denied": […]}}` | a tool that needs an approval. The steps of the decision follow, then the rest of the list |
//! | `{"question": {"text": "…", "choices": […], "answered": […], "dismissed": […]}}` | asks the user. The steps of the reply follow, then the rest of the list |
//! | `{"steered": true}` | waits until a text joins the running prompt ([`LiveSession::steer`](crate::LiveSession::steer)) |
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let world = bowline::testing::world();
//! world.provider("claude", bowline::testing::script(r#"{"prompts": [[
//!     {"ask": {"name": "Bash", "input": {"command": "rm -r target"},
//!         "allowed": [{"say": "It is gone."}], "denied": [{"say": "It stays."}]}},
//!     {"result": {}}
//! ]]}"#));
//! let mut turn = world.task("Clean up").provider("claude").ask_a_person().start().await?;
//! while let Some(event) = turn.next().await {
//!     if let Some(approval) = turn.approval(&event) {
//!         assert_eq!(approval.command().as_deref(), Some("rm -r target"));
//!         approval.deny("keep it").await?;
//!     }
//! }
//! assert_eq!(turn.outcome().await?.text.as_deref(), Some("It stays."));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! The script's protocol carries no changed input, so [`Approval::allow_with`](crate::Approval::allow_with) is refused, as it is by
//! most agents.
//!
//! ## Retries and fallbacks
//!
//! A script stands for one attempt. [`Script::then`] has the script of the next attempt of the same provider, and
//! [`World::provider`] (or [`Task::script_for`] for one task) gives each provider its own script. A provider without a script
//! counts as not installed, so a test of the router sees only the providers that it has scripts for:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use bowline::testing::{says, script, world};
//!
//! let world = world();
//! world.provider("claude", script(r#"{"steps": [{"fail": "insufficient_quota"}]}"#));
//! world.provider("codex", says("The parser drops the last line."));
//! let record = world.task("Find the bug").providers(["claude", "codex"]).run().await?;
//! let asked: Vec<&str> = record.attempts.iter().map(|attempt| attempt.name.as_str()).collect();
//! assert_eq!(asked, ["claude", "codex"]);
//! assert_eq!(record.text.as_deref(), Some("The parser drops the last line."));
//! # Ok::<(), bowline::Error>(()) }).unwrap();
//! ```
//!
//! [`Task::script_for`]: crate::Task::script_for
//!
//! With a script, a task keeps its journal in a directory that goes with the run, unless [`Task::home`] or
//! [`World`] sets its place: a test must not write into the developer's own sessions.
//!
//! [`Task::home`]: crate::Task::home

mod actor;
mod cast;
mod host_call;
mod kept;
mod kept_steps;
mod parse;
#[cfg(test)]
mod tests;
mod world;

use std::sync::Arc;
use std::time::Duration;

use bowline_engine::{Approver, AttemptPlan};
use bowline_protocol::Exit;
use bowline_protocol::kinds::Transport;
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::Shape;
use bowline_providers::dialects;

use host_call::HostCall;
use kept::{KeptAgent, KeptStep};

pub(crate) use actor::Actor;
pub(crate) use cast::Cast;
pub use parse::ScriptError;
pub use world::World;

use crate::run::host_tools::HostTool;
use crate::run::task::Task;

/// Reads a script. See the [module](self) for its form.
///
/// # Panics
///
/// When the text is no script; the message names the step and says what was expected. [`Script::parse`] returns that
/// as an error.
#[track_caller]
pub fn script(text: &str) -> Script {
    match Script::parse(text) {
        Ok(script) => script,
        Err(error) => panic!("this is no script: {error}"),
    }
}

/// Makes the script of an agent that says one thing and is done.
pub fn says(text: &str) -> Script {
    let steps = serde_json::json!({"steps": [{"say": text}, {"result": {}}]});
    script(&steps.to_string())
}

/// Makes a place for a test: a data home that goes when the value does.
///
/// # Panics
///
/// When the directory cannot be made.
pub fn world() -> World {
    World::new()
}

/// A scripted agent. Cheap to clone; each run plays it from the beginning.
#[derive(Clone, Debug)]
pub struct Script {
    parts: Arc<Parts>,
    waits: Waits,
    /// The scripts of later attempts.
    later: Vec<Script>,
    /// The tools of the task that plays it.
    tools: Vec<HostTool>,
}

/// The content of a script.
#[derive(Debug)]
struct Parts {
    dialect: &'static dialects::DialectEntry,
    play: Play,
    on_stop: OnStop,
}

/// What a process plays.
#[derive(Debug)]
enum Play {
    /// One prompt, and then the process ends.
    Process { steps: Vec<Step>, retry: Option<Vec<Step>> },
    /// A list of steps for each prompt; the last list for all further prompts.
    Kept { prompts: Vec<Vec<Step>>, session: Option<String>, model: String },
}

/// One thing that the agent does.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// A step of a process that takes many prompts.
    Kept(Box<KeptStep>),
    /// A call of a tool of the task, which the agent has announced.
    Host(Box<HostCall>),
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Wait(Duration),
    Hang,
    Exit(Exit),
}

/// The agent's reaction to a request to stop.
#[derive(Clone, Debug, PartialEq)]
enum OnStop {
    /// It ends.
    Obey,
    /// It goes on.
    Ignore,
    /// It does this.
    Play(Vec<Step>),
}

/// Whether time passes in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Kept,
    Skipped,
}

impl Script {
    /// Reads a script, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        Ok(Self {
            parts: Arc::new(parse::parts(text)?),
            waits: Waits::Kept,
            later: Vec::new(),
            tools: Vec::new(),
        })
    }

    /// Plays another script when the provider is asked once more: by a retry, or by another task's attempt that follows. The
    /// last script stands for all further attempts.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
    /// use bowline::testing::{says, script};
    ///
    /// let overloaded = script(r#"{"steps": [{"fail": "529 overloaded_error"}]}"#);
    /// let task = bowline::task("Say hello").provider("claude").retries(1);
    /// let record = task.script(overloaded.then(says("hello"))).run().await?;
    /// assert_eq!((record.attempts.len(), record.text.as_deref()), (2, Some("hello")));
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        self.later.extend(next.acts());
        self
    }

    /// Returns the scripts of the attempts, one after the other.
    fn acts(mut self) -> impl Iterator<Item = Self> {
        let later = std::mem::take(&mut self.later);
        std::iter::once(self).chain(later)
    }

    /// Plays the script without its waits, where no paused clock makes them free.
    #[must_use]
    pub fn without_waits(mut self) -> Self {
        self.waits = Waits::Skipped;
        self.later.iter_mut().for_each(|script| script.waits = Waits::Skipped);
        self
    }

    /// Returns the name of the dialect that it speaks.
    pub(crate) fn dialect(&self) -> &'static str {
        self.parts.dialect.name
    }

    /// Puts the script's own way of speaking in the place of the provider's.
    pub(crate) fn speaks(&self, attempt: &mut AttemptPlan, task: &Task) {
        attempt.dialect = self.parts.dialect;
        attempt.program = "script".to_owned();
        match self.parts.dialect.client.filter(|_| self.is_kept()) {
            Some(client) => {
                (attempt.shape, attempt.transport) = (Shape::Lines, client.transport);
                attempt.conversation = Some(Box::new(conversation(attempt.conversation.take(), task)));
            }
            None => {
                (attempt.shape, attempt.transport) = (Shape::Unknown, Transport::Pipe);
            }
        }
    }

    /// Returns whether its process takes many prompts over a two-way protocol.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.parts.play, Play::Kept { .. })
    }

    /// Gives the script the tools of the task that plays it.
    pub(crate) fn with_tools(self, tools: Vec<HostTool>) -> Self {
        Self { tools, ..self }
    }

    /// Makes the agent of an attempt.
    pub(crate) fn actor(&self, attempt: usize) -> Actor {
        let parts = &self.parts;
        let actor = match &parts.play {
            Play::Process { steps, retry } => {
                let steps = retry.as_ref().filter(|_| attempt > 0).unwrap_or(steps);
                Actor::new(self.timed(steps), parts.on_stop.clone())
            }
            Play::Kept { prompts, session, model } => {
                let prompts = prompts.iter().map(|steps| self.timed(steps)).collect();
                let agent = KeptAgent::new(prompts, session.clone(), model.clone());
                Actor::kept(agent, parts.on_stop.clone())
            }
        };
        actor.with_tools(self.tools.clone())
    }

    /// Returns steps with or without their waits.
    fn timed(&self, steps: &[Step]) -> Vec<Step> {
        let stays = |step: &&Step| self.waits == Waits::Kept || !matches!(step, Step::Wait(_));
        steps.iter().filter(stays).cloned().collect()
    }
}

/// Returns the conversation of a script, whatever the provider's own protocol carries: a script has every model and every effort.
fn conversation(own: Option<Box<Conversation>>, task: &Task) -> Conversation {
    let request = &task.request;
    let own = own.map(|own| *own).unwrap_or_else(|| Conversation {
        prompt: request.prompt.clone(),
        cwd: request.cwd.clone().unwrap_or_default(),
        permission: request.permission,
        resume: request.resume.clone(),
        attachments: request.attachments.clone(),
        answers_questions: matches!(task.approver, Approver::Person { .. }),
        ..Conversation::default()
    });
    Conversation { model: None, effort: None, ..own }
}
