//! The commands that send one order to a live session and print its receipt: send, dequeue, interrupt, answer, set, compact,
//! control and status. Those that decide a request of the agent are in `decide`.

use std::path::Path;

use bowline::remote::{ConnectError, OrderError};
use bowline::{AttachedSession, Attachment, Receipt};
use bowline_protocol::kinds::{ControlMode, PromptQueue};
use bowline_protocol::{
    OrderRefused, PermissionMode, PromptId, QueuedPrompt, SessionOrder, SessionSnapshot, WhenBusy,
};
use bowline_providers::ansi::harmless;

use super::decide::cards;
use super::live::{FoundSession, find, refused, unreachable, with_json_refusal};
use super::run::{absolute_file, prompt};
use crate::args::live::{AnswerArgs, CONTROL_MODES, ControlArgs, DequeueArgs, SendArgs, SessionArg, SetArgs};
use crate::async_runtime;
use crate::error::{CommandError, Fault};
use crate::human::{ApprovalCards, shell_word};
use crate::ui::Stdout;

/// Sends a prompt.
pub(crate) fn send(args: &SendArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let order = match &args.offered {
        Some(id) => SessionOrder::SendOffered { prompt: PromptId::from(id.as_str()) },
        None => {
            let when_busy = match (args.steer, args.now) {
                (true, _) => WhenBusy::Steer,
                (false, true) => WhenBusy::Now,
                (false, false) => WhenBusy::Queue,
            };
            let text = prompt(args.prompt.as_deref())?;
            let attachments = args.image.iter().map(|path| attachment(path)).collect::<Result<_, _>>()?;
            SessionOrder::Prompt { text, attachments, when_busy, from: None }
        }
    };
    let runtime = async_runtime::start()?;
    let receipt = runtime.block_on(async {
        let found = find(&args.session.session)?;
        let session = found.connect_to_work().await?;
        session.order(order).await.map_err(|error| not_sent(&error, &found.name))
    });
    runtime.shutdown_background();
    let receipt = with_json_refusal(receipt, args.session.json, stdout)?;
    print(&args.session, &receipt, stdout)
}

/// Makes the error of a prompt that was not accepted.
fn not_sent(error: &OrderError, session: &str) -> CommandError {
    let is_late = matches!(error, OrderError::Refused(OrderRefused::TurnOver));
    let command = refused(error, session);
    if is_late {
        command.hint(format!("without `--steer`, `bowline send {session}` begins a turn with it"))
    } else {
        command
    }
}

/// Makes the attachment of an image. The runner reads it, and has another directory.
fn attachment(path: &Path) -> Result<Attachment, CommandError> {
    let path = absolute_file(path, "--image")?;
    match path.into_os_string().into_string() {
        Ok(path) => Ok(Attachment { path, media_type: None }),
        Err(path) => {
            Err(CommandError::new(Fault::Usage, format!("the path of `--image` is not UTF-8: {path:?}")))
        }
    }
}

/// Takes a prompt back.
pub(crate) fn dequeue(args: &DequeueArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let runtime = async_runtime::start()?;
    let taken = runtime.block_on(async {
        let found = find(&args.session.session)?;
        let session = found.connect().await?;
        let snapshot = session.snapshot().await.map_err(|error| found.refused(&error))?;
        let mut known = snapshot.queue.iter().chain(&snapshot.offered);
        let prompt = match &args.prompt {
            Some(id) => known.find(|prompt| prompt.id.as_str() == id),
            None => snapshot.queue.last(),
        };
        let id = args.prompt.as_deref().map(PromptId::from).or_else(|| prompt.map(|it| it.id.clone()));
        let Some(id) = id else { return Err(nothing_queued(&snapshot, &found.name)) };
        session
            .order(SessionOrder::Dequeue { prompt: Some(id) })
            .await
            .map_err(|error| found.refused(&error))?;
        Ok(prompt.cloned())
    });
    runtime.shutdown_background();
    // A prompt that came between the two questions is not known here.
    let taken: Option<QueuedPrompt> = with_json_refusal(taken, args.session.json, stdout)?;
    if args.session.json {
        let done = serde_json::json!({ "receipt": "done", "prompt": taken });
        return stdout.print(&format!("{done}\n"));
    }
    let text = taken.map_or_else(
        || in_words(&Receipt::Done),
        |prompt| format!("taken back: {}: {}", prompt.id, one_line(&prompt.text)),
    );
    stdout.print(&harmless(&format!("{text}\n")))
}

/// Makes the error of `dequeue` without an id while no prompt is queued. An unsent prompt is not dropped without its id.
fn nothing_queued(snapshot: &SessionSnapshot, session: &str) -> CommandError {
    let error = CommandError::new(Fault::Usage, "no prompt is queued");
    match snapshot.offered.last() {
        Some(unsent) => error.hint(format!("`bowline dequeue {session} {}` drops an unsent one", unsent.id)),
        None => error,
    }
}

/// Ends the running turn.
pub(crate) fn interrupt(args: &SessionArg, stdout: &mut Stdout) -> Result<(), CommandError> {
    give(args, &SessionOrder::Interrupt, stdout)
}

/// Compacts the agent's context.
pub(crate) fn compact(args: &SessionArg, stdout: &mut Stdout) -> Result<(), CommandError> {
    give(args, &SessionOrder::Compact, stdout)
}

/// Answers a question of an agent.
pub(crate) fn answer(args: &AnswerArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let (question, answers) = (args.question.as_deref().map(Into::into), args.answers.clone());
    give(&args.session, &SessionOrder::Reply { question, answers }, stdout)
}

/// Changes an option.
pub(crate) fn set(args: &SetArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let (option, value) = (args.option.clone(), args.value.clone());
    give(&args.session, &SessionOrder::SetOption { option, value }, stdout)
}

/// Changes who leads, or prints it.
pub(crate) fn control(args: &ControlArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    if let Some(mode) = args.mode {
        return give(&args.session, &SessionOrder::SetControl { mode }, stdout);
    }
    let control = snapshot(&args.session)?.1.control;
    if args.session.json {
        return stdout.print(&format!("{}\n", json(&serde_json::json!({ "control": control }))?));
    }
    stdout.print(&format!("{}\n", leader(control)))
}

/// The name of a side that leads, as people type it.
fn leader(mode: ControlMode) -> &'static str {
    let name = CONTROL_MODES.into_iter().find(|(_, known)| *known == mode);
    name.map_or("unknown", |(name, _)| name)
}

/// Sends an order, and prints its receipt.
fn give(args: &SessionArg, order: &SessionOrder, stdout: &mut Stdout) -> Result<(), CommandError> {
    let runtime = async_runtime::start()?;
    let receipt = runtime.block_on(async {
        let found = find(&args.session)?;
        let session = found.connect().await?;
        let given = session.order(order.clone()).await;
        match given {
            Ok(receipt) => Ok(receipt),
            Err(error) => Err(with_choices(found.refused(&error), order, &session, &found.name).await),
        }
    });
    runtime.shutdown_background();
    let receipt = with_json_refusal(receipt, args.json, stdout)?;
    print(args, &receipt, stdout)
}

/// Adds the values that an order could have had, or the command that shows why there was nothing to do.
async fn with_choices(
    error: CommandError,
    order: &SessionOrder,
    session: &AttachedSession,
    name: &str,
) -> CommandError {
    if matches!(order, SessionOrder::Interrupt) {
        return error.hint(format!("`bowline status {name}` shows what the session does"));
    }
    let Ok(snapshot) = session.snapshot().await else { return error };
    error.maybe_hint(choices_of(order, &snapshot))
}

/// Returns a hint with the options of a session, with the values of one, or with the choices of a question.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other orders have no values to choose from")]
fn choices_of(order: &SessionOrder, snapshot: &SessionSnapshot) -> Option<String> {
    match order {
        SessionOrder::SetOption { option, .. } => {
            let known = snapshot.options.iter().find(|known| known.id == *option);
            let modes = || PermissionMode::ALL.into_iter().map(|mode| mode.as_str().to_owned()).collect();
            let values: Vec<String> = match known {
                Some(known) if !known.choices.is_empty() => known.choices.clone(),
                _ if option == "permission" => modes(),
                Some(_) => return None,
                None => {
                    let own = snapshot.options.iter().map(|known| known.id.as_str());
                    let own = own.filter(|id| !ALWAYS.contains(id));
                    let all: Vec<&str> = ALWAYS.into_iter().chain(own).collect();
                    return Some(format!("the options are {}", all.join(", ")));
                }
            };
            Some(format!("the values of `{option}` are {}", values.join(", ")))
        }
        SessionOrder::Reply { question, .. } => {
            let mut open = snapshot.questions.iter();
            let asked = open.find(|asked| question.as_ref().is_none_or(|id| asked.id == *id))?;
            (!asked.choices.is_empty()).then(|| format!("the choices are {}", asked.choices.join(", ")))
        }
        _ => None,
    }
}

/// The options that Bowline changes at any agent that has them.
const ALWAYS: [&str; 3] = ["model", "effort", "permission"];

fn print(args: &SessionArg, receipt: &Receipt, stdout: &mut Stdout) -> Result<(), CommandError> {
    if args.json {
        return stdout.print(&format!("{}\n", json(receipt)?));
    }
    stdout.print(&format!("{}\n", in_words(receipt)))
}

/// Returns a receipt for people.
pub(crate) fn in_words(receipt: &Receipt) -> String {
    match receipt {
        Receipt::Started { turn, .. } => format!("started turn {turn}"),
        Receipt::Steered { turn, prompt } => format!("the agent has it, in turn {turn} (prompt {prompt})"),
        Receipt::Queued { prompt, ahead, held } => {
            let place = match ahead {
                0 => "as the next prompt".to_owned(),
                ahead => format!("behind {ahead}"),
            };
            let until = if *held { "; a person leads, so it waits for the release" } else { "" };
            format!("queued {place} (prompt {prompt}){until}")
        }
        Receipt::SessionStarted { session } => format!("started {session}"),
        Receipt::Done => "done".to_owned(),
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, CommandError> {
    serde_json::to_string(value)
        .map_err(|error| CommandError::new(Fault::Internal, "could not write the receipt").caused_by(error))
}

/// Prints the state of a session.
pub(crate) fn status(args: &SessionArg, stdout: &mut Stdout) -> Result<(), CommandError> {
    let (found, snapshot, source) = snapshot(args)?;
    if args.json {
        return stdout.print(&format!("{}\n", json(&snapshot)?));
    }
    let cards = cards(&found.home, &snapshot)?;
    stdout.print(&harmless(&described(&snapshot, &cards, &found.name, source)))
}

/// The source of a snapshot, which decides what a person can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotSource {
    /// A runner that takes orders.
    Runner,
    /// The journal of a session without a runner.
    Journal,
    /// The journal of a run that takes no orders.
    JournalOfRun,
}

/// Returns the snapshot of a session: of its runner, or, without one that answers, of its journal.
fn snapshot(args: &SessionArg) -> Result<(FoundSession, SessionSnapshot, SnapshotSource), CommandError> {
    let runtime = async_runtime::start()?;
    let found = find(&args.session)?;
    let attached = runtime.block_on(async {
        match bowline::attach_in(&found.home, found.id.as_str()).await {
            Ok(session) => session.snapshot().await.map(Ok).map_err(|error| found.refused(&error)),
            Err(ConnectError::NotRunning { .. }) => Ok(Err(SnapshotSource::Journal)),
            Err(ConnectError::NoSocket { .. }) => Ok(Err(SnapshotSource::JournalOfRun)),
            Err(error) => Err(unreachable(&found.id, &found.name, error)),
        }
    });
    runtime.shutdown_background();
    match attached? {
        Ok(snapshot) => Ok((found, snapshot, SnapshotSource::Runner)),
        Err(source) => {
            let dir = found.home.session_dir(&found.id).map_err(bowline::Error::from)?;
            let snapshot = bowline::journal::snapshot(&dir).map_err(bowline::Error::from)?;
            Ok((found, snapshot, source))
        }
    }
}

/// Describes a session for people, who call it `name`. Approvals are shown whole: a person decides by them.
pub(crate) fn described(
    snapshot: &SessionSnapshot,
    cards: &ApprovalCards,
    name: &str,
    source: SnapshotSource,
) -> String {
    let mut text = format!("session   {}\nstate     {}\n", snapshot.session, word(snapshot.state));
    if let Some(reason) = &snapshot.reason {
        text += &format!("reason    {}\n", one_line(reason));
    }
    let model = snapshot.model.as_ref().map(|model| format!(" · {model}")).unwrap_or_default();
    text += &format!("agent     {}{model}\n", snapshot.provider);
    let process = match (snapshot.has_process, source) {
        (true, _) => "running".to_owned(),
        (false, SnapshotSource::Runner) => "none; the next prompt starts one".to_owned(),
        (false, SnapshotSource::Journal) => {
            format!("none; go on with `bowline start --resume {name}`")
        }
        (false, SnapshotSource::JournalOfRun) => "none".to_owned(),
    };
    text += &format!("process   {process}\ncontrol   {}\n", leader(snapshot.control));
    if let Some(turn) = snapshot.turn {
        text += &format!("turn      {turn}, running\n");
    } else if let Some(last) = snapshot.last_turn {
        text += &format!("turn      {}, {}\n", last.turn, word(last.outcome));
    }
    for asked in &snapshot.approvals {
        let id = shell_word(asked.id.as_str());
        text += &format!("approval  {id}: {}\n", cards.lines_with_scope(asked).join("\n"));
    }
    for asked in &snapshot.questions {
        let choices = if asked.choices.is_empty() {
            String::new()
        } else {
            format!(" [{}]", asked.choices.join(" | "))
        };
        text += &format!("question  {}: {}{choices}\n", asked.id, one_line(&asked.text));
    }
    for prompt in &snapshot.queue {
        let place = if prompt.queue == PromptQueue::Agent { "at the agent" } else { "queued" };
        text += &format!("prompt    {}, {place}: {}\n", prompt.id, one_line(&prompt.text));
    }
    for prompt in &snapshot.offered {
        let id = &prompt.id;
        let how = match source {
            SnapshotSource::Runner => format!(" (send it: `bowline send {name} --offered {id}`)"),
            SnapshotSource::Journal | SnapshotSource::JournalOfRun => String::new(),
        };
        text += &format!("unsent    {id}: {}{how}\n", one_line(&prompt.text));
    }
    if let Some(mode) = snapshot.permission {
        text += &format!("permission {}\n", mode.as_str());
    }
    // The line above has it.
    let others = snapshot.options.iter().filter(|option| option.id != "permission");
    for option in others.filter(|option| option.current.is_some()) {
        text += &format!("option    {} = {}\n", option.id, option.current.as_deref().unwrap_or_default());
    }
    text
}

/// The first line of a text, cut.
fn one_line(text: &str) -> String {
    const MOST: usize = 100;
    let line = text.trim().lines().next().unwrap_or_default();
    let cut: String = line.chars().take(MOST).collect();
    if cut.len() < text.trim().len() { format!("{cut}…") } else { cut }
}

/// The name of a word of the protocol, for people.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    let name = serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned));
    name.unwrap_or_default().replace('_', " ")
}
