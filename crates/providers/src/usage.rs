//! Token counts, read from every spelling that agents use and brought to the one normal form of [`Usage`].
//!
//! Whether a report covers a call, a turn or the whole session is the dialect's knowledge and is not decided here.

mod count;

use std::borrow::Cow;

use bowline_protocol::kinds::UsageReported;
use bowline_protocol::{Basis, Kind, Usage, UsageSource};
use serde::Deserialize;
use serde::de::MapAccess;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::dialects::loose_json::{self, Field, LooseText, Pick};
pub(crate) use count::MOST_CALLS;
pub use count::UsageCount;

/// Paths of the prompt's tokens, the first that holds a count wins.
const INPUT: &[&str] =
    &["input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "promptTokenCount", "input"];

/// Paths of the answer's tokens.
const OUTPUT: &[&str] = &[
    "output_tokens",
    "completion_tokens",
    "outputTokens",
    "completionTokens",
    "candidatesTokenCount",
    "output",
];

/// Paths of tokens read from a cache, with the place where that spelling counts them.
const CACHE_READ: &[(&str, Counted)] = &[
    ("cache_read_input_tokens", Counted::Apart),
    ("cacheReadInputTokens", Counted::Apart),
    ("cachedReadTokens", Counted::Apart),
    ("cacheRead", Counted::Apart),
    ("cache/read", Counted::Apart),
    ("cached_input_tokens", Counted::Inside),
    ("cachedInputTokens", Counted::Inside),
    ("prompt_tokens_details/cached_tokens", Counted::Inside),
    ("input_tokens_details/cached_tokens", Counted::Inside),
    ("cachedContentTokenCount", Counted::Inside),
    ("cached", Counted::Inside),
];

/// Paths of tokens written to a cache, with the place where that spelling counts them.
const CACHE_WRITE: &[(&str, Counted)] = &[
    ("cache_creation_input_tokens", Counted::Apart),
    ("cacheCreationInputTokens", Counted::Apart),
    ("cachedWriteTokens", Counted::Apart),
    ("cacheWrite", Counted::Apart),
    ("cache/write", Counted::Apart),
    ("cache_write_input_tokens", Counted::Inside),
    ("cacheWriteInputTokens", Counted::Inside),
];

/// Paths of reasoning tokens, with the place where that spelling counts them.
const REASONING: &[(&str, Counted)] = &[
    ("reasoning_output_tokens", Counted::Inside),
    ("reasoningOutputTokens", Counted::Inside),
    ("output_tokens_details/reasoning_tokens", Counted::Inside),
    ("completion_tokens_details/reasoning_tokens", Counted::Inside),
    ("thoughtTokens", Counted::Inside),
    ("reasoning", Counted::Inside),
    ("thoughtsTokenCount", Counted::Apart),
];

/// Paths of the sum of everything.
const TOTAL: &[&str] = &["total_tokens", "totalTokens", "totalTokenCount", "total"];

/// Where a part is counted: inside the prompt or the answer that it belongs to, or beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    Inside,
    Apart,
}

/// Reads a `usage` object; `None` unless both the prompt's and the answer's tokens are given as whole numbers.
///
/// Each spelling has a habit of counting caches and reasoning inside or apart. The habit yields to a reported total
/// that only the other way of counting explains: Qwen Code writes Anthropic's names with caches inside the input, and
/// opencode leaves reasoning out of the output where pi, with the same name, does not.
pub fn read(value: &Value) -> Option<Usage> {
    Tokens::deserialize(value).ok()?.usage()
}

/// Reads a `usage` object that was left as it stands; see [`read`].
pub(crate) fn read_raw(raw: &RawValue) -> Option<Usage> {
    serde_json::from_str::<Tokens<'_>>(raw.get()).ok()?.usage()
}

/// Estimates tokens from lengths in characters: one for every four, rounded up.
pub fn estimate(prompt_chars: u64, answer_chars: u64) -> Usage {
    Usage { input: prompt_chars.div_ceil(4), output: answer_chars.div_ceil(4), ..Usage::default() }
}

/// The usage of a turn so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurnSpending {
    /// The tokens.
    pub usage: Usage,
    /// Where the tokens come from.
    pub source: UsageSource,
    /// Their cost in US dollars, where the agent reports it.
    pub cost_usd: Option<f64>,
}

impl TurnSpending {
    /// Returns the report of it at the end of the turn.
    pub fn of_turn(self) -> UsageReported {
        let Self { usage, source, cost_usd } = self;
        UsageReported { usage, basis: Basis::PerTurn, source, cost_usd, model: None, message: None }
    }
}

/// The numbers of an object by their names; those of an object in it as `outer/inner`.
#[derive(Debug, Default)]
pub(crate) struct Tokens<'a>(Vec<(Cow<'a, str>, Option<u64>)>);

impl Tokens<'_> {
    /// Brings the counts to the normal form; see [`read`].
    pub(crate) fn usage(&self) -> Option<Usage> {
        let input = self.first(INPUT)?;
        let output = self.first(OUTPUT)?;
        let (cache_read, read_habit) = self.first_counted(CACHE_READ).unwrap_or((0, Counted::Apart));
        let (cache_write, write_habit) = self.first_counted(CACHE_WRITE).unwrap_or((0, Counted::Apart));
        let reasoning = self.first_counted(REASONING);

        let arranged = |read: Counted, write: Counted, thought: Counted| {
            let inside = |tokens, counted| if counted == Counted::Inside { tokens } else { 0 };
            let held = inside(cache_read, read).saturating_add(inside(cache_write, write));
            let thoughts = reasoning.map_or(0, |(tokens, _)| tokens);
            let beside = if thought == Counted::Apart { thoughts } else { 0 };
            Usage {
                input: input.saturating_sub(held),
                output: output.saturating_add(beside),
                cache_read,
                cache_write,
                reasoning: reasoning.map(|(tokens, _)| tokens),
            }
        };
        let thought_habit = reasoning.map_or(Counted::Inside, |(_, counted)| counted);
        let habitual = arranged(read_habit, write_habit, thought_habit);

        let Some(total) = self.first(TOTAL) else { return Some(habitual) };
        let mut others = [Counted::Inside, Counted::Apart].into_iter().flat_map(|cache| {
            [Counted::Inside, Counted::Apart].map(|thought| arranged(cache, cache, thought))
        });
        let explained = |usage: &Usage| usage.total() == total;
        Some(if explained(&habitual) { habitual } else { others.find(explained).unwrap_or(habitual) })
    }

    fn first(&self, paths: &[&str]) -> Option<u64> {
        paths.iter().find_map(|path| self.count(path))
    }

    fn first_counted(&self, paths: &[(&str, Counted)]) -> Option<(u64, Counted)> {
        paths.iter().find_map(|(path, counted)| Some((self.count(path)?, *counted)))
    }

    /// Returns the whole, non-negative number at a path; anything else is not a count. Of two equal keys the last one
    /// counts.
    fn count(&self, path: &str) -> Option<u64> {
        self.0.iter().rev().find(|(name, _)| name == path)?.1
    }
}

impl<'de: 'a, 'a> Pick<'de> for Tokens<'a> {
    fn map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut counts = Vec::with_capacity(8);
        while let Some(name) = map.next_key::<LooseText<'a>>()? {
            let name = name.0.unwrap_or_default();
            match map.next_value()? {
                UsageMember::Count(count) => counts.push((name, count)),
                UsageMember::Inner(inner) => {
                    let named = |(inner, WholeNumber(count))| (format!("{name}/{inner}").into(), count);
                    counts.extend(inner.into_iter().map(named));
                }
            }
        }
        Ok(Self(counts))
    }
}

/// The counts of an object under one name.
#[derive(Debug)]
enum UsageMember<'a> {
    Count(Option<u64>),
    /// An object; no count stands deeper.
    Inner(Vec<(Cow<'a, str>, WholeNumber)>),
}

impl Default for UsageMember<'_> {
    fn default() -> Self {
        Self::Count(None)
    }
}

impl<'de: 'a, 'a> Pick<'de> for UsageMember<'a> {
    fn whole(number: u64) -> Self {
        Self::Count(Some(number))
    }

    fn float(number: f64) -> Self {
        Self::Count(WholeNumber::float(number).0)
    }

    fn map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut inner = Vec::new();
        while let Some((name, count)) = map.next_entry::<LooseText<'a>, WholeNumber>()? {
            inner.push((name.0.unwrap_or_default(), count));
        }
        Ok(Self::Inner(inner))
    }
}

/// A whole number that is not negative.
#[derive(Debug, Default)]
struct WholeNumber(Option<u64>);

impl Pick<'_> for WholeNumber {
    fn whole(number: u64) -> Self {
        Self(Some(number))
    }

    fn float(number: f64) -> Self {
        Self(Field::Number(number).whole())
    }
}

loose_json::picked!(impl<'a> Tokens<'a>; impl<'a> UsageMember<'a>; impl<> WholeNumber;);

/// Returns the cost between two reports of a running sum, in US dollars. A sum that fell has been reset.
pub(crate) fn cost_since(now: f64, before: f64) -> f64 {
    if now < before {
        return now;
    }
    // The difference of two sums has digits that neither sum has; a billionth of a dollar is exact enough.
    ((now - before) * 1e9).round() / 1e9
}

/// Makes a report of the program's own numbers, of which nothing more is known.
pub(crate) fn reported(usage: Usage, basis: Basis) -> UsageReported {
    UsageReported { usage, basis, source: UsageSource::Reported, cost_usd: None, model: None, message: None }
}

/// Makes the same report as an event.
pub(crate) fn reported_event(usage: Usage, basis: Basis) -> Kind {
    Kind::UsageReported(reported(usage, basis))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64, reasoning: Option<u64>) -> Usage {
        Usage { input, output, cache_read, cache_write, reasoning }
    }

    #[track_caller]
    fn check(value: &Value, expect: Option<Usage>) {
        assert_eq!(read(value), expect, "{value}");
    }

    #[test]
    fn both_spellings_of_the_adapter_protocol() {
        check(&json!({"input_tokens": 10, "output_tokens": 8}), Some(usage(10, 8, 0, 0, None)));
        check(&json!({"prompt_tokens": 10, "completion_tokens": 8}), Some(usage(10, 8, 0, 0, None)));
        check(&json!({"input_tokens": 10, "completion_tokens": 8}), Some(usage(10, 8, 0, 0, None)));
        check(&json!({"inputTokens": 10, "outputTokens": 8}), Some(usage(10, 8, 0, 0, None)));
        check(&json!({"promptTokens": 10, "completionTokens": 8}), Some(usage(10, 8, 0, 0, None)));
    }

    #[test]
    fn one_side_alone_is_no_report() {
        for value in [
            json!({"input_tokens": 10}),
            json!({"output_tokens": 10}),
            json!({"input_tokens": "10", "output_tokens": 8}),
            json!({"input_tokens": -1, "output_tokens": 8}),
            json!({"input_tokens": 1.5, "output_tokens": 8}),
            json!({"input_tokens": null, "output_tokens": 8}),
            json!({"input_tokens": 1e300, "output_tokens": 8}),
            json!({}),
            json!([10, 8]),
            json!(null),
            json!("input_tokens"),
        ] {
            check(&value, None);
        }
        check(&json!({"input_tokens": 10.0, "output_tokens": 8.0}), Some(usage(10, 8, 0, 0, None)));
        check(
            &json!({"input_tokens": "?", "prompt_tokens": 10, "output_tokens": 8}),
            Some(usage(10, 8, 0, 0, None)),
        );
    }

    #[test]
    fn caches_and_reasoning_are_brought_to_the_normal_form() {
        let anthropic = json!({"input_tokens": 4, "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 2000, "output_tokens": 9});
        check(&anthropic, Some(usage(4, 9, 2000, 100, None)));
        let codex = json!({"input_tokens": 1200, "cached_input_tokens": 1000, "cache_write_input_tokens": 50,
            "output_tokens": 34, "reasoning_output_tokens": 12});
        check(&codex, Some(usage(150, 34, 1000, 50, Some(12))));
        let responses = json!({"input_tokens": 1200, "input_tokens_details": {"cached_tokens": 1000},
            "output_tokens": 34, "output_tokens_details": {"reasoning_tokens": 12}, "total_tokens": 1234});
        check(&responses, Some(usage(200, 34, 1000, 0, Some(12))));
        let chat = json!({"prompt_tokens": 11, "completion_tokens": 20, "total_tokens": 31,
            "prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 13}});
        check(&chat, Some(usage(8, 20, 3, 0, Some(13))));
        let pi = json!({"input": 8, "output": 20, "cacheRead": 3, "cacheWrite": 0, "reasoning": 13,
            "totalTokens": 31, "cost": {"input": 0, "output": 0}});
        check(&pi, Some(usage(8, 20, 3, 0, Some(13))));
        let gemini_stats = json!({"total_tokens": 36, "input_tokens": 22, "output_tokens": 14, "cached": 6,
            "input": 16, "duration_ms": 175});
        check(&gemini_stats, Some(usage(16, 14, 6, 0, None)));
        let gemini_api = json!({"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 31,
            "cachedContentTokenCount": 3, "thoughtsTokenCount": 13});
        check(&gemini_api, Some(usage(8, 20, 3, 0, Some(13))));
    }

    #[test]
    fn a_total_decides_what_the_names_leave_open() {
        let qwen =
            json!({"input_tokens": 11, "output_tokens": 7, "cache_read_input_tokens": 3, "total_tokens": 18});
        check(&qwen, Some(usage(8, 7, 3, 0, None)));
        let opencode =
            json!({"total": 31, "input": 8, "output": 7, "reasoning": 13, "cache": {"write": 0, "read": 3}});
        check(&opencode, Some(usage(8, 20, 3, 0, Some(13))));
        let nonsense =
            json!({"input_tokens": 11, "output_tokens": 7, "cache_read_input_tokens": 3, "total_tokens": 5});
        check(&nonsense, Some(usage(11, 7, 3, 0, None)));
    }

    #[test]
    fn more_cached_than_read_does_not_wrap() {
        let value = json!({"input_tokens": 5, "cached_input_tokens": 9, "output_tokens": u64::MAX,
            "thoughtsTokenCount": 7});
        check(&value, Some(usage(0, u64::MAX, 9, 0, Some(7))));
    }

    #[test]
    fn an_estimate_rounds_up() {
        for (chars, tokens) in [(0, 0), (1, 1), (4, 1), (5, 2), (u64::MAX, u64::MAX / 4 + 1)] {
            assert_eq!(estimate(chars, 0), usage(tokens, 0, 0, 0, None));
            assert_eq!(estimate(0, chars), usage(0, tokens, 0, 0, None));
        }
    }
}
