//! The environment of an agent: variables that it inherits, that are set, and that it never gets.
//!
//! An agent gets the variables of the lists below and of its manifest, and nothing else of the host's environment: no
//! cloud keys, no tokens of CI, no variables of the shell that happen to be there. Why these:
//!
//! - user and directories: `PATH`, `HOME`, the user, the shell, the locale, the time zone, temporary and XDG directories;
//! - the network: proxies and certificate authorities, in every spelling that the programs read;
//! - the login's keyring, where programs keep their own logins;
//! - git: the author, and how it connects. `SSH_AUTH_SOCK` is passed because an agent that may push pushes as its user.
//!   `GIT_DIR`, `GIT_INDEX_FILE` and `GIT_WORK_TREE` are not: inside a hook they would point at another repository;
//! - where toolchains live, so that a build inside the agent finds what a build beside it finds.
//!
//! On pipes `TERM=dumb NO_COLOR=1 CI=true` are set, as the adapter protocol requires; on a terminal, a terminal's. The
//! recordings were made without `CI`; none of the programs is known to use it for anything but quieter output.

use std::collections::BTreeMap;

use super::{Invocation, StdioKind};
use crate::catalogue;
use crate::manifest::Manifest;

/// Variables of the host that every agent gets.
pub const BASE: &[&str] = &[
    // User and directories.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_*",
    // The network.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    // The keyring.
    "DBUS_SESSION_BUS_ADDRESS",
    "SECURITYSESSIONID",
    // Git.
    "SSH_AUTH_SOCK",
    "GIT_AUTHOR_*",
    "GIT_COMMITTER_*",
    "GIT_CONFIG_GLOBAL",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    // Where toolchains live.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "NVM_BIN",
    "PNPM_HOME",
    "VOLTA_HOME",
    "BUN_INSTALL",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "UV_*",
    "ASDF_DIR",
    "MISE_DATA_DIR",
    "SDKMAN_DIR",
    "NIX_PATH",
    "NIX_PROFILES",
    "LD_LIBRARY_PATH",
    // Windows, where a program does not start without them.
    "SystemRoot",
    "SystemDrive",
    "windir",
    "ComSpec",
    "PATHEXT",
    "USERPROFILE",
    "USERNAME",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "ProgramData",
    "ProgramFiles",
    "ProgramFiles(x86)",
    "ProgramW6432",
];

/// Variables by which an agent knows that it runs inside another one, and those that would carry one agent's session,
/// permissions or sandbox into the next. No agent gets them, whatever its manifest keeps.
pub const NESTING: &[&str] = &catalogue::concat::<_, { catalogue::count(LISTS) }>(LISTS);

/// `AI_AGENT` is the name on which several programs agree. The others are in the entries of the providers.
const LISTS: &[&[&str]] = &[&["AI_AGENT"], catalogue::NESTING];

/// Variables that mark the processes of a session. Only Bowline sets them.
pub(super) const MARKS: &[&str] = &["BOWLINE_SESSION_ID", "BOWLINE_SPAWN"];

/// Suffixes of variables whose values are always secrets.
const SECRET_ENDINGS: &[&str] =
    &["_KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "_PASS", "_CREDENTIALS", "_ACCESS_KEY_ID"];

/// Returns what a run sets for the kind of its connection.
pub(super) fn of(transport: StdioKind) -> BTreeMap<String, String> {
    let pairs: &[(&str, &str)] = match transport {
        StdioKind::Pipe => &[("TERM", "dumb"), ("NO_COLOR", "1"), ("CI", "true")],
        StdioKind::Pty => &[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")],
    };
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Returns whether a name is on a list of names and beginnings (`PREFIX_*`).
pub fn listed(list: impl IntoIterator<Item = impl AsRef<str>>, name: &str) -> bool {
    list.into_iter().any(|entry| match entry.as_ref().strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => entry.as_ref() == name,
    })
}

/// Returns whether the value of a variable is a secret by its name alone.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Returns the environment for queries about a program's account: that of a run on pipes, without the variables of a
/// request.
pub fn of_questions(
    manifest: &Manifest,
    host: impl IntoIterator<Item = (String, String)>,
) -> BTreeMap<String, String> {
    let run = &manifest.run;
    let keeps = |name: &str| {
        (listed(BASE, name) || listed(&run.env_keep, name))
            // Removal wins over both lists: a manifest's pattern must not pass the marks of an outer agent.
            && !listed(NESTING, name)
            && !listed(&run.env_remove, name)
    };
    let mut all: BTreeMap<String, String> = host.into_iter().filter(|(name, _)| keeps(name)).collect();
    all.extend(of(StdioKind::Pipe));
    all.extend(run.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    all
}

impl Invocation {
    /// Returns the whole environment of the agent, given that of the host: what is kept, then what is set.
    ///
    /// Variables that carry the path of a side file ([`Self::env_files`]) are not among them.
    pub fn environment(&self, host: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> =
            host.into_iter().filter(|(name, _)| self.keeps(name)).collect();
        all.extend(self.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        all
    }

    /// Returns whether a variable of the host goes to the agent.
    pub fn keeps(&self, name: &str) -> bool {
        listed(&self.env_keep, name) && !listed(&self.env_removed, name)
    }

    /// Returns whether the value of a variable is to be masked wherever it is shown or stored.
    pub fn is_secret(&self, name: &str) -> bool {
        listed(&self.secrets_env, name) || looks_secret(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_names_and_beginnings() {
        assert!(listed(["A", "B_*"], "A"));
        assert!(listed(["A", "B_*"], "B_C"));
        assert!(!listed(["A", "B_*"], "AB"));
        assert!(!listed(["A", "B_*"], "B"));
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for name in
            ["ANTHROPIC_API_KEY", "GH_TOKEN", "db_password", "PGPASSWORD", "DB_PASS", "AWS_SECRET_ACCESS_KEY"]
        {
            assert!(looks_secret(name), "{name}");
        }
        for name in ["PATH", "SSH_AUTH_SOCK", "KEYBOARD", "TOKENIZERS_PARALLELISM"] {
            assert!(!looks_secret(name), "{name}");
        }
    }

    #[test]
    fn no_agent_inherits_another_agents_state_or_a_repository_of_a_hook() {
        for name in
            NESTING.iter().chain(&["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "AWS_SECRET_ACCESS_KEY"])
        {
            assert!(!listed(BASE, name), "{name}");
        }
    }
}
