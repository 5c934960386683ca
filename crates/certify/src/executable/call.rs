//! One call of the program: what goes in, what comes out and when, how it ends and what it leaves behind.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline::Request;
use bowline_process::{self as process, Child, Happening, Scope, Signal, Supervisor, Survivor};
use bowline_providers::invocation::{self, Invocation, StdinPlan, Wish};
use bowline_providers::probe::{Answer, Version};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::Plan;
use super::cases::{because, refused};
use crate::clock::Stopwatch;
use crate::trouble::{Trouble, short};

/// How long a program has to be gone after it was asked to.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// How long the answer to `--version` may take.
const VERSION: Duration = Duration::from_secs(5);

/// How long the end of what was left behind is waited for.
const SWEEP: Duration = Duration::from_secs(5);

/// How long a process may outlive its program before that counts.
const MOMENT: Duration = Duration::from_millis(250);

/// The most that is kept of standard output.
const MOST: usize = 16 * 1024 * 1024;

/// A prompt whose answer has many words.
const COUNT: &str = "Count from one to thirty in words, with a blank between them.";

/// The program, and what was heard of it so far.
#[derive(Debug)]
pub(super) struct Subject {
    supervisor: Supervisor,
    plan: Plan,
    /// What stands before the command word.
    args: Vec<String>,
    env: Vec<(OsString, OsString)>,
    pub(super) patience: Duration,
    generated: OnceCell<Result<Said, Trouble>>,
    streamed: OnceCell<Result<Said, Trouble>>,
    version: OnceCell<Result<Option<Version>, Trouble>>,
    left: Mutex<Vec<Survivor>>,
}

/// What was heard of one call.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// When each read of standard output came, and where it ends.
    pub(super) reads: Vec<(Duration, usize)>,
    /// How it ended by itself; nothing if it had to be ended.
    pub(super) exit: Option<process::Exit>,
    pub(super) took: Duration,
    open: usize,
    swept: bool,
    left: Vec<Survivor>,
}

impl Subject {
    pub(super) fn new(plan: &Plan, supervisor: Supervisor) -> Result<Self, Trouble> {
        let invocation = built(plan, "Say hello.")?;
        let mut args: Vec<String> =
            plan.manifest.formats.get("generate").map(|format| format.args.clone()).unwrap_or_default();
        args.pop();
        // A variable that is not UTF-8 is none that any list names.
        let host = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let env = invocation.environment(host);
        Ok(Self {
            supervisor,
            plan: plan.clone(),
            args,
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            patience: invocation
                .limits
                .total
                .map_or(Duration::from_secs(120), |it| Duration::from_millis(it.0)),
            generated: OnceCell::new(),
            streamed: OnceCell::new(),
            version: OnceCell::new(),
            left: Mutex::default(),
        })
    }

    /// Says whether the provider is said to stream.
    pub(super) fn streams(&self) -> bool {
        self.plan.manifest.formats.contains_key("stream")
    }

    /// Returns a request as it is sent, for cases that change it.
    pub(super) fn request(&self, prompt: &str) -> Result<Value, Trouble> {
        // The builder refuses an empty prompt, which one of the cases wants.
        let StdinPlan::Prompt(text) = built(&self.plan, "x")?.stdin else {
            return Err(Trouble::new("it is no executable provider: its prompt style is not `request`"));
        };
        let mut request: Value = serde_json::from_str(&text)
            .map_err(|error| Trouble::new(format_args!("our own request is no JSON: {error}")))?;
        request["prompt"] = prompt.into();
        Ok(request)
    }

    /// Returns the answer of `generate` to an ordinary prompt, asked for once.
    pub(super) async fn generated(&self) -> Result<&Said, Trouble> {
        let said = self.generated.get_or_init(|| async {
            self.call("generate", Some(self.request("Say hello.")?.to_string()), self.patience).await
        });
        said.await.as_ref().map_err(Clone::clone)
    }

    /// Returns the chunks of `stream` for a prompt with a long answer, asked for once.
    pub(super) async fn streamed(&self) -> Result<&Said, Trouble> {
        let said = self.streamed.get_or_init(|| async {
            self.call("stream", Some(self.request(COUNT)?.to_string()), self.patience).await
        });
        said.await.as_ref().map_err(Clone::clone)
    }

    /// Returns its version, asked for once; nothing if it refuses `--version` as the command that it does not know.
    pub(super) async fn version(&self) -> Result<Option<Version>, Trouble> {
        let version = self.version.get_or_init(|| async {
            let said = self.call("--version", None, VERSION).await?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let code = match said.exit {
                Some(process::Exit::Code(code)) => Some(code),
                Some(process::Exit::Signal(_) | process::Exit::Unknown) | None => None,
            };
            if code != Some(0) {
                return refused(&said).map(|()| None);
            }
            let answer = Answer { stdout: text(&said.stdout), stderr: text(&said.stderr), code };
            match Version::find(&answer) {
                Some(version) => Ok(Some(version)),
                None => Err(because("there is no version in what it prints".to_owned(), &said)),
            }
        });
        version.await.clone()
    }

    /// Returns what outlived the calls so far.
    pub(super) fn left(&self) -> Vec<Survivor> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls the program and waits for its end, but no longer than this.
    pub(super) async fn call(
        &self,
        word: &str,
        stdin: Option<String>,
        patience: Duration,
    ) -> Result<Said, Trouble> {
        let mut child = self.start(word, stdin).await?;
        let time = Stopwatch::start();
        let mut said = Said { open: 2, ..Said::default() };
        // Its end is that of the program and of its output.
        let over = said.until(&mut child, time, |said| said.exit.is_some() && said.open == 0);
        let in_time = tokio::time::timeout(patience, over).await.is_ok();
        said.took = time.elapsed();
        self.sweep(&mut child, &mut said, time).await;
        self.left.lock().unwrap_or_else(PoisonError::into_inner).append(&mut said.left);
        if in_time {
            return Ok(said);
        }
        let command = self.written(word);
        Err(Trouble::new(format_args!(
            "`{command}` was not over after {} s, and was ended",
            patience.as_secs_f32()
        ))
        .and(format_args!("standard output: {}", short(&String::from_utf8_lossy(&said.stdout))))
        .and(format_args!("standard error: {}", short(&String::from_utf8_lossy(&said.stderr)))))
    }

    /// Begins a stream, asks the program to end at its first word, and says how long it took to be gone.
    pub(super) async fn asked_to_end(&self) -> Result<(), Trouble> {
        let word = if self.streams() { "stream" } else { "generate" };
        let mut child = self.start(word, Some(self.request(COUNT)?.to_string())).await?;
        let time = Stopwatch::start();
        let mut said = Said { open: 2, ..Said::default() };
        let begun = said.until(&mut child, time, |said| !said.stdout.is_empty() || said.exit.is_some());
        // Whoever says nothing for so long is asked all the same.
        let _ = tokio::time::timeout(Duration::from_secs(5), begun).await;
        child.control().signal(Signal::Terminate, Scope::Tree);
        let gone =
            tokio::time::timeout(GRACE, said.until(&mut child, time, |said| said.exit.is_some())).await;
        self.sweep(&mut child, &mut said, time).await;
        match gone {
            Ok(()) => Ok(()),
            Err(_) => Err(Trouble::new(format_args!(
                "it was still there {} s after SIGTERM, and had to be killed",
                GRACE.as_secs()
            ))),
        }
    }

    /// Writes a call as a person would.
    pub(super) fn written(&self, word: &str) -> String {
        let program = self.plan.program.display().to_string();
        let words: Vec<&str> = std::iter::once(program.as_str())
            .chain(self.args.iter().map(String::as_str))
            .chain([word])
            .collect();
        words.join(" ")
    }

    async fn start(&self, word: &str, stdin: Option<String>) -> Result<Child, Trouble> {
        let mut command = process::Command::new(PathBuf::from(&self.plan.program), "bowline-certify");
        command.args = self.args.iter().map(OsString::from).chain([word.into()]).collect();
        command.env = self.env.clone();
        command.stdin = stdin.map_or(process::Stdin::Null, |text| process::Stdin::Bytes(text.into_bytes()));
        self.supervisor.spawn(command).await.map_err(|error| {
            Trouble::new(format_args!("`{}` could not be started: {}", self.written(word), error.kind))
        })
    }

    /// Ends what there is of the call.
    async fn sweep(&self, child: &mut Child, said: &mut Said, time: Stopwatch) {
        let ended_by_itself = said.exit.is_some();
        if ended_by_itself {
            // Helpers that see the end of their program need a moment to follow it.
            let _ = tokio::time::timeout(MOMENT, said.until(child, time, |_| false)).await;
        }
        child.control().sweep(Duration::ZERO);
        let _ = tokio::time::timeout(SWEEP, said.until(child, time, |said| said.swept)).await;
        if !ended_by_itself {
            // What was ended with it, it did not leave behind.
            said.left.clear();
        }
    }
}

fn built(plan: &Plan, prompt: &str) -> Result<Invocation, Trouble> {
    let (config, env) = (plan.config.clone(), plan.env.clone());
    let request = Request { prompt: prompt.to_owned(), config, env, ..Request::default() };
    invocation::build(plan.manifest, &request, &Wish::default()).map_err(Trouble::new)
}

impl Said {
    async fn until(&mut self, child: &mut Child, time: Stopwatch, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            match child.next().await {
                Happening::Stdout { bytes, .. } => {
                    let room = MOST.saturating_sub(self.stdout.len());
                    self.stdout.extend(&bytes[..bytes.len().min(room)]);
                    self.reads.push((time.elapsed(), self.stdout.len()));
                }
                Happening::Stderr { bytes, .. } => {
                    let room = MOST.saturating_sub(self.stderr.len());
                    self.stderr.extend(&bytes[..bytes.len().min(room)]);
                }
                Happening::StdoutClosed | Happening::StderrClosed => self.open = self.open.saturating_sub(1),
                Happening::Exited(exit) => self.exit = Some(exit),
                Happening::Swept { ended, survivors } => {
                    self.swept = true;
                    self.left = ended.into_iter().chain(survivors).collect();
                }
                Happening::StdinWritten(_) | Happening::StdinClosed { .. } | Happening::KeeperLost => {}
            }
        }
    }

    /// Returns when the byte at this place had come.
    pub(super) fn when(&self, at: usize) -> Duration {
        let read = self.reads.iter().find(|(_, end)| *end > at);
        read.map_or(self.took, |(when, _)| *when)
    }
}
