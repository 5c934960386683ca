//! The request of an agent's process to start another session.

use serde::{Deserialize, Serialize};

use crate::PermissionMode;

/// The longest prompt of such a request, in bytes. A person has to read it.
const PROMPT_LIMIT: usize = 32 << 10;

/// The longest other text, in bytes.
const TEXT_LIMIT: usize = 256;

/// The session that a process of an agent wants to start. It can choose nothing else: everything that is not here is as in the session
/// that the process belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChildRequest {
    /// The name of the provider.
    pub provider: String,
    /// The first prompt.
    pub prompt: String,
    /// The model; the provider's usual one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The permission mode; `ask` if absent. It cannot be wider than that of the session that asks, and never `yolo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<PermissionMode>,
    /// A name by which people find the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ChildRequest {
    /// Returns the permission mode that the session would have.
    pub fn mode(&self) -> PermissionMode {
        self.permission.unwrap_or_default()
    }

    /// Checks the texts, which are an agent's.
    ///
    /// # Errors
    ///
    /// The reason why no session is started with them.
    pub fn check(&self) -> Result<(), String> {
        // A path or a command (`acp:COMMAND`) as a provider would start any program, and `a,b` or `auto` several.
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if self.provider.is_empty() || !self.provider.chars().all(plain) {
            return Err("the provider has to be the name of one provider".to_owned());
        }
        if self.prompt.trim().is_empty() {
            return Err("the session needs a prompt: an agent cannot send it one later".to_owned());
        }
        if self.prompt.len() > PROMPT_LIMIT {
            return Err(format!(
                "the prompt has {} bytes, and a person reads at most {PROMPT_LIMIT}",
                self.prompt.len()
            ));
        }
        let others = [
            ("provider", Some(&self.provider)),
            ("model", self.model.as_ref()),
            ("effort", self.effort.as_ref()),
            ("name", self.name.as_ref()),
        ];
        for (field, text) in others {
            // The values stand in a sentence for a person and in a list of arguments.
            let is_wrong = |text: &&String| {
                text.trim().is_empty() || text.len() > TEXT_LIMIT || text.chars().any(char::is_control)
            };
            if text.is_some_and(|text| is_wrong(&text)) {
                return Err(format!("`{field}` has to be one line of at most {TEXT_LIMIT} bytes"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ChildRequest {
        ChildRequest {
            provider: "alpha".to_owned(),
            prompt: "Review it".to_owned(),
            model: None,
            effort: None,
            permission: None,
            name: None,
        }
    }

    #[test]
    fn only_plain_values_are_passed_on() {
        let with = |change: fn(&mut ChildRequest)| {
            let mut request = request();
            change(&mut request);
            request.check()
        };
        assert_eq!(with(|_| {}), Ok(()));
        assert_eq!(with(|it| it.provider = "my-agent_2.1".to_owned()), Ok(()));
        assert_eq!(with(|it| it.prompt = "two\nlines\t\u{1b}[31m".to_owned()), Ok(()));
        for provider in ["", "acp:sh -c evil", "./evil", "/bin/evil", "a,b", "a b", "--yolo=1", "é"] {
            let error = ChildRequest { provider: provider.to_owned(), ..request() }.check().unwrap_err();
            assert!(error.contains("name of one provider"), "{provider}: {error}");
        }
        assert!(with(|it| it.prompt = " \n".to_owned()).unwrap_err().contains("needs a prompt"));
        assert!(with(|it| it.prompt = "x".repeat(PROMPT_LIMIT + 1)).unwrap_err().contains("32769 bytes"));
        assert!(with(|it| it.provider = "x".repeat(300)).unwrap_err().contains("`provider`"));
        assert!(with(|it| it.model = Some("m\n".to_owned())).unwrap_err().contains("`model`"));
        assert!(with(|it| it.effort = Some(String::new())).unwrap_err().contains("`effort`"));
        assert!(with(|it| it.name = Some("\u{1b}[2J".to_owned())).unwrap_err().contains("`name`"));
    }

    #[test]
    fn it_has_no_other_fields() {
        let read = |text: &str| serde_json::from_str::<ChildRequest>(text).map_err(|error| error.to_string());
        assert_eq!(read(r#"{"provider":"alpha","prompt":"Review it"}"#), Ok(request()));
        for field in ["cwd", "env", "args", "mcp_servers", "resume", "parent", "binary"] {
            let text = format!(r#"{{"provider":"alpha","prompt":"x","{field}":"y"}}"#);
            assert!(read(&text).unwrap_err().contains("unknown field"), "{field}");
        }
        assert!(read(r#"{"provider":"a","provider":"b","prompt":"x"}"#).is_err(), "twice");
        assert_eq!(request().mode(), PermissionMode::Ask);
    }
}
