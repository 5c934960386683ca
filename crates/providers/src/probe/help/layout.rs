//! Where things stand on a page of help: headings, entries, and the lines that belong to an entry.

/// A page, cut up.
#[derive(Debug, Default)]
pub(super) struct HelpLayout {
    pub(super) usage: Vec<String>,
    pub(super) sections: Vec<(Section, Vec<HelpEntry>)>,
}

/// The kind of entries in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Flags,
    Commands,
}

/// One entry of a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HelpEntry {
    /// The described names and values.
    pub(super) spec: String,
    /// The description: its lines, each trimmed. An empty one is a paragraph's end.
    pub(super) description: Vec<String>,
}

/// How far behind a short option that is not there a long one is written: the width of `-x, `.
const ALIGNED: usize = 4;

/// Cuts a page.
pub(super) fn cut(text: &str) -> HelpLayout {
    let lines: Vec<HelpLine<'_>> = text.lines().map(HelpLine::new).collect();
    let mut page = HelpLayout::default();
    let mut at = 0;
    let mut heading = None;
    while at < lines.len() {
        let line = &lines[at];
        if let Some(rest) = line.usage() {
            at = usage(&lines, at, rest, &mut page.usage);
            heading = None;
            continue;
        }
        if line.is_heading() {
            heading = Some(line.text.to_lowercase());
            at += 1;
            continue;
        }
        let end = lines[at..].iter().position(|line| line.is_heading() || line.usage().is_some());
        let end = end.map_or(lines.len(), |length| at + length);
        if let Some(section) = section(heading.as_deref()) {
            let body = &lines[at..end];
            let entries = match section {
                Section::Flags => entries(body, &Marks::flags(body)),
                Section::Commands => entries(body, &Marks::commands(body)),
            };
            page.sections.push((section, entries));
        }
        if page.usage.is_empty() && heading.is_none() {
            page.usage
                .extend(lines[at..end].iter().find(|line| line.shows_use()).map(|line| line.text.to_owned()));
        }
        at = end;
    }
    page
}

/// Returns what a section lists, by its heading. Before the first heading there may be options too.
fn section(heading: Option<&str>) -> Option<Section> {
    const NOTHING: &[&str] = &[
        "example",
        "environment",
        "usage",
        "learn more",
        "see also",
        "topic",
        "argument",
        "positional",
        "tool names",
    ];
    let Some(heading) = heading else { return Some(Section::Flags) };
    let is = |words: &[&str]| words.iter().any(|word| heading.contains(word));
    match () {
        () if is(&["option", "flag", "switch"]) => Some(Section::Flags),
        () if is(&["command"]) => Some(Section::Commands),
        // argparse calls them so in older versions; other headings may group options by subject.
        () if is(NOTHING) && !is(&["optional argument"]) => None,
        () => Some(Section::Flags),
    }
}

/// Collects the lines of a usage; returns the first line behind it.
fn usage(lines: &[HelpLine<'_>], at: usize, rest: &str, usage: &mut Vec<String>) -> usize {
    usage.extend((!rest.is_empty()).then(|| rest.to_owned()));
    let indented = |line: &&HelpLine<'_>| line.indent > 0 && !line.text.is_empty();
    let more: Vec<&HelpLine<'_>> = lines[at + 1..].iter().take_while(indented).collect();
    usage.extend(more.iter().map(|line| line.text.to_owned()));
    at + 1 + more.len()
}

/// A line and how far it is indented.
#[derive(Clone, Copy, Debug)]
struct HelpLine<'a> {
    indent: usize,
    text: &'a str,
}

impl<'a> HelpLine<'a> {
    fn new(line: &'a str) -> Self {
        let text = line.trim();
        let blank = line.chars().take_while(|it| it.is_whitespace());
        Self { indent: blank.map(|it| if it == '\t' { 8 } else { 1 }).sum(), text }
    }

    /// Returns what stands behind `Usage:` in the same line.
    fn usage(&self) -> Option<&'a str> {
        let word = self.text.get(..6).filter(|word| word.eq_ignore_ascii_case("usage:"))?;
        (self.indent == 0).then(|| self.text[word.len()..].trim())
    }

    fn is_heading(&self) -> bool {
        let shouts =
            || self.text.len() > 3 && self.text.chars().all(|it| it.is_ascii_uppercase() || it == ' ');
        self.indent == 0
            && !self.text.starts_with('-')
            && self.text.len() < 60
            && (self.text.ends_with(':') && !self.text.contains(". ") || shouts())
    }

    /// Returns whether a line without the word shows how a program is called: `tool run [message..]`.
    fn shows_use(&self) -> bool {
        let mut words = self.text.split(' ');
        let plain = |word: &str| {
            !word.is_empty() && word.chars().all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it))
        };
        self.indent == 0
            && words.next().is_some_and(plain)
            && words.find(|word| !plain(word)).is_some_and(|word| word.starts_with(['[', '<']))
    }

    /// Returns whether the line begins as an option does.
    fn has_dash(&self) -> bool {
        let rest = self.text.trim_start_matches('-');
        let dashes = self.text.len() - rest.len();
        (1..=2).contains(&dashes) && rest.starts_with(|it: char| it.is_alphanumeric() || "[(?#@".contains(it))
    }
}

/// Where the entries of a section begin.
struct Marks {
    base: usize,
    /// Long options without a short one stand further in.
    aligned: bool,
    dashes: bool,
}

impl Marks {
    fn flags(lines: &[HelpLine<'_>]) -> Self {
        let candidates = || lines.iter().filter(|line| line.has_dash());
        let base = candidates().map(|line| line.indent).min().unwrap_or(usize::MAX);
        // If a long option stands at the base, nothing is aligned, and a deeper `--flag` is part of a description.
        let aligned = !candidates().any(|line| line.indent == base && line.text.starts_with("--"));
        Self { base, aligned, dashes: true }
    }

    fn commands(lines: &[HelpLine<'_>]) -> Self {
        let indents =
            lines.iter().filter(|line| !line.text.is_empty() && line.indent > 0).map(|line| line.indent);
        Self { base: indents.min().unwrap_or(usize::MAX), aligned: false, dashes: false }
    }

    fn begins(&self, line: &HelpLine<'_>) -> bool {
        if !self.dashes {
            return line.indent == self.base && !line.text.is_empty();
        }
        let aligned =
            self.aligned && line.indent == self.base.saturating_add(ALIGNED) && line.text.starts_with("--");
        line.has_dash() && (line.indent == self.base || aligned)
    }
}

/// Cuts a section into entries.
fn entries(lines: &[HelpLine<'_>], marks: &Marks) -> Vec<HelpEntry> {
    let mut entries: Vec<HelpEntry> = Vec::new();
    let mut open = false;
    for line in lines {
        if marks.begins(line) {
            let (spec, description) = sides(line.text);
            let description = Some(description.to_owned()).filter(|it| !it.is_empty());
            entries.push(HelpEntry { spec: spec.to_owned(), description: description.into_iter().collect() });
            open = true;
        } else if line.indent <= marks.base && !line.text.is_empty() {
            // Words at the margin are about the page, not about the last entry.
            open = false;
        } else if let Some(entry) = entries.last_mut().filter(|_| open) {
            entry.description.push(line.text.to_owned());
        }
    }
    entries
}

/// Parts an entry's first line where two blanks stand outside of brackets. A column may also stand between two names.
fn sides(text: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    let mut from = 0;
    let bytes = text.as_bytes();
    while from < bytes.len() {
        match bytes[from] {
            // Blanks inside brackets belong to the name of the value.
            b'<' | b'[' | b'{' | b'(' => depth += 1,
            b'>' | b']' | b'}' | b')' => depth = depth.saturating_sub(1),
            b'\t' if depth == 0 => return (text[..from].trim_end(), text[from..].trim_start()),
            b' ' if depth == 0 && bytes.get(from + 1) == Some(&b' ') => {
                let (spec, rest) = (text[..from].trim_end(), text[from..].trim_start());
                let bare_short = spec.len() == 2 && spec.starts_with('-');
                let more = spec.ends_with(',') || bare_short && HelpLine { indent: 0, text: rest }.has_dash();
                if !more {
                    return (spec, rest);
                }
                from = text.len() - rest.len();
                continue;
            }
            _ => {}
        }
        from += 1;
    }
    (text, "")
}
