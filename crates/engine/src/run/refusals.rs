//! Words and choices for orders about requests: which one is meant, and which decision was first.

use bowline_protocol::{Decider, OrderRefused};

/// Returns the only one of several; an error that lists them if there are more.
pub(super) fn only<'a, T: std::fmt::Display + 'a>(
    mut open: impl Iterator<Item = &'a T>,
    what: &str,
) -> Result<&'a T, OrderRefused> {
    let Some(first) = open.next() else { return Err(OrderRefused::Unknown { what: what.to_owned() }) };
    let others: Vec<String> = open.map(ToString::to_string).collect();
    if others.is_empty() {
        return Ok(first);
    }
    let open = std::iter::once(first.to_string()).chain(others).collect();
    Err(OrderRefused::Ambiguous { open })
}

/// Returns who decided, for the person who was second.
pub(super) fn decider_name(by: Decider) -> &'static str {
    match by {
        Decider::Human => "a person",
        Decider::Policy => "the permission mode",
        Decider::Timeout => "its deadline",
        Decider::Host => "the stop of the turn",
        Decider::ClientLost => "the loss of its client",
        Decider::Withdrawn => "the agent, which withdrew it",
    }
}
