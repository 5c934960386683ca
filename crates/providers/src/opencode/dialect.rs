//! `opencode`: the steps of a run, and how it ends.

use bowline_protocol::kinds::{
    Level, Phase, SessionStarted, StopReason, TurnOrigin, TurnStarted, UnrecognizedReason, UsageReported,
};
use bowline_protocol::{Basis, Category, Code, Excerpt, Exit, Kind, Millis, NativeSessionId, UsageSource};

use super::messages::Parts;
use super::stderr::OpencodeStderr;
use super::wire::{Error, OpencodeLine, OpencodePart};
use crate::decode::{Cause, End};
use crate::dialect::Output;
use crate::dialects::api_error::{self, Retry};
use crate::dialects::shaped::ShapedDialect;
use crate::failure::Report;
use crate::{lenient, usage};

/// The types of its lines.
const TYPES: [&str; 7] = ["text", "reasoning", "tool_use", "step_start", "step_finish", "error", "done"];

/// Reads the output of opencode.
#[derive(Debug, Default)]
pub(crate) struct Opencode {
    session: Option<String>,
    parts: Parts,
    stderr: OpencodeStderr,
    /// Whether the turn was reported. There is one.
    begun: bool,
    /// The step that runs: its message, and how often it was begun.
    step: Option<(String, u32)>,
    /// The last error, and whether an answer was completed after it.
    error: Option<OpencodeProblem>,
    overcome: bool,
}

/// The meaning of an error.
#[derive(Debug)]
enum OpencodeProblem {
    Failed(Report),
    Aborted,
}

impl ShapedDialect for Opencode {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        lenient::each_borrowed(line, out, |text, out| {
            serde_json::from_str::<OpencodeLine<'_>>(text)
                .map(|object| self.object(text, &object, out))
                .is_ok()
        });
    }

    fn document(&mut self, document: &str, out: &mut Output<'_>) {
        self.line(document, out);
    }

    fn stderr(&mut self, line: &str, out: &mut Output<'_>) {
        self.stderr.line(line, out);
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        // On SIGTERM and SIGINT 1.18.33 dies by the signal without a closing line: the caller knows why it stopped it.
        if end.cause != Cause::Exited {
            return;
        }
        // Errors are printed as they occur, some of them twice; whether they were the end shows here.
        let well = end.exit.is_none_or(Exit::is_success) && self.overcome;
        match self.error.take() {
            Some(OpencodeProblem::Failed(report)) if !well => out.failed(&self.stderr.explain(report)),
            Some(OpencodeProblem::Aborted) if !well => out.cancelled(),
            Some(_) | None => {}
        }
    }
}

impl Opencode {
    fn object(&mut self, raw: &str, line: &OpencodeLine<'_>, out: &mut Output<'_>) {
        // First the type: a line that is not known changes nothing, and output without a known line must not count as understood.
        let name = line.type_name.str();
        if !TYPES.contains(&name) {
            let name = Some(name).filter(|name| !name.is_empty());
            return out.unrecognized(UnrecognizedReason::UnknownType, raw, name);
        }
        out.quiet();
        // There is no `init` line: each line has the session's id, and the first one comes after the model's first answer.
        self.session(line, out);
        let part = &line.part.0;
        out.overcome();
        match name {
            "text" => self.parts.text(part, out),
            "reasoning" => self.parts.reasoning(part, out),
            "tool_use" => self.parts.tool(part, out),
            "step_start" => self.step_start(part, out),
            "step_finish" => self.step_finish(part, out),
            "error" => self.error(&line.error.0, out),
            // Newer versions report with `done` that the session is idle. Denials are on stderr, the outcome is the exit code.
            _ => {}
        }
    }

    fn session(&mut self, line: &OpencodeLine<'_>, out: &mut Output<'_>) {
        let Some(id) = line.session_id.text().filter(|id| self.session.as_deref() != Some(*id)) else {
            return;
        };
        self.session = Some(id.to_owned());
        let native_session = Some(NativeSessionId::from(id));
        out.emit(Kind::SessionStarted(SessionStarted { native_session, ..SessionStarted::default() }));
    }

    fn step_start(&mut self, part: &OpencodePart<'_>, out: &mut Output<'_>) {
        // 1.18.33 prints nothing else while it retries: 31 s after a 429, 66 s without a connection, 78 s after a 500.
        let message = part.message_id.str();
        if let Some((_, begun)) = self.step.as_mut().filter(|(running, _)| running == message) {
            // The same step once more: the request broke and is sent again. No other line reports it.
            *begun += 1;
            let attempt = Some(begun.saturating_sub(1));
            let retry = Retry { attempt, message: "the step started again", ..Retry::default() };
            return retry.emit(out);
        }
        if !std::mem::replace(&mut self.begun, true) {
            out.emit(Kind::TurnStarted(TurnStarted { origin: TurnOrigin::Prompt, native_turn: None }));
        }
        self.step = Some((message.to_owned(), 1));
        self.parts.step(message, out);
    }

    fn step_finish(&mut self, part: &OpencodePart<'_>, out: &mut Output<'_>) {
        self.step = None;
        // The text of a step that ended in tools only announces them.
        let on_the_way = part.reason.str() == "tool-calls";
        let phase = if on_the_way { Phase::Commentary } else { Phase::Final };
        let message = self.parts.finish(phase, out);
        if let Some(usage) = part.tokens.and_then(usage::read_raw) {
            out.emit(Kind::UsageReported(UsageReported {
                usage,
                basis: Basis::PerCall,
                source: UsageSource::Reported,
                cost_usd: part.cost.number(),
                model: None,
                message,
            }));
        }
        let stop = match part.reason.str() {
            // The results of the tools go to the model, which continues.
            "tool-calls" => return out.incomplete_at_eof(),
            "length" => Some(StopReason::MaxTokens),
            "content-filter" => Some(StopReason::Refusal),
            "stop" => Some(StopReason::EndTurn),
            _ => None,
        };
        self.overcome = true;
        // There is no result line: the end of the output and the exit code finish the turn (1.18.33).
        out.complete_at_eof(stop);
    }

    fn error(&mut self, error: &Error<'_>, out: &mut Output<'_>) {
        let name = error.name.str();
        let data = &error.data.0;
        let message = data.message.text().or(error.message.text()).unwrap_or(name);
        let message = if message.is_empty() { "the program reported an error" } else { message };
        self.overcome = false;
        if name == "MessageAbortedError" {
            self.error = Some(OpencodeProblem::Aborted);
            return;
        }
        // 1.18.33 prints an exceeded context twice.
        let again = matches!(&self.error, Some(OpencodeProblem::Failed(report)) if report.message == message);
        if !again {
            out.notice(Level::Error, Excerpt::with_limit(message, 4096).text);
        }
        let (category, code) = meaning(name, message);
        self.error = Some(OpencodeProblem::Failed(Report {
            message: message.to_owned(),
            category,
            code: code.or_else(|| data.response_body.text().and_then(api_error::code)),
            status: data.status_code.small().and_then(|status| u16::try_from(status).ok()),
            retry_after: retry_after(error),
            ..Report::default()
        }));
    }
}

/// Returns the meaning of an error's name.
fn meaning(name: &str, message: &str) -> (Option<Category>, Option<Code>) {
    match name {
        "ContextOverflowError" => (None, Some(Code::ContextOverflow)),
        "MessageOutputLengthError" => (None, Some(Code::MaxOutput)),
        "ProviderAuthError" => (Some(Category::Authentication), None),
        "ContentFilterError" => (None, Some(Code::Refused)),
        // The server is the program's own, and its error may be anything: an unknown model, a missing key. The cause
        // is in the program's log, and on stderr with `--print-logs`.
        "UnknownError" if message.starts_with("Unexpected server error") => (Some(Category::Unknown), None),
        _ => (None, None),
    }
}

fn retry_after(error: &Error<'_>) -> Option<Millis> {
    let headers = &error.data.0.response_headers.0;
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| (0.0..1e9).contains(number));
    let millis = headers.retry_after_ms.text().and_then(number);
    let seconds = || headers.retry_after.text().and_then(number).map(|seconds| seconds * 1000.0);
    millis.or_else(seconds).map(|millis| Millis(millis.ceil() as u64))
}
