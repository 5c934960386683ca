//! The format of a provider's `manifest.toml`: the data side of an adapter.
//!
//! Commands are data, decoding is code. A manifest names the program, how a prompt gets in, the dialect of each of its
//! output formats, what the provider can do, how a run of it is put together ([`run`]), where the program is
//! found, asked and had from ([`detect`]), where its login is and how it is asked about its account ([`auth`]), how it is
//! pointed at fake model APIs ([`simulate`]), what the contract suite has to know about it ([`certify`]), and what of all
//! this is different in one of its formats ([`overrides`]).

pub mod auth;
pub mod certify;
mod check;
pub mod detect;
pub mod overrides;
mod place;
pub mod repository;
pub mod run;
pub mod simulate;
pub(crate) mod time;

use std::collections::BTreeMap;

use bowline_protocol::{Capabilities, Millis};
use serde::{Deserialize, Serialize};

use crate::dialect::Shape;
use crate::dialects;
use auth::{Asks, Auth};
use certify::Certify;
pub(crate) use check::into_terminal;
use detect::{Detect, Install, Probe};
use overrides::FormatOverrides;
pub use place::Place;
use run::{Permissions, Run, Stop, Watchdog};
use simulate::Simulate;
use time::optional_limit;

pub use crate::models::Model;

/// A provider, as its manifest describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The provider's name.
    pub name: String,
    /// A user's own manifest takes the place of the built-in one of the same name.
    #[serde(default, rename = "override", skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// Other names by which it is known.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The product's name, for people; absent takes the provider's name.
    #[serde(default)]
    pub title: String,
    /// The adapter's id; absent is made of the provider's name.
    #[serde(default)]
    pub adapter_id: String,
    /// The adapter's version.
    #[serde(default)]
    pub adapter_version: String,
    /// The author of the adapter.
    #[serde(default)]
    pub vendor: String,
    /// The signature of an adapter package; empty for those that ship with Bowline.
    #[serde(default)]
    pub signature: String,
    /// The program to run.
    pub program: String,
    /// When it is chosen.
    #[serde(default)]
    pub chosen: Chosen,
    /// Its tokens and costs are pretended: they count only for the budget of the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pretends: bool,
    /// How the prompt gets in.
    pub prompt: PromptStyle,
    /// Which output format is used unless another is asked for; may be left out where there is one.
    #[serde(default)]
    pub default_format: String,
    /// The output formats.
    pub formats: BTreeMap<String, Format>,
    /// The models; absent leaves the choice to the program.
    #[serde(default)]
    pub models: Vec<Model>,
    /// Which model is used unless another is asked for.
    #[serde(default)]
    pub default_model: String,
    /// Model names that belong to this provider; `*` is any text. A request for such a model need not name the provider.
    #[serde(default)]
    pub model_patterns: Vec<String>,
    /// Which model is meant by a hint, such as `fast`.
    #[serde(default)]
    pub hints: BTreeMap<String, String>,
    /// How many tokens an answer may have, for callers that want to know.
    #[serde(default = "usual_max_tokens")]
    pub max_tokens: u64,
    /// How long a turn may take; absent is no limit, because the watchdogs on silence guard it.
    #[serde(default, deserialize_with = "optional_limit", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// Where its login comes from.
    #[serde(default)]
    pub auth: Auth,
    /// How it is asked about its account.
    #[serde(default)]
    pub ask: Asks,
    /// Its capabilities.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// How a run is put together.
    #[serde(default)]
    pub run: Run,
    /// The meaning of each permission mode.
    #[serde(default)]
    pub permission: Permissions,
    /// The repository's own code that it would run, and how a run prevents that.
    #[serde(default)]
    pub repository: repository::Repository,
    /// How long each phase of a run may take.
    #[serde(default)]
    pub watchdog: Watchdog,
    /// How a run is ended politely.
    #[serde(default)]
    pub stop: Stop,
    /// Where the program is found.
    #[serde(default)]
    pub detect: Detect,
    /// How it is asked what it can do.
    #[serde(default)]
    pub probe: Probe,
    /// How it is installed.
    #[serde(default)]
    pub install: Install,
    /// Its entries for the contract suite.
    #[serde(default)]
    pub certify: Certify,
    /// How it is pointed at the simulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulate: Option<Simulate>,
}

/// When a provider is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chosen {
    /// Also without a name, if it is installed.
    #[default]
    Freely,
    /// Only when it is named.
    ByName,
}

/// How a prompt gets into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptStyle {
    /// Over its standard input.
    Stdin,
    /// As an argument.
    Arg,
    /// In the request of an executable provider, over its standard input.
    Request,
    /// By a protocol, which owns its standard input.
    Protocol,
}

impl PromptStyle {
    /// Returns the word used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdin => "stdin",
            Self::Arg => "arg",
            Self::Request => "request",
            Self::Protocol => "protocol",
        }
    }
}

/// One output format of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Format {
    /// The dialect that it is read with.
    pub dialect: String,
    /// The shape of it, for dialects that read several.
    #[serde(default)]
    pub shape: Shape,
    /// The arguments that make the program print it.
    #[serde(default)]
    pub args: Vec<String>,
    /// The settings of runs in this format that differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Box<FormatOverrides>>,
}

fn usual_max_tokens() -> u64 {
    4096
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is not TOML, or not of the right shape.
    #[error("the manifest is not valid")]
    Syntax(#[from] toml::de::Error),
    /// A format names a dialect that does not exist.
    #[error("format `{format}` names the dialect `{dialect}`, which does not exist")]
    UnknownDialect {
        /// The format.
        format: String,
        /// The dialect.
        dialect: String,
    },
    /// The default format is not among the formats.
    #[error("the default format `{0}` is not among the formats")]
    NoSuchFormat(String),
    /// The default model is not among the models.
    #[error("the default model `{0}` is not among the models")]
    NoSuchModel(String),
    /// The folder has another name.
    #[error("the manifest is for `{0}`")]
    WrongName(String),
    /// A key has a value that makes no sense.
    #[error("`{key}`: {reason}")]
    Key {
        /// The key, from the top of the file.
        key: String,
        /// The reason.
        reason: String,
    },
}

impl Manifest {
    /// Reads a manifest and checks that its parts fit together.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let mut manifest: Self = toml::from_str(text)?;
        manifest.complete();
        manifest.check()?;
        Ok(manifest)
    }

    /// Fills in the keys that may be left out.
    pub(crate) fn complete(&mut self) {
        let fill = |field: &mut String, value: &dyn Fn() -> String| {
            if field.is_empty() {
                *field = value();
            }
        };
        let name = &self.name;
        fill(&mut self.title, &|| name.clone());
        fill(&mut self.adapter_id, &|| format!("user.{name}"));
        fill(&mut self.adapter_version, &|| "0".to_owned());
        fill(&mut self.vendor, &|| "user".to_owned());
        if let [(only, _)] = self.formats.iter().collect::<Vec<_>>()[..] {
            fill(&mut self.default_format, &|| only.clone());
        }
        if self.models.is_empty() {
            let id = if self.default_model.is_empty() { "default" } else { &self.default_model };
            self.models.push(Model { id: id.to_owned(), name: id.to_owned(), ..Model::default() });
        }
        fill(&mut self.default_model, &|| self.models[0].id.clone());
    }

    /// Returns the model that is usual where the program goes by what the request says, and need not name it again.
    pub fn told_model(&self) -> Option<&str> {
        let named = self.prompt == PromptStyle::Request && self.default_model != "default";
        named.then_some(self.default_model.as_str()).filter(|model| !model.is_empty())
    }

    /// Checks that the parts fit together.
    pub(crate) fn check(&self) -> Result<(), ManifestError> {
        let manifest = self;
        for (name, format) in &manifest.formats {
            if dialects::by_name(&format.dialect).is_none() {
                let (format, dialect) = (name.clone(), format.dialect.clone());
                return Err(ManifestError::UnknownDialect { format, dialect });
            }
        }
        if !manifest.formats.contains_key(&manifest.default_format) {
            return Err(ManifestError::NoSuchFormat(manifest.default_format.clone()));
        }
        if !manifest.models.iter().any(|model| model.id == manifest.default_model) {
            return Err(ManifestError::NoSuchModel(manifest.default_model.clone()));
        }
        check::name(manifest)?;
        check::run(manifest)?;
        check::detect(manifest)?;
        check::auth(manifest)?;
        check::simulate(manifest)?;
        manifest.check_own()
    }
}

#[cfg(test)]
pub(crate) mod tests;
