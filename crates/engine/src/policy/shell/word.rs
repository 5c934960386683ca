//! Reads one shell word: quotes, escapes, variables, substitutions.
//!
//! The result is pieces, so that braces and field splitting can tell `{a,b}` from `"{a,b}"`. Text that runs when the word is
//! expanded (`$(…)`, backquotes, subscripts) is returned for the caller to walk. `brush-parser` has such a reader, too: its time
//! doubles with each level of nesting, and it reports no places.

use super::scan;

/// A part of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordPiece {
    /// A character, and whether quotes take its meaning from it.
    Char(char, Quoting),
    /// Text that is known only when the shell runs.
    Unknown(Quoting),
    /// A pair of quotes: with nothing in it, it is a word nevertheless.
    Quotes,
    /// The end of a field inside the value of a variable.
    Split,
}

/// Whether a piece stands in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    Bare,
    Quoted,
}

/// Text that the shell runs when it expands a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EmbeddedScript {
    /// The text, without the marks around it.
    pub(super) text: String,
    /// Its first byte in the word; none if the text is not a slice of it.
    pub(super) at: Option<usize>,
}

/// A word that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WordReading {
    pub(super) pieces: Vec<WordPiece>,
    pub(super) embedded: Vec<EmbeddedScript>,
    /// The variables whose values are used.
    pub(super) names: Vec<String>,
    /// Variables that the word itself sets: `${X:=…}`.
    pub(super) assigned: Vec<String>,
    /// Why the word cannot be known.
    pub(super) problem: Option<&'static str>,
}

/// How a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordSyntax {
    /// As a word of a command.
    Word,
    /// As the body of a here-document: quotes have no meaning.
    Document,
}

/// Returns the value of a variable; none if it is not known.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How deep expansions may be nested in one word.
const DEEPEST: usize = 16;

/// Reads a word.
pub(super) fn read(text: &str, syntax: WordSyntax, lookup: Lookup<'_>) -> WordReading {
    let mut reader = WordReader { text, at: 0, depth: 0, lookup, out: WordReading::default() };
    match syntax {
        WordSyntax::Word => reader.bare(),
        WordSyntax::Document => reader.double(None),
    }
    reader.out
}

struct WordReader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    lookup: Lookup<'a>,
    out: WordReading,
}

impl WordReader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.rest().starts_with(mark);
        self.at += if found { mark.len() } else { 0 };
        found
    }

    fn push(&mut self, text: char, quoting: Quoting) {
        self.out.pieces.push(WordPiece::Char(text, quoting));
    }

    fn fail(&mut self, why: &'static str) {
        self.out.problem.get_or_insert(why);
        self.out.pieces.push(WordPiece::Unknown(Quoting::Bare));
        // Where the word goes on is not clear, so nothing behind this place is read.
        self.at = self.text.len();
    }

    fn bare(&mut self) {
        while let Some(next) = self.rest().chars().next() {
            match next {
                '\\' => {
                    self.bump();
                    match self.bump() {
                        // A line that goes on.
                        Some('\n') => {}
                        Some(escaped) => self.push(escaped, Quoting::Quoted),
                        None => self.push('\\', Quoting::Quoted),
                    }
                }
                '\'' => {
                    self.bump();
                    self.single();
                }
                '"' => {
                    self.bump();
                    self.quoted();
                }
                '$' if self.eat("$'") => self.ansi(),
                '$' if self.eat("$\"") => self.quoted(),
                '$' | '`' => self.expansion(Quoting::Bare),
                // The grammar ends a word at these. Here they mean that the two do not agree on where a substitution ends.
                ' ' | '\t' | '\n' | ';' | '|' | '&' | ')' => {
                    self.fail("the end of a substitution is not clear")
                }
                _ => {
                    self.bump();
                    self.push(next, Quoting::Bare);
                }
            }
        }
    }

    fn quoted(&mut self) {
        self.out.pieces.push(WordPiece::Quotes);
        self.double(Some('"'));
    }

    fn single(&mut self) {
        self.out.pieces.push(WordPiece::Quotes);
        loop {
            match self.bump() {
                Some('\'') => return,
                Some(other) => self.push(other, Quoting::Quoted),
                None => return self.fail("a quote has no end"),
            }
        }
    }

    fn double(&mut self, end: Option<char>) {
        while let Some(next) = self.rest().chars().next() {
            if Some(next) == end {
                self.bump();
                return;
            }
            match next {
                '\\' => {
                    self.bump();
                    match self.rest().chars().next() {
                        Some('\n') => drop(self.bump()),
                        Some(escaped @ ('$' | '`' | '"' | '\\')) => {
                            self.bump();
                            self.push(escaped, Quoting::Quoted);
                        }
                        // In double quotes a backslash in front of any other character is a character itself.
                        Some(_) | None => self.push('\\', Quoting::Quoted),
                    }
                }
                '$' | '`' => self.expansion(Quoting::Quoted),
                _ => {
                    self.bump();
                    self.push(next, Quoting::Quoted);
                }
            }
        }
        if end.is_some() {
            self.fail("a quote has no end");
        }
    }

    /// Reads `$'…'`.
    fn ansi(&mut self) {
        self.out.pieces.push(WordPiece::Quotes);
        loop {
            let next = match self.bump() {
                Some('\'') => return,
                Some('\\') => match scan::ansi_escape(self.rest()) {
                    Some((text, length)) => {
                        self.at += length;
                        text
                    }
                    None => return self.fail("an escape is not known"),
                },
                Some(other) => other,
                None => return self.fail("a quote has no end"),
            };
            self.push(next, Quoting::Quoted);
        }
    }

    /// Reads what begins with `$` or a backquote.
    fn expansion(&mut self, quoting: Quoting) {
        if self.eat("`") {
            return self.backquoted(quoting);
        }
        if self.rest().starts_with("$(") {
            return self.parenthesized(quoting);
        }
        if self.rest().starts_with("${") {
            return self.braced(quoting);
        }
        if self.eat("$[") {
            let Some(length) = self.rest().find(']') else { return self.fail("`$[` has no end") };
            self.nested(self.at, length);
            self.at += length + 1;
            return self.out.pieces.push(WordPiece::Unknown(quoting));
        }
        self.bump();
        let name = scan::name_of(self.rest());
        if !name.is_empty() {
            let name = name.to_owned();
            self.at += name.len();
            return self.variable(&name, quoting);
        }
        match self.rest().chars().next() {
            // Exit codes, process ids and arguments: only the running shell knows them.
            Some('?' | '#' | '$' | '!' | '@' | '*' | '-' | '0'..='9') => {
                self.bump();
                self.out.pieces.push(WordPiece::Unknown(quoting));
            }
            _ => self.push('$', Quoting::Quoted),
        }
    }

    fn variable(&mut self, name: &str, quoting: Quoting) {
        self.out.names.push(name.to_owned());
        let Some(value) = (self.lookup)(name) else {
            return self.out.pieces.push(WordPiece::Unknown(quoting));
        };
        for next in value.chars() {
            match (next, quoting) {
                ('\0', _) => self.out.pieces.push(WordPiece::Unknown(quoting)),
                // `IFS` may name other separators. Setting it asks, as `unknown.environment`.
                (' ' | '\t' | '\n', Quoting::Bare) => self.out.pieces.push(WordPiece::Split),
                _ => self.push(next, quoting),
            }
        }
    }

    fn backquoted(&mut self, quoting: Quoting) {
        let mut text = String::new();
        let from = self.at;
        let mut plain = true;
        loop {
            match self.bump() {
                Some('`') => break,
                Some('\\') => match self.rest().chars().next() {
                    Some(escaped @ ('`' | '\\' | '$')) => {
                        self.bump();
                        plain = false;
                        text.push(escaped);
                    }
                    Some(escaped @ '"') if quoting == Quoting::Quoted => {
                        self.bump();
                        plain = false;
                        text.push(escaped);
                    }
                    Some(_) | None => text.push('\\'),
                },
                Some(other) => text.push(other),
                None => return self.fail("a backquote has no end"),
            }
        }
        // With an escape taken out, the text is not a slice of the word any more.
        self.out.embedded.push(EmbeddedScript { text, at: plain.then_some(from) });
        self.out.pieces.push(WordPiece::Unknown(quoting));
    }

    /// Reads `$(…)` and `$((…))`.
    fn parenthesized(&mut self, quoting: Quoting) {
        let from = self.at + 2;
        let Some(length) = self.text.get(from..).and_then(scan::closing_parenthesis) else {
            return self.fail("a substitution has no end");
        };
        let inner = self.text.get(from..from + length).unwrap_or_default();
        // `$((` begins an arithmetic expression only if the two parentheses end together.
        let arithmetic = inner.strip_prefix('(').and_then(scan::closing_parenthesis);
        if arithmetic.is_some_and(|end| end + 2 == inner.len()) {
            self.nested(from + 1, inner.len() - 2);
        } else {
            self.out.embedded.push(EmbeddedScript { text: inner.to_owned(), at: Some(from) });
        }
        self.at = from + length + 1;
        self.out.pieces.push(WordPiece::Unknown(quoting));
    }

    /// Reads `${…}`.
    fn braced(&mut self, quoting: Quoting) {
        let from = self.at + 2;
        let Some(length) = self.text.get(from..).and_then(scan::closing_brace) else {
            return self.fail("`${` has no end");
        };
        let inner = self.text.get(from..from + length).unwrap_or_default().to_owned();
        self.at = from + length + 1;
        let name = scan::name_of(&inner);
        if name.len() == inner.len() && !name.is_empty() {
            return self.variable(&inner, quoting);
        }
        let operator = &inner[name.len()..];
        // `@P` expands the value as a prompt, and substitutions in it run.
        if operator.starts_with("@P") || inner.starts_with('!') {
            self.out.problem.get_or_insert("a value is expanded a second time");
        }
        if operator.starts_with('=') || operator.starts_with(":=") {
            self.out.assigned.push(name.to_owned());
        }
        if !name.is_empty() {
            self.out.names.push(name.to_owned());
        }
        self.nested(from + name.len(), operator.len());
        self.out.pieces.push(WordPiece::Unknown(quoting));
    }

    /// Looks for substitutions in a part of the word whose value does not matter.
    fn nested(&mut self, from: usize, length: usize) {
        if self.depth >= DEEPEST {
            return self.fail("expansions are nested too deep");
        }
        let Some(text) = self.text.get(from..from + length) else { return };
        let mut inner = WordReader {
            text,
            at: 0,
            depth: self.depth + 1,
            lookup: self.lookup,
            out: WordReading::default(),
        };
        // Read as in double quotes: in `"${x:-'$(cmd)'}"` the single quotes do not stop the command.
        inner.double(None);
        self.out.problem = self.out.problem.or(inner.out.problem);
        self.out.names.append(&mut inner.out.names);
        self.out.assigned.append(&mut inner.out.assigned);
        for found in inner.out.embedded {
            let at = found.at.map(|at| at + from);
            self.out.embedded.push(EmbeddedScript { at, ..found });
        }
    }
}
