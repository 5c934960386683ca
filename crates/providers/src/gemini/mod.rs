//! Gemini CLI: its JSON lines, its one JSON object, its text, and the reasons that it gives only on standard error.
//!
//! `dialect` reads what it prints, `wire` is the form of that, `failures` says why a run failed (messages, exit codes,
//! standard error), `retries` reads the notices of its retries, `thought` takes leaked thoughts out of the text, `work`
//! follows tool calls.

mod dialect;
mod failures;
mod retries;
mod thought;
mod wire;
mod work;

pub(crate) use self::dialect::Gemini;
