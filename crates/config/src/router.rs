//! `router.yaml`: the providers to choose from, in the form of the executable providers' specification.
//!
//! Every key that is read has an effect. The programs that introduced this form have three variants of it. Keys that only
//! describe and decide nothing are listed in [`Router::without_effect`](bowline::settings::Router::without_effect), so that a warning can name them.

pub(super) mod claims;
mod narrow;
mod routing;
mod unknown;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline_engine::budget::Amounts;
use bowline_engine::route::canonical;
use bowline_protocol::{Json, Sampling};

use super::source::ConfigSource;
use super::yaml::{Fields, Node, YamlReader};
use crate::trust::LeftOut;
use bowline::settings::ConfigError;
use bowline::settings::{EntryKind, FileOwner, Lacks, Router, RouterEntry};
pub(super) use narrow::{lower, narrowed, smaller};

/// The priority of an entry that has none.
const USUAL_PRIORITY: i64 = 50;

/// How a file is read.
pub(super) enum Reading<'a> {
    /// All of it, with variables of the environment.
    Whole(FileOwner, &'a dyn Fn(&str) -> Option<String>),
    /// A project's file without trust. The parts that need trust are listed here.
    Untrusted(&'a mut Vec<LeftOut>),
}

/// The keys of `config` that the form names. Every other one is a setting of the executable.
const CONFIG_KEYS: [&str; 17] = [
    "args",
    "binary",
    "capabilities",
    "cost_per_1k_tokens",
    "env",
    "max_tokens",
    "model",
    "options",
    "path",
    "profile",
    "provider",
    "source",
    "temperature",
    "timeout",
    "top_p",
    "trust_level",
    "version",
];

/// Reads a router's file.
pub(super) fn read(source: &ConfigSource, reading: Reading<'_>) -> Result<Router, ConfigError> {
    RouterParser::read(source, reading)
}

/// A router's file that is being read.
struct RouterParser(Router);

impl RouterParser {
    fn read(source: &ConfigSource, reading: Reading<'_>) -> Result<Router, ConfigError> {
        let (owner, variable, mut left_out) = match reading {
            Reading::Whole(owner, variable) => (owner, variable, None),
            Reading::Untrusted(left_out) => (FileOwner::Project, &claims::unfilled as _, Some(left_out)),
        };
        let reader = YamlReader { source, variable };
        let mut router = Self(Router { path: source.path.clone(), owner, ..Router::default() });
        let Some(root) = reader.tree()? else { return Ok(router.0) };
        let mut fields = reader.fields(&root, "a map with `providers`")?;
        // Skip parts that need trust: not even their mistakes are reported.
        let claimed =
            left_out.is_some().then(|| claims::of_file(source)).transpose()?.unwrap_or_default().parts;
        if let Some(left_out) = &mut left_out {
            left_out
                .extend(claimed.iter().map(|it| LeftOut::part(&source.path, it.line, &it.name, &it.claims)));
            fields.drop_named(|key| key != "providers" && claimed.iter().any(|part| part.name == key));
        }
        if let Some(list) = fields.take("providers") {
            let is_claimed = |node: &Node| left_out.is_some() && !claims::of_entry(&reader, node).is_empty();
            for node in reader.list(list, "a list of providers")?.iter().filter(|node| !is_claimed(node)) {
                let entry = router.one(&reader, node)?;
                if let Some(first) = router.0.providers.iter().find(|known| known.name == entry.name) {
                    let what = format!(
                        "there are two providers `{}`; the first is in line {}",
                        entry.name, first.line
                    );
                    return Err(reader.of(node, what).expected("another name"));
                }
                router.0.providers.push(entry);
            }
        }
        if let Some(node) = fields.take("routing") {
            router.routing(&reader, node)?;
        }
        if let Some(node) = fields.take("budgets") {
            let mut budgets = reader.fields(node, "a map with `request`, `day` and `project`")?;
            for scope in ["request", "day", "project"] {
                if let Some(node) = budgets.take(scope) {
                    let amounts = amounts(&reader, node)?;
                    if scope != "request" && amounts.time.is_some() {
                        let what = format!("`time` means nothing in `budgets.{scope}`");
                        return Err(reader
                            .of(node, what)
                            .expected("`cost` or `tokens`; time is counted for a request"));
                    }
                    router.0.budgets.insert(scope, amounts);
                }
            }
            reader.finish(&budgets, "`budgets`")?;
        }
        // After the other parts: keys of the variants fill in what `routing` leaves open, and change the priority of entries.
        router.variants(&reader, &mut fields)?;
        reader.finish(&fields, "a router's file")?;
        Ok(router.0)
    }

    fn one(&mut self, reader: &YamlReader<'_>, node: &Node) -> Result<RouterEntry, ConfigError> {
        let mut fields = reader.fields(node, "a provider: a map with `name`")?;
        let Some(name) = fields.take("name") else {
            return Err(reader.of(node, "this provider has no name").expected("`name: …`"));
        };
        let mut entry = self.empty(entry_name(reader, name)?, node.line());
        let kind = match fields.take("type") {
            Some(node) => Some((node, reader.choice(node, &TYPES)?)),
            None => None,
        };
        if let Some(node) = fields.take("enabled") {
            entry.enabled = reader.truth(node)?;
        }
        if let Some(node) = fields.take("priority") {
            entry.priority = reader.number(node, "a whole number")?;
        }
        if let Some(models) = fields.take("models") {
            entry.models = models_by_hint(reader, models)?;
        }
        for key in ["source", "version", "trust_level"] {
            if fields.take(key).is_some() {
                self.0.without_effect.push(format!("providers.{}.{key}", entry.name));
            }
        }
        let capabilities = fields.take("capabilities");
        let mut config = match fields.take("config") {
            Some(node) => reader.fields(node, "a map")?,
            None => Fields::default(),
        };
        reader.finish(&fields, &format!("the provider `{}`", entry.name))?;
        self.config(reader, &mut entry, &mut config)?;
        if let Some(node) = capabilities {
            capable(reader, &mut entry, node)?;
        }
        entry.kind = self.kind(reader, &mut entry, kind, &mut config)?;
        Ok(entry)
    }

    /// Makes an entry with the usual values.
    fn empty(&self, name: String, line: usize) -> RouterEntry {
        RouterEntry {
            name,
            line,
            owner: self.0.owner,
            kind: EntryKind::Foreign(String::new()),
            enabled: true,
            priority: USUAL_PRIORITY,
            profile: None,
            timeout: None,
            model: None,
            env: BTreeMap::new(),
            options: BTreeMap::new(),
            unknown: BTreeMap::new(),
            streaming: None,
            sampling: Sampling::default(),
            cost_per_1k: None,
            lacks: Lacks::default(),
            models: BTreeMap::new(),
        }
    }

    /// Reads what an entry runs: an agent, an executable, or nothing that Bowline can run.
    fn kind(
        &self,
        reader: &YamlReader<'_>,
        entry: &mut RouterEntry,
        kind: Option<(&Node, Type)>,
        config: &mut Fields<'_>,
    ) -> Result<EntryKind, ConfigError> {
        let path = config.take("path");
        let args = config.take("args");
        let provider = config.take("provider");
        let binary = config.take("binary");
        if path.is_some() {
            // A key that the specification does not name is a setting of the executable itself, as below `options`.
            for (key, value) in config.rest() {
                let name = reader.word(key, "a name")?;
                entry.options.entry(name).or_insert(option(reader, value)?);
            }
        } else {
            entry.unknown = unknown::keys(reader, config, &entry.name)?;
        }
        Ok(match (kind, path) {
            (Some((node, Type::Foreign(word))), _) => {
                if entry.enabled {
                    return Err(reader
                        .of(node, format!("`{word}` providers cannot be driven: Bowline runs command lines"))
                        .expected("`type: cli`, or `enabled: false` to leave it in the file"));
                }
                EntryKind::Foreign(word.to_owned())
            }
            (Some((node, Type::Agent)), Some(_)) => {
                return Err(reader
                    .of(node, "an agent has no `config.path`")
                    .expected("`config.binary` for its program"));
            }
            (_, Some(path)) => {
                let args = args.map(|node| reader.texts(node)).transpose()?.unwrap_or_default();
                EntryKind::Executable { path: self.resolved(&reader.word(path, "a path")?), args }
            }
            (_, None) => {
                if let Some(args) = args {
                    return Err(reader
                        .of(args, "`args` belong to an executable")
                        .expected("`config.path` beside them"));
                }
                let provider = provider.map(|node| reader.word(node, "a provider")).transpose()?;
                let provider = provider.unwrap_or_else(|| entry.name.clone());
                let binary = binary.map(|node| reader.word(node, "a path")).transpose()?;
                // The program of an `acp:` command is its first word. Where that is a relative path, it is meant from
                // the file, as every other path here, and not from where the command happens to run.
                let command = provider.strip_prefix("acp:").and_then(|it| it.split_whitespace().next());
                let command = command.filter(|program| program.contains('/')).map(str::to_owned);
                let binary = binary.or(command).map(|path| self.resolved(&path));
                EntryKind::Agent { provider, binary }
            }
        })
    }

    fn config(
        &mut self,
        reader: &YamlReader<'_>,
        entry: &mut RouterEntry,
        config: &mut Fields<'_>,
    ) -> Result<(), ConfigError> {
        if let Some(node) = config.take("timeout") {
            entry.timeout = Some(reader.span(node)?);
        }
        if let Some(node) = config.take("model") {
            entry.model = Some(reader.word(node, "a model")?);
        }
        if let Some(node) = config.take("profile") {
            entry.profile = Some(reader.word(node, "the name of a profile")?);
        }
        if let Some(node) = config.take("env") {
            entry.env = reader.words(node)?;
        }
        if let Some(node) = config.take("options") {
            for (key, value) in reader.fields(node, "a map")?.rest() {
                entry.options.insert(reader.word(key, "a name")?, option(reader, value)?);
            }
        }
        if let Some(node) = config.take("capabilities") {
            capable(reader, entry, node)?;
        }
        if let Some(node) = config.take("max_tokens") {
            entry.sampling.max_tokens = Some(reader.number(node, "a number of tokens")?);
        }
        if let Some(node) = config.take("temperature") {
            entry.sampling.temperature = Some(reader.sampling(node)?);
        }
        if let Some(node) = config.take("top_p") {
            entry.sampling.top_p = Some(reader.sampling(node)?);
        }
        if let Some(node) = config.take("cost_per_1k_tokens") {
            entry.cost_per_1k = Some(reader.money(node)?);
        }
        for key in ["trust_level", "source", "version"] {
            if config.take(key).is_some() {
                self.0.without_effect.push(format!("providers.{}.config.{key}", entry.name));
            }
        }
        Ok(())
    }

    /// A path with a directory in it is meant from the file; a bare name is looked for on `PATH`.
    fn resolved(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        match self.0.path.parent() {
            Some(dir) if path.is_relative() && path.components().count() > 1 => dir.join(path),
            _ => path.to_owned(),
        }
    }
}

/// Reads a setting that only the provider understands.
fn option(reader: &YamlReader<'_>, value: &Node) -> Result<Json, ConfigError> {
    let text = reader.json(value).to_string();
    serde_json::from_str(&text).map_err(|error| reader.of(value, error.to_string()))
}

#[derive(Clone, Copy, Debug)]
enum Type {
    Cli,
    Agent,
    Foreign(&'static str),
}

/// The types of the specification and its variants, and our own word for an agent that Bowline knows.
const TYPES: [(&str, Type); 5] = [
    ("cli", Type::Cli),
    ("agent", Type::Agent),
    ("api", Type::Foreign("api")),
    ("grpc", Type::Foreign("grpc")),
    ("native", Type::Foreign("native")),
];

/// Reads the capabilities of an entry. Only a `false` or a bound has an effect.
fn capable(reader: &YamlReader<'_>, entry: &mut RouterEntry, node: &Node) -> Result<(), ConfigError> {
    let mut fields = reader.fields(node, "a map of capabilities")?;
    if let Some(node) = fields.take("streaming") {
        entry.streaming = Some(reader.truth(node)?);
    }
    for (key, lacks) in [
        ("tools", &mut entry.lacks.tools),
        ("multi_turn", &mut entry.lacks.multi_turn),
        ("vision", &mut entry.lacks.vision),
    ] {
        if let Some(node) = fields.take(key) {
            *lacks = !reader.truth(node)?;
        }
    }
    if let Some(node) = fields.take("max_context_tokens") {
        entry.lacks.max_context = Some(reader.number(node, "a number of tokens")?);
    }
    if let Some(node) = fields.take("cost_per_1k_tokens") {
        entry.cost_per_1k = Some(reader.money(node)?);
    }
    reader.finish(&fields, "`capabilities`")
}

fn amounts(reader: &YamlReader<'_>, node: &Node) -> Result<Amounts, ConfigError> {
    let mut fields = reader.fields(node, "a map with `cost`, `tokens` and `time`")?;
    let amounts = Amounts {
        cost: fields.take("cost").map(|node| reader.money(node)).transpose()?,
        tokens: fields.take("tokens").map(|node| reader.number(node, "a number of tokens")).transpose()?,
        time: fields.take("time").map(|node| reader.span(node)).transpose()?,
    };
    reader.finish(&fields, "a budget")?;
    Ok(amounts)
}

/// Reads the name of an entry. Some names mean something else where a provider is named.
fn entry_name(reader: &YamlReader<'_>, node: &Node) -> Result<String, ConfigError> {
    let word = reader.word(node, "a name")?;
    if word.eq_ignore_ascii_case(bowline::route::AUTO) || word.contains(',') || word.starts_with("acp:") {
        return Err(reader
            .of(node, format!("`{word}` means something else where a provider is named"))
            .expected("a name without commas that is not `auto` and does not begin with `acp:`"));
    }
    Ok(word)
}

/// Reads the models of an entry by hint.
fn models_by_hint(reader: &YamlReader<'_>, node: &Node) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut models = BTreeMap::new();
    for (key, value) in reader.fields(node, "a map of models by hint")?.rest() {
        let said = reader.word(key, "a hint such as `fast`")?;
        let hint = canonical(&said);
        if models.insert(hint.clone(), reader.word(value, "a model")?).is_some() {
            return Err(reader
                .of(key, format!("the hint `{hint}` has two models: `{said}` means the same"))
                .expected("one model for a hint"));
        }
    }
    Ok(models)
}
