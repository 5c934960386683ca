//! The command of a run before anything is started, for people and programs.

use std::collections::BTreeMap;

use bowline_protocol::Resume;
use serde::Serialize;

use super::{Arg, Invocation, StdinPlan, StdioKind};
use crate::conversation::Conversation;

/// The placeholder of a secret.
const MASK: &str = "***";

/// An invocation as it is shown: side files by `{file:NAME}`, secrets masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The variables that are set.
    pub env: BTreeMap<String, String>,
    /// The variables that are taken from the host, by name or beginning.
    pub env_keep: Vec<String>,
    /// The variables that are never taken from the host.
    pub env_removed: Vec<String>,
    /// Its standard input, if any.
    pub stdin: Option<String>,
    /// The names of the values that a protocol carries over standard input: the prompt, and the choices before it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub protocol: BTreeMap<&'static str, String>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// How we would be connected to it.
    pub transport: StdioKind,
    /// The files that would be written first.
    pub files: BTreeMap<String, String>,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// Lists what a protocol carries of a request.
fn carried(talk: &Conversation) -> Vec<(&'static str, String)> {
    let resume = talk.resume.as_ref().map(|resume| match resume {
        Resume::Id { native_session } => native_session.as_str().to_owned(),
        Resume::Fork { native_session } => format!("a branch of {}", native_session.as_str()),
        Resume::Latest => "the latest session".to_owned(),
    });
    let list = |items: Vec<&str>| (!items.is_empty()).then(|| items.join(" "));
    let all = [
        ("prompt", Some(talk.prompt.clone())),
        ("permission", Some(talk.permission.as_str().to_owned())),
        ("model", talk.model.clone()),
        ("effort", talk.effort.clone()),
        ("resume", resume),
        ("add_dirs", list(talk.add_dirs.iter().map(String::as_str).collect())),
        ("mcp_servers", list(talk.mcp_servers.keys().map(String::as_str).collect())),
        ("attachments", list(talk.attachments.iter().map(|file| file.path.as_str()).collect())),
        ("schema", talk.schema.as_ref().map(|schema| schema.as_str().to_owned())),
        ("ephemeral", talk.ephemeral.then(|| "true".to_owned())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

impl Invocation {
    /// Returns the command that would be started.
    pub fn preview(&self) -> Preview {
        let masked = |text: &str| {
            self.secret_values
                .iter()
                .fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), MASK))
        };
        let path = |name: &str| format!("{{file:{name}}}");
        let mut env: BTreeMap<String, String> = self
            .env
            .iter()
            .map(|(name, value)| {
                (name.clone(), if self.is_secret(name) { MASK.to_owned() } else { masked(value) })
            })
            .collect();
        env.extend(self.env_files.iter().map(|(name, file)| (name.clone(), path(file))));
        let degraded = self
            .degraded
            .iter()
            .map(|it| format!("without {}: {} ({})", it.capability, it.instead, it.reason));
        Preview {
            program: self.program.clone(),
            args: self.args.iter().map(|arg: &Arg| masked(&arg.text(path))).collect(),
            env,
            env_keep: self.env_keep.clone(),
            env_removed: self.env_removed.clone(),
            stdin: match &self.stdin {
                StdinPlan::Null => None,
                StdinPlan::Prompt(text) | StdinPlan::Protocol(text) => Some(masked(text)),
            },
            protocol: self
                .conversation
                .iter()
                .flat_map(|talk| carried(talk))
                .map(|(name, value)| (name, masked(&value)))
                .collect(),
            cwd: self.cwd.clone(),
            transport: self.transport,
            files: self.files.iter().map(|file| (file.name.clone(), masked(&file.content))).collect(),
            notices: self.notices.iter().map(|notice| notice.text.clone()).chain(degraded).collect(),
        }
    }
}
