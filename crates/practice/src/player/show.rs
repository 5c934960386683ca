//! The request as it arrived, for the directive `show`.

use serde_json::{Value, json};

use super::Player;
use crate::options::variable;

impl Player<'_> {
    /// Returns the request as it arrived.
    pub(super) fn received(&self) -> Value {
        // Values only of variables that are not secret; otherwise only the name.
        const TOLD: &[&str] = &["TERM", "NO_COLOR", "CI", "LANG", "COLUMNS", "LINES", "HOME", "PATH", "PWD"];
        let mut env = json!({});
        let mut names = Vec::new();
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if TOLD.contains(&&*name) || name.starts_with("PRACTICE_") || name.starts_with("BOWLINE_") {
                env[name.as_str()] = variable(&name).into();
            }
            names.push(name);
        }
        names.sort();
        let show = self.lock();
        let stage = &show.stage;
        json!({"argv": self.options.argv, "options": self.options.given(), "prompt": self.input.prompt,
            "stdin_bytes": self.input.stdin_bytes, "cwd": self.cwd, "env": env, "env_names": names,
            "session": self.session.id, "resumed": self.session.resumed, "earlier_turns": self.session.turns,
            "mcp_servers": stage.mcp_servers, "format": self.options.format.as_str(),
            "permission": stage.mode.as_str(), "model": stage.model, "effort": stage.effort, "schema": self.schema,
            "stdout_is_terminal": std::io::IsTerminal::is_terminal(&std::io::stdout())})
    }
}
