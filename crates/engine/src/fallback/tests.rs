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
fn check(outcome: Outcome, failure: Option<&Failure>, has_text: bool, footprint: Footprint, expect: Rule) {
    let end = StreamEnd { has_text, ..ended(outcome, failure, footprint) };
    assert_eq!(decide(&end, StreamFallback::BeforeTools, true), expect, "{end:?}");
}

#[test]
fn the_rule_of_the_specification() {
    use Footprint::{ModelAnswered, ToolRan, Unexplained};
    let late = Failure::new(Category::Timeout, Code::TimedOut, "late");
    check(Outcome::Completed, None, false, Unexplained, Rule::Result);
    check(Outcome::Cancelled, None, true, Unexplained, Rule::Aborted);
    check(Outcome::Failed, Some(&told(Code::ServerError)), false, Unexplained, Rule::Result);
    check(Outcome::Truncated, None, true, ToolRan, Rule::KeepText);
    check(Outcome::Truncated, None, false, Unexplained, Rule::Retry);
    check(Outcome::Truncated, None, false, ToolRan, Rule::ToolRan);
    check(Outcome::Failed, Some(&crash()), true, ModelAnswered, Rule::Retry);
    check(Outcome::Failed, Some(&crash()), true, ToolRan, Rule::ToolRan);
    check(Outcome::Failed, Some(&late), true, Unexplained, Rule::GiveUp);
    for (category, code) in [
        (Category::RateLimit, Code::RateLimited),
        (Category::Quota, Code::Billing),
        (Category::Validation, Code::ContextOverflow),
        (Category::Authentication, Code::InvalidCredentials),
    ] {
        let hopeless = Failure::new(category, code, "no");
        check(Outcome::Failed, Some(&hopeless), false, Unexplained, Rule::GiveUp);
    }
    let killed = Failure { exit: Some(Exit::Signal(9)), ..crash() };
    check(Outcome::Failed, Some(&killed), false, Unexplained, Rule::GiveUp);
}

/// Every footprint under every rule, for an end that another form may mend.
#[test]
fn by_default_only_what_is_untouched_is_sent_again() {
    for footprint in Footprint::ALL {
        let tool_ran = footprint == Footprint::ToolRan;
        for (outcome, failure) in [(Outcome::Truncated, None), (Outcome::Failed, Some(crash()))] {
            let end = ended(outcome, failure.as_ref(), footprint);
            let strict = match footprint {
                Footprint::PromptNotSent | Footprint::UsageError => Rule::Retry,
                Footprint::ToolRan => Rule::ToolRan,
                Footprint::NoWork
                | Footprint::Unexplained
                | Footprint::ModelAnswered
                | Footprint::NotUnderstood
                | Footprint::FilesChanged => Rule::NotSentAgain,
            };
            assert_eq!(decide(&end, StreamFallback::default(), true), strict, "{end:?}");
            let specified = if tool_ran { Rule::ToolRan } else { Rule::Retry };
            assert_eq!(decide(&end, StreamFallback::BeforeTools, true), specified, "{end:?}");
            assert_eq!(decide(&end, StreamFallback::Always, true), Rule::Retry, "{end:?}");
            for wanted in StreamFallback::ALL {
                assert_eq!(decide(&end, wanted, false), Rule::GiveUp, "there is no other form");
            }
            assert_eq!(decide(&end, StreamFallback::Never, true), Rule::GiveUp, "{end:?}");
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
            Rule::Result,
            "{code}: it steps down nowhere"
        );
        let down = StreamEnd { steps_down: true, ..end };
        let expect = if code == Code::ServerError { Rule::Result } else { Rule::Retry };
        assert_eq!(decide(&down, StreamFallback::default(), true), expect, "{code}");
    }
}

#[test]
fn every_word_is_told_once() {
    let rules = [
        (Rule::Result, "result", false),
        (Rule::Aborted, "aborted", false),
        (Rule::KeepText, "accumulated_text", true),
        (Rule::Retry, "stream_fallback", true),
        (Rule::ToolRan, "tool_ran", true),
        (Rule::NotSentAgain, "not_sent_again", true),
        (Rule::GiveUp, "give_up", false),
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
