//! Markdown on terminals: whole and in pieces, narrow, wide characters, hostile.

use super::lines::broken;
use super::*;
use crate::human::words;

const PAGE: MarkdownPage =
    MarkdownPage {
        width: 30, columns: 30, colour: false, bullet: "•", bar: "│", rule: "─", ellipsis: "…"
    };

fn all(text: &str, page: MarkdownPage) -> String {
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
    let colour = MarkdownPage { colour: true, ..PAGE };
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

#[test]
fn columns_are_aligned_by_their_width() {
    check("| a | b |\n|---|---|\n| 1 | 22 |\n", "a  b\n─  ──\n1  22\n");
    check(
        "| name | 数 | n |\n|:--|:-:|--:|\n| 日本 | x | 7 |\n| e | `y` | 1000 |\n",
        "name  数      n\n────  ───  ────\n日本   x      7\ne     `y`  1000\n",
    );
    // A row may have fewer cells than the header, and more; cells beyond the header are dropped.
    check("a | b\n--|--\n1\n2 | 3 | 4\n", "a  b\n─  ─\n1\n2  3\n");
    // Neither a paragraph before it nor a heading after it belongs to it.
    check("Text:\n| a |\n|---|\n| 1 |\n# Title\n", "Text:\n\na\n─\n1\n\nTitle\n");
    check("- item\n\n  | a |\n  |---|\n  | 1 |\n", "• item\n\n  a\n  ─\n  1\n");
    check("> | a |\n> |---|\n> | 1 |\n", "│ a\n│ ─\n│ 1\n");
    check("| no | table |\n", "| no | table |\n");
}

#[test]
fn a_cell_that_is_too_long_is_wrapped() {
    check(
        "| key | what it is for |\n|--|--|\n| one | words that go on for a while |\n| two<br>2 | short |\n",
        "key  what it is for\n───  ─────────────────────────\none  words that go on for a\n     while\ntwo  short\n2\n",
    );
}

#[test]
fn a_table_that_is_too_wide_is_a_block_for_each_row() {
    check(
        "| file | what it does | who |\n|--|--|--|\n| src/very/long/path.rs | it reads arguments of the command | a |\n\
         | b | | |\n",
        "file: src/very/long/path.rs\nwhat it does: it reads\n  arguments of the command\nwho: a\n\nfile: b\n",
    );
    // No line is longer than the terminal, however narrow it is and however many columns there are.
    let row = format!("|{}\n", " word |".repeat(40));
    let text = format!("{row}|{}\n{row}{row}", "--|".repeat(40));
    for columns in [10, 20, 50] {
        let page = MarkdownPage { width: columns, columns, ..PAGE };
        let shown = all(&text, page);
        assert!(shown.lines().all(|line| words::width(line) <= columns), "{columns}: {shown}");
        assert_eq!(shown.matches("word: word").count(), 80, "{shown}");
    }
}

#[test]
fn a_table_waits_until_it_is_complete() {
    let mut markdown = Markdown::default();
    assert_eq!(markdown.push("Text\n\n| a | b |\n|--", PAGE), "Text\n");
    // Something else is printed in between, at any moment.
    assert_eq!(markdown.pause(PAGE), "");
    assert_eq!(markdown.push("-|---|\n| 1 |", PAGE), "");
    assert_eq!(markdown.pause(PAGE), "");
    assert_eq!(markdown.push(" 2 |\n", PAGE), "");
    assert_eq!(markdown.pause(PAGE), "");
    assert_eq!(markdown.push("\nafter", PAGE), "a  b\n─  ─\n1  2\n");
    assert_eq!(markdown.pause(PAGE), "\nafter\n");
    // Its text ends with it.
    assert_eq!(markdown.push("| a |\n|---|\n| 1 |", PAGE), "");
    assert_eq!(markdown.flush(PAGE), "a\n─\n1\n");
}

#[test]
fn tables_have_colours_of_ours_alone() {
    let page = MarkdownPage { colour: true, ..PAGE };
    let shown = all("| a\u{1b}[2J | **b** |\n|--|--|\n| `c` | &#27;x |\n", page);
    assert!(shown.contains("\u{1b}[1ma␛[2J\u{1b}[0m  \u{1b}[1mb\u{1b}[0m\n"), "{shown:?}");
    assert!(shown.contains("\u{1b}[36mc\u{1b}[0m"), "{shown:?}");
    assert!(!shown.contains("\u{1b}x") && !shown.contains("\u{1b}[2J"), "{shown:?}");
}

#[test]
fn a_hostile_table_is_drawn_in_time() {
    // Each short row is filled up to the length of the header.
    let text = format!("{}|\n{}|\n{}", "|a".repeat(9_000), "|-".repeat(9_000), "|\n".repeat(9_000));
    assert!(!all(&text, PAGE).is_empty());
    let long = format!("|a|b|\n|-|-|\n{}", "| one | two |\n".repeat(8_000));
    let shown = all(&long, PAGE);
    assert_eq!(shown.matches("one").count(), 8_000, "all rows of a table that is too long to wait");
}

/// The most bytes that the lines of a text may take.
fn most(text: &str) -> usize {
    text.len() * 8 + 4 * 1024
}

#[test]
fn a_long_header_is_not_repeated_for_each_row() {
    let name = "n".repeat(40);
    let cut = format!("{}…:", "n".repeat(27));
    check(
        &format!("|{name}|b|\n|-|-|\n|1|2|\n|3||\n"),
        &format!("{}\n  {}\nb\n\n{cut}\n  1\nb: 2\n\n{cut}\n  3\n", "n".repeat(30), "n".repeat(10)),
    );
    // 240 MB before the name was cut, and measured anew for each line of each row.
    let text = format!("|{}|\n|-|\n{}", "n".repeat(30_000), "|a|\n".repeat(8_000));
    let shown = all(&text, PAGE);
    assert!(shown.len() <= most(&text), "{} bytes", shown.len());
    assert_eq!(shown.matches('a').count(), 8_000);
    assert!(shown.matches('n').count() >= 30_000, "the name is shown whole, once");
    // On a wider terminal even one line for each row is too much.
    let wide = MarkdownPage { width: 100, columns: 200, ..PAGE };
    assert_eq!(all(&text, wide), text);
}

#[test]
fn a_long_word_is_walked_once() {
    // 50,000,000,000 characters were measured when the rest of the word was measured for each of its lines.
    let word = "x".repeat(1_000_000);
    let lines = broken(&[(word.clone(), Vec::new())], 5, 10);
    assert_eq!(lines.len(), 100_001);
    assert_eq!((lines[0].width, lines[1].width, lines[100_000].width), (5, 10, 5));
    let mut out = String::new();
    lines.iter().for_each(|line| line.paint(false, &mut out));
    assert_eq!(out, word);
    // The parts of a word share its lines.
    check("**aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa**bbb", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nbbb\n");
    check("**aaaaaaaaaaaaaaaaaaaaaaaaaaaaa**日", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n日\n");
}

#[test]
fn a_block_that_would_grow_much_is_shown_as_it_is() {
    let wide = MarkdownPage { width: 100, columns: 1_000, ..PAGE };
    // A line for each blank in a narrow column, behind 980 blanks.
    let text = format!("|{}|n|\n|-|-|\n||{}|\n", "h".repeat(980), "a a a a a ".repeat(6_000));
    assert_eq!(all(&text, wide), text);
}

#[test]
fn a_block_that_is_too_deep_is_shown_as_it_is() {
    check("> > > > > > > > a\n", "│ │ │ │ │ │ │ │ a\n");
    check("> > > > > > > > > a\n", "> > > > > > > > > a\n");
    check("- - - - - - - - - a\n", "- - - - - - - - - a\n");
    check("> > > > > - - - - a\n", "> > > > > - - - - a\n");
    // 392 MB when each line had all of its bars.
    let words = "word ".repeat(7_000);
    for sign in ["> ", "- "] {
        let text = format!("{}{}\n", sign.repeat(14_000), words.trim_end());
        assert!(all(&text, PAGE) == text, "{sign}");
    }
}

#[test]
fn looks_inside_themselves_are_written_once() {
    // Every word had the codes of all the looks that it is inside of.
    let (open, close) = ("*a _b ".repeat(4_000), "c_ d* ".repeat(4_000));
    let text = format!("{}{}\n", open, close.trim_end());
    let shown = all(&text, MarkdownPage { colour: true, ..PAGE });
    assert!(shown.len() <= most(&text), "{} bytes", shown.len());
    assert!(!shown.contains(['*', '_']), "it is rendered");
    assert_eq!(shown.matches("\u{1b}[3m").count(), 16_000);
}

#[test]
fn empty_lines_are_looked_at_once() {
    // All of the lines were looked at again for each further one: 24 s for one of these ten.
    let empty = " \n".repeat(31_000);
    let text = format!("a\n{empty}b\n").repeat(10);
    assert_eq!(all(&text, PAGE), format!("a\n\n{}b\n", "b a\n\n".repeat(9)));
    assert_eq!(all(&format!("{}a\n", " \n".repeat(300_000)), PAGE), "a\n");
    // A line of blanks is as empty as others.
    check("a\n \nb\n\t\n\nc", "a\n\nb\n\nc\n");
}

#[test]
fn references_are_shown_as_they_are() {
    check(
        "See [docs][1].\n\n[1]: https://example.com/docs\n",
        "See [docs][1].\n\n[1]: https://example.com/docs\n",
    );
    // The second one defines nothing, and is shown all the same.
    check("[1]: <http://a>\n[1]: http://b 'c'\ntext\n", "[1]: <http://a>\n[1]: http://b 'c'\ntext\n");
    // Blocks without any text.
    for empty in ["#\n", "-\n", ">\n", "> [a]: http://b\n"] {
        check(empty, empty);
    }
}

#[test]
fn every_link_says_where_it_leads() {
    let wide = MarkdownPage { width: 100, columns: 100, ..PAGE };
    for (text, expected) in [
        (
            "[![build](https://img.example/b.svg)](https://evil.example/login)",
            "build (https://img.example/b.svg) (https://evil.example/login)\n",
        ),
        ("![![a](http://b)](http://c) d", "a (http://b) (http://c) d\n"),
        ("[x ![](http://b) y](http://c)", "x (http://b) y (http://c)\n"),
        ("[http://a](http://a) [http://a](http://b)", "http://a http://a (http://b)\n"),
        // The text is more than the address, though not by words alone.
        ("[http://a`.b`](http://a)", "http://a`.b` (http://a)\n"),
        ("[http://a![.b](http://c)](http://a.b)", "http://a.b (http://c) (http://a.b)\n"),
    ] {
        assert_eq!(all(text, wide), expected, "{text}");
    }
}
