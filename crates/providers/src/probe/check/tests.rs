//! Differences between a manifest and help pages, both written for the tests.

use super::*;
use crate::manifest::tests::SMALL_MANIFEST;
use crate::probe::Answer;

const OPTIONS: &str = r#"
[run.flags]
model = { args = ["--model={value}"] }
effort = { args = ["--effort", "{value}"], values = ["low", "high"] }
resume = { args = ["again", "{value}"] }
no_tools = { args = ["--tools", ""] }
max_turns = { args = ["--turns", "{value}"] }

[permission.yolo]
args = ["--yolo"]

[probe]
pages = [["--help"], ["do", "--help"]]
unlisted = [{ flag = "--turns", why = "seen" }]
changed = [{ flag = "--yolo", since = "2.0", before = "it only warned" }]
"#;

const TOP: &str = "Commands:\n  do  Do it\nOptions:\n  -h, --help  help\n";

const GOOD: &str = "Commands:\n  again  Again\nOptions:\n  --format <f>  as (choices: \"text\", \"json\")\n  --quiet  q\n  \
                    --model <m>  m\n  --effort <e>  e [possible values: low, mid, high]\n  --tools <t...>  t\n  --yolo  y\n";

/// Returns a manifest that uses options in every place that has arguments.
fn manifest() -> Manifest {
    let formats =
        r#"formats = { json = { dialect = "text", args = ["do", "--format", "json", "--quiet"] } }"#;
    let small = SMALL_MANIFEST
        .replace(r#"formats = { text = { dialect = "text" } }"#, formats)
        .replace(r#"default_format = "text""#, r#"default_format = "json""#)
        .replace(r#"prompt = "arg""#, r#"prompt = "stdin""#);
    Manifest::parse(&(small + OPTIONS)).expect("a manifest")
}

fn found(top: &str, sub: &str, version: &str) -> Vec<String> {
    let manifest = manifest();
    let page = |args: &Vec<String>, text: &str| {
        Page::read(args, &Answer { stdout: text.into(), ..Answer::default() })
    };
    let pages = [page(&manifest.probe.pages[0], top), page(&manifest.probe.pages[1], sub)];
    let version = Version::parse(version).expect("a version");
    check(&manifest, &pages, Some(&version)).iter().map(ToString::to_string).collect()
}

#[test]
fn a_program_as_described_has_no_findings() {
    assert_eq!(found(TOP, GOOD, "2.0"), [] as [String; 0]);
}

#[test]
fn what_has_a_page_of_its_own_is_there() {
    let mut manifest = manifest();
    manifest.probe.pages.remove(0);
    let read = |text: &str| {
        let answer = Answer { stdout: text.into(), ..Answer::default() };
        check(&manifest, &[Page::read(&manifest.probe.pages[0], &answer)], None)
    };
    assert_eq!(read(GOOD), []);
    let nothing = read("no such command");
    assert!(nothing.iter().all(|finding| finding.kind == Kind::NoPage) && !nothing.is_empty(), "{nothing:?}");
}

#[test]
fn each_difference_is_found_and_nothing_else() {
    for (from, to, expected) in [
        (
            "--model <m>",
            "--modell <m>",
            "`--model` of `do` is not in its help (the manifest relies on it in run.flags.model)",
        ),
        (
            "--model <m>",
            "--model    ",
            "`--model` of `do` takes no value now (the manifest relies on it in run.flags.model)",
        ),
        (
            "--quiet ",
            "--quiet <x> ",
            "`--quiet` of `do` takes a value now (the manifest relies on it in formats.json)",
        ),
        (
            "\"json\"",
            "\"jsonl\"",
            "`--format` of `do` does not accept `json`, only text, jsonl (the manifest relies on it in formats.json)",
        ),
        (
            "mid, high",
            "mid",
            "`--effort` of `do` does not accept `high`, only low, mid (the manifest relies on it in run.flags.effort)",
        ),
        (
            "again",
            "anew",
            "`again` of `do` is not in its help (the manifest relies on it in run.flags.resume)",
        ),
        (
            "--yolo  y",
            "--yolo  y (deprecated, use care)",
            "`--yolo` of `do` is deprecated: use care (the manifest relies on it in permission.yolo)",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        assert_eq!(found(TOP, &GOOD.replace(from, to), "2.0"), [expected], "{to}");
    }
}

#[test]
fn an_older_version_means_something_else() {
    assert_eq!(
        found(TOP, GOOD, "1.9.9"),
        [
            "`--yolo` of `do` means something else before 2.0: it only warned (the manifest relies on it in permission.yolo)"
        ]
    );
}

#[test]
fn a_page_that_cannot_be_read_is_one_finding() {
    let keys = "formats.json, permission.yolo, run.flags.effort, run.flags.max_turns, run.flags.model, run.flags.no_tools, run.flags.resume";
    let mut told = found(TOP, "error: what?\n", "2.0");
    assert_eq!(told.len(), 1, "{told:?}");
    let told = told.remove(0);
    let (what, by) = told.split_once(" (the manifest relies on it in ").expect("keys");
    assert_eq!(what, "`do`: found no options in its help page");
    let mut named: Vec<&str> = by.trim_end_matches(')').split(", ").collect();
    named.sort_unstable();
    assert_eq!(named.join(", "), keys);
}
