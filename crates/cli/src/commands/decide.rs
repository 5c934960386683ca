//! `bowline approve` and `bowline deny`: a person decides a request of the agent, and sees which one.
//!
//! An order names the request, and its id is never used again in the session: an agent that withdraws its request and asks for something
//! else gets no decision. `approve` without an id shows the request and asks at the terminal; without a terminal it refuses, because
//! the caller may have read another request. A denial needs no such care: nothing happens that was not read.

use std::path::Path;
use std::time::Duration;

use bowline::AttachedSession;
use bowline::journal::{Home, Reader};
use bowline::remote::OrderError;
use bowline_protocol::kinds::ApprovalAsked;
use bowline_protocol::{ApprovalId, ApprovalVerdict, Json, OrderRefused, SessionOrder, SessionSnapshot};

use super::live::{FoundSession, find, watches_only, with_json_refusal};
use super::orders::in_words;
use crate::args::live::{ApproveArgs, DenyArgs, SessionArg};
use crate::async_runtime;
use crate::error::{CommandError, Fault};
use crate::human::{ApprovalCards, shell_word};
use crate::signals::ProcessSignals;
use crate::ui::keyboard::{KeyInput, Keyboard};
use crate::ui::{Stdout, Ui, terminal};

/// A key that is pressed sooner after the request is shown was meant for something else.
const GRACE: Duration = Duration::from_millis(300);

/// Allows what an agent asks for.
pub(crate) fn approve(args: &ApproveArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let verdict = match (&args.input, args.for_session) {
        (_, true) => ApprovalVerdict::AllowForSession,
        (Some(path), false) => ApprovalVerdict::Allow { input: Some(changed_input(path)?) },
        (None, false) => ApprovalVerdict::Allow { input: None },
    };
    decide(&args.session, args.approval.as_deref(), verdict, stdout)
}

/// Denies what an agent asks for.
pub(crate) fn deny(args: &DenyArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let verdict = ApprovalVerdict::Deny { message: args.message.clone() };
    decide(&args.session, args.approval.as_deref(), verdict, stdout)
}

/// Reads what the cards of the open approvals need.
pub(crate) fn cards(home: &Home, snapshot: &SessionSnapshot) -> Result<ApprovalCards, CommandError> {
    let mut cards = ApprovalCards::new(&snapshot.provider, terminal::glyphs());
    if !snapshot.approvals.is_empty() {
        let dir = home.session_dir(&snapshot.session).map_err(bowline::Error::from)?;
        let mut reader = Reader::open(&dir).map_err(bowline::Error::from)?;
        while let Some(event) = reader.next_event().map_err(bowline::Error::from)? {
            cards.event(&event);
        }
    }
    Ok(cards)
}

fn decide(
    session: &SessionArg,
    id: Option<&str>,
    verdict: ApprovalVerdict,
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    let runtime = async_runtime::start()?;
    let decided = runtime.block_on(async {
        let found = find(&session.session)?;
        let live = found.connect().await?;
        decide_in(&found, &live, session, id, verdict).await
    });
    runtime.shutdown_background();
    let text = with_json_refusal(decided, session.json, stdout)?;
    stdout.print(&text)
}

/// Sends a decision, and returns the text about it.
async fn decide_in(
    found: &FoundSession,
    live: &AttachedSession,
    session: &SessionArg,
    id: Option<&str>,
    verdict: ApprovalVerdict,
) -> Result<String, CommandError> {
    let snapshot = live.snapshot().await.map_err(|error| found.refused(&error))?;
    let cards = cards(&found.home, &snapshot)?;
    let asked = match (id, snapshot.approvals.as_slice()) {
        (Some(id), all) => all.iter().find(|asked| asked.id.as_str() == id),
        (None, [only]) => Some(only),
        (None, []) => None,
        (None, all) => return Err(several(all, &cards, &found.name, &verdict)),
    };
    // A process of an agent is refused by the runner, and asks no person here.
    let is_person = watches_only(live).is_none();
    if let (None, Some(asked), true) = (id, asked, is_person) {
        confirm(asked, &cards, &found.name, &verdict).await?;
    }
    // Without a request the runner replies why: it was decided, or never asked.
    let approval = id.map(ApprovalId::from).or_else(|| asked.map(|asked| asked.id.clone()));
    let order = SessionOrder::Decide { approval, verdict: verdict.clone() };
    let receipt = live.order(order).await.map_err(|error| not_decided(found, &error, &verdict))?;
    let Some(asked) = asked else { return Ok(format!("{}\n", in_words(&receipt))) };
    if session.json {
        let text = serde_json::json!({ "receipt": "done", "approval": asked });
        return Ok(format!("{text}\n"));
    }
    Ok(text(asked, &cards, &verdict))
}

/// Makes the error of a decision that was not carried out.
fn not_decided(found: &FoundSession, error: &OrderError, verdict: &ApprovalVerdict) -> CommandError {
    if let OrderError::Refused(refusal @ OrderRefused::NotOffered) = error
        && matches!(verdict, ApprovalVerdict::Allow { input: Some(_) })
    {
        let message = "this agent runs only its own input: leave out `--input`";
        return CommandError::new(Fault::Unfit, message).refusing(refusal);
    }
    found.refused(error)
}

/// Describes a decision that was carried out.
fn text(asked: &ApprovalAsked, cards: &ApprovalCards, verdict: &ApprovalVerdict) -> String {
    let (done, asked) = match verdict {
        ApprovalVerdict::Allow { input: None } => ("allowed", asked.clone()),
        ApprovalVerdict::Allow { input } => {
            let changed =
                ApprovalAsked { input: input.clone(), input_head: None, diff: None, ..asked.clone() };
            ("allowed with your change", changed)
        }
        ApprovalVerdict::AllowForSession => ("allowed for this session", asked.clone()),
        ApprovalVerdict::Deny { .. } => ("denied", asked.clone()),
    };
    format!("{done}: {}\n", card_for(&asked, cards, verdict).join("\n"))
}

/// Returns the card of a request. Where the whole session is allowed, it has the agent's own words for that: the agent may count other
/// actions as the same.
fn card_for(asked: &ApprovalAsked, cards: &ApprovalCards, verdict: &ApprovalVerdict) -> Vec<String> {
    match verdict {
        ApprovalVerdict::AllowForSession => cards.lines_with_scope(asked),
        ApprovalVerdict::Allow { .. } | ApprovalVerdict::Deny { .. } => cards.lines(asked),
    }
}

/// Shows the only open request, and has the person confirm that it may be allowed.
async fn confirm(
    asked: &ApprovalAsked,
    cards: &ApprovalCards,
    name: &str,
    verdict: &ApprovalVerdict,
) -> Result<(), CommandError> {
    let question = match verdict {
        ApprovalVerdict::Deny { .. } => return Ok(()),
        ApprovalVerdict::Allow { input: None } => "Allow it? [y] yes, any other key: no",
        ApprovalVerdict::Allow { .. } => "Allow it with your input? [y] yes, any other key: no",
        ApprovalVerdict::AllowForSession => "Allow it for this session? [y] yes, any other key: no",
    };
    let mut ui = Ui::new();
    ui.lines(&format!("{}\n", card_for(asked, cards, verdict).join("\n")));
    if !terminal::can_ask() {
        let message = "without a terminal, `approve` needs the id of the request";
        return Err(CommandError::new(Fault::Usage, message).hint(by_id(name, asked, verdict)));
    }
    ui.question(question);
    let answer = key().await;
    ui.lines("\n");
    if answer? == b'y' {
        return Ok(());
    }
    Err(CommandError::new(Fault::Unfit, "not allowed: the request waits for your decision")
        .hint(format!("`bowline deny {name}` denies it")))
}

/// Waits for a key that was pressed after the request was shown.
async fn key() -> Result<u8, CommandError> {
    let mut signals = ProcessSignals::new()?;
    let mut keyboard = Keyboard::open()?;
    let shown = tokio::time::Instant::now();
    loop {
        let input = tokio::select! {
            how = signals.stop() => return Err(CommandError::told(how.code())),
            input = keyboard.next() => input,
        };
        match input {
            KeyInput::Bytes(_) if shown.elapsed() < GRACE => {}
            // Several bytes are an arrow key, or text that was pasted.
            KeyInput::Bytes(bytes) if bytes.len() == 1 => return Ok(bytes[0].to_ascii_lowercase()),
            KeyInput::Bytes(_) => {}
            KeyInput::Closed => {
                return Err(CommandError::new(Fault::Internal, "the terminal is gone: nothing was decided"));
            }
        }
    }
}

/// Makes the error of several open requests, each of which is shown.
fn several(
    all: &[ApprovalAsked],
    cards: &ApprovalCards,
    name: &str,
    verdict: &ApprovalVerdict,
) -> CommandError {
    let mut ui = Ui::new();
    for asked in all {
        ui.lines(&format!("request {}: {}\n", shell_word(asked.id.as_str()), cards.lines(asked).join("\n")));
    }
    let error =
        CommandError::new(Fault::Usage, format!("{} requests are open: name one by its id", all.len()));
    all.first().into_iter().fold(error, |error, asked| error.hint(by_id(name, asked, verdict)))
}

fn by_id(name: &str, asked: &ApprovalAsked, verdict: &ApprovalVerdict) -> String {
    let (command, does) = match verdict {
        ApprovalVerdict::Allow { .. } | ApprovalVerdict::AllowForSession => ("approve", "allows"),
        ApprovalVerdict::Deny { .. } => ("deny", "denies"),
    };
    format!("`bowline {command} {name} {}` {does} it", shell_word(asked.id.as_str()))
}

/// Reads the JSON input of a tool.
fn changed_input(path: &Path) -> Result<Json, CommandError> {
    let wrong = |message: String| CommandError::new(Fault::Usage, message);
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
            .map_err(|error| wrong("could not read standard input".to_owned()).caused_by(error))?
    } else {
        std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("could not read `--input {}`", path.display())).caused_by(error))?
    };
    serde_json::from_str(&text)
        .map_err(|error| wrong(format!("`--input {}` is not JSON", path.display())).caused_by(error))
}
