//! The events of a session monitor: the provider's start, whole messages, approvals, files and diffs.
//!
//! Messages are printed when they are finished. Messages of sub-agents are for the agent, not for the user, so they
//! are left out. Answering an approval is not part of a view; `context` has its id.

use bowline_protocol::kinds::{ApprovalAsked, FilesTouched, Level, Outcome, SessionStarted, TextDelta};
use bowline_protocol::{
    ApprovalCategory, ApprovalId, ApprovalOption, EnforcedBy, Event, Json, Kind, MessageId, Risk, Source,
    Timestamp, ToolId,
};
use serde::Serialize;

use super::blocks::Blocks;
use super::opening::Opening;
use super::tally::Tally;
use super::{Setup, View, line};

/// Makes the view.
pub(crate) fn make(_: &Setup) -> Box<dyn View> {
    Box::new(ProviderEvents::default())
}

#[derive(Debug, Default)]
struct ProviderEvents {
    tally: Tally,
    opening: Opening,
    /// Unfinished messages, in the order in which they began.
    open: Vec<(MessageId, Blocks)>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
enum ProviderRecord<'a> {
    ProviderStarted {
        version: &'a str,
    },
    ProviderMessage {
        text: &'a str,
        severity: Level,
    },
    RequestApproval {
        category: ApprovalCategory,
        summary: &'a str,
        risk: Risk,
        context: ApprovalContext<'a>,
    },
    HintFilesTouched {
        paths: Vec<&'a str>,
        #[serde(rename = "roomPath", skip_serializing_if = "Option::is_none")]
        room_path: Option<&'a str>,
    },
    HintDiffAvailable {
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<&'a str>,
    },
}

/// The part that the format leaves open: enough to show the request in full and to answer it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApprovalContext<'a> {
    approval_id: &'a ApprovalId,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_id: Option<&'a ToolId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a Json>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    options: &'a [ApprovalOption],
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    enforced_by: EnforcedBy,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
}

impl View for ProviderEvents {
    fn event(&mut self, event: &Event, out: &mut String) {
        let before = out.len();
        self.tell(event, out);
        self.opening.put(out, before, |out| line(out, &ProviderRecord::ProviderStarted { version: "" }));
    }

    fn finish(&mut self, out: &mut String) {
        let before = out.len();
        self.release(out);
        self.opening.put(out, before, |out| line(out, &ProviderRecord::ProviderStarted { version: "" }));
    }
}

impl ProviderEvents {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the format has no record for the other kinds")]
    fn tell(&mut self, event: &Event, out: &mut String) {
        self.tally.event(event);
        match &event.kind {
            Kind::SessionStarted(started) => self.session_started(event, started, out),
            Kind::FallbackTaken(_) => self.opening.again(),
            Kind::Retrying(_) if event.source == Source::Bowline => self.opening.again(),
            Kind::TextDelta(delta) if delta.parent.is_none() => self.text(delta),
            Kind::TextRetracted(retracted) => {
                if let Some((_, blocks)) = self.open.iter_mut().find(|(id, _)| *id == retracted.message) {
                    blocks.retract(retracted.from_block);
                }
            }
            Kind::MessageFinished(finished) => {
                if let Some(at) = self.open.iter().position(|(id, _)| *id == finished.message) {
                    let (_, blocks) = self.open.remove(at);
                    message(&blocks, out);
                }
            }
            Kind::TurnEnded(ended) => {
                self.release(out);
                match ended.outcome {
                    Outcome::Failed | Outcome::Truncated => self.failure(out),
                    Outcome::Completed | Outcome::Cancelled => {}
                }
            }
            Kind::Notice(notice) => {
                line(out, &ProviderRecord::ProviderMessage { text: &notice.text, severity: notice.level });
            }
            Kind::ApprovalAsked(asked) => {
                // The text before the question explains it.
                self.release(out);
                approval(asked, out);
            }
            Kind::FilesTouched(touched) => files(touched, out),
            Kind::DiffAvailable(diff) => {
                line(out, &ProviderRecord::HintDiffAvailable { summary: diff.summary.as_deref() });
            }
            _ => {}
        }
    }

    fn session_started(&mut self, event: &Event, started: &SessionStarted, out: &mut String) {
        let news = started.version.is_some() || !self.opening.is_told();
        if self.opening.is_told_by(event, started.version.is_some()) && news {
            line(
                out,
                &ProviderRecord::ProviderStarted { version: started.version.as_deref().unwrap_or_default() },
            );
        }
    }

    fn text(&mut self, delta: &TextDelta) {
        let at = self.open.iter().position(|(id, _)| *id == delta.message).unwrap_or_else(|| {
            self.open.push((delta.message.clone(), Blocks::default()));
            self.open.len() - 1
        });
        self.open[at].1.push(delta.block, &delta.text);
    }

    /// Prints the messages without a reported end.
    fn release(&mut self, out: &mut String) {
        for (_, blocks) in std::mem::take(&mut self.open) {
            message(&blocks, out);
        }
    }

    fn failure(&self, out: &mut String) {
        if let Some(failure) = self.tally.trouble() {
            line(out, &ProviderRecord::ProviderMessage { text: &failure.message, severity: Level::Error });
        }
    }
}

fn message(blocks: &Blocks, out: &mut String) {
    let text: String = blocks.texts().collect();
    if !text.is_empty() {
        line(out, &ProviderRecord::ProviderMessage { text: &text, severity: Level::Info });
    }
}

fn approval(asked: &ApprovalAsked, out: &mut String) {
    let context = ApprovalContext {
        approval_id: &asked.id,
        tool_id: asked.tool.as_ref(),
        input: asked.input.as_ref(),
        options: &asked.options,
        rule: asked.rule.as_deref(),
        enforced_by: asked.enforced_by,
        deadline: asked.deadline,
    };
    let (category, summary, risk) = (asked.category, asked.summary.as_str(), asked.risk);
    line(out, &ProviderRecord::RequestApproval { category, summary, risk, context });
}

fn files(touched: &FilesTouched, out: &mut String) {
    if touched.files.is_empty() {
        return;
    }
    let paths = touched.files.iter().map(|file| file.path.as_str()).collect();
    line(out, &ProviderRecord::HintFilesTouched { paths, room_path: touched.room.as_deref() });
}
