//! The limits of a task's spending: the caller's limits, else those of the settings.

use bowline_engine::budget::{Amounts, Budget};
use bowline_protocol::kinds::Notice;

use super::Driver;
use super::spec::RunSpec;
use crate::run::task::{AttemptContext, JournalChoice, Task};
use crate::sessions::budget::{BudgetError, Share, SpendTracker, SpendingPlan};
use crate::sessions::journal::Home;

/// Opens the tracker of what a run spends. Returns its budget, and notices about lines of the ledger that could not be read.
pub(super) fn open(
    task: &Task,
    context: &AttemptContext,
    spec: &RunSpec,
    share: Option<&Share>,
) -> Result<(SpendTracker, Budget, Vec<Notice>), BudgetError> {
    SpendTracker::open(plan(task, context, &spec.driver), share, &spec.session)
}

/// Returns what the run of a task may spend.
fn plan(task: &Task, context: &AttemptContext, driver: &Driver) -> SpendingPlan {
    let (settings, manifest) = (&task.settings, driver.manifest());
    let home = match &task.journal {
        // Pretended spending counts in no budget.
        _ if manifest.is_some_and(|manifest| manifest.pretends) => None,
        JournalChoice::At(home) => Some(home.clone()),
        // A task that leaves no trace still spends money. Record the amount and nothing else.
        JournalChoice::Default | JournalChoice::Temporary if !task.is_scripted() => {
            Home::of(task.variables()).ok()
        }
        JournalChoice::Default | JournalChoice::Temporary | JournalChoice::None => None,
    };
    let project = task.project().map(|project| project.directory);
    let own = Amounts { cost: task.request.max_cost_usd, ..task.spend };
    SpendingPlan {
        home,
        provider: driver.name().to_owned(),
        profile: task.profile.as_ref().map(|profile| profile.name.clone()),
        model: task.chosen_model().or_else(|| manifest?.told_model().map(str::to_owned)),
        project,
        prices: context.prices.iter().chain(&settings.prices).cloned().collect(),
        request_limits: merged(own, settings.budgets.request),
        day_limits: settings.budgets.day,
        project_limits: settings.budgets.project,
        used: context.used,
        ephemeral: task.request.ephemeral,
        prompt_chars: task.request.prompt.chars().count() as u64,
    }
}

/// Returns the caller's limits, and where the caller sets none, those of the settings.
fn merged(own: Amounts, set: Amounts) -> Amounts {
    Amounts { cost: own.cost.or(set.cost), tokens: own.tokens.or(set.tokens), time: own.time.or(set.time) }
}
