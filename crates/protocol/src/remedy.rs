//! Request fields by name, and typed remedies: what a caller can change after a failure or a refusal.
//!
//! A library names fields. Each program in front of it writes them in its own way: the command as flags, a server as the keys of
//! its JSON. So no text here has a flag of the command line.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

macro_rules! request_fields {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal;)+) => {
        /// A field of a [`Request`](crate::Request), or an option of the task that carries one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum RequestField {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+
        }

        impl RequestField {
            /// Every field: first those of a request, then the options of a task.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name, which is the field's name in the JSON of a request.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

request_fields! {
    /// The prompt.
    Prompt = "prompt";
    /// A replacement of the system prompt.
    SystemPrompt = "system_prompt";
    /// An addition to the system prompt.
    AppendSystemPrompt = "append_system_prompt";
    /// Earlier messages.
    Context = "context";
    /// Images and other files.
    Attachments = "attachments";
    /// The provider.
    Provider = "provider";
    /// The model.
    Model = "model";
    /// The reasoning effort.
    Effort = "effort";
    /// The working directory.
    Cwd = "cwd";
    /// Further directories.
    AddDirs = "add_dirs";
    /// The permission mode.
    Permission = "permission";
    /// Tools that are allowed by name.
    AllowTools = "allow_tools";
    /// Tools that are refused by name.
    DenyTools = "deny_tools";
    /// No tools at all.
    NoTools = "no_tools";
    /// Tools of the host.
    Tools = "tools";
    /// MCP servers.
    McpServers = "mcp_servers";
    /// The JSON Schema of the answer.
    OutputSchema = "output_schema";
    /// An earlier session; the value `latest` stands for the latest one in the directory, `fork` for a branch.
    Resume = "resume";
    /// No trace in the program's own history.
    Ephemeral = "ephemeral";
    /// Without the user's settings.
    Isolate = "isolate";
    /// The container.
    Docker = "docker";
    /// The most turns.
    MaxTurns = "max_turns";
    /// The most money.
    MaxCost = "max_cost_usd";
    /// The time limit of the run.
    Timeout = "timeout_ms";
    /// The time limit of a silence.
    IdleTimeout = "idle_timeout_ms";
    /// Sampling hints.
    Sampling = "sampling";
    /// Variables of the environment.
    Env = "env";
    /// The caller's own key.
    Key = "key";
    /// The task of a session.
    Task = "task";
    /// The policy of a session.
    Policy = "policy";
    /// Settings that only one provider understands.
    Config = "config";
    /// Data of the caller.
    Metadata = "metadata";
    /// An option of a task: the path of the agent's program.
    Binary = "binary";
    /// An option of a task: the profile, which is one of several accounts.
    Profile = "profile";
    /// An option of a task: the provider's name for an output format.
    Format = "format";
    /// An option of a task: print only the result.
    NoStream = "no_stream";
    /// An option of a task: native arguments.
    AgentArgs = "agent_args";
}

impl RequestField {
    /// Returns the field of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// Names the field together with a value, or with the part of it that is meant.
    pub fn value(self, value: impl Into<String>) -> FieldValue {
        FieldValue { field: self, value: Some(value.into()) }
    }
}

impl fmt::Display for RequestField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A field of a request, alone or with a value.
///
/// ```
/// use bowline_protocol::{FieldValue, RequestField};
///
/// assert_eq!(FieldValue::from(RequestField::Timeout).to_string(), "timeout_ms");
/// assert_eq!(RequestField::Permission.value("read").to_string(), "permission = read");
/// assert_eq!("permission = read".parse(), Ok(RequestField::Permission.value("read")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FieldValue {
    /// The field.
    pub field: RequestField,
    /// The value, as text; of `env`, `config` and `sampling` it begins with the name of the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl From<RequestField> for FieldValue {
    fn from(field: RequestField) -> Self {
        Self { field, value: None }
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{} = {value}", self.field),
            None => write!(f, "{}", self.field),
        }
    }
}

/// A text that names no field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAField;

impl fmt::Display for NotAField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is neither `FIELD` nor `FIELD = VALUE` of a request")
    }
}

impl std::error::Error for NotAField {}

impl std::str::FromStr for FieldValue {
    type Err = NotAField;

    /// Reads the form that `Display` writes: `FIELD` or `FIELD = VALUE`.
    fn from_str(text: &str) -> Result<Self, NotAField> {
        let (name, value) = match text.split_once(" = ") {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let field = RequestField::named(name).ok_or(NotAField)?;
        Ok(Self { field, value })
    }
}

/// Something that a caller can do about a failure or a refusal.
///
/// `Display` is a clause for people that names request fields. A program that knows its own user writes better ones: the command
/// writes flags. Readers skip remedies that they do not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Remedy {
    /// Set a field, or give it another value.
    SetField {
        /// The field.
        field: RequestField,
        /// The value that helps, if only one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
    },
    /// Leave a field out.
    OmitField {
        /// The field.
        field: RequestField,
    },
    /// Allow more with a field that is a limit.
    RaiseLimit {
        /// The field.
        field: RequestField,
    },
    /// Remove a limit.
    LiftLimit {
        /// The field.
        field: RequestField,
    },
    /// Install the agent's program.
    Install {
        /// How, in a clause: the command, and where to read more.
        how: String,
    },
    /// Check a file: that it exists, and that it can be executed.
    CheckFile {
        /// Its path.
        path: String,
    },
    /// Create a directory.
    CreateDirectory {
        /// Its path.
        path: String,
    },
    /// Review the files of the project that an agent would run or take settings from, then trust the project.
    TrustProject,
    /// Choose another of the provider's models.
    ListModels {
        /// The provider.
        provider: String,
    },
    /// Run the provider once with a short prompt, and read its output.
    RunOnce {
        /// The provider.
        provider: String,
        /// The profile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// Read when the provider's usage limits reset.
    ShowLimits {
        /// The provider.
        provider: String,
        /// The profile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// Look the setting up in the list of settings.
    ListSettings,
    /// Send the same request again.
    TryAgain,
}

impl Remedy {
    /// Returns the remedy that sets a field, or gives it another value.
    pub fn set(field: impl Into<FieldValue>) -> Self {
        let FieldValue { field, value } = field.into();
        Self::SetField { field, value }
    }

    /// Joins remedies to one hint: "A, or B". `write` writes each of them.
    pub fn joined(remedies: &[Self], write: impl Fn(&Self) -> String) -> Option<String> {
        let (first, rest) = remedies.split_first()?;
        let mut text = write(first);
        let mut before = first;
        for remedy in rest {
            // The clause of an installation may have several parts.
            let separator = if matches!(before, Self::Install { .. }) { "; or " } else { ", or " };
            text.push_str(separator);
            text.push_str(&write(remedy));
            before = remedy;
        }
        Some(text)
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetField { field, value: None } => write!(f, "set `{field}`"),
            Self::SetField { field, value: Some(value) } => write!(f, "set `{field} = {value}`"),
            Self::OmitField { field } => write!(f, "leave out `{field}`"),
            Self::RaiseLimit { field } => write!(f, "raise `{field}`"),
            Self::LiftLimit { field } => write!(f, "remove the limit `{field}`"),
            Self::Install { how } => f.write_str(how),
            Self::CheckFile { path } => write!(f, "check `{path}`"),
            Self::CreateDirectory { path } => write!(f, "create `{path}`"),
            Self::TrustProject => f.write_str("review these files and trust the project"),
            Self::ListModels { provider } => write!(f, "choose another model of {provider}"),
            Self::RunOnce { provider, .. } => {
                write!(f, "run {provider} once with a short prompt; the session's journal has every byte")
            }
            Self::ShowLimits { provider, .. } => write!(f, "read when the limits of {provider} reset"),
            Self::ListSettings => f.write_str("look it up in the list of settings"),
            Self::TryAgain => f.write_str("try again"),
        }
    }
}

/// Reads remedies, and skips those of a newer version.
pub(crate) fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Remedy>, D::Error> {
    let all = Vec::<serde_json::Value>::deserialize(deserializer)?;
    Ok(all.into_iter().filter_map(|remedy| serde_json::from_value(remedy).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Category, Code, Failure};

    /// Options of a task that a request does not have.
    const OF_TASK: [&str; 5] = ["binary", "profile", "format", "no_stream", "agent_args"];

    #[test]
    #[cfg(feature = "schema")]
    fn every_field_of_a_request_has_a_name_here() {
        let schema = schemars::schema_for!(crate::Request).to_value();
        let mut fields: Vec<&str> =
            schema["properties"].as_object().expect("an object").keys().map(String::as_str).collect();
        fields.extend(OF_TASK);
        fields.sort_unstable();
        let mut named: Vec<&str> = RequestField::ALL.iter().map(|field| field.name()).collect();
        named.sort_unstable();
        assert_eq!(named, fields);
    }

    #[test]
    fn a_field_is_read_from_the_form_that_it_is_written_in() {
        for field in RequestField::ALL {
            for value in [FieldValue::from(*field), field.value("a = b")] {
                assert_eq!(value.to_string().parse(), Ok(value));
            }
            assert_eq!(serde_json::to_value(field).expect("JSON"), field.name());
        }
        for other in ["", "docker ps", "Model", "run.permission", "model=x"] {
            assert_eq!(other.parse::<FieldValue>(), Err(NotAField), "{other}");
        }
        assert!(OF_TASK.iter().all(|name| RequestField::named(name).is_some()));
    }

    #[test]
    fn a_reader_skips_remedies_that_it_does_not_know() {
        let known = [Remedy::set(RequestField::Binary), Remedy::TryAgain];
        let failure = Failure::new(Category::Timeout, Code::TimedOut, "").with_remedies(known.to_vec());
        assert_eq!(failure.hint.as_deref(), Some("set `binary`, or try again"));
        let mut json = serde_json::to_value(&failure).expect("JSON");
        assert_eq!(json["remedies"][0], serde_json::json!({"type": "set_field", "field": "binary"}));
        let list = json["remedies"].as_array_mut().expect("a list");
        list.insert(0, serde_json::json!({"type": "phone_home"}));
        list.insert(1, serde_json::json!({"type": "set_field", "field": "moon_phase"}));
        assert_eq!(serde_json::from_value::<Failure>(json).expect("a failure"), failure);
    }
}
