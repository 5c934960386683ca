//! The footprint that each trace of an attempt proves.

use bowline_protocol::{Category, RawSpan};

use super::*;

fn silent() -> AttemptTraces<'static> {
    AttemptTraces {
        seen: Footprint::PromptNotSent,
        prompted: true,
        generates_only: false,
        steps: StepOutput::Announced,
        shape: Shape::Lines,
        framing: Framing::Lines,
        usage_reported: false,
        printed: false,
        rejects_ours: false,
        timed_out: false,
        trouble: false,
        failure: None,
    }
}

fn failed(code: Code, exit: Option<Exit>) -> Failure {
    Failure { exit, ..Failure::new(Category::Unknown, code, "it failed") }
}

#[test]
fn the_order_is_from_provably_nothing_to_certainly_something() {
    assert!(Footprint::ALL.is_sorted());
    let untouched: Vec<_> = Footprint::ALL.into_iter().filter(|it| it.is_untouched()).collect();
    assert_eq!(untouched, [Footprint::PromptNotSent, Footprint::UsageError]);
    let worked: Vec<_> = Footprint::ALL.into_iter().filter(|it| it.may_have_worked()).collect();
    assert_eq!(
        worked,
        [
            Footprint::Unexplained,
            Footprint::ModelAnswered,
            Footprint::NotUnderstood,
            Footprint::FilesChanged,
            Footprint::ToolRan
        ]
    );
    for footprint in Footprint::ALL {
        let json = serde_json::to_string(&footprint).unwrap();
        assert_eq!(json.trim_matches('"'), footprint.as_str());
        assert_eq!(footprint.may_have_worked(), footprint.reason().contains("tool"), "{footprint:?}");
    }
}

#[test]
fn only_a_usage_error_without_output_proves_that_nothing_was_done() {
    let usage = failed(Code::FlagRejected, Some(Exit::Code(2)));
    let judge = |change: fn(&mut AttemptTraces<'_>), failure: &Failure| {
        let mut traces = AttemptTraces { rejects_ours: true, ..silent() };
        change(&mut traces);
        AttemptTraces { failure: Some(failure), ..traces }.footprint()
    };
    assert_eq!(judge(|_| {}, &usage), Footprint::UsageError);
    assert_eq!(judge(|it| it.printed = true, &usage), Footprint::Unexplained);
    assert_eq!(judge(|it| it.rejects_ours = false, &usage), Footprint::Unexplained);
    assert_eq!(judge(|it| it.shape = Shape::Unknown, &usage), Footprint::Unexplained);
    assert_eq!(judge(|it| it.trouble = true, &usage), Footprint::Unexplained);
    assert_eq!(judge(|it| it.prompted = false, &usage), Footprint::PromptNotSent);
    assert_eq!(judge(|_| {}, &failed(Code::FlagRejected, Some(Exit::Code(0)))), Footprint::Unexplained);
    assert_eq!(judge(|_| {}, &failed(Code::FlagRejected, Some(Exit::Signal(9)))), Footprint::Unexplained);
    assert_eq!(judge(|_| {}, &failed(Code::FlagRejected, None)), Footprint::Unexplained);
}

#[test]
fn a_reason_that_the_program_names_is_no_sign_of_work_and_a_conclusion_of_ours_is() {
    for code in Code::ALL {
        let concluded = matches!(
            code,
            Code::Unknown
                | Code::Crashed
                | Code::Killed
                | Code::Truncated
                | Code::Empty
                | Code::FormatChanged
                | Code::FlagRejected
                | Code::TimedOut
        );
        let failure = failed(code.clone(), Some(Exit::Code(1)));
        let traces = AttemptTraces { printed: true, failure: Some(&failure), ..silent() };
        let expect = if concluded { Footprint::Unexplained } else { Footprint::NoWork };
        assert_eq!(traces.footprint(), expect, "{code}");
        let trouble = AttemptTraces { trouble: true, ..traces };
        assert_eq!(trouble.footprint(), Footprint::Unexplained, "{code}");
    }
    assert_eq!(silent().footprint(), Footprint::Unexplained, "it ended, and nothing is known");
}

#[test]
fn a_program_that_a_watchdog_ends_before_its_first_line_has_not_begun() {
    let late = failed(Code::TimedOut, Some(Exit::Signal(15)));
    let hangs = AttemptTraces { timed_out: true, failure: Some(&late), ..silent() };
    assert_eq!(hangs.footprint(), Footprint::NoWork);
    assert_eq!(AttemptTraces { printed: true, ..hangs }.footprint(), Footprint::Unexplained);
    for steps in [StepOutput::Immediate, StepOutput::Late] {
        assert_eq!(AttemptTraces { steps, ..hangs }.footprint(), Footprint::Unexplained, "{steps:?}");
    }
    assert_eq!(AttemptTraces { timed_out: false, ..hangs }.footprint(), Footprint::Unexplained);
}

#[test]
fn seen_work_counts_whatever_reason_the_program_gives() {
    let overloaded = failed(Code::Overloaded, Some(Exit::Code(1)));
    for seen in Footprint::ALL {
        let traces = AttemptTraces { seen, printed: true, failure: Some(&overloaded), ..silent() };
        let expect = if seen.may_have_worked() { seen } else { Footprint::NoWork };
        assert_eq!(traces.footprint(), expect, "{seen:?}");
        let unasked = AttemptTraces { prompted: false, ..traces };
        let expect = if seen.may_have_worked() { seen } else { Footprint::PromptNotSent };
        assert_eq!(unasked.footprint(), expect, "{seen:?}");
        let generator = AttemptTraces { generates_only: true, ..traces };
        let expect = if seen == Footprint::ToolRan { seen } else { Footprint::NoWork };
        assert_eq!(generator.footprint(), expect, "{seen:?}");
    }
}

/// The same "429" proves more or less, by its place and by what the format shows.
#[test]
fn a_reason_counts_only_where_work_would_have_been_shown() {
    let elsewhere = failed(Code::RateLimited, Some(Exit::Code(1)));
    let placed = |file| Failure { raw: Some(RawSpan { file, start: 0, end: 9 }), ..elsewhere.clone() };
    let (on_stdout, on_stderr) = (placed(RawFile::Stdout), placed(RawFile::Stderr));
    let lines = AttemptTraces { failure: Some(&elsewhere), ..silent() };
    for steps in [StepOutput::Announced, StepOutput::Immediate] {
        assert_eq!(AttemptTraces { steps, ..lines }.footprint(), Footprint::NoWork, "{steps:?}");
    }
    let late = AttemptTraces { steps: StepOutput::Late, ..lines };
    let late_document = AttemptTraces { shape: Shape::Document, ..late };
    let late_unknown = AttemptTraces { shape: Shape::Unknown, ..late };
    let framed = AttemptTraces { framing: Framing::Document, ..late_unknown };
    for (traces, failure, expect) in [
        (late, &elsewhere, Footprint::Unexplained),
        (late, &on_stderr, Footprint::Unexplained),
        (late, &on_stdout, Footprint::NoWork),
        (late_document, &elsewhere, Footprint::Unexplained),
        (late_document, &on_stdout, Footprint::Unexplained),
        (late_unknown, &on_stderr, Footprint::Unexplained),
        (late_unknown, &on_stdout, Footprint::NoWork),
        (framed, &on_stdout, Footprint::Unexplained),
    ] {
        let traces = AttemptTraces { failure: Some(failure), ..traces };
        assert_eq!(traces.footprint(), expect, "{traces:?}");
        let reported = AttemptTraces { usage_reported: true, ..traces };
        assert_eq!(reported.footprint(), Footprint::NoWork, "{reported:?}");
        let answered = AttemptTraces { seen: Footprint::ModelAnswered, ..reported };
        assert_eq!(answered.footprint(), Footprint::ModelAnswered, "{answered:?}");
    }
}

/// Every kind of event, from the protocol's own fixture.
#[test]
fn each_kind_of_event_is_the_sign_that_it_is() {
    let fixture = include_str!("../../../protocol/tests/fixtures/events.jsonl");
    for line in fixture.lines() {
        let event: bowline_protocol::Event = serde_json::from_str(line).expect("an event");
        let expect = match event.kind.type_name() {
            "tool_started"
            | "tool_updated"
            | "tool_finished"
            | "background_task_started"
            | "diff_available" => Footprint::ToolRan,
            "files_touched" => Footprint::FilesChanged,
            "unrecognized" => Footprint::NotUnderstood,
            "text_delta" | "thinking_delta" | "plan_updated" | "approval_asked" | "question_asked"
            | "context_compacted" | "usage_reported" => Footprint::ModelAnswered,
            _ => Footprint::PromptNotSent,
        };
        assert_eq!(Footprint::of_event(&event.kind), expect, "{line}");
    }
    assert!(fixture.contains("files_touched") && fixture.contains("text_delta"), "the fixture has the kinds");
}
