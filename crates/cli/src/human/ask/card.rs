//! The lines that show a request of the agent: what it wants, why, and what each key does.
//!
//! A person decides by these lines, so nothing is cut without a line that says so.

use bowline_protocol::kinds::{ApprovalAsked, QuestionAsked};
use bowline_protocol::{ApprovalCategory, ApprovalRuling, EnforcedBy, Excerpt, OptionEffect, Risk};
use bowline_providers::ansi;
use serde_json::Value;

use crate::human::calls::{self, ToolCall};
use crate::human::line::{Paint, PaintedLine};
use crate::human::tool_details::EditChange;
use crate::human::words::{self, Glyphs};

/// The limits of what is shown of a request.
#[derive(Clone, Copy, Debug)]
struct ShownPart {
    lines: usize,
    bytes: usize,
    /// Where the rest is.
    rest: &'static str,
}

/// The part that is shown at first.
const FIRST: ShownPart = ShownPart { lines: 24, bytes: 4 * 1024, rest: "? shows more" };

/// The part that `?` shows. Events have at most 32 KiB of a tool's input.
const ALL: ShownPart = ShownPart { lines: 2_000, bytes: 64 * 1024, rest: "too long to show" };

/// The part that a command prints that asks for nothing.
const PRINTED: ShownPart =
    ShownPart { lines: 200, bytes: 16 * 1024, rest: "`bowline status --json` prints the whole request" };

/// The maximum number of files that are listed.
const FILES: usize = 32;

/// The maximum number of choices of a question that are shown.
const CHOICES: usize = 64;

/// Facts beside the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct CardContext<'a> {
    /// The provider.
    pub(super) who: &'a str,
    /// The tool call that waits, if it is known.
    pub(super) call: Option<&'a ToolCall>,
    /// The working directory of the agent.
    pub(super) cwd: Option<&'a str>,
    pub(super) glyphs: Glyphs,
}

/// Returns the input of the tool that waits.
pub(super) fn input(asked: &ApprovalAsked, call: Option<&ToolCall>) -> Option<Value> {
    match &asked.input {
        Some(input) => input.read().ok(),
        None => call?.arguments(),
    }
}

/// Returns the command of an input, and the name of its field. A list of words is written as a shell reads it.
pub(super) fn command(input: &Value) -> Option<(&'static str, String)> {
    let (name, value) = ["command", "cmd"].iter().find_map(|name| Some((*name, input.get(name)?)))?;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let parts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
            parts?.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    Some((name, text)).filter(|(_, text)| !text.trim().is_empty())
}

/// Writes a word so that its end shows.
pub(in crate::human) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the lines of an approval.
pub(super) fn approval(asked: &ApprovalAsked, context: &CardContext<'_>) -> Vec<PaintedLine> {
    let mut lines = vec![title(asked, context)];
    body(asked, context, FIRST, &mut lines);
    lines
}

/// Returns the lines of an approval for a command that asks for nothing.
pub(super) fn printed(asked: &ApprovalAsked, context: &CardContext<'_>) -> Vec<PaintedLine> {
    let mut lines = vec![title(asked, context)];
    body(asked, context, PRINTED, &mut lines);
    lines
}

/// Returns the agent's own words for an approval that lasts: it decides what else such an approval allows.
pub(super) fn for_session(asked: &ApprovalAsked) -> Option<PaintedLine> {
    let lasting = asked.options.iter().filter(|option| option.effect == OptionEffect::AllowAlways);
    let labels: Vec<String> = lasting.map(|option| words::one_line(&option.label)).collect();
    (!labels.is_empty()).then(|| fact("for this session", &labels.join(", or ")))
}

/// Returns the lines of an approval with all details, and what each key does.
pub(super) fn explained(
    asked: &ApprovalAsked,
    keys: &[String],
    context: &CardContext<'_>,
) -> Vec<PaintedLine> {
    let mut lines = vec![title(asked, context)];
    body(asked, context, ALL, &mut lines);
    if let Some(input) = input(asked, context.call) {
        let text = serde_json::to_string_pretty(&input).unwrap_or_default();
        lines.push(PaintedLine::of(Paint::Dim, "  input:"));
        indented(&text, ALL, context.glyphs, &mut lines);
    }
    let held = match asked.enforced_by {
        EnforcedBy::Agent => "the agent itself waits for your decision",
        EnforcedBy::Flags => "the arguments that the agent was started with",
        EnforcedBy::Policy => "Bowline's policy",
        EnforcedBy::Sandbox => "the sandbox around the agent",
        EnforcedBy::Nothing => "nothing: the action may have happened",
    };
    lines.push(fact("held back by", held));
    lines.extend(for_session(asked));
    lines.extend(keys.iter().map(|text| PaintedLine::of(Paint::Plain, format!("  {text}"))));
    let after = "After a denial the agent does not do it, and continues its turn: it may try another way.";
    lines.push(PaintedLine::of(Paint::Dim, format!("  {after}")));
    lines
}

fn title(asked: &ApprovalAsked, context: &CardContext<'_>) -> PaintedLine {
    let wants = match asked.category {
        ApprovalCategory::Shell => "wants to run a command",
        ApprovalCategory::Edit => "wants to change files",
        ApprovalCategory::Read => "wants to read files",
        ApprovalCategory::Network => "wants to use the network",
        ApprovalCategory::Merge => "wants to merge or push",
        ApprovalCategory::DepsAdd => "wants to add dependencies",
        ApprovalCategory::Secrets => "wants to use secrets",
        ApprovalCategory::Deploy => "wants to deploy",
        ApprovalCategory::Other => "asks for a permission",
    };
    let risk = match asked.risk {
        Risk::Low => "low risk",
        Risk::Med => "medium risk",
        Risk::High => "high risk",
    };
    let change = change(asked, context).map(|change| format!(", {}", change.counts())).unwrap_or_default();
    PaintedLine::of(Paint::Yellow, format!("{} {wants}", context.who))
        .and(Paint::Dim, format!(" ({risk}{change})"))
}

fn change(asked: &ApprovalAsked, context: &CardContext<'_>) -> Option<EditChange> {
    let input = input(asked, context.call).filter(|_| asked.category == ApprovalCategory::Edit)?;
    EditChange::of(&input)
}

fn body(asked: &ApprovalAsked, context: &CardContext<'_>, part: ShownPart, lines: &mut Vec<PaintedLine>) {
    let input = input(asked, context.call);
    let summary = words::one_line(&asked.summary);
    let mut reason = Some(summary.clone());
    let shell = input.as_ref().and_then(command);
    if let Some((_, command)) = &shell {
        indented(command, part, context.glyphs, lines);
        reason = reason.filter(|reason| *reason != words::one_line(command));
        let place = input.as_ref().and_then(|input| input.get("cwd")?.as_str());
        if let Some(place) = place.filter(|place| Some(*place) != context.cwd) {
            lines.push(fact("in", &words::one_line(place)));
        }
    }
    let head = asked.input_head.as_ref().or_else(|| context.call?.input_head());
    if let Some(change) = change(asked, context) {
        lines.extend(change.painted(part.lines));
        hidden(change.len().saturating_sub(part.lines), part, context.glyphs, lines);
    } else if let Some(diff) = &asked.diff {
        planned(diff, part, context.glyphs, lines);
    } else if shell.is_some() {
        // The command is the action. `?` shows the other arguments.
    } else if let Some(input) = &input {
        let text = serde_json::to_string_pretty(input).unwrap_or_default();
        indented(&text, part, context.glyphs, lines);
    } else if let Some(head) = head {
        indented(&head.text, part, context.glyphs, lines);
        if head.is_cut() {
            let text =
                format!("    {} {} bytes in all: too long to show", context.glyphs.ellipsis(), head.bytes);
            lines.push(PaintedLine::of(Paint::Yellow, text));
        }
    } else {
        indented(&asked.summary, part, context.glyphs, lines);
        reason = None;
        // The summary is the agent's own description. Nothing shows that it is true.
        lines.push(fact("input", "not reported by the agent"));
    }
    if let Some(files) = files(asked, context) {
        lines.push(fact("files", &files));
    }
    let tool = context.call.map(|call| words::one_line(call.tool()));
    // A command shows which tool it is.
    let is_known =
        |tool: &String| summary.contains(tool.as_str()) || asked.category == ApprovalCategory::Shell;
    if let Some(tool) = tool.filter(|tool| !tool.is_empty() && !is_known(tool)) {
        lines.push(fact("tool", &tool));
    }
    if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
        lines.push(fact("why", &reason));
    }
    if let Some(rule) = &asked.rule {
        lines.push(fact("rule", &words::one_line(rule)));
    }
    if let Some(ruling) = &asked.ruling {
        lines.push(fact("policy", &words::one_line(&ruling_text(ruling))));
        if !ruling.parts.is_empty() {
            lines.push(fact("because of", &words::one_line(&ruling.parts.join(", "))));
        }
    }
}

/// Describes the judgement of the policies: why, and by which rule.
pub(in crate::human) fn ruling_text(ruling: &ApprovalRuling) -> String {
    let category = ruling.own_category.iter().map(|name| format!(", category `{name}`")).collect::<String>();
    let place = ruling.place.iter().map(|place| format!(", {place}")).collect::<String>();
    format!("{} (rule `{}`{category}{place})", ruling.reason, ruling.rule)
}

/// Returns the files that a request names.
fn files(asked: &ApprovalAsked, context: &CardContext<'_>) -> Option<String> {
    if !asked.paths.is_empty() {
        let name = |path: &String| words::one_line(&calls::short(path, context.cwd));
        let named: Vec<String> = asked.paths.iter().take(FILES).map(name).collect();
        let left = asked.paths.len().saturating_sub(FILES);
        let more = if left > 0 { format!(" and {left} more") } else { String::new() };
        return Some(format!("{}{more}", named.join(", ")));
    }
    match asked.category {
        ApprovalCategory::Edit | ApprovalCategory::Read => {
            let own = asked.input.as_ref().and_then(|input| calls::subject(input, context.cwd));
            own.or_else(|| {
                context.call.map(|call| call.subject().to_owned()).filter(|files| !files.is_empty())
            })
        }
        ApprovalCategory::Shell
        | ApprovalCategory::Network
        | ApprovalCategory::Merge
        | ApprovalCategory::DepsAdd
        | ApprovalCategory::Secrets
        | ApprovalCategory::Deploy
        | ApprovalCategory::Other => None,
    }
}

/// Returns the lines of a question.
pub(super) fn question(asked: &QuestionAsked, context: &CardContext<'_>) -> Vec<PaintedLine> {
    let mut lines = vec![PaintedLine::of(Paint::Yellow, format!("{} asks", context.who))];
    indented(&asked.text, FIRST, context.glyphs, &mut lines);
    for (place, choice) in asked.choices.iter().take(CHOICES).enumerate() {
        let choice = words::one_line(choice);
        lines.push(PaintedLine::of(Paint::Plain, format!("    {}  {choice}", place + 1)));
    }
    let left = asked.choices.len().saturating_sub(CHOICES);
    if left > 0 {
        let text = format!("    {} {}", context.glyphs.ellipsis(), words::many(left as u64, "more choice"));
        lines.push(PaintedLine::of(Paint::Dim, text));
    }
    lines
}

fn fact(name: &str, text: &str) -> PaintedLine {
    PaintedLine::of(Paint::Dim, format!("  {name}: ")).and(Paint::Plain, text)
}

/// Adds a foreign text, harmless and with its own line ends.
fn indented(text: &str, part: ShownPart, glyphs: Glyphs, lines: &mut Vec<PaintedLine>) {
    // A single line may have megabytes, so bytes are limited before lines.
    let head = &text[..text.floor_char_boundary(part.bytes)];
    let mut shown = 0;
    for line in head.lines().take(part.lines) {
        let line = ansi::harmless(&line.replace('\t', "    ")).into_owned();
        lines.push(PaintedLine::of(Paint::Plain, format!("    {line}")));
        shown += 1;
    }
    let rest = text.lines().count() - shown;
    if rest > 0 {
        hidden(rest, part, glyphs, lines);
    } else if head.len() < text.len() {
        // The last line is shown in part.
        hidden(1, part, glyphs, lines);
    }
}

/// Adds the lines of a unified diff as the agent sent it, with its headers: they name the files.
fn planned(diff: &Excerpt, part: ShownPart, glyphs: Glyphs, lines: &mut Vec<PaintedLine>) {
    let all = diff.text.lines().count();
    for line in diff.text.lines().take(part.lines) {
        let paint = match line.as_bytes().first() {
            Some(b'+') => Paint::Green,
            Some(b'-') => Paint::Red,
            Some(_) | None => Paint::Plain,
        };
        let line = ansi::harmless(&line.replace('\t', "    ")).into_owned();
        lines.push(PaintedLine::of(paint, format!("    {line}")));
    }
    hidden(all.saturating_sub(part.lines), part, glyphs, lines);
    if diff.is_cut() && all <= part.lines {
        let text = format!("    {} {} bytes in all: too long to show", glyphs.ellipsis(), diff.bytes);
        lines.push(PaintedLine::of(Paint::Yellow, text));
    }
}

fn hidden(left: usize, part: ShownPart, glyphs: Glyphs, lines: &mut Vec<PaintedLine>) {
    if left > 0 {
        let text =
            format!("    {} {} ({})", glyphs.ellipsis(), words::many(left as u64, "more line"), part.rest);
        lines.push(PaintedLine::of(Paint::Yellow, text));
    }
}

/// Returns whether the agent accepts an answer of this effect. A request without a list accepts all.
pub(super) fn is_offered(asked: &ApprovalAsked, effect: OptionEffect) -> bool {
    asked.options.is_empty() || asked.options.iter().any(|option| option.effect == effect)
}
