//! The cases of the contract. They know a provider by its adapter alone.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bowline::adapter::ProviderAdapter;
use bowline::detect::MissingKind;
use bowline::journal::Reader;
use bowline::kinds::ToolStatus;
use bowline::{
    Category, Code, Event, EventWatch, Kind, LiveSession, Outcome, PermissionMode, Receipt, Request,
    TurnRecord,
};

use crate::subjects::{Subject, prompt, request};

type CaseFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A case, by its name.
type ContractCase = (&'static str, fn(Subject) -> CaseFuture);

pub(crate) const CASES: &[ContractCase] = &[
    ("the_program_is_detected", |subject| Box::pin(detected(subject))),
    ("a_missing_program_is_a_typed_answer", |subject| Box::pin(missing(subject))),
    ("the_capabilities_are_those_of_its_sessions", |subject| Box::pin(capabilities(subject))),
    ("a_session_starts_and_streams_its_answer", |subject| Box::pin(streams(subject))),
    ("input_begins_a_turn_or_reaches_the_running_one", |subject| Box::pin(takes_input(subject))),
    ("a_stop_ends_all_processes", |subject| Box::pin(stops(subject))),
    ("the_events_are_complete_and_in_order", |subject| Box::pin(in_order(subject))),
    ("a_failed_turn_is_data", |subject| Box::pin(fails(subject))),
    ("a_risky_action_waits_for_an_approval_or_is_denied", |subject| Box::pin(gated(subject))),
    ("a_changed_file_is_reported", |subject| Box::pin(touches(subject))),
];

/// How long a case waits for an event: the minute of the specification.
const PATIENCE: Duration = Duration::from_secs(60);

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Reads on until an event of the wanted kind.
async fn until(watch: &mut EventWatch, what: &str, is: impl Fn(&Kind) -> bool) -> Event {
    within(what, async {
        loop {
            let event =
                watch.next().await.unwrap().unwrap_or_else(|| panic!("the session ended before {what}"));
            if is(&event.kind) {
                return event;
            }
        }
    })
    .await
}

/// Waits until the session is at rest, and returns its last turn.
async fn rest(session: &LiveSession) -> TurnRecord {
    let last = within("the end of the turn", session.turn_over()).await.unwrap();
    session.turn_record(last.turn).unwrap().expect("the turn is over")
}

async fn rest_of(mut watch: EventWatch) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = within("the end of the events", watch.next()).await.unwrap() {
        events.push(event);
    }
    events
}

async fn detected(subject: Subject) {
    let found = within("the program", subject.adapter().detect()).await.unwrap();
    assert_eq!(found.program, subject.program);
    assert_eq!(found.version.as_deref(), subject.version(), "{:?}", found.unknown);
}

async fn missing(subject: Subject) {
    let adapter = subject.without_program();
    let absent = |kind: &MissingKind| matches!(kind, MissingKind::Absent | MissingKind::NoSuchFile);
    let error = within("the search", adapter.detect()).await.unwrap_err();
    assert!(absent(&error.kind), "{error:?}");
    let error = within("the search", adapter.capabilities()).await.unwrap_err();
    assert!(absent(&error.kind), "{error:?}");
    // A session can begin, because the program may be installed until its next prompt. The turn has failed.
    let session = adapter.start(request(&["say Alpha"])).await.unwrap();
    let turn = rest(&session).await;
    let failure = turn.failure.expect("the turn failed");
    assert_eq!(
        (failure.category, failure.code),
        (Category::NotFound, Code::NotInstalled),
        "{}",
        failure.message
    );
    let record = adapter.stop(session).await.unwrap();
    assert!(record.survivors.is_empty(), "{:?}", record.survivors);
}

async fn capabilities(subject: Subject) {
    let adapter = subject.adapter();
    let declared = within("the help", adapter.capabilities()).await.unwrap();
    assert!(declared.supports_non_interactive, "{declared:?}");
    assert!(!declared.permission_modes.is_empty(), "{declared:?}");
    let session = adapter.start(Request::default()).await.unwrap();
    let mut watch = adapter.events(&session, 1).unwrap();
    let started = until(&mut watch, "the start", |kind| matches!(kind, Kind::SessionStarted(_))).await;
    let Kind::SessionStarted(started) = started.kind else { unreachable!() };
    assert_eq!(started.capabilities.as_deref(), Some(&declared));
    adapter.stop(session).await.unwrap();
}

async fn streams(subject: Subject) {
    let adapter = subject.adapter();
    let session = adapter.start(request(&["say Alpha"])).await.unwrap();
    let mut watch = adapter.events(&session, 1).unwrap();
    let first = within("an event", watch.next()).await.unwrap().expect("an event");
    assert!(matches!(first.kind, Kind::SessionStarted(_)), "{first:?}");
    until(&mut watch, "the process", |kind| matches!(kind, Kind::ProcessSpawned(_))).await;
    until(&mut watch, "text", |kind| matches!(kind, Kind::TextDelta(delta) if delta.text.contains("Alpha")))
        .await;
    until(&mut watch, "the end of the turn", |kind| matches!(kind, Kind::TurnEnded(_))).await;
    let turn = rest(&session).await;
    assert_eq!((turn.outcome, turn.text.as_deref().map(str::trim)), (Outcome::Completed, Some("Alpha")));
    adapter.stop(session).await.unwrap();
}

async fn takes_input(subject: Subject) {
    let adapter = subject.adapter();
    let steers = adapter.capabilities().await.unwrap().steers;
    let session = adapter.start(Request::default()).await.unwrap();
    let watch = adapter.events(&session, 1).unwrap();
    for (number, word) in [(1, "Alpha"), (2, "Beta")] {
        let receipt = adapter.send_input(&session, prompt(&[&format!("say {word}")])).await.unwrap();
        assert!(matches!(receipt, Receipt::Started { turn, .. } if turn == number), "{receipt:?}");
        let turn = rest(&session).await;
        assert_eq!((turn.turn, turn.text.as_deref().map(str::trim)), (number, Some(word)), "{turn:?}");
    }
    // During a turn.
    let busy = prompt(&["sleep 1s", "say Gamma"]);
    adapter.send_input(&session, busy.clone()).await.unwrap();
    let late = prompt(&["say Delta"]);
    let receipt = adapter.send_input(&session, late.clone()).await.unwrap();
    match receipt {
        // An agent may offer it over its protocol, where the manifest does not declare it.
        Receipt::Steered { turn, .. } => assert_eq!(turn, 3),
        Receipt::Queued { ahead: 0, .. } => assert!(!steers, "it can be steered"),
        Receipt::Started { .. } | Receipt::Queued { .. } | Receipt::SessionStarted { .. } | Receipt::Done => {
            panic!("{receipt:?}")
        }
    }
    rest(&session).await;
    adapter.stop(session).await.unwrap();
    let events = rest_of(watch).await;
    let times = |text: &str| {
        let has =
            |event: &&Event| matches!(&event.kind, Kind::UserMessage(it) if it.text.trim() == text.trim());
        events.iter().filter(has).count()
    };
    assert_eq!((times(&busy), times(&late)), (1, 1), "each text reaches the agent once");
}

async fn stops(subject: Subject) {
    let adapter = subject.adapter();
    let session = adapter.start(request(&["say Working", "child plain", "hang"])).await.unwrap();
    let mut watch = adapter.events(&session, 1).unwrap();
    let spawned = until(&mut watch, "the process", |kind| matches!(kind, Kind::ProcessSpawned(_))).await;
    let Kind::ProcessSpawned(spawned) = spawned.kind else { unreachable!() };
    // A format that is one document at the end has no text before it.
    if adapter.capabilities().await.unwrap().streams_text {
        until(&mut watch, "text", |kind| matches!(kind, Kind::TextDelta(_))).await;
    }
    let record = within("the stop", adapter.stop(session)).await.unwrap();
    assert!(record.survivors.is_empty(), "{:?}", record.survivors);
    assert_eq!(record.outcome, Outcome::Cancelled);
    assert!(!is_alive(spawned.pid), "process {} lives", spawned.pid);
    let events = rest_of(watch).await;
    assert!(matches!(events.last().unwrap().kind, Kind::SessionEnded(_)));
}

/// Returns whether a process exists and is no zombie.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

async fn in_order(subject: Subject) {
    let adapter = subject.adapter();
    let session = adapter.start(request(&["say Alpha"])).await.unwrap();
    let watch = adapter.events(&session, 1).unwrap();
    rest(&session).await;
    adapter.send_input(&session, prompt(&["say Beta"])).await.unwrap();
    rest(&session).await;
    let later = adapter.events(&session, 4).unwrap();
    let (id, dir) = (session.id().clone(), session.dir().unwrap().to_owned());
    adapter.stop(session).await.unwrap();
    let events = rest_of(watch).await;
    for (event, seq) in events.iter().zip(1..) {
        assert_eq!((event.seq, &event.session), (seq, &id));
    }
    assert_eq!(rest_of(later).await, events[3..], "a later reader sees the same events");
    let mut reader = Reader::open(&dir).unwrap();
    let on_file: Vec<Event> = std::iter::from_fn(|| reader.next_event().unwrap()).collect();
    assert_eq!(on_file, events, "the journal has all of them");
    let mut turns: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for event in &events {
        if let (Some(turn), kind) = (event.turn, &event.kind) {
            let (starts, ends) = turns.entry(turn).or_default();
            *starts += u32::from(matches!(kind, Kind::TurnStarted(_)));
            *ends += u32::from(matches!(kind, Kind::TurnEnded(_)));
            assert!(*starts == 1, "an event before its turn: {event:?}");
        }
    }
    assert_eq!(turns, BTreeMap::from([(1, (1, 1)), (2, (1, 1))]));
    assert!(matches!(events.last().unwrap().kind, Kind::SessionEnded(_)));
}

async fn fails(subject: Subject) {
    let adapter = subject.adapter();
    let session = adapter.start(request(&["fail 529 overloaded"])).await.unwrap();
    let turn = rest(&session).await;
    assert_eq!(turn.outcome, Outcome::Failed, "{turn:?}");
    let failure = turn.failure.expect("a reason");
    assert!(matches!(failure.category, Category::Server | Category::RateLimit), "{failure:?}");
    // The session goes on.
    adapter.send_input(&session, prompt(&["say Alpha"])).await.unwrap();
    let turn = rest(&session).await;
    assert_eq!((turn.outcome, turn.text.as_deref().map(str::trim)), (Outcome::Completed, Some("Alpha")));
    adapter.stop(session).await.unwrap();
}

/// Returns whether a provider reports the tools of its agent as they run. A format that is one document has its answer only.
async fn reports_tools(adapter: &dyn ProviderAdapter) -> bool {
    let capabilities = adapter.capabilities().await.unwrap();
    capabilities.reports_tools && capabilities.streams_text
}

async fn gated(subject: Subject) {
    let adapter = subject.adapter();
    if !reports_tools(&*adapter).await {
        return;
    }
    let session = adapter.start(request(&["tool run touch made.txt", "say Done"])).await.unwrap();
    let mut watch = adapter.events(&session, 1).unwrap();
    let interactive =
        adapter.capabilities().await.unwrap().approvals == bowline_protocol::Approvals::Interactive;
    if interactive {
        let asked = until(&mut watch, "an approval", |kind| matches!(kind, Kind::ApprovalAsked(_))).await;
        session.approval(&asked).expect("an approval").deny("not now").await.unwrap();
    }
    let turn = rest(&session).await;
    let tool = until(&mut watch, "the end of the tool", |kind| matches!(kind, Kind::ToolFinished(_))).await;
    let Kind::ToolFinished(tool) = tool.kind else { unreachable!() };
    // pi has no word for a denial: the tool fails.
    assert!(matches!(tool.status, ToolStatus::Denied | ToolStatus::Failed), "{tool:?} in {turn:?}");
    assert!(!subject.work().join("made.txt").exists(), "the command did not run");
    adapter.stop(session).await.unwrap();
}

async fn touches(subject: Subject) {
    let adapter = subject.adapter();
    if !reports_tools(&*adapter).await {
        return;
    }
    let edit =
        Request { permission: PermissionMode::Edit, ..request(&["tool write note.txt hello", "say Done"]) };
    let session = adapter.start(edit).await.unwrap();
    let turn = rest(&session).await;
    assert!(subject.work().join("note.txt").exists(), "{turn:?}");
    assert!(turn.files.iter().any(|file| file.path.ends_with("note.txt")), "{turn:?}");
    adapter.stop(session).await.unwrap();
}
