//! Checks whether a request fits into a context window, and shortens it.

use bowline_protocol::Request;
use serde::{Deserialize, Serialize};

/// The part to remove from a request that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Truncation {
    /// The oldest messages, one by one.
    Oldest,
    /// All earlier messages.
    Context,
    /// The middle of the prompt.
    Prompt,
    /// Some of everything: the middle of the prompt and of each message.
    Proportional,
}

impl Truncation {
    /// All variants.
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

/// The text that replaces a removed part.
const LEFT_OUT: &str = "\n[…]\n";

/// Estimates the tokens of a request, including its system prompt and its earlier messages.
pub fn tokens(request: &Request) -> u64 {
    of_text(&request.prompt) + beside_prompt(request)
}

/// Estimates the tokens of a text: one for every four letters, rounded up.
fn of_text(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(4)
}

fn beside_prompt(request: &Request) -> u64 {
    system(request) + request.context.iter().map(|message| of_text(&message.content)).sum::<u64>()
}

fn system(request: &Request) -> u64 {
    let parts = [&request.system_prompt, &request.append_system_prompt];
    parts.into_iter().flatten().map(|text| of_text(text)).sum()
}

/// Shortens a request to at most this many tokens. Returns whether it fits then. Never shortens the system prompt.
pub fn shorten(request: &mut Request, most: u64, how: Truncation) -> bool {
    let all = tokens(request);
    if all <= most {
        return true;
    }
    match how {
        Truncation::Oldest => {
            while !request.context.is_empty() && tokens(request) > most {
                request.context.remove(0);
            }
        }
        Truncation::Context => request.context.clear(),
        Truncation::Prompt => {
            let room = most.saturating_sub(beside_prompt(request));
            cut(&mut request.prompt, room);
        }
        Truncation::Proportional => {
            let system = system(request);
            let (all, most) = (all - system, most.saturating_sub(system));
            let cut_share = |text: &mut String| {
                // Multiply first: the quotient of the two alone is less than 1 and would round to 0.
                let room = of_text(text) * most / all.max(1);
                cut(text, room);
            };
            cut_share(&mut request.prompt);
            request.context.iter_mut().for_each(|message| cut_share(&mut message.content));
        }
    }
    !request.prompt.trim().is_empty() && tokens(request) <= most
}

/// Removes the middle of a text, so that it has at most this many tokens.
fn cut(text: &mut String, most: u64) {
    // Count characters, not bytes: a cut inside a character is not valid UTF-8.
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
    use bowline_protocol::{Message, Role};

    use super::*;

    fn said(text: &str) -> Message {
        Message { role: Role::User, content: text.to_owned(), tool_calls: Vec::new(), tool_call_id: None }
    }

    /// Ten tokens of prompt after two messages of ten tokens each.
    fn request() -> Request {
        let context = vec![said(&"a".repeat(40)), said(&"b".repeat(40))];
        Request { prompt: "p".repeat(40), context, ..Request::default() }
    }

    fn after(mut request: Request, most: u64, how: Truncation) -> (bool, usize, Vec<usize>) {
        let fits = shorten(&mut request, most, how);
        let said = request.context.iter().map(|it| it.content.chars().count()).collect();
        (fits, request.prompt.chars().count(), said)
    }

    fn shortened(most: u64, how: Truncation) -> (bool, usize, Vec<usize>) {
        after(request(), most, how)
    }

    #[test]
    fn the_system_prompt_counts_and_stays() {
        let system = || Request { system_prompt: Some("s".repeat(40)), ..request() };
        assert_eq!((tokens(&request()), tokens(&system())), (30, 40));
        let appended = Request { append_system_prompt: Some("s".repeat(4)), ..system() };
        assert_eq!(tokens(&appended), 41);
        assert_eq!(after(system(), 30, Truncation::Oldest), (true, 40, vec![40]));
        assert_eq!(after(system(), 35, Truncation::Prompt), (true, 20, vec![40, 40]));
        assert_eq!(after(system(), 25, Truncation::Proportional), (true, 20, vec![20, 20]));
        for how in Truncation::ALL {
            assert!(!after(system(), 9, how).0, "{how:?}: the system prompt alone is too long");
        }
    }

    #[test]
    fn each_way_has_the_same_name_in_code_and_files() {
        for how in Truncation::ALL {
            assert_eq!(serde_json::to_string(&how).unwrap(), format!("\"{}\"", how.as_str()));
        }
    }

    #[test]
    fn each_truncation_removes_its_part() {
        for how in Truncation::ALL {
            assert_eq!(shortened(30, how), (true, 40, vec![40, 40]), "{how:?}: what fits stays");
        }
        assert_eq!(shortened(20, Truncation::Oldest), (true, 40, vec![40]));
        assert_eq!(shortened(25, Truncation::Context), (true, 40, vec![]));
        assert_eq!(shortened(25, Truncation::Prompt), (true, 20, vec![40, 40]));
        assert_eq!(shortened(15, Truncation::Proportional), (true, 20, vec![20, 20]));
    }

    #[test]
    fn a_request_that_cannot_fit_is_reported() {
        assert!(!shortened(5, Truncation::Oldest).0);
        assert!(!shortened(5, Truncation::Context).0);
        assert!(!shortened(20, Truncation::Prompt).0, "nothing would be left of the prompt");
        assert!(!shortened(1, Truncation::Proportional).0);
    }
}
