//! The settings: the name, the form of the value, and the flag or variable that also sets it.

use toml_edit::Value;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name, with dots. `*` stands for a name that a person chooses.
    pub name: &'static str,
    /// The type of its values.
    pub kind: KeyKind,
    /// A description, as a clause.
    pub about: &'static str,
    /// The variable of the environment that says it too.
    pub env: Option<&'static str>,
    /// The default; empty for none.
    pub default: &'static str,
    /// A value, as an example.
    pub example: &'static str,
}

/// The type of a setting's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number from 0.
    Count,
    /// An amount of US dollars.
    Money,
    /// A span of time.
    Time,
    /// True or false.
    Truth,
    /// A list of texts.
    Words,
    /// A program and its arguments, as a list of texts.
    Program,
    /// A list of some of these words.
    Several(&'static [&'static str]),
}

const fn key(name: &'static str, kind: KeyKind, about: &'static str, example: &'static str) -> Key {
    Key { name, kind, about, env: None, default: "", example }
}

const fn with_variable(key: Key, env: &'static str, default: &'static str) -> Key {
    Key { env: Some(env), default, ..key }
}

const fn with_default(key: Key, default: &'static str) -> Key {
    Key { default, ..key }
}

const MODES: &[&str] = &["read", "ask", "edit", "yolo"];
const STRATEGIES: &[&str] = &["priority", "round-robin", "least-latency", "least-cost"];
const FALLBACKS: &[&str] = &["none", "next", "any"];
const STREAM_FALLBACKS: &[&str] = &["never", "untouched", "before-tools", "always"];
const ATTENTION: &[&str] = &["approval", "question", "limit", "turn_end"];
const UNRESTRICTED: &[&str] = &["warn", "refuse"];

/// Every setting.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    with_variable(key("run.provider", KeyKind::Text, "the default provider; `auto` lets the router choose", "auto"), "BOWLINE_PROVIDER", ""),
    with_variable(key("run.model", KeyKind::Text, "the default model", "a-model"), "BOWLINE_MODEL", ""),
    with_variable(key("run.permission", KeyKind::Choice(MODES), "the default permission mode", "ask"), "BOWLINE_PERMISSION", "ask"),
    with_variable(key("run.timeout", KeyKind::Time, "time limit of a run", "10m"), "BOWLINE_TIMEOUT", ""),
    with_variable(key("run.idle-timeout", KeyKind::Time, "time limit without output", "5m"), "BOWLINE_IDLE_TIMEOUT", ""),
    with_variable(key("run.stream-fallback", KeyKind::Choice(STREAM_FALLBACKS), "whether to send a prompt again without streaming if the stream ends without a result", "untouched"), "BOWLINE_STREAM_FALLBACK", "untouched"),
    with_variable(key("route.strategy", KeyKind::Choice(STRATEGIES), "the order in which the router tries providers", "priority"), "BOWLINE_STRATEGY", "priority"),
    with_variable(key("route.fallback", KeyKind::Choice(FALLBACKS), "whether the router tries another provider after a failure", "next"), "BOWLINE_FALLBACK", "next"),
    with_variable(key("route.retries", KeyKind::Count, "retries of each provider", "2"), "BOWLINE_RETRIES", "2"),
    with_variable(key("route.wait-for-limit", KeyKind::Truth, "whether to wait for a used-up limit to reset", "false"), "BOWLINE_WAIT_FOR_LIMIT", "false"),
    key("budget.request.cost", KeyKind::Money, "cost limit of one request, in US dollars", "2.50"),
    key("budget.request.tokens", KeyKind::Count, "token limit of one request", "500000"),
    key("budget.request.time", KeyKind::Time, "time limit of one request", "30m"),
    key("budget.day.cost", KeyKind::Money, "cost limit of a day, in US dollars", "20"),
    key("budget.day.tokens", KeyKind::Count, "token limit of a day", "10000000"),
    key("budget.project.cost", KeyKind::Money, "cost limit of a project, ever, in US dollars", "200"),
    key("budget.project.tokens", KeyKind::Count, "token limit of a project, ever", "100000000"),
    key("permission.unrestricted", KeyKind::Choice(UNRESTRICTED), "an agent that cannot be restricted: run it under `ask` with a warning, or refuse it", "refuse"),
    key("attention.command", KeyKind::Program, "a program that runs when an agent needs you", "[\"/home/me/bin/page-me\"]"),
    with_default(key("attention.notice", KeyKind::Truth, "whether to show a desktop notice when an agent needs you", "true"), "false"),
    with_default(key("attention.on", KeyKind::Several(ATTENTION), "the events for which the program runs and the notice shows", "[\"approval\", \"question\"]"), r#"["approval","question","limit","turn_end"]"#),
    key("providers.*.args", KeyKind::Words, "native arguments for the agent's program, like `agent_args`", "[\"--verbose\"]"),
    key("providers.*.format", KeyKind::Text, "output format of the agent's program, instead of the best one", "text"),
    key("profiles.*.provider", KeyKind::Text, "the provider of this profile", "the-agent"),
    key("profiles.*.home", KeyKind::Text, "the directory with the settings and login of its program", "/home/me/.agent-work"),
    key("prices.*.input", KeyKind::Money, "price of a million input tokens, in US dollars", "3"),
    key("prices.*.output", KeyKind::Money, "price of a million output tokens", "15"),
    key("prices.*.cache-read", KeyKind::Money, "price of a million tokens read from a cache", "0.30"),
    key("prices.*.cache-write", KeyKind::Money, "price of a million tokens written to a cache", "3.75"),
];

impl Key {
    /// Finds a setting by its full name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.fits(name))
    }

    fn fits(&self, name: &str) -> bool {
        match self.name.split_once('*') {
            // A name that a person chooses may have dots in it: names of models do.
            Some((before, after)) => name
                .strip_prefix(before)
                .and_then(|rest| rest.strip_suffix(after))
                .is_some_and(|chosen| !chosen.is_empty()),
            None => self.name == name,
        }
    }

    /// Returns the full name that a person means who writes it as in a file: `prices."gpt-5.5".input`. Quotes may be left out
    /// where a name has dots in it.
    pub fn spelled(name: &str) -> Result<String, String> {
        match toml_edit::Key::parse(name) {
            Ok(parts) => Ok(parts.iter().map(toml_edit::Key::get).collect::<Vec<_>>().join(".")),
            Err(error) if name.contains(['"', '\'']) => {
                Err(format!("`{name}` is not a name: {}", error.message().lines().next().unwrap_or_default()))
            }
            // Names of models have letters that TOML wants in quotes.
            Err(_) => Ok(name.to_owned()),
        }
    }

    /// Writes a value of this setting as TOML.
    pub fn in_toml(&self, value: &str) -> String {
        self.kind.toml(value).to_string()
    }

    /// Returns whether there are settings below a name.
    pub(super) fn has_below(name: &str) -> bool {
        KEYS.iter().any(|key| {
            let free = key.name.split_once('*').map(|(before, _)| before);
            key.name.starts_with(&format!("{name}.")) || free.is_some_and(|free| name.starts_with(free))
        })
    }

    /// Returns whether a file that comes with a project may set this.
    pub(super) fn project_may(&self, value: &str) -> bool {
        // A command that a project chose would run without an approval.
        let own = ["attention.", "profiles.", "prices.", "providers."]
            .iter()
            .any(|start| self.name.starts_with(start));
        match self.name {
            "run.permission" => matches!(value, "read" | "ask"),
            "run.stream-fallback" => matches!(value, "never" | "untouched"),
            "permission.unrestricted" => value == "refuse",
            // `acp:` is followed by a command.
            "run.provider" => !value.contains("acp:"),
            _ => !own,
        }
    }
}

impl KeyKind {
    /// Returns the expected form of a value.
    pub fn expected(self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Count => "a whole number from 0".to_owned(),
            Self::Money => "an amount of US dollars such as 0.50".to_owned(),
            Self::Time => "a time such as 90s or 10m".to_owned(),
            Self::Truth => "true or false".to_owned(),
            Self::Words => "a list of texts such as [\"--verbose\"]".to_owned(),
            Self::Program => {
                "a list with an absolute path, or a name on `PATH`, and arguments, such as [\"notify-me\", \"--loud\"]"
                    .to_owned()
            }
            Self::Several(all) => format!("a list of some of {}", all.join(", ")),
        }
    }

    /// Checks a value, or says what was expected.
    pub fn check(self, text: &str) -> Result<(), String> {
        let good = match self {
            Self::Text => !text.trim().is_empty(),
            Self::Choice(words) => words.contains(&text),
            Self::Count => text.parse::<u64>().is_ok(),
            Self::Money => text.parse::<f64>().is_ok_and(|amount| amount.is_finite() && amount >= 0.0),
            Self::Time => super::span(text).is_some(),
            Self::Truth => matches!(text, "true" | "false"),
            Self::Words => words(text).is_some(),
            Self::Program => words(text).is_some_and(|words| {
                words.first().is_none_or(|program| {
                    // A relative path would mean another file in each directory.
                    let is_found = program.starts_with('/') || !program.contains('/');
                    is_found && !program.trim().is_empty() && !words.iter().any(|word| word.contains('\0'))
                })
            }),
            Self::Several(all) => {
                words(text).is_some_and(|words| words.iter().all(|word| all.contains(&word.as_str())))
            }
        };
        if good { Ok(()) } else { Err(self.expected()) }
    }

    /// Checks a value as TOML has it: a number in quotes is a text.
    pub(super) fn check_as(self, value: Option<&Value>, text: &str) -> Result<(), String> {
        let quoted = value.is_some_and(Value::is_str);
        let wants_quotes = matches!(self, Self::Text | Self::Choice(_) | Self::Time);
        if quoted == wants_quotes { self.check(text) } else { Err(self.expected()) }
    }

    /// Writes a value as TOML.
    pub(super) fn toml(self, text: &str) -> Value {
        match self {
            Self::Text | Self::Choice(_) | Self::Time => Value::from(text),
            Self::Count => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
            Self::Money => text.parse::<f64>().map_or_else(|_| Value::from(text), Value::from),
            Self::Truth => Value::from(text == "true"),
            Self::Words | Self::Program | Self::Several(_) => {
                Value::Array(words(text).unwrap_or_default().into_iter().collect())
            }
        }
    }
}

/// Reads a list of texts, as a setting holds it: a JSON array, which is TOML too.
pub(super) fn words(text: &str) -> Option<Vec<String>> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use bowline::attention::AttentionEvent;
    use bowline_engine::retry::Fallback;
    use bowline_engine::route::RouteStrategy;

    use super::*;

    #[test]
    fn every_default_and_example_is_what_it_may_be() {
        for key in KEYS {
            assert_eq!(key.kind.check(key.example), Ok(()), "{}", key.name);
            if !key.default.is_empty() {
                assert_eq!(key.kind.check(key.default), Ok(()), "{}", key.name);
            }
        }
    }

    #[test]
    fn the_words_are_those_of_the_router() {
        assert_eq!(STRATEGIES, RouteStrategy::ALL.map(RouteStrategy::as_str));
        assert_eq!(FALLBACKS, Fallback::ALL.map(Fallback::as_str));
        assert_eq!(ATTENTION, AttentionEvent::ALL.map(AttentionEvent::as_str));
    }

    #[test]
    fn a_chosen_name_may_have_dots() {
        assert_eq!(Key::named("prices.gpt-5.5.input").unwrap().name, "prices.*.input");
        assert_eq!(Key::spelled(r#"prices."gpt-5.5".input"#).as_deref(), Ok("prices.gpt-5.5.input"));
        assert_eq!(Key::spelled("prices.'a b'.input").as_deref(), Ok("prices.a b.input"));
        assert_eq!(
            Key::spelled("prices.llama3.2:latest.input").as_deref(),
            Ok("prices.llama3.2:latest.input")
        );
        assert!(Key::spelled(r#"prices."gpt-5.5.input"#).is_err_and(|why| why.contains("is not a name")));
        assert!(Key::named("prices.input").is_none());
        assert!(Key::has_below("prices") && Key::has_below("prices.gpt-5"));
        assert!(!Key::has_below("run.provider"));
    }
}
