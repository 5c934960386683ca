//! Helpers for hosts that show a session in a chat: how much to send at a time, and what not to send as the answer.
//!
//! Both are pure: time is an argument, nothing is sent from here, and nothing that goes in is lost.

mod coalesce;
mod commentary;

pub use coalesce::{Coalescer, Limits};
pub use commentary::{CommentaryFilter, Passed};
