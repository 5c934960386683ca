//! Questions of the agent, and what the person types as their answers.

use bowline_protocol::kinds::QuestionAsked;

/// The line that dismisses a question.
pub(super) const DISMISS: &str = "x";

/// The meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypedAnswer {
    /// The answers: chosen labels, or a text.
    Given(Vec<String>),
    Dismissed,
    /// It is no answer, for this reason.
    Wrong(String),
}

/// Reads a typed line as the answer to a question. One line dismisses it.
pub(super) fn read(question: &QuestionAsked, line: &str) -> TypedAnswer {
    match line.trim() {
        "" => TypedAnswer::Wrong(format!("type an answer, or `{DISMISS}` to dismiss the question")),
        DISMISS => TypedAnswer::Dismissed,
        line => answers(question, line),
    }
}

/// Reads a typed line as the answer to a question. No line dismisses it.
pub(super) fn answers(question: &QuestionAsked, line: &str) -> TypedAnswer {
    let line = line.trim();
    if question.choices.is_empty() {
        return TypedAnswer::Given(vec![line.to_owned()]);
    }
    let words: Vec<&str> =
        line.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty()).collect();
    let numbers: Option<Vec<usize>> = words.iter().map(|word| word.parse().ok()).collect();
    let Some(numbers) = numbers else {
        // An answer in words: that of a choice, or the person's own.
        let label = question.choices.iter().find(|choice| choice.eq_ignore_ascii_case(line));
        return TypedAnswer::Given(vec![label.map_or(line, String::as_str).to_owned()]);
    };
    if numbers.len() > 1 && !question.several {
        return TypedAnswer::Wrong("choose one number".to_owned());
    }
    let chosen: Option<Vec<String>> =
        numbers.iter().map(|number| question.choices.get(number.checked_sub(1)?).cloned()).collect();
    match chosen {
        Some(mut chosen) => {
            let mut seen = std::collections::BTreeSet::new();
            chosen.retain(|choice| seen.insert(choice.clone()));
            TypedAnswer::Given(chosen)
        }
        None => TypedAnswer::Wrong(format!("choose a number from 1 to {}", question.choices.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str, choices: &[&str], several: bool) -> QuestionAsked {
        let choices = choices.iter().map(|&choice| choice.to_owned()).collect();
        QuestionAsked { id: id.into(), text: "Which?".to_owned(), choices, several }
    }

    #[test]
    fn a_line_becomes_an_answer() {
        let given = |answers: &[&str]| TypedAnswer::Given(answers.iter().map(|&it| it.to_owned()).collect());
        let (one, some) = (["Red", "Dark blue"], true);
        for (choices, several, line, answer) in [
            (&one[..], false, "2", given(&["Dark blue"])),
            (&one, false, " dark BLUE ", given(&["Dark blue"])),
            (&one, false, "a green one", given(&["a green one"])),
            (&one, some, "2, 1 2", given(&["Dark blue", "Red"])),
            (&one, false, "1 2", TypedAnswer::Wrong("choose one number".to_owned())),
            (&one, false, "3", TypedAnswer::Wrong("choose a number from 1 to 2".to_owned())),
            (&one, false, "0", TypedAnswer::Wrong("choose a number from 1 to 2".to_owned())),
            (&one, false, "x", TypedAnswer::Dismissed),
            (&[], false, "42", given(&["42"])),
            (&[], false, "x", TypedAnswer::Dismissed),
        ] {
            assert_eq!(read(&question("q", choices, several), line), answer, "{line:?} of {choices:?}");
        }
        assert!(matches!(read(&question("q", &[], false), "  "), TypedAnswer::Wrong(_)), "no silent answer");
    }
}
