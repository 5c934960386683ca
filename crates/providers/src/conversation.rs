//! What a program is asked when a protocol carries it: the other side of a two-way dialect.
//!
//! One prompt, what it may do meanwhile, and what has to be chosen first. Nothing of it is an argument of the program.

use std::collections::BTreeMap;

use bowline_protocol::{Attachment, McpServer, PermissionMode, Request, Resume};

use crate::dialect::Dialect;
use crate::invocation::is_image;
use crate::{acp, dialects};

/// One prompt and the wishes that go with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// What the user says, with all that stands around it.
    pub prompt: String,
    /// The working directory.
    pub cwd: String,
    /// What the agent may do without being asked. Nobody can be asked.
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
    /// Files that go with the prompt.
    pub attachments: Vec<Attachment>,
    /// What is in those that are images, by their paths. The agent looks for the others itself.
    pub images: BTreeMap<String, Vec<u8>>,
}

impl Conversation {
    /// Takes from a request what a protocol carries.
    pub(crate) fn of(request: &Request, prompt: String) -> Self {
        Self {
            prompt,
            cwd: request.cwd.clone().unwrap_or_default(),
            permission: request.permission,
            model: request.model.clone().filter(|model| model != "default"),
            effort: request.effort.clone(),
            resume: request.resume.clone(),
            add_dirs: request.add_dirs.clone(),
            mcp_servers: request.mcp_servers.clone(),
            attachments: request.attachments.clone(),
            images: BTreeMap::new(),
        }
    }

    /// Returns the paths of the files whose bytes go with the prompt, for who can read them.
    pub fn wants(&self) -> impl Iterator<Item = &str> {
        self.attachments.iter().filter(|file| is_image(file)).map(|file| file.path.as_str())
    }

    /// Makes the one who talks, in a dialect in which somebody has to.
    pub fn speaker(&self, dialect: &dialects::Entry) -> Option<Box<dyn Dialect>> {
        (dialect.name == acp::NAME).then(|| Box::new(acp::Speaker::new(self.clone())) as Box<dyn Dialect>)
    }

    /// Returns the first words, for people who want to see them before anything is started.
    pub(crate) fn first_words(dialect: &str) -> Option<String> {
        (dialect == acp::NAME).then(acp::Speaker::first_words)
    }
}
