//! The values that the library takes, from the settings and the router's file.

use std::collections::BTreeMap;

use bowline::budget::Amounts;
use bowline::settings::{BudgetLimits, ProviderSettings, RunSettings};
use bowline::{Fallback, StreamFallback, Unrestricted};
use bowline_engine::route::RouteStrategy;

use crate::router::smaller;
use crate::{Config, SettingOrigin};

impl Config {
    /// Returns the settings of runs as values for [`Task::settings`](bowline::Task::settings).
    pub fn run_settings(&self) -> RunSettings {
        let text = |key: &str| self.settings.text(key);
        let mut values = RunSettings::default();
        values.roster = self.places.roster();
        values.router.clone_from(&self.router);
        values.external = self.external.clone();
        values.strategy =
            text("route.strategy").and_then(|word| named(&RouteStrategy::ALL, RouteStrategy::as_str, word));
        values.retries = self.retries();
        values.fallback =
            text("route.fallback").and_then(|word| named(&Fallback::ALL, Fallback::as_str, word));
        values.wait_for_limit = self.settings.parsed("route.wait-for-limit");
        values.stream_fallback = text("run.stream-fallback")
            .and_then(|word| named(&StreamFallback::ALL, StreamFallback::as_str, word));
        values.unrestricted = text("permission.unrestricted")
            .map(|word| if word == "warn" { Unrestricted::Warn } else { Unrestricted::Refuse });
        values.providers = self.providers();
        let profile = |name: &str| Some((name.to_owned(), self.settings.profile(name)?));
        values.profiles = self.settings.profiles().into_iter().filter_map(profile).collect();
        values.prices = self.settings.prices();
        values.budgets = BudgetLimits {
            request: self.budget("request"),
            day: self.budget("day"),
            project: self.budget("project"),
        };
        values.attention = self.attention.clone();
        values.pins.clone_from(&self.pins);
        values.policy.clone_from(&self.policy);
        values
    }

    /// Returns the retries of the settings. A project's setting cannot raise what the router's file allows.
    fn retries(&self) -> Option<u32> {
        let setting = self.settings.get("route.retries")?;
        let many = u32::try_from(setting.value.parse::<u64>().ok()?).unwrap_or(u32::MAX);
        let listed = self.router.as_ref().and_then(|router| router.routing.max_retries);
        let by_project = matches!(setting.origin, SettingOrigin::Project(..));
        Some(if by_project { many.min(listed.unwrap_or(many)) } else { many })
    }

    /// Returns the options of single providers.
    fn providers(&self) -> BTreeMap<String, ProviderSettings> {
        let mut providers: BTreeMap<String, ProviderSettings> = BTreeMap::new();
        for (key, setting) in self.settings.all() {
            let Some((name, option)) = key.strip_prefix("providers.").and_then(|rest| rest.rsplit_once('.'))
            else {
                continue;
            };
            match option {
                "args" => providers.entry(name.to_owned()).or_default().args = self.settings.words(key),
                "format" => {
                    providers.entry(name.to_owned()).or_default().format = Some(setting.value.clone());
                }
                _ => {}
            }
        }
        providers
    }

    /// Returns the lower budget of the settings and of the router's file: either of them may come from a project, which cannot
    /// raise the user's.
    fn budget(&self, scope: &str) -> Amounts {
        let settings = self.settings.budget(scope);
        let router = self.router.as_ref().and_then(|router| router.budgets.get(scope).copied());
        smaller(settings, router.unwrap_or_default())
    }
}

/// Returns the value of a list with this name.
fn named<T: Copy>(all: &[T], name: fn(T) -> &'static str, word: &str) -> Option<T> {
    all.iter().copied().find(|one| name(*one) == word)
}
