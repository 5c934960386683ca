//! What of a repository's own code a program would run, and how a run keeps it from that: the section `[repository]`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What of a repository's own code a program would run, and how a run keeps it from that.
///
/// It counts for `--permission read` and `ask` in a project that is not trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repository {
    /// Files, and directories with a `/` at their end, from which it would run programs or take settings. `bowline trust`
    /// pins their content.
    pub files: Vec<String>,
    /// Arguments that keep it from them.
    pub args: Vec<String>,
    /// Variables that keep it from them.
    pub env: BTreeMap<String, String>,
    /// Why it cannot be kept from them. A run in a project that has such a file is refused then.
    pub refused: Option<String>,
    /// Why there is nothing to keep it from.
    pub never: Option<String>,
}
