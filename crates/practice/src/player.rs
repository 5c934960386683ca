//! Plays a script or the task: turns steps into output and actions, at a pace.

mod ask;
pub(crate) mod input;
mod show;
mod text;
mod tool;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use self::input::{Input, InputSource};
use crate::control::{PlayControl, Stop};
use crate::options::Options;
use crate::out::Out;
use crate::script::Step;
use crate::sessions::Session;
use crate::signals::Deaf;
use crate::stage::Stage;
use crate::voices::{Block, Ending, Voice};
use crate::{children, schema, script, sessions, signals, task, voices};

/// Above this, a text continues in another message, so that memory stays flat.
const LONGEST_MESSAGE: usize = 1 << 20;

/// How many pieces to write before a signal may be handled.
const BATCH: u64 = 256;

/// The state that the player and the signal handler share.
pub(crate) struct Show {
    pub(crate) voice: Box<dyn Voice>,
    pub(crate) stage: Stage,
}

/// Plays the options and the prompt. An error is a mistake in them.
pub(crate) fn play(options: &Options) -> Result<ExitCode, String> {
    let cwd =
        std::env::current_dir().map_err(|error| format!("could not find the current directory: {error}"))?;
    let schema = input::schema(options)?;
    let mcp_servers = input::mcp_servers(options)?;
    let mut input = input::take(options)?;
    let session = match sessions::choose(options, &cwd) {
        Ok(session) => session,
        Err(message) => {
            to_stderr(format!("{message}\n").as_bytes());
            return Ok(ExitCode::from(1));
        }
    };
    input.steps = script::part(input.steps, session.turns);
    if input.steps.contains(&Step::LauncherExits) && !options.launched {
        children::launch(&options.argv, &input.script)?;
        return Ok(ExitCode::SUCCESS);
    }

    let mut stage = Stage::new(Out::new(), session.id.clone());
    stage.cwd.clone_from(&cwd);
    stage.mode = options.mode;
    stage.prompt.clone_from(&input.prompt);
    stage.mcp_servers = mcp_servers;
    stage.effort = options.value("effort").map(str::to_owned);
    if let Some(model) = options.value("model") {
        model.clone_into(&mut stage.model);
    }
    if !options.has("no-tools") {
        stage.tools = vec!["Bash", "Edit", "Read", "Write"];
    }
    let shared = SharedPlay::new(Show { voice: voices::of(options.format), stage });
    signals::listen(Arc::clone(&shared.show), shared.deaf.clone())?;

    let mut player = Player::new(options, shared, cwd, session, input);
    player.schema = schema;
    let stop = player.run().err();
    let error = {
        let mut show = player.lock();
        show.stage.out.flush();
        show.stage.out.take_error()
    };
    if let Some(error) = error {
        to_stderr(format!("practice-agent: could not write to standard output: {error}\n").as_bytes());
        return Ok(ExitCode::from(1));
    }
    Ok(match stop {
        None | Some(Stop::Over) => ExitCode::from(player.ended.unwrap_or(0)),
        Some(Stop::Exit(code)) => ExitCode::from(code),
        Some(Stop::Fault(message)) => {
            to_stderr(format!("practice-agent: {message}\n").as_bytes());
            ExitCode::from(1)
        }
        // Only a host that speaks a two-way protocol cancels a play.
        Some(Stop::Cancelled) => ExitCode::from(130),
    })
}

/// Writes to standard error. If that fails, there is no other place to report it.
pub(crate) fn to_stderr(bytes: &[u8]) {
    _ = std::io::stderr().write_all(bytes);
}

/// The state that the play shares with other threads: its output, the ignored orders, and the host's hold on it.
#[derive(Clone)]
pub(crate) struct SharedPlay {
    pub(crate) show: Arc<Mutex<Show>>,
    pub(crate) deaf: Deaf,
    pub(crate) control: Arc<PlayControl>,
}

impl SharedPlay {
    pub(crate) fn new(show: Show) -> Self {
        Self { show: Arc::new(Mutex::new(show)), deaf: Deaf::default(), control: Arc::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Show> {
        self.show.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The play.
pub(crate) struct Player<'a> {
    options: &'a Options,
    shared: SharedPlay,
    control: Arc<PlayControl>,
    cwd: PathBuf,
    session: Session,
    pub(crate) schema: Option<Value>,
    input: Input,
    pace: f64,
    begun: bool,
    /// Whether it requests a missing permission.
    asks: bool,
    /// The exit code of the turn's end, if it has ended.
    ended: Option<u8>,
}

impl<'a> Player<'a> {
    pub(crate) fn new(
        options: &'a Options,
        shared: SharedPlay,
        cwd: PathBuf,
        session: Session,
        input: Input,
    ) -> Self {
        let pace = options.pace.unwrap_or(if input.steps.is_empty() { 1.0 } else { 0.0 });
        let control = Arc::clone(&shared.control);
        let mut player = Self {
            options,
            shared,
            control,
            cwd,
            session,
            schema: None,
            input,
            pace,
            begun: false,
            asks: false,
            ended: None,
        };
        player.set_pace(pace);
        player
    }
}

impl Player<'_> {
    pub(crate) fn options(&self) -> &Options {
        self.options
    }

    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the answer as JSON, if a schema requires it, and keeps it for the result.
    pub(crate) fn structured(&mut self) -> Option<String> {
        let value = schema::sample(self.schema.as_ref()?);
        let text = value.to_string();
        self.lock().stage.structured = Some(value);
        Some(text)
    }

    pub(crate) fn run(&mut self) -> Result<(), Stop> {
        let mut result = true;
        let steps = std::mem::take(&mut self.input.steps);
        if steps.is_empty() {
            task::play(self)?;
        }
        for step in steps {
            self.control.check()?;
            result &= step != Step::NoResult;
            self.step(step)?;
            self.lock().stage.out.flush();
        }
        if result && self.ended.is_none() {
            self.end(&Ending::Done)?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), Stop> {
        match step {
            Step::Say(text) => self.say(&text)?,
            Step::Think(text) => self.think(&text)?,
            Step::Deltas { count, length } => self.pieces(length, count, u64::MAX)?,
            Step::Tool(step) => {
                let tool = self.tool_of(step)?;
                self.tool(tool)?;
            }
            Step::Question { text, choices } => self.question(&text, &choices)?,
            Step::Task => task::play(self)?,
            Step::Show => {
                let text = self.received().to_string();
                self.say(&text)?;
            }
            Step::Result => self.end(&Ending::Done)?,
            Step::SecondResult => {
                self.end(&Ending::Done)?;
                self.end(&Ending::Done)?;
            }
            Step::Fail { status, message } => self.end(&Ending::Error { status, message })?,
            Step::InitAgain => {
                self.begin();
                self.with(|voice, stage| voice.begin(stage));
            }
            Step::MessageBetweenDeltas => self.message_between_deltas()?,
            Step::UnknownType => {
                self.begin();
                self.lock().stage.out.line(r#"{"type":"practice_unknown","value":1}"#);
            }
            Step::Line(line) => self.lock().stage.out.line(&line),
            Step::Bytes(bytes) => self.lock().stage.out.bytes(&bytes),
            Step::LongLine { size, garbage: true } => {
                self.fill(size as u64, "garbage ", |show, piece| show.stage.out.bytes(piece))?;
                self.lock().stage.out.end_line();
            }
            Step::LongLine { size, garbage: false } => self.piece(&"x".repeat(size))?,
            Step::HalfLine => {
                self.begin();
                self.lock().stage.out.bytes(br#"{"type":"assistant","message":{"id":"msg_ha"#);
            }
            Step::Stderr(text) => to_stderr(format!("{text}\n").as_bytes()),
            Step::FloodStdout(size) => self.pieces(1000, u64::MAX, size)?,
            Step::FloodStderr(size) => {
                let line = format!("warning: this is noise, and there is more of it; {}\n", "-".repeat(50));
                self.fill(size, &line, |_, piece| to_stderr(piece))?;
            }
            Step::CloseStdout => {
                let closed = self.lock().stage.out.close();
                closed.map_err(|error| Stop::Fault(format!("could not close standard output: {error}")))?;
            }
            Step::Sleep(time) => self.wait(time)?,
            Step::Hang => loop {
                self.wait(Duration::from_secs(3600))?;
            },
            Step::Pace(pace) => self.set_pace(pace),
            Step::Asks => self.asks = true,
            Step::ReadStdin => self.input.read_rest().map_err(Stop::Fault)?,
            // Handled before the play began.
            Step::NoResult
            | Step::NeverReadStdin
            | Step::AnswerEarly
            | Step::LauncherExits
            | Step::NextPrompt => {}
            Step::Ignore(orders) => orders.iter().for_each(|order| self.shared.deaf.to(*order)),
            Step::Child { traits, seconds } => {
                children::start(self.options.argv.len(), &traits, seconds).map_err(Stop::Fault)?;
            }
            Step::Exit(code) => return Err(Stop::Exit(code)),
            Step::KillSelf(signal) => self.kill_self(signal)?,
            Step::Crash => {
                self.lock().stage.out.flush();
                std::process::abort();
            }
        }
        Ok(())
    }

    /// Starts the session, once.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        self.remember();
        self.with(|voice, stage| voice.begin(stage));
    }

    fn remember(&self) {
        if !self.options.has("ephemeral")
            && let Err(message) = sessions::remember(&self.session, &self.cwd)
        {
            to_stderr(format!("practice-agent: {message}\n").as_bytes());
        }
    }

    /// Goes before each action of the agent: it may be too late for one, and the host may have sent a text.
    fn next_action(&mut self) -> Result<(), Stop> {
        self.begin();
        self.limits()?;
        self.control.check()?;
        while let Some(text) = self.control.next_steer() {
            self.acknowledge(&text)?;
        }
        Ok(())
    }

    /// Shows in the answer that a text of the host was read.
    fn acknowledge(&mut self, text: &str) -> Result<(), Stop> {
        self.speak(Block::Text, &format!("Noted: {text}"))
    }

    /// Ends the turn if it has reached a limit.
    fn limits(&mut self) -> Result<(), Stop> {
        // In a block of its own: `end` below takes the same lock.
        let (turns, cost) = {
            let show = self.lock();
            (show.stage.turns, show.stage.usage.cost())
        };
        let over = match (self.options.max_turns, self.options.max_cost) {
            (Some(most), _) if turns >= most => Some(Ending::MaxTurns(most)),
            (_, Some(most)) if cost > most => Some(Ending::MaxCost(most)),
            _ => None,
        };
        match over {
            Some(ending) => {
                self.end(&ending)?;
                Err(Stop::Over)
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, ending: &Ending) -> Result<(), Stop> {
        self.begin();
        // A text that the host was told to be part of this turn must not be lost with its end.
        while let Some(text) = self.control.finish()? {
            self.acknowledge(&text)?;
        }
        if self.input.source == InputSource::Protocol {
            // Before the response: the host may load the session in another process as soon as it has that.
            let answer = self.lock().stage.last_text.clone();
            self.session.answered(&answer);
            self.remember();
        }
        let mut code = 0;
        self.with(|voice, stage| {
            voice.end(ending, stage);
            code = voice.code(ending);
        });
        self.ended = Some(code);
        Ok(())
    }

    fn kill_self(&self, signal: i32) -> Result<(), Stop> {
        self.lock().stage.out.flush();
        let fault = |why: String| Stop::Fault(format!("could not raise signal {signal}: {why}"));
        let number = rustix::process::Signal::from_named_raw(signal);
        let number = number.ok_or_else(|| fault("there is no such signal".to_owned()))?;
        // The standard library handles SIGBUS and SIGSEGV first, and leaves the second to the system.
        for _ in 0..2 {
            rustix::process::kill_process(rustix::process::getpid(), number)
                .map_err(|error| fault(error.to_string()))?;
        }
        // The thread that handles signals needs a moment.
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    }

    fn wait(&self, time: Duration) -> Result<(), Stop> {
        self.lock().stage.out.flush();
        // The guard above is dropped already, so a signal can be handled during the wait.
        self.control.wait(time)
    }

    /// Waits at the pace of the play.
    fn pause(&self, millis: u64) -> Result<(), Stop> {
        if self.pace > 0.0 {
            self.wait(Duration::from_millis(millis).mul_f64(self.pace))
        } else {
            self.control.check()
        }
    }

    fn set_pace(&mut self, pace: f64) {
        self.pace = pace;
        self.lock().stage.out.prompt = pace > 0.0;
    }

    fn with(&self, act: impl FnOnce(&mut dyn Voice, &mut Stage)) {
        let mut show = self.lock();
        let Show { voice, stage } = &mut *show;
        act(voice.as_mut(), stage);
    }

    fn lock(&self) -> MutexGuard<'_, Show> {
        self.shared.lock()
    }
}
