//! The machinery: processes, transports, and output that was not understood.

use super::{part, words};
use crate::{Excerpt, Exit};

part! {
    /// The session goes on over another transport.
    pub struct TransportSwitched {
        /// The transport before.
        pub from: Transport,
        /// The transport now.
        pub to: Transport,
        /// Why.
        pub reason: String,
    }

    /// A process of the session was started.
    pub struct ProcessSpawned {
        /// Its process id.
        pub pid: u32,
        /// The program.
        pub program: String,
        /// The transport.
        pub transport: Transport,
        /// The promise in force about what it may leave behind, in the supervisor's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub containment: Option<String>,
        /// The dialect that decodes its output. A second process of a session may speak another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub dialect: Option<String>,
        /// Where its output begins in the raw file of the session: behind that of the processes before it. Absent at the beginning.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub raw_start: u64,
    }

    /// A process of the session ended.
    pub struct ProcessReaped {
        /// Its process id.
        pub pid: u32,
        /// How it ended.
        pub exit: Exit,
    }

    /// A process of the session outlived it.
    pub struct ProcessLeaked {
        /// Its process id; 0, and absent in JSON, if it is unknown because its container does not answer.
        #[serde(default, skip_serializing_if = "is_unknown")]
        pub pid: u32,
        /// A description, as far as Bowline can tell.
        pub command: String,
        /// Why it could not be ended.
        pub reason: String,
    }

    /// Output that could not be understood. Kept, never shown as an answer.
    pub struct Unrecognized {
        /// The problem.
        pub reason: UnrecognizedReason,
        /// How many pieces in a row it stands for, where there are more than one: the span has all of them, and the other
        /// fields are about the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub count: Option<u64>,
        /// Its beginning.
        pub head: Excerpt,
        /// The unknown type, where the line has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub type_name: Option<String>,
    }

    /// Something is missing here.
    pub struct Gap {
        /// How many events are missing, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub events: Option<u64>,
        /// How many bytes are missing, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub bytes: Option<u64>,
        /// Why.
        pub reason: String,
    }
}

words! {
    /// How we are connected to an agent.
    pub enum Transport {
        /// Pipes.
        Pipe,
        /// A pseudo-terminal.
        Pty,
        /// JSON-RPC over pipes.
        JsonRpc,
        /// The Agent Client Protocol.
        Acp,
    }

    /// The problem with output that could not be understood.
    pub enum UnrecognizedReason {
        /// It is not in the dialect's form at all: a log line, a banner, half a line.
        Noise,
        /// It is in the right form, but says something that the dialect does not know.
        UnknownType,
        /// It is in the right form, but a part that must be there is missing or of another kind.
        BadShape,
        /// It is longer than a line may be.
        TooLong,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_unknown(pid: &u32) -> bool {
    *pid == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(offset: &u64) -> bool {
    *offset == 0
}
