//! The outside world of xtask: child processes, the environment, the clock and the path of the workspace.
//! The only place in xtask that starts a process.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A command line that can be run, and printed for a person who wants to repeat it.
#[derive(Clone, Debug)]
pub struct Call {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
}

/// The command line failed. The message has the command to repeat.
#[derive(Debug)]
pub struct Failed {
    /// What to type.
    pub repeat: String,
    /// How it ended.
    pub status: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; to repeat it: {}", self.status, self.repeat)
    }
}

impl std::error::Error for Failed {}

impl Call {
    /// Makes a call of `program`, looked for on the PATH unless it is a path.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: Vec::new() }
    }

    /// Makes a call of cargo from words without spaces inside.
    pub fn cargo(words: &str) -> Self {
        Self::new("cargo").words(words)
    }

    /// Adds words without spaces inside.
    #[must_use]
    pub fn words(mut self, words: &str) -> Self {
        self.args.extend(words.split_whitespace().map(OsString::from));
        self
    }

    /// Adds one argument, which may have spaces.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Runs it in the workspace; its output goes through.
    pub fn run(&self) -> Result<()> {
        let status = self.command().status().with_context(|| self.not_started())?;
        self.judge(status)
    }

    /// Runs it and shows each line of its standard output to `look` on the way through.
    pub fn run_watching(&self, look: impl FnMut(&str)) -> Result<()> {
        self.watch(Stream::Out, look)
    }

    /// Runs it and gives each line of its standard error to `look`, which decides whether it is shown.
    pub fn run_filtering_errors(&self, look: impl FnMut(&str)) -> Result<()> {
        self.watch(Stream::Err, look)
    }

    fn watch(&self, stream: Stream, mut look: impl FnMut(&str)) -> Result<()> {
        let mut command = self.command();
        match stream {
            Stream::Out => command.stdout(Stdio::piped()),
            Stream::Err => command.stderr(Stdio::piped()),
        };
        let mut child = command.spawn().with_context(|| self.not_started())?;
        let pipe: Box<dyn std::io::Read> = match stream {
            Stream::Out => Box::new(child.stdout.take().expect("it is piped")),
            Stream::Err => Box::new(child.stderr.take().expect("it is piped")),
        };
        for line in BufReader::new(pipe).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            if stream == Stream::Out {
                writeln!(std::io::stdout().lock(), "{line}")?;
            }
            look(&line);
        }
        self.judge(child.wait()?)
    }

    /// Runs it and returns its standard output; standard error goes through.
    pub fn output(&self) -> Result<String> {
        let output = self.command().stderr(Stdio::inherit()).output().with_context(|| self.not_started())?;
        self.judge(output.status)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it and returns the output of both streams without printing it. If it fails, the output is part of the error.
    pub fn quiet_output(&self) -> Result<String> {
        let output = self.command().output().with_context(|| self.not_started())?;
        let both = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        self.judge(output.status).with_context(|| format!("its output: {:?}", both.trim()))?;
        Ok(both)
    }

    /// Returns whether it starts and succeeds.
    pub fn works(&self) -> bool {
        self.quiet_output().is_ok()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the developer's own tools are started here and nowhere else"
    )]
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(root()).stdin(Stdio::null());
        command
    }

    fn judge(&self, status: std::process::ExitStatus) -> Result<()> {
        if !status.success() {
            bail!(Failed { repeat: self.to_string(), status: status.to_string() });
        }
        Ok(())
    }

    fn not_started(&self) -> String {
        format!("could not start `{}`", self.program.to_string_lossy())
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Stream {
    Out,
    Err,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", quoted(&value.to_string_lossy()))?;
        }
        f.write_str(&quoted(&self.program.to_string_lossy()))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(&arg.to_string_lossy())))
    }
}

/// Quotes a word for a shell where it needs it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// Returns a variable of the environment unless it is empty.
#[expect(clippy::disallowed_methods, reason = "xtask is an edge, and reads the environment here only")]
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns whether this is a run that has to be complete.
pub fn is_ci() -> bool {
    variable("CI").is_some_and(|value| value != "false" && value != "0")
}

/// Returns the folder for tools that are installed once and kept.
pub fn tools() -> Option<PathBuf> {
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")))?;
    Some(cache.join("bowline/tools"))
}

/// Installs the standard library of a target where it is missing. Returns whether it is there.
pub fn has_target(target: &str) -> Result<bool> {
    let library = Call::new("rustc").words("--print target-libdir --target").arg(target).output()?;
    Ok(Path::new(library.trim()).exists()
        || Call::new("rustup").words("target add").arg(target).run().is_ok())
}

/// Measures how long something takes.
#[derive(Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "xtask is an edge, and reads the clock here only")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_shown_as_it_would_be_typed() {
        let call = Call::cargo("doc --no-deps").arg("it's").env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(call.to_string(), r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'");
    }

    #[test]
    fn a_failure_says_how_to_repeat_it() {
        let error = Call::cargo("no-such-command-here").quiet_output().expect_err("there is none");
        let failed = error.downcast_ref::<Failed>().expect("it was started");
        assert_eq!(failed.repeat, "cargo no-such-command-here");
    }
}
