//! Turns the parser's events of one block into lines: wraps words, indents lists and quotes.

use bowline_providers::ansi;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};

use super::MarkdownPage;
use super::lines::{BOLD, CODE, DIM, ITALIC, Part, broken, painted};
use super::table::{LINE_END, MarkdownTable};
use crate::human::words;

/// The maximum depth of quotes and lists together: each level makes the lines longer.
const DEEPEST: usize = 8;

/// The state of a block.
#[derive(Debug)]
pub(super) struct BlockFlow {
    page: MarkdownPage,
    out: String,
    /// The paragraph: its parts with their style codes.
    words: Vec<Part>,
    /// The current styles, and how often each was opened: a text may nest thousands.
    codes: Vec<(&'static str, usize)>,
    /// The prefix of the first line and of the others.
    first: String,
    rest: String,
    lists: Vec<Option<u64>>,
    quotes: usize,
    /// The open links and images: the address, and the start of the text in `linked`.
    links: Vec<(String, usize)>,
    /// The text of the outermost link.
    linked: String,
    code_block: bool,
    table: Option<MarkdownTable>,
    /// The maximum size of the block.
    longest: usize,
    /// Whether a paragraph was written in this block.
    written: bool,
}

impl BlockFlow {
    pub(super) fn new(page: MarkdownPage, longest: usize) -> Self {
        Self {
            page,
            out: String::new(),
            words: Vec::new(),
            codes: Vec::new(),
            first: String::new(),
            rest: String::new(),
            lists: Vec::new(),
            quotes: 0,
            links: Vec::new(),
            linked: String::new(),
            code_block: false,
            table: None,
            longest,
            written: false,
        }
    }

    pub(super) fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code_block => self.code(&text),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => {
                self.open(CODE);
                // Without colours, keep the Markdown characters.
                let text = if self.page.colour { text.to_string() } else { format!("`{text}`") };
                self.text(&text);
                self.close(CODE);
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.break_line(),
            Event::InlineHtml(text) if self.table.is_some() && is_line_break(&text) => {
                self.words.push((LINE_END.to_owned(), Vec::new()));
            }
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

    /// Returns whether the block is too deep to be rendered, or has become too long.
    pub(super) fn is_beyond_limits(&self) -> bool {
        self.out.len() > self.longest || self.quotes + self.lists.len() > DEEPEST
    }

    /// Returns the lines of the block; `None` if it exceeds a limit.
    pub(super) fn finish(mut self) -> Option<String> {
        self.end_paragraph();
        (!self.is_beyond_limits()).then_some(self.out)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other tags do not change the text inside them")]
    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.open(BOLD);
                if level > HeadingLevel::H2 {
                    self.open(ITALIC);
                }
            }
            Tag::Strong => self.open(BOLD),
            Tag::Emphasis => self.open(ITALIC),
            Tag::Strikethrough => self.open(DIM),
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
            Tag::Table(alignments) => {
                self.end_paragraph();
                self.table = Some(MarkdownTable::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if matches!(tag, Tag::TableHead) {
                    self.open(BOLD);
                }
                if let Some(table) = &mut self.table {
                    table.row();
                }
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.linked.len()));
            }
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other tags do not change the text inside them")]
    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                self.end_paragraph();
                self.close(BOLD);
                if level > HeadingLevel::H2 {
                    self.close(ITALIC);
                }
            }
            TagEnd::Strong => self.close(BOLD),
            TagEnd::Emphasis => self.close(ITALIC),
            TagEnd::Strikethrough => self.close(DIM),
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
            TagEnd::TableHead => self.close(BOLD),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.words);
                if let Some(table) = &mut self.table {
                    table.cell(cell);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let (first, rest) = self.prefixes();
                    // A table in a list item starts below the bullet.
                    if first.trim_end() != rest.trim_end() {
                        self.out.push_str(first.trim_end());
                        self.out.push('\n');
                        self.first = self.rest.clone();
                    } else if self.written {
                        self.out.push('\n');
                    }
                    table.draw(&rest, self.page, self.longest, &mut self.out);
                    self.written = true;
                }
            }
            TagEnd::Link | TagEnd::Image => {
                // Print the address of a link: its text may show another one.
                let link = self.links.pop();
                if let Some((url, _)) =
                    link.filter(|(url, begins)| self.linked[*begins..] != **url && !url.is_empty())
                {
                    self.open(DIM);
                    self.text(&format!(" ({url})"));
                    self.close(DIM);
                }
                if self.links.is_empty() {
                    self.linked.clear();
                }
            }
            _ => {}
        }
    }

    /// Begins a style; it may be nested in itself.
    fn open(&mut self, code: &'static str) {
        match self.codes.iter_mut().find(|(other, _)| *other == code) {
            Some((_, times)) => *times += 1,
            None => self.codes.push((code, 1)),
        }
    }

    /// Ends a style.
    fn close(&mut self, code: &'static str) {
        if let Some((_, times)) = self.codes.iter_mut().find(|(other, _)| *other == code) {
            *times -= 1;
        }
        self.codes.retain(|(_, times)| *times > 0);
    }

    /// Sets the prefixes inside lists and quotes.
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

    /// Adds text. The parser has just decoded entities such as `&#27;`, so it is made harmless here.
    fn text(&mut self, text: &str) {
        let text = ansi::harmless(text);
        if !self.links.is_empty() {
            self.linked.push_str(&text);
        }
        let looks: Vec<_> = self.codes.iter().map(|(code, _)| *code).collect();
        match self.words.last_mut() {
            Some((last, codes)) if *codes == looks && last != LINE_END => last.push_str(&text),
            _ => self.words.push((text.into_owned(), looks)),
        }
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
        if !self.links.is_empty() {
            self.linked.push('\n');
        }
        // A break does not end the paragraph: without this, `end_paragraph` would separate the rest by an empty line.
        let written = self.written;
        self.end_paragraph();
        self.written = written;
        self.first = self.rest.clone();
    }

    /// Returns the prefix of the first line and of the others, including quotes.
    fn prefixes(&self) -> (String, String) {
        let bar = format!("{} ", self.page.bar).repeat(self.quotes);
        (format!("{bar}{}", self.first), format!("{bar}{}", self.rest))
    }

    /// Writes the paragraph, wrapped at words.
    fn end_paragraph(&mut self) {
        let parts = std::mem::take(&mut self.words);
        if parts.iter().all(|(text, _)| text.trim().is_empty()) {
            return;
        }
        if self.written && self.out.ends_with('\n') {
            self.out.push('\n');
        }
        let (first, rest) = self.prefixes();
        // On a narrow terminal a deep prefix leaves no room. A line that is too long is better than one letter in each line.
        let room = |prefix: &str| self.page.width.saturating_sub(words::width(prefix)).max(8);
        for (number, line) in broken(&parts, room(&first), room(&rest)).into_iter().enumerate() {
            // `finish` returns `None` then, so more lines would be wasted.
            if self.out.len() > self.longest {
                return;
            }
            self.out.push_str(if number == 0 { &first } else { &rest });
            line.paint(self.page.colour, &mut self.out);
            self.out.push('\n');
        }
        self.first = self.rest.clone();
        self.written = true;
    }
}

/// Returns whether an HTML element ends a line inside a cell.
fn is_line_break(html: &str) -> bool {
    ["<br>", "<br/>", "<br />"].iter().any(|sign| html.eq_ignore_ascii_case(sign))
}
