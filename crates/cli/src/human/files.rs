//! Which files were changed, by the best source that told of any.

use std::collections::BTreeMap;

use bowline_protocol::kinds::{FileOperation, FilesTouched, TouchSource};

use super::{calls, words};

/// How many files the footer names.
const NAMED: usize = 10;

/// The files that were changed, by path.
#[derive(Debug, Default)]
pub(super) struct Files {
    git: BTreeMap<String, Mark>,
    watched: BTreeMap<String, Mark>,
    told: BTreeMap<String, Mark>,
}

/// What became of a file, as version control writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Added,
    Modified,
    Deleted,
    Moved,
}

impl Files {
    /// Takes in touched files.
    pub(super) fn touched(&mut self, touched: &FilesTouched) {
        let list = match touched.seen_by {
            TouchSource::Git => &mut self.git,
            TouchSource::Watch => &mut self.watched,
            TouchSource::Agent => &mut self.told,
        };
        for file in &touched.files {
            let mark = match file.operation {
                FileOperation::Read => continue,
                FileOperation::Create => Mark::Added,
                FileOperation::Write => Mark::Modified,
                FileOperation::Delete => Mark::Deleted,
                FileOperation::Move => Mark::Moved,
            };
            match list.get_mut(&file.path) {
                // A new file that is written again is still new.
                Some(before) if *before == Mark::Added && mark == Mark::Modified => {}
                Some(before) => *before = mark,
                None => drop(list.insert(file.path.clone(), mark)),
            }
        }
    }

    /// Returns the lines of the footer; none when nothing was changed.
    pub(super) fn lines(&self, cwd: Option<&str>, ellipsis: &str) -> Vec<String> {
        let best = [&self.git, &self.watched, &self.told].into_iter().find(|list| !list.is_empty());
        let Some(list) = best else { return Vec::new() };
        let mut lines = vec![format!("changed: {}", words::many(list.len() as u64, "file"))];
        for (path, mark) in list.iter().take(NAMED) {
            let letter = match mark {
                Mark::Added => 'A',
                Mark::Modified => 'M',
                Mark::Deleted => 'D',
                Mark::Moved => 'R',
            };
            lines.push(format!("  {letter} {}", words::one_line(&calls::short(path, cwd))));
        }
        if list.len() > NAMED {
            lines.push(format!("  {ellipsis} and {} more", list.len() - NAMED));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_protocol::kinds::TouchedFile;

    fn touch(files: &mut Files, seen_by: TouchSource, list: &[(&str, FileOperation)]) {
        let list = list
            .iter()
            .map(|(path, operation)| TouchedFile { path: (*path).to_owned(), operation: *operation });
        files.touched(&FilesTouched { seen_by, files: list.collect(), room: None });
    }

    #[test]
    fn git_is_believed_before_the_agent() {
        let mut files = Files::default();
        assert!(files.lines(None, "…").is_empty());
        touch(&mut files, TouchSource::Agent, &[("/w/a", FileOperation::Read)]);
        assert!(files.lines(None, "…").is_empty());
        touch(
            &mut files,
            TouchSource::Agent,
            &[("/w/a", FileOperation::Create), ("/w/a", FileOperation::Write)],
        );
        assert_eq!(files.lines(Some("/w"), "…"), ["changed: 1 file", "  A a"]);
        touch(&mut files, TouchSource::Git, &[("b", FileOperation::Write), ("c\x1b", FileOperation::Delete)]);
        assert_eq!(files.lines(Some("/w"), "…"), ["changed: 2 files", "  M b", "  D c␛"]);
    }

    #[test]
    fn many_files_are_counted() {
        let mut files = Files::default();
        let names: Vec<String> = (0..22).map(|n| format!("f{n}")).collect();
        for name in &names {
            touch(&mut files, TouchSource::Git, &[(name, FileOperation::Write)]);
        }
        let lines = files.lines(None, "…");
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (12, Some("  … and 12 more")));
    }
}
