//! Prices of models: a dated table that ships, and the entries that a caller replaces.
//!
//! An agent's own report of the cost is always better. The table is for programs that only count tokens, for a budget that has to
//! be checked before the bill comes, and for choosing the cheaper model. A model that is not in the table has no price:
//! the result reports that, and nothing is guessed.

use std::sync::LazyLock;

use bowline_protocol::Usage;
use serde::{Deserialize, Serialize};

use crate::pattern;

/// The table that ships.
static SHIPPED: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let json = include_str!(concat!(env!("OUT_DIR"), "/prices.json"));
    let file: File = serde_json::from_str(json).expect("the table that ships is read by a test");
    file.price
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    price: Vec<Row>,
}

/// The price of some models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Names of models; `*` is any text.
    pub models: Vec<String>,
    /// The day on which the price was read.
    pub as_of: String,
    /// US dollars per million tokens of the prompt.
    pub input: f64,
    /// Per million tokens of the answer.
    pub output: f64,
    /// Per million tokens that were read from a cache.
    pub cache_read: f64,
    /// Per million tokens that were written to a cache.
    pub cache_write: f64,
}

/// The price of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// US dollars per million tokens of the prompt.
    pub input: f64,
    /// Per million tokens of the answer.
    pub output: f64,
    /// Per million tokens that were read from a cache.
    pub cache_read: f64,
    /// Per million tokens that were written to a cache.
    pub cache_write: f64,
    /// The day on which the price was read, or its source.
    pub as_of: String,
}

impl Price {
    /// Returns what tokens cost, in US dollars.
    pub fn of(&self, usage: &Usage) -> f64 {
        let each = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.cache_read),
            (usage.cache_write, self.cache_write),
        ];
        each.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1_000_000.0
    }

    /// Returns one figure to compare models by: a million tokens, three of the prompt to one of the answer.
    pub fn blended(&self) -> f64 {
        (3.0 * self.input + self.output) / 4.0
    }
}

impl From<&Row> for Price {
    fn from(row: &Row) -> Self {
        Self {
            input: row.input,
            output: row.output,
            cache_read: row.cache_read,
            cache_write: row.cache_write,
            as_of: row.as_of.clone(),
        }
    }
}

/// Returns the table that ships.
pub fn shipped() -> &'static [Row] {
    &SHIPPED
}

/// Returns the price of a model: the caller's own rows come first.
pub fn of(model: &str, own: &[Row]) -> Option<Price> {
    // `vendor/model` is how programs that serve several vendors name them, and some write `4.5` for `4-5`.
    let bare = model.rsplit('/').next().unwrap_or(model);
    let names = [model.to_owned(), bare.to_owned(), bare.replace('.', "-")];
    let matches =
        |row: &&Row| row.models.iter().any(|known| names.iter().any(|name| pattern::matches(known, name)));
    own.iter().chain(shipped()).find(matches).map(Price::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_ships_is_the_one_that_is_written() {
        let written: File = toml::from_str(include_str!("prices.toml")).expect("is a table");
        assert_eq!(written.price, shipped());
    }

    #[test]
    fn every_row_is_a_price_with_a_date() {
        assert!(shipped().len() > 15);
        for row in shipped() {
            assert!(row.as_of.parse::<jiff::civil::Date>().is_ok(), "{row:?}");
            assert!(!row.models.is_empty(), "{row:?}");
            for price in [row.input, row.output, row.cache_read, row.cache_write] {
                assert!(price.is_finite() && price > 0.0, "{row:?}");
            }
            assert!(row.output >= row.input && row.cache_read <= row.input, "{row:?}");
        }
    }

    #[test]
    fn no_row_hides_behind_an_earlier_one() {
        for (place, row) in shipped().iter().enumerate() {
            for name in &row.models {
                let plain = name.replace('*', "");
                assert_eq!(of(&plain, &[]), Some(Price::from(row)), "{name} of row {place}");
            }
        }
    }

    #[test]
    fn models_are_found_as_programs_name_them() {
        let input = |model: &str| of(model, &[]).map(|price| price.input);
        assert_eq!(input("claude-opus-5-5"), Some(4.0));
        assert_eq!(input("anthropic/claude-opus-4.5"), Some(5.0));
        assert_eq!(input("claude-sonnet-4-5-20250929"), Some(3.0));
        assert_eq!(input("gpt-5.5"), Some(5.0));
        assert_eq!((input("openai/gpt-5.5-2026-04-23"), input("gpt-5.6")), (Some(5.0), Some(4.0)));
        for unknown in ["gpt-99", "gpt-5.2-pro", "gpt-5.4-codex", "gpt-5.5-next", "gpt-6", "gemini-3.8-flash"]
        {
            assert_eq!(input(unknown), None, "nothing is guessed: {unknown}");
        }
    }

    #[test]
    fn a_row_of_ones_own_comes_first() {
        let own = Row { models: vec!["gpt-5.5".into()], input: 1.0, ..shipped()[0].clone() };
        assert_eq!(of("gpt-5.5", &[own]).unwrap().input, 1.0);
    }

    #[test]
    fn a_cost_counts_every_kind_of_token() {
        let price = of("claude-sonnet-4-5", &[]).unwrap();
        let usage = Usage {
            input: 1_000_000,
            output: 100_000,
            cache_read: 2_000_000,
            cache_write: 400_000,
            reasoning: None,
        };
        assert!((price.of(&usage) - (3.0 + 1.5 + 0.6 + 1.5)).abs() < 1e-9);
        assert!((price.blended() - 6.0).abs() < 1e-9);
    }
}
