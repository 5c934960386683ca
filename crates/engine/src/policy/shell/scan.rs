//! Finds the ends of substitutions, and reads escapes.

/// Returns the name of a variable at the beginning of a text.
pub(super) fn name_of(text: &str) -> &str {
    let starts = text.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic());
    let end = text.find(|next: char| next != '_' && !next.is_ascii_alphanumeric()).unwrap_or(text.len());
    if starts { &text[..end] } else { "" }
}

/// Returns the index of the parenthesis that closes a substitution whose content begins with the text.
pub(super) fn closing_parenthesis(text: &str) -> Option<usize> {
    closing(text, Opener::Parenthesis)
}

/// Returns the index of the brace that closes an expansion whose content begins with the text.
pub(super) fn closing_brace(text: &str) -> Option<usize> {
    closing(text, Opener::Brace)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opener {
    Parenthesis,
    Brace,
    /// Double quotes inside one of the others.
    Quote,
}

/// A here-document whose body has not begun.
struct PendingDocument {
    tag: String,
    strip_tabs: bool,
}

/// Finds the end. It keeps a stack of its own, so that deep nesting costs no stack of ours.
fn closing(text: &str, opener: Opener) -> Option<usize> {
    let mut stack = vec![opener];
    let mut pending: Vec<PendingDocument> = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let after = at + next.len_utf8();
        let top = *stack.last()?;
        let word_starts =
            text[..at].ends_with(|last: char| last.is_whitespace() || ";|&(".contains(last)) || at == 0;
        at = match (next, top) {
            ('\\', _) => after + text[after..].chars().next().map_or(0, char::len_utf8),
            ('"', Opener::Quote) => {
                stack.pop();
                after
            }
            ('"', _) => {
                stack.push(Opener::Quote);
                after
            }
            // In double quotes a single quote is a plain character, as in `"it's"`.
            ('\'', Opener::Parenthesis | Opener::Brace) => after + text[after..].find('\'')? + 1,
            ('`', _) => after + backquote_end(&text[after..])? + 1,
            ('$', _) if text[after..].starts_with('(') => {
                stack.push(Opener::Parenthesis);
                after + 1
            }
            ('$', _) if text[after..].starts_with('{') => {
                stack.push(Opener::Brace);
                after + 1
            }
            // A comment: a parenthesis in it closes nothing.
            ('#', Opener::Parenthesis) if word_starts => at + text[at..].find('\n')?,
            ('<', Opener::Parenthesis) if text[after..].starts_with("<<") => after + 2,
            ('<', Opener::Parenthesis) if text[after..].starts_with('<') => {
                let (document, length) = here_tag(&text[after + 1..])?;
                pending.push(document);
                after + 1 + length
            }
            ('\n', Opener::Parenthesis) => {
                let mut begin = after;
                for document in pending.drain(..) {
                    begin += body_length(&text[begin..], &document)?;
                }
                begin
            }
            ('(', Opener::Parenthesis) => {
                stack.push(Opener::Parenthesis);
                after
            }
            // `case x in a)` closes too early here. The rest then fails to parse, and that asks.
            (')', Opener::Parenthesis) | ('}', Opener::Brace) => {
                stack.pop();
                if stack.is_empty() {
                    return Some(at);
                }
                after
            }
            _ => after,
        };
        // Longer than any command that a person reads.
        if stack.len() > 64 {
            return None;
        }
    }
    None
}

fn backquote_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, next)| {
        let ends = next == '`' && !escaped;
        escaped = next == '\\' && !escaped;
        ends.then_some(at)
    })
}

/// Reads the tag of a here-document, from behind `<<`.
fn here_tag(text: &str) -> Option<(PendingDocument, usize)> {
    let strip_tabs = text.starts_with('-');
    let mut at = usize::from(strip_tabs);
    at += text[at..].len() - text[at..].trim_start_matches([' ', '\t']).len();
    let mut tag = String::new();
    let from = at;
    while let Some(next) = text[at..].chars().next() {
        match next {
            '\'' | '"' => {
                let length = text[at + 1..].find(next)?;
                tag.push_str(&text[at + 1..at + 1 + length]);
                at += length + 2;
            }
            '\\' => {
                let escaped = text[at + 1..].chars().next()?;
                tag.push(escaped);
                at += 1 + escaped.len_utf8();
            }
            ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')' => break,
            // The shell does not expand a tag, and a reader would not expect this one.
            '$' | '`' => return None,
            _ => {
                tag.push(next);
                at += next.len_utf8();
            }
        }
    }
    (at > from).then_some((PendingDocument { tag, strip_tabs }, at))
}

/// Returns the length of the body of a here-document with its last line.
fn body_length(text: &str, document: &PendingDocument) -> Option<usize> {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        length += line.len();
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = if document.strip_tabs { line.trim_start_matches('\t') } else { line };
        if line == document.tag {
            return Some(length);
        }
    }
    None
}

/// Reads an escape of `$'…'` from behind its backslash: the character and the length of the escape.
pub(super) fn ansi_escape(text: &str) -> Option<(char, usize)> {
    let first = text.chars().next()?;
    let plain = match first {
        'a' => Some('\u{7}'),
        'b' => Some('\u{8}'),
        'e' | 'E' => Some('\u{1b}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\u{b}'),
        '\\' | '\'' | '"' | '?' => Some(first),
        _ => None,
    };
    if let Some(plain) = plain {
        return Some((plain, 1));
    }
    let (radix, from, most) = match first {
        '0'..='7' => (8, 0, 3),
        'x' => (16, 1, 2),
        'u' => (16, 1, 4),
        'U' => (16, 1, 8),
        _ => return None,
    };
    let digits: String = text[from..].chars().take(most).take_while(|digit| digit.is_digit(radix)).collect();
    let value = u32::from_str_radix(&digits, radix).ok()?;
    // Bytes above 127 are parts of a character that this reader does not put together.
    let is_byte = matches!(first, 'x' | '0'..='7');
    if value == 0 || (is_byte && value > 127) {
        return None;
    }
    Some((char::from_u32(value)?, from + digits.len()))
}
