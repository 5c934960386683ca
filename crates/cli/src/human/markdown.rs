//! Markdown of an answer on a terminal: rendered block by block, as the text arrives, and wrapped at words.
//!
//! A block is complete when the next one begins: at a line that is not indented and follows an empty one. Inside a fence
//! every line is shown as it comes. A text that stands still is shown as far as it goes when anything else is printed.
//! Nothing is lost: what is not understood (HTML, tables) is shown as it is written. The text is made harmless before it is
//! parsed, so that no construct can bring a control sequence back.
//!
//! Deliberately absent: colours of code, images, footnotes, boxes around tables.

use bowline_providers::ansi;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::words;

/// The most text of one block that waits for its end. What is longer is shown as it is.
const LONGEST_BLOCK: usize = 64 * 1024;

/// How parts of the text look; the codes of the terminal.
const BOLD: &str = "1";
const ITALIC: &str = "3";
const CODE: &str = "36";
const DIM: &str = "2";

/// An answer that is being shown.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// The block that has not ended, in whole lines, and the line that has not ended.
    waiting: String,
    /// The sign that ends the fence that the text is in.
    fence: Option<String>,
    /// Whether a block was shown, so that the next one stands apart from it.
    shown: bool,
    /// Whether an empty line is due before the next block.
    apart: bool,
}

/// How it is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) width: usize,
    pub(super) colour: bool,
    pub(super) bullet: &'static str,
    pub(super) bar: &'static str,
}

impl Markdown {
    /// Takes a piece of the answer and returns what can be shown: whole lines.
    pub(super) fn push(&mut self, text: &str, page: Page) -> String {
        let mut out = String::new();
        for part in text.split_inclusive('\n') {
            // Only whole lines are looked at; the last one may be a part.
            let line_begins = self.waiting.rfind('\n').map_or(0, |end| end + 1);
            self.waiting.push_str(part);
            if part.ends_with('\n') {
                self.line(line_begins, page, &mut out);
            }
            if self.waiting.len() > LONGEST_BLOCK {
                out.push_str(&self.verbatim());
            }
        }
        out
    }

    /// Returns what is left, because the message ended or something else is printed.
    pub(super) fn flush(&mut self, page: Page) -> String {
        let mut out = String::new();
        let waiting = std::mem::take(&mut self.waiting);
        if self.fence.is_none() {
            self.block(&waiting, page, &mut out);
        } else if !waiting.is_empty() {
            self.code_line(waiting.trim_end_matches('\n'), page, &mut out);
        }
        // What follows stands apart from what is printed in between anyway.
        (self.shown, self.apart) = (false, false);
        out
    }

    /// Looks at the line that was completed, which begins there.
    fn line(&mut self, begins: usize, page: Page, out: &mut String) {
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
            // The text before it is a block of its own.
            let block = self.waiting[..begins].to_owned();
            self.block(&block, page, out);
            self.begin(out);
            (self.fence, self.shown) = (Some(sign), true);
            self.waiting.clear();
            return;
        }
        let follows_empty =
            self.waiting[..begins].ends_with("\n\n") || self.waiting[..begins].trim().is_empty();
        let begins_block = !line.is_empty() && !line.starts_with([' ', '\t']) && follows_empty;
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

    /// Leaves an empty line before a block, where there was one before it.
    fn begin(&mut self, out: &mut String) {
        if self.shown && std::mem::take(&mut self.apart) {
            out.push('\n');
        }
    }

    fn block(&mut self, block: &str, page: Page, out: &mut String) {
        if block.trim().is_empty() {
            self.apart |= self.shown;
            return;
        }
        self.begin(out);
        let clean = ansi::harmless(block.trim_end());
        out.push_str(&render(&clean, page));
        (self.shown, self.apart) = (true, true);
    }

    fn code_line(&mut self, line: &str, page: Page, out: &mut String) {
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

/// Returns the sign of a fence that a line opens.
fn fence(line: &str) -> Option<String> {
    let text = line.trim_start();
    if line.len() - text.len() > 3 {
        return None;
    }
    ['`', '~'].into_iter().find_map(|sign| {
        let length = text.chars().take_while(|c| *c == sign).count();
        let rest = &text[length..];
        (length >= 3 && !(sign == '`' && rest.contains('`'))).then(|| sign.to_string().repeat(length))
    })
}

/// Puts codes of the terminal around a text.
fn painted(text: &str, codes: &[&str], colour: bool) -> String {
    if !colour || codes.is_empty() || text.is_empty() {
        return text.to_owned();
    }
    format!("\x1b[{}m{text}\x1b[0m", codes.join(";"))
}

/// Renders one block.
fn render(block: &str, page: Page) -> String {
    // Columns of a table are aligned by their author, as far as they are.
    if block.lines().all(|line| line.trim_start().starts_with('|')) {
        return format!("{block}\n");
    }
    let mut flow = Flow::new(page);
    for event in Parser::new_ext(block, Options::ENABLE_STRIKETHROUGH) {
        flow.event(event);
    }
    flow.end_paragraph();
    flow.out
}

/// Words of a block on their way into lines.
#[derive(Debug)]
struct Flow {
    page: Page,
    out: String,
    /// The words of the paragraph: the text, and the codes of each of its parts.
    words: Vec<(String, Vec<&'static str>)>,
    codes: Vec<&'static str>,
    /// What stands before the first line and before the others.
    first: String,
    rest: String,
    lists: Vec<Option<u64>>,
    quotes: usize,
    link: Option<String>,
    linked: String,
    code_block: bool,
    /// Whether a paragraph was written in this block.
    written: bool,
}

impl Flow {
    fn new(page: Page) -> Self {
        Self {
            page,
            out: String::new(),
            words: Vec::new(),
            codes: Vec::new(),
            first: String::new(),
            rest: String::new(),
            lists: Vec::new(),
            quotes: 0,
            link: None,
            linked: String::new(),
            code_block: false,
            written: false,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code_block => self.code(&text),
            Event::Text(text) => {
                self.linked.push_str(&text);
                self.text(&text);
            }
            Event::Code(text) => {
                self.codes.push(CODE);
                // Without colours, its signs say what it is.
                let text = if self.page.colour { text.to_string() } else { format!("`{text}`") };
                self.text(&text);
                self.codes.pop();
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.break_line(),
            Event::Rule => {
                let line = "-".repeat(self.page.width.clamp(3, 40));
                self.out.push_str(&painted(&line, &[DIM], self.page.colour));
                self.out.push('\n');
            }
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }),
            Event::FootnoteReference(name) => self.text(&format!("[^{name}]")),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.text(&text),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other tags change nothing of the text inside them")]
    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.codes.push(BOLD);
                if level > HeadingLevel::H2 {
                    self.codes.push(ITALIC);
                }
            }
            Tag::Strong => self.codes.push(BOLD),
            Tag::Emphasis => self.codes.push(ITALIC),
            Tag::Strikethrough => self.codes.push(DIM),
            Tag::BlockQuote(_) => self.quotes += 1,
            Tag::List(start) => {
                self.end_paragraph();
                self.lists.push(start);
            }
            Tag::Item => {
                self.end_paragraph();
                self.written = false;
                self.item();
            }
            Tag::CodeBlock(kind) => {
                self.end_paragraph();
                self.code_block = true;
                debug_assert!(matches!(kind, CodeBlockKind::Indented | CodeBlockKind::Fenced(_)));
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some(dest_url.to_string());
                self.linked.clear();
            }
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other tags change nothing of the text inside them")]
    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                self.end_paragraph();
                self.codes.pop();
                if level > HeadingLevel::H2 {
                    self.codes.pop();
                }
            }
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => drop(self.codes.pop()),
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_paragraph(),
            TagEnd::Item => {
                self.end_paragraph();
                self.rest.clear();
                self.first.clear();
                self.indent();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.indent();
            }
            TagEnd::BlockQuote(_) => {
                self.end_paragraph();
                self.quotes -= 1;
                self.indent();
            }
            TagEnd::CodeBlock => self.code_block = false,
            TagEnd::Link | TagEnd::Image => {
                // Where a link leads is said: a text may name another address than the one behind it.
                if let Some(url) = self.link.take().filter(|url| *url != self.linked && !url.is_empty()) {
                    self.codes.push(DIM);
                    self.text(&format!(" ({url})"));
                    self.codes.pop();
                }
            }
            _ => {}
        }
    }

    /// Sets what stands before the lines inside lists and quotes.
    fn indent(&mut self) {
        let depth = self.lists.len();
        self.rest = "  ".repeat(depth);
        self.first = self.rest.clone();
    }

    fn item(&mut self) {
        let depth = self.lists.len().saturating_sub(1);
        let sign = match self.lists.last_mut() {
            Some(Some(number)) => {
                let sign = format!("{number}. ");
                *number += 1;
                sign
            }
            Some(None) | None => format!("{} ", self.page.bullet),
        };
        let indent = "  ".repeat(depth);
        self.rest = format!("{indent}{}", " ".repeat(words::width(&sign)));
        self.first = format!("{indent}{sign}");
    }

    /// Takes text. Entities such as `&#27;` became characters only now.
    fn text(&mut self, text: &str) {
        self.words.push((ansi::harmless(text).into_owned(), self.codes.clone()));
    }

    fn code(&mut self, text: &str) {
        for line in ansi::harmless(text).lines() {
            self.out.push_str(&self.rest);
            self.out.push_str("    ");
            self.out.push_str(&painted(line, &[CODE], self.page.colour));
            self.out.push('\n');
        }
    }

    fn break_line(&mut self) {
        let written = self.written;
        self.end_paragraph();
        self.written = written;
        self.first = self.rest.clone();
    }

    /// Writes the paragraph that has been gathered, wrapped at words.
    fn end_paragraph(&mut self) {
        let parts = std::mem::take(&mut self.words);
        if parts.iter().all(|(text, _)| text.trim().is_empty()) {
            return;
        }
        if self.written && self.out.ends_with('\n') {
            self.out.push('\n');
        }
        let bar = format!("{} ", self.page.bar).repeat(self.quotes);
        let (first, rest) = (format!("{bar}{}", self.first), format!("{bar}{}", self.rest));
        wrap(&parts, &first, &rest, self.page, &mut self.out);
        self.first = self.rest.clone();
        self.written = true;
    }
}

/// Writes parts of text in lines that end between words. A word that is longer than a line is broken where the line ends.
fn wrap(parts: &[(String, Vec<&'static str>)], first: &str, rest: &str, page: Page, out: &mut String) {
    let room = |prefix: &str| page.width.saturating_sub(words::width(prefix)).max(8);
    out.push_str(first);
    let (mut left, mut begun) = (room(first), false);
    for word in split_words(parts) {
        let width: usize = word.iter().map(|(text, _)| words::width(text)).sum();
        let gap = usize::from(begun);
        if begun && width + gap > left {
            out.push('\n');
            out.push_str(rest);
            (left, begun) = (room(rest), false);
        }
        if begun {
            out.push(' ');
            left = left.saturating_sub(1);
        }
        for (text, codes) in word {
            let mut text = text.as_str();
            while words::width(text) > left {
                let head = words::head(text, left.max(2));
                out.push_str(&painted(head, codes, page.colour));
                out.push('\n');
                out.push_str(rest);
                (left, text) = (room(rest), &text[head.len()..]);
            }
            out.push_str(&painted(text, codes, page.colour));
            left -= words::width(text);
        }
        begun = true;
    }
    out.push('\n');
}

/// Cuts parts into words; a word may have parts that look different.
fn split_words<'a>(parts: &'a [(String, Vec<&'static str>)]) -> Vec<Vec<(String, &'a [&'static str])>> {
    let (mut all, mut word) = (Vec::new(), Vec::new());
    for (text, codes) in parts {
        let mut part = String::new();
        for c in text.chars() {
            if c.is_whitespace() && c != '\u{a0}' {
                if !part.is_empty() {
                    word.push((std::mem::take(&mut part), codes.as_slice()));
                }
                if !word.is_empty() {
                    all.push(std::mem::take(&mut word));
                }
            } else {
                part.push(c);
            }
        }
        if !part.is_empty() {
            word.push((part, codes.as_slice()));
        }
    }
    if !word.is_empty() {
        all.push(word);
    }
    all
}

#[cfg(test)]
mod tests;
