//! The control lines of both directions: requests, their answers, and approvals.
//!
//! The program asks whether it may use a tool; we ask it to begin, to stop, to change its mode or model. Answers carry
//! the request's id only, so what we asked is remembered until it is answered.

use bowline_protocol::kinds::{
    ApprovalAsked, ApprovalDecided, Level, ModelChanged, OptionState, OptionsChanged, SessionStarted,
    ToolKind, UnrecognizedReason,
};
use bowline_protocol::{
    ApprovalCategory, ApprovalId, ApprovalOption, Decider, Decision, EnforcedBy, Excerpt, Json, Kind,
    NativeSessionId, OptionEffect, Risk, ToolId,
};
use serde_json::Value;

use super::wire::QwenLine;
use crate::dialect::Output;
use crate::dialects::{content, tools};

/// Open requests between us and the program.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Our requests: the request's id, its subtype, and the value that it sets.
    asked: Vec<(String, String, Option<String>)>,
    /// Approvals without a decision.
    undecided: Vec<String>,
    /// Whether we asked it to stop, in this turn.
    interrupted: bool,
}

/// How many open requests are remembered.
const MOST_OPEN: usize = 256;

impl Control {
    /// Returns whether the turn that ends was interrupted by us, and forgets it.
    pub(super) fn take_interrupted(&mut self) -> bool {
        std::mem::take(&mut self.interrupted)
    }

    /// Handles a line that was sent to the program.
    pub(super) fn sent(&mut self, line: &QwenLine, out: &mut Output<'_>) {
        match line.type_name.as_str() {
            Some("control_request") => {
                let Some(id) = line.request_id.as_str() else { return };
                let text = |key: &str| line.request.get(key).and_then(Value::as_str);
                let subtype = text("subtype").unwrap_or_default();
                self.interrupted |= subtype == "interrupt";
                remember(
                    &mut self.asked,
                    (id.to_owned(), subtype.to_owned(), text("mode").or(text("model")).map(str::to_owned)),
                );
            }
            Some("control_response") => self.decided(&line.response, out),
            // The sender of a message to the agent already knows it.
            _ => {}
        }
    }

    /// Handles our answer to a request of the program.
    fn decided(&mut self, response: &Value, out: &mut Output<'_>) {
        let id = response.get("request_id").and_then(Value::as_str).unwrap_or_default();
        let Some(place) = self.undecided.iter().position(|open| open == id) else { return };
        self.undecided.remove(place);
        let answer = response.get("response").unwrap_or(&Value::Null);
        let behavior = answer.get("behavior").and_then(Value::as_str);
        let allowed =
            behavior == Some("allow") || answer.get("allowed").and_then(Value::as_bool) == Some(true);
        let reason = answer.get("message").or_else(|| answer.get("reason")).and_then(Value::as_str);
        let changed = answer.get("updatedInput").filter(|input| allowed && !input.is_null());
        out.emit(Kind::ApprovalDecided(ApprovalDecided {
            changed_input: changed.and_then(|input| Json::of(input).ok()),
            reason: reason.map(str::to_owned),
            ..decision(id, if allowed { Decision::Allow } else { Decision::Deny }, Decider::Host)
        }));
    }

    /// Handles a request of the program.
    pub(super) fn request(&mut self, raw: &str, line: &QwenLine, out: &mut Output<'_>) {
        let id = line.request_id.as_str().unwrap_or_default();
        let text = |key: &str| line.request.get(key).and_then(Value::as_str);
        match text("subtype") {
            Some("can_use_tool") => {
                remember(&mut self.undecided, id.to_owned());
                out.emit(Kind::ApprovalAsked(asked(id, &line.request)));
            }
            // The host's own hooks and MCP servers: between the program and the host that serves them.
            Some("hook_callback" | "mcp_message") => out.quiet(),
            other => out.unrecognized(UnrecognizedReason::UnknownType, raw, other),
        }
    }

    /// Retracts a request of the program.
    pub(super) fn cancel_request(&mut self, line: &QwenLine, out: &mut Output<'_>) {
        out.quiet();
        let withdrawn = match line.request_id.as_str() {
            Some(id) => self.undecided.extract_if(.., |open| open == id).collect(),
            // Without an id, the withdrawal is about all of them.
            None => std::mem::take(&mut self.undecided),
        };
        for id in withdrawn {
            out.emit(Kind::ApprovalDecided(decision(&id, Decision::Deny, Decider::Withdrawn)));
        }
    }

    /// Handles the program's answer to a request of ours.
    pub(super) fn response(&mut self, line: &QwenLine, out: &mut Output<'_>) {
        out.quiet();
        let id = line.response.get("request_id").and_then(Value::as_str).unwrap_or_default();
        let asked = self.asked.iter().position(|(open, ..)| open == id).map(|place| self.asked.remove(place));
        if let Some(error) = line.response.get("error").and_then(content::error) {
            return out.notice(Level::Warn, Excerpt::with_limit(&error, 4096).text);
        }
        let answer = line.response.get("response").unwrap_or(&Value::Null);
        let text = |key: &str| answer.get(key).and_then(Value::as_str);
        let (subtype, value) = asked.map_or((None, None), |(_, subtype, value)| (Some(subtype), value));
        // Without the request, the response itself may show it.
        match subtype.as_deref().or(text("subtype")) {
            Some("initialize") => {
                if let Some(session) = text("session_id") {
                    let native_session = Some(NativeSessionId::from(session));
                    out.emit(Kind::SessionStarted(SessionStarted {
                        native_session,
                        ..SessionStarted::default()
                    }));
                }
            }
            // The turn then ends with `error_during_execution`, like a failure (0.24.4): this flag makes it a cancellation.
            Some("interrupt") => self.interrupted = true,
            Some("set_model") => {
                if let Some(model) = text("model").map(str::to_owned).or(value) {
                    out.emit(Kind::ModelChanged(ModelChanged { model, reason: None }));
                }
            }
            Some("set_permission_mode") => mode_changed(text("mode").map(str::to_owned).or(value), out),
            None if text("status") == Some("updated") => mode_changed(text("mode").map(str::to_owned), out),
            // Responses to queries about the program (commands, context, servers): for the client that sent them.
            Some(_) | None => {}
        }
    }

    /// The output ended: no decision will come for the open approvals, so they are denied.
    pub(super) fn end(&mut self, out: &mut Output<'_>) {
        for id in std::mem::take(&mut self.undecided) {
            out.emit(Kind::ApprovalDecided(decision(&id, Decision::Deny, Decider::ClientLost)));
        }
    }
}

fn remember<T>(list: &mut Vec<T>, item: T) {
    if list.len() >= MOST_OPEN {
        list.remove(0);
    }
    list.push(item);
}

fn mode_changed(mode: Option<String>, out: &mut Output<'_>) {
    if mode.is_some() {
        let option = OptionState { id: "permission_mode".to_owned(), choices: Vec::new(), current: mode };
        out.emit(Kind::OptionsChanged(OptionsChanged { options: vec![option] }));
    }
}

fn decision(id: &str, decision: Decision, by: Decider) -> ApprovalDecided {
    ApprovalDecided {
        id: ApprovalId::from(id),
        decision,
        by,
        rule: None,
        reason: None,
        changed_input: None,
        enforced_by: EnforcedBy::Agent,
    }
}

fn asked(id: &str, request: &Value) -> ApprovalAsked {
    let text = |key: &str| request.get(key).and_then(Value::as_str);
    let name = text("tool_name").unwrap_or("tool");
    let (category, risk) = match tools::kind_of(name) {
        ToolKind::Execute => (ApprovalCategory::Shell, Risk::High),
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => (ApprovalCategory::Edit, Risk::Med),
        ToolKind::Read | ToolKind::Search | ToolKind::Think => (ApprovalCategory::Read, Risk::Low),
        ToolKind::Fetch => (ApprovalCategory::Network, Risk::Med),
        ToolKind::Agent | ToolKind::SwitchMode | ToolKind::Other => (ApprovalCategory::Other, Risk::Med),
    };
    let input = request.get("input").filter(|input| !input.is_null());
    let text_of_input = input.map(Value::to_string);
    let (carried, input_head) = tools::carried(text_of_input.as_deref());
    let detail = ["command", "file_path", "url", "path"].iter().find_map(|key| input?.get(*key)?.as_str());
    let path = ["file_path", "path"].iter().find_map(|key| input?.get(*key)?.as_str());
    let summary = detail.map_or_else(|| name.to_owned(), |detail| format!("{name}: {detail}"));
    ApprovalAsked {
        id: ApprovalId::from(id),
        category,
        risk,
        summary: Excerpt::with_limit(&summary, 500).text,
        tool: text("tool_use_id").map(ToolId::from),
        input: carried,
        input_head,
        paths: path.map(str::to_owned).into_iter().collect(),
        diff: None,
        options: options(request.get("permission_suggestions")),
        rule: text("blocked_path").map(|path| format!("blocked path {path}")),
        ruling: None,
        enforced_by: EnforcedBy::Agent,
        deadline: None,
    }
}

fn options(suggestions: Option<&Value>) -> Vec<ApprovalOption> {
    let suggestions = suggestions.and_then(Value::as_array).into_iter().flatten();
    let option = |suggestion: &Value| {
        let id = suggestion.get("type")?.as_str()?;
        let effect = match id {
            "allow" | "modify" => OptionEffect::AllowOnce,
            "deny" => OptionEffect::RejectOnce,
            _ => return None,
        };
        let label = suggestion.get("label").and_then(Value::as_str).unwrap_or(id);
        Some(ApprovalOption { id: id.to_owned(), label: label.to_owned(), effect })
    };
    suggestions.filter_map(option).collect()
}
