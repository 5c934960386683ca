//! Renders a whole answer on a terminal. Parallel runs print their answers this way, one after the other.

use super::canvas::{Screen, Surface};
use super::markdown::{Markdown, MarkdownPage};
use super::words::Glyphs;

/// Returns the page of an answer on a terminal.
pub(super) fn page(surface: Surface, glyphs: Glyphs) -> MarkdownPage {
    // Leave the last column free. Very long lines are hard to read.
    let columns = usize::from(surface.width).saturating_sub(1).max(10);
    MarkdownPage {
        width: columns.min(100),
        columns,
        colour: surface.colour,
        bullet: glyphs.bullet(),
        bar: glyphs.bar(),
        rule: glyphs.rule(),
        ellipsis: glyphs.ellipsis(),
    }
}

/// An answer that is rendered for a terminal.
#[derive(Debug)]
pub(crate) struct RenderedAnswer {
    markdown: Markdown,
    page: MarkdownPage,
}

impl RenderedAnswer {
    /// Makes one for standard output, if that is a terminal that renders.
    pub(crate) fn on(screen: Screen, glyphs: Glyphs) -> Option<Self> {
        let surface = screen.stdout;
        surface.renders.then(|| Self { markdown: Markdown::default(), page: page(surface, glyphs) })
    }

    /// Adds text and returns the complete lines.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.markdown.push(text, self.page)
    }

    /// Returns the rest of the answer.
    pub(crate) fn end(&mut self) -> String {
        self.markdown.flush(self.page)
    }
}
