//! Lines that wait for a decision, in little more than their own bytes.
//!
//! A document may be 64 MiB of lines of two bytes, so that nothing is kept for each line: where it stands follows from the
//! line before it, and only where it does not is that written down. When they are handed on, a long run of lines that are
//! no JSON is one piece.

use std::collections::VecDeque;

use bowline_protocol::RawSpan;
use serde::de::IgnoredAny;

use crate::dialect::Output;
use crate::lenient;

/// How many lines of a run are handed on one by one at its beginning, and at its end: there stands the reason of a failure.
const ON_THEIR_OWN: usize = 32;

/// A line with its place.
pub(super) type Placed<'a> = (Option<RawSpan>, &'a str);

/// Lines that wait for a decision.
#[derive(Debug, Default)]
pub(super) struct HeldLines {
    /// Every line, each with a line end behind it.
    text: String,
    count: usize,
    /// The lines whose place does not follow from the one before.
    odd: Vec<Odd>,
    last: Option<RawSpan>,
}

#[derive(Debug)]
struct Odd {
    /// Where it begins in the text, and how long it is there: an event of several lines is one line here.
    at: usize,
    len: usize,
    span: Option<RawSpan>,
}

impl HeldLines {
    pub(super) fn add(&mut self, line: &str, span: Option<RawSpan>) {
        // A `\r\n` end, a gap or an event of several lines breaks the rule that the next line starts one byte later.
        let follows = self.count > 0 && span == after(self.last, line) && !line.contains('\n');
        if !follows {
            self.odd.push(Odd { at: self.text.len(), len: line.len(), span });
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.last = span;
        self.count += 1;
    }

    /// Returns how many lines there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns how long they are, with their line ends.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns how many bytes it takes to hold them.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.odd.len() * size_of::<Odd>()
    }

    /// Returns the lines in their order.
    pub(super) fn lines(&self) -> impl Iterator<Item = Placed<'_>> {
        let (mut at, mut before, mut odd) = (0, None, self.odd.iter().peekable());
        std::iter::from_fn(move || {
            let rest = self.text.get(at..).filter(|rest| !rest.is_empty())?;
            let (line, span) = match odd.next_if(|odd| odd.at == at) {
                Some(odd) => (&rest[..odd.len], odd.span),
                None => {
                    let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
                    (line, after(before, line))
                }
            };
            at += line.len() + 1;
            before = span;
            Some((span, line))
        })
    }

    /// Returns the text from a line of [`Self::lines`] on, without the last line end.
    pub(super) fn text_from(&self, line: &str) -> &str {
        self.text[self.offset(line)..].strip_suffix('\n').unwrap_or_default()
    }

    /// Returns the place of the last line.
    pub(super) fn last(&self) -> Option<RawSpan> {
        self.last
    }

    /// Gives every line before `end`, a line of [`Self::lines`], to `take`, each with its own place; of a long run of lines
    /// without an object, the middle as one piece that is noise.
    pub(super) fn replay(
        &self,
        end: Option<&str>,
        out: &mut Output<'_>,
        mut take: impl FnMut(&str, &mut Output<'_>),
    ) {
        let end = end.map_or(self.text.len(), |line| self.offset(line));
        let mut run = LineRun::default();
        for (span, line) in self.lines().take_while(|(_, line)| self.offset(line) < end) {
            if has_object(line) {
                self.end_run(std::mem::take(&mut run), out, &mut take);
                out.at(span, |out| take(line, out));
            } else if run.begun < ON_THEIR_OWN {
                run.begun += 1;
                out.at(span, |out| take(line, out));
            } else {
                run.add((span, line));
            }
        }
        self.end_run(run, out, &mut take);
    }

    fn end_run(&self, run: LineRun<'_>, out: &mut Output<'_>, take: &mut impl FnMut(&str, &mut Output<'_>)) {
        if let Some((first, last)) = run.middle {
            let text = &self.text[self.offset(first.1)..self.offset(last.1) + last.1.len()];
            let span = first.0.zip(last.0).map(|(first, last)| RawSpan { end: last.end, ..first });
            if !lenient::is_blank(text) {
                out.at(span, |out| out.noise(text));
            }
        }
        for (span, line) in run.tail {
            out.at(span, |out| take(line, out));
        }
    }

    /// Returns where a line of [`Self::lines`] begins in the text.
    fn offset(&self, line: &str) -> usize {
        // Valid because every line is a slice of `text`, which does not change while the lines are borrowed.
        line.as_ptr().addr() - self.text.as_ptr().addr()
    }
}

/// A run of lines without an object, behind its beginning.
#[derive(Default)]
struct LineRun<'a> {
    /// How many of its lines were handed on.
    begun: usize,
    /// The first and the last line of its middle.
    middle: Option<(Placed<'a>, Placed<'a>)>,
    tail: VecDeque<Placed<'a>>,
}

impl<'a> LineRun<'a> {
    fn add(&mut self, line: Placed<'a>) {
        self.tail.push_back(line);
        // The last lines stay apart, as the reason of a failure stands there.
        if self.tail.len() > ON_THEIR_OWN
            && let Some(oldest) = self.tail.pop_front()
        {
            self.middle = Some((self.middle.map_or(oldest, |(first, _)| first), oldest));
        }
    }
}

/// Returns where a line stands that directly follows another, with a line end of one byte between them.
fn after(before: Option<RawSpan>, line: &str) -> Option<RawSpan> {
    before.map(|before| {
        let start = before.end + 1;
        RawSpan { file: before.file, start, end: start + line.len() as u64 }
    })
}

/// Returns whether a line begins with a complete object.
fn has_object(line: &str) -> bool {
    if !line.trim_start().starts_with(['{', '\u{1B}', '\u{FEFF}', '\0']) {
        return false;
    }
    let text = lenient::repair(line);
    let mut values = serde_json::Deserializer::from_str(text.trim_start()).into_iter::<IgnoredAny>();
    text.trim_start().starts_with('{') && values.next().is_some_and(|value| value.is_ok())
}

#[cfg(test)]
mod tests {
    use bowline_protocol::RawFile;

    use super::*;

    fn span(start: u64, end: u64) -> Option<RawSpan> {
        Some(RawSpan { file: RawFile::Stdout, start, end })
    }

    #[test]
    fn every_line_comes_back_with_its_place_whatever_the_line_ends() {
        // A line end of one byte, of two, bytes that were no UTF-8, an event of two lines, and one of no place.
        let lines = [
            (span(0, 3), "abc"),
            (span(4, 4), ""),
            (span(5, 7), "de"),
            (span(9, 10), "f"),
            (span(11, 12), "\u{FFFD}"),
            (span(13, 15), "gh"),
            (span(22, 40), "two\nlines"),
            (None, "nowhere"),
            (None, ""),
            (span(50, 51), "z"),
        ];
        let mut held = HeldLines::default();
        for (span, line) in lines {
            held.add(line, span);
        }
        assert_eq!(held.lines().collect::<Vec<_>>(), lines);
        assert_eq!(held.count(), lines.len());
        let (_, third) = held.lines().nth(2).expect("a line");
        assert!(held.text_from(third).starts_with("de\nf\n") && held.text_from(third).ends_with("\nz"));
    }

    #[test]
    fn lines_cost_their_bytes() {
        let mut held = HeldLines::default();
        for at in 0..1000 {
            held.add("x", span(2 * at, 2 * at + 1));
        }
        assert!(held.bytes() < 2000 + 2 * size_of::<Odd>(), "{}", held.bytes());
    }
}
