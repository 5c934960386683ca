//! The usage of a turn's calls so far, before the result has the usage of the turn.
//!
//! A call's prompt is counted when its message begins, its answer when it ends. In between, each whole block repeats the
//! numbers, and of a sub-agent there is nothing else. So the newest numbers of each call are emitted, and only if they grew.

use std::collections::VecDeque;

use bowline_protocol::kinds::UsageReported;
use bowline_protocol::{Basis, Kind, MessageId, Usage};
use serde_json::value::RawValue;

use super::messages::speech::Which;
use crate::dialect::Output;
use crate::usage;

/// The most calls that are remembered. Agents work side by side; what was said of older calls is not repeated.
const MOST: usize = usage::MOST_CALLS;

/// The reported calls.
#[derive(Debug, Default)]
pub(super) struct Spend(VecDeque<ClaudeModelCall>);

#[derive(Debug)]
struct ClaudeModelCall {
    parent: Option<String>,
    id: String,
    usage: Usage,
}

impl Spend {
    /// Handles a line's usage of a call.
    pub(super) fn told(&mut self, which: Which<'_>, said: Option<&RawValue>, out: &mut Output<'_>) {
        let Some(used) = said.and_then(usage::read_raw).filter(|usage| usage.total() > 0) else { return };
        // From the newest: without an id, the last call of that agent is the one that continues.
        let known = self.0.iter_mut().rev().find(|call| match which.id {
            Some(id) => call.id == id,
            // The streamed lines of older versions do not name the message that they end.
            None => call.parent.as_deref() == which.parent,
        });
        let (message, used) = match (known, which.id) {
            (Some(call), _) => {
                let newest = most(&call.usage, &used);
                if newest == std::mem::replace(&mut call.usage, newest) {
                    return;
                }
                (Some(MessageId::from(call.id.as_str())), newest)
            }
            (None, Some(id)) => {
                if self.0.len() == MOST {
                    self.0.pop_front();
                }
                let parent = which.parent.map(str::to_owned);
                self.0.push_back(ClaudeModelCall { parent, id: id.to_owned(), usage: used });
                (Some(MessageId::from(id)), used)
            }
            (None, None) => (None, used),
        };
        let report = usage::reported(used, Basis::PerCall);
        out.emit(Kind::UsageReported(UsageReported { message, ..report }));
    }
}

/// A block that comes late has the numbers of the beginning: none of them falls.
fn most(a: &Usage, b: &Usage) -> Usage {
    Usage {
        input: a.input.max(b.input),
        output: a.output.max(b.output),
        cache_read: a.cache_read.max(b.cache_read),
        cache_write: a.cache_write.max(b.cache_write),
        reasoning: a.reasoning.max(b.reasoning),
    }
}
