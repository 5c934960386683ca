//! Walks the parts of a parsed script in the order in which a shell would run them.
//!
//! A conditional part may not run. After it, the state keeps only what holds in both cases. The body of a loop is walked twice:
//! its second round begins with the variables of the first.

mod compound;
mod simple;

use brush_parser::SourceSpan;
use brush_parser::ast::{AndOr, AndOrList, Command, CompoundList, Pipeline, SeparatorOperator, Word};

use super::fields::{self, ShellWord};
use super::script::{self, ParsedScript, ScriptProblem};
use super::state::{ShellState, WorkingDirs};
use super::word::{self, WordPiece, WordReading, WordSyntax};
use super::{ActSink, CommandInput, Origin, ShellAct, UNKNOWN};
use crate::policy::verdict::TextSpan;

/// How deep scripts may stand inside each other.
const DEEPEST: usize = 12;

/// Walks a script and hands its acts to the sink.
pub(in crate::policy) fn walk(
    text: &str,
    origin: Origin,
    state: &mut ShellState,
    input: CommandInput,
    sink: &mut dyn ActSink,
    depth: usize,
) {
    let whole = origin.span(0, text.len());
    let unclear = |rule, reason: String| ShellAct::Unclear { rule, reason, span: whole };
    if depth > DEEPEST {
        return sink.act(unclear("unknown.size", "scripts are nested too deep to be read".to_owned()));
    }
    match script::parse(text) {
        Ok(script) => {
            let program = script.program.clone();
            let mut walker = ScriptWalker { text, script, origin, state, input, sink, depth };
            program.complete_commands.iter().for_each(|list| walker.list(list));
        }
        Err(ScriptProblem::TooLarge) => sink.act(unclear(
            "unknown.size",
            "the command is longer or more deeply nested than Bowline reads".to_owned(),
        )),
        Err(ScriptProblem::Syntax(why)) => {
            sink.act(unclear("unknown.syntax", format!("the command cannot be parsed: {why}")));
            // Not in a text inside the command: the cuts would multiply with each level, and the mistake asks already.
            if depth == 0 {
                parts(text, origin, state, &input, sink);
            }
        }
    }
}

/// The most places at which a script with a mistake is taken apart.
const MOST_PARTS: usize = 32;

/// Walks the parts of a script that can be parsed. A shell runs the lines before a mistake, and what it would run decides.
fn parts(text: &str, origin: Origin, state: &ShellState, input: &CommandInput, sink: &mut dyn ActSink) {
    let ends: Vec<usize> = text.match_indices([';', '\n', '&', '|']).map(|(at, _)| at).collect();
    // Cuts near the beginning find what runs before the mistake, cuts near the end what stands behind it.
    for at in ends.iter().take(MOST_PARTS).chain(ends.iter().rev().take(MOST_PARTS)) {
        for (from, to) in [(0, *at), (at + 1, text.len())] {
            let part = &text[from..to];
            if part.trim().is_empty() || script::parse(part).is_err() {
                continue;
            }
            let origin = if let Origin::At(start) = origin { Origin::At(start + from) } else { origin };
            walk(part, origin, &mut state.clone(), input.clone(), sink, 1);
        }
    }
}

struct ScriptWalker<'a> {
    text: &'a str,
    script: ParsedScript,
    origin: Origin,
    state: &'a mut ShellState,
    /// The input of commands that have none of their own.
    input: CommandInput,
    sink: &'a mut dyn ActSink,
    depth: usize,
}

impl ScriptWalker<'_> {
    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            match item.1 {
                // `cd x &` moves a copy of the shell, not this one.
                SeparatorOperator::Async => self.apart(|walker| walker.and_or(&item.0)),
                SeparatorOperator::Sequence => self.and_or(&item.0),
            }
        }
    }

    /// Walks a part that runs in a shell of its own.
    fn apart(&mut self, part: impl FnOnce(&mut Self)) {
        let before = self.state.clone();
        part(self);
        let volatile = std::mem::take(&mut self.state.volatile);
        *self.state = before;
        self.state.volatile.extend(volatile);
    }

    /// Walks a part that may run or not.
    fn perhaps(&mut self, part: impl FnOnce(&mut Self)) {
        let before = self.state.clone();
        part(self);
        *self.state = self.state.merged(&before);
    }

    fn and_or(&mut self, list: &AndOrList) {
        let dirs = self.state.dirs.clone();
        if list.additional.is_empty() {
            self.pipeline(&list.first);
        } else {
            let before = self.state.clone();
            self.pipeline(&list.first);
            let after_first = self.state.clone();
            for item in &list.additional {
                match item {
                    AndOr::And(pipeline) => self.pipeline(pipeline),
                    AndOr::Or(pipeline) => {
                        // Behind `||` the part before it has failed: `cd a || rm x` removes `x` in the old directory.
                        *self.state = self.state.merged(&before);
                        self.pipeline(pipeline);
                    }
                }
            }
            *self.state = self.state.merged(&after_first);
        }
        // A `cd` may have failed.
        if self.state.dirs != dirs {
            self.state.dirs = self.state.dirs.clone().or(&dirs);
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        if let [command] = pipeline.seq.as_slice() {
            return self.command(command);
        }
        // Every part of a pipeline runs in a subshell: after `cd x | cat` the directory is the old one.
        for (at, command) in pipeline.seq.iter().enumerate() {
            self.apart(|walker| {
                if at == 0 {
                    return walker.command(command);
                }
                walker.with_input(CommandInput::Piped, |walker| walker.command(command));
            });
        }
    }

    fn with_input(&mut self, input: CommandInput, part: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.input, input);
        part(self);
        self.input = outer;
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                let input = self.redirects(redirects.as_ref());
                self.with_input(input, |walker| walker.compound(compound));
            }
            Command::Function(function) => self.function(function),
            Command::ExtendedTest(test, redirects) => {
                self.redirects(redirects.as_ref());
                self.test(&test.expr);
            }
        }
    }

    fn span(&self, location: Option<&SourceSpan>) -> TextSpan {
        match location {
            Some(span) => {
                let (from, to) = self.bytes(span);
                self.origin.span(from, to)
            }
            None => self.origin.span(0, self.text.len()),
        }
    }

    fn bytes(&self, span: &SourceSpan) -> (usize, usize) {
        (self.script.byte(span.start.index), self.script.byte(span.end.index))
    }

    /// Reads a word, and walks what it runs.
    fn read(&mut self, word: &Word, syntax: WordSyntax) -> (WordReading, TextSpan) {
        let span = self.span(word.loc.as_ref());
        // The tokenizer joins lines, and then the bytes of the word are not those of the source.
        let from = word.loc.as_ref().map(|loc| self.bytes(loc).0);
        let from =
            from.filter(|from| self.text.get(*from..).is_some_and(|rest| rest.starts_with(&word.value)));
        let reading = self.read_text(&word.value, syntax, from, span);
        (reading, span)
    }

    /// Reads a text as a word, and walks what it runs.
    fn read_text(
        &mut self,
        text: &str,
        syntax: WordSyntax,
        from: Option<usize>,
        span: TextSpan,
    ) -> WordReading {
        let reading = word::read(text, syntax, &|name| self.state.value(name));
        if let Some(why) = reading.problem {
            self.sink.act(ShellAct::Unclear { rule: "unknown.syntax", reason: why.to_owned(), span });
        }
        for script in &reading.embedded {
            let origin = match (script.at, from, self.origin) {
                (Some(at), Some(from), Origin::At(start)) => Origin::At(start + from + at),
                _ => Origin::Inside(span),
            };
            // A substitution is a subshell, too: it sees the variables, and its assignments end with it.
            let mut state = self.state.clone();
            walk(&script.text, origin, &mut state, CommandInput::Inherited, self.sink, self.depth + 1);
            self.state.volatile.extend(state.volatile);
        }
        for name in &reading.assigned {
            self.state.set(name, None);
        }
        reading
    }

    /// Expands a word to the words that a program gets.
    fn expand(&mut self, word: &Word) -> Vec<ShellWord> {
        let (reading, span) = self.read(word, WordSyntax::Word);
        fields::fields(&reading.pieces, span, &reading.names, self.state.home.as_deref())
    }

    /// Expands a word that stays one word: the value of a variable, a file.
    fn value(&mut self, word: &Word) -> ShellWord {
        let (reading, span) = self.read(word, WordSyntax::Word);
        let text = joined(&reading, self.state.home.as_deref());
        ShellWord { names: reading.names, ..ShellWord::known(text, span) }
    }

    /// Looks only for code in a text.
    fn scan(&mut self, text: &str) {
        let span = self.origin.span(0, self.text.len());
        self.read_text(text, WordSyntax::Document, None, span);
    }

    fn dirs(&self) -> WorkingDirs {
        self.state.dirs.clone()
    }
}

/// Puts pieces together, without splitting and braces.
fn joined(reading: &WordReading, home: Option<&str>) -> String {
    let mut text = String::new();
    for (at, piece) in reading.pieces.iter().enumerate() {
        match piece {
            WordPiece::Char('~', word::Quoting::Bare) if at == 0 => match home {
                Some(home) if matches!(reading.pieces.get(1), None | Some(WordPiece::Char('/', _))) => {
                    text.push_str(home);
                }
                Some(_) | None => text.push(UNKNOWN),
            },
            WordPiece::Char(next, _) => text.push(*next),
            WordPiece::Unknown(_) => text.push(UNKNOWN),
            // The value of an assignment is not split into words: `x=$y` keeps the spaces of `y`.
            WordPiece::Split => text.push(' '),
            WordPiece::Quotes => {}
        }
    }
    text
}
