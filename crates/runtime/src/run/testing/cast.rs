//! Which script each attempt plays: by provider, and by how often that provider was asked.

use std::collections::{BTreeMap, VecDeque};

use super::{Script, script};
use crate::agents::roster::Roster;

/// The scripts of a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cast {
    /// For every provider that has no scripts of its own: one for each attempt, the last one for all further attempts.
    any: VecDeque<Script>,
    /// The same for one provider, by its name.
    own: BTreeMap<String, VecDeque<Script>>,
}

impl Cast {
    /// Returns whether there is a script at all: then no process is started.
    pub(crate) fn is_empty(&self) -> bool {
        self.any.is_empty() && self.own.is_empty()
    }

    /// Returns whether a provider has a script. One without counts as not installed.
    pub(crate) fn has(&self, name: &str, provider: &str) -> bool {
        !self.any.is_empty() || self.own.contains_key(name) || self.own.contains_key(provider)
    }

    /// Sets the scripts of every provider that has none of its own.
    pub(crate) fn set(&mut self, scripts: impl IntoIterator<Item = Script>) {
        self.any = scripts.into_iter().flat_map(Script::acts).collect();
    }

    /// Sets the scripts of one provider.
    pub(crate) fn set_for(&mut self, name: &str, script: Script) {
        let name =
            Roster::default().find(name).map_or_else(|_| name.to_owned(), |manifest| manifest.name.clone());
        self.own.insert(name, script.acts().collect());
    }

    /// Takes the script of the next attempt of a provider, by its name in the request or by its own.
    pub(crate) fn take(&mut self, name: &str, provider: &str) -> Script {
        let key = if self.own.contains_key(name) { name } else { provider };
        let scripts = self.own.get_mut(key).unwrap_or(&mut self.any);
        let next = if scripts.len() > 1 { scripts.pop_front() } else { scripts.front().cloned() };
        // Only who names such a provider comes here: the router skips it.
        next.unwrap_or_else(|| {
            let missing = format!("command not found: the test has no script for `{provider}`\n");
            script(&serde_json::json!({"steps": [{"stderr": missing}, {"exit": 127}]}).to_string())
        })
    }
}
