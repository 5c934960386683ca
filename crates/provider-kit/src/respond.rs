//! The response: one object for `generate`, chunks for `stream`.

use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Done, Error, clock};

/// Receives the text of an answer.
pub struct Say<'a> {
    /// The output for chunks; none for an answer in one piece.
    chunks: Option<&'a mut dyn Write>,
    content: String,
}

impl std::fmt::Debug for Say<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Say").field("content", &self.content).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Chunk<'a> {
    content: &'a str,
    delta: &'a str,
    done: bool,
    tokens_used: u64,
    error: &'a str,
    timestamp: String,
    /// From here on: in the last chunk only, the fields of a whole response.
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    finish_reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [Value],
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct Response<'a> {
    content: &'a str,
    tokens_used: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    model: &'a str,
    latency: u64,
    finish_reason: &'a str,
    error: &'a str,
    provider: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [Value],
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: &'a Map<String, Value>,
}

impl<'a> Say<'a> {
    /// Collects the answer.
    pub(crate) fn together() -> Self {
        Self { chunks: None, content: String::new() }
    }

    /// Writes a chunk for each piece.
    pub(crate) fn in_chunks(out: &'a mut dyn Write) -> Self {
        Self { chunks: Some(out), content: String::new() }
    }

    /// Emits a piece of the answer. Pieces are joined without a separator.
    pub fn text(&mut self, piece: &str) -> Result<(), Error> {
        if piece.is_empty() {
            return Ok(());
        }
        self.content.push_str(piece);
        let Some(out) = &mut self.chunks else { return Ok(()) };
        let chunk = Chunk {
            content: &self.content,
            delta: piece,
            done: false,
            tokens_used: 0,
            error: "",
            timestamp: clock::timestamp(),
            input_tokens: None,
            output_tokens: None,
            finish_reason: "",
            model: "",
            tool_calls: &[],
            metadata: &Map::new(),
        };
        line(*out, &chunk)
    }

    /// Writes the end of the answer, in either form.
    pub(crate) fn end(
        self,
        ended: &Result<Done, Error>,
        provider: &str,
        latency: u64,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let nothing = Done::default();
        let (done, error) = match ended {
            Ok(done) => (done, String::new()),
            Err(error) => (&nothing, error.to_string()),
        };
        let tokens_used = done.input_tokens.unwrap_or(0) + done.output_tokens.unwrap_or(0);
        let finish_reason = if ended.is_ok() { done.finish.as_str() } else { "error" };
        match self.chunks {
            Some(chunks) => {
                let last = Chunk {
                    content: &self.content,
                    delta: "",
                    done: true,
                    tokens_used,
                    error: &error,
                    timestamp: clock::timestamp(),
                    input_tokens: done.input_tokens,
                    output_tokens: done.output_tokens,
                    finish_reason,
                    model: &done.model,
                    tool_calls: &done.tool_calls,
                    metadata: &done.metadata,
                };
                line(chunks, &last)
            }
            None => {
                let response = Response {
                    content: &self.content,
                    tokens_used,
                    input_tokens: done.input_tokens,
                    output_tokens: done.output_tokens,
                    model: &done.model,
                    latency,
                    finish_reason,
                    error: &error,
                    provider,
                    tool_calls: &done.tool_calls,
                    metadata: &done.metadata,
                };
                line(out, &response)
            }
        }
    }
}

/// Writes a line and flushes it at once: readers of a stream wait for it.
fn line(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Error> {
    let mut text = serde_json::to_vec(value).map_err(|error| Error::new(error.to_string()))?;
    text.push(b'\n');
    out.write_all(&text).and_then(|()| out.flush()).map_err(|_| Error::gone())
}
