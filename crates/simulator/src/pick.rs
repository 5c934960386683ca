//! Which scenario answers a request, and which of its steps.
//!
//! A header, a marker in the prompt, or the route names the scenario, in this order. The step follows from
//! the conversation in the request: the number of the model's answers since the marker is the number of finished steps.
//! A counter of requests would soon be wrong: programs retry, and send side requests for titles and summaries.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use crate::apis::{Api, ConversationItem, ParsedRequest};
use crate::reply;
use crate::scenario::{Scenario, Step, StepAction, StepCondition};

/// The source of the scenario's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PickedBy {
    /// The header `x-bowline-scenario`.
    Header,
    /// `[[name]]` in the prompt.
    Marker,
    /// The route in the address.
    Route,
    /// None of these: the default scenario.
    Default,
}

/// The purpose of a side request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SidePurpose {
    /// A title of the conversation.
    Title,
    /// A summary of the conversation.
    Summary,
    /// A check whether the account is allowed to send requests.
    Probe,
    /// Data about the conversation, for the program itself.
    Utility,
}

/// A name in the prompt, with its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptMarker {
    pub(crate) name: String,
    pub(crate) values: BTreeMap<String, String>,
}

/// Finds the markers of a text, in order: `[[name]]`, or `[[name key=value key="two words"]]`.
pub(crate) fn markers(text: &str) -> Vec<PromptMarker> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("[[") {
        match marker(&rest[at + 2..]) {
            Some((marker, behind)) => {
                found.push(marker);
                rest = behind;
            }
            // Skip one byte only: in `[[[name]]` the marker begins at the second bracket.
            None => rest = &rest[at + 1..],
        }
    }
    found
}

fn marker(text: &str) -> Option<(PromptMarker, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))?;
    let (name, mut rest) = text.split_at(end);
    if name.is_empty() {
        return None;
    }
    let mut marker = PromptMarker { name: name.to_owned(), values: BTreeMap::new() };
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

/// The selected scenario of a request.
#[derive(Clone, Debug)]
pub(crate) struct PickedScenario {
    pub(crate) scenario: usize,
    pub(crate) by: PickedBy,
    pub(crate) values: BTreeMap<String, String>,
    /// The index in the conversation at which the scenario begins.
    begins: usize,
}

/// A named scenario that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownScenario {
    pub(crate) name: String,
    pub(crate) by: PickedBy,
}

/// Selects the scenario. `scenarios` has one called `default`.
pub(crate) fn scenario(
    scenarios: &[Scenario],
    asked: &ParsedRequest,
    header: Option<&str>,
    route: Option<&str>,
) -> Result<PickedScenario, UnknownScenario> {
    let find = |name: &str| scenarios.iter().position(|scenario| scenario.name == name);
    let unknown = |name: &str, by| UnknownScenario { name: name.to_owned(), by };
    // The last marker counts: a resumed conversation also contains the markers of earlier turns.
    let marked = asked.said.iter().enumerate().rev().find_map(|(at, said)| match said {
        ConversationItem::User(text) => Some((at, markers(reply::own(text)).pop()?)),
        ConversationItem::Model | ConversationItem::Tool => None,
    });
    let (begins, values) =
        marked.as_ref().map_or((0, BTreeMap::new()), |(at, marker)| (*at, marker.values.clone()));
    let pick = |scenario, by| Ok(PickedScenario { scenario, by, values: values.clone(), begins });
    if let Some(name) = header {
        return find(name)
            .map_or_else(|| Err(unknown(name, PickedBy::Header)), |it| pick(it, PickedBy::Header));
    }
    if let Some((_, PromptMarker { name, .. })) = &marked {
        return find(name)
            .map_or_else(|| Err(unknown(name, PickedBy::Marker)), |it| pick(it, PickedBy::Marker));
    }
    // A route may be just the name of a client. The text behind the `~` separates clients of the same
    // scenario.
    if let Some(index) = route.and_then(|route| find(route.split('~').next().unwrap_or(route))) {
        return pick(index, PickedBy::Route);
    }
    pick(find("default").unwrap_or(0), PickedBy::Default)
}

/// How often steps with a limited number of answers have answered, by conversation.
#[derive(Debug, Default)]
pub(crate) struct AttemptCounts(HashMap<AttemptKey, u32>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct AttemptKey {
    route: Option<String>,
    scenario: usize,
    step: usize,
    /// The number of messages before the scenario begins.
    begins: usize,
    /// A hash of the user's message there. The text itself would be long, and the map keeps it.
    prompt: u64,
}

impl AttemptCounts {
    /// Selects the step, and counts it if it answers a limited number of times.
    pub(crate) fn step(
        &mut self,
        scenario: &Scenario,
        picked: &PickedScenario,
        asked: &ParsedRequest,
        route: Option<&str>,
    ) -> usize {
        let since = &asked.said[picked.begins.min(asked.said.len())..];
        let mut over = answers(since);
        let last_is_tool = matches!(asked.said.last(), Some(ConversationItem::Tool));
        let holds = |step: &Step| match step.after {
            None => true,
            Some(StepCondition::ToolResult) => last_is_tool,
            Some(StepCondition::User) => !last_is_tool,
        };
        let mut last = scenario.steps.len() - 1;
        for (index, step) in scenario.steps.iter().enumerate() {
            let is_fault = matches!(step.act, StepAction::Fault(_));
            if over > 0 {
                // A fault leaves no answer in the conversation to count; it is over when a later step has answered.
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
                ConversationItem::User(text) => Some(hash(text)),
                ConversationItem::Model | ConversationItem::Tool => None,
            });
            let key = AttemptKey {
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
        // All steps are finished: the last one that answered repeats.
        if matches!(scenario.steps[scenario.steps.len() - 1].act, StepAction::Reply(_)) {
            last = scenario.steps.len() - 1;
        }
        last
    }
}

fn hash(text: &str) -> u64 {
    // Its results differ between versions of Rust. The map lives in this process only.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Counts the answers of the model: consecutive pieces are one answer.
pub(crate) fn answers(said: &[ConversationItem]) -> usize {
    let is_model = |said: &ConversationItem| *said == ConversationItem::Model;
    let begins = |pair: &[ConversationItem]| is_model(&pair[1]) && !is_model(&pair[0]);
    usize::from(said.first().is_some_and(is_model)) + said.windows(2).filter(|pair| begins(pair)).count()
}

/// How many characters of a system prompt show the purpose of a request.
const PURPOSE: usize = 300;

/// Recognises a side request.
pub(crate) fn side(api: Api, asked: &ParsedRequest) -> Option<SidePurpose> {
    // With tools it is the conversation, and the program has miscounted.
    if asked.max_tokens == Some(1) && asked.tools.is_empty() {
        return Some(SidePurpose::Probe);
    }
    let last = asked.said.iter().rev().find_map(|said| match said {
        ConversationItem::User(text) => Some(text.as_str()),
        ConversationItem::Model | ConversationItem::Tool => None,
    });
    let last = last.unwrap_or_default().to_lowercase();
    let system = asked.system.to_lowercase();
    // It reads the conversation for facts to remember, and has tools to store them.
    if system.contains("memory extraction") {
        return Some(SidePurpose::Utility);
    }
    // An ACP adapter sends it with the tools of the conversation, and with the user's message in it.
    if last.starts_with("your task is to generate a very short title for a conversation") {
        return Some(SidePurpose::Title);
    }
    if !asked.tools.is_empty() {
        let summary =
            ["create a detailed summary of the conversation", "detailed summary of our conversation"];
        return summary.iter().any(|words| last.contains(words)).then_some(SidePurpose::Summary);
    }
    // The purpose of a request stands at its beginning; further down a program's own prompt has all these words.
    let purpose: String = system.chars().take(PURPOSE).collect();
    if purpose.contains("title") || last.contains("generate a title") {
        return Some(SidePurpose::Title);
    }
    if purpose.contains("summar") || last.contains("summary of the conversation") {
        return Some(SidePurpose::Summary);
    }
    // Programs that use this API send such requests with a schema, and never require one for an answer.
    (api == Api::GoogleGenerate && asked.schema.is_some()).then_some(SidePurpose::Utility)
}

#[cfg(test)]
mod tests;
