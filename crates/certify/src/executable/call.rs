//! One call of the program: input, output with times, exit, and the processes that it leaves.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bowline::Request;
use bowline_process::{self as process, Child, ChildEvent, Signal, SignalScope, Supervisor, TreeProcess};
use bowline_providers::invocation::{self, Invocation, StdinPlan, Wish};
use bowline_providers::probe::{Answer, Version};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::ExecutablePlan;
use super::cases::{because, refused};
use crate::case_failure::{CaseFailure, short};
use crate::clock::Stopwatch;

/// The time limit from SIGTERM to the exit of the program.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// The time limit of `--version`.
const VERSION: Duration = Duration::from_secs(5);

/// How long to wait for the end of processes that were left behind.
const SWEEP: Duration = Duration::from_secs(5);

/// How long a process may outlive its program before it counts.
const MOMENT: Duration = Duration::from_millis(250);

/// The most bytes of standard output to keep.
const MOST: usize = 16 * 1024 * 1024;

/// A prompt with a long answer.
const COUNT: &str = "Count from one to thirty in words, with a blank between them.";

/// The program, and the calls so far.
#[derive(Debug)]
pub(super) struct ExecutableSubject {
    supervisor: Supervisor,
    plan: ExecutablePlan,
    /// The arguments before the command word.
    args: Vec<String>,
    env: Vec<(OsString, OsString)>,
    pub(super) patience: Duration,
    generated: OnceCell<Result<CallOutput, CaseFailure>>,
    streamed: OnceCell<Result<CallOutput, CaseFailure>>,
    version: OnceCell<Result<Option<Version>, CaseFailure>>,
    /// How long `--version` took, which is little more than the start of the program.
    startup: OnceLock<Duration>,
    left: Mutex<Vec<TreeProcess>>,
}

/// The output of one call.
#[derive(Clone, Debug, Default)]
pub(super) struct CallOutput {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// The time and the end offset of each read of standard output.
    pub(super) reads: Vec<(Duration, usize)>,
    /// The exit; none if the suite had to kill it.
    pub(super) exit: Option<process::ExitStatus>,
    pub(super) took: Duration,
    open: usize,
    swept: bool,
    left: Vec<TreeProcess>,
}

impl ExecutableSubject {
    pub(super) fn new(plan: &ExecutablePlan, supervisor: Supervisor) -> Result<Self, CaseFailure> {
        let invocation = built(plan, "Say hello.")?;
        let mut args: Vec<String> =
            plan.manifest.formats.get("generate").map(|format| format.args.clone()).unwrap_or_default();
        // The last argument is the command word. Each call has its own.
        args.pop();
        // No list names a variable that is not UTF-8.
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
            startup: OnceLock::new(),
            left: Mutex::default(),
        })
    }

    /// Returns whether the provider implements `stream`.
    pub(super) fn streams(&self) -> bool {
        self.plan.manifest.formats.contains_key("stream")
    }

    /// Returns a request as it is sent, for cases that change it.
    pub(super) fn request(&self, prompt: &str) -> Result<Value, CaseFailure> {
        // The builder refuses an empty prompt, which one of the cases needs.
        let StdinPlan::Prompt(text) = built(&self.plan, "x")?.stdin else {
            return Err(CaseFailure::new(
                "the manifest is not that of an executable provider: its prompt style is not `request`",
            ));
        };
        let mut request: Value = serde_json::from_str(&text)
            .map_err(|error| CaseFailure::new(format_args!("our own request is not JSON: {error}")))?;
        request["prompt"] = prompt.into();
        Ok(request)
    }

    /// Returns the response of `generate` to an ordinary prompt; called once.
    pub(super) async fn generated(&self) -> Result<&CallOutput, CaseFailure> {
        let said = self.generated.get_or_init(|| async {
            self.call("generate", Some(self.request("Say hello.")?.to_string()), self.patience).await
        });
        said.await.as_ref().map_err(Clone::clone)
    }

    /// Returns the chunks of `stream` for a prompt with a long answer; called once.
    pub(super) async fn streamed(&self) -> Result<&CallOutput, CaseFailure> {
        let said = self.streamed.get_or_init(|| async {
            self.call("stream", Some(self.request(COUNT)?.to_string()), self.patience).await
        });
        said.await.as_ref().map_err(Clone::clone)
    }

    /// Returns the version, read once; none if the program rejects `--version` as an unknown command.
    pub(super) async fn version(&self) -> Result<Option<Version>, CaseFailure> {
        let version = self.version.get_or_init(|| async {
            let said = self.call("--version", None, VERSION).await?;
            self.startup.get_or_init(|| said.took);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let code = match said.exit {
                Some(process::ExitStatus::Code(code)) => Some(code),
                Some(process::ExitStatus::Signal(_) | process::ExitStatus::Unknown) | None => None,
            };
            if code != Some(0) {
                return refused(&said).map(|()| None);
            }
            let answer = Answer { stdout: text(&said.stdout), stderr: text(&said.stderr), code };
            match Version::find(&answer) {
                Some(version) => Ok(Some(version)),
                None => Err(because("the output has no version".to_owned(), &said)),
            }
        });
        version.await.clone()
    }

    /// Returns how long the program takes to start, as measured on the call of `--version`; zero if that call failed. The start
    /// of an interpreter takes seconds on a busy machine.
    pub(super) async fn startup(&self) -> Duration {
        // The case `version` reports the failure.
        let _ = self.version().await;
        self.startup.get().copied().unwrap_or_default()
    }

    /// Returns the processes that outlived the calls so far.
    pub(super) fn left(&self) -> Vec<TreeProcess> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls the program and waits for its end, at most this long.
    pub(super) async fn call(
        &self,
        word: &str,
        stdin: Option<String>,
        patience: Duration,
    ) -> Result<CallOutput, CaseFailure> {
        let mut child = self.start(word, stdin).await?;
        let time = Stopwatch::start();
        let mut said = CallOutput { open: 2, ..CallOutput::default() };
        // The call ends when the program has exited and its output is closed.
        let over = said.until(&mut child, time, |said| said.exit.is_some() && said.open == 0);
        let in_time = tokio::time::timeout(patience, over).await.is_ok();
        said.took = time.elapsed();
        self.sweep(&mut child, &mut said, time).await;
        self.left.lock().unwrap_or_else(PoisonError::into_inner).append(&mut said.left);
        if in_time {
            return Ok(said);
        }
        let command = self.written(word);
        Err(CaseFailure::new(format_args!(
            "`{command}` did not finish within {} s, and was killed",
            patience.as_secs_f32()
        ))
        .and(format_args!("standard output: {}", short(&String::from_utf8_lossy(&said.stdout))))
        .and(format_args!("standard error: {}", short(&String::from_utf8_lossy(&said.stderr)))))
    }

    /// Starts a stream, sends SIGTERM at its first output, and returns how long the program took to exit.
    pub(super) async fn asked_to_end(&self) -> Result<(), CaseFailure> {
        let word = if self.streams() { "stream" } else { "generate" };
        let mut child = self.start(word, Some(self.request(COUNT)?.to_string())).await?;
        let time = Stopwatch::start();
        let mut said = CallOutput { open: 2, ..CallOutput::default() };
        let begun = said.until(&mut child, time, |said| !said.stdout.is_empty() || said.exit.is_some());
        // A program without any output gets the signal after this time.
        let _ = tokio::time::timeout(Duration::from_secs(5), begun).await;
        child.control().signal(Signal::Terminate, SignalScope::Tree);
        let gone =
            tokio::time::timeout(GRACE, said.until(&mut child, time, |said| said.exit.is_some())).await;
        self.sweep(&mut child, &mut said, time).await;
        match gone {
            Ok(()) => Ok(()),
            Err(_) => Err(CaseFailure::new(format_args!(
                "the program was alive {} s after SIGTERM, and had to be killed",
                GRACE.as_secs()
            ))),
        }
    }

    /// Writes a call as a person would type it.
    pub(super) fn written(&self, word: &str) -> String {
        let program = self.plan.program.display().to_string();
        let words: Vec<&str> = std::iter::once(program.as_str())
            .chain(self.args.iter().map(String::as_str))
            .chain([word])
            .collect();
        words.join(" ")
    }

    async fn start(&self, word: &str, stdin: Option<String>) -> Result<Child, CaseFailure> {
        let mut command = process::Command::new(PathBuf::from(&self.plan.program), "bowline-certify");
        command.args = self.args.iter().map(OsString::from).chain([word.into()]).collect();
        command.env = self.env.clone();
        command.stdin = stdin.map_or(process::Stdin::Null, |text| process::Stdin::Bytes(text.into_bytes()));
        self.supervisor.spawn(command).await.map_err(|error| {
            CaseFailure::new(format_args!("`{}` could not be started: {}", self.written(word), error.kind))
        })
    }

    /// Ends the call and its processes.
    async fn sweep(&self, child: &mut Child, said: &mut CallOutput, time: Stopwatch) {
        let ended_by_itself = said.exit.is_some();
        if ended_by_itself {
            // Helper processes that notice the end of their program need a moment to exit.
            let _ = tokio::time::timeout(MOMENT, said.until(child, time, |_| false)).await;
        }
        child.control().sweep(Duration::ZERO);
        let _ = tokio::time::timeout(SWEEP, said.until(child, time, |said| said.swept)).await;
        if !ended_by_itself {
            // Processes that were killed together with the program were not left behind.
            said.left.clear();
        }
    }
}

fn built(plan: &ExecutablePlan, prompt: &str) -> Result<Invocation, CaseFailure> {
    let (config, env) = (plan.config.clone(), plan.env.clone());
    let request = Request { prompt: prompt.to_owned(), config, env, ..Request::default() };
    invocation::build(plan.manifest, &request, &Wish::default()).map_err(CaseFailure::new)
}

impl CallOutput {
    async fn until(&mut self, child: &mut Child, time: Stopwatch, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            match child.next().await {
                ChildEvent::Stdout { bytes, .. } => {
                    // Read the rest, and drop it: a full pipe would block the program in write(2).
                    let context = MOST.saturating_sub(self.stdout.len());
                    self.stdout.extend(&bytes[..bytes.len().min(context)]);
                    self.reads.push((time.elapsed(), self.stdout.len()));
                }
                ChildEvent::Stderr { bytes, .. } => {
                    let context = MOST.saturating_sub(self.stderr.len());
                    self.stderr.extend(&bytes[..bytes.len().min(context)]);
                }
                ChildEvent::StdoutClosed | ChildEvent::StderrClosed => {
                    self.open = self.open.saturating_sub(1)
                }
                ChildEvent::Exited(exit) => self.exit = Some(exit),
                ChildEvent::Swept { ended, survivors } => {
                    self.swept = true;
                    self.left = ended.into_iter().chain(survivors).collect();
                }
                ChildEvent::StdinWritten(_) | ChildEvent::StdinClosed { .. } | ChildEvent::KeeperLost => {}
            }
        }
    }

    /// Returns when the byte at this offset arrived.
    pub(super) fn when(&self, at: usize) -> Duration {
        let read = self.reads.iter().find(|(_, end)| *end > at);
        read.map_or(self.took, |(when, _)| *when)
    }
}
