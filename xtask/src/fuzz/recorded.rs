//! Seeds from the recordings: one line of each sort that a program prints, and the beginnings of its streams.
//!
//! Without them the fuzzer would have to guess the words of every dialect, which it does for short ones only. They are
//! taken when fuzzing begins and not kept among the seeds, so that a new recording is fuzzed without more ado.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use anyhow::{Context, Result};
use bowline_providers::novelty;
use bowline_testkit::{Case, recordings};

/// The longest seed: with what stands before it, it is shorter than an input may be, so that there is room to change.
const LONGEST: usize = 900;

/// The most sorts of lines of one dialect.
const MOST_SORTS: usize = 60;

/// Reads the seeds: their names, and the inputs as the target wants them.
pub(super) fn seeds() -> Result<Vec<(String, Vec<u8>)>> {
    let mut dialects: BTreeMap<&str, Kept> = BTreeMap::new();
    for recording in recordings::all() {
        let (dialect, _) = recording.reader();
        dialects.entry(dialect.name).or_default().take(&recording.file("stdout.raw"));
    }
    let mut seeds = Vec::new();
    for (dialect, kept) in dialects {
        let header = Case::header(dialect).with_context(|| format!("no dialect is called {dialect}"))?;
        let inputs = kept.inputs.iter().enumerate();
        seeds.extend(
            inputs.map(|(number, bytes)| (format!("{dialect}-{number}"), [&header[..], bytes].concat())),
        );
    }
    Ok(seeds)
}

/// The seeds from the recordings of one dialect.
#[derive(Debug, Default)]
struct Kept {
    /// The fields of every line that is kept: two lines with the same are of one sort.
    sorts: HashSet<BTreeSet<String>>,
    inputs: BTreeSet<Vec<u8>>,
}

impl Kept {
    /// Takes the lines of a new sort, and the beginning.
    fn take(&mut self, stdout: &[u8]) {
        for line in stdout.split_inclusive(|byte| *byte == b'\n').filter(|line| line.len() <= LONGEST) {
            if self.sorts.len() < MOST_SORTS && self.sorts.insert(sort(line)) {
                self.inputs.insert(line.to_vec());
            }
        }
        let beginning = &stdout[..stdout.len().min(LONGEST)];
        if let Some(end) = beginning.iter().rposition(|byte| *byte == b'\n') {
            self.inputs.insert(beginning[..=end].to_vec());
        }
    }
}

/// Returns the fields of a line; none for what is not JSON.
fn sort(line: &[u8]) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    if let Ok(value) = serde_json::from_slice(line) {
        novelty::each_path(&value, &mut |path| {
            paths.insert(path.to_owned());
        });
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_of_each_sort_is_kept_and_the_beginning() {
        let mut kept = Kept::default();
        kept.take(b"{\"type\":\"a\",\"x\":1}\n{\"type\":\"a\",\"x\":2}\n{\"type\":\"b\"}");
        let kept: Vec<&[u8]> = kept.inputs.iter().map(Vec::as_slice).collect();
        assert_eq!(
            kept,
            [
                &b"{\"type\":\"a\",\"x\":1}\n"[..],
                b"{\"type\":\"a\",\"x\":1}\n{\"type\":\"a\",\"x\":2}\n",
                b"{\"type\":\"b\"}",
            ]
        );
    }

    #[test]
    fn every_dialect_that_was_recorded_has_seeds_that_fit() {
        let seeds = seeds().expect("the recordings are readable");
        assert!(seeds.iter().all(|(_, bytes)| (4..=LONGEST + 3).contains(&bytes.len())));
        let dialects: HashSet<&str> =
            seeds.iter().filter_map(|(_, bytes)| Some(Case::read(bytes)?.entry.name)).collect();
        assert!(dialects.len() > 5, "{dialects:?}");
    }
}
