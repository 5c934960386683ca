//! What a task may spend: the caller's limits, else those of the settings.

use std::path::Path;

use bowline_engine::budget::Amounts;

use super::Driver;
use crate::config::{Config, Places};
use crate::run::task::{JournalChoice, Task};
use crate::sessions::budget::{SpendingPlan, stricter};
use crate::sessions::journal::Home;

/// Returns what the run of a task may spend.
pub(super) fn plan(task: &Task, driver: &Driver) -> SpendingPlan {
    let (config, manifest) = (task.config.as_deref(), driver.manifest());
    let home = match &task.journal {
        // Pretended spending counts in no budget.
        _ if manifest.is_some_and(|manifest| manifest.pretends) => None,
        JournalChoice::At(home) => Some(home.clone()),
        // A task that leaves no trace still spends money. Record the amount and nothing else.
        JournalChoice::Default | JournalChoice::Temporary if !task.is_scripted() => Home::from_env().ok(),
        JournalChoice::Default | JournalChoice::Temporary | JournalChoice::None => None,
    };
    let project = match config {
        Some(config) => config.places.project(),
        None => Places::from_env(task.request.cwd.as_ref().map(Path::new)).project(),
    };
    let own_prices = config.map(|config| config.settings.prices()).unwrap_or_default();
    let own = Amounts { cost: task.request.max_cost_usd, ..task.spend };
    SpendingPlan {
        home,
        provider: driver.name().to_owned(),
        profile: task.profile.as_ref().map(|profile| profile.name.clone()),
        model: task.chosen_model().or_else(|| manifest?.told_model().map(str::to_owned)),
        project,
        prices: task.attempt_context.prices.iter().cloned().chain(own_prices).collect(),
        request_limits: merged(own, config, "request"),
        day_limits: merged(Amounts::default(), config, "day"),
        project_limits: merged(Amounts::default(), config, "project"),
        used: task.attempt_context.used,
        ephemeral: task.request.ephemeral,
        prompt_chars: task.request.prompt.chars().count() as u64,
    }
}

/// Returns the caller's limits, and where the caller sets none, the lower one of the settings and of the router's file: either of
/// them may come from a project, which cannot raise the user's.
fn merged(own: Amounts, config: Option<&Config>, scope: &str) -> Amounts {
    let settings = config.map(|config| config.settings.budget(scope)).unwrap_or_default();
    let router =
        config.and_then(|config| config.router.as_ref()?.budgets.get(scope).copied()).unwrap_or_default();
    let files = stricter(settings, router);
    Amounts {
        cost: own.cost.or(files.cost),
        tokens: own.tokens.or(files.tokens),
        time: own.time.or(files.time),
    }
}
