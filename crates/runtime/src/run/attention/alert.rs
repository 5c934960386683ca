//! Decides which events a person should know of, and describes them. Pure: batches of events in, alerts out.

use bowline_protocol::kinds::{LimitState, Outcome, TurnEnded};
use bowline_protocol::{ApprovalId, Category, Code, Event, Kind, QuestionId, SessionId};
use bowline_providers::ansi;

/// The longest summary, in characters.
const SUMMARY: usize = 200;

/// A sort of event that a person should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AttentionEvent {
    /// An approval waits for a person.
    Approval,
    /// A question of the agent waits for an answer.
    Question,
    /// A limit of the account or a budget is used up.
    Limit,
    /// A turn ended by itself.
    TurnEnd,
}

impl AttentionEvent {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Approval, Self::Question, Self::Limit, Self::TurnEnd];

    /// Returns its name in the settings and in `BOWLINE_EVENT`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Limit => "limit",
            Self::TurnEnd => "turn_end",
        }
    }

    /// Finds one by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }
}

/// Something that a person should know of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alert {
    /// Its sort.
    pub event: AttentionEvent,
    /// The session.
    pub session: SessionId,
    /// The provider, once the session has named it.
    pub provider: Option<String>,
    /// The turn, if it belongs to one.
    pub turn: Option<u32>,
    /// The id of the approval or of the question.
    pub request: Option<String>,
    /// How the turn ended.
    pub outcome: Option<Outcome>,
    /// One line for a person, without control characters. It may have words of the agent.
    pub summary: String,
}

/// Finds the alerts in the events of a session.
#[derive(Debug, Default)]
pub struct AlertFinder {
    provider: Option<String>,
    /// Whether the end of a turn may be followed by another attempt of the same request, so that it is held back.
    one_prompt: bool,
    held: Option<Alert>,
    /// Whether a limit was reported in this turn: agents repeat it with every request to the model.
    limit_reported: bool,
}

impl AlertFinder {
    /// For a live session: the end of each turn is an alert.
    pub fn of_session() -> Self {
        Self::default()
    }

    /// For a task of one prompt, whose attempts may be several sessions: only the last end of a turn is an alert, when the task is
    /// over ([`Self::finish`]).
    pub fn of_task() -> Self {
        Self { one_prompt: true, ..Self::default() }
    }

    /// Returns the alerts of a batch. A request that is decided in the same batch waited for no person: the permission mode decided.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds need no person")]
    pub fn batch(&mut self, events: &[Event]) -> Vec<Alert> {
        let mut alerts: Vec<Alert> = Vec::new();
        for event in events {
            match &event.kind {
                Kind::SessionStarted(started) if started.provider.is_some() => {
                    self.provider.clone_from(&started.provider);
                }
                Kind::ApprovalAsked(asked) => {
                    let summary = format!("approval wanted: {}", asked.summary);
                    alerts.push(self.asks(event, AttentionEvent::Approval, asked.id.as_str(), &summary));
                }
                Kind::QuestionAsked(asked) => {
                    let summary = format!("question: {}", asked.text);
                    alerts.push(self.asks(event, AttentionEvent::Question, asked.id.as_str(), &summary));
                }
                Kind::ApprovalDecided(decided) => forget_approval(&mut alerts, &decided.id),
                Kind::QuestionAnswered(answered) => forget_question(&mut alerts, &answered.id),
                Kind::LimitReported(limit)
                    if limit.state == LimitState::Exhausted && !self.limit_reported =>
                {
                    self.limit_reported = true;
                    let summary = format!("limit reached: {}", limit.window);
                    alerts.push(self.alert(event, AttentionEvent::Limit, &summary));
                }
                Kind::TurnStarted(_) => (self.held, self.limit_reported) = (None, false),
                Kind::TurnEnded(ended) => {
                    self.held = None;
                    let alert = self.turn_end(event, ended);
                    if self.one_prompt { self.held = alert } else { alerts.extend(alert) }
                }
                _ => {}
            }
        }
        alerts
    }

    /// Returns the alert that was held back, because the task is over.
    pub fn finish(&mut self) -> Option<Alert> {
        self.held.take()
    }

    fn turn_end(&self, event: &Event, ended: &TurnEnded) -> Option<Alert> {
        let failure = ended.failure.as_deref();
        let is_limit = !self.limit_reported
            && failure
                .is_some_and(|failure| failure.category == Category::Quota || failure.code == Code::Budget);
        let sort = if is_limit { AttentionEvent::Limit } else { AttentionEvent::TurnEnd };
        let how = match ended.outcome {
            Outcome::Completed => "the turn is completed",
            Outcome::Failed => "the turn failed",
            Outcome::Truncated => "the turn was cut off",
            // A person or a program stopped it, and knows.
            Outcome::Cancelled => return None,
        };
        let why = failure.map(|failure| format!(": {}", failure.message)).unwrap_or_default();
        let outcome = Some(ended.outcome);
        Some(Alert { outcome, ..self.alert(event, sort, &format!("{how}{why}")) })
    }

    fn asks(&self, event: &Event, sort: AttentionEvent, id: &str, summary: &str) -> Alert {
        Alert { request: Some(line(id)), ..self.alert(event, sort, summary) }
    }

    fn alert(&self, event: &Event, sort: AttentionEvent, summary: &str) -> Alert {
        Alert {
            event: sort,
            session: event.session.clone(),
            provider: self.provider.clone(),
            turn: event.turn,
            request: None,
            outcome: None,
            summary: line(summary),
        }
    }
}

fn forget_approval(alerts: &mut Vec<Alert>, id: &ApprovalId) {
    forget(alerts, AttentionEvent::Approval, id.as_str());
}

fn forget_question(alerts: &mut Vec<Alert>, id: &QuestionId) {
    forget(alerts, AttentionEvent::Question, id.as_str());
}

fn forget(alerts: &mut Vec<Alert>, sort: AttentionEvent, id: &str) {
    let id = line(id);
    alerts.retain(|alert| alert.event != sort || alert.request.as_deref() != Some(&id));
}

/// Makes one short line of a text: no control sequences, no line breaks, nothing that reorders or hides text.
pub(super) fn line(text: &str) -> String {
    // An agent may send megabytes, and cleaning takes time for each of them.
    let end = text.char_indices().nth(10 * SUMMARY).map_or(text.len(), |(end, _)| end);
    let text = ansi::strip(&text[..end]);
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = ansi::harmless(&words.join(" ")).into_owned();
    if text.chars().count() <= SUMMARY {
        return text;
    }
    let mut short: String = text.chars().take(SUMMARY - 1).collect();
    short.push('…');
    short
}
