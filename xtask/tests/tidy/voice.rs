//! The words of documents and comments: `docs/style.md` asks for a named actor, and these words hide it.
//!
//! [`is_page`] selects the documents. In Rust files every comment is checked, and in product code and manifests every line: help,
//! messages and names. [`verbs`] checks the first word of a documentation comment, and [`subjects`] that of a sentence on a page.

use xtask::survey::HIDING_WORDS;

use crate::tree::has_word;
use crate::{File, Violation};

/// A riddle beside the words that hide the actor.
const RIDDLE: &str = "what it says about itself";

/// The folders of which every line is checked, without tests: help, messages, comments and names.
const SOURCES: &[&str] = &["crates/", "xtask/benches/"];

/// Places that need such a word: the path, and a part of the line.
const ALLOWED: &[(&str, &str)] = &[
    // Inputs of tests.
    ("xtask/src/survey/words.rs", "//! Nobody asks. What is asked counts."),
    ("xtask/tests/tidy/voice.rs", "//! Nobody asks."),
    ("xtask/tests/tidy/voice.rs", "check("),
    ("xtask/tests/tidy/voice.rs", "let source ="),
];

/// Pages that quote the words, or are generated.
const EXEMPT: &[&str] = &["docs/style.md", "docs/compatibility.md"];

/// Selects the documents to check.
fn is_page(path: &str) -> bool {
    let is_document = path.starts_with("docs/") || !path.contains('/');
    is_document && path.ends_with(".md") && !EXEMPT.contains(&path)
}

/// Returns the text of a line that is checked: a line of a document or a source, or a comment without its quoted code.
fn checked(file: &File, line: &str) -> Option<String> {
    let is_source = SOURCES.iter().any(|folder| file.path.starts_with(folder));
    let is_manifest = file.path.ends_with(".toml") && !file.is_fixture();
    if is_page(&file.path) || is_manifest || (is_source && file.is_rust() && !file.is_test()) {
        return Some(line.to_lowercase());
    }
    let (_, comment) = line.split_once("//").filter(|_| file.is_rust())?;
    Some(comment.split('`').step_by(2).collect::<String>().to_lowercase())
}

/// Finds words that hide the actor.
pub(crate) fn idiom(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files {
        for (number, line) in file.lines() {
            let Some(text) = checked(file, line) else { continue };
            let allowed = ALLOWED.iter().any(|(path, part)| *path == file.path && line.contains(part));
            let words = HIDING_WORDS.iter().chain([&RIDDLE]);
            for word in words.filter(|word| !allowed && has_word(&text, word)) {
                found.push(
                    file.violation(number, format!("`{word}` hides the actor: name it, see docs/style.md")),
                );
            }
        }
    }
    found
}

/// Verbs of people, with which the summary of a function or module must not begin: it returns, reports or emits.
const VERBS_OF_SPEECH: &[&str] = &["Says", "Tells", "Hears", "Speaks"];

/// Finds documentation comments that begin with a verb of speech.
pub(crate) fn verbs(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_fixture()) {
        for (number, line) in file.lines() {
            let line = line.trim_start();
            let Some(text) = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! ")) else {
                continue;
            };
            let first = text.split_whitespace().next().unwrap_or_default();
            if VERBS_OF_SPEECH.contains(&first) {
                let advice = "people say and tell; a function returns, reports or emits";
                found.push(file.violation(number, format!("begins with `{first}`: {advice}")));
            }
        }
    }
    found
}

/// Finds sentences of pages that begin with What or Who. Questions and headings may.
pub(crate) fn subjects(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_page(&file.path)) {
        let mut in_block = false;
        for (number, line) in file.lines() {
            in_block ^= line.trim_start().starts_with("```");
            let line =
                line.trim_start_matches(|letter: char| " -*|>".contains(letter) || letter.is_ascii_digit());
            let sentences = [". ", "| ", ": "].iter().fold(vec![line], |parts, mark| {
                parts.into_iter().flat_map(|part| part.split(mark)).collect()
            });
            let begins = |sentence: &str| ["What ", "Who "].iter().any(|word| sentence.starts_with(word));
            if !in_block && !line.contains('?') && sentences.into_iter().any(begins) {
                found.push(file.violation(number, "a sentence begins with What or Who: name the subject"));
            }
        }
    }
    found
}

#[test]
fn a_verb_of_speech_is_caught() {
    let check = |text: &str| verbs(&[File::new("crates/x/src/a.rs", text)]).len();
    assert_eq!(check("    /// Says whether it is open.\n//! Tells all.\n"), 2);
    assert_eq!(check("/// Returns what it says.\n// Says.\nlet text = \"Says\";\n"), 0);
}

#[test]
fn a_hidden_subject_of_a_page_is_caught() {
    let check = |path: &str, text: &str| subjects(&[File::new(path, text)]).len();
    assert_eq!(
        check("docs/x.md", "What is pinned is listed.\n- Fine. Who asks waits.\n| a | What it is |\n"),
        3
    );
    assert_eq!(
        check("docs/x.md", "## What is pinned\nWhat is it?\nIt says what it is.\n```\nWhat is this\n```\n"),
        0
    );
    assert_eq!(check("docs/style.md", "What is pinned is listed.\n"), 0, "it quotes them");
}

#[test]
fn a_hidden_actor_is_caught() {
    let check = |path: &str, text: &str| idiom(&[File::new(path, text)]).len();
    assert_eq!(check("README.md", "Nobody is asked.\n"), 1);
    assert_eq!(check("docs/x.md", "The agent of whom whoever asks.\n"), 2);
    assert_eq!(check("docs/x.md", "The router skips the provider.\n"), 0);
    assert_eq!(check("docs/routing.md", "nobody\n"), 1);
    assert_eq!(check("crates/providers/src/x/manifest.toml", "hint = \"nobody is logged in\"\n"), 1);
    assert_eq!(check("crates/cli/tests/it/run.rs", "// Nobody is left.\nlet nobody = 1;\n"), 1);
    assert_eq!(check("docs/style.md", "nobody\n"), 0, "it quotes the words");
    assert_eq!(check("xtask/src/main.rs", "//! Nobody waits.\n    x(); // whoever\n"), 2);
    assert_eq!(check("xtask/src/main.rs", "/// The user `nobody`.\nlet nobody = 1;\n"), 0, "code");
    let source = "/// Ask whoever.\nfn whom() { \"Nobody\" }\n";
    assert_eq!(check("crates/cli/src/main.rs", source), 3, "help, a name and a message");
    assert_eq!(check("crates/cli/src/human/tests/made.rs", source), 1, "the comment of a test");
    assert_eq!(check("crates/runtime/tests/it/main.rs", "// nobody\nlet nobody = 1;\n"), 1, "comments only");
    assert_eq!(check("ARCHITECTURE.md", "nobody\n") + check("docs/design/keeper.md", "nobody\n"), 2);
}
