//! From the pieces of a word to the words that a program gets: braces, splitting, tilde, patterns of file names.

use super::word::{Quoting, WordPiece};
use crate::policy::verdict::TextSpan;

/// Stands in a word for text that is known only when the shell runs. No argument of a program can contain it.
pub(in crate::policy) const UNKNOWN: char = '\0';

/// A word as a program gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::policy) struct ShellWord {
    /// The text, with [`UNKNOWN`] in the place of what is not known.
    pub(in crate::policy) text: String,
    /// Its place in the command.
    pub(in crate::policy) span: TextSpan,
    /// Whether the shell replaces it by names of files.
    pub(in crate::policy) glob: bool,
    /// The variables in it.
    pub(in crate::policy) names: Vec<String>,
    /// Whether it may become several words, or none.
    pub(in crate::policy) splits: bool,
}

impl ShellWord {
    /// Returns whether every character is known before the shell runs.
    pub(in crate::policy) fn is_known(&self) -> bool {
        !self.text.contains(UNKNOWN)
    }

    /// Makes a word of known text.
    pub(in crate::policy) fn known(text: impl Into<String>, span: TextSpan) -> Self {
        Self { text: text.into(), span, glob: false, names: Vec::new(), splits: false }
    }

    /// Makes the word of which nothing is known.
    pub(in crate::policy) fn unknown(span: TextSpan) -> Self {
        Self { splits: true, ..Self::known(UNKNOWN.to_string(), span) }
    }
}

/// The most words that one word with braces may become.
const MOST_WORDS: usize = 64;

/// The most braces of a word that are expanded.
const MOST_BRACES: usize = 16;

/// Turns the pieces of a word into the words of a command.
pub(super) fn fields(
    pieces: &[WordPiece],
    span: TextSpan,
    names: &[String],
    home: Option<&str>,
) -> Vec<ShellWord> {
    let open = WordPiece::Char('{', Quoting::Bare);
    if pieces.iter().filter(|piece| **piece == open).count() > MOST_BRACES {
        return vec![ShellWord::unknown(span)];
    }
    let mut all = vec![pieces.to_vec()];
    let mut done = Vec::new();
    while let Some(next) = all.pop() {
        match expand_first_brace(&next) {
            // `all` is a stack: reversed, the words come out in the order in which the shell makes them.
            Some(more) if all.len() + done.len() + more.len() <= MOST_WORDS => {
                all.extend(more.into_iter().rev())
            }
            Some(_) => return vec![ShellWord::unknown(span)],
            None => done.push(next),
        }
    }
    done.iter().flat_map(|pieces| split(pieces)).filter_map(|piece| field(piece, span, names, home)).collect()
}

fn split(pieces: &[WordPiece]) -> impl Iterator<Item = &[WordPiece]> {
    pieces.split(|piece| *piece == WordPiece::Split)
}

fn field(pieces: &[WordPiece], span: TextSpan, names: &[String], home: Option<&str>) -> Option<ShellWord> {
    // The shell drops a word that is empty after its expansion, unless there are quotes in it.
    if pieces.is_empty() {
        return None;
    }
    let mut word = ShellWord { names: names.to_vec(), ..ShellWord::known("", span) };
    for (at, piece) in pieces.iter().enumerate() {
        match *piece {
            WordPiece::Char('~', Quoting::Bare) if at == 0 => match (pieces.get(1), home) {
                (None | Some(WordPiece::Char('/', _)), Some(home)) => word.text.push_str(home),
                // `~user`, `~+` and `~-` are other directories than the home of this user.
                _ => word.text.push(UNKNOWN),
            },
            WordPiece::Char(text, quoting) => {
                word.glob |= quoting == Quoting::Bare && matches!(text, '*' | '?' | '[');
                word.text.push(text);
            }
            WordPiece::Unknown(quoting) => {
                // Without quotes `$x` may become several words, or none, and the words behind it move.
                word.splits |= quoting == Quoting::Bare;
                word.text.push(UNKNOWN);
            }
            WordPiece::Quotes | WordPiece::Split => {}
        }
    }
    Some(word)
}

/// Expands the first `{a,b}` or `{1..3}` of a word; none if there is none.
fn expand_first_brace(pieces: &[WordPiece]) -> Option<Vec<Vec<WordPiece>>> {
    let bare = |piece: &WordPiece, is: char| *piece == WordPiece::Char(is, Quoting::Bare);
    for from in (0..pieces.len()).filter(|at| bare(&pieces[*at], '{')) {
        let (mut commas, mut at, mut depth) = (Vec::new(), from + 1, 0_usize);
        while at < pieces.len() {
            if bare(&pieces[at], '{') {
                depth += 1;
            } else if bare(&pieces[at], '}') && depth > 0 {
                depth -= 1;
            } else if bare(&pieces[at], ',') && depth == 0 {
                commas.push(at);
            } else if bare(&pieces[at], '}') {
                let range =
                    pieces[from + 1..at].windows(2).any(|two| bare(&two[0], '.') && bare(&two[1], '.'));
                // `{}` and `{x}` are plain text: `find -exec` and `xargs` get them as they are.
                if commas.is_empty() && !range {
                    break;
                }
                let (head, tail) = (&pieces[..from], &pieces[at + 1..]);
                let with = |middle: &[WordPiece]| [head, middle, tail].concat();
                if commas.is_empty() {
                    // A range of characters spells words, too: its parts are not known.
                    let unknown = [WordPiece::Unknown(Quoting::Bare)];
                    return Some(vec![with(&unknown)]);
                }
                let ends = commas.iter().copied().chain([at]);
                let mut begin = from + 1;
                return Some(
                    ends.map(|end| with(&pieces[std::mem::replace(&mut begin, end + 1)..end])).collect(),
                );
            }
            at += 1;
        }
    }
    None
}
