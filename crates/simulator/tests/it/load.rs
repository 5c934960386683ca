//! Load: long prompts, many clients, and some that never end.

use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::RequestOutcome;
use tokio::task::JoinSet;

use crate::support::{ALL, PATIENCE, Speaks, Turn, last, send, simulator};

#[tokio::test]
async fn a_long_prompt_arrives_whole() {
    let simulator = simulator().await;
    let prompt: String = (0..70_000).map(|number| format!("line {number:05} é\n")).collect();
    assert!(prompt.len() > 900_000);
    let prompt = format!("[[text]] {prompt}end");
    for api in [Speaks::Messages, Speaks::Responses, Speaks::Chat, Speaks::Google] {
        let reply = api.say(&simulator, true, &prompt, &[]).await;
        assert_eq!(reply.status, 200);
        assert_eq!(last(&simulator).await.facts.expect("facts").users, [prompt.as_str()]);
    }
}

#[tokio::test]
async fn a_long_answer_arrives_whole() {
    let simulator = simulator().await;
    let reply = Speaks::Messages.say(&simulator, true, "[[long]]", &[]).await;
    let text = Speaks::Messages.text(true, &reply);
    assert_eq!(text.lines().count(), 2000);
    assert!(
        text.ends_with(
            "Line 2000: around the tree, through the loop, and back down the hole it came from.\n"
        )
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_client_delays_another() {
    let simulator = Arc::new(simulator().await);
    let hang = Speaks::Chat.ask(true, &[Turn::User("[[hang-midway]]")], &[]).to_string();
    let mut hanging = Vec::new();
    for _ in 0..20 {
        hanging.push(send(&simulator, "POST", "/r/h/v1/chat/completions", &[], hang.as_bytes()).await);
    }
    let mut many = JoinSet::new();
    // Four of each: every answer has thousands of pieces, and test machines are busy.
    for api in ALL.into_iter().cycle().take(4 * ALL.len()) {
        let simulator = Arc::clone(&simulator);
        many.spawn(async move { api.say(&simulator, true, "[[long]]", &[]).await });
    }
    // Each read has a time limit of its own.
    while let Some(reply) = many.join_next().await {
        let reply = reply.expect("no panic");
        assert_eq!((reply.status, reply.whole), (200, true));
    }
    drop(hanging);
    let left = async {
        while simulator.ledger_of("h").iter().any(|entry| entry.outcome != RequestOutcome::ClientLeft) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, left).await.expect("all of them are known to have left");
}
