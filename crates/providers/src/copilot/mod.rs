//! GitHub Copilot CLI: `--output-format json`, and text.
//!
//! `dialect` is the reader and its verdicts, `speech` what is said, `work` what is done, `session` what concerns the
//! session as a whole, `figures` what text mode prints beside the answer, `wire` the lines.

mod dialect;
mod figures;
mod session;
mod speech;
mod wire;
mod work;

pub(crate) use dialect::Copilot;
