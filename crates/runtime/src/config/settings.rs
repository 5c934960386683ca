//! `bowline.toml`: which settings there are, what the files say about them, and whose word counts.
//!
//! [`KEYS`] is the one list: reading, showing, changing, and the file that `bowline init` writes all go by it.

pub mod edit;
mod keys;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use bowline_engine::budget::Amounts;
use bowline_protocol::Millis;
use bowline_providers::prices;
use toml_edit::{Document, Item, Value};

use super::place::Places;
use super::project::ProjectReader;
use super::source::{ConfigError, Source, list};
use crate::near;
use crate::profile::Profile;
use crate::trust::LeftOut;
pub use keys::{KEYS, Key, KeyKind};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A person's file.
    User(PathBuf, usize),
    /// A project's file.
    Project(PathBuf, usize),
    /// A variable of the environment.
    Variable(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(path, line) | Self::Project(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "${name}"),
        }
    }
}

/// A value that somebody set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value, as text.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// What the files and the environment say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, Setting>,
    files: Vec<PathBuf>,
    /// What of a project's file is not used.
    ignored: Vec<LeftOut>,
}

/// Checks what a file would say: one in a directory `.bowline` is a project's.
fn check(source: &Source) -> Result<(), ConfigError> {
    let project = source.path.parent().is_some_and(|dir| dir.ends_with(".bowline"));
    Settings::default().source(source, if project { Whose::Project } else { Whose::User })
}

/// Whose file is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    User,
    Project,
    /// A project's, with the content that `bowline trust` has pinned.
    TrustedProject,
}

/// The settings that a project without trust may only lower, besides budgets.
const LOWERED: [&str; 7] = [
    "run.permission",
    "run.timeout",
    "run.idle-timeout",
    "run.stream-fallback",
    "route.fallback",
    "route.retries",
    "route.wait-for-limit",
];

/// What becomes of a project's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowance {
    /// It counts.
    Used,
    /// What the user has is the same or lower.
    Lower,
    /// It allows more than the user does.
    Wider,
}

impl Settings {
    pub(super) fn read(
        places: &Places,
        variable: &dyn Fn(&str) -> Option<String>,
        project: &mut ProjectReader,
    ) -> Result<Self, ConfigError> {
        let mut settings = Self::default();
        if let Some(path) = places.user_settings().filter(|path| path.exists()) {
            settings.source(&Source::read(&path)?, Whose::User)?;
        }
        let theirs = places.project_settings().map(|path| project.source(&path)).transpose()?;
        if let Some(source) = theirs.flatten() {
            let trusted = project.is_trusted(&source, &[]);
            settings.source(&source, if trusted { Whose::TrustedProject } else { Whose::Project })?;
            project.left_out.append(&mut settings.ignored);
        }
        for key in KEYS {
            let Some((name, value)) = key.env.and_then(|name| Some((name, variable(name)?))) else {
                continue;
            };
            if value.trim().is_empty() {
                continue;
            }
            if let Err(expected) = key.kind.check(&value) {
                return Err(ConfigError {
                    path: format!("${name}").into(),
                    at: None,
                    line: None,
                    what: format!("`{value}` stands where {expected} is expected"),
                    hint: Some(format!("it sets `{}`; `unset {name}` does without", key.name)),
                });
            }
            settings.values.insert(key.name.to_owned(), Setting { value, origin: Origin::Variable(name) });
        }
        Ok(settings)
    }

    /// Returns the files that were read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    fn source(&mut self, source: &Source, whose: Whose) -> Result<(), ConfigError> {
        let document = Document::parse(source.text.clone()).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            source.wrong_at(at, format!("this is not TOML: {}", error.message().trim_end()))
        })?;
        self.files.push(source.path.clone());
        self.table("", document.as_item(), source, whose)
    }

    fn table(&mut self, prefix: &str, item: &Item, source: &Source, whose: Whose) -> Result<(), ConfigError> {
        let Some(table) = item.as_table_like() else { return Ok(()) };
        for (name, item) in table.iter() {
            let full = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let place =
                table.key(name).and_then(|key| key.span()).or(item.span()).map_or(0, |span| span.start);
            if item.is_table_like() && Key::has_below(&full) {
                self.table(&full, item, source, whose)?;
                continue;
            }
            let Some(key) = Key::named(&full) else { return Err(unknown(source, place, &full)) };
            let place = item.span().map_or(place, |span| span.start);
            let text = text_of(item);
            let problem = match &text {
                Some(text) => key.kind.check_as(item.as_value(), text),
                None => Err(key.kind.expected()),
            };
            if let Err(expected) = problem {
                let quote = if item.is_str() { "\"" } else { "" };
                let is = text.map_or_else(|| "this".to_owned(), |text| format!("`{quote}{text}{quote}`"));
                return Err(source
                    .wrong_at(place, format!("{is} stands where {expected} is expected"))
                    .expected(format!("`{full}` is {}", key.about)));
            }
            let value = text.unwrap_or_default();
            let line = source.place(place).0;
            if whose != Whose::User && !key.project_may(&value) {
                let what = format!("a project cannot set `{full}` to `{value}`");
                return Err(source.wrong_at(place, what).expected(
                    "a file that comes with a project must not widen what an agent may do, or say whose account it uses; use your own file",
                ));
            }
            match self.allowed(key, &full, &value, whose) {
                Allowance::Used => {}
                Allowance::Lower => continue,
                Allowance::Wider => {
                    let (path, reason) = (source.path.clone(), "a project may only lower it".to_owned());
                    self.ignored.push(LeftOut { path, line: Some(line), name: Some(full), reason });
                    continue;
                }
            }
            let origin = match whose {
                Whose::User => Origin::User(source.path.clone(), line),
                Whose::Project | Whose::TrustedProject => Origin::Project(source.path.clone(), line),
            };
            self.values.insert(full, Setting { value, origin });
        }
        Ok(())
    }

    /// Says whether a value is used: a project may only lower what its user allows. Only some settings allow anything.
    fn allowed(&self, key: &Key, full: &str, value: &str, whose: Whose) -> Allowance {
        let amount = |text: &str| -> Option<f64> {
            match key.kind {
                KeyKind::Choice(words) => words.iter().position(|word| *word == text).map(|at| at as f64),
                KeyKind::Time => span(text).map(|span| span.0 as f64),
                KeyKind::Truth => text.parse::<bool>().ok().map(|truth| f64::from(u8::from(truth))),
                KeyKind::Text | KeyKind::Count | KeyKind::Money => text.parse().ok(),
                KeyKind::Words => None,
            }
        };
        let budget = full.starts_with("budget.");
        // The words of these choices stand in the order of what they allow.
        let bounded = match whose {
            Whose::User => false,
            Whose::Project => budget || LOWERED.contains(&full),
            Whose::TrustedProject => budget || full == "run.permission",
        };
        let usual = Some(key.default).filter(|usual| !usual.is_empty());
        let set = self.text(full).or(usual).and_then(amount);
        match set.zip(amount(value)) {
            Some((set, new)) if bounded && set == new => Allowance::Lower,
            // A budget is a number to be compared; that the user's is lower surprises no project.
            Some((set, new)) if bounded && set < new => {
                if budget {
                    Allowance::Lower
                } else {
                    Allowance::Wider
                }
            }
            _ => Allowance::Used,
        }
    }

    /// Returns what somebody set.
    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.values.get(key)
    }

    /// Returns everything that somebody set, by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.values.iter().map(|(key, setting)| (key.as_str(), setting))
    }

    /// Returns a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|setting| setting.value.as_str())
    }

    /// Returns a list of texts; an empty one if it is not set.
    pub fn words(&self, key: &str) -> Vec<String> {
        self.text(key).and_then(keys::words).unwrap_or_default()
    }

    /// Returns a span of time.
    pub fn span(&self, key: &str) -> Option<Millis> {
        span(self.text(key)?)
    }

    /// Returns anything that can be read from a text. What is on file was checked when it was read.
    pub fn parsed<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.text(key)?.parse().ok()
    }

    /// Returns what a request, a day or a project may cost.
    pub fn budget(&self, scope: &str) -> Amounts {
        Amounts {
            cost: self.parsed(&format!("budget.{scope}.cost")),
            tokens: self.parsed(&format!("budget.{scope}.tokens")),
            time: self.span(&format!("budget.{scope}.time")),
        }
    }

    /// Returns a profile by its name.
    pub fn profile(&self, name: &str) -> Option<Profile> {
        let of = |part: &str| self.text(&format!("profiles.{name}.{part}")).map(str::to_owned);
        Some(Profile { name: name.to_owned(), provider: of("provider")?, home: of("home")?.into() })
    }

    /// Returns the names of the profiles.
    pub fn profiles(&self) -> Vec<&str> {
        let names =
            self.values.keys().filter_map(|key| key.strip_prefix("profiles.")?.strip_suffix(".provider"));
        names.collect()
    }

    /// Returns the prices that somebody set. What they leave open is as in the table that ships; what is not there either, of
    /// caches, costs what the prompt does.
    pub fn prices(&self) -> Vec<prices::Row> {
        let row = |model: &&str| {
            let shipped = prices::of(model, &[]);
            let shipped = shipped.as_ref();
            let price = |part: &str| self.parsed::<f64>(&format!("prices.{model}.{part}"));
            let input = price("input").or(shipped.map(|it| it.input))?;
            let cached = |part: &str, shipped: Option<f64>| {
                price(part).or(shipped.filter(|_| price("input").is_none())).unwrap_or(input)
            };
            Some(prices::Row {
                models: vec![(*model).to_owned()],
                as_of: "your own".to_owned(),
                input,
                output: price("output").or(shipped.map(|it| it.output))?,
                cache_read: cached("cache-read", shipped.map(|it| it.cache_read)),
                cache_write: cached("cache-write", shipped.map(|it| it.cache_write)),
            })
        };
        self.priced().iter().filter_map(row).collect()
    }

    /// Returns the models of which somebody set a price, and which have none after all: one for the prompt or one for the
    /// answer is missing.
    pub fn half_prices(&self) -> Vec<&str> {
        let rows = self.prices();
        let mut models = self.priced();
        models.retain(|model| !rows.iter().any(|row| row.models[0] == *model));
        models
    }

    /// Returns the models of which somebody set anything.
    fn priced(&self) -> Vec<&str> {
        let parts = self.values.keys().filter_map(|key| key.strip_prefix("prices.")?.rsplit_once('.'));
        let mut models: Vec<&str> = parts.map(|(model, _)| model).collect();
        models.sort_unstable();
        models.dedup();
        models
    }
}

fn unknown(source: &Source, place: usize, full: &str) -> ConfigError {
    source.wrong_at(place, format!("`{full}` is not a setting")).expected(meant(full))
}

/// Says what was probably meant by a name that is no setting's.
fn meant(full: &str) -> String {
    // Where people choose a name, theirs is meant.
    let own = full.split('.').nth(1).unwrap_or("*");
    let names: Vec<String> = KEYS.iter().map(|key| key.name.replace('*', own)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(near) = near(full, names.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    let above = full.rsplit_once('.').map_or("", |(above, _)| above);
    let beside: Vec<&str> =
        names.iter().copied().filter(|name| name.starts_with(&format!("{above}."))).collect();
    if above.is_empty() || beside.is_empty() {
        "`bowline config show --all` lists the settings".to_owned()
    } else {
        format!("there is {}", list(&beside))
    }
}

fn text_of(item: &Item) -> Option<String> {
    match item.as_value()? {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Float(number) => Some(number.value().to_string()),
        Value::Boolean(truth) => Some(truth.value().to_string()),
        Value::Array(list) => {
            let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            serde_json::to_string(&words?).ok()
        }
        Value::Datetime(_) | Value::InlineTable(_) => None,
    }
}

/// Reads a limit of time: one of nothing is none.
pub(crate) fn span(text: &str) -> Option<Millis> {
    text.parse().ok().filter(|span: &Millis| span.0 > 0)
}
