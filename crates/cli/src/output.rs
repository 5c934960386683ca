//! The events of a run on the standard streams: for people, or in one of the formats for programs.

pub(crate) mod notices;
pub(crate) mod sink;
pub(crate) mod view;
