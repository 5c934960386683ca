//! The meaning of a typed line while a session is attached, if it is not about an open request (`human/ask` has those). Pure.

use bowline_protocol::kinds::ControlMode;
use bowline_protocol::{PromptId, SessionOrder, WhenBusy};

/// The meaning of a line.
#[derive(Debug, PartialEq)]
pub(super) enum TypedLine {
    /// An empty line.
    Nothing,
    Detach,
    Status,
    /// Dismiss the question on the screen.
    Dismiss,
    /// A text for the person.
    Told(String),
    /// A prompt, which is sent as soon as possible.
    Prompt(String),
    Order(SessionOrder),
}

const HELP: &str =
    "TEXT             send a prompt: into the running turn if the agent can be steered, else behind it
:queue TEXT      send it when the turn is over
:steer TEXT      send it into the running turn
:now TEXT        interrupt the turn, then send it
:dequeue [ID]    take a queued prompt back
:offered ID      send a prompt that an earlier runner did not send
:interrupt       end the turn; the session goes on
:lead            lead the session: the queue waits for `:release`; prompts that you type are sent
:release         let the agent lead again, and send the queued prompts
:set OPTION VALUE  change an option, such as `model`
:compact         have the agent compact its context
:dismiss         dismiss the open question
:status          show the state, open requests and the queue
:stop            end the session
:detach          leave; the session goes on (also Ctrl-D)
While a request of the agent is open, its keys decide it: `y`, `a`, `n`, `m TEXT`, `e TEXT`, `?`";

/// Returns what a line means.
pub(super) fn meaning(line: &str) -> TypedLine {
    let text = line.trim();
    match text.strip_prefix(':') {
        Some(command) => command_of(command),
        None if text.is_empty() => TypedLine::Nothing,
        None => TypedLine::Prompt(text.to_owned()),
    }
}

fn command_of(command: &str) -> TypedLine {
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    let prompt = |when_busy| {
        if rest.is_empty() {
            return TypedLine::Told(format!("`:{name}` needs a prompt behind it"));
        }
        TypedLine::Order(SessionOrder::Prompt {
            text: rest.to_owned(),
            attachments: Vec::new(),
            when_busy,
            from: None,
        })
    };
    let lead = |mode| TypedLine::Order(SessionOrder::SetControl { mode });
    match name {
        "help" | "h" | "?" => TypedLine::Told(HELP.to_owned()),
        "queue" => prompt(WhenBusy::Queue),
        "steer" => prompt(WhenBusy::Steer),
        "now" => prompt(WhenBusy::Now),
        "interrupt" | "i" => TypedLine::Order(SessionOrder::Interrupt),
        "stop" => TypedLine::Order(SessionOrder::Stop),
        "compact" => TypedLine::Order(SessionOrder::Compact),
        "lead" => lead(ControlMode::HumanLed),
        "release" => lead(ControlMode::AgentLed),
        "status" => TypedLine::Status,
        "detach" | "d" | "q" => TypedLine::Detach,
        "dismiss" => TypedLine::Dismiss,
        "dequeue" => {
            let prompt = Some(rest).filter(|id| !id.is_empty()).map(PromptId::from);
            TypedLine::Order(SessionOrder::Dequeue { prompt })
        }
        "offered" if !rest.is_empty() => {
            TypedLine::Order(SessionOrder::SendOffered { prompt: PromptId::from(rest) })
        }
        "set" => match rest.split_once(char::is_whitespace) {
            Some((option, value)) => {
                let (option, value) = (option.to_owned(), value.trim().to_owned());
                TypedLine::Order(SessionOrder::SetOption { option, value })
            }
            None => TypedLine::Told("write it as `:set OPTION VALUE`".to_owned()),
        },
        _ => TypedLine::Told(format!("there is no command `:{name}`; `:help` lists them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_colon() {
        assert_eq!(meaning(":interrupt"), TypedLine::Order(SessionOrder::Interrupt));
        assert_eq!(meaning("/compact"), TypedLine::Prompt("/compact".to_owned()), "the agent's own");
        assert_eq!(meaning(" y "), TypedLine::Prompt("y".to_owned()), "no request is open");
        for wrong in [":now", ":set model", ":nonsense", ":offered"] {
            assert!(matches!(meaning(wrong), TypedLine::Told(_)), "{wrong}");
        }
        let set = SessionOrder::SetOption { option: "model".to_owned(), value: "opus 4".to_owned() };
        assert_eq!(meaning(":set model  opus 4"), TypedLine::Order(set));
    }

    #[test]
    fn every_command_is_in_the_help() {
        for name in ["queue", "steer", "now", "interrupt", "stop", "compact", "lead", "release", "status"]
            .iter()
            .chain(&["detach", "dismiss", "dequeue", "offered", "set"])
        {
            assert!(HELP.lines().any(|line| line.starts_with(&format!(":{name} "))), "{name}");
        }
    }
}
