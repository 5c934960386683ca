//! The changed files, from the best source that reported any.

use std::collections::BTreeMap;

use bowline_protocol::kinds::{FileOperation, FilesTouched, TouchSource};

use super::{calls, words};

/// The maximum number of files in the footer.
const NAMED: usize = 10;

/// The changed files, by path.
#[derive(Debug, Default)]
pub(super) struct ChangedFiles {
    git: BTreeMap<String, FileMark>,
    watched: BTreeMap<String, FileMark>,
    told: BTreeMap<String, FileMark>,
}

/// The change of a file, with the letter of version control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileMark {
    Added,
    Modified,
    Deleted,
    Moved,
}

impl ChangedFiles {
    /// Records touched files.
    pub(super) fn touched(&mut self, touched: &FilesTouched) {
        let list = match touched.seen_by {
            TouchSource::Git => &mut self.git,
            TouchSource::Watch => &mut self.watched,
            TouchSource::Agent => &mut self.told,
        };
        for file in &touched.files {
            let mark = match file.operation {
                FileOperation::Read => continue,
                FileOperation::Create => FileMark::Added,
                FileOperation::Write => FileMark::Modified,
                FileOperation::Delete => FileMark::Deleted,
                FileOperation::Move => FileMark::Moved,
            };
            match list.get_mut(&file.path) {
                // A new file stays new if it is written again.
                Some(before) if *before == FileMark::Added && mark == FileMark::Modified => {}
                Some(before) => *before = mark,
                None => drop(list.insert(file.path.clone(), mark)),
            }
        }
    }

    /// Returns the lines of the footer; none if no file changed.
    pub(super) fn lines(&self, cwd: Option<&str>, ellipsis: &str) -> Vec<String> {
        let best = [&self.git, &self.watched, &self.told].into_iter().find(|list| !list.is_empty());
        let Some(list) = best else { return Vec::new() };
        let mut lines = vec![format!("changed: {}", words::many(list.len() as u64, "file"))];
        for (path, mark) in list.iter().take(NAMED) {
            let letter = match mark {
                FileMark::Added => 'A',
                FileMark::Modified => 'M',
                FileMark::Deleted => 'D',
                FileMark::Moved => 'R',
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

    fn touch(files: &mut ChangedFiles, seen_by: TouchSource, list: &[(&str, FileOperation)]) {
        let list = list
            .iter()
            .map(|(path, operation)| TouchedFile { path: (*path).to_owned(), operation: *operation });
        files.touched(&FilesTouched { seen_by, files: list.collect(), room: None });
    }

    #[test]
    fn git_is_believed_before_the_agent() {
        let mut files = ChangedFiles::default();
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
        let mut files = ChangedFiles::default();
        let names: Vec<String> = (0..22).map(|n| format!("f{n}")).collect();
        for name in &names {
            touch(&mut files, TouchSource::Git, &[(name, FileOperation::Write)]);
        }
        let lines = files.lines(None, "…");
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (12, Some("  … and 12 more")));
    }
}
