//! Explains what would follow a failure, by simulating the decisions of a run.
//!
//! The verdicts and reasons are those of a real run ([`Explanation::after`]); this module only formats them.

use bowline::route::{Explanation, NextStep, OutlookStep, RetryOutlook, RouteStop, between};
use bowline::{Category, Code, Failure, Footprint};
use bowline_protocol::Millis;
use serde_json::{Value, json};

use crate::args::route::RouteArgs;
use crate::ui::tables::{Layout, TextTable};

/// The maximum number of waits in a list. Of more, the first two and the last are shown.
const LISTED: usize = 4;

/// The maximum number of attempts in a table. `--json` has more.
const SHOWN: usize = 30;

/// The assumptions about the failed attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct AssumedFailure {
    /// The category of the failure; `None` for each of them.
    category: Option<Category>,
    /// Whether a tool had run.
    tool_ran: bool,
    /// The wait that the agent reported.
    retry_after: Option<Millis>,
}

impl AssumedFailure {
    pub(super) fn of(args: &RouteArgs) -> Self {
        let millis = |span: std::time::Duration| Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        Self { category: args.after, tool_ran: args.tool_ran, retry_after: args.retry_after.map(millis) }
    }

    /// Returns whether the caller gave any assumption.
    pub(super) fn is_asked(&self) -> bool {
        self.category.is_some() || self.tool_ran || self.retry_after.is_some()
    }

    /// Returns the assumed footprint of the attempt.
    fn footprint(&self) -> Footprint {
        if self.tool_ran { Footprint::ToolRan } else { Footprint::NoWork }
    }

    /// Simulates each assumed failure.
    fn played(&self, explained: &Explanation) -> Vec<(Category, RetryOutlook)> {
        let all = Category::ALL.into_iter().filter(|it| self.category.is_none_or(|wanted| wanted == *it));
        let outlook = |category| {
            let failure = Failure {
                retry_after_ms: self.retry_after,
                ..Failure::new(category, Code::Unknown, "it failed")
            };
            (category, explained.after(&failure, self.footprint()))
        };
        all.map(outlook).collect()
    }
}

/// Formats the table: a row for each category, equal ones together, and all steps if one category is given.
pub(super) fn in_words(explained: &Explanation, suppose: &AssumedFailure, layout: Layout) -> String {
    let played = suppose.played(explained);
    let mut rows: Vec<(String, [String; 3])> = Vec::new();
    for (category, outlook) in &played {
        let cells = row(*category, outlook, explained.turns());
        match rows.iter_mut().find(|(_, known)| *known == cells) {
            Some((names, _)) => names.push_str(&format!(", {category}")),
            None => rows.push((category.to_string(), cells)),
        }
    }
    let all = Category::ALL.map(Category::as_str).join(", ");
    let rows = rows.into_iter().map(|(names, [retried, then, why])| {
        [if names == all { "every failure".to_owned() } else { names }, retried, then, why]
    });
    let mut text = TextTable::new(["AFTER", "RETRY", "THEN", "WHY"], rows).render(layout);
    text.push('\n');
    match (&played[..], suppose.category) {
        ([(category, outlook)], Some(_)) => {
            text.push_str(&steps(*category, outlook, explained.turns(), layout));
        }
        _ if suppose.tool_ran || explained.rules.repeat_tools => {
            text.push_str(&layout.paragraph(0, "the run ends if it exceeds a budget or is cancelled"));
        }
        _ => text.push_str(&layout.paragraph(
            0,
            "the run ends if it exceeds a budget, is cancelled, or fails after a tool ran or may have run",
        )),
    }
    text
}

/// Formats one row: the retries of each provider, the providers after it, and why the run ends.
fn row(category: Category, outlook: &RetryOutlook, turns: &[RouteStop]) -> [String; 3] {
    let mut agents: Vec<(usize, Vec<&OutlookStep>)> = Vec::new();
    for step in &outlook.steps {
        match agents.last_mut() {
            Some((turn, steps)) if *turn == step.turn => steps.push(step),
            _ => agents.push((step.turn, vec![step])),
        }
    }
    let each: Vec<String> = agents.iter().map(|(_, steps)| again(steps)).collect();
    let alike = each.iter().all(|words| Some(words) == each.first());
    let retried = match &each[..] {
        [words, ..] if alike && (each.len() == 1 || words == NOT) => words.clone(),
        [words, ..] if alike => format!("each {words}"),
        _ => agents
            .iter()
            .zip(&each)
            .map(|((turn, _), words)| format!("{}: {words}", turns[*turn].name))
            .collect::<Vec<_>>()
            .join("; "),
    };
    let others: Vec<String> = agents.iter().skip(1).map(|(turn, _)| called(&turns[*turn], turns)).collect();
    let end = if outlook.goes_on { "continues" } else { "ends" };
    let then = match others.is_empty() {
        true => end.to_owned(),
        false => format!("tries {}; {end}", others.join(", ")),
    };
    let why = outlook.steps.last().map(|step| at_last(why(category, step)).to_owned());
    [retried, then, why.unwrap_or_default()]
}

/// The cell of a provider without retries.
const NOT: &str = "no";

/// Describes the retries of a provider and the waits before them.
fn again(steps: &[&OutlookStep]) -> String {
    let waits = |wanted: fn(&NextStep) -> bool| {
        let found = steps.iter().filter(|step| wanted(&step.verdict.next));
        found.map(|step| between(step.wait.0, step.wait.1)).collect::<Vec<_>>()
    };
    let retries = waits(|next| matches!(next, NextStep::Retry { .. }));
    let limits = waits(|next| matches!(next, NextStep::Wait { .. }));
    let mut parts = Vec::new();
    if !retries.is_empty() {
        parts.push(format!("{}, after {}", times(retries.len()), list(retries)));
    }
    if !limits.is_empty() {
        parts.push(format!("{}, when the limit resets after {}", times(limits.len()), list(limits)));
    }
    if parts.is_empty() { NOT.to_owned() } else { parts.join("; ") }
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// Lists waits, without repetitions.
fn list(mut waits: Vec<String>) -> String {
    waits.dedup();
    if waits.len() > LISTED {
        let last = waits.pop().unwrap_or_default();
        waits.truncate(2);
        waits.push(format!("… {last}"));
    }
    // Write `up to` once, before the first.
    let (first, rest) = waits.split_at(1);
    let rest = rest.iter().map(|wait| wait.replace("up to ", ""));
    let listed = first.iter().cloned().chain(rest).collect::<Vec<_>>();
    listed.join(", ")
}

/// Names a provider, with the model if the provider is tried with several models.
fn called(asked: &RouteStop, turns: &[RouteStop]) -> String {
    let several = turns.iter().filter(|other| other.name == asked.name).count() > 1;
    match asked.model.as_ref().filter(|_| several) {
        Some(model) => format!("{} with {model}", asked.name),
        None => asked.name.clone(),
    }
}

/// Returns the reason, without the category, which has its own column.
fn why(category: Category, step: &OutlookStep) -> &str {
    let reason = step.verdict.reason.as_str();
    let named = category.as_str().replace('_', " ");
    reason.strip_prefix(&named).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(reason)
}

/// Removes the part about retries, which has its own column, unless it gives a reason.
fn at_last(why: &str) -> &str {
    match why.split_once("; ") {
        Some((retries, rest)) if !retries.contains("because") => rest,
        _ => why,
    }
}

/// Formats each attempt, and what follows if it fails.
fn steps(category: Category, outlook: &RetryOutlook, turns: &[RouteStop], layout: Layout) -> String {
    let rows = outlook.steps.iter().take(SHOWN).zip(1..).map(|(step, number): (_, usize)| {
        [number.to_string(), called(&turns[step.turn], turns), why(category, step).to_owned()]
    });
    let mut text = TextTable::new(["ATTEMPT", "NAME", "IF IT FAILS"], rows).render(layout);
    if outlook.goes_on || outlook.steps.len() > SHOWN {
        text.push_str("and so on\n");
    }
    text
}

/// Returns all of it as JSON.
pub(super) fn in_json(explained: &Explanation, suppose: &AssumedFailure) -> Value {
    let turns = explained.turns();
    if turns.is_empty() {
        return json!([]);
    }
    let attempt = |step: &OutlookStep| {
        let then = match step.verdict.next {
            NextStep::Retry { .. } => "retry",
            NextStep::Wait { .. } => "wait",
            NextStep::FallBack => "fall_back",
            NextStep::Stop => "end",
        };
        let next = step.next.map(|turn| &turns[turn]);
        json!({
            "name": turns[step.turn].name,
            "model": turns[step.turn].model,
            "retries": step.retries,
            "then": then,
            "wait_ms": next.map(|_| json!({"at_least": step.wait.0.0, "at_most": step.wait.1.0})),
            "next": next.map(|it| json!({"name": it.name, "model": it.model})),
            "reason": step.verdict.reason,
        })
    };
    let outlook = |(category, outlook): (Category, RetryOutlook)| {
        json!({
            "category": category,
            "tool_ran": suppose.tool_ran,
            "retry_after_ms": suppose.retry_after,
            "attempts": outlook.steps.iter().map(attempt).collect::<Vec<_>>(),
            "goes_on": outlook.goes_on,
        })
    };
    suppose.played(explained).into_iter().map(outlook).collect()
}
