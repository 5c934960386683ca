//! Shared by the tests: starts the agent, and reads its output.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bowline_protocol::{Event, Exit, Kind, SessionId, Timestamp};
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::moment::Moment;
use bowline_providers::{catalogue, dialects, views};
use serde_json::Value;

/// The name of the agent.
pub(crate) const PROVIDER: &str = "practice";

/// The formats that print lines of JSON.
pub(crate) const LINES: &[&str] = &["stream-json", "codex", "gemini", "pi"];

/// All formats.
pub(crate) const FORMATS: &[&str] = &["stream-json", "json", "text", "codex", "gemini", "pi"];

/// The time limit of every step.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A run of the agent, in a directory of its own.
pub(crate) struct Agent {
    folder: Arc<tempfile::TempDir>,
    format: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    stdin: Vec<u8>,
}

impl Agent {
    /// An agent with this prompt, without pauses.
    pub(crate) fn told(prompt: &str) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a directory"));
        let home = folder.path().join("home").display().to_string();
        Self {
            folder,
            format: "stream-json".to_owned(),
            args: vec!["--pace".to_owned(), "0".to_owned()],
            env: vec![("PRACTICE_HOME".to_owned(), home)],
            stdin: prompt.as_bytes().to_vec(),
        }
    }

    /// An agent that plays these directives, one on each line.
    pub(crate) fn plays(directives: &str) -> Self {
        let lines: Vec<String> = directives.lines().map(|line| format!("practice: {line}")).collect();
        Self::told(&lines.join("\n"))
    }

    pub(crate) fn format(mut self, format: &str) -> Self {
        format.clone_into(&mut self.format);
        self
    }

    pub(crate) fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.args.extend(args.map(str::to_owned));
        self
    }

    /// Another run in the same directory.
    pub(crate) fn again(&self) -> Self {
        let (format, args, env) = (self.format.clone(), self.args.clone(), self.env.clone());
        Self { folder: Arc::clone(&self.folder), format, args, env, stdin: self.stdin.clone() }
    }

    /// Uses these arguments and no others.
    pub(crate) fn only(mut self, args: &[String]) -> Self {
        self.format.clear();
        self.args = args.to_vec();
        self
    }

    /// Leaves the pace to the environment.
    pub(crate) fn without_pace(mut self) -> Self {
        self.args.drain(..2);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = bytes;
        self
    }

    /// Puts a file into its directory.
    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.path(name), text).expect("a file");
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file is there")
    }

    /// Starts its process, with pipes.
    #[expect(clippy::disallowed_methods, reason = "the agent under test is started here, and only here")]
    pub(crate) fn spawn(&self) -> Child {
        let format = ["--format".to_owned(), self.format.clone()];
        Command::new(env!("CARGO_BIN_EXE_practice-agent"))
            .args(format.iter().filter(|_| !self.format.is_empty()))
            .args(&self.args)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(self.env.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the agent starts")
    }

    /// Starts it, and writes the prompt.
    pub(crate) fn start(&self) -> Started {
        let mut child = self.spawn();
        let mut stdin = child.stdin.take().expect("piped");
        let bytes = self.stdin.clone();
        let written = std::thread::spawn(move || stdin.write_all(&bytes).is_ok());
        let paused = Arc::new(AtomicBool::new(false));
        let stdout = collect(child.stdout.take().expect("piped"), Arc::clone(&paused));
        let stderr = collect(child.stderr.take().expect("piped"), Arc::default());
        let (seen, warned, format) = (Vec::new(), Vec::new(), self.format.clone());
        let folder = Arc::clone(&self.folder);
        Started { child, stdout, stderr, written, seen, warned, format, paused, _folder: folder }
    }

    /// Runs it to its end.
    pub(crate) fn run(&self) -> Ran {
        self.start().finish()
    }
}

/// Reads a pipe on a thread of its own. The channel ends when the pipe does.
pub(crate) fn collect(
    mut pipe: impl Read + Send + 'static,
    paused: Arc<AtomicBool>,
) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                break;
            }
            while paused.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
    receiver
}

/// A running agent.
pub(crate) struct Started {
    child: Child,
    stdout: mpsc::Receiver<Vec<u8>>,
    stderr: mpsc::Receiver<Vec<u8>>,
    written: std::thread::JoinHandle<bool>,
    seen: Vec<u8>,
    warned: Vec<u8>,
    format: String,
    paused: Arc<AtomicBool>,
    /// It works there, so the directory must not be removed before its end.
    _folder: Arc<tempfile::TempDir>,
}

impl Started {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until its standard output has this text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let deadline = now() + PATIENCE;
        while !String::from_utf8_lossy(&self.seen).contains(text) {
            let left = deadline.saturating_duration_since(now());
            match self.stdout.recv_timeout(left) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(error) => {
                    panic!("no {text:?} ({error}) in {}", String::from_utf8_lossy(&self.seen))
                }
            }
        }
    }

    /// Waits until its standard error has this text.
    pub(crate) fn wait_for_stderr(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.warned).contains(text) {
            self.warned.extend(self.stderr.recv_timeout(PATIENCE).expect("it says more"));
        }
    }

    /// Keeps its standard output open and reads no more of it.
    pub(crate) fn stop_reading(&self) {
        self.paused.store(true, Ordering::SeqCst);
    }

    /// Waits for the end of its standard output, while the process may still live.
    pub(crate) fn wait_for_eof(&mut self) {
        loop {
            match self.stdout.recv_timeout(PATIENCE) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("standard output stays open"),
            }
        }
    }

    /// Returns whether a process holds its standard output open. The output is kept.
    pub(crate) fn is_open(&mut self) -> bool {
        loop {
            match self.stdout.recv_timeout(Duration::from_millis(200)) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(error) => return error == mpsc::RecvTimeoutError::Timeout,
            }
        }
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).expect("a pid")).expect("a pid");
        let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
        rustix::process::kill_process(pid, signal).expect("it is there");
    }

    /// Stops reading its standard output, so that the pipe breaks.
    pub(crate) fn leave(&mut self) {
        self.stdout = mpsc::channel().1;
    }

    /// Waits for the process, not for its pipes: a child may hold them.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status;
            }
            if now() > deadline {
                self.child.kill().expect("it can be killed");
                panic!("the agent does not end; it said {}", String::from_utf8_lossy(&self.seen));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end and that of its pipes.
    pub(crate) fn finish(mut self) -> Ran {
        let status = self.wait();
        self.wait_for_eof();
        let mut stderr = self.warned;
        while let Ok(bytes) = self.stderr.recv_timeout(PATIENCE) {
            stderr.extend(bytes);
        }
        let exit = match std::os::unix::process::ExitStatusExt::signal(&status) {
            Some(signal) => Exit::Signal(signal),
            None => Exit::Code(status.code().expect("a code")),
        };
        Ran {
            stdout: self.seen,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            exit,
            all_written: self.written.join().expect("the writer ends"),
            format: self.format,
        }
    }
}

/// The result of a run.
pub(crate) struct Ran {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) exit: Exit,
    /// Whether the whole prompt was read.
    pub(crate) all_written: bool,
    format: String,
}

impl Ran {
    pub(crate) fn events(&self) -> Vec<Event> {
        let manifest = catalogue::by_name(PROVIDER).expect("it is on the list");
        let name = if self.format.is_empty() { &manifest.default_format } else { &self.format };
        let format = &manifest.formats[name];
        let entry = dialects::by_name(&format.dialect).expect("a dialect of the list");
        let mut decoder = Decoder::of_shape(entry, format.shape);
        if let Some(vocabulary) = catalogue::vocabulary(entry.name) {
            decoder = decoder.watching(vocabulary);
        }
        let now = Moment::utc("2026-11-15T08:00:00Z".parse::<Timestamp>().expect("a time"));
        let mut drafts = Vec::new();
        for chunk in self.stdout.chunks(64 * 1024) {
            decoder.stdout(chunk, &now, &mut drafts);
        }
        decoder.stderr(self.stderr.as_bytes(), &now, &mut drafts);
        decoder.finish(&End { exit: Some(self.exit), cause: Cause::Exited }, &now, &mut drafts);
        let mut stamp = Stamp::new(SessionId::from("s"));
        drafts.into_iter().map(|draft| stamp.stamp(draft, now.at)).collect()
    }

    pub(crate) fn summary(&self) -> Value {
        let setup = views::Setup { provider: Some(PROVIDER.to_owned()), ours: false };
        let mut view = (views::by_name("summary").expect("a view").make)(&setup);
        let mut text = String::new();
        for event in self.events() {
            view.event(&event, &mut text);
        }
        view.finish(&mut text);
        serde_json::from_str(&text).expect("one object")
    }

    /// The heads of the lines that our decoder does not know.
    pub(crate) fn unrecognized(&self) -> Vec<String> {
        let head = |event: &Event| {
            if let Kind::Unrecognized(what) = &event.kind { Some(what.head.text.clone()) } else { None }
        };
        self.events().iter().filter_map(head).collect()
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.events().iter().map(|event| event.kind.type_name().to_owned()).collect()
    }

    pub(crate) fn text(&self) -> String {
        self.summary()["text"].as_str().expect("a text").to_owned()
    }

    pub(crate) fn outcome(&self) -> String {
        self.summary()["outcome"].as_str().unwrap_or("none").to_owned()
    }
}

/// The clock, for time limits only.
#[expect(clippy::disallowed_methods, reason = "tests wait for conditions, and not for ever")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lists the living processes whose environment has this marker, by number. Zombies are dead.
pub(crate) fn marked(marker: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("there is /proc").filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let has = environ.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes());
        if has && !is_zombie(&entry.path()) {
            found.push(pid);
        }
    }
    found
}

fn is_zombie(process: &Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}
