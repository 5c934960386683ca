//! The fields of every kind of event, one struct each, by subject.

mod conversation;
mod health;
mod machine;
mod session;
mod tools;

pub use conversation::*;
pub use health::*;
pub use machine::*;
pub use session::*;
pub use tools::*;

/// Adds the derives of every part of an event, so that the definitions below show only their fields.
macro_rules! part {
    ($($item:item)+) => {$(
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        $item
    )+};
}

/// The same for a closed set of words, written in `snake_case`.
macro_rules! words {
    ($($item:item)+) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        $item
    )+};
}

pub(crate) use {part, words};
