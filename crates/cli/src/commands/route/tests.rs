//! The whole table of what follows a failure, in the words that people read: ten categories, with and without retries and
//! fallback, one to three agents, tools or none.

use std::sync::Arc;

use bowline::journal::Home;
use bowline_config::{Config, Places};
use bowline_protocol::Category;
use clap::Parser as _;

use super::*;
use crate::args::{Args, Command};

/// The table of the adapter protocol (spec 000), as it is written there.
const SPECIFICATION: &str = "
| `quota` | false | true | Usage quota exceeded |
| `rate_limit` | true | false | Rate limiting in effect |
| `authentication` | false | false | Credential issues |
| `validation` | false | false | Invalid request |
| `network` | true | true | Network connectivity |
| `server` | true | true | Server-side errors |
| `timeout` | true | true | Request timeout |
| `not_found` | false | true | Resource not found |
| `configuration` | false | false | Config issues |
| `unknown` | false | true | Unrecognized error |
";

const NAMES: [&str; 3] = ["first", "second", "third"];

/// One row of the specification.
fn row(line: &str) -> (Category, bool, bool) {
    let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
    let category = Category::ALL.into_iter().find(|it| it.as_str() == cells[1]).expect("a category");
    (category, cells[2] == "true", cells[3] == "true")
}

fn read(dir: &tempfile::TempDir) -> Arc<Config> {
    let places = Places { user: Some(dir.path().to_owned()), cwd: None, home: None };
    Arc::new(Config::read(places, &|_| None).expect("settings"))
}

/// Agents to choose from, and a memory that is empty.
struct Place {
    dir: tempfile::TempDir,
    config: Arc<Config>,
}

impl Place {
    fn with(agents: usize, routing: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let program = std::env::current_exe().expect("a program that is there");
        let entry = |name: &&str| {
            format!("  - {{name: {name}, type: cli, config: {{path: '{}'}}}}\n", program.display())
        };
        let entries: String = NAMES[..agents].iter().map(entry).collect();
        std::fs::write(dir.path().join("router.yaml"), format!("providers:\n{entries}{routing}"))
            .expect("a file");
        Self { config: read(&dir), dir }
    }

    /// Answers a command line, and says how many attempts there would be after the category that it asks about.
    fn answers(&self, line: &str) -> (String, usize) {
        let Args { command: Some(Command::Route(args)) } =
            Args::try_parse_from(line.split(' ')).expect("a command line")
        else {
            panic!("{line} is another command");
        };
        let resolved =
            ResolvedRequest::by(&with_router(&args.request), self.config.clone()).expect("a target");
        let task = task(&resolved).expect("a task").home(Home::at(self.dir.path().join("home")));
        let explained = task.explain().expect("an explanation");
        let attempts =
            in_json(&explained, &AssumedFailure::of(&args))["after"][0]["attempts"].as_array().map(Vec::len);
        let text = answer(&args, &explained, Layout::Pipe);
        (text.replace(&self.dir.path().display().to_string(), "DIR"), attempts.unwrap_or_default())
    }
}

#[test]
fn the_table_of_the_specification_is_obeyed_and_explained() {
    let places = [1, 2, 3].map(|agents| (agents, Place::with(agents, "")));
    let (mut text, mut rows) = (String::new(), 0);
    for (category, may_retry, may_fall_back) in SPECIFICATION.trim().lines().map(row) {
        for (retries, fallback, tool_ran) in cases() {
            for (agents, place) in &places {
                let tool = if tool_ran { " --tool-ran" } else { "" };
                let line = format!(
                    "bowline route --after {category} --retries {retries} --fallback {fallback}{tool}"
                );
                let (words, attempts) = place.answers(&line);
                // What the specification demands, counted without asking the code under test.
                let again = if may_retry { retries } else { 0 };
                let others = if may_fall_back && fallback == "next" { agents - 1 } else { 0 };
                let demanded = if tool_ran { 1 } else { (1 + again) * (1 + others) };
                assert_eq!(attempts, demanded, "{line} with {agents}");
                text.push_str(&format!("$ {line}  # {}\n{words}\n", NAMES[..*agents].join(", ")));
                rows += 1;
            }
        }
    }
    assert_eq!(rows, 240);
    insta::assert_snapshot!("the_table", text);
}

fn cases() -> impl Iterator<Item = (usize, &'static str, bool)> {
    [0, 2].into_iter().flat_map(|retries| {
        ["none", "next"].into_iter().flat_map(move |fallback| {
            [false, true].into_iter().map(move |tool_ran| (retries, fallback, tool_ran))
        })
    })
}

/// Shows what several command lines answer.
fn shown(place: &Place, lines: &[&str]) -> String {
    lines
        .iter()
        .map(|line| {
            format!("$ bowline route {line}\n{}\n", place.answers(&format!("bowline route {line}")).0)
        })
        .collect()
}

#[test]
fn all_categories_fit_on_a_screen() {
    let lines = [
        "--explain",
        "--tool-ran",
        "--tool-ran --repeat-tools --fallback any --retries 1",
        "--retry-after 1500ms",
        "--retry-after 4h",
        "--retry-after 4h --wait-for-limit --fallback none",
        "--provider second --explain",
        "--provider second --after network --fallback next",
        "--provider second --after Rate-Limit --retries 4294967295",
    ];
    let place = Place::with(3, "");
    let usual = place.answers("bowline route --explain").0;
    assert!(usual.lines().all(|line| line.chars().count() < 140), "{usual}");
    insta::assert_snapshot!("what_if", shown(&place, &lines));
}

#[test]
fn the_rules_of_the_file_and_its_model_for_a_fallback_are_played() {
    let routing = "routing: {max_retries: 9, retry_backoff_ms: 100, retry_max_backoff_ms: 400, fallback_model: spare}\n";
    let place = Place::with(1, routing);
    let file = place.dir.path().join("router.yaml");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, text.replace("config: {", "models: {fast: spare}, config: {")).expect("a file");
    let place = Place { config: read(&place.dir), ..place };
    insta::assert_snapshot!(
        "by_the_file",
        shown(&place, &["--explain", "--after rate_limit", "--after server"])
    );
}
