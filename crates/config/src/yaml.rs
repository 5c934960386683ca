//! YAML as a tree that knows the place of everything, and typed readers whose errors name the expected form.
//!
//! Anchors, aliases, tags and several documents have no use in a file of settings, and are refused: what a person reads
//! is what counts. `${NAME}` in a value is a variable of the environment; `$${` is a plain `${`.
//!
//! Routers and policies are read here; manifests, in TOML, by serde. Rejected: serde for these, too. Its data model has no places
//! once a file is read, and a rule of a policy prints its line and column with every judgement. The tree also limits depth and
//! entries before a value is built, and replaces variables only where a value may have them.

use std::collections::{BTreeMap, HashMap};

use bowline_protocol::Millis;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::source::{ConfigSource, SyntaxProblem, list};
use bowline::closest_name;
use bowline::settings::ConfigError;

/// How deep a file may be nested.
const DEEPEST: usize = 16;

/// How many keys a map may have, and how many entries a list.
pub(super) const MOST_ENTRIES: usize = 1000;

/// Something with its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    line: usize,
    column: usize,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    /// Its meaning and its spelling in the file: a variable may hold a secret, so only its name is shown.
    Text {
        text: String,
        written: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// A file, and where its variables come from.
pub(super) struct YamlReader<'a> {
    pub(super) source: &'a ConfigSource,
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
}

impl YamlReader<'_> {
    /// Reads the file into a tree; none if it is empty.
    pub(super) fn tree(&self) -> Result<Option<Node>, ConfigError> {
        let mut parser = Parser::new_from_str(&self.source.text);
        let mut root = None;
        loop {
            let (event, span) = self.next(&mut parser)?;
            match event {
                Event::StreamEnd => return Ok(root),
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                other @ (Event::Alias(_)
                | Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::SequenceEnd
                | Event::MappingStart(..)
                | Event::MappingEnd) => {
                    if root.is_some() {
                        return Err(self.at(span, "a second document begins here").expected("one document"));
                    }
                    root = Some(self.node(other, span, &mut parser, 0)?);
                }
            }
        }
    }

    fn next<'i>(
        &self,
        parser: &mut Parser<'i, saphyr_parser::StrInput<'i>>,
    ) -> Result<(Event<'i>, Span), ConfigError> {
        match parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                let marker = error.marker();
                let wrong = self.source.wrong(marker.line(), marker.col() + 1, "this is not YAML");
                let wrong = wrong.caused_by(SyntaxProblem::new(error.info()));
                let variable = wrong.line.as_ref().is_some_and(|line| line.contains("${"));
                Err(if variable { wrong.expected(r#"quotes around a variable: `"${NAME}"`"#) } else { wrong })
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node<'i>(
        &self,
        event: Event<'i>,
        span: Span,
        parser: &mut Parser<'i, saphyr_parser::StrInput<'i>>,
        depth: usize,
    ) -> Result<Node, ConfigError> {
        // This function is recursive, so a file with deep nesting could overflow the stack.
        if depth > DEEPEST {
            return Err(self.at(span, format!("it is nested deeper than {DEEPEST} levels")));
        }
        let value = match event {
            Event::Alias(_) => {
                return Err(self.at(span, "aliases are not read here").expected("the value itself"));
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                return Err(self.at(span, "tags are not read here").expected("a plain value"));
            }
            Event::Scalar(text, style, _, None) => {
                let plain = style == ScalarStyle::Plain;
                let written = if plain { text.to_string() } else { format!("\"{text}\"") };
                Value::Text { text: self.filled(&text, span)?, written, plain }
            }
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    let (event, span) = self.next(parser)?;
                    if event == Event::SequenceEnd {
                        break Value::List(items);
                    }
                    if items.len() == MOST_ENTRIES {
                        return Err(self.at(span, format!("a list has more than {MOST_ENTRIES} entries")));
                    }
                    items.push(self.node(event, span, parser, depth + 1)?);
                }
            }
            Event::MappingStart(..) => Value::Map(self.entries(parser, depth)?),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Err(self.at(span, "the file ends in the middle of something")),
        };
        Ok(Node { line: span.start.line(), column: span.start.col() + 1, value })
    }

    fn entries<'i>(
        &self,
        parser: &mut Parser<'i, saphyr_parser::StrInput<'i>>,
        depth: usize,
    ) -> Result<Vec<(Node, Node)>, ConfigError> {
        let mut entries: Vec<(Node, Node)> = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        loop {
            let (event, span) = self.next(parser)?;
            if event == Event::MappingEnd {
                return Ok(entries);
            }
            if entries.len() == MOST_ENTRIES {
                return Err(self.at(span, format!("a map has more than {MOST_ENTRIES} keys")));
            }
            let key = self.node(event, span, parser, depth + 1)?;
            let name = self.text(&key, "a name")?;
            if let Some(first) = lines.get(&name) {
                let what = format!("`{name}` is here a second time; the first is in line {first}");
                return Err(self.of(&key, what));
            }
            lines.insert(name, key.line);
            let (event, span) = self.next(parser)?;
            let value = self.node(event, span, parser, depth + 1)?;
            entries.push((key, value));
        }
    }

    /// Puts variables into a value.
    fn filled(&self, text: &str, span: Span) -> Result<String, ConfigError> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, after) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                filled.push_str(before);
                filled.push_str("${");
                rest = &after[2..];
                continue;
            }
            filled.push_str(before);
            let Some(end) = after.find('}') else {
                return Err(self
                    .at(span, "`${` has no `}`")
                    .expected("`${NAME}`, or `$${` for a plain `${`"));
            };
            let name = &after[2..end];
            let Some(value) = (self.variable)(name) else {
                return Err(self
                    .at(span, format!("the variable `{name}` is not set"))
                    .expected(format!("set it (`export {name}=…`), or write the value here")));
            };
            filled.push_str(&value);
            rest = &after[end + 1..];
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn at(&self, span: Span, what: impl Into<String>) -> ConfigError {
        self.source.wrong(span.start.line(), span.start.col() + 1, what)
    }

    /// Makes the error of a node.
    pub(super) fn of(&self, node: &Node, what: impl Into<String>) -> ConfigError {
        self.source.wrong(node.line, node.column, what)
    }

    /// Makes the error of a node of the wrong sort.
    fn unlike(&self, node: &Node, expected: &str) -> ConfigError {
        let is = match &node.value {
            Value::Text { written, .. } if is_null(written) => "nothing".to_owned(),
            Value::Text { written, .. } => format!("`{written}`"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        };
        self.of(node, format!("{is} stands where {expected} is expected"))
    }

    /// Reads a text. A number or a word without quotes is one too.
    pub(super) fn text(&self, node: &Node, expected: &str) -> Result<String, ConfigError> {
        match &node.value {
            Value::Text { text, plain, .. } if !(*plain && is_null(text)) => Ok(text.clone()),
            Value::Text { .. } | Value::List(_) | Value::Map(_) => Err(self.unlike(node, expected)),
        }
    }

    /// Reads a text that is not blank.
    pub(super) fn word(&self, node: &Node, expected: &str) -> Result<String, ConfigError> {
        let text = self.text(node, expected)?;
        if text.trim().is_empty() { Err(self.unlike(node, expected)) } else { Ok(text.trim().to_owned()) }
    }

    /// Reads a truth. Quoted words are texts.
    pub(super) fn truth(&self, node: &Node) -> Result<bool, ConfigError> {
        match &node.value {
            Value::Text { text, plain: true, .. } if text == "true" => Ok(true),
            Value::Text { text, plain: true, .. } if text == "false" => Ok(false),
            Value::Text { .. } | Value::List(_) | Value::Map(_) => Err(self.unlike(node, "true or false")),
        }
    }

    /// Reads a number.
    pub(super) fn number<N: std::str::FromStr>(&self, node: &Node, expected: &str) -> Result<N, ConfigError> {
        match &node.value {
            Value::Text { text, plain: true, .. } => text.parse().map_err(|_| self.unlike(node, expected)),
            Value::Text { .. } | Value::List(_) | Value::Map(_) => Err(self.unlike(node, expected)),
        }
    }

    /// Reads a number that a model's service takes, such as a temperature.
    pub(super) fn sampling(&self, node: &Node) -> Result<f64, ConfigError> {
        let expected = "a number from 0 to 1";
        let number: f64 = self.number(node, expected)?;
        if number.is_finite() && number >= 0.0 { Ok(number) } else { Err(self.unlike(node, expected)) }
    }

    /// Reads an amount of money.
    pub(super) fn money(&self, node: &Node) -> Result<f64, ConfigError> {
        let expected = "an amount of US dollars such as 0.50";
        let amount: f64 = self.number(node, expected)?;
        if amount.is_finite() && amount >= 0.0 { Ok(amount) } else { Err(self.unlike(node, expected)) }
    }

    /// Reads a span of time.
    pub(super) fn span(&self, node: &Node) -> Result<Millis, ConfigError> {
        let expected = "a time such as 120s or 10m";
        let text = self.text(node, expected)?;
        super::settings::span(&text).ok_or_else(|| self.unlike(node, expected))
    }

    /// Reads one of several words.
    pub(super) fn choice<T: Copy>(&self, node: &Node, choices: &[(&str, T)]) -> Result<T, ConfigError> {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let expected = format!("one of {}", list(&words));
        let text = self.text(node, &expected)?;
        let found = choices.iter().find(|(word, _)| *word == text.to_ascii_lowercase().replace('_', "-"));
        found.map(|(_, value)| *value).ok_or_else(|| self.unlike(node, &expected))
    }

    /// Reads a list.
    pub(super) fn list<'n>(&self, node: &'n Node, expected: &str) -> Result<&'n [Node], ConfigError> {
        match &node.value {
            Value::List(items) => Ok(items),
            Value::Text { text, plain: true, .. } if is_null(text) => Ok(&[]),
            Value::Text { .. } | Value::Map(_) => Err(self.unlike(node, expected)),
        }
    }

    /// Reads a list of texts.
    pub(super) fn texts(&self, node: &Node) -> Result<Vec<String>, ConfigError> {
        self.list(node, "a list of texts")?.iter().map(|item| self.text(item, "a text")).collect()
    }

    /// Reads a map of texts.
    pub(super) fn words(&self, node: &Node) -> Result<BTreeMap<String, String>, ConfigError> {
        let fields = self.fields(node, "a map of texts")?;
        fields
            .entries
            .iter()
            .map(|(key, value)| Ok((self.text(key, "a name")?, self.text(value, "a text")?)))
            .collect()
    }

    /// Reads any value as JSON, for the program that gets it.
    pub(super) fn json(&self, node: &Node) -> serde_json::Value {
        match &node.value {
            Value::Text { text, plain: true, .. } => {
                serde_json::from_str(text).unwrap_or_else(|_| serde_json::Value::from(text.clone()))
            }
            Value::Text { text, .. } => serde_json::Value::from(text.clone()),
            Value::List(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|(key, value)| (self.text(key, "").unwrap_or_default(), self.json(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    /// Reads a map, key by key.
    pub(super) fn fields<'n>(&self, node: &'n Node, expected: &str) -> Result<Fields<'n>, ConfigError> {
        match &node.value {
            Value::Map(entries) => Ok(Fields {
                entries: entries.iter().map(|(key, value)| (key, value)).collect(),
                known: Vec::new(),
            }),
            Value::Text { text, plain: true, .. } if is_null(text) => {
                Ok(Fields { entries: Vec::new(), known: Vec::new() })
            }
            Value::Text { .. } | Value::List(_) => Err(self.unlike(node, expected)),
        }
    }

    /// Refuses a key of a map that no reader took.
    pub(super) fn finish(&self, fields: &Fields<'_>, of: &str) -> Result<(), ConfigError> {
        let Some((key, _)) = fields.entries.first() else { return Ok(()) };
        let name = self.text(key, "a name")?;
        let hint = match closest_name(&name, fields.known.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("there is {}", list(&fields.known)),
        };
        Err(self.of(key, format!("`{name}` is not known in {of}")).expected(hint))
    }
}

/// The keys of a map that no reader has taken yet.
#[derive(Debug, Default)]
pub(super) struct Fields<'n> {
    entries: Vec<(&'n Node, &'n Node)>,
    known: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Takes the value of a key.
    pub(super) fn take(&mut self, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        let is = |(key, _): &(&Node, &Node)| matches!(&key.value, Value::Text { text, .. } if text == name);
        let at = self.entries.iter().position(is)?;
        Some(self.entries.remove(at).1)
    }

    /// Drops keys, as if they were not there.
    pub(super) fn drop_named(&mut self, dropped: impl Fn(&str) -> bool) {
        let is = |key: &Node| matches!(&key.value, Value::Text { text, .. } if dropped(text));
        self.entries.retain(|(key, _)| !is(key));
    }

    /// Returns the names that were asked for.
    pub(super) fn known(&self) -> &[&'static str] {
        &self.known
    }

    /// Takes all that is left.
    pub(super) fn rest(&mut self) -> Vec<(&'n Node, &'n Node)> {
        std::mem::take(&mut self.entries)
    }
}

impl Node {
    /// Returns the line, counted from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Returns the column, counted from 1.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// Calls for every `${NAME}` in it, keys among them, with the line.
    pub(super) fn variables(&self, each: &mut dyn FnMut(usize, &str)) {
        match &self.value {
            Value::Text { written, .. } => {
                for (at, _) in written.match_indices("${") {
                    // `$${` is a plain `${`.
                    if !written[..at].ends_with('$') {
                        let name = written[at + 2..].split('}').next().unwrap_or_default();
                        each(self.line, name);
                    }
                }
            }
            Value::List(items) => items.iter().for_each(|item| item.variables(each)),
            Value::Map(entries) => entries.iter().for_each(|(key, value)| {
                key.variables(each);
                value.variables(each);
            }),
        }
    }
}

/// Lists every key of a file that has a value, by its path: `providers[].config.timeout`. A name that people choose is `*`.
#[cfg(test)]
pub(crate) fn paths(text: &str) -> std::collections::BTreeSet<String> {
    fn walk(node: &Node, path: &str, all: &mut std::collections::BTreeSet<String>) {
        match &node.value {
            Value::Map(entries) if !entries.is_empty() => {
                let free =
                    ["models", "env", "model_hints"].iter().any(|name| path.ends_with(&format!(".{name}")));
                for (key, value) in entries {
                    let Value::Text { text, .. } = &key.value else { panic!("a key is a text") };
                    let name = if free { "*" } else { text };
                    let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                    walk(value, &below, all);
                }
            }
            Value::List(items) if items.iter().any(|item| matches!(item.value, Value::Map(_))) => {
                items.iter().for_each(|item| walk(item, &format!("{path}[]"), all));
            }
            Value::Text { .. } | Value::List(_) | Value::Map(_) => drop(all.insert(path.to_owned())),
        }
    }
    let source = ConfigSource { path: "example.yaml".into(), text: text.to_owned() };
    let tree = YamlReader { source: &source, variable: &|_| None }.tree().expect("YAML").expect("something");
    let mut all = std::collections::BTreeSet::new();
    walk(&tree, "", &mut all);
    all
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}
