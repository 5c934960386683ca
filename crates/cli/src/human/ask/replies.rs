//! Questions of the agent, and what the person types as their answers.

use bowline_protocol::QuestionId;
use bowline_protocol::kinds::QuestionAsked;

/// The line that dismisses a question.
pub(super) const DISMISS: &str = "x";

/// Questions that are answered together, in their order.
#[derive(Debug)]
pub(super) struct QuestionGroup {
    questions: Vec<QuestionAsked>,
    answers: Vec<Vec<String>>,
}

/// The meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypedAnswer {
    /// The answers: chosen labels, or a text.
    Given(Vec<String>),
    Dismissed,
    /// It is no answer, for this reason.
    Wrong(String),
}

impl QuestionGroup {
    pub(super) fn new(first: QuestionAsked) -> Self {
        Self { questions: vec![first], answers: Vec::new() }
    }

    /// Returns the id by which the questions are answered.
    pub(super) fn id(&self) -> &QuestionId {
        &self.questions[0].id
    }

    /// Adds a question of the same request. The further questions of a request that takes one reply have its id with `#2`, `#3`
    /// behind it; questions that take a reply each have ids of their own.
    pub(super) fn takes(&mut self, question: &QuestionAsked) -> bool {
        let number =
            question.id.as_str().strip_prefix(self.id().as_str()).and_then(|it| it.strip_prefix('#'));
        let is_next = number.and_then(|it| it.parse().ok()) == Some(self.questions.len() + 1);
        if is_next {
            self.questions.push(question.clone());
        }
        is_next
    }

    /// Returns the question that is asked now, with its number and the number of all.
    pub(super) fn current(&self) -> (&QuestionAsked, usize, usize) {
        let place = self.answers.len().min(self.questions.len() - 1);
        (&self.questions[place], place + 1, self.questions.len())
    }

    /// Takes the answers to the current question. Returns all answers if it was the last one.
    pub(super) fn answer(&mut self, answers: Vec<String>) -> Option<Vec<String>> {
        self.answers.push(answers);
        if self.answers.len() < self.questions.len() {
            return None;
        }
        Some(match self.answers.as_slice() {
            [only] => only.clone(),
            // One answer for each question: several choices of one become one text.
            each => each.iter().map(|choices| choices.join(", ")).collect(),
        })
    }

    /// Begins again, after the agent rejected the answers.
    pub(super) fn begin_again(&mut self) {
        self.answers.clear();
    }
}

/// Reads a typed line as the answer to a question.
pub(super) fn read(question: &QuestionAsked, line: &str) -> TypedAnswer {
    let line = line.trim();
    if line.is_empty() {
        return TypedAnswer::Wrong(format!("type an answer, or `{DISMISS}` to dismiss the question"));
    }
    if line == DISMISS {
        return TypedAnswer::Dismissed;
    }
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
        QuestionAsked { id: QuestionId::from(id), text: "Which?".to_owned(), choices, several }
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

    #[test]
    fn questions_of_one_request_are_answered_together() {
        let mut group = QuestionGroup::new(question("r1", &["a", "b"], true));
        assert!(!group.takes(&question("r1/2", &[], false)), "a question with a reply of its own");
        assert!(!group.takes(&question("r1#3", &[], false)), "the second comes first");
        assert!(group.takes(&question("r1#2", &[], false)));
        assert_eq!((group.current().1, group.current().2), (1, 2));
        assert_eq!(group.answer(vec!["a".into(), "b".into()]), None);
        assert_eq!(group.current().0.id.as_str(), "r1#2");
        assert_eq!(group.answer(vec!["c".into()]), Some(vec!["a, b".to_owned(), "c".to_owned()]));
        let mut single = QuestionGroup::new(question("r2", &["a", "b"], true));
        assert_eq!(single.answer(vec!["a".into(), "b".into()]), Some(vec!["a".to_owned(), "b".to_owned()]));
    }
}
