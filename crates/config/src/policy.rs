//! Files with policies, in the form of the provider adapters specification (JSON), or the same keys in YAML.
//!
//! The user's policy lies beside the settings, a project's in `.bowline/`. All of them hold together, and the strictest answer wins.
//! The permission mode still decides about actions that only a project's policy allows: the file may have come with a repository.
//!
//! Not here: the judgement, which is the engine's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline::policy::{PolicyReach, PolicySet, PolicySource};
use bowline::settings::ConfigError;
use bowline_engine::policy::{CategoryRules, PatternError, PolicyRule, PolicyRules, RulePlace, pattern};
use bowline_protocol::{GatedAction, NetworkMode, TurnLimits};

use super::place::Places;
use super::source::ConfigSource;
use super::yaml::{Node, YamlReader};

/// Reads a policy. Every entry keeps its place.
///
/// ```no_run
/// let rules = bowline_config::read_policy("policy.json".as_ref())?;
/// println!("{} commands are denied", rules.shell.deny.len());
/// # Ok::<(), bowline::settings::ConfigError>(())
/// ```
pub fn read_policy(path: &Path) -> Result<PolicyRules, ConfigError> {
    of_source(&ConfigSource::read(path)?, &path.display().to_string())
}

/// Returns the policies of these files, as a task takes them: they are read again for each judgement. The files have to be readable
/// now.
pub fn policy_files(files: &[PathBuf]) -> Result<Option<PolicySource>, ConfigError> {
    sources(files, PolicyReach::Grants)
}

/// Returns the policies of the user and of the project.
pub(crate) fn found_policies(places: &Places) -> Result<Option<PolicySource>, ConfigError> {
    let own: Vec<PathBuf> = places.user_policy().into_iter().collect();
    let project: Vec<PathBuf> = places.project_policy().into_iter().collect();
    let both = [sources(&own, PolicyReach::Grants)?, sources(&project, PolicyReach::Narrows)?];
    Ok(both.into_iter().flatten().reduce(PolicySource::and))
}

fn sources(files: &[PathBuf], reach: PolicyReach) -> Result<Option<PolicySource>, ConfigError> {
    if files.is_empty() {
        return Ok(None);
    }
    // A run may have another working directory than this process. Rules name their file as the caller does.
    let named = |file: &PathBuf| {
        (std::path::absolute(file).unwrap_or_else(|_| file.clone()), file.display().to_string())
    };
    let named: Vec<(PathBuf, String)> = files.iter().map(named).collect();
    read_all(&named)?;
    let files = named.iter().map(|(path, _)| path.clone()).collect();
    Ok(Some(PolicySource::reading(files, move || {
        let rules = read_all(&named).map_err(|error| error.to_string())?;
        Ok(PolicySet { rules: rules.into(), reach })
    })))
}

/// Reads policies, each from its path, with the name of its file.
fn read_all(files: &[(PathBuf, String)]) -> Result<Vec<PolicyRules>, ConfigError> {
    files.iter().map(|(path, name)| of_source(&ConfigSource::read(path)?, name)).collect()
}

fn of_source(source: &ConfigSource, name: &str) -> Result<PolicyRules, ConfigError> {
    let reader = YamlReader { source, variable: &|_| None };
    let policy = PolicyReader { reader, source: name.into() };
    let mut rules = PolicyRules::empty(&policy.source);
    let Some(root) = policy.reader.tree()? else {
        return Err(source.wrong(1, 1, "the file is empty").expected("a policy; `{}` is one without rules"));
    };
    policy.read(&root, &mut rules)?;
    Ok(rules)
}

struct PolicyReader<'a> {
    reader: YamlReader<'a>,
    source: Arc<str>,
}

/// A check of a pattern.
type PatternCheck = fn(&str) -> Result<(), PatternError>;

impl PolicyReader<'_> {
    fn read(&self, root: &Node, rules: &mut PolicyRules) -> Result<(), ConfigError> {
        let mut fields = self.reader.fields(root, "a map such as `{\"shellDenylist\": [\"rm\"]}`")?;
        let mut list = |name, check: PatternCheck| match fields.take(name) {
            Some(node) => self.rules(node, check),
            None => Ok(Vec::new()),
        };
        rules.shell.allow = list("shellAllowlist", pattern::check_command)?;
        rules.shell.deny = list("shellDenylist", pattern::check_command)?;
        rules.read.allow = list("readAllowlist", pattern::check_path)?;
        rules.read.deny = list("readDenylist", pattern::check_path)?;
        rules.write.allow = list("writeAllowlist", pattern::check_path)?;
        rules.write.deny = list("writeDenylist", pattern::check_path)?;
        rules.tools.allow = list("toolAllowlist", pattern::check_text)?;
        rules.tools.deny = list("toolDenylist", pattern::check_text)?;
        rules.hosts = list("networkHosts", pattern::check_host)?;
        let branches = list("protectedBranches", pattern::check_text)?;
        if !branches.is_empty() {
            rules.branches = branches;
        }
        if let Some(node) = fields.take("networkMode") {
            let modes = [("restricted", NetworkMode::Restricted), ("open", NetworkMode::Open)];
            rules.network = self.reader.choice(node, &modes)?;
        }
        if let Some(node) = fields.take("requiresApprovalFor") {
            let actions = [
                ("merge", GatedAction::Merge),
                ("deps-add", GatedAction::DepsAdd),
                ("secrets", GatedAction::Secrets),
                ("deploy", GatedAction::Deploy),
            ];
            for item in self.reader.list(node, "a list of actions")? {
                rules.approvals.push((self.reader.choice(item, &actions)?, self.place(item)));
            }
        }
        if let Some(node) = fields.take("ownCategories") {
            for item in self.reader.list(node, "a list of categories")? {
                rules.categories.push(self.category(item)?);
            }
        }
        if let Some(node) = fields.take("turnLimits") {
            rules.limits = self.limits(node)?;
        }
        self.reader.finish(&fields, "a policy")
    }

    fn place(&self, node: &Node) -> RulePlace {
        RulePlace { source: self.source.clone(), at: Some((node.line(), node.column())) }
    }

    fn rules(&self, node: &Node, check: PatternCheck) -> Result<Vec<PolicyRule>, ConfigError> {
        let rule = |item: &Node| {
            let pattern = self.reader.text(item, "a pattern")?;
            check(&pattern)
                .map_err(|why| self.reader.of(item, format!("`{pattern}` is no pattern: {why}")))?;
            Ok(PolicyRule { pattern, place: self.place(item) })
        };
        self.reader.list(node, "a list of patterns")?.iter().map(rule).collect()
    }

    fn category(&self, node: &Node) -> Result<CategoryRules, ConfigError> {
        let mut fields = self.reader.fields(node, "a map with `name`, `shell` and `tools`")?;
        let Some(name) = fields.take("name") else {
            return Err(self.reader.of(node, "the category has no `name`").expected("`name: database`"));
        };
        let name = self.reader.word(name, "a name")?;
        let mut list = |key, check: PatternCheck| match fields.take(key) {
            Some(node) => self.rules(node, check),
            None => Ok(Vec::new()),
        };
        let (shell, tools) = (list("shell", pattern::check_command)?, list("tools", pattern::check_text)?);
        self.reader.finish(&fields, "a category")?;
        if shell.is_empty() && tools.is_empty() {
            return Err(self.reader.of(node, format!("the category `{name}` has no patterns")));
        }
        Ok(CategoryRules { name, shell, tools })
    }

    fn limits(&self, node: &Node) -> Result<TurnLimits, ConfigError> {
        let mut fields = self.reader.fields(node, "a map with `files`, `lines` and `deletions`")?;
        let mut number =
            |key| fields.take(key).map(|node| self.reader.number(node, "a whole number")).transpose();
        let limits =
            TurnLimits { files: number("files")?, lines: number("lines")?, deletions: number("deletions")? };
        self.reader.finish(&fields, "`turnLimits`")?;
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PolicyRules, String> {
        let source = ConfigSource { path: "policy.json".into(), text: text.to_owned() };
        of_source(&source, "policy.json")
            .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn the_json_of_the_specification_is_read_with_its_places() {
        let text = "{\n\t\"shellAllowlist\": [\"git\"],\n  \"shellDenylist\": [\"rm\",\n    \"curl *\"],\n\"requiresApprovalFor\":[\"merge\",\"deps_add\",\"secrets\",\"deploy\"],\"networkMode\":\"open\"}";
        let rules = read(text).expect("a policy");
        assert_eq!(rules.shell.deny[1].pattern, "curl *");
        assert_eq!(rules.shell.deny[1].place.to_string(), "policy.json:4:5");
        assert_eq!(rules.approvals.iter().map(|it| it.0).collect::<Vec<_>>(), bowline_engine::policy::GATED);
        assert_eq!(rules.network, NetworkMode::Open);
    }

    #[test]
    fn every_key_is_read() {
        let text = "readDenylist: [private]\nwriteAllowlist: ['src/**']\ntoolDenylist: ['mcp__*']\nnetworkHosts: [crates.io]\n\
            protectedBranches: [stable]\nownCategories:\n  - name: database\n    shell: [psql]\nturnLimits: {files: 20, lines: 500}\n";
        let rules = read(text).expect("a policy");
        assert_eq!((rules.read.deny.len(), rules.write.allow.len(), rules.tools.deny.len()), (1, 1, 1));
        assert_eq!(
            (rules.hosts[0].pattern.as_str(), rules.branches[0].pattern.as_str()),
            ("crates.io", "stable")
        );
        assert_eq!(
            (rules.categories[0].name.as_str(), rules.categories[0].shell[0].place.at),
            ("database", Some((8, 13)))
        );
        assert_eq!(rules.limits, TurnLimits { files: Some(20), lines: Some(500), deletions: None });
    }

    #[test]
    fn a_mistake_has_its_place() {
        for (text, expected) in [
            ("{\"shelAllowlist\": []}", "policy.json:1:2: `shelAllowlist` is not known in a policy"),
            ("shellDenylist: rm", "policy.json:1:16: `rm` stands where a list of patterns is expected"),
            (
                "shellDenylist:\n  - 'rm; ls'",
                "policy.json:2:5: `rm; ls` is no pattern: a pattern of commands has words and `*`; it cannot contain operators, quotes, variables or line breaks",
            ),
            ("shellAllowlist: ['']", "policy.json:1:18: `` is no pattern: a pattern cannot be empty"),
            (
                "networkMode: closed",
                "policy.json:1:14: `closed` stands where one of `restricted`, `open` is expected",
            ),
            (
                "requiresApprovalFor: [push]",
                "policy.json:1:23: `push` stands where one of `merge`, `deps-add`, `secrets`, `deploy` is expected",
            ),
            ("turnLimits: {files: many}", "policy.json:1:21: `many` stands where a whole number is expected"),
            ("ownCategories: [{shell: [x]}]", "policy.json:1:17: the category has no `name`"),
            ("", "policy.json:1:1: the file is empty"),
        ] {
            assert_eq!(read(text).expect_err(text), expected);
        }
    }
}
