//! Codex's standard error: why it could not start, its log, and, in plain text mode, the whole transcript.
//!
//! Of the transcript only the banner, the errors and the sum of tokens are read. The rest holds the output of commands,
//! which may look like anything.

use std::sync::LazyLock;

use bowline_protocol::kinds::{Level, Notice, SessionStarted};
use bowline_protocol::{Excerpt, Kind, NativeSessionId};
use regex::Regex;

use super::failures;
use crate::ansi;
use crate::dialect::Output;

/// How much of a fatal error is kept.
const LONGEST: usize = 8 * 1024;

/// Standard error so far.
#[derive(Debug, Default)]
pub(super) struct CodexStderr {
    place: StderrPlace,
    session: SessionStarted,
    /// Why the program could not go on.
    fatal: String,
    /// The last error of the transcript.
    error: Option<String>,
    tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StderrPlace {
    /// Nothing but the log and fatal errors so far.
    #[default]
    Before,
    /// The name of the program was printed.
    Title,
    /// Between the two rules of the banner.
    Banner,
    Transcript,
    /// The next line is the sum of tokens.
    Tokens,
}

/// The meaning of a line for the turn.
#[derive(Debug)]
pub(super) enum StderrReport {
    Nothing,
    /// A request is tried again.
    Retry(bowline_protocol::kinds::Retrying),
}

impl CodexStderr {
    /// Returns whether the banner was printed, and with it the work began.
    pub(super) fn has_begun(&self) -> bool {
        matches!(self.place, StderrPlace::Transcript | StderrPlace::Tokens)
    }

    /// Handles a line.
    pub(super) fn line(&mut self, line: &str, out: &mut Output<'_>) -> StderrReport {
        let plain = ansi::strip(line);
        let line = plain.trim_end();
        // The log is mixed into every part of standard error, so it is sorted out before the place matters.
        if is_log(line) {
            log(line, out);
            return StderrReport::Nothing;
        }
        match self.place {
            StderrPlace::Before => self.before(line),
            StderrPlace::Title => {
                self.place = if is_rule(line) { StderrPlace::Banner } else { StderrPlace::Transcript }
            }
            StderrPlace::Banner if is_rule(line) => {
                self.place = StderrPlace::Transcript;
                out.emit(Kind::SessionStarted(std::mem::take(&mut self.session)));
            }
            StderrPlace::Banner => self.setting(line),
            StderrPlace::Transcript => return self.transcript(line),
            StderrPlace::Tokens => {
                self.place = StderrPlace::Transcript;
                // The number may have separators of thousands.
                self.tokens = line.replace([',', '.', ' ', '\u{202f}'], "").parse().ok().or(self.tokens);
            }
        }
        StderrReport::Nothing
    }

    fn before(&mut self, line: &str) {
        if let Some(version) = line.strip_prefix("OpenAI Codex v") {
            // Older versions add "(research preview)".
            self.session.version = version.split_whitespace().next().map(str::to_owned);
            self.place = StderrPlace::Title;
        } else if !(line.starts_with("Reading ") && line.ends_with(" from stdin...")) {
            self.keep(line);
        }
    }

    fn setting(&mut self, line: &str) {
        let Some((key, value)) = line.split_once(": ") else { return };
        let value = value.trim().to_owned();
        match key.trim() {
            "workdir" => self.session.cwd = Some(value),
            "model" => self.session.model = Some(value),
            "approval" => self.session.permission_mode = Some(value),
            "session id" => self.session.native_session = Some(NativeSessionId::from(value)),
            _ => {}
        }
    }

    fn transcript(&mut self, line: &str) -> StderrReport {
        if let Some(error) = line.strip_prefix("ERROR: ") {
            if let Some(retrying) = failures::retrying(error) {
                return StderrReport::Retry(retrying);
            }
            self.error = Some(Excerpt::with_limit(error, LONGEST).text);
        } else if line == "tokens used" {
            self.place = StderrPlace::Tokens;
        // Only these: any other line of the transcript may be output of a command.
        } else if line.starts_with("Error: ") || line.contains("panicked at ") {
            self.keep(line);
        }
        StderrReport::Nothing
    }

    fn keep(&mut self, line: &str) {
        if self.fatal.len() + line.len() < LONGEST && !(line.is_empty() && self.fatal.is_empty()) {
            self.fatal.push_str(line);
            self.fatal.push('\n');
        }
    }

    /// Returns why the program could not continue, if it reported that.
    pub(super) fn reason(&self) -> Option<&str> {
        Some(self.fatal.trim()).filter(|fatal| !fatal.is_empty()).or(self.error.as_deref())
    }

    /// Handles the end.
    pub(super) fn end(&mut self, out: &mut Output<'_>) {
        if let Some(tokens) = self.tokens.take() {
            // One sum of input without cache and output: too little for a report of usage.
            let text = format!("tokens used: {tokens}");
            out.emit(Kind::Notice(Notice { level: Level::Info, text, code: Some("tokens_used".to_owned()) }));
        }
    }
}

fn is_rule(line: &str) -> bool {
    line.len() >= 4 && line.bytes().all(|byte| byte == b'-')
}

fn is_log(line: &str) -> bool {
    static LOG: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z?\s+(?:ERROR|WARN|INFO|DEBUG|TRACE)\s")
            .expect("a valid regex")
    });
    LOG.is_match(line)
}

/// Handles a line of the log. Refused actions have no item and are only here.
fn log(line: &str, out: &mut Output<'_>) {
    if let Some((_, refused)) = line.split_once("codex_core::tools::router: error=") {
        let text = Excerpt::with_limit(refused, 4096).text;
        out.emit(Kind::Notice(Notice { level: Level::Warn, text, code: Some("tool_refused".to_owned()) }));
    }
}
