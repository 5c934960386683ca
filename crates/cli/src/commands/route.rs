//! `bowline route`: who would be asked, and why the others would not.

use std::io::Write as _;

use bowline::route::Explanation;
use serde_json::json;

use super::tables::table;
use crate::args::route::RouteArgs;
use crate::error::CommandError;
use crate::output::Stdout;

/// What the choice is made for: any prompt, because what it says does not matter.
const PROMPT: &str = "Say hello.";

/// Runs the command.
pub(crate) fn run(args: &RouteArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let mut task = bowline::task(PROMPT).provider(args.provider.as_deref().unwrap_or(bowline::route::AUTO));
    if let Some(hint) = &args.hint {
        task = task.hint(hint);
    }
    if let Some(model) = &args.model {
        task = task.model(model);
    }
    if let Some(cwd) = &args.cwd {
        task = task.cwd(std::path::absolute(cwd).unwrap_or_else(|_| cwd.clone()));
    }
    let explained = task.explain().map_err(CommandError::from)?;
    let text = match (args.json, args.explain) {
        (true, _) => format!("{:#}\n", in_json(&explained)),
        (false, true) => in_words(&explained),
        (false, false) => first(&explained),
    };
    if let Some(strange) = &explained.strange_hint {
        let line = format!("warning: {}\n", bowline_providers::ansi::harmless(strange));
        // Nothing can be done about a standard error that does not take it.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    stdout.print(&text)?;
    match explained.problem {
        None => Ok(()),
        Some(problem) => {
            let route = bowline::route::NoRoute { problem, verdicts: explained.verdicts };
            Err(CommandError::from(bowline::Error::NoRoute(Box::new(route))))
        }
    }
}

/// Returns those who would be asked, in their order.
fn in_order(explained: &Explanation) -> Vec<&bowline::route::Verdict> {
    let mut asked: Vec<_> = explained.verdicts.iter().filter(|verdict| verdict.turn.is_some()).collect();
    asked.sort_by_key(|verdict| verdict.turn);
    asked
}

fn first(explained: &Explanation) -> String {
    match in_order(explained).first() {
        Some(verdict) => match &verdict.model {
            Some(model) => format!("{} {model}\n", verdict.name),
            None => format!("{}\n", verdict.name),
        },
        None => String::new(),
    }
}

fn in_words(explained: &Explanation) -> String {
    let others = explained.verdicts.iter().filter(|verdict| verdict.turn.is_none());
    let rows = in_order(explained).into_iter().chain(others).map(|verdict| {
        [
            verdict.turn.map_or_else(|| "-".to_owned(), |turn| turn.to_string()),
            verdict.name.clone(),
            verdict.model.clone().unwrap_or_else(|| "its default".to_owned()),
            verdict.reason.clone(),
        ]
    });
    let mut text = table(["TURN", "NAME", "MODEL", "WHY"], rows);
    let rules = &explained.rules;
    let retries = match rules.retries {
        1 => "1 retry".to_owned(),
        retries => format!("{retries} retries"),
    };
    let (strategy, fallback) = (explained.strategy.as_str(), rules.fallback.as_str());
    text.push_str(&format!("\nstrategy {strategy}, {retries} each, fallback {fallback}"));
    match &explained.router {
        Some(path) => text.push_str(&format!(", by {}\n", path.display())),
        None => text.push_str(", no router.yaml\n"),
    }
    if let Some((name, model)) = &explained.fallback_model {
        text.push_str(&format!("the first falls back to {name} with {model}\n"));
    }
    if !explained.without_effect.is_empty() {
        text.push_str(&format!(
            "read there and without effect, because it only describes: {}\n",
            explained.without_effect.join(", ")
        ));
    }
    bowline_providers::ansi::harmless(&text).into_owned()
}

fn in_json(explained: &Explanation) -> serde_json::Value {
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
        "first_wait_ms": explained.rules.first_wait.0,
        "longest_wait_ms": explained.rules.longest_wait.0,
        "fallback_model": explained.fallback_model.as_ref().map(|(name, model)| json!({"name": name, "model": model})),
        "router": explained.router.as_ref().map(|path| path.display().to_string()),
        "without_effect": explained.without_effect,
        "candidates": candidates,
        "problem": explained.problem.as_ref().map(ToString::to_string),
    })
}
