//! `bowline policy test`: a table of actions with the verdicts that a team expects.

use std::fmt::Write as _;

use bowline::policy::{self, PolicyAction, Verdict};
use bowline_providers::ansi;
use serde::Deserialize;
use serde_json::Value;

use super::{ChosenPolicies, facts, names, policies, read_text, rule_of};
use crate::args::policy::PolicyTestArgs;
use crate::error::{CommandError, Fault};
use crate::ui::Stdout;

/// A line of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedVerdict {
    command: Option<String>,
    tool: Option<String>,
    input: Option<Value>,
    verdict: String,
    rule: Option<String>,
}

/// Compares every line, and fails if one differs.
pub(super) fn run(args: &PolicyTestArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let ChosenPolicies { rules: policies, files } = policies(&args.file.policy, args.cwd.as_deref())?;
    let text = read_text(&args.table)?;
    let (mut count, mut wrong, mut list) = (0, 0, String::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| is_entry(line)) {
        let place = format!("{}:{}", args.table.display(), number + 1);
        let expected: ExpectedVerdict = serde_json::from_str(line).map_err(|error| {
            CommandError::new(
                Fault::Usage,
                format!("{place}:{}: this is not a line of a table", error.column()),
            )
            .caused_by(error)
            .hint("a line is an object such as {\"command\": \"git push\", \"verdict\": \"ask\"}")
        })?;
        let Some(verdict) = Verdict::parse(&expected.verdict) else {
            let what = format!("{place}: `{}` is not a verdict", expected.verdict);
            return Err(CommandError::new(Fault::Usage, what).hint("verdicts are allow, ask and deny"));
        };
        let nothing = Value::Null;
        let action = match (&expected.command, &expected.tool) {
            (Some(command), None) => PolicyAction::Shell(command),
            (None, Some(name)) => {
                PolicyAction::Tool { name, input: expected.input.as_ref().unwrap_or(&nothing) }
            }
            (Some(_), Some(_)) | (None, None) => {
                let what = format!("{place}: a line has either `command` or `tool`");
                return Err(CommandError::new(Fault::Usage, what));
            }
        };
        count += 1;
        let facts = facts::gather(args.cwd.as_deref(), &files, &action)?;
        let judgement = policy::judge(&policies, &action, &facts);
        let rule_fits = expected
            .rule
            .as_ref()
            .is_none_or(|rule| judgement.deciding().any(|finding| finding.rule == *rule));
        if judgement.verdict != verdict || !rule_fits {
            wrong += 1;
            let shown = expected.command.as_deref().or(expected.tool.as_deref()).unwrap_or_default();
            let _ = writeln!(list, "{place}: {}", shown.replace('\n', " "));
            let _ = writeln!(list, "- {} {}", expected.verdict, expected.rule.unwrap_or_default());
            let is = judgement.verdict.as_str();
            let _ = writeln!(list, "+ {is} {}: {}", rule_of(&judgement.decided), judgement.decided.reason);
        }
    }
    if count == 0 {
        return Err(CommandError::new(
            Fault::Usage,
            format!("{} has no lines to test", args.table.display()),
        ));
    }
    let _ = writeln!(list, "{} of {count} as expected by {}", count - wrong, names(&policies));
    stdout.print(&ansi::harmless(&list))?;
    if wrong > 0 { Err(CommandError::told(bowline::exit::FAILED)) } else { Ok(()) }
}

fn is_entry(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}
