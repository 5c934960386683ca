//! Futures that a run waits for, each of which may be absent.

use std::pin::Pin;

use bowline_engine::budget::Amounts;
use tokio::task::JoinHandle;

use crate::run::agent::{Agent, AgentEvent};
use crate::run::subscribe::EventSender;
use crate::sessions::budget::Share;

/// Waits for room in the subscriber's queue, if there is a subscriber.
pub(super) async fn room(sender: Option<&EventSender>) {
    if let Some(sender) = sender {
        sender.room().await;
    }
}

/// Waits until another task has used more of the shared budget.
pub(super) async fn others(share: &mut Option<Share>) -> Amounts {
    match share {
        Some(share) => share.others().await,
        None => std::future::pending().await,
    }
}

/// Waits for an optional future, such as a snapshot of the files or the start of an agent.
pub(super) async fn waited<T>(what: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match what {
        Some(what) => what.await,
        None => std::future::pending().await,
    }
}

/// Waits for an optional task; forever if there is none.
pub(super) async fn finished<T>(task: &mut Option<JoinHandle<T>>) -> Option<T> {
    match task {
        Some(task) => task.await.ok(),
        None => std::future::pending().await,
    }
}

/// Waits for a task, if there is one.
pub(super) async fn finished_now<T>(
    task: Option<JoinHandle<T>>,
) -> Option<Result<T, tokio::task::JoinError>> {
    match task {
        Some(task) => Some(task.await),
        None => None,
    }
}

pub(super) async fn next(agent: &mut Option<Agent>) -> AgentEvent {
    match agent {
        Some(agent) => agent.next().await,
        None => std::future::pending().await,
    }
}
