//! Paths and hosts: the workspace, secrets, settings of agents and of git, our own files, and the lists of policies.

use std::path::Path;

use bowline_protocol::{ApprovalCategory, GatedAction, NetworkMode, Risk};

use super::{ActJudge, BuiltInRule};
use crate::policy::paths;
use crate::policy::pattern;
use crate::policy::rules::PolicyRule;
use crate::policy::shell::{ShellWord, UNKNOWN, WorkingDirs};
use crate::policy::verdict::{Finding, TextSpan, Verdict};

const OUTSIDE: BuiltInRule = BuiltInRule::high("write.outside", ApprovalCategory::Edit);
const SETTINGS: BuiltInRule = BuiltInRule::high("write.settings", ApprovalCategory::Edit);
const OWN: BuiltInRule = BuiltInRule::high("own.files", ApprovalCategory::Edit);
const UNKNOWN_PATH: BuiltInRule = BuiltInRule::high("unknown.path", ApprovalCategory::Edit);
const UNLISTED_READ: BuiltInRule = BuiltInRule::medium("read.unlisted", ApprovalCategory::Read);
const UNLISTED_WRITE: BuiltInRule = BuiltInRule::medium("write.unlisted", ApprovalCategory::Edit);
const SECRETS: BuiltInRule = BuiltInRule::high("secrets.read", ApprovalCategory::Secrets);
const NETWORK: BuiltInRule = BuiltInRule::medium("network.host", ApprovalCategory::Network);

/// Devices that hold nothing.
const SAFE_DEVICES: [&str; 7] =
    ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/fd"];

/// Settings and hooks of git.
const GIT_SETTINGS: [&str; 5] = [".git", ".gitmodules", ".husky", ".githooks", ".gitconfig"];

impl ActJudge<'_> {
    /// Judges writing to a path.
    pub(in crate::policy) fn write_word(
        &mut self,
        word: &ShellWord,
        dirs: &WorkingDirs,
        part: Option<TextSpan>,
    ) {
        // One unknown part is enough: `out/$x` may be `out/../../.bashrc`.
        if word.text.contains(UNKNOWN) {
            return self.ask(
                &UNKNOWN_PATH,
                part,
                "the command writes to a path that is known only when it runs",
            );
        }
        if dirs.others && !word.text.starts_with('/') {
            self.ask(
                &UNKNOWN_PATH,
                part,
                "the command writes to a path in a directory that is known only when it runs",
            );
        }
        let at_root = [std::path::PathBuf::from("/")];
        let from = if word.text.starts_with('/') { &at_root[..] } else { &dirs.known };
        for dir in from {
            for path in paths::places(dir, &word.text, &self.facts.links) {
                self.write(&path, part);
            }
        }
    }

    fn write(&mut self, path: &Path, part: Option<TextSpan>) {
        if SAFE_DEVICES.iter().any(|device| path.starts_with(device)) {
            return;
        }
        let shown = path.display();
        // Removing a directory removes what is in it.
        if self.facts.own.iter().any(|own| path.starts_with(own) || own.starts_with(path)) {
            self.deny(&OWN, part, format!("{shown} holds Bowline's policy, settings, data or program"));
        }
        let names = GIT_SETTINGS.iter().copied().chain(self.facts.agent_settings.iter().map(String::as_str));
        if let Some(name) = names.into_iter().find(|name| paths::contains_parts(path, name)) {
            let reason =
                format!("{shown} belongs to the settings or hooks in `{name}`, which other programs run");
            self.ask(&SETTINGS, part, reason);
        }
        let inside = self.facts.is_inside(path) || self.facts.is_scratch(path);
        let policies = self.policies;
        for policy in policies {
            self.denied(&policy.write.deny, "write.deny", ApprovalCategory::Edit, path, part);
            if self.listed(&policy.write.allow, path) {
                continue;
            }
            if !policy.write.allow.is_empty() {
                let reason = format!("{shown} is not in the list of paths to write of {}", policy.source);
                self.ask(&UNLISTED_WRITE, part, reason);
            }
            if !inside {
                self.ask(&OUTSIDE, part, format!("{shown} lies outside of the workspace"));
            }
        }
    }

    /// Judges reading from a path.
    pub(in crate::policy) fn read_word(
        &mut self,
        word: &ShellWord,
        dirs: &WorkingDirs,
        part: Option<TextSpan>,
    ) {
        for path in self.paths_of(word, dirs) {
            self.secret(&path, part);
            let policies = self.policies;
            for policy in policies {
                self.denied(&policy.read.deny, "read.deny", ApprovalCategory::Read, &path, part);
                if !policy.read.allow.is_empty() && !self.listed(&policy.read.allow, &path) {
                    let shown = path.display();
                    let reason = format!("{shown} is not in the list of paths to read of {}", policy.source);
                    self.ask(&UNLISTED_READ, part, reason);
                }
            }
        }
        // Only a list of paths makes this matter. Otherwise each `cat "$file"` would ask.
        let limited = self.policies.iter().any(|policy| !policy.read.allow.is_empty());
        if limited && (word.text.contains(UNKNOWN) || dirs.others) {
            self.ask(&UNLISTED_READ, part, "the command reads from a path that is known only when it runs");
        }
    }

    /// Judges an argument that may name a file: secrets, and the lists of paths that are denied.
    pub(in crate::policy) fn mention(&mut self, word: &ShellWord, dirs: &WorkingDirs) {
        for path in self.paths_of(word, dirs) {
            self.secret(&path, Some(word.span));
            let policies = self.policies;
            for policy in policies {
                self.denied(&policy.read.deny, "read.deny", ApprovalCategory::Read, &path, Some(word.span));
            }
        }
    }

    /// Returns the paths that a word may name. Unknown parts stay in them as they are.
    pub(in crate::policy) fn paths_of(
        &self,
        word: &ShellWord,
        dirs: &WorkingDirs,
    ) -> Vec<std::path::PathBuf> {
        let text = word.text.replace(UNKNOWN, "?");
        let root = [std::path::PathBuf::from("/")];
        let from = if text.starts_with('/') || dirs.known.is_empty() { &root[..] } else { &dirs.known };
        from.iter().flat_map(|dir| paths::places(dir, &text, &self.facts.links)).collect()
    }

    fn secret(&mut self, path: &Path, part: Option<TextSpan>) {
        if paths::is_secret(path) {
            let reason = format!("{} likely holds secrets", path.display());
            self.gate(GatedAction::Secrets, &SECRETS, part, reason);
        }
    }

    fn listed(&self, list: &[PolicyRule], path: &Path) -> bool {
        let home = self.facts.home.as_deref();
        list.iter().any(|rule| pattern::path_matches(&rule.pattern, path, &self.facts.roots, home))
    }

    fn denied(
        &mut self,
        list: &[PolicyRule],
        id: &str,
        category: ApprovalCategory,
        path: &Path,
        part: Option<TextSpan>,
    ) {
        let home = self.facts.home.as_deref();
        for rule in list {
            if pattern::path_matches(&rule.pattern, path, &self.facts.roots, home) {
                let reason = format!("`{}` denies {}", rule.pattern, path.display());
                self.policy_rule(Verdict::Deny, id, rule, Risk::High, category, part, reason);
            }
        }
    }

    /// Adds a finding of an entry of a policy.
    #[expect(clippy::too_many_arguments, reason = "they are the fields of the finding")]
    pub(in crate::policy) fn policy_rule(
        &mut self,
        verdict: Verdict,
        id: &str,
        rule: &PolicyRule,
        risk: Risk,
        category: ApprovalCategory,
        part: Option<TextSpan>,
        reason: String,
    ) {
        self.add(Finding {
            verdict,
            rule: id.to_owned(),
            place: Some(rule.place.clone()),
            risk,
            category,
            own_category: None,
            part,
            reason,
        });
    }

    /// Judges the use of a host.
    pub(in crate::policy) fn host(&mut self, host: &str, part: Option<TextSpan>) {
        let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
        let loopback = host == "localhost" || host == "::1" || is_loopback(&host);
        if loopback {
            return;
        }
        let policies = self.policies;
        for policy in policies.iter().filter(|policy| policy.network == NetworkMode::Restricted) {
            if host.contains(UNKNOWN) || host.is_empty() {
                self.ask(&NETWORK, part, "the command uses a host that is known only when it runs");
            } else if !policy.hosts.iter().any(|rule| pattern::host_matches(&rule.pattern, &host)) {
                let reason = format!("`{host}` is not in the list of hosts of {}", policy.source);
                self.ask(&NETWORK, part, reason);
            }
        }
    }
}

/// Returns whether a host is an address of this machine. `127.0.0.1.example.org` is not one.
fn is_loopback(host: &str) -> bool {
    host.parse::<core::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}
