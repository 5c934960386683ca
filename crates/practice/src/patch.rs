//! The change of an edit, as one hunk with three lines of context.

/// The number of context lines.
const CONTEXT: usize = 3;

/// A hunk of a diff.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hunk {
    pub(crate) old_start: usize,
    pub(crate) old_lines: usize,
    pub(crate) new_start: usize,
    pub(crate) new_lines: usize,
    /// The lines, each behind ` `, `-` or `+`.
    pub(crate) lines: Vec<String>,
}

impl Hunk {
    /// Compares two texts. Texts that do not differ give a hunk without lines.
    pub(crate) fn between(before: &str, after: &str) -> Self {
        let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
        let shorter = old.len().min(new.len());
        let head = (0..shorter).take_while(|at| old[*at] == new[*at]).count();
        let tail = (1..=shorter - head).take_while(|at| old[old.len() - at] == new[new.len() - at]).count();
        let (old_changed, new_changed) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
        if old_changed.is_empty() && new_changed.is_empty() {
            return Self { old_start: 0, old_lines: 0, new_start: 0, new_lines: 0, lines: Vec::new() };
        }
        let from = head.saturating_sub(CONTEXT);
        let below = tail.min(CONTEXT);
        let context = |range: std::ops::Range<usize>| old[range].iter().map(|line| format!(" {line}"));
        let lines = context(from..head)
            .chain(old_changed.iter().map(|line| format!("-{line}")))
            .chain(new_changed.iter().map(|line| format!("+{line}")))
            .chain(context(old.len() - tail..old.len() - tail + below))
            .collect();
        let around = head - from + below;
        let (old_lines, new_lines) = (old_changed.len() + around, new_changed.len() + around);
        // An empty hunk stands behind line 0, as `diff` writes it.
        let start = |count: usize| if count == 0 { from } else { from + 1 };
        Self { old_start: start(old_lines), old_lines, new_start: start(new_lines), new_lines, lines }
    }

    /// Returns it as a unified diff of a file.
    pub(crate) fn unified(&self, path: &str) -> String {
        let Self { old_start, old_lines, new_start, new_lines, lines } = self;
        let head = format!("@@ -{old_start},{old_lines} +{new_start},{new_lines} @@");
        format!("--- {path}\n+++ {path}\n{head}\n{}\n", lines.join("\n"))
    }
}

#[test]
fn a_change_in_the_middle_has_context() {
    let hunk = Hunk::between("a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nE\nE2\nf\ng\nh\n");
    assert_eq!(hunk.lines, [" b", " c", " d", "-e", "+E", "+E2", " f", " g", " h"]);
    assert_eq!((hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines), (2, 7, 2, 8));
}

#[test]
fn a_new_file_and_an_unchanged_one() {
    let hunk = Hunk::between("", "a\n");
    assert_eq!(hunk.unified("f"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
    assert!(Hunk::between("a\na\n", "a\na\n").lines.is_empty());
    assert_eq!(Hunk::between("a\n", "a\na\n").lines, [" a", "+a"]);
}
