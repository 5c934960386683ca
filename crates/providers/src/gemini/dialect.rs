//! `gemini`: the output of Gemini CLI, whatever the shape.
//!
//! The text comes in pieces and is never repeated. A run ends with a `result` line; exit code 0 without one means
//! that it was stopped. Errors of the API have no useful class on standard output: their text decides, the
//! class that standard error names, and the status in the exit code. The end of such a turn waits for them.

use std::borrow::Cow;

use bowline_protocol::kinds::{
    Level, MessageFinished, Notice, Phase, SessionStarted, StopReason, UsageReported, UserOrigin,
};
use bowline_protocol::{Basis, Excerpt, Exit, Kind, MessageId, NativeSessionId, RawSpan, UsageSource};
use serde_json::{Map, Value};

use super::failures;
use super::failures::retries::Retries;
use super::messages::{ThoughtPart, Thoughts};
use super::tools::GeminiTools;
use super::wire::{self, GeminiLine, GeminiUsage};
use crate::decode::{Cause, End};
use crate::dialect::{Dialect, Input, Output};
use crate::dialects::content;
use crate::dialects::shaped::ShapedDialect;
use crate::dialects::stream_json::Documented;
use crate::dialects::text_dedup::MessageNames;
use crate::failure::Report;
use crate::{ansi, lenient};

/// Reads Gemini CLI.
#[derive(Debug, Default)]
pub(crate) struct Gemini {
    /// For the forms of the adapter protocol, which this program does not print but others in its name do.
    generic: Documented,
    messages: MessageNames,
    thoughts: Thoughts,
    /// Where the message is: what sort of block, and its number.
    block: Option<(ThoughtPart, u32)>,
    work: GeminiTools,
    retries: Retries,
    /// The message of the last `error` line.
    error: Option<String>,
    /// Why the model stopped, if not by itself.
    cut: Cut,
    /// A reported failure that waits for the details on standard error and in the exit code, and its place.
    pending: Option<(Report, Option<RawSpan>)>,
    /// Whether a complete document was read.
    document: bool,
}

/// The reason that cut the model's answer short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cut {
    #[default]
    Nothing,
    Loop,
    Turns,
}

impl ShapedDialect for Gemini {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        // A failure waits for details on standard error, but not beyond the next line: events keep their order.
        if self.pending.is_some() && !lenient::is_blank(line) {
            self.told(None, out);
        }
        if let Some(text) = wire::piece(line) {
            return self.say(&text, out);
        }
        let mut place = 0;
        let mut foreign = false;
        lenient::each_object(line, out, |object: GeminiLine, out| {
            let known = self.object(&object, out);
            if !known && place == 0 {
                foreign = true;
            }
            place += 1;
        });
        if !foreign {
            return;
        }
        match lenient::value(line) {
            // The object of the JSON format on one line.
            Some(Value::Object(object)) if is_whole(&object) => self.whole(&object, out),
            _ => self.generic.0.handle(Input::Line(line), out),
        }
    }

    fn document(&mut self, document: &str, out: &mut Output<'_>) {
        match lenient::value(document) {
            Some(Value::Object(object)) => self.whole(&object, out),
            // No version prints an array; what the adapter protocol makes of one is its blocks.
            Some(array) => {
                out.quiet();
                self.say(&content::blocks(&array).unwrap_or_default(), out);
                self.document = true;
            }
            None => out.noise(document),
        }
    }

    fn text_line<'a>(&mut self, line: &'a str, out: &mut Output<'_>) -> Option<Cow<'a, str>> {
        if self.thoughts.are_over() {
            return Some(Cow::Borrowed(line));
        }
        // A message of its own: that of the text has only text.
        let thought = MessageId::from("thought");
        let mut answer = None;
        let mut take = |sort: ThoughtPart, part: &str| match sort {
            ThoughtPart::Text => answer = Some(Cow::Owned(part.to_owned())),
            ThoughtPart::Thinking => out.thinking(&thought, 0, part, None),
        };
        self.thoughts.split(&ansi::strip(line), &mut take);
        self.thoughts.finish(&mut take);
        out.quiet();
        if self.thoughts.are_open() {
            out.thinking(&thought, 0, "\n", None);
        }
        answer
    }

    fn text_was_error(&mut self, tail: &str, end: &End) -> Option<Report> {
        // 0.61.0 prints the error in place of the answer in text mode, and a 401 exits with 1.
        let text = ansi::strip(tail);
        let text = text.trim();
        let is_error = text.starts_with("[API Error: ") && text.ends_with(']');
        is_error.then(|| {
            let mut report = failures::report(text);
            if let Some(Exit::Code(code)) = end.exit {
                failures::by_exit(code, &mut report);
            }
            report
        })
    }

    fn stderr(&mut self, line: &str, out: &mut Output<'_>) {
        self.retries.stderr(&ansi::strip(line), out);
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        self.say_rest(out);
        // The `result` line has judged the turn. Its exit code and stderr cannot change that.
        if !out.awaits_verdict() {
            return;
        }
        if self.pending.is_some() {
            return self.told(end.exit, out);
        }
        match end.cause {
            Cause::Cancelled => return,
            _ if out.gave_up(end) => return,
            // 0.61.0 retries a 429 and a refused connection for more than 130 s with nothing on stdout: stderr has the reason.
            Cause::TimedOut => return out.failed(&failures::timed_out(&failures::words_of(out.stderr))),
            Cause::Exited => {}
        }
        match end.exit {
            // Not a success by itself: 0.61.0 exits with 0 when SIGTERM or SIGINT stops it, without a `result`.
            None | Some(Exit::Code(0)) => self.ended_well(out),
            Some(Exit::Code(code)) => Self::ended_badly(code, out),
            // Ctrl-C is the account's to judge.
            Some(Exit::Signal(2)) => {}
            Some(Exit::Signal(signal)) => {
                let report = match failures::words_of(out.stderr).as_str() {
                    "" => Report::of(format!("ended by signal {signal}")),
                    said => failures::report(said),
                };
                out.failed(&report.settled("", end.exit));
            }
        }
    }
}

impl Gemini {
    /// Handles a line of one of the program's own types. Returns `false` for any other.
    fn object(&mut self, line: &GeminiLine, out: &mut Output<'_>) -> bool {
        // No version continues after a failure; one that does has ended its turn.
        self.told(None, out);
        match line.type_name.as_str() {
            // `model` is `auto` unless `-m` was given: the router chooses for each turn.
            Some("init") => out.emit(Kind::SessionStarted(SessionStarted {
                native_session: line.session_id.as_str().map(NativeSessionId::from),
                model: line.model.as_str().map(str::to_owned),
                ..SessionStarted::default()
            })),
            Some("message") => return self.message(line, out),
            Some("tool_use") => {
                self.end_message(out);
                self.work.started(line, out);
            }
            Some("tool_result") => self.work.finished(line, out),
            Some("error") if line.severity.is_string() => self.error(line, out),
            Some("result") if line.status.is_string() => self.result(line, out),
            _ => return false,
        }
        true
    }

    fn message(&mut self, line: &GeminiLine, out: &mut Output<'_>) -> bool {
        let text = content::text_of(&line.content).unwrap_or_default();
        match line.role.as_str() {
            Some("user") => {
                out.user(UserOrigin::Replayed, &text, None);
            }
            Some("assistant") if line.delta.as_bool() == Some(true) => self.say(&text, out),
            // Without `delta` it is a message of its own, and an adapter that prints those prints no result.
            Some("assistant") => {
                self.end_message(out);
                self.say(&text, out);
                self.end_message(out);
                out.complete_at_eof(None);
            }
            Some(_) | None => return false,
        }
        true
    }

    /// Emits a piece of the current message.
    fn say(&mut self, text: &str, out: &mut Output<'_>) {
        out.quiet();
        let message = self.messages.current();
        let block = &mut self.block;
        self.thoughts.split(text, |sort, part| part_of(&message, block, sort, part, out));
    }

    /// Emits the held back part of the current message.
    fn say_rest(&mut self, out: &mut Output<'_>) {
        if !self.thoughts.are_held() {
            return;
        }
        let message = self.messages.current();
        let block = &mut self.block;
        self.thoughts.finish(|sort, part| part_of(&message, block, sort, part, out));
    }

    fn end_message(&mut self, out: &mut Output<'_>) {
        self.say_rest(out);
        (self.thoughts, self.block) = (Thoughts::default(), None);
        if let Some(message) = self.messages.end() {
            out.emit(Kind::MessageFinished(MessageFinished { message, phase: Phase::Final, model: None }));
        }
    }

    fn error(&mut self, line: &GeminiLine, out: &mut Output<'_>) {
        let message = line.message.as_str().unwrap_or_default();
        // The loop detector stops the model with this warning, and the `result` is a success all the same (0.61.0).
        let is_loop = message.starts_with("Loop detected");
        self.cut = match message {
            _ if is_loop => Cut::Loop,
            "Maximum session turns exceeded" => Cut::Turns,
            _ => self.cut,
        };
        if line.severity.as_str() == Some("error") {
            self.error = Some(message.to_owned());
            return out.remember_error(message);
        }
        let code = is_loop.then(|| "loop_detected".to_owned());
        let text = Excerpt::with_limit(message, 4096).text;
        out.emit(Kind::Notice(Notice { level: Level::Warn, text, code }));
    }

    fn result(&mut self, line: &GeminiLine, out: &mut Output<'_>) {
        out.quiet();
        out.overcome();
        self.end_message(out);
        // Includes the call of the router, which runs before each turn with model `auto` (0.61.0).
        spent(wire::stream_stats(&line.stats), out);
        // `unknown` for every error of the API in 0.61.0.
        let class = line.error.get("type").and_then(Value::as_str).unwrap_or_default();
        let reason = content::error(&line.error).or(self.error.take());
        if line.status.as_str() == Some("success") {
            return self.completed(out);
        }
        let reason = reason.unwrap_or_else(|| "the program reported an error".to_owned());
        if failures::is_cancelled(class, &reason) {
            return out.cancelled();
        }
        let mut report = failures::report(&reason);
        failures::by_class(class, &mut report);
        self.pending = Some((report, out.span()));
    }

    /// Ends the turn for the reported reason, if there is one.
    fn told(&mut self, exit: Option<Exit>, out: &mut Output<'_>) {
        let Some((mut report, raw)) = self.pending.take() else { return };
        // Told by the status where there is one: the class of a limit is also that of a server that is away.
        report.status = report.status.or_else(|| failures::status_on_stderr(out.stderr));
        if report.status.is_none_or(|status| status < 500) {
            failures::by_class(failures::class_on_stderr(out.stderr), &mut report);
        }
        if let Some(Exit::Code(code)) = exit {
            if failures::meaning(code) == failures::GeminiFailure::Cancelled {
                return out.cancelled();
            }
            failures::by_exit(code, &mut report);
        }
        let report = report.settled(&failures::words_of(out.stderr), exit);
        out.at(raw, |out| out.failed(&report));
    }

    fn completed(&mut self, out: &mut Output<'_>) {
        out.completed(match std::mem::take(&mut self.cut) {
            Cut::Nothing => Some(StopReason::EndTurn),
            // Not our doing: the program stopped the model.
            Cut::Loop => None,
            Cut::Turns => Some(StopReason::MaxTurns),
        });
    }

    /// Handles the object of the JSON format, or an object of the adapter protocol.
    fn whole(&mut self, object: &Map<String, Value>, out: &mut Output<'_>) {
        out.quiet();
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        if let Some(session) = text("session_id") {
            let native_session = Some(NativeSessionId::from(session));
            let model = text("model").map(str::to_owned);
            out.emit(Kind::SessionStarted(SessionStarted {
                native_session,
                model,
                ..SessionStarted::default()
            }));
        }
        self.say(&content::find(object).unwrap_or_default(), out);
        for warning in object.get("warnings").and_then(Value::as_array).into_iter().flatten() {
            if let Some(warning) = warning.as_str() {
                out.notice(Level::Warn, Excerpt::with_limit(warning, 4096).text);
            }
        }
        self.end_message(out);
        let stats = object.get("stats").and_then(wire::document_stats);
        let usage = || Some(GeminiUsage { usage: crate::usage::read(object.get("usage")?)?, model: None });
        spent(stats.or_else(usage), out);
        let error = object.get("error");
        match error.and_then(content::error) {
            Some(reason) => {
                let class = error.and_then(|error| error.get("type")?.as_str()).unwrap_or_default();
                let mut report = failures::report(&reason);
                failures::by_class(class, &mut report);
                self.pending = Some((report, out.span()));
            }
            None => self.document = true,
        }
    }

    /// Judges the end of a run that exited with 0.
    fn ended_well(&mut self, out: &mut Output<'_>) {
        // In the text format, an answer that was blocked leaves nothing but this line.
        let blocked = || {
            let said = failures::words_of(out.stderr);
            let last = said.lines().last()?.strip_prefix("[ERROR] ")?.to_owned();
            Some(failures::report(&last)).filter(|report| report.category.is_some())
        };
        if let Some(report) = blocked() {
            out.failed(&report);
        } else if self.document {
            self.completed(out);
        }
    }

    /// Judges the end of a run that exited with an error and did not report it on standard output.
    fn ended_badly(code: i32, out: &mut Output<'_>) {
        // With `-o json`, stdout stays empty on an error and the object is at the end of stderr, after a stack trace (0.61.0).
        let left = failures::left_on_stderr(out.stderr);
        if let Some(session) = left.as_ref().and_then(|left| left.session.as_deref()) {
            let native_session = Some(NativeSessionId::from(session));
            out.emit(Kind::SessionStarted(SessionStarted { native_session, ..SessionStarted::default() }));
        }
        let class = left.as_ref().map_or("", |left| left.class.as_str());
        if failures::meaning(code) == failures::GeminiFailure::Cancelled || failures::is_cancelled(class, "")
        {
            return out.cancelled();
        }
        let mut report =
            left.map(|left| left.report).unwrap_or_else(|| failures::report(&failures::words_of(out.stderr)));
        failures::by_class(failures::class_on_stderr(out.stderr), &mut report);
        failures::by_exit(code, &mut report);
        out.failed(&report.settled("", Some(Exit::Code(code))));
    }
}

/// Emits a part of a message, in a block of its sort.
fn part_of(
    message: &MessageId,
    block: &mut Option<(ThoughtPart, u32)>,
    sort: ThoughtPart,
    part: &str,
    out: &mut Output<'_>,
) {
    let number = match *block {
        Some((before, number)) if before == sort => number,
        Some((_, number)) => number + 1,
        None => 0,
    };
    *block = Some((sort, number));
    match sort {
        ThoughtPart::Text => out.text(message, number, part, None),
        ThoughtPart::Thinking => out.thinking(message, number, part, None),
    }
}

/// Returns whether an object is the one that the JSON format prints.
fn is_whole(object: &Map<String, Value>) -> bool {
    let has = |key: &str| object.contains_key(key);
    !has("type") && (has("stats") && has("response") || has("session_id") && has("error"))
}

fn spent(spent: Option<GeminiUsage>, out: &mut Output<'_>) {
    if let Some(GeminiUsage { usage, model }) = spent {
        out.emit(Kind::UsageReported(UsageReported {
            usage,
            basis: Basis::PerTurn,
            source: UsageSource::Reported,
            cost_usd: None,
            model,
            message: None,
        }));
    }
}
