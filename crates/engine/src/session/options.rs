//! Options of the agent: changed while it runs, or from its next process on.
//!
//! Two sides know the permission mode: the agent, which acts by it without a request, and the engine, which decides the requests. If an
//! acknowledgement is late or never comes, the two may differ. So the engine decides by the strictest of all modes that the agent may be
//! in: a stricter mode counts at once, a wider one when it is acknowledged. If the agent is silent, there is a notice.

use bowline_protocol::kinds::{Level, Notice, OptionState, OptionsChanged};
use bowline_protocol::{Event, Kind, OrderRefused, PermissionMode, Receipt, Source};
use bowline_providers::dialect::{OptionPermission, Sent};

use super::acks::{AckedOrder, OptionChange};
use super::queue::AnswerNow;
use super::{Session, SessionOptions};
use crate::run::{Now, OrderId, Run, RunStep};

/// The permission modes that the agent may be in.
#[derive(Debug, Default)]
pub(super) struct PermissionModes {
    /// The mode that the agent acknowledged last, or began with; none while nothing is on its way.
    agreed: Option<PermissionMode>,
    /// The modes on their way to the agent, oldest first.
    sent: Vec<(OrderId, PermissionMode)>,
}

/// How many modes on their way are counted. An agent that never acknowledges must not fill the memory.
const SENT_AT_MOST: usize = 64;

impl PermissionModes {
    /// Handles that a mode was sent, while the engine decides by `current`.
    fn sent(&mut self, order: OrderId, mode: PermissionMode, current: PermissionMode) {
        self.agreed.get_or_insert(current);
        if self.sent.len() < SENT_AT_MOST {
            self.sent.push((order, mode));
        }
    }

    /// Handles that the agent is in a mode. Agents take orders one after the other, so the earlier ones are over.
    fn acknowledged(&mut self, order: OrderId, mode: PermissionMode) {
        self.agreed = Some(mode);
        self.sent.retain(|(sent, _)| sent.0 > order.0);
    }

    /// Handles that the agent did not take a mode.
    fn rejected(&mut self, order: OrderId) {
        self.sent.retain(|(sent, _)| *sent != order);
    }

    /// Returns the mode to decide by, if the run does not know it already.
    fn effective(&mut self) -> Option<PermissionMode> {
        let agreed = self.agreed?;
        let strictest = self.sent.iter().map(|(_, mode)| *mode).chain([agreed]).min();
        if self.sent.is_empty() {
            self.agreed = None;
        }
        strictest
    }

    /// Handles the end of the process. The next one begins with the mode that counts now.
    pub(super) fn process_gone(&mut self) {
        *self = Self::default();
    }
}

impl SessionOptions {
    /// Takes note of an event: of those with which a session reports that its caller changed an option.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only one kind reports options that were changed")]
    pub fn note(&mut self, event: &Event) {
        match &event.kind {
            // The agent's own events have the names of the agent.
            Kind::OptionsChanged(changed) if event.source == Source::Bowline => {
                for OptionState { id, current, .. } in &changed.options {
                    self.set(id, current.as_deref().unwrap_or_default());
                }
            }
            _ => {}
        }
    }

    fn set(&mut self, option: &str, value: &str) {
        match option {
            "model" => self.model = Some(value.to_owned()),
            "effort" => self.effort = Some(value.to_owned()),
            "permission" => self.permission = mode_of(value).ok().or(self.permission),
            _ => {}
        }
    }
}

impl Session {
    /// Returns the options that were changed while the session lived.
    pub fn options(&self) -> Option<&SessionOptions> {
        self.live.as_ref().map(|live| &live.options)
    }

    /// Changes an option of the agent: at once if it can do that while it runs, else from its next process on.
    pub(super) fn set_option(
        &mut self,
        order: OrderId,
        option: String,
        value: String,
        now: Now,
        step: &mut RunStep,
    ) -> AnswerNow {
        let permission = match option.as_str() {
            "permission" => Some(mode_of(&value)?),
            // The agent's own word for a permission mode counts as that mode: the engine and `session.json` follow it.
            _ => match self.run.option_permission(&option, &value) {
                OptionPermission::Unchanged => None,
                OptionPermission::Is(mode) => Some(mode),
                OptionPermission::Unknown(reason) => {
                    return Err(OrderRefused::Unsupported { reason: reason.to_owned() });
                }
            },
        };
        let (run, live) = self.parts();
        let change = OptionChange { option, value, permission };
        if live.has_process() && run.is_kept_alive() {
            return match run.set_option(&change.option, &change.value, now, step) {
                Sent::Done => {
                    self.option_acknowledged(order, &change, now, step);
                    Ok(Some(Receipt::Done))
                }
                Sent::Awaiting(token) => {
                    if let (Some(mode), Some(current)) = (permission, run.permission()) {
                        live.modes.sent(order, mode, current);
                    }
                    live.acks.wait(token, order, AckedOrder::Option(change), now.up);
                    self.decide_by_strictest(now, step);
                    Ok(None)
                }
                Sent::Cannot(reason) => Err(OrderRefused::Unsupported { reason: reason.to_owned() }),
            };
        }
        if !matches!(change.option.as_str(), "model" | "effort" | "permission") {
            let reason = format!(
                "`{}` is an option of the running agent, and its process is not running",
                change.option
            );
            return Err(OrderRefused::Unsupported { reason });
        }
        self.option_set(&change.option, &change.value, now, step);
        Ok(Some(Receipt::Done))
    }

    /// Handles that the agent has taken an option, in time or late.
    pub(super) fn option_acknowledged(
        &mut self,
        order: OrderId,
        change: &OptionChange,
        now: Now,
        step: &mut RunStep,
    ) {
        let Some(mode) = change.permission else {
            return self.option_set(&change.option, &change.value, now, step);
        };
        let live = self.parts().1;
        live.modes.acknowledged(order, mode);
        // A later order may be on its way. Until its acknowledgement, the strictest mode counts.
        let mode = live.modes.effective().unwrap_or(mode);
        self.option_set("permission", mode.as_str(), now, step);
    }

    /// Handles that the agent rejected an option in time: nothing has changed.
    pub(super) fn option_rejected(&mut self, order: OrderId, now: Now, step: &mut RunStep) {
        self.parts().1.modes.rejected(order);
        self.decide_by_strictest(now, step);
    }

    /// Reports that the agent did not acknowledge an option, or rejected it after its time. A stricter mode still counts.
    pub(super) fn option_unconfirmed(
        &mut self,
        change: &OptionChange,
        rejected: Option<&str>,
        now: Now,
        step: &mut RunStep,
    ) {
        let Some(run_mode) = self.run.permission().filter(|_| change.permission.is_some()) else { return };
        let (wanted, mode) = (&change.value, run_mode.as_str());
        let answer = match rejected {
            Some(reason) => format!("the agent rejected the permission mode `{wanted}`: {reason}"),
            None => format!("the agent did not acknowledge the permission mode `{wanted}` within 15 s"),
        };
        let text = format!(
            "{answer}; its requests are decided by `{mode}`, but without a request it may act by another mode. \
            Stop the session and resume it to be certain"
        );
        let code = Some("permission_unconfirmed".to_owned());
        self.run.emit_for_session(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
    }

    /// Has the engine decide by the strictest mode that the agent may be in.
    fn decide_by_strictest(&mut self, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        if let Some(mode) = live.modes.effective()
            && run.permission() != Some(mode)
        {
            self.option_set("permission", mode.as_str(), now, step);
        }
    }

    /// Remembers an option for the next process, and reports it.
    fn option_set(&mut self, option: &str, value: &str, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        live.options.set(option, value);
        if let Some(mode) = live.options.permission.filter(|_| option == "permission") {
            run.set_permission(mode);
        }
        report(run, option, value, now, step);
    }
}

fn report(run: &mut Run, option: &str, value: &str, now: Now, step: &mut RunStep) {
    let state = OptionState { id: option.to_owned(), choices: Vec::new(), current: Some(value.to_owned()) };
    run.emit_for_session(Kind::OptionsChanged(OptionsChanged { options: vec![state] }), now, step);
}

/// Reads a permission mode of an order.
fn mode_of(value: &str) -> Result<PermissionMode, OrderRefused> {
    PermissionMode::ALL.into_iter().find(|mode| mode.as_str() == value).ok_or_else(|| {
        let reason = format!("`{value}` is no permission mode; there are read, ask, edit and yolo");
        OrderRefused::Rejected { reason }
    })
}
