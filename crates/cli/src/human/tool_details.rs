//! Details below the line of a tool call: the changed lines of an edit, the end of the output of a failed command, and with
//! `-v` input and output. Bounded, and harmless for a terminal.

use bowline_protocol::kinds::{ToolFinished, ToolKind, ToolStatus};
use bowline_providers::ansi;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::calls::ToolCall;
use super::line::{Paint, PaintedLine};
use super::remarks::RemarkLevel;
use super::{DetailLevel, PIPE_WIDTH, words};

/// The maximum number of lines that are compared. A longer edit counts as a replacement of the whole text.
const COMPARED: usize = 2_000;

/// The maximum number of bytes of a line.
const LONGEST_LINE: usize = 1_000;

/// The arguments of agents' tools for the text before and after an edit.
const BEFORE: [&str; 5] = ["old_string", "oldString", "oldText", "old_str", "old_text"];
const AFTER: [&str; 5] = ["new_string", "newString", "newText", "new_str", "new_text"];

/// The arguments for a whole new file.
const WHOLE: [&str; 4] = ["content", "file_text", "contents", "fileText"];

/// The arguments for a patch.
const PATCH: [&str; 6] = ["unified_diff", "diff", "patch", "patchText", "patch_text", "input"];

/// The change of an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EditChange {
    added: u64,
    removed: u64,
    lines: Vec<(LineMark, String)>,
    /// Whether it is a whole file, whose previous text is unknown.
    whole: bool,
}

/// The change of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineMark {
    Added,
    Removed,
}

impl EditChange {
    /// Reads the arguments of an edit.
    pub(super) fn of(arguments: &Value) -> Option<Self> {
        let mut change = Self::default();
        change.read(arguments, 0);
        (change.added + change.removed > 0).then_some(change)
    }

    /// Formats the counts: `+3 -1`; for a whole file, its length.
    pub(super) fn counts(&self) -> String {
        if self.whole {
            words::many(self.added, "line")
        } else {
            format!("+{} -{}", self.added, self.removed)
        }
    }

    /// Returns the number of changed lines.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the first changed lines.
    pub(super) fn painted(&self, most: usize) -> impl Iterator<Item = PaintedLine> {
        self.lines.iter().take(most).map(|(mark, text)| {
            let (paint, sign) = match mark {
                LineMark::Added => (Paint::Green, '+'),
                LineMark::Removed => (Paint::Red, '-'),
            };
            PaintedLine::of(paint, format!("    {sign} {text}"))
        })
    }

    fn read(&mut self, value: &Value, depth: u8) {
        // Edits are at most lists in objects in lists.
        if depth > 4 {
            return;
        }
        if let Value::Array(parts) = value {
            return parts.iter().for_each(|part| self.read(part, depth + 1));
        }
        let Value::Object(fields) = value else { return };
        let text = |names: &[&str]| names.iter().find_map(|name| fields.get(*name)?.as_str());
        if let (before, Some(after)) = (text(&BEFORE).unwrap_or_default(), text(&AFTER)) {
            return self.compare(before, after);
        }
        if let Some(patch) = text(&PATCH).filter(|text| is_patch(text)) {
            return self.patch(patch);
        }
        for name in ["edits", "changes"] {
            match fields.get(name) {
                Some(Value::Object(by_path)) => by_path.values().for_each(|part| self.read(part, depth + 1)),
                Some(part) => self.read(part, depth + 1),
                None => {}
            }
        }
        if depth == 0
            && self.lines.is_empty()
            && let Some(whole) = text(&WHOLE)
        {
            self.whole = true;
            whole.lines().for_each(|line| self.line(LineMark::Added, line));
        }
    }

    fn compare(&mut self, before: &str, after: &str) {
        if before.lines().count() + after.lines().count() > COMPARED {
            before.lines().for_each(|line| self.line(LineMark::Removed, line));
            return after.lines().for_each(|line| self.line(LineMark::Added, line));
        }
        // A missing line end of the last line is not a change.
        let (before, after) = (ended(before), ended(after));
        for change in TextDiff::from_lines(&*before, &*after).iter_all_changes() {
            match change.tag() {
                ChangeTag::Equal => {}
                ChangeTag::Delete => self.line(LineMark::Removed, change.value()),
                ChangeTag::Insert => self.line(LineMark::Added, change.value()),
            }
        }
    }

    fn patch(&mut self, patch: &str) {
        let lines: Vec<&str> = patch.lines().collect();
        let starts = |at: usize, with: &str| lines.get(at).is_some_and(|line| line.starts_with(with));
        // A header is a pair of lines before a hunk. A changed line may begin like one: `++x` is added as `+++x`.
        let is_header = |at: usize| starts(at, "--- ") && starts(at + 1, "+++ ") && starts(at + 2, "@@");
        for (at, line) in lines.iter().enumerate() {
            if is_header(at) || at.checked_sub(1).is_some_and(is_header) {
                continue;
            }
            if let Some(line) = line.strip_prefix('+') {
                self.line(LineMark::Added, line);
            } else if let Some(line) = line.strip_prefix('-') {
                self.line(LineMark::Removed, line);
            }
        }
    }

    fn line(&mut self, mark: LineMark, text: &str) {
        match mark {
            LineMark::Added => self.added += 1,
            LineMark::Removed => self.removed += 1,
        }
        self.lines.push((mark, shown(text)));
    }
}

/// Returns whether a text is a patch, and not another argument of the same name.
fn is_patch(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("@@") || line.starts_with("*** Begin Patch"))
}

fn ended(text: &str) -> std::borrow::Cow<'_, str> {
    if text.is_empty() || text.ends_with('\n') { text.into() } else { format!("{text}\n").into() }
}

/// Makes a line of foreign text harmless and keeps its indentation.
fn shown(line: &str) -> String {
    let line = line.trim_end();
    let head = &line[..line.floor_char_boundary(LONGEST_LINE)];
    let left = line.len() - head.len();
    let text = ansi::harmless(&head.replace('\t', "    ")).into_owned();
    // A person may decide by this line.
    if left > 0 { format!("{text} ... ({left} more bytes)") } else { text }
}

/// Returns the last non-empty lines of a text, without terminal sequences.
fn last_lines(text: &str, most: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(most)..].iter().map(|line| shown(&ansi::strip(line))).collect()
}

/// Returns the end of the output of a call, without the part that its line has already.
fn end_of_output(call: &ToolCall, end: &ToolFinished, most: usize) -> Vec<String> {
    let mut lines = last_lines(call.output(end), most);
    if let Some(code) = end.exit_code {
        lines.retain(|line| !line.eq_ignore_ascii_case(&format!("exit code {code}")));
    } else if end.status == ToolStatus::Failed && lines.len() == 1 {
        // It is the reason, which the line of the call has already.
        lines.clear();
    }
    lines
}

impl super::Renderer {
    /// Prints the details of a call.
    pub(super) fn show_work(&mut self, call: &ToolCall, end: &ToolFinished) {
        if end.status == ToolStatus::Completed
            && let Some(change) = call.change()
        {
            self.show_change(&change);
        }
        let failed = end.status == ToolStatus::Failed || end.exit_code.is_some_and(|code| code != 0);
        if self.options.detail >= DetailLevel::Verbose {
            self.show_input(call);
            self.show_output(&end_of_output(call, end, self.at_most(0, 10, 100)));
        } else if failed && call.kind == ToolKind::Execute {
            self.show_output(&end_of_output(call, end, 5));
        }
    }

    fn show_change(&mut self, change: &EditChange) {
        // The lines of a whole new file are shown with `-v` only.
        let most = self.at_most(if change.whole { 0 } else { 6 }, 40, 400);
        for line in change.painted(most) {
            self.below(line);
        }
        let left = change.len().saturating_sub(most);
        if left > 0 && most > 0 {
            let lines = words::many(left as u64, "more line");
            let how = if self.options.detail == DetailLevel::Usual { " (-v shows them)" } else { "" };
            self.below(PaintedLine::of(
                Paint::Dim,
                format!("    {} {lines}{how}", self.options.glyphs.ellipsis()),
            ));
        }
    }

    /// Prints the arguments of a call, with `-vv`.
    fn show_input(&mut self, call: &ToolCall) {
        if self.options.detail < DetailLevel::Everything {
            return;
        }
        let Some(input) = call.arguments() else { return };
        let text = serde_json::to_string_pretty(&input).unwrap_or_default();
        for line in text.lines().take(100) {
            self.below(PaintedLine::of(Paint::Dim, format!("    > {}", shown(line))));
        }
    }

    fn show_output(&mut self, lines: &[String]) {
        for line in lines {
            self.below(PaintedLine::of(Paint::Dim, format!("    {} {line}", self.options.glyphs.bar())));
        }
    }

    /// Prints a detail line, cut to the width of the terminal.
    fn below(&mut self, line: PaintedLine) {
        let stderr = self.canvas.screen().stderr;
        let columns = if stderr.tty { usize::from(stderr.width) } else { PIPE_WIDTH };
        self.say(RemarkLevel::Usual, &line.cut(columns, self.options.glyphs));
    }

    fn at_most(&self, usual: usize, verbose: usize, everything: usize) -> usize {
        match self.options.detail {
            DetailLevel::Quiet => 0,
            DetailLevel::Usual => usual,
            DetailLevel::Verbose => verbose,
            DetailLevel::Everything => everything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &serde_json::Value, counts: &str, lines: &[&str]) {
        let change = EditChange::of(arguments).unwrap_or_else(|| panic!("{arguments} changes something"));
        assert_eq!(change.counts(), counts, "{arguments}");
        let sign = |mark: &LineMark| if *mark == LineMark::Added { '+' } else { '-' };
        let all: Vec<String> =
            change.lines.iter().map(|(mark, line)| format!("{}{line}", sign(mark))).collect();
        assert_eq!(all, lines, "{arguments}");
    }

    #[test]
    fn edits_of_every_shape_are_read() {
        use serde_json::json;
        let lines = ["-  b", "+  c", "+d"];
        check(
            &json!({"file_path": "x", "old_string": "a\n  b\n", "new_string": "a\n  c\nd"}),
            "+2 -1",
            &lines,
        );
        check(&json!({"oldText": "a\n  b", "newText": "a\n  c\nd"}), "+2 -1", &lines);
        check(
            &json!({"edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "", "new_string": "c"}]}),
            "+2 -1",
            &["-a", "+b", "+c"],
        );
        check(
            &json!({"patch": "--- a\n+++ a\n@@ -1 +1 @@\n--- old\n+++new\n"}),
            "+1 -1",
            &["--- old", "+++new"],
        );
        let patch = "*** Begin Patch\n*** Update File: x\n@@\n a\n-\tb\n+c\n*** End Patch";
        check(&json!({"input": patch}), "+1 -1", &["-    b", "+c"]);
        check(
            &json!({"changes": {"/w/a": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-a\n+b\n"}}}),
            "+1 -1",
            &["-a", "+b"],
        );
        check(
            &json!({"changes": [{"path": "a", "diff": "--- a\n+++ b\n@@ -1 +1 @@\n-a\n"}]}),
            "+0 -1",
            &["-a"],
        );
        check(&json!({"file_path": "x", "content": "one\ntwo\n"}), "2 lines", &["+one", "+two"]);
        check(&json!({"old_str": "a\u{1b}[2J", "new_str": "\u{202e}"}), "+1 -1", &["-a␛[2J", "+\\u{202e}"]);
    }

    #[test]
    fn what_changes_nothing_has_no_lines() {
        for arguments in [
            r#"{"old_string":"a","new_string":"a"}"#,
            "{}",
            "[]",
            "1",
            r#"{"input":"a text"}"#,
            r#"{"content":""}"#,
            r#"{"new_string":7}"#,
        ] {
            assert_eq!(EditChange::of(&serde_json::from_str(arguments).expect("JSON")), None, "{arguments}");
        }
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert_eq!(EditChange::of(&serde_json::from_str(&deep).expect("JSON")), None);
    }

    #[test]
    fn a_line_that_is_cut_says_so() {
        let change = EditChange::of(&serde_json::json!({"content": "x".repeat(1_200)})).expect("a change");
        assert!(change.lines[0].1.ends_with("xxx ... (200 more bytes)"), "{:?}", change.lines);
    }

    #[test]
    fn an_edit_that_is_too_long_to_compare_is_counted() {
        let (old, new) = ("a\nb\n".repeat(600), "a\nc\n".repeat(600));
        let change =
            EditChange::of(&serde_json::json!({"old_string": old, "new_string": new})).expect("a change");
        assert_eq!(change.counts(), "+1200 -1200");
    }

    #[test]
    fn the_end_of_an_output_is_shown() {
        assert_eq!(last_lines("a\n\n  b\r\n\x1b[31mc\n\n", 2), ["  b", "c"]);
        assert_eq!(last_lines("", 2), Vec::<String>::new());
    }
}
