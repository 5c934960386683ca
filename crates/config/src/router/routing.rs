//! Routing options of the router's file: the strategy, retries and fallbacks, in all places where the file variants have them.

use bowline_engine::retry::Fallback;
use bowline_engine::route::{RouteStrategy, Truncation, canonical};
use bowline_protocol::Millis;

use super::RouterParser;
use crate::yaml::{Fields, Node, YamlReader};
use bowline::settings::ConfigError;
use bowline::settings::HintTuning;

const RETRIES: &str = "a whole number from 0";
const MILLIS: &str = "a number of milliseconds";

impl RouterParser {
    pub(super) fn routing(&mut self, reader: &YamlReader<'_>, node: &Node) -> Result<(), ConfigError> {
        let mut fields = reader.fields(node, "a map with `strategy` and `fallback`")?;
        if let Some(node) = fields.take("strategy") {
            self.0.routing.strategy =
                Some(reader.choice(node, &RouteStrategy::ALL.map(|it| (it.as_str(), it)))?);
        }
        if let Some(node) = fields.take("fallback") {
            // `retry` retries the same provider and never falls back.
            let choices = [
                ("next", Fallback::Next),
                ("none", Fallback::None),
                ("any", Fallback::Any),
                ("retry", Fallback::None),
            ];
            self.0.routing.fallback = Some(reader.choice(node, &choices)?);
        }
        if let Some(node) = fields.take("max_retries") {
            self.0.routing.max_retries = Some(reader.number(node, RETRIES)?);
        }
        if let Some(node) = fields.take("model_hints") {
            for (key, value) in reader.fields(node, "a map of hints")?.rest() {
                let hint = canonical(&reader.word(key, "a hint such as `fast`")?);
                let mut fields = reader.fields(value, "a map with `max_tokens` and `temperature`")?;
                let tuning = HintTuning {
                    max_tokens: fields
                        .take("max_tokens")
                        .map(|it| reader.number(it, "a number of tokens"))
                        .transpose()?,
                    temperature: fields.take("temperature").map(|it| reader.sampling(it)).transpose()?,
                    prefer_local: fields
                        .take("prefer_local")
                        .map(|it| reader.truth(it))
                        .transpose()?
                        .unwrap_or(false),
                };
                reader.finish(&fields, "a hint")?;
                self.0.routing.hints.insert(hint, tuning);
            }
        }
        if let Some(node) = fields.take("selection_timeout") {
            self.0.routing.selection_timeout = Some(reader.span(node)?);
        }
        self.shared(reader, &mut fields)?;
        reader.finish(&fields, "`routing`")
    }

    /// Reads the keys that one variant has at the top level and ours has in `routing`. Earlier values take precedence.
    fn shared(&mut self, reader: &YamlReader<'_>, fields: &mut Fields<'_>) -> Result<(), ConfigError> {
        for (key, place) in [
            ("max_latency_ms", &mut self.0.routing.max_latency),
            ("retry_backoff_ms", &mut self.0.routing.first_wait),
            ("retry_max_backoff_ms", &mut self.0.routing.longest_wait),
        ] {
            if let Some(node) = fields.take(key) {
                let millis = Millis(reader.number(node, MILLIS)?);
                place.get_or_insert(millis);
            }
        }
        if let Some(node) = fields.take("fallback_model") {
            let model = reader.word(node, "a model")?;
            self.0.routing.fallback_model.get_or_insert(model);
        }
        if let Some(node) = fields.take("enable_context_validation") {
            let fits = reader.truth(node)?;
            self.0.routing.fits.get_or_insert(fits);
        }
        if let Some(node) = fields.take("auto_truncate") {
            self.0.routing.shortens |= reader.truth(node)?;
        }
        if let Some(node) = fields.take("truncation_strategy") {
            let how = reader.choice(node, &Truncation::ALL.map(|it| (it.as_str(), it)))?;
            self.0.routing.truncation.get_or_insert(how);
        }
        Ok(())
    }

    /// Reads the keys that the other variants of the file have at the top level.
    pub(super) fn variants(
        &mut self,
        reader: &YamlReader<'_>,
        fields: &mut Fields<'_>,
    ) -> Result<(), ConfigError> {
        if let Some(node) = fields.take("budget_usd") {
            self.0.budgets.entry("request").or_default().cost = Some(reader.money(node)?);
        }
        self.cheap(reader, fields)?;
        if let Some(node) = fields.take("enable_fallback")
            && !reader.truth(node)?
        {
            self.0.routing.fallback.get_or_insert(Fallback::None);
        }
        if let Some(node) = fields.take("max_retries") {
            let retries = reader.number(node, RETRIES)?;
            self.0.routing.max_retries.get_or_insert(retries);
        }
        self.shared(reader, fields)?;
        let Some(node) = fields.take("strategy") else { return Ok(()) };
        let mut strategy = reader.fields(node, "a map")?;
        if let Some(node) = strategy.take("preference") {
            // The first has the highest priority. Providers that are not named come last.
            for (place, name) in reader.texts(node)?.iter().rev().enumerate() {
                if let Some(entry) = self.0.providers.iter_mut().find(|entry| entry.name == *name) {
                    entry.priority = entry.priority.max(1_000 + i64::try_from(place).unwrap_or(0));
                }
            }
        }
        if let Some(node) = strategy.take("budget") {
            let mut budget = reader.fields(node, "a map")?;
            for (key, scope) in [("max_cost_per_day", "day"), ("max_cost_per_request", "request")] {
                if let Some(node) = budget.take(key) {
                    self.0.budgets.entry(scope).or_default().cost = Some(reader.money(node)?);
                }
            }
            reader.finish(&budget, "`strategy.budget`")?;
        }
        if let Some(node) = strategy.take("fallback") {
            let mut fallback = reader.fields(node, "a map")?;
            if let Some(node) = fallback.take("enabled") {
                let rule = if reader.truth(node)? { Fallback::Next } else { Fallback::None };
                self.0.routing.fallback.get_or_insert(rule);
            }
            if let Some(node) = fallback.take("max_retries") {
                let retries = reader.number(node, RETRIES)?;
                self.0.routing.max_retries.get_or_insert(retries);
            }
            if let Some(node) = fallback.take("retry_delay_ms") {
                let delay = Millis(reader.number(node, MILLIS)?);
                self.0.routing.first_wait.get_or_insert(delay);
            }
            if let Some(node) = fallback.take("fallback_model") {
                let model = reader.word(node, "a model")?;
                self.0.routing.fallback_model.get_or_insert(model);
            }
            reader.finish(&fallback, "`strategy.fallback`")?;
        }
        if let Some(node) = strategy.take("performance") {
            let mut performance = reader.fields(node, "a map")?;
            if let Some(node) = performance.take("max_latency_ms") {
                let most = Millis(reader.number(node, MILLIS)?);
                self.0.routing.max_latency.get_or_insert(most);
            }
            self.cheap(reader, &mut performance)?;
            reader.finish(&performance, "`strategy.performance`")?;
        }
        reader.finish(&strategy, "`strategy`")
    }

    fn cheap(&mut self, reader: &YamlReader<'_>, fields: &mut Fields<'_>) -> Result<(), ConfigError> {
        if let Some(node) = fields.take("prefer_cheap")
            && reader.truth(node)?
        {
            self.0.routing.strategy.get_or_insert(RouteStrategy::LeastCost);
        }
        Ok(())
    }
}
