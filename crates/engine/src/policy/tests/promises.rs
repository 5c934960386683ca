//! Promises for every command: no panic, no weaker verdict by more rules or more commands.

use bowline_protocol::PolicySpec;
use proptest::prelude::*;

use super::{shell, table};
use crate::policy::{PolicyRules, Verdict};

fn rules(allow: &[&str], deny: &[String]) -> PolicyRules {
    let spec = PolicySpec {
        shell_allowlist: allow.iter().map(|text| (*text).to_owned()).collect(),
        shell_denylist: deny.to_vec(),
        ..PolicySpec::default()
    };
    PolicyRules::of_spec("random", &spec).expect("a policy")
}

fn commands() -> Vec<String> {
    table::lines().into_iter().map(|line| line.command).collect()
}

/// A command of the table, with some of its characters replaced, removed or doubled.
fn mutated() -> impl Strategy<Value = String> {
    let marks = prop::sample::select(vec![
        "$(", "`", "\"", "'", "(", ")", "{", "}", ";", "|", "&", "<<X\n", "\n", "\\", "${", "$((", "*", "~",
        "é", "", " ", "[[", "case ", "<(",
    ]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), marks, 0..3_usize), 0..6);
    (prop::sample::select(commands()), edits).prop_map(|(command, edits)| {
        let mut text: Vec<char> = command.chars().collect();
        for (at, mark, removed) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, mark.chars());
        }
        text.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_text_does_not_panic(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        shell(&[], &text);
        shell(&[], &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_mutated_command_does_not_panic_and_its_parts_lie_in_it(command in mutated()) {
        for finding in shell(&[], &command).findings {
            if let Some(part) = finding.part {
                prop_assert!(command.get(part.from..part.to).is_some(), "{part:?} of {command:?}");
            }
        }
    }

    #[test]
    fn a_rule_that_denies_never_makes_a_verdict_weaker(
        command in mutated(),
        deny in prop::collection::vec("(rm|git|ls|\\*|cargo|git push|npm i\\*|echo \\*)", 0..3),
        more in "(rm|git|ls|cat|\\*|curl|git \\* x)",
    ) {
        let few = shell(&[rules(&["git", "ls *"], &deny)], &command).verdict;
        let many = shell(&[rules(&["git", "ls *"], &[deny, vec![more]].concat())], &command).verdict;
        prop_assert!(many >= few, "{command:?}: {few:?} became {many:?}");
    }

    #[test]
    fn the_strictest_policy_wins_in_any_order(
        command in mutated(),
        deny in prop::collection::vec("(rm|git|ls|cargo)", 0..3),
    ) {
        let (one, two) = (rules(&["git", "cargo"], &[]), rules(&[], &deny));
        let each = [&one, &two].map(|rules| shell(std::slice::from_ref(rules), &command).verdict);
        let both = shell(&[one.clone(), two.clone()], &command).verdict;
        let swapped = shell(&[two, one], &command).verdict;
        prop_assert_eq!(both, swapped);
        prop_assert_eq!(both, each[0].max(each[1]));
    }

    #[test]
    fn a_list_of_commands_is_never_weaker_than_its_parts(
        first in prop::sample::select(commands()),
        second in prop::sample::select(commands()),
    ) {
        // A here-document and a comment end with their line, not with a semicolon.
        let joined = if first.contains("<<") || first.ends_with('&') { format!("{first}\n{second}") } else { format!("{first}; {second}") };
        let parts = [&first, &second].map(|command| shell(&[], command).verdict);
        prop_assert!(shell(&[], &joined).verdict >= parts[0].max(parts[1]), "{joined:?}");
    }
}

#[test]
fn deep_and_long_commands_are_refused_quickly() {
    for (open, close) in [
        ("(", ")"),
        ("( ", " )"),
        ("{ ", "; }"),
        ("$(", ")"),
        ("\"$(", ")\""),
        ("${a:-", "}"),
        ("`", "`"),
        ("$((", "))"),
        ("if a; then ", "; fi"),
        ("f() { ", "; }"),
        ("case a in b) ", ";; esac"),
        ("while a; do ", "; done"),
        ("[[ ( ", " ) ]]"),
        ("<(", ")"),
        ("for ((", "))"),
        ("! ", ""),
        ("time ", ""),
        ("sh -c '", "'"),
        ("{a,", "}"),
        ("a=(", ")"),
        ("eval ", ""),
        ("sudo ", ""),
    ] {
        for depth in [5, 15, 30, 60, 200, 20_000] {
            for end in [close, ""] {
                let command = format!("{}x{}", open.repeat(depth), end.repeat(depth));
                shell(&[], &command);
            }
        }
    }
    let long = "ls ".repeat(30_000);
    assert_eq!(shell(&[], &long).decided.rule, "unknown.size");
    assert_eq!(shell(&[], &long).verdict, Verdict::Ask);
    let braces = format!("echo {}", "{a,b}".repeat(40));
    assert_eq!(shell(&[], &braces).verdict, Verdict::Allow);
    assert_eq!(shell(&[], &format!("rm {}", "{a,b}".repeat(40))).decided.rule, "unknown.path");
}
