//! Executable providers: programs that answer `generate`, `stream` and `health` by the CLI provider protocol.
//!
//! Such a program is described by a few words, [`Executable`], and becomes a manifest like any other: its prompt style
//! is `request`, its formats are the two commands. Nothing else knows that it is one.

use std::collections::BTreeMap;

use bowline_protocol::{Capabilities, Millis, PermissionMode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dialect::Shape;
use crate::manifest::run::{Flag, Permission, RunFlag, Watchdog};
use crate::manifest::{Chosen, Format, Manifest, ManifestError, time};

/// How long the answer to `health` may take.
pub const HEALTH: Millis = Millis(5_000);

/// The timeout of a request, unless the file sets another: the number of the executable providers' specification.
const USUAL_TIMEOUT: Millis = Millis(120_000);

/// The common part of all manifests of executable providers.
const BEGINNING: &str = "name = ''\nprogram = ''\nprompt = 'request'\nformats = {}\n";

/// An executable provider, as a configuration file describes it.
///
/// ```
/// # use bowline_providers::executable::Executable;
/// let provider = Executable::parse(
///     r#"
///     kind = "executable"
///     name = "llama"
///     path = "./ollama-provider"
///     model = "llama3.2:latest"
///     "#,
/// )?;
/// let manifest = provider.manifest()?;
/// assert_eq!(manifest.formats["stream"].args, ["stream"]);
/// # Ok::<(), bowline_providers::manifest::ManifestError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Executable {
    /// Marks a file that describes an executable, and not an agent.
    #[serde(default)]
    pub kind: ExecutableKind,
    /// The provider's name.
    pub name: String,
    /// Other names by which it is known.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// It takes the place of the built-in provider of the same name.
    #[serde(default, rename = "override", skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// The program: a name on `PATH`, or a path.
    pub path: String,
    /// Arguments before the command word.
    #[serde(default)]
    pub args: Vec<String>,
    /// How long a request may take; absent is two minutes.
    #[serde(default, deserialize_with = "time::optional_span")]
    pub timeout: Option<Millis>,
    /// The model that is asked for unless the request names one.
    #[serde(default)]
    pub model: Option<String>,
    /// Variables that are set.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables of the host that it gets besides the shared list; `NAME` or `PREFIX_*`.
    #[serde(default)]
    pub env_keep: Vec<String>,
    /// The `config` of every request, unless the request overrides it.
    #[serde(default)]
    pub config: BTreeMap<String, Value>,
    /// Whether it can stream.
    #[serde(default)]
    pub streams: Streams,
}

/// The description in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutableKind {
    /// An executable provider.
    #[default]
    Executable,
}

/// Whether an executable can stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum Streams {
    /// It has `stream`.
    #[default]
    Yes,
    /// It has `generate` alone.
    No,
}

impl From<bool> for Streams {
    fn from(streams: bool) -> Self {
        if streams { Self::Yes } else { Self::No }
    }
}

impl From<Streams> for bool {
    fn from(streams: Streams) -> Self {
        streams == Streams::Yes
    }
}

impl Executable {
    /// Describes a program by its path alone.
    pub fn at(name: impl Into<String>, path: impl Into<String>) -> Self {
        Self { name: name.into(), path: path.into(), ..Self::default() }
    }

    /// Returns whether a file describes an executable: it has the key `kind`.
    pub fn is_meant(text: &str) -> bool {
        // A file that is not TOML needs an error message; the reader of agent manifests gives it.
        text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("kind"))
    }

    /// Reads a file.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        Ok(toml::from_str(text)?)
    }

    /// Returns the manifest that follows.
    pub fn manifest(&self) -> Result<Manifest, ManifestError> {
        if self.path.is_empty() {
            let (key, reason) = ("path".to_owned(), "is empty: it must name a program".to_owned());
            return Err(ManifestError::Key { key, reason });
        }
        let (mut stream, generate) = ("stream", "generate");
        let mut formats = BTreeMap::new();
        formats.insert(generate.to_owned(), self.format(generate, "executable-generate", Shape::Document));
        match self.streams {
            Streams::Yes => {
                formats.insert(stream.to_owned(), self.format(stream, "executable-stream", Shape::Lines));
            }
            Streams::No => stream = generate,
        }
        // Defaults are filled in as for a file.
        let mut manifest: Manifest = toml::from_str(BEGINNING)?;
        manifest.name.clone_from(&self.name);
        manifest.aliases.clone_from(&self.aliases);
        manifest.replaces = self.replaces;
        manifest.adapter_id = format!("executable.{}", self.name);
        manifest.program.clone_from(&self.path);
        manifest.chosen = Chosen::ByName;
        manifest.default_format = stream.to_owned();
        manifest.formats = formats;
        manifest.default_model = self.model.clone().unwrap_or_default();
        manifest.timeout = Some(self.timeout.unwrap_or(USUAL_TIMEOUT));
        manifest.auth.about = "managed by the provider".to_owned();
        manifest.auth.none = true;
        manifest.capabilities = capabilities(self.streams);
        manifest.run.format = Some(stream.to_owned());
        manifest.run.no_stream_format = Some(generate.to_owned());
        manifest.run.env.clone_from(&self.env);
        manifest.run.env_keep.clone_from(&self.env_keep);
        manifest.run.request_config.clone_from(&self.config);
        manifest.run.flags = flags();
        manifest.permission =
            PermissionMode::ALL.into_iter().map(|mode| (mode, Permission::default())).collect();
        // A model may be loaded before the first output: only the whole has a limit.
        manifest.watchdog = Watchdog { first_event: None, idle: None, in_tool: None, ..Watchdog::default() };
        manifest.probe.health = self.command("health");
        manifest.detect.version_args = self.command("--version");
        manifest.complete();
        manifest.check()?;
        Ok(manifest)
    }

    fn command(&self, word: &str) -> Vec<String> {
        self.args.iter().cloned().chain([word.to_owned()]).collect()
    }

    fn format(&self, word: &str, dialect: &str, shape: Shape) -> Format {
        Format { dialect: dialect.to_owned(), shape, args: self.command(word), own: None }
    }
}

fn capabilities(streams: Streams) -> Capabilities {
    Capabilities {
        supports_non_interactive: true,
        streams_text: streams == Streams::Yes,
        reports_usage: bowline_protocol::UsageReports::Tokens,
        system_prompt: true,
        chooses_model: true,
        permission_modes: vec![
            PermissionMode::Read,
            PermissionMode::Ask,
            PermissionMode::Edit,
            PermissionMode::Yolo,
        ],
        ..Capabilities::default()
    }
}

/// The meaning of each option of a run for a program that only returns text.
fn flags() -> BTreeMap<RunFlag, Flag> {
    let field = |field: &str| Flag { request: Some(field.to_owned()), ..Flag::default() };
    let granted = |why: &str| Flag { granted: Some(why.to_owned()), ..Flag::default() };
    let refused = |why: &str| Flag { refused: Some(why.to_owned()), ..Flag::default() };
    let no_word = "the protocol of executable providers has no field for it";
    let no_tools = "an executable provider has no tools of its own";
    let no_session = "an executable provider keeps no session";
    let flag = |flag: RunFlag| match flag {
        RunFlag::Model => field("config.model"),
        RunFlag::System | RunFlag::AppendSystem => field("system_prompt"),
        RunFlag::MaxTurns => granted("it returns one response"),
        RunFlag::NoTools => granted(no_tools),
        RunFlag::Ephemeral => granted(no_session),
        RunFlag::AllowTool | RunFlag::DenyTool | RunFlag::McpConfig => refused(no_tools),
        RunFlag::Resume | RunFlag::Continue | RunFlag::Fork => Flag {
            hint: Some("pass the earlier messages as the context of the request".to_owned()),
            ..refused(no_session)
        },
        RunFlag::Effort
        | RunFlag::MaxCost
        | RunFlag::AddDir
        | RunFlag::Schema
        | RunFlag::Image
        | RunFlag::Isolate => refused(no_word),
    };
    RunFlag::ALL.iter().map(|it| (*it, flag(*it))).collect()
}

#[cfg(test)]
mod tests;
