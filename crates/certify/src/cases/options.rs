//! Whether what is asked for arrives at the other end.

use bowline_protocol::Json;
use bowline_providers::manifest::run::RunFlag;
use bowline_simulator::Entry;

use crate::place::{Place, Room, Seen};
use crate::trouble::{Trouble, Verdict, short};

const MARK: &str = "Answer as an old boatswain named Hawser would.";

pub(super) async fn model(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let wanted = place.other_model().to_owned();
    let seen = place.run(place.task("[[text]] Say something.").model(&wanted)).await?;
    // Some programs name a model with its provider, and the API without.
    let bare = wanted.rsplit('/').next().unwrap_or_default();
    let asked: Vec<String> =
        facts(&place, &seen)?.iter().filter_map(|it| it.facts.as_ref()?.model.clone()).collect();
    seen.hold(asked.iter().any(|model| *model == wanted || model == bare), || {
        format!("chosen {wanted}, asked {asked:?}")
    })
}

pub(super) async fn effort(room: Room) -> Verdict {
    let values = room.subject.manifest.run.flags.get(&RunFlag::Effort).map(|how| how.values.clone());
    let values = values.unwrap_or_default();
    let wanted = values.iter().find(|value| *value == "high").or(values.last()).cloned();
    let wanted = wanted.unwrap_or_else(|| "high".to_owned());
    let place = room.place("one").await?;
    let seen = place.run(place.task("[[text]] Say something.").effort(&wanted)).await?;
    let requests = facts(&place, &seen)?;
    let arrived = |entry: &Entry| {
        let facts = entry.facts.as_ref();
        facts.and_then(|it| it.effort.clone()).or_else(|| facts?.thinking.as_ref().map(ToString::to_string))
    };
    let seen_there: Vec<Option<String>> = requests.iter().map(arrived).collect();
    seen.hold(seen_there.iter().flatten().any(|it| *it == wanted), || {
        format!("chosen {wanted}, asked {seen_there:?}")
    })
}

pub(super) async fn system(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let seen = place.run(place.task("[[text]] Say something.").system_prompt(MARK)).await?;
    told(&place, &seen)
}

pub(super) async fn append_system(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let seen = place.run(place.task("[[text]] Say something.").append_system_prompt(MARK)).await?;
    told(&place, &seen)
}

fn told(place: &Place, seen: &Seen) -> Verdict {
    let requests = facts(place, seen)?;
    let said = |entry: &Entry| {
        let facts = entry.facts.as_ref();
        facts.is_some_and(|it| it.system.contains(MARK) || it.users.iter().any(|text| text.contains(MARK)))
    };
    // Not every one: a program may also ask what to remember.
    seen.hold(requests.iter().any(said), || {
        let system = requests.first().and_then(|it| it.facts.as_ref()).map(|it| short(&it.system));
        format!("{MARK:?} is not in what was sent; the system prompt is {}", system.unwrap_or_default())
    })
}

pub(super) async fn schema(room: Room) -> Verdict {
    let schema = r#"{"type":"object","properties":{"knot":{"type":"string"}},"required":["knot"],"additionalProperties":false}"#;
    let schema: Json = serde_json::from_str(schema).expect("it is valid JSON");
    let place = room.place("one").await?;
    let seen = place.run(place.task("[[schema]] Name a knot.").output_schema(schema)).await?;
    seen.completed()?;
    let requests = facts(&place, &seen)?;
    let arrived = requests.iter().any(|entry| entry.body.to_string().contains("\"knot\""));
    seen.hold(arrived, || "the schema is not in what was sent".to_owned())?;
    let answer = serde_json::from_str::<serde_json::Value>(seen.text());
    seen.hold(answer.as_ref().is_ok_and(|it| it["knot"].is_string()), || {
        format!("the answer is {}", short(seen.text()))
    })
}

pub(super) async fn image(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let file = place.project.join("dot.png");
    std::fs::write(&file, PNG)?;
    let seen = place.run(place.task("[[text]] What is in the image?").attach(&file)).await?;
    seen.completed()?;
    let requests = facts(&place, &seen)?;
    let images = |entry: &Entry| entry.facts.as_ref().map_or(0, |it| it.images.len());
    seen.hold(requests.iter().any(|entry| images(entry) > 0), || "no request had an image".to_owned())
}

pub(super) async fn large_prompt(room: Room) -> Verdict {
    const SIZE: usize = 900 * 1024;
    let place = room.place("one").await?;
    let mut prompt = String::from("[[text]] Count the ropes.\n");
    let mut line = 0;
    while prompt.len() < SIZE {
        line += 1;
        prompt.push_str(&format!("rope number {line} is made of hemp and has no knot in it\n"));
    }
    prompt.push_str("That was the last rope.");
    let seen = place.run(place.task(&prompt)).await?;
    seen.completed()?;
    let requests = facts(&place, &seen)?;
    let longest = requests
        .iter()
        .filter_map(|entry| entry.facts.as_ref())
        .flat_map(|it| &it.users)
        .map(String::len)
        .max();
    let whole = |entry: &Entry| {
        entry.facts.as_ref().is_some_and(|it| it.users.iter().any(|text| text.contains(prompt.trim())))
    };
    seen.hold(requests.iter().any(whole), || {
        format!(
            "sent {} bytes; the longest text of the user that arrived has {}",
            prompt.len(),
            longest.unwrap_or_default()
        )
    })
}

/// Returns the requests of the conversation; that there were none is trouble.
fn facts(place: &Place, seen: &Seen) -> Result<Vec<Entry>, Trouble> {
    let requests: Vec<Entry> = place.requests().into_iter().filter(|entry| entry.facts.is_some()).collect();
    if requests.is_empty() { Err(seen.trouble("the model was never asked")) } else { Ok(requests) }
}

/// A red dot: 8 by 8 pixels.
const PNG: &[u8] = include_bytes!("dot.png");
