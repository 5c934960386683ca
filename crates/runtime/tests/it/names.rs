//! Every type of a public signature can be named from `bowline`: this file uses no other crate of the workspace.

use bowline::{
    Attachment, Attempt, Capabilities, Category, Code, Control, Error, Event, Excerpt, Exit, Failure,
    Fallback, Json, Kind, Manifest, ManifestError, McpServer, Message, Millis, NativeSessionId, Outcome,
    PermissionMode, PolicySpec, Preview, RawFile, RawSpan, Record, RecordWarning, Refusal, Refused, Request,
    Resume, Role, Sampling, SessionId, StreamFallback, StreamRule, Survivor, Task, Timestamp, ToolId, Turn,
    Usage, UsageSource, Watchdog,
};
use libtest_mimic::Trial;

/// Returns the tests of this file.
pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::test("names::types_of_signatures_can_be_named", || {
        signatures();
        Ok(())
    })]
}

/// Binds what public calls take and return to names of `bowline`. It is checked by the compiler.
#[expect(clippy::type_complexity, reason = "the types themselves are what is tested")]
fn signatures() {
    let _: fn(Task, Option<Millis>) -> Task = Task::timeout_ms;
    let _: fn(Task, usize) -> Task = Task::excerpt_limit;
    let _: fn(&Record) -> u8 = Record::exit_code;
    let _: fn(&Record) -> Vec<RecordWarning> = Record::warnings;
    let _: fn(&Error) -> u8 = Error::exit_code;
    let _: fn(&Task) -> Result<Preview, Error> = Task::preview;
    let _: fn(Task, &'static Manifest) -> Task = Task::of_provider;
    let _: fn(&Event) -> (Timestamp, Option<RawSpan>) = |event| (event.at, event.raw);
    let _: fn(&RawSpan) -> RawFile = |span| span.file;
    let _: fn(&Record) -> (Outcome, &[Attempt], &[Survivor]) =
        |record| (record.outcome, &record.attempts, &record.survivors);
    let _: fn(&Record) -> (Option<Usage>, Option<UsageSource>, Option<Exit>, StreamRule, Option<Watchdog>) =
        |record| (record.usage, record.usage_source, record.exit, record.rule, record.timed_out);
    let _: fn(&Record) -> (&[Refused], Option<&NativeSessionId>, &SessionId) =
        |record| (&record.refused, record.native_session.as_ref(), &record.session);
    let _: fn(&Failure) -> (Category, &Code) = |failure| (failure.category, &failure.code);
    let _: fn(&Request) -> (&[Attachment], Option<&Resume>, Option<&McpServer>, &[Message]) = |request| {
        (&request.attachments, request.resume.as_ref(), request.mcp_servers.values().next(), &request.context)
    };
    let _: fn(&bowline::journal::SessionMeta) -> Option<&Capabilities> = |meta| meta.capabilities.as_deref();
    let _: fn(&bowline::journal::Reader, &Event) -> Result<Option<String>, bowline::journal::JournalError> =
        bowline::journal::Reader::tool_output;
    let _: fn(&bowline::budget::Pot) -> bowline::budget::Amounts = bowline::budget::Pot::spent;
    let _: fn(bowline::chat::Limits) -> bowline::chat::Coalescer = bowline::chat::Coalescer::new;
    let _: Option<(Control, Excerpt, Fallback, Json, Kind, ManifestError)> = None;
    let _: Option<(PermissionMode, Refusal, Role, Sampling, StreamFallback, ToolId, Turn, PolicySpec)> = None;
}
