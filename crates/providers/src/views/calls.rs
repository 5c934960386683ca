//! Tool calls whose arguments arrive late.
//!
//! Most foreign formats print a call once, with its arguments. Agents often announce a call first and write the
//! arguments afterwards, in pieces. Results of calls are not handled here.

use bowline_protocol::kinds::{ToolStarted, ToolUpdated};
use bowline_protocol::{Json, ToolId};

/// A tool call with its arguments so far.
#[derive(Clone, Debug)]
pub(crate) struct LateCall {
    /// The call's id.
    pub(crate) id: ToolId,
    /// The tool.
    pub(crate) name: String,
    input: Option<Json>,
    pieces: String,
}

impl LateCall {
    /// Makes a call as it was announced.
    pub(crate) fn of(tool: &ToolStarted) -> Self {
        Self {
            id: tool.id.clone(),
            name: tool.name.clone(),
            input: tool.input.clone(),
            pieces: String::new(),
        }
    }

    /// Takes in more of the arguments. Returns whether they are complete now.
    pub(crate) fn update(&mut self, update: &ToolUpdated) -> bool {
        if let Some(piece) = &update.input_delta {
            self.pieces.push_str(piece);
        }
        if update.input.is_some() {
            self.input.clone_from(&update.input);
        }
        self.input.is_some()
    }

    /// Returns whether a piece of the arguments has come.
    pub(crate) fn has_pieces(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Returns the arguments: those that were given as a whole, else the pieces if they make sense, else `{}`.
    pub(crate) fn arguments(&self) -> Json {
        let whole = self.input.clone().or_else(|| Json::parse(&self.pieces).ok());
        whole.unwrap_or_else(no_arguments)
    }
}

/// Returns `{}`.
pub(crate) fn no_arguments() -> Json {
    Json::parse("{}").expect("an empty object is JSON")
}

/// Holds each call back until its arguments are known, and returns it exactly once.
#[derive(Debug, Default)]
pub(crate) struct LateCalls {
    running: Vec<RunningCall>,
}

#[derive(Debug)]
struct RunningCall {
    call: LateCall,
    told: bool,
}

impl LateCalls {
    /// Handles the start of a call. Returns it if its arguments are complete.
    pub(crate) fn started(&mut self, tool: &ToolStarted) -> Option<&LateCall> {
        let at = match self.running.iter().position(|running| running.call.id == tool.id) {
            Some(at) => {
                // The agent repeats the call. Only its arguments can be new.
                if self.running[at].call.input.is_none() {
                    self.running[at].call.input.clone_from(&tool.input);
                }
                at
            }
            None => {
                self.running.push(RunningCall { call: LateCall::of(tool), told: false });
                self.running.len() - 1
            }
        };
        // Arguments that are too long to carry will not follow later.
        let known = tool.input.is_some() || tool.input_head.is_some();
        self.running[at].tell_if(known)
    }

    /// Handles an update of a call. Returns it if its arguments are complete.
    pub(crate) fn updated(&mut self, update: &ToolUpdated) -> Option<&LateCall> {
        let running = self.running.iter_mut().find(|running| running.call.id == update.id)?;
        let known = running.call.update(update);
        running.tell_if(known)
    }

    /// Handles the end of a call. Returns it unless it was returned before.
    pub(crate) fn finished(&mut self, id: &ToolId) -> Option<LateCall> {
        let at = self.running.iter().position(|running| running.call.id == *id)?;
        let running = self.running.remove(at);
        (!running.told).then_some(running.call)
    }

    /// Returns all calls that were not returned yet, for the end of a turn.
    pub(crate) fn rest(&mut self) -> Vec<&LateCall> {
        self.running.iter_mut().filter_map(|running| running.tell_if(true)).collect()
    }
}

impl RunningCall {
    fn tell_if(&mut self, known: bool) -> Option<&LateCall> {
        let now = known && !self.told;
        self.told |= known;
        now.then_some(&self.call)
    }
}
