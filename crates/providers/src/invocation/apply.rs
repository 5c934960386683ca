//! Applies one option at a time, as the manifest defines it.

use std::collections::{BTreeMap, BTreeSet};

use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{Attachment, FieldValue};

use super::mcp::{self, OwnEntry, Servers};
use super::prompt::{self, PromptBody};
use super::request::RequestFields;
use super::{Arg, Invocation, LONGEST_ARGUMENT, Refusal, SideFile, template};
use crate::manifest::run::{Flag, Rule, RunFlag, ValueShape};

/// The value of an option.
pub(super) enum Value<'a> {
    /// The option is set, without a value.
    Nothing,
    /// A text.
    Text(String),
    /// Words that a program must not read as an option.
    Words(Vec<String>),
    /// Directories.
    Paths(&'a [String]),
    /// Files that go with the prompt.
    Files(&'a [Attachment]),
    /// MCP servers.
    Servers(&'a Servers),
}

/// An invocation in the making.
pub(super) struct Draft {
    pub(super) made: Invocation,
    pub(super) body: PromptBody,
    pub(super) fields: RequestFields,
    /// The fields that have set variables, so that the request cannot silently override them.
    pub(super) env_of: Vec<(String, FieldValue)>,
    /// The MCP server that serves the caller's own functions.
    pub(super) host_server: Option<String>,
    /// Options without a value that are there already.
    switches: BTreeSet<String>,
}

impl Draft {
    pub(super) fn new(made: Invocation) -> Self {
        Self {
            made,
            body: PromptBody::default(),
            fields: RequestFields::default(),
            env_of: Vec::new(),
            host_server: None,
            switches: BTreeSet::new(),
        }
    }

    pub(super) fn notice(&mut self, level: Level, code: &str, text: String) {
        self.made.notices.push(Notice { level, text, code: Some(code.to_owned()) });
    }

    pub(super) fn unsupported(&self, field: &FieldValue, reason: impl Into<Box<str>>) -> Refusal {
        Refusal::unsupported(&self.made.provider, field.clone(), reason)
    }

    fn invalid(&self, field: &FieldValue, reason: impl Into<Box<str>>) -> Refusal {
        Refusal::invalid(&self.made.provider, field.clone(), reason)
    }

    /// Adds arguments without placeholders.
    pub(super) fn plain(&mut self, args: &[String]) {
        self.made.args.extend(args.iter().map(|arg| Arg::Plain(arg.clone())));
    }

    pub(super) fn set_env(&mut self, field: &FieldValue, name: &str, value: String) {
        self.made.env.insert(name.to_owned(), value);
        self.env_of.push((name.to_owned(), field.clone()));
    }

    /// Applies an option as the manifest defines it.
    pub(super) fn apply(&mut self, field: &FieldValue, flag: &Flag, value: Value<'_>) -> Result<(), Refusal> {
        if let Some(reason) = &flag.refused {
            return Err(self.unsupported(field, reason.as_str()).maybe_hint(flag.hint.as_ref()));
        }
        if let Some(reason) = &flag.granted {
            self.notice(Level::Info, "option_granted", format!("`{field}` is not needed: {reason}"));
            return Ok(());
        }
        if let Some(reason) = &flag.ignored {
            self.notice(Level::Warn, "option_ignored", format!("`{field}` is ignored: {reason}"));
            return Ok(());
        }
        if flag.protocol {
            return self.by_protocol(field, flag, &value);
        }
        match value {
            Value::Nothing => self.once(field, flag, &[]),
            Value::Text(text) => self.text(field, flag, &text),
            Value::Words(words) => {
                for word in &words {
                    self.word(field, flag, word)?;
                }
                self.many(field, flag, &words)
            }
            Value::Paths(paths) => {
                let paths: Vec<String> = paths.iter().map(|path| guarded(path)).collect();
                for path in &paths {
                    self.check(field, flag, path)?;
                }
                self.many(field, flag, &paths)
            }
            Value::Files(files) => self.files(field, flag, files),
            Value::Servers(servers) => self.servers(field, flag, servers),
        }
    }

    /// Checks what the protocol carries.
    fn by_protocol(&mut self, field: &FieldValue, flag: &Flag, value: &Value<'_>) -> Result<(), Refusal> {
        match value {
            Value::Nothing => Ok(()),
            Value::Text(text) => self.check(field, flag, text),
            Value::Words(texts) => texts.iter().try_for_each(|text| self.check(field, flag, text)),
            Value::Paths(paths) => paths.iter().try_for_each(|path| self.check(field, flag, path)),
            Value::Files(files) => files.iter().try_for_each(|file| self.check_file(field, flag, file)),
            Value::Servers(servers) => {
                self.made.secret_values.extend(mcp::secrets(servers));
                Ok(())
            }
        }
    }

    fn text(&mut self, field: &FieldValue, flag: &Flag, text: &str) -> Result<(), Refusal> {
        self.check(field, flag, text)?;
        if let Some(large) = flag.large.as_ref().filter(|_| text.len() > LONGEST_ARGUMENT) {
            self.made.files.push(SideFile { name: large.file.clone(), content: text.to_owned() });
            return self.args(field, &large.args, &[("file", &large.file)]);
        }
        if let Some(name) = &flag.file {
            self.made.files.push(SideFile { name: name.clone(), content: text.to_owned() });
        }
        let quoted = mcp::toml_text(text);
        let file = flag.file.as_deref().unwrap_or_default();
        self.once(field, flag, &[("value", text), ("toml", &quoted), ("file", file)])
    }

    /// Everything of a flag that is used once.
    fn once(&mut self, field: &FieldValue, flag: &Flag, values: &[(&str, &str)]) -> Result<(), Refusal> {
        self.args(field, &flag.args, values)?;
        for (name, text) in &flag.env {
            if text == "{file}" {
                let file = flag.file.clone().unwrap_or_default();
                self.made.env_files.insert(name.clone(), file);
            } else {
                self.set_env(field, name, filled(text, values));
            }
        }
        let value = values.iter().find(|(name, _)| *name == "value").map_or("", |(_, value)| *value);
        flag.request.iter().for_each(|field| self.fields.set(field, value));
        self.body.before.extend(flag.before.iter().map(|text| filled(text, values)));
        self.body.after.extend(flag.after.iter().map(|text| filled(text, values)));
        Ok(())
    }

    fn many(&mut self, field: &FieldValue, flag: &Flag, values: &[String]) -> Result<(), Refusal> {
        let listed = flag.args.iter().any(|arg| arg.contains("{list}"));
        if let Some(value) = values.iter().find(|value| listed && value.contains(',')) {
            let reason = format!("the values are joined with commas, and `{value}` contains one");
            return Err(self.unsupported(field, reason));
        }
        let list = values.join(",");
        for arg in &flag.args {
            if arg == "{values}" {
                self.made.args.extend(values.iter().cloned().map(Arg::Plain));
            } else {
                self.args(field, std::slice::from_ref(arg), &[("list", &list)])?;
            }
        }
        for value in values {
            self.args(field, &flag.each, &[("value", value), ("toml", &mcp::toml_text(value))])?;
        }
        flag.rule.as_ref().map_or(Ok(()), |rule| self.rule(field, rule, values))
    }

    /// Adds entries to a variable that holds a JSON object.
    fn rule(&mut self, field: &FieldValue, rule: &Rule, values: &[String]) -> Result<(), Refusal> {
        // The mode may have set the same variable: add to its rules, never replace them.
        let before = self.made.env.get(&rule.env).map_or("{}", String::as_str);
        let mut entries: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(before).map_err(|_| {
                let reason = format!("the manifest sets `{}` to a value that is not a JSON object", rule.env);
                Refusal::misconfigured(&self.made.provider, field.clone(), reason)
            })?;
        for value in values {
            entries.insert(value.clone(), rule.says.as_str().into());
        }
        let all: serde_json::Map<String, serde_json::Value> = entries.into_iter().collect();
        self.set_env(field, &rule.env, serde_json::Value::Object(all).to_string());
        Ok(())
    }

    fn files(&mut self, field: &FieldValue, flag: &Flag, files: &[Attachment]) -> Result<(), Refusal> {
        let mut paths = Vec::new();
        for file in files {
            self.check_file(field, flag, file)?;
            let path = guarded(&file.path);
            if let Some(template) = &flag.after {
                let path =
                    prompt::mentioned(&path, flag.blanks).map_err(|why| self.unsupported(field, why))?;
                self.body.mentions.push(filled(template, &[("value", &path)]));
            }
            paths.push(path);
        }
        self.many(field, flag, &paths)
    }

    fn servers(&mut self, field: &FieldValue, flag: &Flag, servers: &Servers) -> Result<(), Refusal> {
        let Some(form) = flag.form else { return Ok(()) };
        self.made.secret_values.extend(mcp::secrets(servers));
        let host = self.host_server.clone();
        let own = host.as_deref().zip(flag.host.as_ref());
        let own = own.map(|(name, rule)| OwnEntry { name, fields: &rule.entry });
        if !flag.each.is_empty() {
            let overrides = mcp::overrides(servers, own).map_err(|why| self.unsupported(field, why))?;
            for value in &overrides.values {
                self.args(field, &flag.each, &[("value", value)])?;
            }
            for (name, value) in overrides.env {
                // The server's variables become the agent's own here: `PATH` of a server would be the agent's too.
                if super::environment::listed(super::environment::BASE, &name) {
                    let reason = format!("the server's variable `{name}` would change the agent's own");
                    return Err(self.unsupported(field, reason));
                }
                if mcp::is_maskable(&value) {
                    self.made.secrets_env.push(name.clone());
                }
                self.set_env(field, &name, value);
            }
        }
        let json = mcp::document(form, servers, own);
        if let Some(name) = &flag.file {
            self.made.files.push(SideFile { name: name.clone(), content: json.clone() });
        }
        let file = flag.file.as_deref().unwrap_or_default();
        self.once(field, flag, &[("json", &json), ("file", file)])
    }

    /// Adds arguments from templates.
    fn args(
        &mut self,
        field: &FieldValue,
        templates: &[String],
        values: &[(&str, &str)],
    ) -> Result<(), Refusal> {
        for (place, arg) in templates.iter().enumerate() {
            if let Some(before) = arg.strip_suffix("{file}") {
                let file = values.iter().find(|(name, _)| *name == "file").map_or("", |(_, file)| *file);
                self.made.args.push(Arg::File { before: before.to_owned(), name: file.to_owned() });
                continue;
            }
            // Pass an option without a value once, even if several of ours need it.
            let next = templates.get(place + 1);
            // A flag with its value in the next argument is no switch, which the next template shows.
            let switch = arg.starts_with("--")
                && !arg.contains(['=', '{'])
                && next.is_none_or(|it| it.starts_with("--"));
            if switch && !self.switches.insert(arg.clone()) {
                continue;
            }
            let text = filled(arg, values);
            // Linux limits one argument to 128 KiB (MAX_ARG_STRLEN, execve(2)) and fails with E2BIG, whatever `ulimit -s` is.
            if text.len() > LONGEST_ARGUMENT {
                let reason = format!(
                    "it is {} bytes long, and an argument holds at most {LONGEST_ARGUMENT} bytes",
                    text.len()
                );
                return Err(Refusal::too_large(&self.made.provider, field.clone(), reason)
                    .hint("shorten it, or put it into a file and mention the file in the prompt"));
            }
            self.made.args.push(Arg::Plain(text));
        }
        Ok(())
    }

    /// Checks a word: the program must not read it as an option.
    fn word(&self, field: &FieldValue, flag: &Flag, word: &str) -> Result<(), Refusal> {
        if word.is_empty() || word.starts_with('-') {
            let reason = format!("`{word}` is not a value: it is empty or would be read as an option");
            return Err(self.invalid(field, reason));
        }
        self.check(field, flag, word)
    }

    fn check_file(&self, field: &FieldValue, flag: &Flag, file: &Attachment) -> Result<(), Refusal> {
        if flag.shape == Some(ValueShape::Image) && !prompt::is_image(file) {
            let reason = format!("only images can be attached; `{}` is not an image", file.path);
            return Err(self.unsupported(field, reason).hint("mention the file in the prompt"));
        }
        self.check(field, flag, &file.path)
    }

    fn check(&self, field: &FieldValue, flag: &Flag, value: &str) -> Result<(), Refusal> {
        // Arguments and variables are C strings: execve(2) would end them at the NUL.
        if value.contains('\0') {
            return Err(self.invalid(field, "a NUL cannot be passed to a program"));
        }
        if !flag.values.is_empty() && !flag.values.iter().any(|known| known == value) {
            let reason = format!("`{value}` is not one of {}", flag.values.join(", "));
            return Err(self.invalid(field, reason).maybe_hint(flag.hint.as_ref()));
        }
        if let Some(bad) = value.chars().find(|c| flag.forbidden.as_ref().is_some_and(|bad| bad.contains(*c)))
        {
            return Err(
                self.unsupported(field, format!("the program would misread the `{bad}` in `{value}`"))
            );
        }
        if flag.shape == Some(ValueShape::Uuid) && !is_uuid(value) {
            let reason = format!("`{value}` is not a session id; the program would start a new session");
            return Err(self.invalid(field, reason).hint("pass the id that the earlier run reported"));
        }
        Ok(())
    }
}

/// Returns whether a value must be a word that cannot be read as an option.
pub(super) fn is_word(flag: RunFlag) -> bool {
    match flag {
        RunFlag::Model | RunFlag::Effort | RunFlag::Resume | RunFlag::Fork => true,
        RunFlag::System
        | RunFlag::AppendSystem
        | RunFlag::MaxTurns
        | RunFlag::MaxCost
        | RunFlag::AddDir
        | RunFlag::AllowTool
        | RunFlag::DenyTool
        | RunFlag::NoTools
        | RunFlag::McpConfig
        | RunFlag::Schema
        | RunFlag::Image
        | RunFlag::Ephemeral
        | RunFlag::Isolate
        | RunFlag::Continue => false,
    }
}

impl Draft {
    /// Checks a value that has to be a word.
    pub(super) fn check_word(&self, field: &FieldValue, word: &str) -> Result<(), Refusal> {
        self.word(field, &Flag::default(), word)
    }
}

/// A path that begins with a dash would be read as an option.
fn guarded(path: &str) -> String {
    if path.starts_with('-') { format!("./{path}") } else { path.to_owned() }
}

fn filled(text: &str, values: &[(&str, &str)]) -> String {
    template::fill(text, |name| values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value))
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.chars().all(|c| c.is_ascii_hexdigit()))
}
