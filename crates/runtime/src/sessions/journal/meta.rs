//! `session.json`: the description of a session. Replaced as a whole, never changed in place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bowline_engine::SessionOptions;
use bowline_protocol::kinds::SessionState;
use bowline_protocol::{
    Capabilities, McpServer, Millis, NativeSessionId, PermissionMode, SessionId, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::append::create_private;
use super::{JournalError, META_FILE, lock};
use crate::system::clock::BootMoment;

/// The version of the session directory that this crate writes.
///
/// Format 2: a journal may have several stints, one after the other.
pub const META_FORMAT: u32 = 2;

/// The description of a session: the content of `session.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionMeta {
    /// The version of the directory's format: [`META_FORMAT`].
    pub format: u32,
    /// The session.
    pub id: SessionId,
    /// The provider.
    pub provider: String,
    /// Its name in the router's file, if it was chosen from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The version of the provider's program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_version: Option<String>,
    /// The program's file, as it was when the session began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// The version of our adapter for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_version: Option<String>,
    /// The dialect that decodes the output of its first process. Each `process_spawned` event names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// Whether the provider's manifest declares that its spending is pretended: the ledger does not record it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pretends: bool,
    /// The capabilities of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Box<Capabilities>>,
    /// The working directory. Text: a path that is not UTF-8 has its strange bytes replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The name by which the agent's own store knows the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_session: Option<NativeSessionId>,
    /// The agent's id of the session that this one forks. Until the agent has reported an id for the fork, a resume forks it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<NativeSessionId>,
    /// The caller's key: sessions of one key are found and ended together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The profile: which account of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The caller's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The options of the request that a resume needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Box<ResumeOptions>>,
    /// The session that this one comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// The state at the last change of state.
    pub state: SessionState,
    /// The process that writes the journal. The lock shows whether it lives, not this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<Runner>,
    /// When the session was registered, by the clock on the wall.
    pub registered_at: Timestamp,
    /// When that was by a clock that no step of the time of day moves; absent in older sessions, and where the system has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_up: Option<BootMoment>,
    /// How long all of it may take, in milliseconds; absent where nothing limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<Millis>,
    /// The container that the agent runs in: it does not end with its runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The abort mark: a caller wants the session to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort: Option<Abort>,
}

impl SessionMeta {
    /// Describes a new session.
    pub fn new(id: SessionId, provider: impl Into<String>, registered_at: Timestamp) -> Self {
        Self {
            format: META_FORMAT,
            id,
            provider: provider.into(),
            entry: None,
            provider_version: None,
            program: None,
            adapter_version: None,
            dialect: None,
            pretends: false,
            capabilities: None,
            cwd: None,
            native_session: None,
            forked_from: None,
            key: None,
            profile: None,
            label: None,
            resume: None,
            parent: None,
            state: SessionState::Created,
            runner: Some(Runner::current()),
            registered_at,
            registered_up: None,
            limit_ms: None,
            container: None,
            abort: None,
        }
    }

    /// Notes the agent's id of the session, if it reported one. The id of the session that it was to fork is that of another session.
    pub(crate) fn note_native(&mut self, reported: Option<NativeSessionId>) {
        let own = reported.filter(|native| self.forked_from.as_ref() != Some(native));
        self.native_session = own.or(self.native_session.take());
    }

    /// Takes over the options that were changed while the session lived, for a later resume.
    pub(crate) fn changed_options(&mut self, changed: &SessionOptions) {
        if *changed == SessionOptions::default() {
            return;
        }
        let SessionOptions { model, effort, permission } = changed.clone();
        let resume = self.resume.get_or_insert_default();
        resume.model = model.or(resume.model.take());
        resume.effort = effort.or(resume.effort.take());
        resume.permission = permission.or(resume.permission);
    }

    /// Reads the description of a session's directory.
    pub fn read(dir: &Path) -> Result<Self, JournalError> {
        /// The version alone, because a newer version may have other fields.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let path = dir.join(META_FILE);
        let text = std::fs::read(&path).map_err(|error| JournalError::open(&path, dir, error))?;
        let damaged = |error: serde_json::Error| JournalError::Damaged {
            path: path.clone(),
            offset: 0,
            reason: "this does not describe a session".to_owned(),
            source: Some(error),
        };
        let found = serde_json::from_slice::<Version>(&text).map_err(damaged)?.format;
        if found > META_FORMAT {
            return Err(JournalError::NewerFormat { path, found, known: META_FORMAT });
        }
        serde_json::from_slice(&text).map_err(damaged)
    }
}

/// The options of a session that a resume takes over, unless its caller names others. Values of variables are never kept: they may be
/// secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResumeOptions {
    /// The permission mode, if the caller chose one. `yolo` has to be chosen anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<PermissionMode>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Further directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_dirs: Vec<String>,
    /// MCP servers, as far as they are kept.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, KeptServer>,
    /// The names of the caller's own tools: functions, which no file can keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_tools: Vec<String>,
    /// The names of the variables that the caller set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// The policies of the caller.
    #[serde(default, skip_serializing_if = "KeptPolicies::are_none")]
    pub policies: KeptPolicies,
}

/// The policies that the caller of a session put in force, besides those of the settings. A resume needs them again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptPolicies {
    /// None.
    #[default]
    None,
    /// Those of these files.
    Files(Vec<std::path::PathBuf>),
    /// One of the calling program, which no file has.
    OfCaller,
}

impl KeptPolicies {
    fn are_none(&self) -> bool {
        *self == Self::None
    }
}

/// An MCP server of a session, as far as it is on disk. Arguments, headers and most addresses are not: they may be secrets, and
/// nothing shows which of them are. Without `program` and `address`, a resume has to name the server again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptServer {
    /// The program of a server that has no arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The names of the variables that the program gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// The address of a server without headers, if it is a host and one of the usual paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

impl KeptServer {
    /// Returns the part of a server that may be on disk.
    pub(crate) fn of(server: &McpServer) -> Self {
        match server {
            McpServer::Stdio { command, args, env } => {
                let program = args.is_empty().then(|| command.clone());
                let variables = if program.is_some() { env.keys().cloned().collect() } else { Vec::new() };
                Self { program, variables, address: None }
            }
            McpServer::Http { url, headers } => {
                let address = Some(url.clone()).filter(|url| headers.is_empty() && is_plain(url));
                Self { address, ..Self::default() }
            }
        }
    }

    /// Returns the server again, with the values of its variables. `None` if a part of it is not known.
    pub(crate) fn server(&self, value: impl Fn(&str) -> Option<String>) -> Option<McpServer> {
        if let Some(url) = &self.address {
            return Some(McpServer::Http { url: url.clone(), headers: BTreeMap::new() });
        }
        let command = self.program.clone()?;
        let env: Option<_> = self.variables.iter().map(|name| Some((name.clone(), value(name)?))).collect();
        Some(McpServer::Stdio { command, args: Vec::new(), env: env? })
    }
}

/// Returns whether an address is a host and a usual path. Other paths may be secrets as well: some services issue addresses such as
/// `https://host/s/TOKEN/mcp`.
fn is_plain(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest.filter(|rest| !rest.contains(['@', '?', '#', '\\'])) else { return false };
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    matches!(path, "" | "/" | "/mcp" | "/mcp/" | "/sse")
}

/// The identity of a program's file, to detect that it was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Where it is, without symbolic links.
    pub path: String,
    /// Its size, in bytes.
    pub size: u64,
    /// When it was last changed.
    pub changed_at: Timestamp,
}

/// The identity of a process, to detect that its pid was reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    /// Its process id.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot; absent if the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// Whether it exists for this session alone, so that ending the session may end the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sole: bool,
}

impl Runner {
    /// Describes this process.
    pub fn current() -> Self {
        /// The start time of this process does not change; a forked copy has another pid.
        static OWN: OnceLock<(u32, Option<u64>)> = OnceLock::new();
        let pid = std::process::id();
        let (known, started_then) = *OWN.get_or_init(|| (pid, started("self")));
        Self { pid, started: if known == pid { started_then } else { started("self") }, sole: false }
    }

    /// Returns whether the process exists. A pid that now belongs to another process does not count.
    pub fn is_there(self) -> bool {
        match (started(&self.pid.to_string()), self.started) {
            (Some(now), Some(then)) => now == then,
            // A runner of a system that does not report start times: its pid alone has to do.
            (now, _) => now.is_some(),
        }
    }
}

/// Reads when a process started. The name of its program comes before, in parentheses, and may hold anything.
fn started(process: &str) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Field 22, `starttime` (proc_pid_stat(5)). The first field behind the name is number 3.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The mark of a caller that wants a session to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abort {
    /// When.
    pub at: Timestamp,
    /// The caller's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether a change has to survive a loss of power, or only the end of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    Disk,
    Process,
}

/// Changes a session's description, also that of another process: the change is made to what is on file now.
///
/// This is how an abort mark reaches a runner: setting it changes nothing else, and the runner's own changes keep it.
pub fn update_meta(dir: &Path, change: impl FnOnce(&mut SessionMeta)) -> Result<SessionMeta, JournalError> {
    // The directory is the lock for this: `lock` itself is held by the runner as long as it lives.
    // Lock order: the runner's lock on `events.jsonl`, which a repair and a writer hold here, then the directory.
    let guard = File::open(dir).map_err(|error| JournalError::open(dir, dir, error))?;
    guard.lock().map_err(|error| JournalError::io("lock", dir, error))?;
    let changed = SessionMeta::read(dir).and_then(|mut meta| {
        change(&mut meta);
        write(dir, &meta, Durability::Disk)?;
        Ok(meta)
    });
    lock::free(&guard);
    changed
}

/// Writes the description: a new file takes the place of the old one.
pub(super) fn write(dir: &Path, meta: &SessionMeta, durability: Durability) -> Result<(), JournalError> {
    let (path, new) = (dir.join(META_FILE), dir.join("session.json.new"));
    let mut text = serde_json::to_vec_pretty(meta).map_err(|error| JournalError::Io {
        doing: "describe the session in",
        path: path.clone(),
        source: error.into(),
    })?;
    text.push(b'\n');
    if let Err(error) = replace(&new, &text, durability, &path) {
        // The old description stays valid. Remove the partial new one, because the disk may be full.
        if let Err(left) = std::fs::remove_file(&new) {
            tracing::debug!(error = &left as &dyn std::error::Error, "half a description is left");
        }
        return Err(error);
    }
    // The rename itself is durable only when the directory is synced (fsync(2)).
    if durability == Durability::Disk {
        sync_dir(dir)?;
    }
    Ok(())
}

/// Replaces a file with one that has this text.
fn replace(new: &Path, text: &[u8], durability: Durability, path: &Path) -> Result<(), JournalError> {
    let mut file = create_private(new)?;
    file.write_all(text).map_err(|error| JournalError::io("write", new, error))?;
    // Before the rename: after a loss of power the name must not lead to an empty file.
    if durability == Durability::Disk {
        file.sync_all().map_err(|error| JournalError::io("sync", new, error))?;
    }
    std::fs::rename(new, path).map_err(|error| JournalError::io("replace", path, error))
}

/// Returns whether a session in this state is over.
pub(super) fn is_final(state: SessionState) -> bool {
    match state {
        SessionState::Completed | SessionState::Failed => true,
        SessionState::Created
        | SessionState::Preparing
        | SessionState::Starting
        | SessionState::Running
        | SessionState::Idle
        | SessionState::WaitingForApproval
        | SessionState::WaitingForInput
        | SessionState::PausedByHuman
        | SessionState::Stopping => false,
    }
}

/// Syncs a directory.
pub(super) fn sync_dir(dir: &Path) -> Result<(), JournalError> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| JournalError::io("sync", dir, error))
}

/// Returns the path of the description.
pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join(META_FILE)
}
