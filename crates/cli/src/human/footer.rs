//! The text of the end of a run: the failure, and the footer.

use bowline_protocol::kinds::{Outcome, StopReason};
use bowline_protocol::{Category, Code, Failure, Millis, Timestamp, UsageSource};
use bowline_providers::views::Tally;

use super::error_text::error_text;
use super::words::{self, Glyphs};
use super::{AgentHints, RenderOptions, RunSummary};
use crate::remedies;

/// The maximum number of lines of the agent's standard error.
const TAIL: usize = 5;

/// The maximum width of such a line.
const TAIL_WIDTH: usize = 200;

/// The decoder's message about a program that printed nothing.
const NOTHING_PRINTED: &str = "the program exited without printing anything";

/// Formats the failure of a turn like every other error.
pub(super) fn failure(failure: &Failure, now: Timestamp, options: &RenderOptions) -> String {
    // People search for the code. Leave it out if the message has the same word.
    let (mut what, code) = (what(failure).to_owned(), words::one_line(failure.code.as_str()));
    if !what.split(' ').any(|word| word == code) {
        what.push_str(&format!(" ({code})"));
    }
    let mut causes = Vec::new();
    let message = words::one_line(&failure.message);
    // The line above says the same in other words.
    if !message.is_empty() && message != NOTHING_PRINTED {
        causes.push(message);
    }
    let mut hints = Vec::new();
    if let Some(at) = failure.resets_at {
        hints.push(format!("the limit resets {}", words::when(at, now, &options.zone)));
    } else if let Some(wait) = failure.retry_after_ms.filter(|wait| helps(failure, *wait)) {
        hints.push(format!("try again in {wait}"));
    }
    hints.extend(remedies::of_failure(failure).as_deref().map(words::one_line));
    if hints.is_empty() {
        hints.extend(advice(failure, &options.agent));
    }
    // Do not repeat lines that are printed above.
    hints.retain(|hint| !causes.contains(hint));
    let mut text = error_text(&what, &causes, &hints);
    for line in tail(failure, options.glyphs) {
        text.push_str(&format!("stderr: {line}\n"));
    }
    text
}

/// Returns the text of a failure, by its code or category.
fn what(failure: &Failure) -> &'static str {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other codes have the text of their category")]
    match failure.code {
        Code::Truncated => return "the agent's output ended before the answer was complete",
        Code::Empty => return "the agent printed nothing",
        Code::Crashed => return "the agent crashed",
        Code::Killed => return "the agent was killed",
        Code::NotInstalled => return "the agent is not installed",
        Code::CannotStart => return "the agent is installed, but cannot be started",
        Code::DiskFull => return "no disk space is left to record the run",
        Code::DiskQuota => return "the session reached the size limit of its journal",
        Code::NotLoggedIn => return "the agent is not logged in",
        Code::ContextOverflow => return "the conversation is too long for the model",
        Code::MaxTurns => return "the agent reached its turn limit",
        Code::Budget => return "the budget is used up",
        Code::GaveUpWaiting => return "the agent kept retrying until the timeout",
        Code::FlagRejected => return "the agent rejected one of its arguments",
        Code::FormatChanged => return "Bowline could not decode any of the agent's output",
        Code::ModelNotFound => return "the model does not exist",
        Code::SessionNotFound => return "the session does not exist",
        Code::CleanupUnconfirmed => return "some of the agent's processes may still be running",
        Code::Policy => return "a policy forbids it",
        Code::Overloaded => return "the model's service is overloaded",
        Code::Refused => return "the model refused to answer",
        Code::UntrustedFolder => return "the agent does not trust this folder",
        _ => {}
    }
    match failure.category {
        Category::Quota => "a usage limit is reached",
        Category::RateLimit => "too many requests",
        Category::Authentication => "the login or API key was rejected",
        Category::Validation => "the request was rejected as invalid",
        Category::Network => "the network failed",
        Category::Server => "the model's service failed",
        Category::Timeout => "the run timed out",
        Category::NotFound => "something was not found",
        Category::Configuration => "the setup is invalid",
        Category::Unknown => "the agent failed",
    }
}

/// Returns whether the reported wait helps. An exhausted quota is not back after the second between two of the agent's own
/// retries, and an agent that gave up has waited that long already.
fn helps(failure: &Failure, wait: Millis) -> bool {
    const A_MINUTE: Millis = Millis(60_000);
    wait >= A_MINUTE || (failure.category != Category::Quota && failure.code != Code::GaveUpWaiting)
}

/// Returns a hint, if the failure itself has none.
fn advice(failure: &Failure, agent: &AgentHints) -> Option<String> {
    if failure.code == Code::Killed {
        return None;
    }
    let name = agent.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    if failure.code == Code::SessionNotFound {
        let provider = agent.name.as_deref().unwrap_or("NAME");
        return Some(format!("begin a new session: `bowline start -p {provider} \"…\"`"));
    }
    // A bare 404 rejects the model, if the request named one.
    let may_be_model = failure.code == Code::NotFound && agent.model.is_some();
    if failure.code == Code::ModelNotFound || may_be_model {
        let meant = match (&agent.model, &agent.nearest_model) {
            (_, Some(nearest)) => format!("did you mean `--model {nearest}`? "),
            (Some(model), None) if may_be_model => {
                format!("the model `{}` may not exist: ", words::one_line(model))
            }
            (_, None) => String::new(),
        };
        return Some(format!("{meant}`bowline models{name}` lists the models; `--model NAME` chooses one"));
    }
    if failure.category == Category::Authentication {
        return Some(match &agent.login {
            Some(login) => format!("log in with `{login}`, or set an API key"),
            None => format!("`bowline doctor{name}` shows how to log in"),
        });
    }
    let advice = match failure.category {
        Category::RateLimit | Category::Network | Category::Server | Category::Timeout => {
            Some("try again, or choose another provider with --provider; the request is valid")
        }
        Category::Quota => Some("wait for the limit to reset, or choose another provider with --provider"),
        Category::Authentication
        | Category::Validation
        | Category::NotFound
        | Category::Configuration
        | Category::Unknown => None,
    };
    advice.map(str::to_owned)
}

/// Returns the end of the agent's standard error, if nothing better explains the failure.
fn tail(failure: &Failure, glyphs: Glyphs) -> Vec<String> {
    let unexplained = matches!(
        failure.code,
        Code::Crashed | Code::Killed | Code::Unknown | Code::Truncated | Code::Empty | Code::FlagRejected
    ) || failure.message.trim().is_empty();
    let text = failure.stderr_tail.as_deref().filter(|_| unexplained).unwrap_or_default();
    let message = words::one_line(&failure.message);
    let lines =
        text.lines().map(words::one_line).filter(|line| !line.is_empty() && !message.contains(&**line));
    let lines: Vec<String> = lines.map(|line| words::cut(&line, TAIL_WIDTH, glyphs)).collect();
    lines[lines.len().saturating_sub(TAIL)..].to_vec()
}

/// Describes an incomplete end that is not a failure.
pub(super) fn ending(tally: &Tally, said_anything: bool) -> Option<&'static str> {
    match (tally.outcome, tally.stop) {
        (Some(Outcome::Cancelled), _) if said_anything => Some("cancelled; the answer so far is kept"),
        (Some(Outcome::Cancelled), _) => Some("cancelled before the agent answered"),
        (Some(Outcome::Completed), Some(StopReason::MaxTokens)) => {
            Some("the answer is truncated: it reached the model's output limit")
        }
        (Some(Outcome::Completed), Some(StopReason::MaxTurns)) => Some("stopped at the turn limit"),
        (Some(Outcome::Completed), Some(StopReason::Refusal)) => Some("the model refused to answer"),
        (Some(Outcome::Completed), Some(StopReason::ToolUse)) => {
            Some("the agent is waiting for a tool that its host must run")
        }
        (Some(Outcome::Completed), Some(StopReason::EndTurn | StopReason::Cancelled) | None)
            if !said_anything =>
        {
            Some("the agent returned no answer")
        }
        (Some(Outcome::Completed), Some(StopReason::EndTurn | StopReason::Cancelled) | None)
        | (Some(Outcome::Failed | Outcome::Truncated) | None, _) => None,
    }
}

/// The last line: provider, model, time, usage and session.
#[derive(Debug)]
pub(super) struct RunFooter<'a> {
    pub(super) provider: Option<&'a str>,
    pub(super) retries: u64,
    /// Whether it has the number of cached tokens.
    pub(super) cached: bool,
}

impl RunFooter<'_> {
    /// Formats the line. If it does not fit, cached tokens are left out first, then all tokens, retries, model and cost; provider,
    /// time and session always stay.
    pub(super) fn line(&self, summary: &RunSummary, tally: &Tally, columns: usize, glyphs: Glyphs) -> String {
        // The part with the highest number is left out first.
        let mut parts: Vec<(u8, String)> = Vec::new();
        parts.extend(self.provider.map(|provider| (0, words::one_line(provider))));
        let model = tally.named_model().map(words::one_line).filter(|model| !model.is_empty());
        parts.extend(model.map(|model| (2, model)));
        parts.push((0, summary.took.to_string()));
        parts.extend(self.tokens(tally).map(|tokens| (4, tokens)));
        parts.extend(tally.cost_usd.and_then(words::money).map(|cost| (1, cost)));
        if self.retries > 0 {
            let retries =
                if self.retries == 1 { "1 retry".to_owned() } else { format!("{} retries", self.retries) };
            parts.push((3, retries));
        }
        parts.extend(summary.session.as_ref().map(|session| (0, words::one_line(session.as_str()))));
        loop {
            let line = parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join(glyphs.dot());
            let least = parts.iter().map(|(rank, _)| *rank).max().filter(|rank| *rank > 0);
            if self.cached && words::width(&line) > columns {
                return RunFooter { cached: false, ..*self }.line(summary, tally, columns, glyphs);
            }
            match least {
                Some(rank) if words::width(&line) > columns => parts.retain(|(it, _)| *it != rank),
                _ => return line,
            }
        }
    }

    fn tokens(&self, tally: &Tally) -> Option<String> {
        let usage = tally.usage.filter(|usage| usage.total() > 0)?;
        let about = if tally.usage_source == Some(UsageSource::Estimated) { "~" } else { "" };
        let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let cached = match usage.cache_read {
            cached if cached > 0 && self.cached => format!(" ({} cached)", words::count(cached)),
            _ => String::new(),
        };
        let output = words::count(usage.output);
        Some(format!("{about}{} in{cached}, {about}{output} out", words::count(input)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(failure: &Failure, agent: &AgentHints) -> String {
        advice(failure, agent).unwrap_or_default()
    }

    #[test]
    fn a_hint_names_the_command_that_helps() {
        let (name, login) = (Some("knot".to_owned()), Some("knot auth login".to_owned()));
        let agent = AgentHints { name, login, ..AgentHints::default() };
        let refused = Failure::new(Category::Authentication, Code::NotLoggedIn, "401".to_owned());
        assert_eq!(hint(&refused, &agent), "log in with `knot auth login`, or set an API key");
        assert_eq!(hint(&refused, &AgentHints::default()), "`bowline doctor` shows how to log in");
        let unknown = Failure::new(Category::NotFound, Code::ModelNotFound, "no such model".to_owned());
        let models = "`bowline models knot` lists the models; `--model NAME` chooses one";
        assert_eq!(hint(&unknown, &agent), models);
        // A bare 404 is about the model only if one was named.
        let missing = Failure::new(Category::NotFound, Code::NotFound, "404".to_owned());
        assert_eq!(hint(&missing, &agent), "");
        let agent = AgentHints { model: Some("bowlin".into()), ..agent };
        assert_eq!(hint(&missing, &agent), format!("the model `bowlin` may not exist: {models}"));
        let agent = AgentHints { nearest_model: Some("bowline-2".into()), ..agent };
        let meant = format!("did you mean `--model bowline-2`? {models}");
        assert_eq!((hint(&missing, &agent), hint(&unknown, &agent)), (meant.clone(), meant));
    }

    #[test]
    fn a_second_does_not_help_against_a_quota() {
        let failure = |category, code| Failure::new(category, code, String::new());
        assert!(!helps(&failure(Category::Quota, Code::GaveUpWaiting), Millis(1000)));
        assert!(!helps(&failure(Category::RateLimit, Code::GaveUpWaiting), Millis(1000)));
        assert!(helps(&failure(Category::Quota, Code::GaveUpWaiting), Millis(3_600_000)));
        assert!(helps(&failure(Category::RateLimit, Code::Unknown), Millis(1000)));
    }
}
