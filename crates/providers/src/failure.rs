//! Why a turn failed: the verdict of the dialect first, then the text, then the exit code or signal.
//!
//! The rules are data (`patterns`, `phrases`, `numbers`), the times are read apart (`retry_after`, `reset_time`), and
//! [`classify`] puts them together. Nothing here knows a provider.

mod numbers;
mod patterns;
mod phrases;
mod reset_time;
mod retry_after;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bowline_protocol::{Category, Code, Exit, Failure, Millis, Timestamp};

pub use self::numbers::signal_name;
pub use self::reset_time::reset_time;
pub use self::retry_after::retry_after;

use crate::moment::Moment;

/// A dialect's data about a failure. Everything but the message may be unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The message of the program.
    pub message: String,
    /// The category, if the program's output leaves no doubt.
    pub category: Option<Category>,
    /// The finer reason, if the program's output leaves no doubt.
    pub code: Option<Code>,
    /// The HTTP status behind it.
    pub status: Option<u16>,
    /// The wait, if the program reported it in a field.
    pub retry_after: Option<Millis>,
    /// The end of a limit, if the program reported it in a field.
    pub resets_at: Option<Timestamp>,
}

impl Report {
    /// Makes a report with only a message.
    pub fn of(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Classifies the failure by the report, its message and the exit alone: the rest of
    /// standard error may be about errors that the program recovered from.
    #[must_use]
    pub(crate) fn settled(self, words: &str, exit: Option<Exit>) -> Self {
        let evidence = Evidence { report: Some(&self), text: words, exit, timed_out: false };
        let Failure { category, code, .. } = classify(&evidence, &Moment::utc(Timestamp::EPOCH));
        Self { category: Some(category), code: Some(code), ..self }
    }
}

/// All evidence about a failed run.
#[derive(Clone, Debug, Default)]
pub struct Evidence<'a> {
    /// The dialect's structured verdict.
    pub report: Option<&'a Report>,
    /// The end of standard error, or any text that describes the failure.
    pub text: &'a str,
    /// How the process ended.
    pub exit: Option<Exit>,
    /// Whether our own deadline ended it.
    pub timed_out: bool,
}

/// How many characters of a message are kept.
const MESSAGE_CHARS: usize = 500;

/// How many bytes of standard error are kept.
const TAIL_BYTES: usize = 2048;

/// How many of the last lines of a long text are searched for the reason.
const SEARCHED_LINES: usize = 200;

/// The wait after a rate limit without a stated wait.
const RATE_LIMIT_WAIT: Millis = Millis(1000);

/// The longest wait for which a quota message counts as a rate limit: programs use the same words for a limit of a minute
/// and of a day. Programs themselves give up on longer waits.
const SHORT_WAIT: Millis = Millis(5 * 60 * 1000);

/// Returns whether a message about a quota is about a limit of a minute: it states a short wait, in a field or in words, and
/// nothing about spent credits.
pub(crate) fn is_short_limit(report: &Report) -> bool {
    let wait = report.retry_after.or_else(|| retry_after(&report.message));
    wait.is_some_and(|wait| wait <= SHORT_WAIT) && !phrases::is_spent(&report.message)
}

/// Classifies a failure by its evidence.
///
/// Our own deadline decides outright. After it, each source fills in what the ones before it left open: the fields of
/// the report, its message, the text, and last the exit code or signal.
pub fn classify(evidence: &Evidence<'_>, now: &Moment) -> Failure {
    let nothing = Report::default();
    let report = evidence.report.unwrap_or(&nothing);
    let clues = Clues {
        report,
        message: report.message.trim(),
        text: without_help(&without_notices(evidence.text)).into_owned().into(),
        exit: evidence.exit.and_then(numbers::exit),
    };
    let (category, code) =
        // The text of a run that we stopped is about whatever it was doing, not about the reason of its end.
        if evidence.timed_out { (Category::Timeout, Code::TimedOut) } else { clues.verdict() };

    let mut failure = Failure::new(category, code, message(evidence, clues.message));
    // Fields before words: a program may print a local time without its zone (Codex 0.166.0 does).
    failure.resets_at = report.resets_at.or_else(|| clues.first(|words| reset_time(words, now)));
    failure.retry_after_ms = report.retry_after.or_else(|| clues.first(retry_after));
    // A rate limit always has a wait, so that callers need no default of their own.
    if category == Category::RateLimit && failure.retry_after_ms.is_none() {
        let until_reset = failure.resets_at.map(|reset| reset.since(now.at)).filter(|wait| wait.0 > 0);
        failure.retry_after_ms = until_reset.or(Some(RATE_LIMIT_WAIT));
    }
    failure.exit = evidence.exit;
    failure.stderr_tail = tail(evidence.text);
    failure
}

/// The sources of a verdict, in the order of their authority.
struct Clues<'a> {
    report: &'a Report,
    message: &'a str,
    text: Cow<'a, str>,
    exit: Option<(Category, Code)>,
}

impl Clues<'_> {
    fn verdict(&self) -> (Category, Code) {
        match (self.category(), &self.exit) {
            (Some(category), _) => (category, self.code(category)),
            (None, Some((category, code))) => {
                (*category, self.report.code.clone().unwrap_or_else(|| code.clone()))
            }
            (None, None) => (Category::Unknown, self.code(Category::Unknown)),
        }
    }

    /// Returns the reported category, from a field or from text.
    fn category(&self) -> Option<Category> {
        let by_code = || self.report.code.as_ref().and_then(phrases::home);
        let by_status = || self.by_status().map(|(category, _)| category);
        // Judge the message by both tables before the text: it is about this failure, while standard
        // error also holds the warnings of a program that continued.
        let by_words = || self.first(|words| patterns::category(words).or_else(|| phrases::rescue(words)));
        self.report.category.or_else(by_code).or_else(by_status).or_else(by_words)
    }

    fn code(&self, category: Category) -> Code {
        // A rejected argument counts as such, whatever numbers it contains.
        if self.report.code.is_none()
            && self.first(|words| phrases::is_refused_flag(words).then_some(())).is_some()
        {
            return Code::FlagRejected;
        }
        let here = |(home, code): (Category, Code)| (home == category).then_some(code);
        // The signal after a timeout shows how the timeout was enforced, not what happened.
        let by_exit = || self.exit.clone().filter(|_| category != Category::Timeout).and_then(here);
        (self.report.code.clone())
            .or_else(|| phrases::code(category, self.message))
            .or_else(|| self.by_status().and_then(here))
            .or_else(by_exit)
            .or_else(|| phrases::code(category, &self.text))
            .unwrap_or_else(|| phrases::usual(category))
    }

    /// Returns the meaning of the HTTP status. A few need text: some services use 429 for spent quotas too, and 400 or 403
    /// for accounts without money.
    fn by_status(&self) -> Option<(Category, Code)> {
        let meaning = numbers::status(self.report.status?)?;
        let words = if self.message.is_empty() { self.text.as_ref() } else { self.message };
        let speaks_of_quota = || {
            patterns::category(words) == Some(Category::Quota)
                || phrases::code(Category::Quota, words).is_some()
        };
        let is_general = matches!(meaning.1, Code::InvalidRequest | Code::Forbidden);
        if is_general && phrases::code(Category::Quota, words) == Some(Code::Billing) {
            return Some((Category::Quota, Code::Billing));
        }
        if meaning.0 == Category::RateLimit && speaks_of_quota() && !is_short_limit(self.report) {
            // A retry of a spent quota is wasted: the router has to know the difference from a short limit.
            return Some((Category::Quota, Code::QuotaExhausted));
        }
        Some(meaning)
    }

    /// Searches the message, and without a hit there, the text.
    fn first<T>(&self, ask: impl Fn(&str) -> Option<T>) -> Option<T> {
        ask(self.message).or_else(|| ask(&self.text))
    }
}

/// Returns a text without the lines in which programs report that they wait for standard input.
fn without_notices(text: &str) -> Cow<'_, str> {
    let is_notice = |line: &str| {
        line.starts_with("Reading prompt from stdin")
            || line.starts_with("Reading additional input from stdin")
    };
    if !text.lines().any(is_notice) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.lines().filter(|line| !is_notice(line)).collect::<Vec<_>>().join("\n"))
}

/// Returns a text without the list of options that a program prints after it rejected some.
///
/// Such a list mentions many failures that did not happen: Qwen Code's explains what to do on a 429.
fn without_help(text: &str) -> Cow<'_, str> {
    const MARK: &str = "-h, --help";
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    // Options of a help page are indented; the error itself stands at the margin.
    let is_said = |line: &&str| !line.starts_with([' ', '\t']) || line.contains(MARK);
    Cow::Owned(text.lines().filter(is_said).collect::<Vec<_>>().join("\n"))
}

fn message(evidence: &Evidence<'_>, reported: &str) -> String {
    let text = without_notices(evidence.text);
    let said = if reported.is_empty() { reason_in(text.trim()) } else { reported };
    let whole = match (evidence.timed_out, said) {
        (true, "") => Cow::Borrowed("timed out"),
        (true, said) => Cow::Owned(format!("timed out: {said}")),
        (false, "") => evidence
            .exit
            .map_or(Cow::Borrowed("failed without an error message"), |exit| numbers::ending(exit).into()),
        (false, said) => Cow::Borrowed(said),
    };
    // Characters, not bytes: a cut inside a character would not be a string.
    whole.chars().take(MESSAGE_CHARS).collect()
}

/// Returns the part of a long text with the reason: from the first line that a table matches, else the end.
fn reason_in(text: &str) -> &str {
    if text.chars().nth(MESSAGE_CHARS).is_none() {
        return text;
    }
    let telling = |line: &&str| patterns::category(line).is_some() || phrases::rescue(line).is_some();
    // Search only the end of a very long text: each line is matched against both tables.
    let last: Vec<&str> = text.lines().rev().take(SEARCHED_LINES).collect();
    if let Some(line) = last.into_iter().rev().find(telling) {
        // `line` is a slice of `text`, so the difference of the addresses is its offset.
        return &text[line.as_ptr() as usize - text.as_ptr() as usize..];
    }
    let start = text.char_indices().rev().nth(MESSAGE_CHARS - 1).map_or(0, |(at, _)| at);
    &text[start..]
}

fn tail(text: &str) -> Option<String> {
    let start = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES));
    (!text.trim().is_empty()).then(|| text[start..].to_owned())
}
