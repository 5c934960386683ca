//! `bowline route`: explains which provider the router would choose, why it would skip the others, and what would follow a
//! failure.

mod after;
#[cfg(test)]
mod tests;

use bowline::Task;
use bowline::route::Explanation;
use bowline_providers::ansi::harmless;
use serde_json::json;

use super::run::{self, RequestTarget, ResolvedRequest};
use crate::args::request::RequestArgs;
use crate::args::route::RouteArgs;
use crate::error::{self, CommandError, Fault};
use crate::remedies;
use crate::ui::Stdout;
use crate::ui::Ui;
use crate::ui::tables::{Layout, TextTable, Tone};
use after::AssumedFailure;

/// The prompt if none is given. Only its length matters.
const PROMPT: &str = "Say hello.";

/// Runs the command.
pub(crate) fn run(args: &RouteArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let explained =
        task(&ResolvedRequest::of(&with_router(&args.request))?)?.explain().map_err(CommandError::from)?;
    let text = answer(args, &explained, stdout.layout());
    if let Some(strange) = &explained.strange_hint {
        Ui::new().warning(strange);
    }
    stdout.print_laid_out(&text)?;
    match explained.problem {
        None => Ok(()),
        Some(problem) => {
            let route = bowline::route::NoRoute { problem, verdicts: explained.verdicts };
            // The table and the JSON have the reason of every candidate.
            if args.explain || args.json {
                return Err(error::no_route_explained(&route));
            }
            Err(CommandError::from(bowline::Error::NoRoute(Box::new(route))))
        }
    }
}

/// Makes the task to explain.
fn task(resolved: &ResolvedRequest) -> Result<Task, CommandError> {
    let one = match &resolved.target {
        RequestTarget::One(one) => Some(one),
        RequestTarget::Router => None,
        RequestTarget::Several(_) => {
            let error = CommandError::new(Fault::Usage, "`bowline route` explains one provider at a time");
            return Err(error.hint("name one of the providers; `bowline run` runs all of them in parallel"));
        }
    };
    // Read standard input only if the prompt is `-`.
    let prompt = match resolved.args.prompt.as_deref() {
        Some("-") => run::prompt(Some("-"))?,
        said => said.unwrap_or(PROMPT).to_owned(),
    };
    resolved.task(&prompt, one)
}

/// Sets `--provider auto` if the request names no provider.
fn with_router(args: &RequestArgs) -> RequestArgs {
    let named = args.provider.is_some() || args.executable.is_some() || args.profile.is_some();
    let provider = if named || args.resume.is_some() { None } else { Some(bowline::route::AUTO.to_owned()) };
    RequestArgs { provider: args.provider.clone().or(provider), ..args.clone() }
}

/// Formats the explanation.
fn answer(args: &RouteArgs, explained: &Explanation, layout: Layout) -> String {
    let suppose = AssumedFailure::of(args);
    if args.json {
        let json = format!("{:#}\n", in_json(explained, &suppose));
        return if layout == Layout::Pipe { json } else { harmless(&json).into_owned() };
    }
    let mut text = match (args.explain, suppose.is_asked()) {
        (true, _) => in_words(explained, layout),
        (false, true) => String::new(),
        (false, false) => {
            return first(explained).map_or_else(String::new, |first| layout.paragraph(0, &first));
        }
    };
    // Without a candidate there is no failure to explain.
    if !explained.turns().is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&after::in_words(explained, &suppose, layout));
    }
    text
}

/// Returns the providers that would be tried, in their order.
fn in_order(explained: &Explanation) -> Vec<&bowline::route::CandidateVerdict> {
    let mut asked: Vec<_> = explained.verdicts.iter().filter(|verdict| verdict.turn.is_some()).collect();
    asked.sort_by_key(|verdict| verdict.turn);
    asked
}

fn first(explained: &Explanation) -> Option<String> {
    let first = *in_order(explained).first()?;
    Some(match &first.model {
        Some(model) => format!("{} {model}", first.name),
        None => first.name.clone(),
    })
}

fn in_words(explained: &Explanation, layout: Layout) -> String {
    let others = explained.verdicts.iter().filter(|verdict| verdict.turn.is_none());
    let rows = in_order(explained).into_iter().chain(others).map(|verdict| {
        [
            verdict.turn.map_or_else(|| "-".to_owned(), |turn| turn.to_string()),
            verdict.name.clone(),
            verdict.model.clone().unwrap_or_else(|| "its default".to_owned()),
            remedies::with_flags(&verdict.reason),
        ]
    });
    let table = TextTable::new(["ORDER", "NAME", "MODEL", "WHY"], rows).whole(&[0, 1]).tone(0, tone);
    let mut text = table.render(layout);
    text.push('\n');
    for line in rules(explained) {
        text.push_str(&layout.paragraph(0, &line));
    }
    text
}

/// Returns the colour of an order: skipped providers are faint.
fn tone(turn: &str) -> Tone {
    match turn {
        "1" => Tone::Good,
        "-" => Tone::Faint,
        _ => Tone::Plain,
    }
}

/// Describes the rules of the choice, a line each.
fn rules(explained: &Explanation) -> Vec<String> {
    let rules = &explained.rules;
    let retries = match rules.retries {
        1 => "1 retry".to_owned(),
        retries => format!("{retries} retries"),
    };
    let (strategy, fallback) = (explained.strategy.as_str(), rules.fallback.as_str());
    let by = match &explained.router {
        Some(path) => format!("by {}", path.display()),
        None => "no router.yaml".to_owned(),
    };
    let mut lines = vec![format!("strategy {strategy}, {retries} each, fallback {fallback}, {by}")];
    if let Some(until) = explained.waits_until {
        lines.push(format!("the run would first wait for the limit, until {until}"));
    }
    if let Some((name, model)) = &explained.fallback_model {
        lines.push(format!("the first provider falls back to {name} with {model}"));
    }
    if !explained.without_effect.is_empty() {
        lines.push(format!("descriptive keys without effect: {}", explained.without_effect.join(", ")));
    }
    lines
}

fn in_json(explained: &Explanation, suppose: &AssumedFailure) -> serde_json::Value {
    let candidates: Vec<_> = explained
        .verdicts
        .iter()
        .map(|it| json!({"name": it.name, "model": it.model, "turn": it.turn, "reason": it.reason}))
        .collect();
    json!({
        "hint": explained.hint,
        "strange_hint": explained.strange_hint,
        "model": explained.model,
        "strategy": explained.strategy.as_str(),
        "retries": explained.rules.retries,
        "fallback": explained.rules.fallback.as_str(),
        "wait_for_limit": explained.rules.wait_for_limit,
        "waits_until": explained.waits_until.map(|at| at.to_string()),
        "repeat_tools": explained.rules.repeat_tools,
        "first_wait_ms": explained.rules.first_wait.0,
        "longest_wait_ms": explained.rules.longest_wait.0,
        "fallback_model": explained.fallback_model.as_ref().map(|(name, model)| json!({"name": name, "model": model})),
        "router": explained.router.as_ref().map(|path| path.display().to_string()),
        "without_effect": explained.without_effect,
        "candidates": candidates,
        "problem": explained.problem.as_ref().map(ToString::to_string),
        "after": after::in_json(explained, suppose),
    })
}
