//! Markdown of an answer on a terminal: rendered block by block, as the text arrives, and wrapped at words.
//!
//! A block is complete when the next one begins: at a line that is not indented and follows an empty one. Inside a fence
//! every line is shown as it arrives. If something else is printed, the unfinished block is shown first. A table is the
//! exception: its widths depend on all rows, so it waits until it is complete or the text ends.
//! Nothing is lost: HTML is shown as source, and so is a whole block that
//! - defines references, because the links that use them are often in other blocks, which are parsed alone;
//! - has no text, such as an empty heading;
//! - is deeper than the limit of quotes and lists, or would take several times its own space.
//!
//! The text is made harmless before it is parsed, so that no construct can bring a control sequence back.
//!
//! Deliberately absent: colours of code, images, footnotes.

mod flow;
mod lines;
mod table;

use bowline_providers::ansi;
use pulldown_cmark::{Options, Parser};

use self::flow::BlockFlow;
use self::lines::{CODE, painted};

/// The maximum length of an unfinished block. A longer one is shown as source.
const LONGEST_BLOCK: usize = 64 * 1024;

/// The maximum growth of a block. A block that would grow more is shown as source: markup that repeats on every line can turn a
/// few kilobytes into hundreds of megabytes.
const MOST_GROWTH: usize = 8;

/// The size that every block may have: a rule of three bytes becomes a line.
const SPARE_OUTPUT: usize = 4 * 1024;

/// The renderer of an answer.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// The unfinished block, including the unfinished line.
    ///
    /// It never begins with an empty line.
    waiting: String,
    /// Whether its last whole line is blank. Scanning the block again for each line would take quadratic time.
    after_empty: bool,
    /// The characters that end the current fence.
    fence: Option<String>,
    /// Whether a block was shown, so that the next one is separated from it.
    shown: bool,
    /// Whether an empty line is due before the next block.
    apart: bool,
}

/// The page that the answer is drawn on.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkdownPage {
    /// The width of text.
    pub(super) width: usize,
    /// The width of the terminal, which tables may use.
    pub(super) columns: usize,
    pub(super) colour: bool,
    pub(super) bullet: &'static str,
    pub(super) bar: &'static str,
    pub(super) rule: &'static str,
    pub(super) ellipsis: &'static str,
}

impl Markdown {
    /// Adds text and returns the complete lines.
    pub(super) fn push(&mut self, text: &str, page: MarkdownPage) -> String {
        let mut out = String::new();
        for part in text.split_inclusive('\n') {
            // Look at whole lines only; the last one may be unfinished.
            let line_begins = self.waiting.rfind('\n').map_or(0, |end| end + 1);
            self.waiting.push_str(part);
            if part.ends_with('\n') {
                self.line(line_begins, page, &mut out);
            }
            // A block that does not end must not fill the memory: print its source.
            if self.waiting.len() > LONGEST_BLOCK {
                out.push_str(&self.verbatim());
            }
        }
        out
    }

    /// Returns the unfinished block before something else is printed. An unfinished table waits.
    pub(super) fn pause(&mut self, page: MarkdownPage) -> String {
        let begins = if self.fence.is_none() { table_begins(&self.waiting) } else { None };
        let table = begins.map(|begins| self.waiting.split_off(begins));
        let out = self.flush(page);
        self.waiting = table.unwrap_or_default();
        out
    }

    /// Returns the rest, because the text has ended.
    pub(super) fn flush(&mut self, page: MarkdownPage) -> String {
        let mut out = String::new();
        let waiting = std::mem::take(&mut self.waiting);
        if self.fence.is_none() {
            self.block(&waiting, page, &mut out);
        } else if !waiting.is_empty() {
            self.code_line(waiting.trim_end_matches('\n'), page, &mut out);
        }
        // The text that is printed in between separates the blocks already.
        (self.shown, self.apart) = (false, false);
        out
    }

    /// Processes a completed line, which begins at an offset.
    fn line(&mut self, begins: usize, page: MarkdownPage, out: &mut String) {
        let line = self.waiting[begins..].trim_end_matches(['\n', '\r']).to_owned();
        if let Some(end) = &self.fence {
            if line.trim_start().starts_with(end.as_str())
                && line.trim().trim_start_matches(['`', '~']).is_empty()
            {
                (self.fence, self.apart) = (None, true);
            } else {
                self.code_line(&line, page, out);
            }
            self.waiting.clear();
            return;
        }
        if let Some(sign) = fence(&line) {
            // The text before it is a separate block.
            let block = self.waiting[..begins].to_owned();
            self.block(&block, page, out);
            self.begin(out);
            (self.fence, self.shown) = (Some(sign), true);
            self.waiting.clear();
            return;
        }
        let empty = line.trim().is_empty();
        if empty && begins == 0 {
            self.waiting.clear();
            self.apart |= self.shown;
            return;
        }
        let follows_empty = begins == 0 || self.after_empty;
        self.after_empty = empty;
        // An empty line ends only a table: a list may continue after it.
        if empty && is_table(&self.waiting) {
            let block = std::mem::take(&mut self.waiting);
            return self.block(&block, page, out);
        }
        // A table after a paragraph is a separate block, even without an empty line.
        if is_delimiter(&line) {
            let header = self.waiting[..begins].trim_end_matches('\n').rfind('\n').map_or(0, |end| end + 1);
            let text = &self.waiting[header..begins];
            if header > 0 && text.contains('|') && !text.starts_with([' ', '\t', '>', '-', '*']) {
                let table = self.waiting.split_off(header);
                let block = std::mem::replace(&mut self.waiting, table);
                self.block(&block, page, out);
                return;
            }
        }
        let begins_block = !empty && !line.starts_with([' ', '\t']) && follows_empty;
        let heading = line.starts_with('#');
        if begins > 0 && (begins_block || heading) {
            let rest = self.waiting.split_off(begins);
            let block = std::mem::replace(&mut self.waiting, rest);
            self.block(&block, page, out);
        }
        if heading {
            let block = std::mem::take(&mut self.waiting);
            self.block(&block, page, out);
        }
    }

    /// Adds an empty line before a block, if another block is before it.
    fn begin(&mut self, out: &mut String) {
        if self.shown && std::mem::take(&mut self.apart) {
            out.push('\n');
        }
    }

    fn block(&mut self, block: &str, page: MarkdownPage, out: &mut String) {
        if block.trim().is_empty() {
            self.apart |= self.shown;
            return;
        }
        self.begin(out);
        let clean = ansi::harmless(block.trim_end());
        out.push_str(&render(&clean, page));
        (self.shown, self.apart) = (true, true);
    }

    fn code_line(&mut self, line: &str, page: MarkdownPage, out: &mut String) {
        if line.is_empty() && self.fence.is_none() {
            return;
        }
        let line = ansi::harmless(line);
        out.push_str("    ");
        out.push_str(&painted(&line, &[CODE], page.colour));
        out.push('\n');
        self.shown = true;
    }

    fn verbatim(&mut self) -> String {
        (self.shown, self.apart) = (true, false);
        ansi::harmless(&std::mem::take(&mut self.waiting)).into_owned()
    }
}

/// Returns the characters of the fence that a line opens.
fn fence(line: &str) -> Option<String> {
    let text = line.trim_start();
    // By CommonMark, four blanks begin an indented code block and not a fence.
    if line.len() - text.len() > 3 {
        return None;
    }
    ['`', '~'].into_iter().find_map(|sign| {
        let length = text.chars().take_while(|c| *c == sign).count();
        let rest = &text[length..];
        // By CommonMark, the text behind a fence of backticks has none: otherwise it is inline code.
        (length >= 3 && !(sign == '`' && rest.contains('`'))).then(|| sign.to_string().repeat(length))
    })
}

/// Returns whether a line is the rule below the header of a table: `|---|:--:|`.
fn is_delimiter(line: &str) -> bool {
    line.contains('-')
        && line.contains('|')
        && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t'))
}

/// Returns whether a text begins with the header of a table and its rule.
fn is_table(text: &str) -> bool {
    let mut lines = text.lines();
    lines.next().is_some_and(|header| header.contains('|')) && lines.next().is_some_and(is_delimiter)
}

/// Returns the start of a table at the end of the text, or of a line that may become its header.
fn table_begins(text: &str) -> Option<usize> {
    if is_table(text) {
        return Some(0);
    }
    // The rule below the header may be missing or incomplete.
    let run = text.split_inclusive('\n').rev().take_while(|line| line.starts_with('|'));
    let length: usize = run.map(str::len).sum();
    (length > 0).then(|| text.len() - length)
}

/// Returns one block: rendered, or its source if it cannot be rendered.
fn render(block: &str, page: MarkdownPage) -> String {
    rendered(block, page).unwrap_or_else(|| format!("{block}\n"))
}

/// Renders one block. Returns `None` if that would hide a part, if the block is too deep, or if it would grow too much.
fn rendered(block: &str, page: MarkdownPage) -> Option<String> {
    // Rows without a header, as of an overlong table, are shown as source.
    if block.lines().all(|line| line.trim_start().starts_with('|')) && !is_table(block) {
        return None;
    }
    let mut flow = BlockFlow::new(page, SPARE_OUTPUT + block.len().saturating_mul(MOST_GROWTH));
    let parser = Parser::new_ext(block, Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES);
    // The parser has no events for link definitions, so a rendered block would hide them.
    if parser.reference_definitions().iter().next().is_some() {
        return None;
    }
    for event in parser {
        flow.event(event);
        if flow.is_beyond_limits() {
            return None;
        }
    }
    // An empty heading, or an empty item.
    flow.finish().filter(|lines| !lines.trim().is_empty())
}

#[cfg(test)]
mod tests;
