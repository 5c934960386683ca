//! How a run of a provider is put together: the sections `[run]`, `[permission.*]`, `[watchdog]` and `[stop]`.
//!
//! Each option of a run is one [`RunFlag`]. A manifest defines for each how it becomes arguments,
//! variables, a file or a part of the prompt, or why it is refused. An option without an entry is refused.

use std::collections::BTreeMap;

use bowline_protocol::{FieldValue, Millis, PermissionMode, RequestField};
use serde::{Deserialize, Serialize};

use crate::invocation::StdioKind;

use super::time::{optional_limit, span_of_time};

/// Whether the client offers the agent to do something for it in its workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostOffer {
    /// The agent uses its own.
    #[default]
    Withheld,
    /// It may ask the client. A write and a command are approvals.
    Offered,
}

impl HostOffer {
    fn is_withheld(&self) -> bool {
        *self == Self::Withheld
    }
}

/// How a run is put together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// How the program is connected.
    pub transport: StdioKind,
    /// The format in which a run is watched; absent takes the default format.
    pub format: Option<String>,
    /// The format of a run that is not watched; absent means that there is none.
    pub no_stream_format: Option<String>,
    /// The format of a live session, in which one process takes many prompts. Absent: a live session starts a process for each
    /// prompt, in the format of a run that is watched.
    pub live_format: Option<String>,
    /// Whether the client offers the agent to read and write files, in protocols that have requests for it.
    #[serde(skip_serializing_if = "HostOffer::is_withheld")]
    pub host_files: HostOffer,
    /// Whether the client offers the agent to run commands, in protocols that have requests for it.
    #[serde(skip_serializing_if = "HostOffer::is_withheld")]
    pub host_terminals: HostOffer,
    /// Arguments of every run, after those of the format.
    pub args: Vec<String>,
    /// Where the prompt stands among the arguments, for programs that take it there.
    pub prompt_args: Vec<String>,
    /// The argument before a prompt that begins with a dash.
    pub dash_guard: Vec<String>,
    /// The last arguments when the prompt comes over standard input.
    pub stdin_args: Vec<String>,
    /// The longest prompt that the program accepts, in characters.
    pub max_prompt_chars: Option<u64>,
    /// The minimum size of its standard output pipe in bytes, for a program that exits before its
    /// last output is in the pipe.
    pub stdout_room: Option<u32>,
    /// Variables that every run sets.
    pub env: BTreeMap<String, String>,
    /// Variables of the host that the program gets besides the shared list; `NAME` or `PREFIX_*`.
    pub env_keep: Vec<String>,
    /// Variables of the host that it never gets, though a pattern of `env_keep` names them.
    pub env_remove: Vec<String>,
    /// Variables whose values are secrets; `NAME` or `PREFIX_*`.
    pub secrets: Vec<String>,
    /// How its option for allowing tools names them, where that is not what it prints.
    pub allow_names: AllowNames,
    /// The treatment of each option of a run.
    pub flags: BTreeMap<RunFlag, Flag>,
    /// The `config` of every request, where `prompt = "request"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub request_config: BTreeMap<String, serde_json::Value>,
    /// Settings that only this program understands, by name.
    pub config: BTreeMap<String, Flag>,
    /// Options that the caller may not pass as native arguments, besides those in the templates: other spellings of these,
    /// and what would undo the permission mode, the format, the session or the prompt.
    pub reserved: Vec<String>,
    /// Native arguments, as `--option=value`, that allow less than any permission mode and may replace the mode's own option.
    pub narrowing: Vec<String>,
}

/// How a program's option for allowing tools names them, by what they do. Hints name them so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AllowNames {
    /// The tool that runs commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execute: Option<String>,
    /// The tool that reads pages of the web.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch: Option<String>,
}

macro_rules! run_flags {
    ($($(#[doc = $doc:literal])+ $variant:ident = $key:literal;)+) => {
        /// An option of a run that a program has to honour, in the order in which they become arguments.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum RunFlag {
            $($(#[doc = $doc])+ #[serde(rename = $key)] $variant,)+
        }

        impl RunFlag {
            /// Every option, in the order in which they become arguments.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the key in a manifest.
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$variant => $key,)+
                }
            }
        }
    };
}

run_flags! {
    /// Which model.
    Model = "model";
    /// The reasoning effort.
    Effort = "effort";
    /// A replacement of the system prompt.
    System = "system";
    /// An addition to the system prompt.
    AppendSystem = "append_system";
    /// The most turns.
    MaxTurns = "max_turns";
    /// The most money.
    MaxCost = "max_cost";
    /// Further directories.
    AddDir = "add_dir";
    /// Tools that are allowed by name.
    AllowTool = "allow_tool";
    /// Tools that are refused by name.
    DenyTool = "deny_tool";
    /// No tools at all.
    NoTools = "no_tools";
    /// MCP servers.
    McpConfig = "mcp_config";
    /// The JSON Schema of the answer.
    Schema = "schema";
    /// Images and other files.
    Image = "image";
    /// No trace in the program's own history.
    Ephemeral = "ephemeral";
    /// Without the user's settings.
    Isolate = "isolate";
    /// An earlier session, by its id.
    Resume = "resume";
    /// The latest session in the directory.
    Continue = "continue";
    /// A branch of an earlier session. Only callers of the library ask for it so far.
    Fork = "fork";
}

impl RunFlag {
    /// Returns the field of a request that asks for it. The three ways to resume are values of one field.
    pub fn field(self) -> FieldValue {
        let field = match self {
            Self::Model => RequestField::Model,
            Self::Effort => RequestField::Effort,
            Self::System => RequestField::SystemPrompt,
            Self::AppendSystem => RequestField::AppendSystemPrompt,
            Self::MaxTurns => RequestField::MaxTurns,
            Self::MaxCost => RequestField::MaxCost,
            Self::AddDir => RequestField::AddDirs,
            Self::AllowTool => RequestField::AllowTools,
            Self::DenyTool => RequestField::DenyTools,
            Self::NoTools => RequestField::NoTools,
            Self::McpConfig => RequestField::McpServers,
            Self::Schema => RequestField::OutputSchema,
            Self::Image => RequestField::Attachments,
            Self::Ephemeral => RequestField::Ephemeral,
            Self::Isolate => RequestField::Isolate,
            Self::Resume => RequestField::Resume,
            Self::Continue => return RequestField::Resume.value("latest"),
            Self::Fork => return RequestField::Resume.value("fork"),
        };
        field.into()
    }
}

/// The treatment of one option: arguments, variables, a file, a part of the prompt, a remark or a refusal.
///
/// Templates have placeholders: `{value}`, `{values}` (each an argument of its own), `{list}` (with commas between),
/// `{toml}` (quoted for TOML), `{file}` (the path of the side file), `{name}` and `{json}` (MCP servers).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flag {
    /// Arguments, once.
    pub args: Vec<String>,
    /// Arguments, once for each value.
    pub each: Vec<String>,
    /// Variables.
    pub env: BTreeMap<String, String>,
    /// An entry for each value in a variable that holds a JSON object.
    pub rule: Option<Rule>,
    /// The field of the request that carries the value, where `prompt = "request"`: `system_prompt` or `config.NAME`.
    pub request: Option<String>,
    /// Text before the prompt.
    pub before: Option<String>,
    /// Text after the prompt, once for each value.
    pub after: Option<String>,
    /// The name of the side file that carries the value.
    pub file: Option<String>,
    /// How MCP servers are written.
    pub form: Option<McpForm>,
    /// How the program is told to allow the tools of the caller's own MCP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostToolRule>,
    /// The alternative for a value that is too long for an argument.
    pub large: Option<Large>,
    /// The only values that the program knows.
    pub values: Vec<String>,
    /// The required form of a value.
    pub shape: Option<ValueShape>,
    /// How a space in a path is written, in `after`.
    pub blanks: Option<Blanks>,
    /// Characters that a value cannot have, because the program would cut it there.
    pub forbidden: Option<String>,
    /// The protocol carries it.
    pub protocol: bool,
    /// The option is the default behaviour anyway, and why. A notice reports it.
    pub granted: Option<String>,
    /// The option has no effect, and why. The run continues with a warning.
    pub ignored: Option<String>,
    /// The option cannot be honoured, and why.
    pub refused: Option<String>,
    /// An alternative.
    pub hint: Option<String>,
}

impl Flag {
    /// Returns whether the entry defines how the option is done, rather than why it is not.
    pub fn is_done(&self) -> bool {
        self.granted.is_none() && self.ignored.is_none() && self.refused.is_none()
    }
}

/// How a program is told to allow the tools of one MCP server: the one with which Bowline serves the caller's own functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostToolRule {
    /// The value of `allow_tool` that stands for all tools of the server, with `{server}` for its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
    /// Fields of the server's entry in `mcp_config`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entry: BTreeMap<String, serde_json::Value>,
}

/// An entry in a variable that holds a JSON object: the value is its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The variable.
    pub env: String,
    /// The value of the entry.
    pub says: String,
}

/// The alternative for a value that is too long for an argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Large {
    /// The name of the side file.
    pub file: String,
    /// The arguments.
    pub args: Vec<String>,
}

/// The form of MCP servers that a program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpForm {
    /// `{"mcpServers": …}` with `type` `stdio` or `http`.
    Typed,
    /// The same with a list of allowed tools, which some programs require.
    TypedWithTools,
    /// `{"mcpServers": …}` without a type; an address is `httpUrl`.
    HttpUrl,
    /// `{"name": {"type": "local" | "remote", …}}`, the command as one list.
    LocalOrRemote,
    /// Overrides `key=value` in TOML; secrets go by the names of variables.
    TomlOverrides,
}

/// The required form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueShape {
    /// A UUID.
    Uuid,
    /// The path of an image.
    Image,
}

/// How a space in a path is written where the path is in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blanks {
    /// Quotation marks around the path.
    Quotes,
    /// A backslash before the space.
    Backslash,
}

/// The meaning of a permission mode to a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Permission {
    /// Arguments.
    pub args: Vec<String>,
    /// Variables.
    pub env: BTreeMap<String, String>,
    /// Tools that the mode allows, written like those of `allow_tools`.
    pub allow_tools: Vec<String>,
    /// Tools that the mode refuses, written like those of `deny_tools`.
    pub deny_tools: Vec<String>,
    /// Whether commands run too, kept to the project by a sandbox of the program's own.
    pub sandboxes_commands: bool,
    /// Why the mode is refused.
    pub refused: Option<String>,
    /// Whether the program runs without any restriction in this mode, after a warning, where the caller allows that.
    pub unrestricted: bool,
    /// Why it is refused for root.
    pub refused_as_root: Option<String>,
    /// A variable of the request that allows it for root.
    pub root_env: Option<String>,
    /// An alternative.
    pub hint: Option<String>,
}

/// How long each phase of a run may take. `"none"` means that there is no limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Watchdog {
    /// Until the process is there.
    #[serde(deserialize_with = "optional_limit")]
    pub spawn: Option<Millis>,
    /// From the spawn to the first event.
    #[serde(deserialize_with = "optional_limit")]
    pub first_event: Option<Millis>,
    /// Silence while no tool runs.
    #[serde(deserialize_with = "optional_limit")]
    pub idle: Option<Millis>,
    /// Silence while a tool runs.
    #[serde(deserialize_with = "optional_limit")]
    pub in_tool: Option<Millis>,
    /// From the end of the answer to the end of the process.
    #[serde(deserialize_with = "optional_limit")]
    pub shutdown: Option<Millis>,
    /// The whole run; absent takes the manifest's `timeout`, which may be none.
    #[serde(deserialize_with = "total_limit")]
    pub total: Total,
}

impl Default for Watchdog {
    fn default() -> Self {
        let seconds = |seconds: u64| Some(Millis(seconds * 1000));
        Self {
            spawn: seconds(30),
            first_event: seconds(120),
            idle: seconds(300),
            in_tool: seconds(3600),
            // A program that has answered and does not exit is stopped within a second, and has still succeeded.
            shutdown: seconds(1),
            total: Total::Timeout,
        }
    }
}

/// The limit of a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Total {
    /// The `timeout` of the manifest.
    #[default]
    Timeout,
    /// None.
    None,
    /// This.
    Of(Millis),
}

fn total_limit<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Total, D::Error> {
    Ok(optional_limit(deserializer)?.map_or(Total::None, Total::Of))
}

/// How a run is ended politely, before the tree is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// The polite way.
    pub polite: StopMethod,
    /// The receiver of the signal: launchers do not forward it.
    pub scope: StopScope,
    /// How long to wait before the next step.
    #[serde(deserialize_with = "span_of_time")]
    pub grace: Millis,
}

impl Default for Stop {
    fn default() -> Self {
        Self { polite: StopMethod::Sigterm, scope: StopScope::Tree, grace: Millis(2000) }
    }
}

/// A polite way to end a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopMethod {
    /// The signal of Ctrl-C.
    #[serde(rename = "sigint")]
    Sigint,
    /// The signal to end.
    #[serde(rename = "sigterm")]
    Sigterm,
    /// The end of its standard input.
    #[serde(rename = "stdin-close")]
    StdinClose,
    /// A message of its protocol if a turn is running; else the end of its standard input.
    #[serde(rename = "protocol")]
    Protocol,
}

/// The processes that a signal goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopScope {
    /// The process that Bowline started.
    Leader,
    /// That process and all its descendants: a launcher does not pass signals on.
    Tree,
}

/// The permission modes that a manifest describes.
pub type Permissions = BTreeMap<PermissionMode, Permission>;
