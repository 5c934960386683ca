//! Promises about the classification of failures, the parsing of usage, and text for a terminal.

use bowline_protocol::{Exit, Timestamp};
use bowline_providers::failure::{self, Evidence, Report};
use bowline_providers::moment::Moment;
use bowline_providers::{ansi, usage};
use serde_json::Value;

/// Checks that any text and any exit give a verdict with the guidance of its category.
pub fn check_classify(text: &str, exit: Option<Exit>, timed_out: bool) {
    let now = Moment::utc(Timestamp::EPOCH);
    let report = Report::of(text);
    for (report, text) in [(None, text), (Some(&report), ""), (Some(&report), text)] {
        let failure = failure::classify(&Evidence { report, text, exit, timed_out }, &now);
        assert_eq!(failure.retry, failure.category.may_retry(), "guidance against the table: {failure:?}");
        assert_eq!(
            failure.fallback,
            failure.category.may_fall_back(),
            "guidance against the table: {failure:?}"
        );
        let written = serde_json::to_string(&failure).expect("a failure is plain JSON");
        let read: bowline_protocol::Failure = serde_json::from_str(&written).expect("a failure reads back");
        assert_eq!(read, failure, "a failure reads back as another");
    }
}

/// Checks that any JSON is either not a usage or one that can be added up.
pub fn check_usage(value: &Value) {
    let Some(usage) = usage::read(value) else { return };
    assert!(usage.total() >= usage.input.max(usage.output), "the total is less than a part: {usage:?}");
    assert_eq!(usage.since(&usage).total(), 0, "a report adds to itself: {usage:?}");
}

/// Checks that text for a terminal contains no control sequences.
pub fn check_terminal_text(text: &str) {
    let stripped = ansi::strip(text);
    assert!(!ansi::has_control(&stripped), "a sequence survived: {stripped:?}");
    let line_ends = |text: &str| text.matches('\n').count();
    assert_eq!(line_ends(&stripped), line_ends(text), "stripping lost a line");

    let harmless = ansi::harmless(text);
    let command = harmless.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    assert_eq!(command, None, "a control character survived: {harmless:?}");
    assert_eq!(ansi::harmless(&harmless), harmless, "harmless text is not left alone");
    assert_eq!(line_ends(&harmless), line_ends(text), "making text harmless lost a line");
}
