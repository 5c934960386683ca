//! `bowline attach`: follows a live session, and sends what is typed. The terminal keeps its usual line mode, so nothing has to be
//! restored however this command ends.

mod typed;

use std::io::IsTerminal as _;

use bowline::journal::{Home, Reader};
use bowline::remote::{ConnectError, OrderError, OrderSender};
use bowline::{AttachedSession, EventWatch};
use bowline_protocol::kinds::{ApprovalAsked, QuestionAsked};
use bowline_protocol::{
    Event, Kind, Millis, OrderRefused, PermissionMode, Receipt, SessionId, SessionOrder, WhenBusy,
};
use tokio::sync::mpsc;

use self::typed::{OpenRequests, TypedLine, explained, meaning};
use super::live::{find, refused, unreachable, watches_only};
use super::orders::{described, in_words, word};
use crate::args::live::AttachArgs;
use crate::error::{CommandError, Fault};
use crate::human::{DetailLevel, RunSummary};
use crate::output::sink::{OutputFormat, Sink};
use crate::signals::ProcessSignals;
use crate::ui::terminal;
use crate::{async_runtime, suggest, time};

/// Follows a session.
pub(crate) fn run(args: &AttachArgs) -> Result<(), CommandError> {
    let format = suggest::output(&args.output)?;
    let (home, id) = find(&args.session)?;
    let runtime = async_runtime::start()?;
    let result = runtime.block_on(async {
        match bowline::attach(&home, &id).await {
            Ok(session) => follow(args, format, &home, session).await,
            // It can still be read.
            Err(ConnectError::NotRunning { .. }) => over(args, format, &home, &id),
            Err(ConnectError::NoSocket { .. }) => {
                let message = format!("the session {id} takes no orders: it is a run of `bowline run`");
                Err(CommandError::new(Fault::Usage, message).hint(format!("`bowline stop {id}` ends it")))
            }
            Err(error) => Err(unreachable(&id, error)),
        }
    });
    // A thread may still wait for a line of standard input.
    runtime.shutdown_background();
    result
}

fn sink(args: &AttachArgs, format: OutputFormat) -> Sink {
    let detail = match args.verbose {
        0 => DetailLevel::Usual,
        1 => DetailLevel::Verbose,
        _ => DetailLevel::Everything,
    };
    let mut options = terminal::options(detail, PermissionMode::Ask, None);
    // No status line: it would be drawn over what is being typed.
    options.screen.stderr.erases = false;
    Sink::new(format, options, None)
}

/// Prints a session that is over.
fn over(args: &AttachArgs, format: OutputFormat, home: &Home, id: &SessionId) -> Result<(), CommandError> {
    let mut sink = sink(args, format);
    let dir = home.session_dir(id).map_err(bowline::Error::from)?;
    let mut reader = Reader::open(&dir).map_err(bowline::Error::from)?;
    reader.seek(first(home, id, args.from)?).map_err(bowline::Error::from)?;
    while let Some(event) = reader.next_event().map_err(bowline::Error::from)? {
        sink.events(&[event], time::now())?;
    }
    finish(&mut sink, id)?;
    sink.tell(&format!("the session is not running; resume it: `bowline start --resume {id} \"…\"`"))
}

fn finish(sink: &mut Sink, id: &SessionId) -> Result<(), CommandError> {
    let summary = RunSummary { now: time::now(), took: Millis(0), session: Some(id.clone()), journal: None };
    sink.finish(&summary, &serde_json::json!({ "session": id.as_str() }))
}

/// Returns the first event to show: the asked one, else the beginning of the last turn.
fn first(home: &Home, id: &SessionId, from: Option<u64>) -> Result<u64, CommandError> {
    if let Some(from) = from {
        return Ok(from.max(1));
    }
    let last = super::wait::last_turn(home, id)?;
    Ok(last.turn.first().map_or(1, |event| event.seq))
}

/// The reason why the loop woke up.
enum AttachWake {
    Event(Option<Box<Event>>),
    Line(Option<String>),
    Signal,
}

async fn follow(
    args: &AttachArgs,
    format: OutputFormat,
    home: &Home,
    session: AttachedSession,
) -> Result<(), CommandError> {
    let mut sink = sink(args, format);
    let id = session.id().clone();
    let mut watch = session.watch_from(first(home, &id, args.from)?).map_err(CommandError::from)?;
    let typing = !args.watch;
    if let Some(why) = watches_only(&session).filter(|_| typing) {
        sink.tell(&format!("watching only: {why}"))?;
    }
    if matches!(format, OutputFormat::Human) && typing && std::io::stdin().is_terminal() {
        sink.tell(&format!("attached to {id}; type a prompt, or `:help`; Ctrl-D detaches"))?;
    }
    let mut signals = ProcessSignals::new()?;
    let mut lines = typed_lines(typing);
    let mut typist = Typist { orders: session.orders(), open: OpenRequests::default() };
    // Piped input is sent to its end before the command detaches; a terminal detaches at once.
    let mut typed_all = !typing;
    loop {
        let woken = tokio::select! {
            biased;
            _ = signals.stop() => AttachWake::Signal,
            event = next(&mut watch) => AttachWake::Event(event?.map(Box::new)),
            line = lines.recv(), if !typed_all => AttachWake::Line(line),
        };
        match woken {
            AttachWake::Event(Some(event)) => {
                sink.events(std::slice::from_ref(&*event), time::now())?;
                if matches!(format, OutputFormat::Human) {
                    typist.open.note(&event);
                    if let Some(text) = asked(&event) {
                        sink.tell(&text)?;
                        sink.ring();
                    }
                }
            }
            // The runner is gone.
            AttachWake::Event(None) => {
                finish(&mut sink, &id)?;
                return sink.tell("the session is over");
            }
            AttachWake::Line(Some(line)) => match typist.line(&session, &line).await {
                TypedResult::Told(text) => {
                    for line in text.lines() {
                        sink.tell(line)?;
                    }
                }
                TypedResult::Quiet => {}
                TypedResult::Detach => return detached(&mut sink, &id),
            },
            AttachWake::Line(None) if std::io::stdin().is_terminal() => return detached(&mut sink, &id),
            AttachWake::Line(None) => typed_all = true,
            AttachWake::Signal => return detached(&mut sink, &id),
        }
    }
}

async fn next(watch: &mut EventWatch) -> Result<Option<Event>, CommandError> {
    watch.next().await.map_err(|error| CommandError::from(bowline::Error::from(error)))
}

fn detached(sink: &mut Sink, id: &SessionId) -> Result<(), CommandError> {
    sink.tell(&format!("detached; the session goes on: `bowline attach {id}`"))
}

/// Reads standard input line by line, on a thread of its own: a read of a terminal cannot be cancelled.
fn typed_lines(typing: bool) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(16);
    if typing {
        std::thread::spawn(move || {
            for line in std::io::stdin().lines() {
                let Ok(line) = line else { return };
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

/// Sends what is typed.
struct Typist {
    orders: OrderSender,
    open: OpenRequests,
}

/// The result of a line.
enum TypedResult {
    Told(String),
    Quiet,
    Detach,
}

impl Typist {
    async fn line(&mut self, session: &AttachedSession, line: &str) -> TypedResult {
        let order = match meaning(line, &self.open) {
            TypedLine::Nothing => return TypedResult::Quiet,
            TypedLine::Detach => return TypedResult::Detach,
            TypedLine::Told(text) => return TypedResult::Told(text),
            TypedLine::Status => {
                return TypedResult::Told(match session.snapshot().await {
                    Ok(snapshot) => described(&snapshot),
                    Err(error) => error.to_string(),
                });
            }
            TypedLine::Prompt(text) => return self.prompt(text).await,
            TypedLine::Order(order) => order,
        };
        TypedResult::Told(match self.orders.order(order).await {
            Ok(Receipt::Done) => return TypedResult::Quiet,
            Ok(receipt) => in_words(&receipt),
            Err(error) => format!("not done: {}", reason(&error)),
        })
    }

    /// Sends a prompt: into the running turn if the agent can be steered, else behind it.
    async fn prompt(&self, text: String) -> TypedResult {
        let order = |when_busy| {
            let (text, attachments, from) = (text.clone(), Vec::new(), None);
            SessionOrder::Prompt { text, attachments, when_busy, from }
        };
        let steered = self.orders.order(order(WhenBusy::Steer)).await;
        let sent = match steered {
            Err(OrderError::Refused(OrderRefused::NotSteerable { .. } | OrderRefused::TurnOver)) => {
                self.orders.order(order(WhenBusy::Queue)).await
            }
            other => other,
        };
        match sent {
            // The turn itself shows that.
            Ok(Receipt::Started { .. }) => TypedResult::Quiet,
            Ok(receipt) => TypedResult::Told(in_words(&receipt)),
            Err(error) => TypedResult::Told(format!("not sent: {}", reason(&error))),
        }
    }
}

fn reason(error: &OrderError) -> String {
    refused(error).summary()
}

/// Returns the line that asks the person, if an event asks for something.
#[expect(clippy::wildcard_enum_match_arm, reason = "only two kinds wait for a person")]
fn asked(event: &Event) -> Option<String> {
    match &event.kind {
        Kind::ApprovalAsked(ApprovalAsked { summary, category, risk, .. }) => {
            let (category, risk) = (word(category), word(risk));
            Some(format!("approval wanted ({category}, {risk} risk): {}; {}", summary.trim(), explained()))
        }
        Kind::QuestionAsked(QuestionAsked { choices, .. }) if choices.is_empty() => {
            Some("the agent asks; your next line answers, `:dismiss` does not".to_owned())
        }
        Kind::QuestionAsked(QuestionAsked { choices, .. }) => {
            let numbered: Vec<String> =
                choices.iter().enumerate().map(|(at, choice)| format!("{}) {choice}", at + 1)).collect();
            Some(format!("the agent asks: {}; type a number or an answer", numbered.join("  ")))
        }
        _ => None,
    }
}
