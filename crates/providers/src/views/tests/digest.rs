//! What callers of the library are told of a stream.

use bowline_protocol::Kind;
use bowline_protocol::kinds::ToolKind;
use serde_json::{Value, json};

use crate::views::script::events;
use crate::views::{Digest, Refused};

fn refused(kinds: &[Value]) -> Vec<Refused> {
    let kinds = kinds.iter().map(|kind| serde_json::from_value::<Kind>(kind.clone()).expect("a kind"));
    let mut digest = Digest::default();
    events(kinds).iter().for_each(|event| digest.event(event));
    digest.refused()
}

/// The approval and the tool call that waits for it both tell of a refusal, in either order.
#[test]
fn a_refusal_is_listed_once() {
    let started =
        json!({"type": "tool_started", "id": "c1", "name": "Bash", "kind": "execute", "owner": "cli"});
    let asked = json!({"type": "approval_asked", "id": "a1", "category": "shell", "risk": "med",
        "summary": "touch x", "tool": "c1", "options": [], "enforced_by": "agent"});
    let decided = json!({"type": "approval_decided", "id": "a1", "decision": "deny", "by": "policy", "enforced_by": "agent"});
    let denied = json!({"type": "tool_finished", "id": "c1", "status": "denied"});
    let once = [Refused { tool: "Bash".into(), kind: ToolKind::Execute, summary: Some("touch x".into()) }];
    for order in [
        [&started, &asked, &decided, &denied],
        [&started, &asked, &denied, &decided],
        [&asked, &started, &decided, &denied],
    ] {
        assert_eq!(refused(&order.map(Clone::clone)), once, "{order:?}");
    }
    // Two calls are two refusals, and a call that was denied without a question is one as well.
    let second =
        json!({"type": "tool_started", "id": "c2", "name": "Bash", "kind": "execute", "owner": "cli"});
    let end = json!({"type": "tool_finished", "id": "c2", "status": "denied"});
    let two = refused(&[started, asked, decided, denied, second, end]);
    assert_eq!(two.len(), 2, "{two:?}");
    assert_eq!((&two[0], &two[1].summary), (&once[0], &None));
}
