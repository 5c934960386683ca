//! Markdown on terminals: whole and in pieces, narrow, wide characters, hostile.

use super::*;

const PAGE: Page = Page { width: 30, colour: false, bullet: "•", bar: "│" };

fn all(text: &str, page: Page) -> String {
    let mut markdown = Markdown::default();
    let out = markdown.push(text, page);
    out + &markdown.flush(page)
}

fn check(text: &str, expected: &str) {
    assert_eq!(all(text, PAGE), expected, "{text:?}");
    // Pieces of any length give the same.
    let mut markdown = Markdown::default();
    let mut out: String = text.chars().map(|c| markdown.push(&c.to_string(), PAGE)).collect();
    out.push_str(&markdown.flush(PAGE));
    assert_eq!(out, expected, "in pieces: {text:?}");
}

#[test]
fn words_stay_whole() {
    check("The quick brown fox jumps over the lazy dog", "The quick brown fox jumps over\nthe lazy dog\n");
    check("日本語のテキストはとても長いので折り返し", "日本語のテキストはとても長いの\nで折り返し\n");
    check(&"x".repeat(65), &format!("{0}\n{0}\nxxxxx\n", "x".repeat(30)));
    check("one\ntwo\n\nthree\n", "one two\n\nthree\n");
    check("a  \nb", "a\nb\n");
}

#[test]
fn blocks_look_like_what_they_are() {
    check("# Title\ntext\n", "Title\n\ntext\n");
    check(
        "- one\n- two is longer than one line has\n  - inner\n",
        "• one\n• two is longer than one line\n  has\n  • inner\n",
    );
    check("1. a\n2. b\n", "1. a\n2. b\n");
    check("3. a\n", "3. a\n");
    check("> quoted words that go on for long\n", "│ quoted words that go on for\n│ long\n");
    check("see [here](http://x/y) and <http://z>\n", "see here (http://x/y) and\nhttp://z\n");
    check("**bold** *it* `a b` ~~no~~ a_b_c\n", "bold it `a b` no a_b_c\n");
    check("| a | b |\n|---|---|\n| 1 | 2 |\n", "| a | b |\n|---|---|\n| 1 | 2 |\n");
    check("a <b>c</b>\n", "a <b>c</b>\n");
}

#[test]
fn code_is_shown_as_it_is() {
    check(
        "See:\n```rust\nfn  main() {}\n\n# no heading\n```\nafter\n",
        "See:\n\n    fn  main() {}\n    \n    # no heading\n\nafter\n",
    );
    check("~~~\nnot closed", "    not closed\n");
    let mut markdown = Markdown::default();
    assert_eq!(markdown.push("```\nfirst\nsec", PAGE), "    first\n", "a line is shown when it is whole");
}

#[test]
fn hostile_text_stays_visible() {
    let colour = Page { colour: true, ..PAGE };
    let shown = all("a\u{1b}[2J `\u{9b}x` **\u{202e}b**\n```\n\u{1b}]0;t\u{7}\n```\n", colour);
    assert!(
        shown.contains("␛[2J") && shown.contains("\\u{9b}x") && shown.contains("\\u{202e}b"),
        "{shown:?}"
    );
    assert!(shown.contains("␛]0;t␇"), "{shown:?}");
    // The only sequences are ours.
    assert!(
        shown
            .split('\u{1b}')
            .skip(1)
            .all(|it| ["[1m", "[36m", "[0m"].iter().any(|ours| it.starts_with(ours)))
    );
    let entity = all("&#27;[2J &#x202e;x\n", PAGE);
    assert!(!entity.contains(['\u{1b}', '\u{202e}']), "{entity:?}");
}

#[test]
fn nothing_waits_for_ever_and_nothing_is_lost() {
    let word = "word ".repeat(20_000);
    let shown = all(&word, PAGE);
    assert_eq!(shown.split_whitespace().count(), 20_000);
    let text = "- a\n\n  b\n\n      code\n\ntext\n\n---\n\nlast";
    let shown = all(text, PAGE);
    for part in ["a", "b", "code", "text", "---", "last"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
