//! `bowline.toml`: the settings, their values in the files, and which value takes precedence.
//!
//! [`KEYS`] is the one list: reading, showing, changing, and the file that `bowline init` writes all go by it.

pub mod edit;
mod keys;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use bowline_engine::budget::Amounts;
use bowline_protocol::{Millis, Remedy};
use bowline_providers::prices;
use toml_edit::{Document, Item, Value};

use super::place::Places;
use super::project::ProjectReader;
use super::source::{ConfigSource, SyntaxProblem, list};
use crate::trust::LeftOut;
use bowline::Profile;
use bowline::attention::{Attention, AttentionEvent, AttentionOptions};
use bowline::closest_name;
use bowline::settings::ConfigError;
pub use keys::{KEYS, Key, KeyKind};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// The default.
    Default,
    /// A person's file.
    User(PathBuf, usize),
    /// A project's file.
    Project(PathBuf, usize),
    /// A variable of the environment.
    Variable(&'static str),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(path, line) | Self::Project(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "${name}"),
        }
    }
}

/// A value that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value, as text.
    pub value: String,
    /// Where it comes from.
    pub origin: SettingOrigin,
}

/// The settings of the files and the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, Setting>,
    files: Vec<PathBuf>,
    /// The parts of a project's file that are not used.
    ignored: Vec<LeftOut>,
    /// Settings of a project without trust that the user has not set, so that there is no value to compare with.
    only_lower: BTreeSet<String>,
}

/// Checks the content of a file. A file in a directory `.bowline` belongs to a project.
fn check(source: &ConfigSource) -> Result<(), ConfigError> {
    let project = source.path.parent().is_some_and(|dir| dir.ends_with(".bowline"));
    Settings::default().source(source, if project { SettingsOwner::Project } else { SettingsOwner::User })
}

/// Whose file is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettingsOwner {
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

/// Whether a project's value is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowance {
    /// It counts.
    Used,
    /// The user's value is the same or lower.
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
        // In rising precedence: each value replaces the one before it. The user's file comes before the project's, whose values
        // `allowed` compares with the user's.
        if let Some(path) = places.user_settings().filter(|path| path.exists()) {
            settings.source(&ConfigSource::read(&path)?, SettingsOwner::User)?;
        }
        let theirs = places.project_settings().map(|path| project.source(&path)).transpose()?;
        if let Some(source) = theirs.flatten() {
            let trusted = project.is_trusted(&source, &[]);
            settings.source(
                &source,
                if trusted { SettingsOwner::TrustedProject } else { SettingsOwner::Project },
            )?;
            project.left_out.append(&mut settings.ignored);
        }
        for key in KEYS {
            let Some((name, value)) = key.env.and_then(|name| Some((name, variable(name)?))) else {
                continue;
            };
            // `NAME= command` is the shortest way to do without a variable for one command.
            if value.trim().is_empty() {
                continue;
            }
            if let Err(expected) = key.kind.check(&value) {
                let what = format!("`{value}` stands where {expected} is expected");
                let hint = format!("it sets `{}`; `unset {name}` does without", key.name);
                return Err(ConfigError::of_file(Path::new(&format!("${name}")), what).expected(hint));
            }
            settings
                .values
                .insert(key.name.to_owned(), Setting { value, origin: SettingOrigin::Variable(name) });
        }
        Ok(settings)
    }

    /// Returns the files that were read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    fn source(&mut self, source: &ConfigSource, whose: SettingsOwner) -> Result<(), ConfigError> {
        let document = Document::parse(source.text.clone()).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            source.wrong_at(at, "this is not TOML").caused_by(SyntaxProblem::new(error.message()))
        })?;
        self.files.push(source.path.clone());
        self.table("", document.as_item(), source, whose)
    }

    fn table(
        &mut self,
        prefix: &str,
        item: &Item,
        source: &ConfigSource,
        whose: SettingsOwner,
    ) -> Result<(), ConfigError> {
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
                    .expected(format!("`{full}`: {}", key.about)));
            }
            let value = text.unwrap_or_default();
            let line = source.place(place).0;
            if whose != SettingsOwner::User && !key.project_may(&value) {
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
            let unset = self.text(&full).is_none();
            if whose == SettingsOwner::Project && unset && LOWERED.contains(&full.as_str()) {
                self.only_lower.insert(full.clone());
            }
            let origin = match whose {
                SettingsOwner::User => SettingOrigin::User(source.path.clone(), line),
                SettingsOwner::Project | SettingsOwner::TrustedProject => {
                    SettingOrigin::Project(source.path.clone(), line)
                }
            };
            self.values.insert(full, Setting { value, origin });
        }
        Ok(())
    }

    /// Returns whether a value is used: a project may only lower the user's value. This concerns only some settings.
    fn allowed(&self, key: &Key, full: &str, value: &str, whose: SettingsOwner) -> Allowance {
        let amount = |text: &str| -> Option<f64> {
            match key.kind {
                KeyKind::Choice(words) => words.iter().position(|word| *word == text).map(|at| at as f64),
                KeyKind::Time => span(text).map(|span| span.0 as f64),
                KeyKind::Truth => text.parse::<bool>().ok().map(|truth| f64::from(u8::from(truth))),
                KeyKind::Text | KeyKind::Count | KeyKind::Money => text.parse().ok(),
                KeyKind::Words | KeyKind::Program | KeyKind::Several(_) => None,
            }
        };
        let budget = full.starts_with("budget.");
        // The values of these settings are listed from the strictest to the widest.
        let bounded = match whose {
            SettingsOwner::User => false,
            SettingsOwner::Project => budget || LOWERED.contains(&full),
            SettingsOwner::TrustedProject => budget || full == "run.permission",
        };
        let usual = Some(key.default).filter(|usual| !usual.is_empty());
        // Without a value of the user, the default is the bound.
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

    /// Returns a value that is set.
    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.values.get(key)
    }

    /// Returns whether a value may only lower the default: a project without trust set it, and the user did not.
    pub fn only_lowers(&self, key: &str) -> bool {
        let by_project =
            self.get(key).is_some_and(|setting| matches!(setting.origin, SettingOrigin::Project(..)));
        by_project && self.only_lower.contains(key)
    }

    /// Returns all values that are set, by name.
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

    /// Returns how to call a person.
    pub(super) fn attention(&self) -> Attention {
        let on = self.text("attention.on").map(|_| self.words("attention.on"));
        let named =
            |words: Vec<String>| words.iter().filter_map(|word| AttentionEvent::named(word)).collect();
        Attention::new(AttentionOptions {
            command: self.words("attention.command"),
            notice: self.parsed("attention.notice").unwrap_or_default(),
            on: on.map_or_else(|| AttentionOptions::default().on, named),
        })
    }

    /// Returns a span of time.
    pub fn span(&self, key: &str) -> Option<Millis> {
        span(self.text(key)?)
    }

    /// Parses a value. Values on file were checked when they were read.
    pub fn parsed<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.text(key)?.parse().ok()
    }

    /// Returns the budget of a request, a day or a project.
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

    /// Returns the prices that the settings have. The built-in table fills in the others; a cache without a price there costs as
    /// much as the prompt.
    pub fn prices(&self) -> Vec<prices::Row> {
        let row = |model: &&str| {
            let shipped = prices::of(model, &[]);
            let shipped = shipped.as_ref();
            let price = |part: &str| self.parsed::<f64>(&format!("prices.{model}.{part}"));
            let input = price("input").or(shipped.map(|it| it.input))?;
            let cached = |part: &str, shipped: Option<f64>| {
                // The built-in price of the cache belongs to the built-in price of the prompt. Beside a price of the user it
                // means nothing.
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

    /// Returns the models whose settings lack the price for the prompt or for the answer.
    pub fn half_prices(&self) -> Vec<&str> {
        let rows = self.prices();
        let mut models = self.priced();
        models.retain(|model| !rows.iter().any(|row| row.models[0] == *model));
        models
    }

    /// Returns the models with a price setting.
    fn priced(&self) -> Vec<&str> {
        let parts = self.values.keys().filter_map(|key| key.strip_prefix("prices.")?.rsplit_once('.'));
        let mut models: Vec<&str> = parts.map(|(model, _)| model).collect();
        models.sort_unstable();
        models.dedup();
        models
    }
}

fn unknown(source: &ConfigSource, place: usize, full: &str) -> ConfigError {
    suggested(source.wrong_at(place, format!("`{full}` is not a setting")), full)
}

/// Adds what helps with an unknown setting: a spelling suggestion, or the list of settings.
fn suggested(error: ConfigError, full: &str) -> ConfigError {
    match meant(full) {
        Some(meant) => error.expected(meant),
        None => error.remedied(&Remedy::ListSettings),
    }
}

/// Returns a spelling suggestion for an unknown setting.
fn meant(full: &str) -> Option<String> {
    // Where people choose a name, theirs is meant.
    let own = full.split('.').nth(1).unwrap_or("*");
    let names: Vec<String> = KEYS.iter().map(|key| key.name.replace('*', own)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(nearest) = closest_name(full, names.iter().copied()) {
        return Some(format!("did you mean `{nearest}`?"));
    }
    let above = full.rsplit_once('.').map_or("", |(above, _)| above);
    let beside: Vec<&str> =
        names.iter().copied().filter(|name| name.starts_with(&format!("{above}."))).collect();
    let some = !(above.is_empty() || beside.is_empty());
    some.then(|| format!("there is {}", list(&beside)))
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
