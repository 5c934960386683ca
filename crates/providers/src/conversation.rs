//! The content of a conversation that a protocol carries: the client's side of a two-way dialect.
//!
//! The first prompt, what the agent may do, and what has to be chosen first. Nothing of it is an argument of the program.

use std::collections::BTreeMap;

use bowline_protocol::kinds::Transport;
use bowline_protocol::{
    Attachment, Category, Code, Json, McpServer, PermissionMode, PromptId, Request, RequestField, Resume,
};

use crate::dialect::{Dialect, HostPrompt};
use crate::dialects;
use crate::failure::Report;
use crate::invocation::is_image;
use crate::manifest::run::{HostOffer, Run, RunFlag};

/// The first prompt of a process, and the options of its session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The user's first prompt, with everything around it.
    pub prompt: String,
    /// The working directory.
    pub cwd: String,
    /// The actions that the agent may do without an approval. The host decides requests by it.
    pub permission: PermissionMode,
    /// The model, unless it is the agent's own choice.
    pub model: Option<String>,
    /// How much it is to think.
    pub effort: Option<String>,
    /// An earlier session.
    pub resume: Option<Resume>,
    /// Further directories.
    pub add_dirs: Vec<String>,
    /// MCP servers.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Files that go with the first prompt.
    pub attachments: Vec<Attachment>,
    /// The contents of the images, by path. The agent reads the other files itself.
    pub images: BTreeMap<String, Vec<u8>>,
    /// The JSON Schema of the answer.
    pub schema: Option<Json>,
    /// Whether the session leaves no trace.
    pub ephemeral: bool,
    /// Whether the client offers to read and write files.
    pub host_files: HostOffer,
    /// Whether the client offers to run commands.
    pub host_terminals: HostOffer,
    /// Whether a policy judges what the agent does. Then the program has to announce its tools, where it can.
    pub gated: ToolGating,
    /// Whether the caller answers questions of the agent. Otherwise the client declines them at once.
    pub answers_questions: bool,
}

impl Conversation {
    /// Takes from a request what the protocol carries. Options that the program gets in another way are not among it.
    pub(crate) fn of(request: &Request, prompt: String, run: &Run) -> Self {
        let carries = |flag: RunFlag| run.flags.get(&flag).is_some_and(|how| how.protocol);
        // The files and programs of a container are not those of this machine.
        let here = |offer| if request.docker.is_none() { offer } else { HostOffer::Withheld };
        Self {
            prompt,
            cwd: request.cwd.clone().unwrap_or_default(),
            permission: request.permission,
            model: request.model.clone().filter(|model| model != "default" && carries(RunFlag::Model)),
            effort: request.effort.clone().filter(|_| carries(RunFlag::Effort)),
            resume: request.resume.clone(),
            add_dirs: if carries(RunFlag::AddDir) { request.add_dirs.clone() } else { Vec::new() },
            mcp_servers: request.mcp_servers.clone(),
            attachments: request.attachments.clone(),
            images: BTreeMap::new(),
            schema: request.output_schema.clone(),
            ephemeral: request.ephemeral,
            host_files: here(run.host_files),
            host_terminals: here(run.host_terminals),
            gated: ToolGating::Off,
            answers_questions: false,
        }
    }

    /// Returns the directories in which the agent works: the project, then those that the user added.
    pub fn directories(&self) -> Vec<String> {
        std::iter::once(&self.cwd).chain(&self.add_dirs).cloned().collect()
    }

    /// Returns the first prompt, under an id of the session.
    pub fn first_prompt(&self, id: PromptId) -> HostPrompt {
        let (attachments, images) = (self.attachments.clone(), self.images.clone());
        HostPrompt { id, text: self.prompt.clone(), attachments, images }
    }

    /// Returns the paths of the files whose bytes go with the prompt, for who can read them.
    pub fn wants(&self, dialect: &str) -> impl Iterator<Item = &str> {
        let bytes = protocol_client(dialect).is_some_and(|client| client.images == Images::Bytes);
        self.attachments.iter().filter(move |file| bytes && is_image(file)).map(|file| file.path.as_str())
    }

    /// Returns a path of the request as the agent has to know it: its own directory may be another one.
    pub(crate) fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') || self.cwd.is_empty() {
            path.to_owned()
        } else {
            format!("{}/{path}", self.cwd)
        }
    }

    /// Returns why a session is not the one that is meant. Nothing is sent to one that is not.
    pub(crate) fn not_meant(&self, got: &str) -> Option<Report> {
        let wrong = |message: String| Report {
            category: Some(Category::NotFound),
            code: Some(Code::SessionNotFound),
            ..Report::of(message)
        };
        match &self.resume {
            _ if got.is_empty() => Some(unsupported("the agent opened a session without an id")),
            Some(Resume::Id { native_session }) if native_session.as_str() != got => {
                Some(wrong(format!("session {native_session} was requested, but the agent opened {got}")))
            }
            Some(Resume::Fork { native_session }) if native_session.as_str() == got => Some(wrong(format!(
                "a fork of session {native_session} was requested, but the agent continued it"
            ))),
            Some(Resume::Id { .. } | Resume::Fork { .. } | Resume::Latest) | None => None,
        }
    }
}

/// Whether a policy judges what the agent does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolGating {
    /// No. The permission mode alone decides.
    #[default]
    Off,
    /// Yes.
    On,
}

/// The client of a dialect with a two-way protocol.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolClient {
    /// How we are connected to it.
    pub transport: Transport,
    /// Whether the agent needs its directory in a message. Otherwise it uses the one that it is started in.
    pub needs_cwd: bool,
    /// Whether the protocol has requests of the agent for files and terminals.
    pub(crate) asks_host: bool,
    /// Whether the program announces every tool under policies, before its own rules count. Of the others, policies judge only what they
    /// ask about.
    pub(crate) announces_tools: bool,
    /// How images go with a prompt.
    pub(crate) images: Images,
    /// Returns the first message, whatever the prompt is.
    pub(crate) first_message: fn(&Conversation) -> String,
    /// Makes the dialect of the client.
    pub(crate) dialect: fn(Conversation) -> Box<dyn Dialect>,
    /// Names an option that cannot be had with the others, and why.
    pub(crate) refuses: fn(&Conversation) -> Option<(RequestField, &'static str)>,
}

/// How images go with a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Images {
    /// The contents.
    Bytes,
    /// Where they are.
    Paths,
}

/// Returns the mode in which a program runs whose host decides by `permission`.
pub(crate) fn native_permission(
    permission: PermissionMode,
    gated: ToolGating,
    dialect: &str,
) -> PermissionMode {
    let announces = protocol_client(dialect).is_some_and(|client| client.announces_tools);
    match (gated, permission) {
        (ToolGating::On, PermissionMode::Edit | PermissionMode::Yolo) if !announces => PermissionMode::Ask,
        (ToolGating::On | ToolGating::Off, _) => permission,
    }
}

/// Returns the client of a dialect with a two-way protocol.
pub fn protocol_client(dialect: &str) -> Option<ProtocolClient> {
    dialects::by_name(dialect)?.client
}

/// Makes the report of what the agent cannot do.
pub(crate) fn unsupported(message: &str) -> Report {
    Report { category: Some(Category::Validation), code: Some(Code::Unsupported), ..Report::of(message) }
}
