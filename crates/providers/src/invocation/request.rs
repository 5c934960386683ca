//! The request of the CLI provider protocol, as an executable provider reads it from standard input.

use std::collections::BTreeMap;

use bowline_protocol::{Json, Message, Request, RequestField};
use serde::Serialize;

use super::Refusal;
use super::environment::looks_secret;
use crate::manifest::Manifest;

/// The request as it is written. Fields that are not set are left out.
#[derive(Serialize)]
struct Wire<'a> {
    prompt: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tools: &'a [Json],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    context: &'a [Message],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    config: BTreeMap<String, Json>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, Json>,
}

/// The fields that options have filled in.
#[derive(Debug, Default)]
pub(super) struct RequestFields {
    pub(super) system_prompt: Vec<String>,
    pub(super) config: BTreeMap<String, String>,
}

impl RequestFields {
    /// Puts the value of an option into the field that a manifest names for it.
    pub(super) fn set(&mut self, field: &str, value: &str) {
        match field.strip_prefix("config.") {
            Some(key) => drop(self.config.insert(key.to_owned(), value.to_owned())),
            // `check` lets no other through.
            None => self.system_prompt.push(value.to_owned()),
        }
    }
}

/// Returns whether a manifest may name this field.
pub(crate) fn is_field(field: &str) -> bool {
    field == "system_prompt" || field.strip_prefix("config.").is_some_and(|key| !key.is_empty())
}

/// Returns the settings that are secrets by their names; they must not reach the journal with the request.
pub(super) fn secrets(manifest: &Manifest, request: &Request) -> Vec<String> {
    let own = manifest.run.request_config.iter();
    let own = own.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())));
    let asked = request.config.iter().filter_map(|(name, value)| Some((name, value.read::<String>().ok()?)));
    own.chain(asked).filter(|(name, _)| looks_secret(name)).map(|(_, value)| value).collect()
}

/// Writes a request. The request's own `config` overrides the manifest's, and an option of the run overrides
/// both.
pub(super) fn text(
    manifest: &Manifest,
    request: &Request,
    fields: &RequestFields,
    prompt: &str,
) -> Result<String, Refusal> {
    let wrong = |field: RequestField, error: &dyn std::fmt::Display| {
        Refusal::invalid(&manifest.name, field, format!("it cannot be written as JSON: {error}"))
    };
    let mut config = BTreeMap::new();
    for (name, value) in &manifest.run.request_config {
        config.insert(name.clone(), Json::of(value).map_err(|error| wrong(RequestField::Config, &error))?);
    }
    for (name, value) in &fields.config {
        config.insert(name.clone(), Json::of(value).map_err(|error| wrong(RequestField::Config, &error))?);
    }
    // A model that was chosen overrides the manifest's default model.
    let chosen = |name: &str| name == "model" && request.model.is_some();
    let asked = request.config.iter().filter(|(name, _)| !chosen(name));
    config.extend(asked.map(|(name, value)| (name.clone(), value.clone())));
    for (name, given) in [("temperature", request.sampling.temperature), ("top_p", request.sampling.top_p)] {
        if let Some(number) = given.filter(|number| !number.is_finite()) {
            return Err(Refusal::invalid(
                &manifest.name,
                RequestField::Sampling.value(name),
                format!("{number} is not a number"),
            ));
        }
    }
    let system_prompt = fields.system_prompt.join("\n\n");
    let wire = Wire {
        prompt,
        system_prompt: Some(&*system_prompt).filter(|text| !text.is_empty()),
        max_tokens: request.sampling.max_tokens,
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        tools: &request.tools,
        context: &request.context,
        config,
        metadata: &request.metadata,
    };
    serde_json::to_string(&wire).map_err(|error| wrong(RequestField::Prompt, &error))
}
