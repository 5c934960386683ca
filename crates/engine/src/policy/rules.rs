//! A policy as rules with their places.

use std::sync::Arc;

use bowline_protocol::{GatedAction, NetworkMode, PolicySpec, TurnLimits};

use super::pattern::{self, PatternError};

/// The place of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePlace {
    /// The file, or the name of a policy that is not in a file.
    pub source: Arc<str>,
    /// Line and column, counted from 1.
    pub at: Option<(usize, usize)>,
}

impl std::fmt::Display for RulePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}", self.source),
            None => f.write_str(&self.source),
        }
    }
}

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The pattern, as it is written.
    pub pattern: String,
    /// Its place.
    pub place: RulePlace,
}

/// The two lists of a sort of action. An empty list of allowed entries limits nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleLists {
    /// Entries that are allowed.
    pub allow: Vec<PolicyRule>,
    /// Entries that are denied.
    pub deny: Vec<PolicyRule>,
}

/// A category of the policy's author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CategoryRules {
    /// The name.
    pub name: String,
    /// Commands.
    pub shell: Vec<PolicyRule>,
    /// Tools.
    pub tools: Vec<PolicyRule>,
}

/// One policy: of a user, of a project, or the built-in one. The judge takes several, and the strictest answer wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRules {
    /// The file, or another name.
    pub source: Arc<str>,
    /// Commands.
    pub shell: RuleLists,
    /// Paths to read.
    pub read: RuleLists,
    /// Paths to write.
    pub write: RuleLists,
    /// Tools.
    pub tools: RuleLists,
    /// How much of the network may be used.
    pub network: NetworkMode,
    /// Hosts of a restricted network.
    pub hosts: Vec<PolicyRule>,
    /// Actions that need an approval, with the places at which the policy demands it.
    pub approvals: Vec<(GatedAction, RulePlace)>,
    /// Branches that a merge or a push needs an approval for.
    pub branches: Vec<PolicyRule>,
    /// Categories of the policy's author.
    pub categories: Vec<CategoryRules>,
    /// The most that a turn may change.
    pub limits: TurnLimits,
}

/// The branches that are protected if a policy names none.
const BRANCHES: [&str; 5] = ["main", "master", "trunk", "release*", "production"];

/// Every action that a policy can put behind an approval.
pub const GATED: [GatedAction; 4] =
    [GatedAction::Merge, GatedAction::DepsAdd, GatedAction::Secrets, GatedAction::Deploy];

/// Returns the name of an action that a policy can put behind an approval.
pub fn gated_name(action: GatedAction) -> &'static str {
    match action {
        GatedAction::Merge => "merge",
        GatedAction::DepsAdd => "deps_add",
        GatedAction::Secrets => "secrets",
        GatedAction::Deploy => "deploy",
    }
}

impl PolicyRules {
    /// Returns a policy without rules: a restricted network without hosts, the usual branches, no approvals.
    pub fn empty(source: &str) -> Self {
        let source: Arc<str> = source.into();
        let usual = |name: &&str| PolicyRule {
            pattern: (*name).to_owned(),
            place: RulePlace { source: source.clone(), at: None },
        };
        Self {
            branches: BRANCHES.iter().map(usual).collect(),
            source,
            shell: RuleLists::default(),
            read: RuleLists::default(),
            write: RuleLists::default(),
            tools: RuleLists::default(),
            network: NetworkMode::Restricted,
            hosts: Vec::new(),
            approvals: Vec::new(),
            categories: Vec::new(),
            limits: TurnLimits::default(),
        }
    }

    /// Returns the policy that holds if there is no other: it asks before all that needs an approval.
    pub fn built_in() -> Self {
        let mut rules = Self::empty("built-in policy");
        let place = RulePlace { source: rules.source.clone(), at: None };
        rules.approvals = GATED.iter().map(|action| (*action, place.clone())).collect();
        rules
    }

    /// Makes the rules of a policy that came with a request, and so has no lines.
    pub fn of_spec(source: &str, spec: &PolicySpec) -> Result<Self, PatternError> {
        let mut rules = Self::empty(source);
        let place = RulePlace { source: rules.source.clone(), at: None };
        let each = |list: &[String], check: fn(&str) -> Result<(), PatternError>| {
            let rule = |pattern: &String| {
                check(pattern).map(|()| PolicyRule { pattern: pattern.clone(), place: place.clone() })
            };
            list.iter().map(rule).collect::<Result<Vec<_>, _>>()
        };
        rules.shell.allow = each(&spec.shell_allowlist, pattern::check_command)?;
        rules.shell.deny = each(&spec.shell_denylist, pattern::check_command)?;
        rules.read.allow = each(&spec.read_allowlist, pattern::check_path)?;
        rules.read.deny = each(&spec.read_denylist, pattern::check_path)?;
        rules.write.allow = each(&spec.write_allowlist, pattern::check_path)?;
        rules.write.deny = each(&spec.write_denylist, pattern::check_path)?;
        rules.tools.allow = each(&spec.tool_allowlist, pattern::check_text)?;
        rules.tools.deny = each(&spec.tool_denylist, pattern::check_text)?;
        rules.hosts = each(&spec.network_hosts, pattern::check_host)?;
        if !spec.protected_branches.is_empty() {
            rules.branches = each(&spec.protected_branches, pattern::check_text)?;
        }
        for category in &spec.own_categories {
            rules.categories.push(CategoryRules {
                name: category.name.clone(),
                shell: each(&category.shell, pattern::check_command)?,
                tools: each(&category.tools, pattern::check_text)?,
            });
        }
        rules.network = spec.network_mode;
        rules.approvals = spec.requires_approval_for.iter().map(|it| (*it, place.clone())).collect();
        rules.limits = spec.turn_limits.unwrap_or_default();
        Ok(rules)
    }
}
