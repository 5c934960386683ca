//! The rule about streams without a result, case by case.

use bowline_protocol::{Category, RawFile, RawSpan};

use super::*;

fn ended(outcome: Outcome, failure: Option<&Failure>, footprint: Footprint) -> StreamEnd<'_> {
    StreamEnd { outcome, failure, has_text: false, footprint, steps_down: false }
}

fn crash() -> Failure {
    Failure::new(Category::Unknown, Code::Crashed, "died")
}

fn told(code: Code) -> Failure {
    Failure {
        raw: Some(RawSpan { file: RawFile::Stdout, start: 0, end: 1 }),
        ..Failure::new(Category::Server, code, "500")
    }
}

#[track_caller]
fn check(
    outcome: Outcome,
    failure: Option<&Failure>,
    has_text: bool,
    footprint: Footprint,
    expect: StreamRule,
) {
    let end = StreamEnd { has_text, ..ended(outcome, failure, footprint) };
    assert_eq!(decide(&end, StreamFallback::BeforeTools, true), expect, "{end:?}");
}

#[test]
fn the_rule_of_the_specification() {
    use Footprint::{ModelAnswered, ToolRan, Unexplained};
    let late = Failure::new(Category::Timeout, Code::TimedOut, "late");
    check(Outcome::Completed, None, false, Unexplained, StreamRule::Result);
    check(Outcome::Cancelled, None, true, Unexplained, StreamRule::Aborted);
    check(Outcome::Failed, Some(&told(Code::ServerError)), false, Unexplained, StreamRule::Result);
    check(Outcome::Truncated, None, true, ToolRan, StreamRule::KeepText);
    check(Outcome::Truncated, None, false, Unexplained, StreamRule::Retry);
    check(Outcome::Truncated, None, false, ToolRan, StreamRule::ToolRan);
    check(Outcome::Failed, Some(&crash()), true, ModelAnswered, StreamRule::Retry);
    check(Outcome::Failed, Some(&crash()), true, ToolRan, StreamRule::ToolRan);
    check(Outcome::Failed, Some(&late), true, Unexplained, StreamRule::GiveUp);
    for (category, code) in [
        (Category::RateLimit, Code::RateLimited),
        (Category::Quota, Code::Billing),
        (Category::Validation, Code::ContextOverflow),
        (Category::Authentication, Code::InvalidCredentials),
    ] {
        let hopeless = Failure::new(category, code, "no");
        check(Outcome::Failed, Some(&hopeless), false, Unexplained, StreamRule::GiveUp);
    }
    let killed = Failure { exit: Some(Exit::Signal(9)), ..crash() };
    check(Outcome::Failed, Some(&killed), false, Unexplained, StreamRule::GiveUp);
}

/// Every footprint under every rule, for a failure that another form may fix.
#[test]
fn by_default_only_what_is_untouched_is_sent_again() {
    for footprint in Footprint::ALL {
        let tool_ran = footprint == Footprint::ToolRan;
        for (outcome, failure) in [(Outcome::Truncated, None), (Outcome::Failed, Some(crash()))] {
            let end = ended(outcome, failure.as_ref(), footprint);
            let strict = match footprint {
                Footprint::PromptNotSent | Footprint::UsageError => StreamRule::Retry,
                Footprint::ToolRan => StreamRule::ToolRan,
                Footprint::NoWork
                | Footprint::Unexplained
                | Footprint::ModelAnswered
                | Footprint::NotUnderstood
                | Footprint::FilesChanged => StreamRule::NotSentAgain,
            };
            assert_eq!(decide(&end, StreamFallback::default(), true), strict, "{end:?}");
            let specified = if tool_ran { StreamRule::ToolRan } else { StreamRule::Retry };
            assert_eq!(decide(&end, StreamFallback::BeforeTools, true), specified, "{end:?}");
            assert_eq!(decide(&end, StreamFallback::Always, true), StreamRule::Retry, "{end:?}");
            for wanted in StreamFallback::ALL {
                assert_eq!(decide(&end, wanted, false), StreamRule::GiveUp, "there is no other form");
            }
            assert_eq!(decide(&end, StreamFallback::Never, true), StreamRule::GiveUp, "{end:?}");
        }
    }
}

#[test]
fn a_program_that_does_not_know_the_better_form_has_given_no_result() {
    for code in [Code::FormatChanged, Code::FlagRejected, Code::ServerError] {
        let told = told(code.clone());
        let end = ended(Outcome::Failed, Some(&told), Footprint::PromptNotSent);
        assert_eq!(
            decide(&end, StreamFallback::default(), true),
            StreamRule::Result,
            "{code}: it steps down nowhere"
        );
        let down = StreamEnd { steps_down: true, ..end };
        let expect = if code == Code::ServerError { StreamRule::Result } else { StreamRule::Retry };
        assert_eq!(decide(&down, StreamFallback::default(), true), expect, "{code}");
    }
}

#[test]
fn every_name_is_unique() {
    let rules = [
        (StreamRule::Result, "result", false),
        (StreamRule::Aborted, "aborted", false),
        (StreamRule::KeepText, "accumulated_text", true),
        (StreamRule::Retry, "stream_fallback", true),
        (StreamRule::ToolRan, "tool_ran", true),
        (StreamRule::NotSentAgain, "not_sent_again", true),
        (StreamRule::GiveUp, "give_up", false),
    ];
    for (rule, word, is_told) in rules {
        let about = rule.about().unwrap_or_default();
        assert_eq!((rule.as_str(), about.starts_with("the stream ended")), (word, is_told));
    }
    for wanted in StreamFallback::ALL {
        let json = serde_json::to_string(&wanted).unwrap();
        assert_eq!(json.trim_matches('"'), wanted.as_str());
    }
}
