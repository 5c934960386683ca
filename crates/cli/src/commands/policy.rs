//! `bowline policy`: shows what the policies decide.

mod facts;
mod table;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bowline::policy::{self, Finding, Judgement, PolicyAction, PolicyRule, PolicyRules, TextSpan, Verdict};
use bowline_protocol::NetworkMode;
use bowline_providers::ansi;
use serde_json::{Value, json};

use crate::args::policy::{PolicyArgs, PolicyCheckArgs, PolicyCommand, PolicyExplainArgs};
use crate::error::{CommandError, Fault};
use crate::ui::Stdout;

/// The exit code of `policy check` for an action that asks.
const ASKS: u8 = bowline::exit::FAILED;

/// Runs the command.
pub(crate) fn run(args: &PolicyArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    match &args.action {
        PolicyCommand::Check(args) => check(args, stdout),
        PolicyCommand::Explain(args) => explain(args, stdout),
        PolicyCommand::Test(args) => table::run(args, stdout),
    }
}

/// The policies of a command line.
struct ChosenPolicies {
    rules: Vec<PolicyRules>,
    /// Their files.
    files: Vec<PathBuf>,
}

/// Reads the policies that are named; without any, those of the user and of the project; else the built-in one.
fn policies(files: &[PathBuf], cwd: Option<&Path>) -> Result<ChosenPolicies, CommandError> {
    let source = if files.is_empty() {
        bowline_config::Config::load(cwd)?.policy().cloned()
    } else {
        bowline_config::policy_files(files)?
    };
    let Some(source) = source else {
        return Ok(ChosenPolicies { rules: vec![PolicyRules::built_in()], files: Vec::new() });
    };
    let set = source.read().map_err(|why| CommandError::new(Fault::Configuration, why))?;
    Ok(ChosenPolicies { rules: set.rules.to_vec(), files: source.files().to_vec() })
}

fn names(policies: &[PolicyRules]) -> String {
    policies.iter().map(|rules| rules.source.as_ref()).collect::<Vec<_>>().join(", ")
}

fn check(args: &PolicyCheckArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let ChosenPolicies { rules: policies, files } = policies(&args.file.policy, args.cwd.as_deref())?;
    let input = args.input.as_deref().map(tool_input).transpose()?;
    let text = args.command.join(" ");
    let action = match (&args.tool, &input, args.command.as_slice()) {
        (Some(name), Some(input), _) => PolicyAction::Tool { name, input },
        (_, _, [command]) => PolicyAction::Shell(command),
        (_, _, words) => PolicyAction::Program(words),
    };
    let facts = facts::gather(args.cwd.as_deref(), &files, &action)?;
    let judgement = policy::judge(&policies, &action, &facts);
    // Places in a call of a tool are places in one of its fields.
    let shown = if args.tool.is_some() { "" } else { text.as_str() };
    if args.json {
        stdout.print(&format!("{:#}\n", report(&judgement, shown, &policies)))?;
    } else {
        stdout.print(&ansi::harmless(&render(&judgement, shown, &policies)))?;
    }
    match judgement.verdict {
        Verdict::Allow => Ok(()),
        Verdict::Ask => Err(CommandError::told(ASKS)),
        Verdict::Deny => Err(CommandError::told(bowline::exit::NOT_ALLOWED)),
    }
}

fn tool_input(file: &Path) -> Result<Value, CommandError> {
    let text = read_text(file)?;
    serde_json::from_str(&text).map_err(|error| {
        let what = format!(
            "{}:{}:{}: the input of the tool is not JSON",
            file.display(),
            error.line(),
            error.column()
        );
        CommandError::new(Fault::Usage, what).caused_by(error)
    })
}

/// Reads a file, or standard input for `-`.
fn read_text(file: &Path) -> Result<String, CommandError> {
    let read = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| {
        CommandError::new(Fault::Usage, format!("could not read {}", file.display())).caused_by(error)
    })
}

/// Returns the words for the rule of a finding: its id and its place.
fn rule_of(finding: &Finding) -> String {
    match &finding.place {
        Some(place) => format!("{} ({place})", finding.rule),
        None => finding.rule.clone(),
    }
}

fn word<T: serde::Serialize>(value: T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn render(judgement: &Judgement, command: &str, policies: &[PolicyRules]) -> String {
    let decided = &judgement.decided;
    let category = decided.own_category.clone().unwrap_or_else(|| word(decided.category));
    let mut text = format!("{}: {}\n", judgement.verdict.as_str(), decided.reason);
    let _ = writeln!(text, "  rule      {}", rule_of(decided));
    let _ = writeln!(text, "  risk      {}", word(decided.risk));
    let _ = writeln!(text, "  category  {category}");
    let _ = writeln!(text, "  policy    {}", names(policies));
    let parts: Vec<TextSpan> = judgement.deciding().filter_map(|finding| finding.part).collect();
    text.push_str(&marked(command, &parts));
    let others = judgement.findings.iter().skip(1).filter(|finding| finding.verdict != Verdict::Allow);
    for finding in others {
        let _ =
            writeln!(text, "  also {}: {}: {}", finding.verdict.as_str(), rule_of(finding), finding.reason);
    }
    text
}

/// Prints a command with marks below the parts that decided.
fn marked(command: &str, parts: &[TextSpan]) -> String {
    let mut text = String::new();
    let mut from = 0;
    for line in command.split_inclusive('\n') {
        let mut marks = String::new();
        let visible = line.trim_end_matches('\n');
        for (at, letter) in visible.char_indices() {
            let at = from + at;
            let inside = parts.iter().any(|part| part.from <= at && at < part.to);
            let width = unicode_width::UnicodeWidthChar::width(letter).unwrap_or(0);
            marks.push_str(&if inside { "^" } else { " " }.repeat(width));
        }
        let _ = writeln!(text, "  | {visible}");
        if marks.contains('^') {
            let _ = writeln!(text, "  | {}", marks.trim_end());
        }
        from += line.len();
    }
    text
}

fn report(judgement: &Judgement, command: &str, policies: &[PolicyRules]) -> Value {
    let finding = |finding: &Finding| {
        let place = finding.place.as_ref();
        let part =
            finding.part.filter(|part| command.get(part.from..part.to).is_some() && !command.is_empty());
        json!({
            "verdict": finding.verdict.as_str(),
            "rule": finding.rule,
            "source": place.map(|place| place.source.as_ref()),
            "line": place.and_then(|place| place.at).map(|at| at.0),
            "column": place.and_then(|place| place.at).map(|at| at.1),
            "risk": finding.risk,
            "category": finding.category,
            "own_category": finding.own_category,
            "part": part.map(|part| json!({"from": part.from, "to": part.to, "text": &command[part.from..part.to]})),
            "reason": finding.reason,
        })
    };
    let decided = finding(&judgement.decided);
    json!({
        "v": 1,
        "verdict": judgement.verdict.as_str(),
        "decided": decided,
        "findings": judgement.findings.iter().map(finding).collect::<Vec<_>>(),
        "policies": policies.iter().map(|rules| rules.source.as_ref()).collect::<Vec<_>>(),
    })
}

/// A line of `policy explain`.
struct ExplainedRule {
    verdict: &'static str,
    what: &'static str,
    pattern: String,
    place: String,
}

fn explain(args: &PolicyExplainArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let policies = policies(&args.file.policy, None)?.rules;
    let rules = explained(&policies);
    if args.json {
        let rules: Vec<Value> = rules
            .iter()
            .map(|it| json!({"verdict": it.verdict, "what": it.what, "pattern": it.pattern, "place": it.place}))
            .collect();
        return stdout.print(&format!("{:#}\n", json!({"v": 1, "rules": rules})));
    }
    let mut text = format!("policy: {}\n\n", names(&policies));
    for rule in &rules {
        let _ = writeln!(text, "{:<5}  {:<19}  {}  ({})", rule.verdict, rule.what, rule.pattern, rule.place);
    }
    let _ = writeln!(
        text,
        "\nBefore them, the built-in rules ask about what cannot be known and about risky acts; docs/policy.md lists them."
    );
    stdout.print(&ansi::harmless(&text))
}

/// Lists the rules in the order in which they decide: deny, ask, allow.
fn explained(policies: &[PolicyRules]) -> Vec<ExplainedRule> {
    let mut rules = Vec::new();
    let mut add = |verdict, what, list: &[PolicyRule]| {
        rules.extend(list.iter().map(|rule| ExplainedRule {
            verdict,
            what,
            pattern: rule.pattern.clone(),
            place: rule.place.to_string(),
        }));
    };
    for it in policies {
        add("deny", "shellDenylist", &it.shell.deny);
        add("deny", "readDenylist", &it.read.deny);
        add("deny", "writeDenylist", &it.write.deny);
        add("deny", "toolDenylist", &it.tools.deny);
    }
    for it in policies {
        let one = |pattern: &str, place: &policy::RulePlace| PolicyRule {
            pattern: pattern.to_owned(),
            place: place.clone(),
        };
        let gated: Vec<PolicyRule> =
            it.approvals.iter().map(|(action, place)| one(policy::gated_name(*action), place)).collect();
        add("ask", "requiresApprovalFor", &gated);
        add("ask", "protectedBranches", &it.branches);
        for category in &it.categories {
            add("ask", "ownCategories", &category.shell);
            add("ask", "ownCategories", &category.tools);
        }
        if it.network == NetworkMode::Restricted {
            let place = policy::RulePlace { source: it.source.clone(), at: None };
            add("ask", "networkMode", &[one("every host that networkHosts does not have", &place)]);
        }
    }
    for it in policies {
        add("allow", "shellAllowlist", &it.shell.allow);
        add("allow", "readAllowlist", &it.read.allow);
        add("allow", "writeAllowlist", &it.write.allow);
        add("allow", "toolAllowlist", &it.tools.allow);
        add("allow", "networkHosts", &it.hosts);
    }
    rules
}
