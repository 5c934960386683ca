//! Which scenario answers a request, and which of its steps.
//!
//! The scenario is named by a header, by a marker in the prompt, or by the route, in this order. The step follows from
//! the conversation in the request: as many answers as the model has given since the marker, so many steps are over.
//! Programs retry, and ask for titles and summaries beside the conversation; a counter of requests would be wrong soon.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use crate::apis::{Api, Asked, Said};
use crate::reply;
use crate::scenario::{Act, After, Scenario, Step};

/// What named the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PickedBy {
    /// The header `x-bowline-scenario`.
    Header,
    /// `[[name]]` in the prompt.
    Marker,
    /// The route in the address.
    Route,
    /// Nothing: it is the default.
    Default,
}

/// What a request is beside the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// It asks for a title of the conversation.
    Title,
    /// It asks for a summary of the conversation.
    Summary,
    /// It tries whether the account may ask at all.
    Probe,
    /// It wants data about the conversation, for the program itself.
    Utility,
}

/// A name in the prompt, with what stands behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) name: String,
    pub(crate) values: BTreeMap<String, String>,
}

/// Finds the markers of a text, in order: `[[name]]`, or `[[name key=value key="two words"]]`.
pub(crate) fn markers(text: &str) -> Vec<Marker> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("[[") {
        match marker(&rest[at + 2..]) {
            Some((marker, behind)) => {
                found.push(marker);
                rest = behind;
            }
            None => rest = &rest[at + 1..],
        }
    }
    found
}

fn marker(text: &str) -> Option<(Marker, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))?;
    let (name, mut rest) = text.split_at(end);
    if name.is_empty() {
        return None;
    }
    let mut marker = Marker { name: name.to_owned(), values: BTreeMap::new() };
    loop {
        if let Some(behind) = rest.strip_prefix("]]") {
            return Some((marker, behind));
        }
        rest = rest.strip_prefix(' ')?;
        let (key, behind) = rest.split_once('=')?;
        if !crate::scenario::is_name(key) {
            return None;
        }
        let (value, behind) = match behind.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => behind.split_at(behind.find([' ', ']', '\n'])?),
        };
        marker.values.insert(key.to_owned(), value.to_owned());
        rest = behind;
    }
}

/// What is picked for a request.
#[derive(Clone, Debug)]
pub(crate) struct Picked {
    pub(crate) scenario: usize,
    pub(crate) by: PickedBy,
    pub(crate) values: BTreeMap<String, String>,
    /// Where in the conversation the scenario begins.
    begins: usize,
}

/// A scenario that was asked for and does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) name: String,
    pub(crate) by: PickedBy,
}

/// Picks the scenario. `scenarios` has one called `default`.
pub(crate) fn scenario(
    scenarios: &[Scenario],
    asked: &Asked,
    header: Option<&str>,
    route: Option<&str>,
) -> Result<Picked, Unknown> {
    let find = |name: &str| scenarios.iter().position(|scenario| scenario.name == name);
    let unknown = |name: &str, by| Unknown { name: name.to_owned(), by };
    let marked = asked.said.iter().enumerate().rev().find_map(|(at, said)| match said {
        Said::User(text) => Some((at, markers(reply::own(text)).pop()?)),
        Said::Model | Said::Tool => None,
    });
    let (begins, values) =
        marked.as_ref().map_or((0, BTreeMap::new()), |(at, marker)| (*at, marker.values.clone()));
    let pick = |scenario, by| Ok(Picked { scenario, by, values: values.clone(), begins });
    if let Some(name) = header {
        return find(name)
            .map_or_else(|| Err(unknown(name, PickedBy::Header)), |it| pick(it, PickedBy::Header));
    }
    if let Some((_, Marker { name, .. })) = &marked {
        return find(name)
            .map_or_else(|| Err(unknown(name, PickedBy::Marker)), |it| pick(it, PickedBy::Marker));
    }
    // A route may be no more than the name of a client. What stands behind the `~` tells clients of the same scenario
    // apart.
    if let Some(index) = route.and_then(|route| find(route.split('~').next().unwrap_or(route))) {
        return pick(index, PickedBy::Route);
    }
    pick(find("default").unwrap_or(0), PickedBy::Default)
}

/// How often steps that answer several times have answered, by conversation.
#[derive(Debug, Default)]
pub(crate) struct Attempts(HashMap<Key, u32>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    route: Option<String>,
    scenario: usize,
    step: usize,
    /// What the user said where the scenario begins, and how much was said before.
    begins: usize,
    /// A hash is enough: prompts are long, and these are kept.
    prompt: u64,
}

impl Attempts {
    /// Chooses the step that answers, and counts it if it answers a certain number of times.
    pub(crate) fn step(
        &mut self,
        scenario: &Scenario,
        picked: &Picked,
        asked: &Asked,
        route: Option<&str>,
    ) -> usize {
        let since = &asked.said[picked.begins.min(asked.said.len())..];
        let mut over = answers(since);
        let last_is_tool = matches!(asked.said.last(), Some(Said::Tool));
        let holds = |step: &Step| match step.after {
            None => true,
            Some(After::ToolResult) => last_is_tool,
            Some(After::User) => !last_is_tool,
        };
        let mut last = scenario.steps.len() - 1;
        for (index, step) in scenario.steps.iter().enumerate() {
            let is_fault = matches!(step.act, Act::Fault(_));
            if over > 0 {
                // A fault leaves nothing in the conversation that could be counted; it is over with what comes after.
                over -= usize::from(!is_fault);
                if !is_fault {
                    last = index;
                }
                continue;
            }
            if !holds(step) {
                continue;
            }
            let Some(times) = step.times else { return index };
            let prompt = since.iter().find_map(|said| match said {
                Said::User(text) => Some(hash(text)),
                Said::Model | Said::Tool => None,
            });
            let key = Key {
                route: route.map(str::to_owned),
                scenario: picked.scenario,
                step: index,
                begins: picked.begins,
                prompt: prompt.unwrap_or_default(),
            };
            let count = self.0.entry(key).or_insert(0);
            if *count < times {
                *count += 1;
                return index;
            }
        }
        // All steps are over: the last one that answered goes on answering.
        if matches!(scenario.steps[scenario.steps.len() - 1].act, Act::Reply(_)) {
            last = scenario.steps.len() - 1;
        }
        last
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Counts the answers of the model: what it says in one go is one answer.
pub(crate) fn answers(said: &[Said]) -> usize {
    let is_model = |said: &Said| *said == Said::Model;
    let begins = |pair: &[Said]| is_model(&pair[1]) && !is_model(&pair[0]);
    usize::from(said.first().is_some_and(is_model)) + said.windows(2).filter(|pair| begins(pair)).count()
}

/// How many characters of a system prompt say what a request is for.
const PURPOSE: usize = 300;

/// Recognises a request that stands beside the conversation.
pub(crate) fn side(api: Api, asked: &Asked) -> Option<Side> {
    // With tools it is the conversation, and the program has miscounted.
    if asked.max_tokens == Some(1) && asked.tools.is_empty() {
        return Some(Side::Probe);
    }
    let last = asked.said.iter().rev().find_map(|said| match said {
        Said::User(text) => Some(text.as_str()),
        Said::Model | Said::Tool => None,
    });
    let last = last.unwrap_or_default().to_lowercase();
    let system = asked.system.to_lowercase();
    // It reads the conversation for what is worth remembering, and has tools to write that down.
    if system.contains("memory extraction") {
        return Some(Side::Utility);
    }
    if !asked.tools.is_empty() {
        let summary =
            ["create a detailed summary of the conversation", "detailed summary of our conversation"];
        return summary.iter().any(|words| last.contains(words)).then_some(Side::Summary);
    }
    // What the whole request is about is said first; further down a program's own prompt has all these words.
    let purpose: String = system.chars().take(PURPOSE).collect();
    if purpose.contains("title") || last.contains("generate a title") {
        return Some(Side::Title);
    }
    if purpose.contains("summar") || last.contains("summary of the conversation") {
        return Some(Side::Summary);
    }
    // Programs that speak this API ask for data about the conversation, and never hold an answer to a schema.
    (api == Api::GoogleGenerate && asked.schema.is_some()).then_some(Side::Utility)
}

#[cfg(test)]
mod tests;
