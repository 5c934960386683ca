//! `simple`, `chunks`, `stream-events` and `provider-events`: record by record.

use bowline_protocol::kinds::{
    ApprovalAsked, CompactTrigger, ContextCompacted, DiffAvailable, FileOperation, FilesTouched, Level,
    Outcome, Status, ToolStarted, ToolStatus, TouchSource, TouchedFile, TurnEnded,
};
use bowline_protocol::{ApprovalCategory, Category, Code, Excerpt, Exit, Failure, Json, Kind, Risk};

use super::super::script::*;
use super::check;

#[test]
fn simple_prints_the_protocols_own_example() {
    let kinds = [
        turn(),
        text("m1", 0, "Hello"),
        thinking("m1", 1, "Let me think..."),
        finished("m1"),
        cli_tool("call_1", "bash", Some(r#"{"command":"ls"}"#)),
        tool_done("call_1", ToolStatus::Completed, Some("file1.txt\nfile2.txt")),
        completed(),
    ];
    check(
        "simple",
        kinds,
        [
            r#"{"type":"text","delta":"Hello"}"#,
            r#"{"type":"thinking","delta":"Let me think..."}"#,
            r#"{"type":"tool_call","id":"call_1","name":"bash","arguments":{"command":"ls"}}"#,
            r#"{"type":"tool_result","id":"call_1","content":"file1.txt\nfile2.txt"}"#,
            r#"{"type":"done"}"#,
        ],
    );
}

#[test]
fn simple_waits_for_arguments() {
    let call = r#"{"type":"tool_call","id":"t","name":"f","arguments":{"a":1}}"#;
    let bare = r#"{"type":"tool_call","id":"t","name":"f","arguments":{}}"#;
    let result = r#"{"type":"tool_result","id":"t","content":""}"#;
    let done = r#"{"type":"done"}"#;
    let end = || [tool_done("t", ToolStatus::Completed, None), completed()];
    let start = || [turn(), cli_tool("t", "f", None)];
    let print = |between: Vec<Kind>, expect: [&str; 3]| {
        check("simple", start().into_iter().chain(between).chain(end()), expect);
    };
    print(vec![tool_input("t", r#"{"a":1}"#), tool_input("t", r#"{"a":1}"#)], [call, result, done]);
    print(vec![tool_piece("t", r#"{"a""#), tool_piece("t", ":1}")], [call, result, done]);
    print(vec![cli_tool("t", "f", Some(r#"{"a":1}"#))], [call, result, done]);
    print(vec![tool_piece("t", r#"{"a""#)], [bare, result, done]);
    print(vec![], [bare, result, done]);
    // A call that never ends is told at the end of its turn.
    check("simple", start().into_iter().chain([completed()]), [bare, done]);
    // Arguments that are too long to carry will not come later.
    let long = ToolStarted { input_head: Some(Excerpt::of("{\"a")), ..tool("t", "f", None) };
    let kinds = [turn(), Kind::ToolStarted(long), text("m", 0, "x"), completed()];
    check("simple", kinds, [bare, r#"{"type":"text","delta":"x"}"#, done]);
}

#[test]
fn simple_tells_failures_and_pieces_of_output() {
    let kinds = [
        turn(),
        sub_text("m0", "not shown"),
        sub_tool("t", "f", Some("{}")),
        tool_output("t", "a\n"),
        tool_output("t", "b"),
        tool_done("t", ToolStatus::Failed, None),
        failed("slow down"),
    ];
    check(
        "simple",
        kinds,
        [
            r#"{"type":"tool_call","id":"t","name":"f","arguments":{}}"#,
            r#"{"type":"tool_result","id":"t","content":"a\nb","isError":true}"#,
            r#"{"type":"error","message":"slow down","category":"rate_limit","code":"rate_limited"}"#,
        ],
    );
    let error =
        r#"{"type":"error","message":"the turn was cancelled","category":"unknown","code":"cancelled"}"#;
    check("simple", [turn(), cancelled()], [error]);
}

#[test]
fn simple_parts_messages() {
    let kinds = [
        turn(),
        text("m1", 0, "a"),
        text("m2", 0, "b"),
        text("m2", 1, "c"),
        completed(),
        turn(),
        text("m2", 0, "d"),
    ];
    check(
        "simple",
        kinds.into_iter().chain([completed()]),
        [
            r#"{"type":"text","delta":"a"}"#,
            r#"{"type":"text","delta":"\nb"}"#,
            r#"{"type":"text","delta":"c"}"#,
            r#"{"type":"text","delta":"\nd"}"#,
            r#"{"type":"done"}"#,
        ],
    );
}

#[test]
fn chunks_print_the_protocols_own_example() {
    let kinds = [
        text("m1", 0, "2"),
        text("m1", 0, " +"),
        text("m1", 0, " 2"),
        text("m1", 0, " = 4."),
        completed_with_usage(),
    ];
    check(
        "chunks",
        kinds,
        [
            r#"{"content":"2","delta":"2","done":false,"tokens_used":0,"error":"","timestamp":"2025-01-07T10:30:00Z"}"#,
            r#"{"content":"2 +","delta":" +","done":false,"tokens_used":0,"error":"","timestamp":"2025-01-07T10:30:01Z"}"#,
            r#"{"content":"2 + 2","delta":" 2","done":false,"tokens_used":0,"error":"","timestamp":"2025-01-07T10:30:02Z"}"#,
            r#"{"content":"2 + 2 = 4.","delta":" = 4.","done":false,"tokens_used":0,"error":"","timestamp":"2025-01-07T10:30:03Z"}"#,
            r#"{"content":"2 + 2 = 4.","delta":"","done":true,"tokens_used":41,"error":"","timestamp":"2025-01-07T10:30:04Z"}"#,
        ],
    );
}

/// Checks content and delta of every chunk but the last, whose content and error are checked apart.
#[track_caller]
fn check_chunks(kinds: Vec<Kind>, expect: &[(&str, &str)], last: (&str, &str)) {
    let mut chunks = records("chunks", kinds);
    let end = chunks.pop().unwrap();
    let word = |chunk: &serde_json::Value, key: &str| chunk[key].as_str().unwrap().to_owned();
    let pairs: Vec<_> = chunks.iter().map(|chunk| (word(chunk, "content"), word(chunk, "delta"))).collect();
    assert_eq!(pairs, expect.iter().map(|(c, d)| ((*c).to_owned(), (*d).to_owned())).collect::<Vec<_>>());
    assert_eq!((word(&end, "content"), word(&end, "error")), (last.0.to_owned(), last.1.to_owned()));
    assert_eq!((&end["done"], &end["delta"]), (&true.into(), &"".into()));
}

#[test]
fn chunks_part_messages_and_take_back() {
    let (a, b) = (text("m1", 0, "a"), text("m2", 0, "b"));
    check_chunks(vec![a.clone(), b.clone(), completed()], &[("a", "a"), ("a\nb", "\nb")], ("a\nb", ""));
    check_chunks(vec![a.clone(), sub_text("m3", "no"), failed("slow")], &[("a", "a")], ("a", "slow"));
    // Taken back in the middle: the newline goes with the message.
    let taken = vec![a.clone(), b.clone(), retracted("m1", 0), text("m2", 0, "c"), completed()];
    check_chunks(taken, &[("a", "a"), ("a\nb", "\nb"), ("b", ""), ("bc", "c")], ("bc", ""));
    // Taken back in part, and said again.
    let again = vec![a.clone(), text("m1", 1, "x"), retracted("m1", 1), text("m1", 1, "y"), completed()];
    check_chunks(again, &[("a", "a"), ("ax", "x"), ("a", ""), ("ay", "y")], ("ay", ""));
    // Nothing is taken from another turn or from an unknown message.
    let other = vec![turn(), a, completed(), turn(), retracted("m1", 0), b, completed()];
    check_chunks(other, &[("a", "a"), ("a\nb", "\nb")], ("a\nb", ""));
    check_chunks(vec![], &[], ("", "the agent did not start a turn"));
}

#[test]
fn stream_events_have_seven_names() {
    let compacted =
        ContextCompacted { trigger: CompactTrigger::Auto, tokens_before: Some(9000), tokens_after: None };
    let kinds = [
        session("n1", None, None),
        turn(),
        thinking("m1", 0, "hm"),
        text("m1", 1, "I look."),
        finished("m1"),
        cli_tool("t1", "Bash", Some(r#"{"command":"ls"}"#)),
        sub_tool("t2", "Read", Some("{}")),
        sub_text("m2", "not shown"),
        Kind::Status(Status { status: Some("compacting".into()) }),
        Kind::ContextCompacted(compacted),
        Kind::Status(Status { status: None }),
        text("m3", 0, "Done."),
        finished("m3"),
        completed_with_usage(),
    ];
    check(
        "stream-events",
        kinds,
        [
            r#"{"type":"SystemInitEvent","session_id":"n1"}"#,
            r#"{"type":"ThinkingEvent","text":"hm"}"#,
            r#"{"type":"AssistantTextDelta","text":"I look."}"#,
            r#"{"type":"ToolUseEvent","tool_name":"Bash","tool_id":"t1","parameters":{"command":"ls"}}"#,
            r#"{"type":"ToolUseEvent","tool_name":"Read","tool_id":"t2","parameters":{}}"#,
            r#"{"type":"SystemStatusEvent","status":"compacting"}"#,
            r#"{"type":"CompactBoundaryEvent","trigger":"auto","pre_tokens":9000}"#,
            r#"{"type":"SystemStatusEvent","status":null}"#,
            r#"{"type":"AssistantTextDelta","text":"Done."}"#,
            concat!(
                r#"{"type":"ResultEvent","session_id":"n1","result":"I look.\nDone.","is_error":false,"#,
                r#""duration_ms":12000,"total_cost_usd":0.25,"usage":{"input_tokens":20,"output_tokens":9,"#,
                r#""cache_read_input_tokens":10,"cache_creation_input_tokens":2},"num_turns":1}"#
            ),
        ],
    );
}

/// The program's own count of the model's turns comes before the number of our turn.
#[test]
fn stream_events_have_the_programs_own_count_of_turns() {
    let told = |num_turns| {
        let end = Kind::TurnEnded(TurnEnded { num_turns, ..ended(Outcome::Completed) });
        records("stream-events", vec![turn(), end]).pop().expect("a result")["num_turns"].clone()
    };
    assert_eq!((told(Some(7)), told(Some(0)), told(None)), (7.into(), 0.into(), 1.into()));
}

#[test]
fn stream_events_give_each_turn_its_result() {
    let mut failure = Failure::new(Category::Server, Code::Crashed, "it crashed");
    failure.exit = Some(Exit::Signal(9));
    let crashed = TurnEnded { failure: Some(Box::new(failure)), ..ended(Outcome::Failed) };
    let kinds = [
        turn(),
        text("m1", 0, "half"),
        finished("m1"),
        cancelled(),
        turn(),
        Kind::TurnEnded(crashed),
        turn(),
        text("m2", 0, "cut"),
    ];
    let results: Vec<_> = records("stream-events", kinds)
        .into_iter()
        .filter(|record| record["type"] == "ResultEvent")
        .map(|record| {
            let result = record["result"].as_str().unwrap().to_owned();
            (
                result,
                record["is_error"].as_bool().unwrap(),
                record["returncode"].as_i64(),
                record["num_turns"].as_u64(),
            )
        })
        .collect();
    let expect = [
        (String::new(), false, None, Some(1)),
        ("it crashed".to_owned(), true, Some(-9), Some(2)),
        ("the output ended before the turn ended".to_owned(), true, None, Some(3)),
    ];
    assert_eq!(results, expect);
}

#[test]
fn provider_events_have_five_names() {
    let asked = ApprovalAsked {
        tool: Some("t1".into()),
        input: Some(Json::parse(r#"{"command":"npm install left-pad"}"#).unwrap()),
        ..ApprovalAsked::of_agent("a1".into(), ApprovalCategory::DepsAdd, Risk::Low, "npm install left-pad")
    };
    let touched = |room: Option<&str>| {
        let files = vec![TouchedFile { path: "src/a.rs".into(), operation: FileOperation::Write }];
        Kind::FilesTouched(FilesTouched { seen_by: TouchSource::Agent, files, room: room.map(str::to_owned) })
    };
    let diff = |summary: Option<&str>| {
        let (files_changed, lines_added, lines_removed, diff) = (None, None, None, None);
        let summary = summary.map(str::to_owned);
        Kind::DiffAvailable(DiffAvailable { summary, files_changed, lines_added, lines_removed, diff })
    };
    let kinds = [
        session("n1", Some("2.1.0"), None),
        turn(),
        text("m1", 0, "Hel"),
        text("m1", 0, "lo"),
        sub_text("m2", "not shown"),
        finished("m2"),
        finished("m1"),
        notice(Level::Warn, "nearly full"),
        Kind::ApprovalAsked(asked),
        touched(Some("src")),
        touched(None),
        diff(Some("1 file")),
        diff(None),
        failed("slow down"),
    ];
    check(
        "provider-events",
        kinds,
        [
            r#"{"type":"PROVIDER_STARTED","version":"2.1.0"}"#,
            r#"{"type":"PROVIDER_MESSAGE","text":"Hello","severity":"info"}"#,
            r#"{"type":"PROVIDER_MESSAGE","text":"nearly full","severity":"warn"}"#,
            concat!(
                r#"{"type":"REQUEST_APPROVAL","category":"deps_add","summary":"npm install left-pad","risk":"low","#,
                r#""context":{"approvalId":"a1","toolId":"t1","input":{"command":"npm install left-pad"},"#,
                r#""enforcedBy":"agent"}}"#
            ),
            r#"{"type":"HINT_FILES_TOUCHED","paths":["src/a.rs"],"roomPath":"src"}"#,
            r#"{"type":"HINT_FILES_TOUCHED","paths":["src/a.rs"]}"#,
            r#"{"type":"HINT_DIFF_AVAILABLE","summary":"1 file"}"#,
            r#"{"type":"HINT_DIFF_AVAILABLE"}"#,
            r#"{"type":"PROVIDER_MESSAGE","text":"slow down","severity":"error"}"#,
        ],
    );
}

#[test]
fn provider_events_announce_versions_as_they_become_known() {
    let unknown = r#"{"type":"PROVIDER_STARTED","version":""}"#;
    let known = r#"{"type":"PROVIDER_STARTED","version":"1"}"#;
    let start = |version: Option<&str>| session("n1", version, None);
    check("provider-events", [start(None), start(None)], [unknown]);
    check("provider-events", [start(None), start(Some("1"))], [unknown, known]);
    check("provider-events", [start(Some("1")), start(None), start(Some("1"))], [known, known]);
}

#[test]
fn provider_events_print_no_message_twice_and_lose_none() {
    let said = |text: &str| format!(r#"{{"type":"PROVIDER_MESSAGE","text":"{text}","severity":"info"}}"#);
    let (ab, b) = (said("ab"), said("b"));
    check(
        "provider-events",
        [text("m1", 1, "b"), text("m1", 0, "a"), finished("m1"), finished("m1")],
        [&*ab],
    );
    check("provider-events", [text("m1", 0, "a"), retracted("m1", 0), finished("m1")], []);
    check("provider-events", [text("m1", 0, "a"), retracted("m1", 0), text("m1", 0, "b")], [&*b]);
    check("provider-events", [turn(), cancelled()], []);
}

/// A request that was sent twice: the stream broke, and then it was answered in one piece.
fn twice() -> Vec<Kind> {
    vec![
        session("n1", Some("1.0"), None),
        turn(),
        text("m1", 0, "Half an ans"),
        finished("m1"),
        failed("gone"),
        fallback(),
        session("n2", Some("1.0"), None),
        turn(),
        text("m1", 0, "An answer."),
        finished("m1"),
        completed(),
    ]
}

#[test]
fn chunks_drop_what_an_attempt_said_that_was_given_up() {
    let pairs: Vec<(String, String)> = records("chunks", twice())
        .iter()
        .map(|it| (it["content"].as_str().unwrap().to_owned(), it["delta"].as_str().unwrap().to_owned()))
        .collect();
    let expect = [("Half an ans", "Half an ans"), ("", ""), ("An answer.", "An answer."), ("An answer.", "")];
    assert_eq!(pairs, expect.map(|(content, delta)| (content.to_owned(), delta.to_owned())));
}

#[test]
fn a_request_that_was_sent_twice_has_one_result() {
    let results = |kinds: Vec<Kind>| -> Vec<(String, bool)> {
        let all = records("stream-events", kinds);
        let results = all.iter().filter(|it| it["type"] == "ResultEvent");
        results.map(|it| (it["result"].as_str().unwrap().to_owned(), it["is_error"] == true)).collect()
    };
    let answered = || ("An answer.".to_owned(), false);
    assert_eq!(results(twice()), [answered()]);
    // An attempt that nothing follows, and a turn of its own that follows, leave the result where it is.
    let given_up = ("gone".to_owned(), true);
    assert_eq!(results(twice()[..5].to_vec()), std::slice::from_ref(&given_up));
    let mut two_turns = twice();
    two_turns.remove(5);
    assert_eq!(results(two_turns), [given_up, answered()]);
}

#[test]
fn a_second_attempt_does_not_begin_the_session_anew() {
    for (view, begins) in [("stream-events", "SystemInitEvent"), ("provider-events", "PROVIDER_STARTED")] {
        let all = records(view, twice());
        let count = all.iter().filter(|it| it["type"] == begins).count();
        assert_eq!((count, &all[0]["type"]), (1, &begins.into()), "{view}: {all:#?}");
    }
}

#[test]
fn our_own_word_of_a_session_waits_for_the_agents() {
    use super::super::{Setup, by_name};
    let own = || {
        let kind = Kind::SessionStarted(bowline_protocol::kinds::SessionStarted::default());
        let mut event = events([kind]).remove(0);
        event.source = bowline_protocol::Source::Bowline;
        event
    };
    let print = |view: &str, agents: Vec<Kind>| {
        let mut view = (by_name(view).unwrap().make)(&Setup::default());
        let mut out = String::new();
        view.event(&own(), &mut out);
        assert_eq!(out, "", "it may say more");
        events(agents).iter().for_each(|event| view.event(event, &mut out));
        view.finish(&mut out);
        out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let told =
        || vec![session("n1", Some("1.0"), None), turn(), text("m", 0, "x"), finished("m"), completed()];
    let untold = || told().split_off(1);
    let check = |view: &str, agents: Vec<Kind>, begins: &str, first: &str| {
        let lines = print(view, agents);
        assert_eq!(lines[0], first, "{view}");
        assert_eq!(lines.iter().filter(|line| line.contains(begins)).count(), 1, "{lines:#?}");
    };
    let (init, started) = ("SystemInitEvent", "PROVIDER_STARTED");
    check("stream-events", told(), init, r#"{"type":"SystemInitEvent","session_id":"n1"}"#);
    check("stream-events", untold(), init, r#"{"type":"SystemInitEvent","session_id":null}"#);
    check("provider-events", told(), started, r#"{"type":"PROVIDER_STARTED","version":"1.0"}"#);
    check("provider-events", untold(), started, r#"{"type":"PROVIDER_STARTED","version":""}"#);
}
