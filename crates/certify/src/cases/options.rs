//! Whether options reach the model.

use bowline::Task;
use bowline_protocol::{Json, Kind};
use bowline_providers::manifest::run::RunFlag;
use bowline_simulator::LedgerEntry;

use crate::case_failure::{CaseFailure, CaseVerdict, short};
use crate::place::{CaseContext, CasePlace, WatchedRun};

const MARK: &str = "Answer as an old boatswain named Hawser would.";

pub(super) async fn model(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let wanted = place.other_model().to_owned();
    let seen = place.run(place.task("[[text]] Say something.").model(&wanted)).await?;
    // Some programs name a model with its provider, and the API without. An alias is a part of the full name.
    let bare = wanted.rsplit('/').next().unwrap_or_default();
    let stands_for = |model: &str| model.split(['-', '/']).any(|part| part == bare);
    let asked: Vec<String> =
        facts(&place, &seen)?.iter().filter_map(|it| it.facts.as_ref()?.model.clone()).collect();
    seen.hold(asked.iter().any(|model| *model == wanted || model == bare || stands_for(model)), || {
        format!("chosen {wanted}, requested {asked:?}")
    })
}

pub(super) async fn effort(context: CaseContext) -> CaseVerdict {
    let values = context.subject.manifest.run.flags.get(&RunFlag::Effort).map(|how| how.values.clone());
    let values = values.unwrap_or_default();
    let wanted = values.iter().find(|value| *value == "high").or(values.last()).cloned();
    let wanted = wanted.unwrap_or_else(|| "high".to_owned());
    let place = context.place("one").await?;
    let seen = place.run(place.task("[[text]] Say something.").effort(&wanted)).await?;
    let requests = facts(&place, &seen)?;
    let arrived = |entry: &LedgerEntry| {
        let facts = entry.facts.as_ref();
        facts.and_then(|it| it.effort.clone()).or_else(|| facts?.thinking.as_ref().map(ToString::to_string))
    };
    let seen_there: Vec<Option<String>> = requests.iter().map(arrived).collect();
    seen.hold(seen_there.iter().flatten().any(|it| *it == wanted), || {
        format!("chosen {wanted}, requested {seen_there:?}")
    })
}

pub(super) async fn system(context: CaseContext) -> CaseVerdict {
    let how = context.subject.manifest.run.flags.get(&RunFlag::System);
    // A system prompt inside the prompt leaves the program's own in place; any other replaces it.
    let replaces = how.is_some_and(|how| how.before.is_none() && how.after.is_none());
    let given = given(&context, |task| task.system_prompt(MARK)).await?;
    let (kept, of) = kept(&given.own, &given.now);
    given
        .seen
        .hold(of > 0, || "the program has no system prompt of its own that could be replaced".to_owned())?;
    // Programs still send the working directory and the list of tools.
    given.seen.hold(!replaces || kept * 10 <= of * 7, || {
        format!("it was added instead of replacing: {kept} of {of} lines of the program's own prompt are still sent")
    })
}

pub(super) async fn append_system(context: CaseContext) -> CaseVerdict {
    let given = given(&context, |task| task.append_system_prompt(MARK)).await?;
    let (kept, of) = kept(&given.own, &given.now);
    given.seen.hold(of > 0 && kept * 10 >= of * 9, || {
        format!("it replaced instead of adding: {kept} of {of} lines of the program's own prompt are sent")
    })
}

/// A run with a system prompt, and the system prompts that arrived without and with it.
struct SystemPromptRun {
    seen: WatchedRun,
    own: String,
    now: String,
}

/// Runs twice, without and with a system prompt, which has to arrive.
async fn given(
    context: &CaseContext,
    with: impl FnOnce(Task) -> Task,
) -> Result<SystemPromptRun, CaseFailure> {
    const PROMPT: &str = "[[text]] Say something.";
    let (one, two) = (context.place("one").await?, context.place("two").await?);
    let (plain, seen) = tokio::join!(one.run(one.task(PROMPT)), two.run(with(two.task(PROMPT))));
    let (plain, seen) = (plain?, seen?);
    let (before, requests) = (facts(&one, &plain)?, facts(&two, &seen)?);
    let said = |entry: &LedgerEntry| {
        let facts = entry.facts.as_ref();
        facts.is_some_and(|it| it.system.contains(MARK) || it.users.iter().any(|text| text.contains(MARK)))
    };
    // Not in every request: a program may also send one for its memory.
    let Some(arrived) = requests.iter().find(|entry| said(entry)) else {
        let system = requests.first().map(|entry| short(&system_of(entry))).unwrap_or_default();
        return Err(seen.trouble(format_args!("{MARK:?} is in no request; the system prompt is {system}")));
    };
    // The two runs have different working directories, which the prompts contain.
    let now = system_of(arrived).replace(&*two.project.to_string_lossy(), "");
    let own = before.iter().map(system_of).max_by_key(String::len).unwrap_or_default();
    Ok(SystemPromptRun { seen, own: own.replace(&*one.project.to_string_lossy(), ""), now })
}

fn system_of(entry: &LedgerEntry) -> String {
    entry.facts.as_ref().map(|it| it.system.clone()).unwrap_or_default()
}

/// Counts the lines of a prompt that are part of another one, and all of them. Short lines, such as headings, prove nothing.
fn kept(own: &str, now: &str) -> (usize, usize) {
    const LONG: usize = 40;
    let lines: Vec<&str> = own.lines().map(str::trim).filter(|line| line.chars().count() >= LONG).collect();
    (lines.iter().filter(|line| now.contains(**line)).count(), lines.len())
}

pub(super) async fn schema(context: CaseContext) -> CaseVerdict {
    let schema = r#"{"type":"object","properties":{"knot":{"type":"string"}},"required":["knot"],"additionalProperties":false}"#;
    let schema: Json = serde_json::from_str(schema).expect("it is valid JSON");
    let place = context.place("one").await?;
    let seen = place.run(place.task("[[schema]] Name a knot.").output_schema(schema)).await?;
    seen.completed()?;
    let requests = facts(&place, &seen)?;
    let arrived = requests.iter().any(|entry| entry.body.to_string().contains("\"knot\""));
    seen.hold(arrived, || "the schema is in no request".to_owned())?;
    let answer = serde_json::from_str::<serde_json::Value>(seen.text());
    seen.hold(answer.as_ref().is_ok_and(|it| it["knot"].is_string()), || {
        format!("the answer is {}", short(seen.text()))
    })
}

const IMAGE_PROMPT: &str = "[[text]] What is in the image?";

pub(super) async fn image(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join("dot.png");
    std::fs::write(&file, PNG)?;
    let seen = place.run(place.task(IMAGE_PROMPT).attach(&file)).await?;
    seen.completed()?;
    let requests = facts(&place, &seen)?;
    let images = |entry: &LedgerEntry| entry.facts.as_ref().map_or(0, |it| it.images.len());
    seen.hold(requests.iter().any(|entry| images(entry) > 0), || {
        // A program that leaves an image out may send the reason instead.
        let sent = seen.events.iter().filter_map(|event| {
            if let Kind::UserMessage(message) = &event.kind { Some(message.text.as_str()) } else { None }
        });
        let told: Vec<String> = sent.filter(|text| *text != IMAGE_PROMPT).map(short).collect();
        match told.is_empty() {
            true => "no request had an image".to_owned(),
            false => format!("no request had an image; the program sent {}", told.join(", ")),
        }
    })
}

pub(super) async fn large_prompt(context: CaseContext) -> CaseVerdict {
    const SIZE: usize = 900 * 1024;
    let place = context.place("one").await?;
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
    let whole = |entry: &LedgerEntry| {
        entry.facts.as_ref().is_some_and(|it| it.users.iter().any(|text| text.contains(prompt.trim())))
    };
    seen.hold(requests.iter().any(whole), || {
        format!(
            "sent {} bytes; the longest user message that arrived has {}",
            prompt.len(),
            longest.unwrap_or_default()
        )
    })
}

/// Returns the requests of the conversation, or fails if there were none.
fn facts(place: &CasePlace, seen: &WatchedRun) -> Result<Vec<LedgerEntry>, CaseFailure> {
    let requests: Vec<LedgerEntry> =
        place.requests().into_iter().filter(|entry| entry.facts.is_some()).collect();
    if requests.is_empty() {
        Err(seen.trouble("the program sent no request to the model"))
    } else {
        Ok(requests)
    }
}

/// A red dot: 8 by 8 pixels.
const PNG: &[u8] = include_bytes!("dot.png");

#[cfg(test)]
mod tests {
    use super::kept;

    #[test]
    fn what_is_left_of_a_prompt_is_counted() {
        let own = "# Agent\n\nYou are an agent that ties knots of every kind.\n  - Prefer the bowline to every other knot there is.\n";
        assert_eq!(kept(own, own), (2, 2));
        assert_eq!(kept(own, &format!("{own}\nAnswer as a boatswain.")), (2, 2));
        assert_eq!(kept(own, "Answer as a boatswain."), (0, 2));
        assert_eq!(kept("Short.", "Short."), (0, 0));
    }
}
