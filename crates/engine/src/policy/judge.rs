//! The judge: applies the built-in rules and the lists of all policies to the acts of an action.
//!
//! Every rule that applies becomes a finding, and the strictest finding is the verdict. So more rules, more policies, or more
//! commands in a list never make a verdict weaker.

mod calls;
mod files;
mod tools;

use bowline_protocol::{ApprovalCategory, GatedAction, Risk};

use super::action::{PolicyAction, WorkspaceFacts};
use super::rules::{PolicyRules, RulePlace, gated_name};
use super::shell::{self, ActSink, CommandInput, Origin, ShellAct, ShellState, ShellWord, WorkingDirs};
use super::verdict::{Finding, Judgement, TextSpan, Verdict};

/// The most acts of one action. Loops and braces multiply them.
const MOST_ACTS: usize = 2000;

/// How deep commands may be wrapped in each other.
const DEEPEST: usize = 8;

/// Judges an action by all policies: the strictest answer wins. Without a policy, the built-in one holds.
pub fn judge(policies: &[PolicyRules], action: &PolicyAction<'_>, facts: &WorkspaceFacts) -> Judgement {
    let built_in;
    let policies = if policies.is_empty() {
        built_in = [PolicyRules::built_in()];
        &built_in
    } else {
        policies
    };
    let source = if let PolicyAction::Shell(text) = action { text } else { "" };
    let mut judge = ActJudge { policies, facts, source, findings: Vec::new(), acts: 0, depth: 0 };
    let category = judge.action(action);
    Judgement::of(judge.findings, category)
}

pub(super) struct ActJudge<'a> {
    pub(super) policies: &'a [PolicyRules],
    pub(super) facts: &'a WorkspaceFacts,
    /// The text of the command, if it is one: places are places in it.
    source: &'a str,
    findings: Vec<Finding>,
    acts: usize,
    depth: usize,
}

/// A finding of a built-in rule that is being made.
pub(super) struct BuiltInRule {
    pub(super) rule: &'static str,
    pub(super) risk: Risk,
    pub(super) category: ApprovalCategory,
}

impl BuiltInRule {
    pub(super) const fn high(rule: &'static str, category: ApprovalCategory) -> Self {
        Self { rule, risk: Risk::High, category }
    }

    pub(super) const fn medium(rule: &'static str, category: ApprovalCategory) -> Self {
        Self { rule, risk: Risk::Med, category }
    }
}

impl<'a> ActJudge<'a> {
    fn action(&mut self, action: &PolicyAction<'_>) -> ApprovalCategory {
        let dirs = WorkingDirs::at(&self.facts.cwd);
        match action {
            PolicyAction::Shell(text) => {
                let mut state = self.fresh_state(dirs);
                shell::walk(text, Origin::At(0), &mut state, CommandInput::Inherited, self, 0);
                ApprovalCategory::Shell
            }
            PolicyAction::Program(words) => {
                self.program(words, dirs);
                ApprovalCategory::Shell
            }
            PolicyAction::Tool { name, input } => self.tool(name, input),
            PolicyAction::Read(path) => {
                self.read_word(&ShellWord::known(path.to_string_lossy(), TextSpan::default()), &dirs, None);
                ApprovalCategory::Read
            }
            PolicyAction::Write(path) => {
                self.write_word(&ShellWord::known(path.to_string_lossy(), TextSpan::default()), &dirs, None);
                ApprovalCategory::Edit
            }
            PolicyAction::Network(host) => {
                self.host(host, None);
                ApprovalCategory::Network
            }
        }
    }

    pub(super) fn fresh_state(&self, dirs: WorkingDirs) -> ShellState {
        let home = self.facts.home.as_ref().and_then(|home| home.to_str()).map(str::to_owned);
        ShellState { dirs, home, ..ShellState::default() }
    }

    /// Walks a script inside a command.
    pub(super) fn nested(&mut self, text: &str, span: TextSpan, dirs: &WorkingDirs, input: CommandInput) {
        if self.depth >= DEEPEST {
            return self.ask(&TOO_DEEP, Some(span), "commands are wrapped too deep to be read");
        }
        self.depth += 1;
        let mut state = self.fresh_state(dirs.clone());
        // Text in plain quotes is a part of the command, so that places in it can be shown.
        let quoted = self.source.get(span.from..span.to).and_then(|part| part.find(text));
        let origin =
            quoted.filter(|_| !text.is_empty()).map_or(Origin::Inside(span), |at| Origin::At(span.from + at));
        let depth = self.depth;
        shell::walk(text, origin, &mut state, input, self, depth);
        self.depth -= 1;
    }

    /// Judges the words of a program that another one starts.
    pub(super) fn nested_words(&mut self, mut command: shell::ShellCommand) {
        if command.words.is_empty() {
            return;
        }
        if self.depth >= DEEPEST {
            return self.ask(&TOO_DEEP, Some(command.span), "commands are wrapped too deep to be read");
        }
        self.depth += 1;
        // They were judged with the program that starts this one.
        command.assigned.clear();
        self.act(ShellAct::Command(command));
        self.depth -= 1;
    }

    /// Adds a finding that asks, whatever the policies say.
    pub(super) fn ask(&mut self, rule: &BuiltInRule, part: Option<TextSpan>, reason: impl Into<String>) {
        self.built_in(Verdict::Ask, rule, part, reason.into());
    }

    /// Adds a finding that denies, whatever the policies say.
    pub(super) fn deny(&mut self, rule: &BuiltInRule, part: Option<TextSpan>, reason: impl Into<String>) {
        self.built_in(Verdict::Deny, rule, part, reason.into());
    }

    fn built_in(&mut self, verdict: Verdict, rule: &BuiltInRule, part: Option<TextSpan>, reason: String) {
        self.add(Finding {
            verdict,
            rule: rule.rule.to_owned(),
            place: None,
            risk: rule.risk,
            category: rule.category,
            own_category: None,
            part,
            reason,
        });
    }

    /// Adds a finding that asks, if a policy demands an approval for such actions.
    pub(super) fn gate(
        &mut self,
        action: GatedAction,
        rule: &BuiltInRule,
        part: Option<TextSpan>,
        reason: impl Into<String>,
    ) {
        let reason = reason.into();
        let demands: Vec<RulePlace> = self
            .policies
            .iter()
            .flat_map(|policy| &policy.approvals)
            .filter(|(gated, _)| *gated == action)
            .map(|(_, place)| place.clone())
            .collect();
        for place in demands {
            self.add(Finding {
                verdict: Verdict::Ask,
                rule: rule.rule.to_owned(),
                place: Some(place),
                risk: rule.risk,
                category: rule.category,
                own_category: None,
                part,
                reason: format!("{reason} (`{}` needs an approval)", gated_name(action)),
            });
        }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        // A loop is walked more than once.
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

const TOO_DEEP: BuiltInRule = BuiltInRule::high("unknown.size", ApprovalCategory::Shell);

impl ActSink for ActJudge<'_> {
    fn act(&mut self, act: ShellAct) {
        self.acts += 1;
        if self.acts > MOST_ACTS {
            return self.ask(&TOO_DEEP, None, format!("the command consists of more than {MOST_ACTS} acts"));
        }
        match act {
            ShellAct::Command(command) => self.command(&command),
            ShellAct::Write(word, dirs) => self.write_word(&word, &dirs, Some(word.span)),
            ShellAct::Read(word, dirs) => self.read_word(&word, &dirs, Some(word.span)),
            ShellAct::Unclear { rule, reason, span } => {
                self.ask(&BuiltInRule::high(rule, ApprovalCategory::Shell), Some(span), reason);
            }
        }
    }
}
