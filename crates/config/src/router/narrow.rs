//! A project's file that is not trusted: it may narrow and order what the user has, and add nothing.
//!
//! Where the user has a list of their own, the project's entries choose from it by name; how each is run stays as the user's
//! file sets. Without one, they choose from the providers that can be named anyway.

use std::collections::BTreeMap;

use bowline_engine::budget::Amounts;
use bowline_engine::retry::{self, Fallback};
use bowline_protocol::{Millis, Sampling};

use crate::trust::LeftOut;
use bowline::settings::{EntryKind, Lacks, Router, RouterEntry, Routing};

/// Narrows the user's list to what a project's file names, in its order. If it names nothing, the user's list stays. `longest` is
/// the user's limit of time for a run; an entry of the project cannot raise it.
pub(crate) fn narrowed(
    project: Router,
    own: Option<Router>,
    longest: Option<Millis>,
    left_out: &mut Vec<LeftOut>,
) -> Option<Router> {
    let mut entries = Vec::new();
    for entry in project.providers {
        let (line, name) = (Some(entry.line), Some(entry.name.clone()));
        let entry =
            RouterEntry { timeout: entry.timeout.map(|it| least(Some(it), longest).unwrap_or(it)), ..entry };
        match narrowed_entry(entry, own.as_ref()) {
            Ok(entry) => entries.push(entry),
            Err(reason) => left_out.push(LeftOut { path: project.path.clone(), line, name, reason }),
        }
    }
    let has_own = own.is_some();
    let base = own.unwrap_or_default();
    let mut budgets = project.budgets;
    lower(&mut budgets, &base.budgets);
    if entries.is_empty() {
        // Nothing is left of the project's list. The user's file counts, also one that has only budgets.
        return has_own.then_some(Router { budgets, ..base });
    }
    Some(Router {
        path: project.path,
        owner: project.owner,
        providers: entries,
        routing: narrowed_routing(project.routing, &base.routing),
        budgets,
        without_effect: project.without_effect,
    })
}

fn narrowed_entry(entry: RouterEntry, own: Option<&Router>) -> Result<RouterEntry, String> {
    // The review checked the keys of today's format. This check also covers a key that a later format adds.
    let plain = match &entry.kind {
        EntryKind::Agent { provider, binary } => binary.is_none() && !provider.starts_with("acp:"),
        EntryKind::Executable { .. } => false,
        EntryKind::Foreign(_) => true,
    };
    if !plain
        || !entry.env.is_empty()
        || !entry.options.is_empty()
        || !entry.unknown.is_empty()
        || entry.profile.is_some()
    {
        return Err("it needs trust".to_owned());
    }
    let Some(own) = own else { return Ok(RouterEntry { cost_per_1k: None, ..entry }) };
    let Some(base) = own.entry(&entry.name) else {
        return Err(format!("your own {} has no provider of this name", own.path.display()));
    };
    match (&entry.kind, &base.kind) {
        (EntryKind::Agent { provider: theirs, .. }, EntryKind::Agent { provider: yours, .. })
            if *theirs != entry.name && theirs != yours =>
        {
            Err(format!("your own {} has another provider of this name", own.path.display()))
        }
        _ => Ok(chosen(base.clone(), entry)),
    }
}

/// Takes the user's entry, in the place and with the bounds that the project's gives it.
fn chosen(base: RouterEntry, entry: RouterEntry) -> RouterEntry {
    let mut models = base.models;
    models.extend(entry.models);
    RouterEntry {
        line: entry.line,
        // A project can disable a provider, and never enable one.
        enabled: base.enabled && entry.enabled,
        priority: entry.priority,
        timeout: least(base.timeout, entry.timeout),
        model: entry.model.or(base.model),
        streaming: entry.streaming.or(base.streaming),
        sampling: Sampling {
            max_tokens: least(base.sampling.max_tokens, entry.sampling.max_tokens),
            temperature: entry.sampling.temperature.or(base.sampling.temperature),
            top_p: entry.sampling.top_p.or(base.sampling.top_p),
        },
        lacks: Lacks {
            tools: base.lacks.tools || entry.lacks.tools,
            multi_turn: base.lacks.multi_turn || entry.lacks.multi_turn,
            vision: base.lacks.vision || entry.lacks.vision,
            max_context: least(base.lacks.max_context, entry.lacks.max_context),
        },
        models,
        ..base
    }
}

/// Orders as the project wants, and asks no more often and no more agents than the user does.
fn narrowed_routing(project: Routing, own: &Routing) -> Routing {
    // `Fallback::ALL` goes from the strictest rule to the widest.
    let rank = |rule: Fallback| Fallback::ALL.into_iter().position(|known| known == rule);
    let usual = own.fallback.unwrap_or_default();
    let retries = own.max_retries.unwrap_or(retry::RETRIES);
    let longest_wait = own.longest_wait.unwrap_or(retry::LONGEST_WAIT);
    let mut hints = own.hints.clone();
    hints.extend(project.hints);
    Routing {
        strategy: project.strategy.or(own.strategy),
        fallback: project.fallback.filter(|rule| rank(*rule) <= rank(usual)).or(own.fallback),
        fallback_model: project.fallback_model.or_else(|| own.fallback_model.clone()),
        max_retries: project.max_retries.map(|asked| asked.min(retries)).or(own.max_retries),
        first_wait: project.first_wait.or(own.first_wait),
        longest_wait: project.longest_wait.map(|asked| asked.min(longest_wait)).or(own.longest_wait),
        max_latency: least(project.max_latency, own.max_latency),
        selection_timeout: least(project.selection_timeout, own.selection_timeout),
        fits: project.fits.or(own.fits),
        shortens: project.shortens || own.shortens,
        truncation: project.truncation.or(own.truncation),
        hints,
    }
}

/// Lowers budgets to those of another file. A budget that only one of them has stays.
pub(crate) fn lower(budgets: &mut BTreeMap<&'static str, Amounts>, others: &BTreeMap<&'static str, Amounts>) {
    for (scope, amounts) in others {
        let budget = budgets.entry(scope).or_default();
        *budget = smaller(*budget, *amounts);
    }
}

/// Returns the stricter of two limits.
pub(crate) fn smaller(own: Amounts, project: Amounts) -> Amounts {
    let cost = match (own.cost, project.cost) {
        (Some(own), Some(project)) => Some(own.min(project)),
        (own, project) => own.or(project),
    };
    Amounts { cost, tokens: least(own.tokens, project.tokens), time: least(own.time, project.time) }
}

fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
