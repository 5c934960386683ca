//! `bowline attach`: follows a live session, and sends what is typed. The terminal keeps its usual line mode, so nothing has to be
//! restored however this command ends, and prompts can be typed while a request of the agent is open.
//!
//! A request is shown as `bowline run` shows it, and a line decides the request that is on the screen. What was typed before that does not
//! count, and the order names the request, so that an agent that asks for something else meanwhile gets no decision. Without a terminal,
//! nothing shows that the line was typed by a person who read the request, so it decides no approval.

mod on_file;
mod typed;

use std::io::IsTerminal as _;
use std::time::Duration;

use bowline::journal::{Home, SessionMeta};
use bowline::remote::{ConnectError, OrderError, OrderSender};
use bowline::{AttachedSession, EventWatch};
use bowline_protocol::kinds::{ControlMode, LimitState};
use bowline_protocol::{
    Event, Kind, Millis, OrderRefused, PermissionMode, Receipt, SessionId, SessionOrder, Timestamp, WhenBusy,
};
use tokio::sync::mpsc;

use self::typed::{TypedLine, meaning};
use super::live::{FoundSession, find, refused, unreachable, watches_only};
use super::orders::{SnapshotSource, described, in_words};
use crate::args::live::AttachArgs;
use crate::error::{CommandError, Fault};
use crate::human::{AskTyping, DetailLevel, LineStep, RunSummary, TICK};
use crate::output::sink::{OutputFormat, Sink};
use crate::signals::{ProcessSignals, SignalAction};
use crate::ui::{closed_by_its_reader, keyboard, terminal};
use crate::{async_runtime, suggest, time};

/// The maximum number of past events in a batch.
const AT_ONCE: usize = 256;

/// Follows a session.
pub(crate) fn run(args: &AttachArgs) -> Result<(), CommandError> {
    let format = suggest::output(&args.output)?;
    let found = find(&args.session)?;
    let runtime = async_runtime::start()?;
    let result = runtime.block_on(async {
        let FoundSession { home, id, name } = &found;
        let attached = match bowline::attach_in(home, id.as_str()).await {
            Ok(session) => session.with_our_runner().await,
            other => other,
        };
        match attached {
            Ok(session) => follow(args, format, &found, session).await,
            // It can still be read.
            Err(ConnectError::NotRunning { .. }) => on_file::over(args, format, &found),
            Err(ConnectError::NoSocket { .. }) if args.watch => on_file::watch(args, format, &found).await,
            Err(ConnectError::NoSocket { .. }) => {
                let message = format!("the session {id} takes no orders: it is a run of `bowline run`");
                Err(CommandError::new(Fault::Usage, message)
                    .hint(format!("`bowline attach {name} --watch` follows it"))
                    .hint(format!("`bowline stop {name}` ends it")))
            }
            Err(error) => Err(unreachable(id, name, error)),
        }
    });
    // A thread may still wait for a line of standard input.
    runtime.shutdown_background();
    result
}

fn description(home: &Home, id: &SessionId) -> Result<SessionMeta, CommandError> {
    let dir = home.session_dir(id).map_err(bowline::Error::from)?;
    Ok(SessionMeta::read(&dir).map_err(bowline::Error::from)?)
}

fn sink(args: &AttachArgs, format: OutputFormat, home: &Home, id: &SessionId) -> Result<Sink, CommandError> {
    let meta = description(home, id)?;
    let detail = match args.verbose {
        0 => DetailLevel::Usual,
        1 => DetailLevel::Verbose,
        _ => DetailLevel::Everything,
    };
    // The start of the session, which has both, may lie before the first event that is shown.
    let mut options = terminal::options(detail, PermissionMode::Ask, meta.cwd);
    options.provider = Some(meta.entry.unwrap_or(meta.provider));
    // No status line: it would be drawn over what is being typed.
    options.screen.stderr.erases = false;
    Ok(Sink::new(format, options, None))
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
    Line(Option<EnteredLine>),
    Signal(SignalAction),
    Tick,
    /// The reader of standard output is gone.
    Closed,
}

/// A line of standard input.
struct EnteredLine {
    text: String,
    /// When it was read. A line that came before a request was shown does not decide it.
    at: Timestamp,
}

async fn follow(
    args: &AttachArgs,
    format: OutputFormat,
    found: &FoundSession,
    session: AttachedSession,
) -> Result<(), CommandError> {
    let FoundSession { home, id, name } = found;
    let mut sink = sink(args, format, home, id)?;
    let from = first(home, id, args.from)?;
    let mut watch = session.watch_from(from).map_err(CommandError::from)?;
    let typing = !args.watch;
    let watches_only = watches_only(&session);
    if let Some(why) = watches_only.as_ref().filter(|_| typing) {
        sink.tell(&format!("watching only: {why}"))?;
    }
    let is_human = matches!(format, OutputFormat::Human);
    let is_terminal = std::io::stdin().is_terminal();
    if is_human {
        let decides = typing && is_terminal && watches_only.is_none();
        ask(&mut sink, decides, found)?;
    }
    if is_human && typing && is_terminal {
        sink.tell(&format!("attached to {id}; type a prompt, or `:help`; Ctrl-D detaches"))?;
    }
    show_past(&session, from, &mut watch, &mut sink).await?;
    let mut signals = ProcessSignals::new()?;
    let mut lines = typed_lines(typing);
    let mut closed = closed_by_its_reader();
    let typist =
        Typist { orders: session.orders(), session, home: home.clone(), name: name.clone(), asks: is_human };
    let (mut shown, mut tick) = (None, tokio::time::interval(Duration::from_millis(TICK.0)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    // Piped input is sent to its end before the command detaches; a terminal detaches at once.
    let mut typed_all = !typing;
    loop {
        if sink.waits_for_keys() != shown {
            shown = sink.waits_for_keys();
            if shown.is_some() {
                sink.ring();
                // The beginning of a line was typed before the request was shown.
                keyboard::forget_typed();
            }
        }
        let woken = tokio::select! {
            biased;
            signal = signals.next() => AttachWake::Signal(signal),
            event = next(&mut watch) => AttachWake::Event(event?.map(Box::new)),
            line = lines.recv(), if !typed_all => AttachWake::Line(line),
            _ = &mut closed => AttachWake::Closed,
            // Only an open request is drawn again.
            _ = tick.tick(), if shown.is_some() => AttachWake::Tick,
        };
        match woken {
            AttachWake::Event(Some(event)) => {
                sink.events(std::slice::from_ref(&*event), time::now())?;
                if wants_a_person(&event.kind) {
                    sink.ring();
                }
            }
            // The runner is gone.
            AttachWake::Event(None) => {
                finish(&mut sink, id)?;
                return sink.tell("the session is over");
            }
            AttachWake::Line(Some(line)) => match typist.line(&line, &mut sink).await? {
                TypedResult::Told(text) => {
                    for line in text.lines() {
                        sink.tell(line)?;
                    }
                }
                TypedResult::Quiet => {}
                TypedResult::Detach => return detached(&mut sink, name),
            },
            AttachWake::Line(None) if is_terminal => return detached(&mut sink, name),
            AttachWake::Line(None) => typed_all = true,
            AttachWake::Tick => sink.tick(time::now())?,
            // As for a table: a reader that has seen enough is no error, and the session goes on.
            AttachWake::Closed => return Ok(()),
            AttachWake::Signal(SignalAction::Window) => sink.resize(terminal::width()),
            AttachWake::Signal(SignalAction::Stop(_)) => return detached(&mut sink, name),
        }
    }
}

/// Shows the requests of the agent.
fn ask(sink: &mut Sink, decides: bool, found: &FoundSession) -> Result<(), CommandError> {
    sink.ask(if decides { AskTyping::Lines } else { AskTyping::Elsewhere });
    // Its event may lie before the first one that is shown.
    if let Some(has) = &description(&found.home, &found.id)?.capabilities {
        sink.capabilities(has);
    }
    Ok(())
}

/// Returns whether the bell rings at an event. At a request it rings when the request is shown.
#[expect(clippy::wildcard_enum_match_arm, reason = "at every other event nothing waits for a person")]
fn wants_a_person(kind: &Kind) -> bool {
    match kind {
        Kind::TurnEnded(_) => true,
        Kind::LimitReported(limit) => limit.state == LimitState::Exhausted,
        _ => false,
    }
}

/// Shows the events that are on file already. A request that was settled since is not shown as an open one.
async fn show_past(
    session: &AttachedSession,
    from: u64,
    watch: &mut EventWatch,
    sink: &mut Sink,
) -> Result<(), CommandError> {
    let head = *session.head().borrow();
    let mut past = Vec::new();
    let mut last = from - 1;
    while last < head {
        let Some(event) = next(watch).await? else { break };
        last = event.seq;
        past.push(event);
        if past.len() == AT_ONCE {
            sink.past(&std::mem::take(&mut past), time::now())?;
        }
    }
    sink.events(&past, time::now())
}

async fn next(watch: &mut EventWatch) -> Result<Option<Event>, CommandError> {
    watch.next().await.map_err(|error| CommandError::from(bowline::Error::from(error)))
}

fn detached(sink: &mut Sink, name: &str) -> Result<(), CommandError> {
    sink.tell(&format!("detached; the session goes on: `bowline attach {name}`"))
}

/// Reads standard input line by line, on a thread of its own: a read of a terminal cannot be cancelled.
fn typed_lines(typing: bool) -> mpsc::Receiver<EnteredLine> {
    let (sender, receiver) = mpsc::channel(16);
    if typing {
        std::thread::spawn(move || {
            for line in std::io::stdin().lines() {
                let Ok(text) = line else { return };
                if sender.blocking_send(EnteredLine { text, at: time::now() }).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

/// Returns the text about an order that changes who leads: no event that is shown tells of it.
fn leader_text(order: &SessionOrder) -> Option<&'static str> {
    let SessionOrder::SetControl { mode } = order else { return None };
    Some(match mode {
        ControlMode::HumanLed => "you lead; the queue waits",
        ControlMode::AgentLed => "the agent leads again",
        ControlMode::Delegated => "the session is delegated",
    })
}

/// Sends what is typed.
struct Typist {
    orders: OrderSender,
    session: AttachedSession,
    home: Home,
    /// The word by which hints name the session.
    name: String,
    /// Whether the requests of the agent are shown.
    asks: bool,
}

/// The result of a line.
enum TypedResult {
    Told(String),
    Quiet,
    Detach,
}

impl Typist {
    async fn line(&self, line: &EnteredLine, sink: &mut Sink) -> Result<TypedResult, CommandError> {
        let meaning = meaning(&line.text);
        if let (true, TypedLine::Prompt(text)) = (self.asks, &meaning) {
            match sink.typed_line(text, line.at, time::now())? {
                LineStep::NotAbout => {}
                LineStep::Handled => return Ok(TypedResult::Quiet),
                LineStep::Order(order) => return self.decide(order, sink).await,
            }
        }
        let order = match meaning {
            TypedLine::Nothing => return Ok(TypedResult::Quiet),
            TypedLine::Detach => return Ok(TypedResult::Detach),
            TypedLine::Told(text) => return Ok(TypedResult::Told(text)),
            TypedLine::Status => {
                return Ok(TypedResult::Told(match self.session.snapshot().await {
                    Ok(snapshot) => {
                        let cards = super::decide::cards(&self.home, &snapshot)?;
                        described(&snapshot, &cards, &self.name, SnapshotSource::Runner)
                    }
                    Err(error) => error.to_string(),
                }));
            }
            TypedLine::Dismiss => match sink.dismissal() {
                Some(order) => return self.decide(order, sink).await,
                None => return Ok(TypedResult::Told("no question is on the screen".to_owned())),
            },
            TypedLine::Prompt(text) => return Ok(self.prompt(text).await),
            TypedLine::Order(order) => order,
        };
        let leader = leader_text(&order);
        Ok(match self.orders.order(order).await {
            Ok(Receipt::Done) => leader.map_or(TypedResult::Quiet, |text| TypedResult::Told(text.to_owned())),
            Ok(receipt) => TypedResult::Told(in_words(&receipt)),
            Err(error) => TypedResult::Told(format!("not done: {}", self.reason(&error))),
        })
    }

    /// Sends an order about the request on the screen. Its success shows as an event.
    async fn decide(&self, order: SessionOrder, sink: &mut Sink) -> Result<TypedResult, CommandError> {
        match self.orders.order(order.clone()).await {
            Ok(_) => Ok(TypedResult::Quiet),
            Err(OrderError::Refused(why)) => {
                sink.order_refused(&order, &why, time::now())?;
                Ok(TypedResult::Quiet)
            }
            Err(error) => Ok(TypedResult::Told(format!("not done: {}", self.reason(&error)))),
        }
    }

    fn reason(&self, error: &OrderError) -> String {
        refused(error, &self.name).summary()
    }

    /// Sends a prompt: into the running turn if the agent can be steered, else behind it. Without a turn it begins one.
    async fn prompt(&self, text: String) -> TypedResult {
        let order = |when_busy| {
            let (text, attachments, from) = (text.clone(), Vec::new(), None);
            SessionOrder::Prompt { text, attachments, when_busy, from }
        };
        let steered = self.orders.order(order(WhenBusy::Steer)).await;
        let sent = match steered {
            Err(OrderError::Refused(OrderRefused::NotSteerable { .. })) => {
                self.orders.order(order(WhenBusy::Queue)).await
            }
            Err(OrderError::Refused(OrderRefused::TurnOver)) => {
                // The queue waits while a person leads, and the person who types is that one.
                let snapshot = self.session.snapshot().await;
                let is_led = snapshot.is_ok_and(|it| it.control == ControlMode::HumanLed);
                self.orders.order(order(if is_led { WhenBusy::Now } else { WhenBusy::Queue })).await
            }
            other => other,
        };
        match sent {
            // The turn itself shows that.
            Ok(Receipt::Started { .. }) => TypedResult::Quiet,
            Ok(receipt) => TypedResult::Told(in_words(&receipt)),
            Err(error) => TypedResult::Told(format!("not sent: {}", self.reason(&error))),
        }
    }
}
