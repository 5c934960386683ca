//! Cutting a stream of bytes into lines, server-sent events, or one document.
//!
//! Lines are cut on bytes, so a character that is split over two chunks is whole again before anyone looks at it.
//! A line is looked at once, however many chunks it came in. Nothing here knows what a line means.

mod events;
mod lines;

use crate::dialect::Framing;

pub use events::EventJoiner;
pub use lines::{Frame, LINE_CAP, LineCutter};

/// Cuts a stream the way a dialect wants it.
#[derive(Debug)]
pub struct Framer {
    cutter: LineCutter,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    Lines,
    Events(EventJoiner),
    Document,
}

impl Framer {
    /// Makes a framer that gives up on frames longer than `cap` bytes.
    pub fn new(framing: Framing, cap: usize) -> Self {
        let mode = match framing {
            Framing::Lines => Mode::Lines,
            Framing::LinesOrEvents => Mode::Events(EventJoiner::new(cap)),
            Framing::Document => Mode::Document,
        };
        let cutter = if framing == Framing::Document { LineCutter::whole(cap) } else { LineCutter::new(cap) };
        Self { cutter, mode }
    }

    /// Takes bytes and hands on every frame that they complete.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Frame<'_>)) {
        let Self { cutter, mode } = self;
        cutter.push(bytes, &mut |frame| mode.pass(frame, sink));
    }

    /// Hands on what is left at the end of the stream.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Frame<'_>)) {
        let Self { cutter, mode } = self;
        cutter.finish(&mut |frame| mode.pass(frame, sink));
        if let Mode::Events(joiner) = mode {
            joiner.finish(sink);
        }
    }
}

impl Mode {
    fn pass(&mut self, frame: Frame<'_>, sink: &mut dyn FnMut(Frame<'_>)) {
        match self {
            Self::Events(joiner) => joiner.line(frame, sink),
            Self::Lines | Self::Document => sink(frame),
        }
    }
}

#[cfg(test)]
mod tests;
