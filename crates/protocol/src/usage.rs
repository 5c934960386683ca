//! Tokens and costs, in one normal form.

use serde::{Deserialize, Serialize};

/// Tokens spent, in the normal form that every provider's numbers are brought to.
///
/// `input` excludes what was read from or written to a cache; reasoning is part of `output`;
/// `total = input + output + cache_read + cache_write`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Prompt tokens that no cache served.
    pub input: u64,
    /// Generated tokens, reasoning included.
    pub output: u64,
    /// Prompt tokens read from a cache.
    pub cache_read: u64,
    /// Prompt tokens written to a cache.
    pub cache_write: u64,
    /// How many of `output` were reasoning, where the provider tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Returns the sum of the four counts.
    pub fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    /// Adds another turn or call.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            reasoning: match (self.reasoning, other.reasoning) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
            },
        }
    }

    /// Returns the difference to an earlier cumulative report. A count that went down counts from zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let fell = self.input < earlier.input
            || self.output < earlier.output
            || self.cache_read < earlier.cache_read
            || self.cache_write < earlier.cache_write;
        if fell {
            return *self;
        }
        Self {
            input: self.input - earlier.input,
            output: self.output - earlier.output,
            cache_read: self.cache_read - earlier.cache_read,
            cache_write: self.cache_write - earlier.cache_write,
            reasoning: self.reasoning.map(|now| now.saturating_sub(earlier.reasoning.unwrap_or(0))),
        }
    }
}

/// The period that a usage report covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// One request to the model.
    PerCall,
    /// One turn, with all its requests.
    PerTurn,
    /// Everything since the session began. Differenced, never summed.
    Cumulative,
}

/// Where the numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The agent told us.
    Reported,
    /// We counted characters: one token for every four, rounded up.
    Estimated,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Usage = Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, reasoning: Some(1) };

    #[test]
    fn the_total_is_the_sum_of_four() {
        assert_eq!(ONE.total(), 10);
        assert_eq!(Usage { input: u64::MAX, ..ONE }.total(), u64::MAX);
    }

    #[test]
    fn cumulative_reports_are_differenced() {
        let two = ONE.plus(&ONE);
        assert_eq!(two.since(&ONE), ONE);
        assert_eq!(ONE.since(&two), ONE, "a counter that fell has been reset");
    }
}
