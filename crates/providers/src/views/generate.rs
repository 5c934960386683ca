//! One response object: the output of an executable provider's `generate`.

use bowline_protocol::{Event, ToolId, UsageSource};
use serde::Serialize;

use super::answer::{AnswerFold, Keep};
use super::calls::LateCall;
use super::notices::Notices;
use super::tally::{Finish, ModelSource, Tally};
use super::{Setup, View, line};

/// Makes the view.
pub(crate) fn make(setup: &Setup) -> Box<dyn View> {
    Box::new(GenerateView {
        setup: setup.clone(),
        answer: AnswerFold::new(Keep::Answer),
        notices: Notices::default(),
    })
}

#[derive(Debug)]
struct GenerateView {
    setup: Setup,
    answer: AnswerFold,
    notices: Notices,
}

#[derive(Serialize)]
struct Response<'a> {
    content: String,
    tokens_used: u64,
    input_tokens: u64,
    output_tokens: u64,
    model: &'a str,
    /// In nanoseconds.
    latency: u64,
    finish_reason: &'static str,
    error: String,
    provider: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<GeneratedCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<ResponseMetadata<'a>>,
}

#[derive(Serialize)]
struct GeneratedCall<'a> {
    id: &'a ToolId,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    /// JSON inside a string, as the protocol requires.
    arguments: String,
}

#[derive(Serialize)]
struct ResponseMetadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model_source: Option<ModelSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_source: Option<UsageSource>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notices: &'a [String],
}

impl View for GenerateView {
    fn event(&mut self, event: &Event, _: &mut String) {
        self.answer.event(event);
        self.notices.event(event);
    }

    fn finish(&mut self, out: &mut String) {
        let tally = &self.answer.tally;
        let usage = tally.usage.unwrap_or_default();
        let finish = tally.finish();
        // A failed response must not make the host run tools.
        let waiting = if finish == Finish::ToolUse { tally.waiting.as_slice() } else { &[] };
        line(
            out,
            &Response {
                content: self.answer.text().to_string(),
                tokens_used: usage.total(),
                // The protocol has no field for caches: all tokens that were not generated count as prompt, so that the two add up.
                input_tokens: usage.total().saturating_sub(usage.output),
                output_tokens: usage.output,
                model: tally.named_model().unwrap_or_default(),
                latency: latency(tally),
                finish_reason: finish_reason(finish),
                error: tally.trouble().map(|failure| failure.message).unwrap_or_default(),
                provider: tally.provider(&self.setup),
                tool_calls: waiting.iter().map(tool_call).collect(),
                metadata: metadata(tally, &self.notices),
            },
        );
    }
}

/// Returns further fields for a caller of the protocol, if there are any.
fn metadata<'a>(tally: &Tally, notices: &'a Notices) -> Option<ResponseMetadata<'a>> {
    let usage_source = tally.usage_source.filter(|source| *source == UsageSource::Estimated);
    let model_source = tally.model_source().filter(|source| *source == ModelSource::Asked);
    let notices = notices.told();
    let any = model_source.is_some() || usage_source.is_some() || !notices.is_empty();
    any.then_some(ResponseMetadata { model_source, usage_source, notices })
}

fn latency(tally: &Tally) -> u64 {
    match (tally.first_at, tally.last_at) {
        (Some(first), Some(last)) => last.since(first).0.saturating_mul(1_000_000),
        (Some(_) | None, Some(_) | None) => 0,
    }
}

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolUse => "tool_use",
        Finish::Cancelled | Finish::Failed => "error",
    }
}

fn tool_call(call: &LateCall) -> GeneratedCall<'_> {
    let arguments = call.arguments().as_str().to_owned();
    GeneratedCall { id: &call.id, r#type: "function", function: Function { name: &call.name, arguments } }
}
