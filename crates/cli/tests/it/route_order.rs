//! Whose word counts where several say something: an option, a variable, an entry of the router's file, the settings.

use crate::route::{answering, routed};
use crate::world::World;

/// The settings of one option, the strongest source first, and how they show.
struct Row {
    what: &'static str,
    /// Each with the value that is seen where it counts.
    words: &'static [(Word, &'static str)],
    seen: fn(&World) -> String,
    /// Whether the router is to choose as well.
    auto: bool,
}

#[derive(Clone, Copy)]
enum Word {
    Flag([&'static str; 2]),
    Variable(&'static str, &'static str),
    /// A key of the entry's `config`.
    Entry(&'static str),
    /// A line of `bowline.toml`, under `[run]`.
    Settings(&'static str),
    /// No source sets it: then the provider's manifest counts.
    Nobody,
}

use Word::{Entry, Flag, Nobody, Settings, Variable};

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { what: "model", auto: false, seen: model, words: &[
        (Flag(["--model", "by-flag"]), "by-flag"), (Variable("BOWLINE_MODEL", "by-variable"), "by-variable"),
        (Entry("model: by-entry"), "by-entry"), (Settings("model = \"by-settings\""), "by-settings"), (Nobody, ""),
    ]},
    Row { what: "timeout", auto: true, seen: timeout, words: &[
        (Flag(["--timeout", "81s"]), "81"), (Variable("BOWLINE_TIMEOUT", "82s"), "82"),
        (Entry("timeout: 83s"), "83"), (Settings("timeout = \"84s\""), "84"), (Nobody, "none"),
    ]},
    Row { what: "no timeout", auto: true, seen: timeout, words: &[
        (Flag(["--timeout", "none"]), "none"), (Entry("timeout: 83s"), "83"), (Settings("timeout = \"84s\""), "84"),
    ]},
    Row { what: "profile", auto: true, seen: account, words: &[
        (Flag(["--profile", "home"]), "/accounts/home"), (Entry("profile: work"), "/accounts/work"), (Nobody, ""),
    ]},
    Row { what: "env", auto: true, seen: mark, words: &[
        (Flag(["--env", "MARK=by-flag"]), "by-flag"), (Entry("env: {MARK: by-entry}"), "by-entry"), (Nobody, ""),
    ]},
    Row { what: "permission", auto: true, seen: permission, words: &[
        (Flag(["--permission", "read"]), "dontAsk"), (Variable("BOWLINE_PERMISSION", "edit"), "acceptEdits"),
        (Settings("permission = \"read\""), "dontAsk"), (Nobody, "default"),
    ]},
];

const PROFILES: &str = "
[profiles.home]
provider = \"claude\"
home = \"/accounts/home\"
[profiles.work]
provider = \"claude\"
home = \"/accounts/work\"
";

#[test]
fn the_nearer_word_counts() {
    for row in ROWS {
        for first in 0..row.words.len() {
            for name in if row.auto { &["only", "auto"][..] } else { &["only"] } {
                let said = &row.words[first..];
                assert_eq!(told(row, said, name), said[0].1, "{} of `{name}`, from word {first}", row.what);
            }
        }
    }
}

/// Runs with these words, and says what counted.
fn told(row: &Row, words: &[(Word, &str)], name: &str) -> String {
    let script = format!("printf '%s\\n' \"$*\" \"$MARK\" \"$CLAUDE_CONFIG_DIR\" >seen.txt; {}", answering());
    let world = routed(&[("only", script)], "");
    let (mut args, mut variables) = (vec!["run", "--provider", name], Vec::new());
    let (mut entry, mut settings) = (String::new(), "[run]\n".to_owned());
    for (word, _) in words {
        match word {
            Flag(flag) => args.extend(flag),
            Variable(name, value) => variables.push((*name, *value)),
            Entry(text) => entry = format!("{text}, "),
            Settings(text) => settings.push_str(&format!("{text}\n")),
            Nobody => {}
        }
    }
    let file = world.path("work/.config/bowline/router.yaml");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, text.replace("config: {", &format!("config: {{{entry}"))).expect("a file");
    std::fs::write(world.path("work/.config/bowline/bowline.toml"), settings + PROFILES).expect("a file");
    args.push("Say hello.");
    let call = world.bowline(&args).env("ANTHROPIC_API_KEY", "made-up");
    variables.into_iter().fold(call, |call, (name, value)| call.env(name, value)).end().exits(0);
    (row.seen)(&world)
}

fn line(world: &World, number: usize) -> String {
    let text = std::fs::read_to_string(world.path("work/seen.txt")).expect("it ran");
    text.lines().nth(number).unwrap_or_default().to_owned()
}

/// Returns what stands after an option.
fn option(world: &World, name: &str) -> String {
    let line = line(world, 0);
    let mut words = line.split(' ').skip_while(|word| *word != name);
    words.nth(1).unwrap_or_default().to_owned()
}

fn model(world: &World) -> String {
    option(world, "--model")
}

fn permission(world: &World) -> String {
    option(world, "--permission-mode")
}

fn mark(world: &World) -> String {
    line(world, 1)
}

fn account(world: &World) -> String {
    line(world, 2)
}

/// Returns the limit of the session, as its description says.
fn timeout(world: &World) -> String {
    let journals = world.journals_begun();
    let [dir] = &journals[..] else { panic!("{} sessions", journals.len()) };
    let text = std::fs::read_to_string(dir.join("session.json")).expect("a description");
    let meta: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    // What was spent on the choice is a part of it.
    meta["limit_ms"].as_u64().map_or("none".to_owned(), |limit| ((limit + 500) / 1000).to_string())
}
