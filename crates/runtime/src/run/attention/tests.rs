//! The alerts of events, the variables and arguments that commands get, and how many commands run.

use bowline_protocol::kinds::{
    ApprovalAsked, ApprovalDecided, LimitReported, LimitState, Outcome, SessionStarted, TurnEnded,
    TurnOrigin, TurnStarted,
};
use bowline_protocol::{
    ApprovalCategory, Category, Code, Decider, Decision, EnforcedBy, FORMAT_VERSION, Failure, Kind, Risk,
    SessionId, Source, Timestamp,
};

use super::*;

fn event(kind: Kind) -> Event {
    Event {
        v: FORMAT_VERSION,
        seq: 1,
        at: Timestamp::EPOCH,
        session: SessionId::from("s-1"),
        turn: Some(2),
        source: Source::Agent,
        raw: None,
        kind,
    }
}

fn asked(id: &str, summary: &str) -> Event {
    event(Kind::ApprovalAsked(ApprovalAsked::of_agent(
        id.into(),
        ApprovalCategory::Shell,
        Risk::High,
        summary,
    )))
}

fn decided(id: &str) -> Event {
    event(Kind::ApprovalDecided(ApprovalDecided {
        id: id.into(),
        decision: Decision::Deny,
        by: Decider::Policy,
        rule: None,
        reason: None,
        changed_input: None,
        enforced_by: EnforcedBy::Agent,
    }))
}

fn ended(outcome: Outcome, failure: Option<Failure>) -> Event {
    event(Kind::TurnEnded(TurnEnded {
        outcome,
        stop: None,
        failure: failure.map(Box::new),
        usage: None,
        cost_usd: None,
        num_turns: None,
        running_tools: Vec::new(),
        running_tasks: Vec::new(),
    }))
}

fn started() -> Event {
    event(Kind::TurnStarted(TurnStarted { origin: TurnOrigin::Prompt, native_turn: None }))
}

fn exhausted() -> Event {
    let window = "five_hour".to_owned();
    let state = LimitState::Exhausted;
    event(Kind::LimitReported(LimitReported { window, state, used_percent: None, resets_at: None }))
}

fn found(finder: &mut AlertFinder, events: &[Event]) -> Vec<(&'static str, String)> {
    finder.batch(events).into_iter().map(|alert| (alert.event.as_str(), alert.summary)).collect()
}

fn one(event: &'static str, summary: &str) -> Vec<(&'static str, String)> {
    vec![(event, summary.to_owned())]
}

#[test]
fn a_request_that_the_mode_decides_waits_for_no_person() {
    let finder = &mut AlertFinder::of_session();
    assert_eq!(found(finder, &[asked("a", "run ls"), decided("a")]), []);
    let waiting = found(finder, &[asked("b", "run ls"), asked("c", "run rm"), decided("b")]);
    assert_eq!(waiting, one("approval", "approval wanted: run rm"));
}

#[test]
fn each_turn_of_a_session_and_only_the_last_attempt_of_a_task() {
    let failed = || ended(Outcome::Failed, Some(Failure::new(Category::Server, Code::ServerError, "503")));
    let session = &mut AlertFinder::of_session();
    assert_eq!(found(session, &[started(), failed()]), one("turn_end", "the turn failed: 503"));
    assert_eq!(found(session, &[ended(Outcome::Cancelled, None)]), [], "a person stopped it");
    let task = &mut AlertFinder::of_task();
    assert_eq!(found(task, &[started(), failed()]), []);
    assert_eq!(found(task, &[started(), ended(Outcome::Completed, None)]), []);
    assert_eq!(task.finish().map(|alert| alert.summary), Some("the turn is completed".to_owned()));
    assert_eq!(task.finish(), None);
}

#[test]
fn a_limit_is_reported_once_in_a_turn() {
    let finder = &mut AlertFinder::of_session();
    let quota = || ended(Outcome::Failed, Some(Failure::new(Category::Quota, Code::UsageLimit, "used up")));
    assert_eq!(
        found(finder, &[started(), exhausted(), exhausted()]),
        one("limit", "limit reached: five_hour")
    );
    assert_eq!(found(finder, &[quota()]), one("turn_end", "the turn failed: used up"));
    assert_eq!(found(finder, &[started(), quota()]), one("limit", "the turn failed: used up"));
}

#[test]
fn words_of_an_agent_are_harmless_values() {
    let hostile = "--help \u{1b}]0;title\u{7}\n$(touch /tmp/x) `id`\0 \u{202e}<a href='x'>&";
    let mut finder = AlertFinder::of_session();
    let provider = Some("the-agent".to_owned());
    finder.batch(&[event(Kind::SessionStarted(SessionStarted { provider, ..SessionStarted::default() }))]);
    let alert = finder.batch(&[asked("--id\n", hostile)]).remove(0);
    let text = alert.summary.clone();
    assert!(!text.contains(|c: char| c.is_control()) && !text.contains('\u{202e}'), "{text}");
    assert_eq!(alert.request.as_deref(), Some("--id"));
    let inherited = [("BOWLINE_OUTCOME", "completed"), ("PATH", "/bin"), ("BOWLINE_SUMMARY", "old")];
    let env = environment(&Surroundings::of(inherited), &alert, Some("fix"));
    let value = |name: &str| {
        let found: Vec<_> = env.iter().filter(|(set, _)| set == name).map(|(_, value)| value).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0].to_str().unwrap().to_owned()
    };
    let names = ["PATH", EVENT_VARIABLE, "BOWLINE_SESSION", "BOWLINE_NAME", "BOWLINE_AGENT", "BOWLINE_TURN"];
    assert_eq!(names.map(value), ["/bin", "approval", "s-1", "fix", "the-agent", "2"]);
    assert_eq!((value("BOWLINE_OUTCOME"), value("BOWLINE_SUMMARY")), (String::new(), text));
    let args = notice_args(&alert, Some("-fix"));
    assert_eq!(args[..3], ["--app-name=bowline", "--", "Bowline: -fix"].map(OsString::from));
    let shown = args[3].to_str().unwrap();
    assert!(shown.contains("&lt;a href='x'&gt;&amp;") && !shown.contains('<'), "{shown}");
}

#[test]
fn a_long_text_is_cut() {
    let mut finder = AlertFinder::of_session();
    let alert = finder.batch(&[asked("a", &"ä".repeat(1_000_000))]).remove(0);
    assert_eq!(alert.summary.chars().count(), 200);
    assert!(alert.summary.ends_with('…'));
}

#[test]
fn a_command_of_a_command_starts_none() {
    let command = vec!["true".to_owned()];
    let attention = Attention::new(AttentionOptions { command, ..AttentionOptions::default() });
    let watch = |variables: Surroundings| {
        attention.watch(AlertFinder::of_task(), None, &Arc::new(variables)).is_some()
    };
    assert!(watch(Surroundings::of([("PATH", "/bin")])));
    assert!(!watch(Surroundings::of([(EVENT_VARIABLE, "turn_end")])));
    assert!(
        Attention::new(AttentionOptions::default()).0.is_none(),
        "without a command there is nothing to do"
    );
}

#[tokio::test]
async fn at_most_four_commands_run_and_one_failure_is_reported() {
    let script = "echo no such pager >&2; read -r line; exit 7".to_owned();
    let command = vec!["sh".to_owned(), "-c".to_owned(), script];
    let attention = Attention::new(AttentionOptions { command, ..AttentionOptions::default() });
    let variables = Arc::new(Surroundings::of([("PATH", "/usr/bin:/bin")]));
    let watch = attention.watch(AlertFinder::of_session(), None, &variables).unwrap();
    let (control, mut orders) = crate::sessions::control::orders();
    let events: Vec<Event> = (0..AT_ONCE).map(|id| asked(&id.to_string(), "run ls")).collect();
    watch.batch(&events, &control);
    let Some(RunOrder::Remark(notice)) = orders.recv().await else { panic!("no notice") };
    let expect =
        "the attention command `sh` failed: exit code 7: no such pager; later failures are not reported";
    assert_eq!(notice.text, expect);
    assert_eq!(attention.finished().await, None);
    assert!(orders.try_recv().is_err(), "once");
}
