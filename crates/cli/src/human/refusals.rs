//! Denied calls of the agent, and the flag that would allow them.

use bowline_protocol::kinds::{ApprovalAsked, ApprovalDecided, ToolKind};
use bowline_protocol::{
    ApprovalCategory, ApprovalId, Decider, Decision, PermissionMode, PolicyVerdict, ToolId,
};

use super::calls::{OpenCalls, ToolCall};
use super::{Remedies, ask, words};

/// The maximum number of separate denials; the others are counted.
const KEPT: usize = 20;

/// The denied calls of a run.
#[derive(Debug)]
pub(super) struct Refusals {
    mode: PermissionMode,
    has: Remedies,
    asked: Vec<PendingApproval>,
    refused: Vec<DeniedCall>,
    left_out: u64,
    /// Whether the user stops the run: what is denied from then on is no refusal.
    stopping: bool,
}

#[derive(Debug)]
struct PendingApproval {
    id: ApprovalId,
    tool: Option<ToolId>,
    summary: String,
    category: ApprovalCategory,
    /// The judgement of the policies, unless they allow it.
    ruling: Option<String>,
}

#[derive(Debug)]
struct DeniedCall {
    /// The call, until its turn ends: other turns may use the same id.
    tool: Option<ToolId>,
    what: String,
    remedy: Remedy,
    times: u64,
}

/// The flag that would allow a denied call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Remedy {
    Edit,
    /// The same, for a command that runs in the program's sandbox.
    Sandbox,
    /// `--allow-tool` with a name that is safe in a shell.
    Tool(String),
    /// `--add-dir` with a path that is safe in a shell.
    AddDir(Option<String>),
    Yolo,
    /// A rule of a policy denied it: the reason and the rule.
    Policy(String),
    /// The person denied it, so that no flag is missing.
    Person,
    /// No decision came in time.
    Deadline,
    /// No flag helps: everything is allowed already.
    Nothing,
}

impl Refusals {
    pub(super) fn new(mode: PermissionMode, has: Remedies) -> Self {
        Self { mode, has, asked: Vec::new(), refused: Vec::new(), left_out: 0, stopping: false }
    }

    /// Records a request for approval.
    pub(super) fn asked(&mut self, asked: &ApprovalAsked) {
        self.asked.push(PendingApproval {
            id: asked.id.clone(),
            tool: asked.tool.clone(),
            summary: words::one_line(&asked.summary),
            category: asked.category,
            ruling: asked
                .ruling
                .as_ref()
                .filter(|it| it.verdict != PolicyVerdict::Allow)
                .map(|it| words::one_line(&ask::ruling_text(it))),
        });
    }

    /// Returns the call that waits for a decision.
    pub(super) fn waiting(&self) -> Option<&str> {
        self.asked.last().map(|asked| asked.summary.as_str())
    }

    /// Handles that the user stops the run.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Describes an action that waits for a decision.
    pub(super) fn asked_about(&self, id: &ApprovalId, calls: &OpenCalls) -> Option<String> {
        let asked = self.asked.iter().find(|asked| asked.id == *id)?;
        let call = asked.tool.as_ref().and_then(|tool| calls.find(tool));
        Some(call.map_or_else(|| asked.summary.clone(), ToolCall::label))
    }

    /// Records a decision.
    pub(super) fn decided(&mut self, decided: &ApprovalDecided, calls: &OpenCalls) {
        let place = self.asked.iter().position(|asked| asked.id == decided.id);
        let asked = place.map(|place| self.asked.remove(place));
        let refused = matches!(decided.decision, Decision::Deny | Decision::DenyAlways);
        if !refused || decided.by == Decider::Withdrawn || self.stopping {
            return;
        }
        let Some(asked) = asked else { return };
        let call = asked.tool.as_ref().and_then(|tool| calls.find(tool));
        let remedy = match (decided.by, call) {
            (Decider::Human, _) => Remedy::Person,
            (Decider::Timeout, _) => Remedy::Deadline,
            (Decider::Policy, _) if asked.ruling.is_some() => {
                Remedy::Policy(asked.ruling.unwrap_or_default())
            }
            (_, Some(call)) => self.remedy_of(call),
            (_, None) => self.remedy(kind_of(asked.category), ""),
        };
        let what = call.map_or_else(|| asked.summary.clone(), ToolCall::label);
        self.add(asked.tool, what, remedy);
    }

    /// Records a denied call. Its decision may have been recorded before.
    pub(super) fn denied(&mut self, id: &ToolId, call: Option<&ToolCall>) {
        if self.stopping || self.refused.iter().any(|refused| refused.tool.as_ref() == Some(id)) {
            return;
        }
        let (what, remedy) = match call {
            Some(call) => (call.label(), self.remedy_of(call)),
            None => ("a tool call".to_owned(), self.remedy(ToolKind::Other, "")),
        };
        self.add(Some(id.clone()), what, remedy);
    }

    /// Forgets the ids of calls, because other turns may use them again.
    pub(super) fn turn_ended(&mut self) {
        self.asked.clear();
        self.refused.iter_mut().for_each(|refused| refused.tool = None);
    }

    /// Returns a line for each remedy.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut remedies: Vec<&Remedy> = Vec::new();
        for refused in &self.refused {
            if !remedies.contains(&&refused.remedy) {
                remedies.push(&refused.remedy);
            }
        }
        let mut lines: Vec<String> = remedies.into_iter().map(|remedy| self.line(remedy)).collect();
        if self.left_out > 0 {
            lines.push(format!("refused: {} more", self.left_out));
        }
        lines
    }

    fn line(&self, remedy: &Remedy) -> String {
        let same: Vec<&DeniedCall> =
            self.refused.iter().filter(|refused| refused.remedy == *remedy).collect();
        let what = |refused: &&DeniedCall| match refused.times {
            1 => refused.what.clone(),
            times => format!("{} ({times} times)", refused.what),
        };
        let list = same.iter().map(what).collect::<Vec<_>>().join(", ");
        let them = if same.len() == 1 { "it" } else { "them" };
        match remedy {
            Remedy::Edit => format!("refused: {list}; --permission edit would allow {them}"),
            Remedy::Sandbox => {
                let modes = "--permission edit would allow";
                format!("refused: {list}; {modes} {them} in a sandbox, --permission yolo without one")
            }
            Remedy::Tool(name) => {
                format!("refused: {list}; --allow-tool {name} or --permission yolo would allow {them}")
            }
            Remedy::AddDir(dir) => {
                let dir = dir.as_deref().unwrap_or("with the directory");
                format!("refused: {list}; --add-dir {dir} would allow {them}")
            }
            Remedy::Yolo => format!("refused: {list}; --permission yolo would allow {them}"),
            Remedy::Policy(why) => format!("denied by the policy: {list}; {why}"),
            Remedy::Person => format!("denied by you: {list}"),
            Remedy::Deadline => format!("denied at the deadline: {list}"),
            Remedy::Nothing => format!("refused: {list}"),
        }
    }

    fn add(&mut self, tool: Option<ToolId>, what: String, remedy: Remedy) {
        let same = |refused: &&mut DeniedCall| refused.what == what && refused.remedy == remedy;
        if let Some(refused) = self.refused.iter_mut().find(same) {
            refused.times += 1;
            refused.tool = tool;
        } else if self.refused.len() < KEPT {
            self.refused.push(DeniedCall { tool, what, remedy, times: 1 });
        } else {
            self.left_out += 1;
        }
    }

    fn remedy_of(&self, call: &ToolCall) -> Remedy {
        match call.outside() {
            Some(dir) if self.has.by_dir && call.kind == ToolKind::Read => {
                let fit = dir.filter(|dir| is_plain_path(dir)).map(str::to_owned);
                Remedy::AddDir(fit)
            }
            _ => self.remedy(call.kind, call.tool()),
        }
    }

    fn remedy(&self, kind: ToolKind, tool: &str) -> Remedy {
        // The agent's option may name the tool differently.
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other sorts have no name but the agent's")]
        let named = match kind {
            ToolKind::Execute => self.has.names.execute.as_deref(),
            ToolKind::Fetch => self.has.names.fetch.as_deref(),
            _ => None,
        };
        let name = named.unwrap_or(tool);
        // The request has this flag already, and it did not help.
        let is_new = !self.has.allowed.iter().any(|allowed| allowed == name);
        let by_name = match self.has.by_name && is_plain(name) && is_new {
            true => Remedy::Tool(name.to_owned()),
            false => Remedy::Yolo,
        };
        match (kind, self.mode) {
            (_, PermissionMode::Yolo) => Remedy::Nothing,
            (
                ToolKind::Edit | ToolKind::Delete | ToolKind::Move,
                PermissionMode::Read | PermissionMode::Ask,
            ) => Remedy::Edit,
            (ToolKind::Execute, PermissionMode::Read | PermissionMode::Ask) if self.has.in_sandbox => {
                Remedy::Sandbox
            }
            (
                ToolKind::Edit
                | ToolKind::Delete
                | ToolKind::Move
                | ToolKind::Read
                | ToolKind::Search
                | ToolKind::Execute
                | ToolKind::Think
                | ToolKind::Fetch
                | ToolKind::Agent
                | ToolKind::SwitchMode
                | ToolKind::Other,
                PermissionMode::Read | PermissionMode::Ask | PermissionMode::Edit,
            ) => by_name,
        }
    }
}

/// Returns whether a tool's name is safe in a shell. It comes from the agent, and people paste printed commands.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':');
    !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| plain(c) || c == '-')
        && !name.starts_with('-')
}

/// Returns whether a path is safe in a shell.
fn is_plain_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    path.starts_with('/') && path.len() <= 200 && path.chars().all(plain)
}

fn kind_of(category: ApprovalCategory) -> ToolKind {
    match category {
        ApprovalCategory::Edit => ToolKind::Edit,
        ApprovalCategory::Read => ToolKind::Read,
        ApprovalCategory::Shell => ToolKind::Execute,
        ApprovalCategory::Network => ToolKind::Fetch,
        ApprovalCategory::Merge
        | ApprovalCategory::DepsAdd
        | ApprovalCategory::Secrets
        | ApprovalCategory::Deploy
        | ApprovalCategory::Other => ToolKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use bowline_providers::manifest::run::AllowNames;

    use super::*;

    #[test]
    fn the_flag_that_would_allow_it_is_named() {
        for (mode, kind, tool, remedy) in [
            (PermissionMode::Ask, ToolKind::Edit, "Write", Remedy::Edit),
            (PermissionMode::Ask, ToolKind::Delete, "rm", Remedy::Edit),
            (PermissionMode::Edit, ToolKind::Edit, "Write", Remedy::Tool("Write".to_owned())),
            (PermissionMode::Ask, ToolKind::Execute, "Bash", Remedy::Tool("Bash".to_owned())),
            (PermissionMode::Ask, ToolKind::Execute, "x; rm -rf ~", Remedy::Yolo),
            (PermissionMode::Ask, ToolKind::Other, "--help", Remedy::Yolo),
            (PermissionMode::Yolo, ToolKind::Execute, "Bash", Remedy::Nothing),
        ] {
            assert_eq!(
                Refusals::new(mode, Remedies::USUAL).remedy(kind, tool),
                remedy,
                "{mode:?} {kind:?} {tool}"
            );
            let unnamed =
                Refusals::new(mode, Remedies { by_name: false, ..Remedies::USUAL }).remedy(kind, tool);
            assert!(!matches!(unnamed, Remedy::Tool(_)), "{mode:?} {kind:?} {tool}");
        }
    }

    #[test]
    fn a_tool_is_named_as_the_agents_own_option_names_it_unless_it_was_given() {
        let names = AllowNames { execute: Some("run_shell_command".to_owned()), fetch: None };
        let has = Remedies { names, allowed: vec!["web_search".to_owned()], ..Remedies::USUAL };
        let remedy = |kind, tool| Refusals::new(PermissionMode::Ask, has.clone()).remedy(kind, tool);
        let tool = |name: &str| Remedy::Tool(name.to_owned());
        assert_eq!(remedy(ToolKind::Execute, "Bash"), tool("run_shell_command"));
        assert_eq!(remedy(ToolKind::Execute, ""), tool("run_shell_command"));
        assert_eq!(remedy(ToolKind::Fetch, "web_fetch"), tool("web_fetch"));
        assert_eq!(remedy(ToolKind::Search, "web_search"), Remedy::Yolo);
        let has = Remedies { allowed: vec!["run_shell_command".to_owned()], ..has };
        assert_eq!(Refusals::new(PermissionMode::Ask, has).remedy(ToolKind::Execute, "Bash"), Remedy::Yolo);
    }

    #[test]
    fn a_look_outside_names_the_option_for_directories() {
        let line = |mode, has, kind: &str, path: &str| {
            let tool = serde_json::json!({"id": "c1", "name": "Look", "owner": "cli", "kind": kind, "input": {"path": path}});
            let mut calls = OpenCalls::default();
            let at = bowline_protocol::Timestamp::EPOCH;
            calls.started(&serde_json::from_value(tool).expect("a call"), at, Some("/w"));
            let mut refusals = Refusals::new(mode, has);
            refusals.denied(&ToolId::from("c1"), calls.find(&ToolId::from("c1")));
            refusals.lines().join("\n")
        };
        for mode in [PermissionMode::Ask, PermissionMode::Yolo] {
            let usual = |kind, path| line(mode, Remedies::USUAL, kind, path);
            assert_eq!(usual("read", "/etc/a"), "refused: Look /etc/a; --add-dir /etc would allow it");
            // Never suggest the root directory, or a path that a shell would interpret.
            for path in ["/nope", "/x y/a", "/$(id)/a", "../a"] {
                let expected = format!("refused: Look {path}; --add-dir with the directory would allow it");
                assert_eq!(usual("read", path), expected);
            }
            assert!(!usual("read", "/w/a").contains("--add-dir"), "{}", usual("read", "/w/a"));
            assert!(!usual("edit", "/etc/a").contains("--add-dir"), "{}", usual("edit", "/etc/a"));
            let without = line(mode, Remedies { by_dir: false, ..Remedies::USUAL }, "read", "/etc/a");
            assert!(!without.contains("--add-dir"), "{without}");
        }
    }

    #[test]
    fn the_same_refusal_is_told_once() {
        let mut refusals = Refusals::new(PermissionMode::Ask, Remedies::USUAL);
        let id = ToolId::from("c1");
        refusals.denied(&id, None);
        refusals.denied(&id, None);
        assert_eq!(refusals.lines(), ["refused: a tool call; --permission yolo would allow it"]);
        refusals.turn_ended();
        refusals.denied(&id, None);
        assert_eq!(refusals.lines(), ["refused: a tool call (2 times); --permission yolo would allow it"]);
    }
}
