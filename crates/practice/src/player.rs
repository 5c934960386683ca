//! Plays a script or the task: turns steps into output and actions, at a pace.

mod ask;
mod input;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::options::{Options, variable};
use crate::out::Out;
use crate::script::{Step, ToolStep};
use crate::sessions::Session;
use crate::signals::Deaf;
use crate::stage::Stage;
use crate::tools::{Call, Outcome, Tool, absolute, perform};
use crate::voices::{Block, Ending, Voice};
use crate::{children, schema, sessions, signals, task, voices};

/// Above this, a text continues in another message, so that memory stays flat.
const LONGEST_MESSAGE: usize = 1 << 20;

/// How many pieces to write before a signal may be handled.
const BATCH: u64 = 256;

/// The state that the player and the signal handler share.
pub(crate) struct Show {
    pub(crate) voice: Box<dyn Voice>,
    pub(crate) stage: Stage,
}

/// Why the play ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The process exits with this code.
    Exit(u8),
    /// An action of the agent failed.
    Fault(String),
}

/// Plays the options and the prompt. An error is a mistake in them.
pub(crate) fn play(options: &Options) -> Result<ExitCode, String> {
    let cwd =
        std::env::current_dir().map_err(|error| format!("could not find the current directory: {error}"))?;
    let schema = input::schema(options)?;
    let mcp_servers = input::mcp_servers(options)?;
    let input = input::take(options)?;
    let session = match sessions::choose(options, &cwd) {
        Ok(session) => session,
        Err(message) => {
            to_stderr(format!("{message}\n").as_bytes());
            return Ok(ExitCode::from(1));
        }
    };
    if input.steps.contains(&Step::LauncherExits) && !options.launched {
        children::launch(&options.argv, &input.script)?;
        return Ok(ExitCode::SUCCESS);
    }

    let mut stage = Stage::new(Out::new(), session.id.clone());
    stage.cwd.clone_from(&cwd);
    stage.mode = options.mode;
    stage.prompt.clone_from(&input.prompt);
    stage.mcp_servers = mcp_servers;
    if let Some(model) = options.value("model") {
        model.clone_into(&mut stage.model);
    }
    if !options.has("no-tools") {
        stage.tools = vec!["Bash", "Edit", "Read", "Write"];
    }
    let show = Arc::new(Mutex::new(Show { voice: voices::of(options.format), stage }));
    let deaf = Deaf::default();
    signals::listen(Arc::clone(&show), deaf.clone())?;

    let mut player = Player {
        options,
        show,
        deaf,
        cwd,
        session,
        schema,
        input,
        pace: 0.0,
        begun: false,
        asks: false,
        ended: None,
    };
    player.set_pace(options.pace.unwrap_or(if player.input.steps.is_empty() { 1.0 } else { 0.0 }));
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
        None => ExitCode::from(player.ended.unwrap_or(0)),
        Some(Stop::Exit(code)) => ExitCode::from(code),
        Some(Stop::Fault(message)) => {
            to_stderr(format!("practice-agent: {message}\n").as_bytes());
            ExitCode::from(1)
        }
    })
}

/// Writes to standard error. If that fails, there is no other place to report it.
pub(crate) fn to_stderr(bytes: &[u8]) {
    _ = std::io::stderr().write_all(bytes);
}

/// The play.
pub(crate) struct Player<'a> {
    options: &'a Options,
    show: Arc<Mutex<Show>>,
    deaf: Deaf,
    cwd: PathBuf,
    session: Session,
    schema: Option<Value>,
    input: input::Input,
    pace: f64,
    begun: bool,
    /// Whether it requests a missing permission.
    asks: bool,
    /// The exit code of the turn's end, if it has ended.
    ended: Option<u8>,
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

    fn run(&mut self) -> Result<(), Stop> {
        let mut result = true;
        let steps = std::mem::take(&mut self.input.steps);
        if steps.is_empty() {
            task::play(self)?;
        }
        for step in steps {
            result &= step != Step::NoResult;
            self.step(step)?;
            self.lock().stage.out.flush();
        }
        if result && self.ended.is_none() {
            self.end(&Ending::Done);
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
            Step::Task => task::play(self)?,
            Step::Show => {
                let text = self.received().to_string();
                self.say(&text)?;
            }
            Step::Result => self.end(&Ending::Done),
            Step::SecondResult => {
                self.end(&Ending::Done);
                self.end(&Ending::Done);
            }
            Step::Fail { status, message } => self.end(&Ending::Error { status, message }),
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
                self.fill(size as u64, "garbage ", |show, piece| show.stage.out.bytes(piece));
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
                self.fill(size, &line, |_, piece| to_stderr(piece));
            }
            Step::CloseStdout => {
                let closed = self.lock().stage.out.close();
                closed.map_err(|error| Stop::Fault(format!("could not close standard output: {error}")))?;
            }
            Step::Sleep(time) => self.wait(time),
            Step::Hang => loop {
                self.wait(Duration::from_secs(3600));
            },
            Step::Pace(pace) => self.set_pace(pace),
            Step::Asks => self.asks = true,
            Step::ReadStdin => self.input.read_rest().map_err(Stop::Fault)?,
            // Handled before the play began.
            Step::NoResult | Step::NeverReadStdin | Step::AnswerEarly | Step::LauncherExits => {}
            Step::Ignore(signals) => signals.iter().for_each(|signal| self.deaf.to(*signal)),
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

    /// Writes a message, word by word.
    pub(crate) fn say(&mut self, text: &str) -> Result<(), Stop> {
        self.speak(Block::Text, text)
    }

    /// Writes thinking.
    pub(crate) fn think(&mut self, text: &str) -> Result<(), Stop> {
        self.speak(Block::Thinking, text)
    }

    fn speak(&mut self, block: Block, text: &str) -> Result<(), Stop> {
        self.begin();
        self.limits()?;
        self.with(|voice, stage| voice.open(block, stage));
        for word in text.split_inclusive(' ') {
            self.with(|voice, stage| voice.delta(word, stage));
            self.pause(35);
        }
        self.with(|voice, stage| voice.close(stage));
        self.pause(150);
        Ok(())
    }

    /// Writes one piece that is a whole message.
    fn piece(&mut self, text: &str) -> Result<(), Stop> {
        self.begin();
        self.limits()?;
        self.with(|voice, stage| {
            voice.open(Block::Text, stage);
            voice.delta(text, stage);
            voice.close(stage);
        });
        Ok(())
    }

    /// Writes pieces of the same length: this many, or until this much was printed.
    fn pieces(&mut self, length: usize, count: u64, size: u64) -> Result<(), Stop> {
        self.begin();
        self.limits()?;
        let text = "abcdefghi ".repeat(length.div_ceil(10));
        let text = &text[..length];
        let per_message = (LONGEST_MESSAGE / length.max(1)).max(1) as u64;
        let printed = |player: &Self| player.lock().stage.out.said;
        let enough = printed(self).saturating_add(size);
        let mut said = 0;
        while said < count && printed(self) < enough {
            let begin = said;
            let end = (said + per_message).min(count);
            self.with(|voice, stage| voice.open(Block::Text, stage));
            // The end of a message repeats it.
            while said < end && printed(self).saturating_add((said - begin) * length as u64) < enough {
                let batch = (end - said).min(if self.pace > 0.0 { 1 } else { BATCH });
                self.with(|voice, stage| (0..batch).for_each(|_| voice.delta(text, stage)));
                said += batch;
                self.pause(35);
            }
            self.with(|voice, stage| voice.close(stage));
        }
        Ok(())
    }

    /// Runs a tool, if it is allowed.
    pub(crate) fn tool(&mut self, tool: Tool) -> Result<Outcome, Stop> {
        self.begin();
        self.limits()?;
        // The guard ends with this block: `with` below takes the same lock.
        let call = {
            let mut show = self.lock();
            show.stage.calls += 1;
            Call { id: format!("toolu_practice{:06}", show.stage.calls), tool }
        };
        self.with(|voice, stage| {
            voice.call(&call, stage);
            stage.out.flush();
        });
        self.pause(250);
        // The tool runs without the lock, which the handler of a signal needs to print the last lines.
        let outcome = match self.forbidden(&call) {
            Some(why) => {
                self.lock().stage.denials.push(call.clone());
                Outcome::Refused(why)
            }
            None => perform(&call.tool, &self.cwd),
        };
        self.with(|voice, stage| voice.outcome(&call, &outcome, stage));
        self.pause(100);
        Ok(outcome)
    }

    fn tool_of(&self, step: ToolStep) -> Result<Tool, Stop> {
        let path = |file: &str| absolute(&self.cwd, file).display().to_string();
        Ok(match step {
            ToolStep::Read(file) => Tool::Read { path: path(&file) },
            ToolStep::Write { file, text } => Tool::Write { path: path(&file), content: text },
            ToolStep::Replace { file, old, new } => Tool::Edit { path: path(&file), old, new },
            ToolStep::Run(command) => Tool::Run { command },
            ToolStep::Append { file, text } => {
                let path = path(&file);
                match std::fs::read_to_string(&path) {
                    Ok(old) if !old.is_empty() => {
                        let end = if old.ends_with('\n') { "" } else { "\n" };
                        let new = format!("{old}{end}{text}\n");
                        Tool::Edit { path, old, new }
                    }
                    Ok(_) => Tool::Write { path, content: format!("{text}\n") },
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        Tool::Write { path, content: format!("{text}\n") }
                    }
                    Err(error) => return Err(Stop::Fault(format!("could not read `{path}`: {error}"))),
                }
            }
        })
    }

    fn message_between_deltas(&mut self) -> Result<(), Stop> {
        self.begin();
        self.limits()?;
        self.with(|voice, stage| {
            voice.open(Block::Text, stage);
            voice.delta("before ", stage);
            voice.whole("a whole message", stage);
            voice.delta("and after", stage);
            voice.close(stage);
        });
        Ok(())
    }

    /// Starts the session, once.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        if !self.options.has("ephemeral")
            && let Err(message) = sessions::remember(&self.session, &self.cwd)
        {
            to_stderr(format!("practice-agent: {message}\n").as_bytes());
        }
        self.with(|voice, stage| voice.begin(stage));
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
                self.end(&ending);
                Err(Stop::Exit(self.ended.unwrap_or(1)))
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, ending: &Ending) {
        self.begin();
        let mut code = 0;
        self.with(|voice, stage| {
            voice.end(ending, stage);
            code = voice.code(ending);
        });
        self.ended = Some(code);
    }

    /// Returns the request as it arrived.
    fn received(&self) -> Value {
        // Values only of variables that are not secret; otherwise only the name.
        const TOLD: &[&str] = &["TERM", "NO_COLOR", "CI", "LANG", "COLUMNS", "LINES", "HOME", "PATH", "PWD"];
        let mut env = json!({});
        let mut names = Vec::new();
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if TOLD.contains(&&*name) || name.starts_with("PRACTICE_") || name.starts_with("BOWLINE_") {
                env[name.as_str()] = variable(&name).into();
            }
            names.push(name);
        }
        names.sort();
        json!({"argv": self.options.argv, "options": self.options.given(), "prompt": self.input.prompt,
            "stdin_bytes": self.input.stdin_bytes, "cwd": self.cwd, "env": env, "env_names": names,
            "session": self.session.id, "resumed": self.session.resumed, "earlier_turns": self.session.turns,
            "mcp_servers": self.lock().stage.mcp_servers, "format": self.options.format.as_str(),
            "permission": self.options.mode.as_str(), "schema": self.schema,
            "stdout_is_terminal": std::io::IsTerminal::is_terminal(&std::io::stdout())})
    }

    /// Writes a piece again and again until this much is written.
    fn fill(&self, size: u64, piece: &str, write: impl Fn(&mut Show, &[u8])) {
        let piece = piece.repeat((64 << 10) / piece.len());
        let mut left = size;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            write(&mut self.lock(), &piece.as_bytes()[..part]);
            left -= part as u64;
        }
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

    fn wait(&self, time: Duration) {
        self.lock().stage.out.flush();
        // The guard above is dropped already, so a signal can be handled during the sleep.
        std::thread::sleep(time);
    }

    /// Waits at the pace of the play.
    fn pause(&self, millis: u64) {
        if self.pace > 0.0 {
            self.wait(Duration::from_millis(millis).mul_f64(self.pace));
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
        self.show.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
