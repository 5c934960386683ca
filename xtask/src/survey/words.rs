//! Words of comments: the idiom that `docs/style.md` forbids, and how much of the code is explained.

use std::collections::BTreeMap;

use super::{Figure, HIDING_WORDS, Source, percent, some};

/// Counts words and comments.
pub(super) fn figures(sources: &[Source]) -> Vec<Figure> {
    let (mut words, mut subjects) = (0, 0);
    let mut hidden: BTreeMap<String, usize> = BTreeMap::new();
    let (mut lines, mut plain) = (0, 0);
    for source in sources {
        for line in source.text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            lines += 1;
            let Some(comment) = line.strip_prefix("//") else { continue };
            plain += usize::from(!comment.starts_with(['/', '!']));
            let comment = comment.trim_start_matches(['/', '!']).trim();
            words += comment.split_whitespace().count();
            subjects += sentences(comment).filter(|first| matches!(*first, "What" | "Who")).count();
            let found = comment.split(|letter: char| !letter.is_alphabetic());
            let found = found.filter(|word| HIDING_WORDS.contains(&word.to_lowercase().as_str())).count();
            if found > 0 {
                *hidden.entry(format!("{}/{}", source.package, source.path)).or_default() += found;
            }
        }
    }
    let total: usize = hidden.values().sum();
    let mut worst: Vec<(String, usize)> = hidden.into_iter().collect();
    worst.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let worst = worst.into_iter().map(|(path, count)| format!("{path} {count}")).collect();
    vec![
        Figure {
            what: "words that hide the actor, in 10,000 words of comments".to_owned(),
            value: 100.0 * percent(total, words),
            limit: HIDDEN,
            worst: some(worst, 6),
        },
        Figure {
            what: "sentences that begin with What or Who, in 10,000 words of comments".to_owned(),
            value: 100.0 * percent(subjects, words),
            limit: SUBJECTS,
            worst: String::new(),
        },
        Figure {
            what: "lines that are no plain comment, of a hundred".to_owned(),
            value: 100.0 - percent(plain, lines),
            limit: UNEXPLAINED,
            worst: String::new(),
        },
    ]
}

/// The figures of the tree when they were last lowered.
const HIDDEN: f64 = 0.0;
const SUBJECTS: f64 = 1.0;
const UNEXPLAINED: f64 = 97.55;

/// Returns the first word of each sentence of a line.
fn sentences(comment: &str) -> impl Iterator<Item = &str> {
    comment.split(". ").filter_map(|sentence| sentence.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_comments_are_counted_and_those_of_code_are_not() {
        let text =
            "//! Nobody asks. What is asked counts.\n/// One more.\nlet nobody = 1;\n    // Why it is so.\n";
        let figures = figures(&[Source::new("engine", "a.rs", text)]);
        let values: Vec<f64> = figures.iter().map(|figure| figure.value.round()).collect();
        // One of twelve words, one of twelve, and one line of four.
        assert_eq!(values, [833.0, 833.0, 75.0]);
        assert_eq!(figures[0].worst, "engine/a.rs 1");
    }
}
