//! Qwen Code: its JSON lines in both shapes, its JSON array, its text, and its two-way control lines.
//!
//! `dialect` reads what it prints, `wire` is the form of that, `speech` puts messages together from pieces and wholes,
//! `retold` drops what a retry tells again, `retries` reads the notices of retries, `work` follows tool calls, `session`
//! reads its session data, `control` reads the control lines of both directions, `failures` finds why a run failed.

mod control;
mod dialect;
mod failures;
mod retold;
mod retries;
mod session;
mod speech;
mod wire;
mod work;

pub(crate) use self::dialect::Qwen;
