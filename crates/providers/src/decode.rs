//! From bytes to events.
//!
//! [`Decoder`] cuts the bytes of a program into frames and hands each to the program's [`dialect::Dialect`]. The dialect
//! reports to a [`dialect::Output`], and the turn tracker behind it makes a stream with guarantees of the reports: every turn that
//! starts ends once, and every message with text is finished once. [`Stamp`] numbers the events where no run does it.
//!
//! Not here: the formats themselves, which are in the providers' folders and in [`crate::dialects`].

mod decision;
mod decoder;
pub mod dialect;
mod end;
mod host_request;
mod order;
mod output;
mod stamp;
mod turns;

pub use decoder::Decoder;
pub use end::{Cause, End};
pub use stamp::Stamp;
pub(crate) use turns::NOVEL;
