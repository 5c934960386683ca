//! Requests of an agent to its own runner.

use std::sync::atomic::Ordering;

use bowline_protocol::{ApprovalVerdict, ChildRequest, OrderRefused, Receipt, SessionId, SessionOrder};

use super::{FakeRunner, prompt, within};
use crate::sessions::socket::client::OrderError;

#[tokio::test]
async fn an_agent_may_ask_its_own_runner_for_a_session_and_nothing_else() {
    let mut runner = FakeRunner::start();
    let client = runner.client().await;
    runner.judge.watch_only.store(true, Ordering::Relaxed);
    let child = ChildRequest {
        provider: "alpha".to_owned(),
        prompt: "Help".to_owned(),
        model: None,
        effort: None,
        permission: None,
        name: None,
    };
    let start = SessionOrder::Start { child };
    // An agent of another session.
    let refused = client.order(start.clone()).await;
    assert!(matches!(refused, Err(OrderError::Refused(OrderRefused::Forbidden { .. }))), "{refused:?}");
    runner.judge.own_agent.store(true, Ordering::Relaxed);
    let allow = ApprovalVerdict::Allow { input: None };
    for order in [SessionOrder::Decide { approval: None, verdict: allow }, SessionOrder::Stop, prompt("x")] {
        let refused = client.order(order).await;
        assert!(matches!(refused, Err(OrderError::Refused(OrderRefused::Forbidden { .. }))), "{refused:?}");
    }
    let sent = start.clone();
    let asked = tokio::spawn(async move { client.order(sent).await });
    let order = runner.next_order().await;
    assert_eq!(order.order, start, "no other order came through");
    let receipt = Receipt::SessionStarted { session: SessionId::from("s-child") };
    order.reply.send(Ok(receipt.clone())).unwrap();
    assert_eq!(within(asked).await.unwrap().unwrap(), receipt);
}
