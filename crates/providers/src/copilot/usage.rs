//! Output of text mode beside the answer: notices of retries on stdout, and figures at the end of stderr.

use bowline_protocol::kinds::{SessionStarted, UsageReported};
use bowline_protocol::{Basis, Kind, NativeSessionId, Usage, UsageSource};

use crate::ansi;
use crate::dialect::Output;
use crate::dialects::api_error::Retry;

/// Reads the figures.
#[derive(Debug, Default)]
pub(super) struct Figures {
    tokens: Option<Usage>,
}

impl Figures {
    /// Emits the retry that a line of stdout announces. Returns whether it announces one.
    pub(super) fn retry_notice(line: &str, out: &mut Output<'_>) -> bool {
        let line = ansi::strip(line);
        let notice = line.trim().strip_prefix("● ").filter(|rest| rest.ends_with(" Retrying..."));
        if let Some(message) = notice {
            Retry { message, ..Retry::default() }.emit(out);
        }
        notice.is_some()
    }

    /// Handles a line of stderr: `Tokens     ↑ 11 (3 cached) • ↓ 7`, `Resume     copilot --resume=…`.
    pub(super) fn stderr(&mut self, line: &str, out: &mut Output<'_>) {
        let line = ansi::strip(line);
        let Some((name, value)) = line.trim().split_once("  ") else { return };
        match name {
            "Tokens" => self.tokens = tokens(value),
            "Resume" => {
                let id = value.split_once("--resume=").map(|(_, id)| id.trim());
                let Some(id) = id.filter(|id| !id.is_empty()) else { return };
                let native_session = Some(NativeSessionId::from(id));
                out.emit(Kind::SessionStarted(SessionStarted {
                    native_session,
                    ..SessionStarted::default()
                }));
            }
            _ => {}
        }
    }

    /// Emits the tokens of the turn, at its end because the answer may be held back until then.
    pub(super) fn end(&mut self, out: &mut Output<'_>) {
        let Some(usage) = self.tokens.take() else { return };
        out.emit(Kind::UsageReported(UsageReported {
            usage,
            basis: Basis::PerTurn,
            source: UsageSource::Reported,
            cost_usd: None,
            model: None,
            message: None,
        }));
    }
}

/// Reads `↑ 11 (3 cached) • ↓ 7 (2 reasoning)`. Rounded counts (`12.3k`) are no counts.
fn tokens(figures: &str) -> Option<Usage> {
    let (input, output) = figures.split_once('↓')?;
    let input = input.trim().trim_start_matches('↑');
    let all = first_count(input)?;
    let cache_read = noted(input, "cached").unwrap_or(0);
    let reasoning = noted(output, "reasoning");
    let input = all.saturating_sub(cache_read);
    Some(Usage { input, output: first_count(output)?, cache_read, cache_write: 0, reasoning })
}

fn first_count(text: &str) -> Option<u64> {
    count(text.split_whitespace().next()?)
}

/// Reads the count before a word in parentheses.
fn noted(text: &str, word: &str) -> Option<u64> {
    let (_, inside) = text.split_once('(')?;
    let before = inside.split_once(word)?.0;
    count(before.rsplit([',', '(']).next()?.trim())
}

fn count(word: &str) -> Option<u64> {
    word.replace([',', '_'], "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_counts_count() {
        let usage = |input, output, cache_read, reasoning| {
            Some(Usage { input, output, cache_read, cache_write: 0, reasoning })
        };
        assert_eq!(tokens("↑ 11 (3 cached) • ↓ 7"), usage(8, 7, 3, None));
        assert_eq!(tokens("↑ 11 • ↓ 7"), usage(11, 7, 0, None));
        assert_eq!(tokens("↑ 1,011 (3 cached) • ↓ 20 (13 reasoning)"), usage(1008, 20, 3, Some(13)));
        assert_eq!(tokens("↑ 10.4k (3 cached) • ↓ 7"), None);
        assert_eq!(tokens(""), None);
    }
}
