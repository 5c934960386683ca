//! `copilot`: one JSON event a line, and the verdict.
//!
//! Every failed call of the model has a line (`model.call_failure`). The next one is the retry (`assistant.turn_retry`)
//! or the reason why the program gives up (`session.error`). The last line is the result with the exit code.

use std::borrow::Cow;

use bowline_protocol::kinds::{Level, Notice, StopReason, UnrecognizedReason};
use bowline_protocol::{Category, Code, Excerpt, Kind};

use super::messages::CopilotMessages;
use super::session::Session;
use super::tools::CopilotTools;
use super::usage::Figures;
use super::wire::{CopilotData, CopilotLine};
use crate::decode::{Cause, End};
use crate::dialect::Output;
use crate::dialects::api_error::{self, Retry};
use crate::dialects::shaped::ShapedDialect;
use crate::failure::Report;
use crate::lenient;

/// Reads the output of Copilot CLI.
#[derive(Debug, Default)]
pub(crate) struct Copilot {
    speech: CopilotMessages,
    work: CopilotTools,
    session: Session,
    figures: Figures,
    /// The last call of the model that failed, and which attempt it was.
    failed_call: Option<(Report, u32)>,
    /// Whether the retry of it was reported.
    retry_told: bool,
    /// Why the program gives up.
    error: Option<Report>,
    aborted: bool,
}

impl ShapedDialect for Copilot {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        lenient::each_borrowed(line, out, |text, out| {
            serde_json::from_str::<CopilotLine<'_>>(text)
                .map(|object| self.object(text, &object, out))
                .is_ok()
        });
    }

    fn document(&mut self, document: &str, out: &mut Output<'_>) {
        self.line(document, out);
    }

    fn text_line<'a>(&mut self, line: &'a str, out: &mut Output<'_>) -> Option<Cow<'a, str>> {
        // In text mode 1.0.102 prints its retry notices on stdout, among the answer.
        (!Figures::retry_notice(line, out)).then_some(Cow::Borrowed(line))
    }

    fn stderr(&mut self, line: &str, out: &mut Output<'_>) {
        self.figures.stderr(line, out);
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        self.figures.end(out);
        if end.cause != Cause::Exited {
            return;
        }
        // The result has not come, or has taken these.
        if std::mem::take(&mut self.aborted) {
            out.cancelled();
        } else if let Some(report) = self.error.take() {
            out.failed(&report);
        }
    }
}

impl Copilot {
    fn object(&mut self, raw: &str, line: &CopilotLine<'_>, out: &mut Output<'_>) {
        let data = &line.data.0;
        match line.type_name.str() {
            "assistant.message_delta" => {
                out.overcome();
                self.speech.delta(data, self.work.parent(line).as_ref(), out);
            }
            "assistant.reasoning_delta" => self.speech.thought(data, self.work.parent(line).as_ref(), out),
            "assistant.reasoning" => self.speech.whole_thought(data, self.work.parent(line).as_ref(), out),
            "assistant.message" => {
                out.overcome();
                // It went on after all.
                self.error = None;
                self.speech.message(data, self.work.parent(line).as_ref(), out);
            }
            "user.message" => self.speech.user(data, self.work.parent(line).as_ref(), out),
            "model.call_start" => {
                self.retry_told = false;
                self.speech.call();
            }
            "model.call_failure" => self.call_failed(data),
            "assistant.turn_retry" => self.retried(data, out),
            "session.info" if data.info_type.text() == Some("model_retry") => self.retried(data, out),
            "session.error" => self.failed(data, out),
            "abort" => self.aborted = true,
            "session.idle" => self.aborted |= data.aborted.truth() == Some(true),
            "result" => self.result(line, out),
            _ if self.work.take(line, out) || self.session.take(line, out) => {}
            other => {
                let name = Some(other).filter(|name| !name.is_empty());
                return out.unrecognized(UnrecognizedReason::UnknownType, raw, name);
            }
        }
        // Last: output of which no line is known must not count as understood.
        out.quiet();
    }

    fn call_failed(&mut self, data: &CopilotData<'_>) {
        let message = data.error_message.str();
        let report = Report {
            status: status(data),
            code: api_error::code(message),
            ..Report::of(Excerpt::with_limit(&api_error::words(message), 4096).text)
        };
        // Kept, because neither the retry nor the final error repeats all of it.
        self.failed_call = Some((report, data.retry_attempt.small().unwrap_or(0)));
    }

    /// Handles the report that a failed call is made again. Its text will be repeated under another id.
    fn retried(&mut self, data: &CopilotData<'_>, out: &mut Output<'_>) {
        // `assistant.turn_retry` and `session.info` announce the same retry.
        if std::mem::replace(&mut self.retry_told, true) {
            return;
        }
        let (report, attempt) = self.failed_call.take().unzip();
        let words = data.message.text().or(data.reason.text()).unwrap_or_default();
        let message = report.as_ref().map_or(words, |report| report.message.as_str());
        let attempt = attempt.map(|attempt| attempt.saturating_add(1));
        let retry = Retry { attempt, report: report.as_ref(), message, ..Retry::default() };
        retry.emit(out);
        self.speech.retract(out);
    }

    fn failed(&mut self, data: &CopilotData<'_>, out: &mut Output<'_>) {
        let message = data.message.text().unwrap_or("the program reported an error");
        // 1.0.102 reports a spent quota as `rate_limit`: the word alone would make the run retry in vain.
        let (category, code) = meaning(data.error_type.str());
        let text = Excerpt::with_limit(message, 4096).text;
        let notice = Notice { level: Level::Error, text, code: data.error_type.string() };
        out.emit(Kind::Notice(notice));
        let failed_call = self.failed_call.take().map(|(report, _)| report).unwrap_or_default();
        self.error = Some(Report {
            message: message.to_owned(),
            category,
            code: code.or(failed_call.code),
            status: status(data).or(failed_call.status),
            ..Report::default()
        });
    }

    fn result(&mut self, line: &CopilotLine<'_>, out: &mut Output<'_>) {
        // The result is often the only line with the session's id.
        self.session.named(&line.session_id, out);
        self.work.changes(&line.usage.0.code_changes.0, out);
        let (aborted, error) = (std::mem::take(&mut self.aborted), self.error.take());
        match (line.exit_code.number(), error) {
            _ if aborted => out.cancelled(),
            // Whatever the exit code: the program reported why it gave up, and nothing after that.
            (_, Some(report)) => out.failed(&report),
            (Some(0.0), None) => out.completed(Some(StopReason::EndTurn)),
            // An interrupted program reports it like this.
            (Some(130.0), None) => out.cancelled(),
            (Some(code), None) => out.failed(&Report::of(format!("the program reported exit code {code}"))),
            (None, None) => out.failed(&Report::of("the program reported no exit code")),
        }
    }
}

fn status(data: &CopilotData<'_>) -> Option<u16> {
    data.status_code.small().and_then(|status| u16::try_from(status).ok())
}

/// Returns what the program's own word for an error says. `rate_limit` is also said of a spent quota, and `query` of
/// anything: there the status and the words decide.
fn meaning(error_type: &str) -> (Option<Category>, Option<Code>) {
    match error_type {
        "authentication" => (Some(Category::Authentication), None),
        "authorization" => (None, Some(Code::Forbidden)),
        "quota" => (Some(Category::Quota), None),
        "context_limit" => (None, Some(Code::ContextOverflow)),
        _ => (None, None),
    }
}
