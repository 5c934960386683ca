//! Parses a script with `brush-parser`, within limits.
//!
//! The parser is recursive, and some of its rules try an alternative again at each level. So a script is counted before it is
//! parsed: one that is longer, or opens more groups, than a person reviews is refused instead.

use brush_parser::ast::Program;
use brush_parser::{ParserOptions, Token, TokenizerOptions, parse_tokens, uncached_tokenize_str};

/// The longest script, in bytes.
pub(in crate::policy) const LONGEST: usize = 64 * 1024;

/// The most substitutions. The tokenizer calls itself for each one inside another.
const MOST_SUBSTITUTIONS: usize = 100;

/// The most groups: subshells, loops, functions and so on. The grammar calls itself for each one inside another.
const MOST_GROUPS: usize = 40;

/// The most openings that the grammar tries in two ways: `case`, and two parentheses one behind the other, as in `((` and
/// `for ((`. Its time doubles with each one inside another.
const MOST_DOUBLE: usize = 6;

/// Why a script cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptProblem {
    /// It is longer or more deeply nested than this judge reads.
    TooLarge,
    /// It is not in the grammar.
    Syntax(String),
}

/// A script with the places of its characters.
pub(super) struct ParsedScript {
    pub(super) program: Program,
    /// The byte of each character, if there are characters of more than one byte.
    offsets: Vec<usize>,
    length: usize,
}

impl ParsedScript {
    /// Returns the byte at which a character begins.
    pub(super) fn byte(&self, character: usize) -> usize {
        let byte =
            if self.offsets.is_empty() { Some(character) } else { self.offsets.get(character).copied() };
        byte.unwrap_or(self.length).min(self.length)
    }
}

/// Parses a script.
pub(super) fn parse(text: &str) -> Result<ParsedScript, ScriptProblem> {
    let substitutions = text.matches("$(").count() + text.matches("${").count() + text.matches("((").count();
    if text.len() > LONGEST || substitutions > MOST_SUBSTITUTIONS {
        return Err(ScriptProblem::TooLarge);
    }
    // A NUL marks unknown text (`UNKNOWN`). One that is typed could pass for it.
    if text.contains('\0') {
        return Err(ScriptProblem::Syntax("it contains a NUL byte".to_owned()));
    }
    let tokens = uncached_tokenize_str(text, &TokenizerOptions::default())
        .map_err(|error| ScriptProblem::Syntax(error.to_string()))?;
    if is_too_deep(&tokens) {
        return Err(ScriptProblem::TooLarge);
    }
    let program = parse_tokens(&tokens, &ParserOptions::default())
        .map_err(|error| ScriptProblem::Syntax(error.to_string()))?;
    let offsets = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).collect() };
    Ok(ParsedScript { program, offsets, length: text.len() })
}

/// Counts what opens a group. Closing words are not counted: `echo fi` would look like one.
fn is_too_deep(tokens: &[Token]) -> bool {
    let (mut groups, mut doubled, mut last) = (0, 0, "");
    for token in tokens {
        let text = token.to_str();
        let opens = match token {
            Token::Operator(..) => text == "(",
            Token::Word(..) => matches!(
                text,
                "{" | "if"
                    | "elif"
                    | "for"
                    | "while"
                    | "until"
                    | "case"
                    | "select"
                    | "function"
                    | "coproc"
                    | "[["
                    | "!"
            ),
        };
        groups += usize::from(opens);
        doubled += usize::from((last == "(" && text == "(") || text == "case");
        last = text;
    }
    groups > MOST_GROUPS || doubled > MOST_DOUBLE
}
