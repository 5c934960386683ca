//! The closed list of event kinds, and a reader that keeps unknown kinds.
//!
//! The list is complete from the start, including kinds that no dialect emits yet. [`crate::kinds`] has the fields of each
//! kind. In JSON a kind is an object with `type` first; reading relies on that for speed, not for correctness.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{Json, kinds};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $tag:literal in $subject:ident),+ $(,)?) => {
        /// The kind of an event, with its fields.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Kind {
            $($(#[doc = $doc])+ $variant(kinds::$variant),)+
            /// A kind of a newer version of this protocol, kept as it was read. Bowline never writes one.
            Unknown(UnknownKind),
        }

        impl Kind {
            /// The `type` of every kind that this version knows.
            pub const TYPES: &'static [&'static str] = &[$($tag),+];

            /// Returns the `type` of the kind in JSON.
            pub fn type_name(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $tag,)+
                    Self::Unknown(unknown) => &unknown.type_name,
                }
            }

            /// Returns the subject of the kind. Kinds of newer versions are about the stream.
            pub fn subject(&self) -> Subject {
                match self {
                    $(Self::$variant(_) => Subject::$subject,)+
                    Self::Unknown(_) => Subject::Stream,
                }
            }

            fn read<'de, M: MapAccess<'de>>(tag: &str, fields: M) -> Result<Self, M::Error> {
                match tag {
                    $($tag => kinds::$variant::deserialize(MapAccessDeserializer::new(fields)).map(Self::$variant),)+
                    _ => UnknownKind::read(tag, fields).map(Self::Unknown),
                }
            }

            fn read_value<E: de::Error>(tag: &str, fields: Map<String, Value>) -> Result<Self, E> {
                fn fields_of<T: DeserializeOwned, E: de::Error>(fields: Map<String, Value>) -> Result<T, E> {
                    T::deserialize(Value::Object(fields)).map_err(E::custom)
                }
                match tag {
                    $($tag => fields_of(fields).map(Self::$variant),)+
                    _ => UnknownKind::read_value(tag, &fields).map(Self::Unknown),
                }
            }
        }

        impl Serialize for Kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                // Serde's internally tagged form for writing only. Its reader would buffer every event.
                #[derive(Serialize)]
                #[serde(tag = "type")]
                enum TaggedKind<'a> {
                    $(#[serde(rename = $tag)] $variant(&'a kinds::$variant),)+
                }
                match self {
                    $(Self::$variant(fields) => TaggedKind::$variant(fields).serialize(serializer),)+
                    Self::Unknown(unknown) => unknown.serialize(serializer),
                }
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for Kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                "Kind".into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                crate::schema::kind(generator, &[
                    $(($tag, concat!($($doc),+), kinds::$variant::json_schema as crate::schema::KindSchema),)+
                ])
            }
        }
    };
}

kinds! {
    /// The agent's session began, or told us its name.
    SessionStarted = "session_started" in Session,
    /// The session went from one state to another.
    SessionStateChanged = "session_state_changed" in Session,
    /// The runner of the session ended. If the session is resumed, `session_started` follows.
    SessionEnded = "session_ended" in Session,
    /// Another party leads the session now.
    ControlModeChanged = "control_mode_changed" in Session,
    /// A turn began.
    TurnStarted = "turn_started" in Turn,
    /// A turn ended; every turn that starts ends exactly once.
    TurnEnded = "turn_ended" in Turn,
    /// The session accepted a prompt that the agent does not have yet.
    PromptQueued = "prompt_queued" in Session,
    /// A queued prompt left the queue; every one that is queued leaves it exactly once.
    PromptRemoved = "prompt_removed" in Session,
    /// The conversation got a message on the user's side.
    UserMessage = "user_message" in Message,
    /// The agent said a piece of text.
    TextDelta = "text_delta" in Message,
    /// Text that was said before is no longer part of the answer.
    TextRetracted = "text_retracted" in Message,
    /// A message is complete.
    MessageFinished = "message_finished" in Message,
    /// The agent thought a piece of text.
    ThinkingDelta = "thinking_delta" in Message,
    /// A tool call began.
    ToolStarted = "tool_started" in Tool,
    /// A tool call made progress.
    ToolUpdated = "tool_updated" in Tool,
    /// A tool call ended.
    ToolFinished = "tool_finished" in Tool,
    /// A task began to run beside the conversation.
    BackgroundTaskStarted = "background_task_started" in Work,
    /// A task beside the conversation ended.
    BackgroundTaskEnded = "background_task_ended" in Work,
    /// Files were read, written or deleted.
    FilesTouched = "files_touched" in Work,
    /// There is a diff to look at.
    DiffAvailable = "diff_available" in Work,
    /// The agent's plan is now this.
    PlanUpdated = "plan_updated" in Work,
    /// The agent may not go on without a decision.
    ApprovalAsked = "approval_asked" in Question,
    /// An approval was decided; every one that is asked is decided exactly once.
    ApprovalDecided = "approval_decided" in Question,
    /// The agent asks the user something.
    QuestionAsked = "question_asked" in Question,
    /// A question was answered.
    QuestionAnswered = "question_answered" in Question,
    /// The agent is busy with something of its own.
    Status = "status" in Agent,
    /// The conversation was shortened to fit the model's context.
    ContextCompacted = "context_compacted" in Agent,
    /// The agent tries a request again. Not a failure.
    Retrying = "retrying" in Agent,
    /// The state of a usage limit.
    LimitReported = "limit_reported" in Usage,
    /// Tokens were spent.
    UsageReported = "usage_reported" in Usage,
    /// The meter's regular reading of a running session.
    UsageTick = "usage_tick" in Usage,
    /// How full the model's context is.
    ContextGauge = "context_gauge" in Usage,
    /// The agent offers these settings.
    OptionsAdvertised = "options_advertised" in Agent,
    /// A setting has a new value.
    OptionsChanged = "options_changed" in Agent,
    /// Another model answers from here on.
    ModelChanged = "model_changed" in Agent,
    /// The state of an MCP server.
    McpServerStatus = "mcp_server_status" in Agent,
    /// A remark for the user.
    Notice = "notice" in Agent,
    /// The router chose a provider.
    RouteChosen = "route_chosen" in Route,
    /// The router went on to another provider.
    FallbackTaken = "fallback_taken" in Route,
    /// Something that was wanted cannot be had; this is what is done instead.
    CapabilityDegraded = "capability_degraded" in Route,
    /// The session goes on over another transport.
    TransportSwitched = "transport_switched" in Route,
    /// The result of a request to resume.
    ResumeAnswered = "resume_answered" in Session,
    /// The agent's own history is not the one that we have.
    DivergenceFound = "divergence_found" in Session,
    /// A process of the session was started.
    ProcessSpawned = "process_spawned" in Process,
    /// A process of the session ended.
    ProcessReaped = "process_reaped" in Process,
    /// A process of the session outlived it.
    ProcessLeaked = "process_leaked" in Process,
    /// Output that could not be understood. Kept, never shown as an answer.
    Unrecognized = "unrecognized" in Stream,
    /// Something is missing here.
    Gap = "gap" in Stream,
}

/// The subject of an event: the coarse classification of [`Kind`].
///
/// Readers that handle a few kinds decide by the subject about the others, so that a new kind is classified once, on its line in
/// the list of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The session: its start, states and end, its resumption, and its controller.
    Session,
    /// The start and the end of a turn.
    Turn,
    /// The text of the conversation, of both sides.
    Message,
    /// A tool call.
    Tool,
    /// The other work of the agent: background tasks, changed files, diffs and plans.
    Work,
    /// A question that waits for a decision, or the decision.
    Question,
    /// Usage, limits and the fill level of the context. These come at any time and do not affect the conversation.
    Usage,
    /// The state of the agent itself: its settings, retries and notices.
    Agent,
    /// The provider and the transport that Bowline chose.
    Route,
    /// A process of the session.
    Process,
    /// The stream itself: output that was not understood, missing events, and kinds of newer versions.
    Stream,
}

/// An event kind that this version does not know, with all its fields as they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind {
    /// The `type`.
    pub type_name: Box<str>,
    /// The other fields, in their order.
    pub fields: Vec<(Box<str>, Json)>,
}

impl UnknownKind {
    fn read<'de, M: MapAccess<'de>>(tag: &str, mut map: M) -> Result<Self, M::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Self { type_name: tag.into(), fields })
    }

    fn read_value<E: de::Error>(tag: &str, fields: &Map<String, Value>) -> Result<Self, E> {
        let field =
            |(key, value): (&String, &Value)| Ok((key.as_str().into(), Json::of(value).map_err(E::custom)?));
        Ok(Self { type_name: tag.into(), fields: fields.iter().map(field).collect::<Result<_, E>>()? })
    }
}

impl Serialize for UnknownKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len() + 1))?;
        map.serialize_entry("type", &self.type_name)?;
        self.fields.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(KindVisitor)
    }
}

struct KindVisitor;

impl<'de> Visitor<'de> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a `type`")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Kind, M::Error> {
        let mut before = Map::new();
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if key != "type" {
                before.insert(key.into_owned(), map.next_value()?);
                continue;
            }
            let tag = map.next_value::<std::borrow::Cow<'de, str>>()?;
            if before.is_empty() {
                return Kind::read(&tag, map);
            }
            while let Some((key, value)) = map.next_entry::<String, Value>()? {
                before.insert(key, value);
            }
            return Kind::read_value(&tag, before);
        }
        Err(de::Error::missing_field("type"))
    }
}
