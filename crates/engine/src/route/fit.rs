//! Whether a request fits into a context, and how it is made to.

use bowline_protocol::Message;
use serde::{Deserialize, Serialize};

/// What is left out of a request that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Truncation {
    /// What was said first, message by message.
    Oldest,
    /// All that was said before.
    Context,
    /// The middle of the prompt.
    Prompt,
    /// Something of everything: the middle of the prompt and of each message.
    Proportional,
}

impl Truncation {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::Oldest, Self::Context, Self::Prompt, Self::Proportional];

    /// Returns the word used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Oldest => "oldest",
            Self::Context => "context",
            Self::Prompt => "prompt",
            Self::Proportional => "proportional",
        }
    }
}

/// What stands in the place of what was left out.
const LEFT_OUT: &str = "\n[…]\n";

/// Estimates how many tokens a request has: one for every four letters, rounded up.
pub fn tokens(prompt: &str, context: &[Message]) -> u64 {
    let letters = |text: &str| text.chars().count() as u64;
    let said: u64 = context.iter().map(|message| letters(&message.content).div_ceil(4)).sum();
    letters(prompt).div_ceil(4) + said
}

/// Shortens a request until it has at most so many tokens; says whether it does then.
pub fn shorten(prompt: &mut String, context: &mut Vec<Message>, most: u64, how: Truncation) -> bool {
    let all = tokens(prompt, context);
    if all <= most {
        return true;
    }
    match how {
        Truncation::Oldest => {
            while !context.is_empty() && tokens(prompt, context) > most {
                context.remove(0);
            }
        }
        Truncation::Context => context.clear(),
        Truncation::Prompt => {
            let room = most.saturating_sub(tokens("", context));
            cut(prompt, room);
        }
        Truncation::Proportional => {
            let share = |text: &str| tokens(text, &[]) * most / all;
            cut(prompt, share(prompt));
            for message in &mut *context {
                let room = share(&message.content);
                cut(&mut message.content, room);
            }
        }
    }
    !prompt.trim().is_empty() && tokens(prompt, context) <= most
}

/// Takes the middle out of a text, so that it has at most so many tokens.
fn cut(text: &mut String, most: u64) {
    let letters = text.chars().count();
    let most = usize::try_from(most.saturating_mul(4)).unwrap_or(usize::MAX);
    if letters <= most {
        return;
    }
    let room = most.saturating_sub(LEFT_OUT.chars().count());
    let head: String = text.chars().take(room.div_ceil(2)).collect();
    let tail: String = text.chars().skip(letters - room / 2).collect();
    *text = if room == 0 { String::new() } else { format!("{head}{LEFT_OUT}{tail}") };
}

#[cfg(test)]
mod tests {
    use bowline_protocol::Role;

    use super::*;

    fn said(text: &str) -> Message {
        Message { role: Role::User, content: text.to_owned(), tool_calls: Vec::new(), tool_call_id: None }
    }

    /// Shortens ten tokens of prompt after two messages of ten tokens each.
    fn shortened(most: u64, how: Truncation) -> (bool, usize, Vec<usize>) {
        let mut prompt = "p".repeat(40);
        let mut context = vec![said(&"a".repeat(40)), said(&"b".repeat(40))];
        let fits = shorten(&mut prompt, &mut context, most, how);
        (fits, prompt.chars().count(), context.iter().map(|it| it.content.chars().count()).collect())
    }

    #[test]
    fn each_way_leaves_out_what_it_says() {
        for how in Truncation::ALL {
            assert_eq!(shortened(30, how), (true, 40, vec![40, 40]), "{how:?}: what fits stays");
        }
        assert_eq!(shortened(20, Truncation::Oldest), (true, 40, vec![40]));
        assert_eq!(shortened(25, Truncation::Context), (true, 40, vec![]));
        assert_eq!(shortened(25, Truncation::Prompt), (true, 20, vec![40, 40]));
        assert_eq!(shortened(15, Truncation::Proportional), (true, 20, vec![20, 20]));
    }

    #[test]
    fn what_cannot_be_made_to_fit_is_said() {
        assert!(!shortened(5, Truncation::Oldest).0);
        assert!(!shortened(5, Truncation::Context).0);
        assert!(!shortened(20, Truncation::Prompt).0, "nothing would be left of the prompt");
        assert!(!shortened(1, Truncation::Proportional).0);
    }
}
