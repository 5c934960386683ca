//! The meaning of a typed line while a session is attached. Pure: the open requests and a line in, an order or a text out.

use bowline_protocol::kinds::{ControlMode, QuestionAsked};
use bowline_protocol::{ApprovalId, ApprovalVerdict, Event, Kind, PromptId, SessionOrder, WhenBusy};

/// The requests of the agent that wait for a person, oldest first.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    approvals: Vec<ApprovalId>,
    questions: Vec<QuestionAsked>,
}

impl OpenRequests {
    /// Takes note of an event.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only requests of the agent wait for a person")]
    pub(super) fn note(&mut self, event: &Event) {
        match &event.kind {
            Kind::ApprovalAsked(asked) => self.approvals.push(asked.id.clone()),
            Kind::ApprovalDecided(decided) => self.approvals.retain(|id| *id != decided.id),
            Kind::QuestionAsked(asked) => self.questions.push(asked.clone()),
            Kind::QuestionAnswered(answered) => self.questions.retain(|it| it.id != answered.id),
            _ => {}
        }
    }
}

/// The meaning of a line.
#[derive(Debug, PartialEq)]
pub(super) enum TypedLine {
    /// An empty line.
    Nothing,
    Detach,
    Status,
    /// A text for the person.
    Told(String),
    /// A prompt, which is sent as soon as possible.
    Prompt(String),
    Order(SessionOrder),
}

/// The keys that decide an approval.
pub(super) fn explained() -> &'static str {
    "`y` allows it, `a` allows it for this session, `n REASON` denies it"
}

const HELP: &str =
    "TEXT             send a prompt: into the running turn if the agent can be steered, else behind it
:queue TEXT      send it when the turn is over
:steer TEXT      hand it to the agent in the running turn
:now TEXT        interrupt the turn, then send it
:dequeue [ID]    take a queued prompt back
:offered ID      send a prompt that an earlier runner did not send
:interrupt       end the turn; the session goes on
y | a | n REASON decide the oldest approval
:set OPTION VALUE, :compact, :lead, :release, :status
:stop            end the session
:detach          leave; the session goes on (also Ctrl-D)";

/// Returns what a line means.
pub(super) fn meaning(line: &str, open: &OpenRequests) -> TypedLine {
    let text = line.trim();
    if text.is_empty() {
        return TypedLine::Nothing;
    }
    if let Some(command) = text.strip_prefix(':') {
        return command_of(command, open);
    }
    if let Some(order) = decision(text, open) {
        return TypedLine::Order(order);
    }
    if let (Some(question), true) = (open.questions.first(), open.approvals.is_empty()) {
        let chosen =
            text.parse::<usize>().ok().and_then(|number| question.choices.get(number.checked_sub(1)?));
        let answers = vec![chosen.cloned().unwrap_or_else(|| text.to_owned())];
        return TypedLine::Order(SessionOrder::Reply { question: Some(question.id.clone()), answers });
    }
    TypedLine::Prompt(text.to_owned())
}

/// Returns the decision on the oldest approval, if the line is one.
fn decision(text: &str, open: &OpenRequests) -> Option<SessionOrder> {
    let approval = open.approvals.first()?.clone();
    let (key, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let verdict = match (key, rest.trim()) {
        ("y" | "yes", "") => ApprovalVerdict::Allow { input: None },
        ("a", "") => ApprovalVerdict::AllowForSession,
        ("n" | "no", "") => ApprovalVerdict::Deny { message: None },
        ("n", reason) => ApprovalVerdict::Deny { message: Some(reason.to_owned()) },
        _ => return None,
    };
    Some(SessionOrder::Decide { approval: Some(approval), verdict })
}

fn command_of(command: &str, open: &OpenRequests) -> TypedLine {
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
        "dequeue" => {
            let prompt = Some(rest).filter(|id| !id.is_empty()).map(PromptId::from);
            TypedLine::Order(SessionOrder::Dequeue { prompt })
        }
        "offered" if !rest.is_empty() => {
            TypedLine::Order(SessionOrder::SendOffered { prompt: PromptId::from(rest) })
        }
        "dismiss" => match open.questions.first() {
            Some(question) => {
                let (question, answers) = (Some(question.id.clone()), Vec::new());
                TypedLine::Order(SessionOrder::Reply { question, answers })
            }
            None => TypedLine::Told("no question is open".to_owned()),
        },
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

    fn open(approvals: &[&str]) -> OpenRequests {
        OpenRequests { approvals: approvals.iter().map(|id| (*id).into()).collect(), questions: Vec::new() }
    }

    fn decided(line: &str) -> Option<ApprovalVerdict> {
        match meaning(line, &open(&["1", "2"])) {
            TypedLine::Order(SessionOrder::Decide { approval, verdict }) => {
                assert_eq!(approval, Some("1".into()), "the oldest one");
                Some(verdict)
            }
            TypedLine::Nothing
            | TypedLine::Detach
            | TypedLine::Status
            | TypedLine::Told(_)
            | TypedLine::Prompt(_)
            | TypedLine::Order(_) => None,
        }
    }

    #[test]
    fn only_exact_words_decide() {
        assert_eq!(decided("y"), Some(ApprovalVerdict::Allow { input: None }));
        assert_eq!(decided(" a "), Some(ApprovalVerdict::AllowForSession));
        assert_eq!(decided("n"), Some(ApprovalVerdict::Deny { message: None }));
        let reason = Some("not that file".to_owned());
        assert_eq!(decided("n not that file"), Some(ApprovalVerdict::Deny { message: reason }));
        for prompt in ["yes, and run the tests", "y not", "", "approve", "a bit later"] {
            assert_eq!(decided(prompt), None, "{prompt}");
        }
        // Without a request they are prompts.
        assert_eq!(meaning("y", &open(&[])), TypedLine::Prompt("y".to_owned()));
    }

    #[test]
    fn a_number_chooses_an_answer() {
        let question = QuestionAsked {
            id: "q".into(),
            text: "Which?".to_owned(),
            choices: vec!["red".to_owned(), "blue".to_owned()],
            several: false,
        };
        let open = OpenRequests { approvals: Vec::new(), questions: vec![question] };
        let reply = |answer: &str| {
            let (question, answers) = (Some("q".into()), vec![answer.to_owned()]);
            TypedLine::Order(SessionOrder::Reply { question, answers })
        };
        assert_eq!(meaning("2", &open), reply("blue"));
        assert_eq!(meaning("0", &open), reply("0"));
        assert_eq!(meaning("green", &open), reply("green"));
    }

    #[test]
    fn commands_begin_with_a_colon() {
        let open = open(&[]);
        assert_eq!(meaning(":interrupt", &open), TypedLine::Order(SessionOrder::Interrupt));
        assert_eq!(meaning("/compact", &open), TypedLine::Prompt("/compact".to_owned()), "the agent's own");
        for wrong in [":now", ":set model", ":nonsense", ":dismiss"] {
            assert!(matches!(meaning(wrong, &open), TypedLine::Told(_)), "{wrong}");
        }
        let set = SessionOrder::SetOption { option: "model".to_owned(), value: "opus 4".to_owned() };
        assert_eq!(meaning(":set model  opus 4", &open), TypedLine::Order(set));
    }
}
