//! Sessions that processes of the agent ask for: a person decides, then the runner starts them outside of the agent's tree.

use std::sync::Arc;

use bowline_protocol::{ChildRequest, OrderRefused, Receipt, SessionId, SessionOrder};
use tokio::sync::Semaphore;

use crate::sessions::control::Control;

/// How many sessions the agents of one stint may start, with those that wait for a decision.
const CHILDREN: usize = 8;

/// Starts sessions for processes of the agent. Everything in a [`ChildRequest`] is an agent's, and a person has allowed it.
pub trait StartChild: Send + Sync + 'static {
    /// Returns why no session is started at all, before a person is asked.
    fn refusal(&self) -> Option<String>;

    /// Returns why the session is not handed over to a runner of a newer build. A program that hands it over starts that runner at the
    /// end of the stint ([`LiveSession::successor`](super::LiveSession::successor)).
    fn keeps_the_session(&self) -> Option<String> {
        Some("the program that runs this session starts no other runner".to_owned())
    }

    /// Starts a session that a person has allowed, or returns why it did not begin.
    fn start(&self, child: ChildRequest) -> impl Future<Output = Result<SessionId, String>> + Send;
}

/// A host that starts none.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoChildren;

impl StartChild for NoChildren {
    fn refusal(&self) -> Option<String> {
        Some("the program that runs this session starts no others".to_owned())
    }

    async fn start(&self, _: ChildRequest) -> Result<SessionId, String> {
        Err("the program that runs this session starts no others".to_owned())
    }
}

/// The sessions that agents of this session start.
#[derive(Debug)]
pub(super) struct ChildStarts<S> {
    starter: S,
    slots: Arc<Semaphore>,
}

impl<S: StartChild> ChildStarts<S> {
    pub(super) fn by(starter: S) -> Arc<Self> {
        Arc::new(Self { starter, slots: Arc::new(Semaphore::new(CHILDREN)) })
    }

    pub(super) fn keeps_the_session(&self) -> Option<String> {
        self.starter.keeps_the_session()
    }

    /// Asks a person, and starts the session. Returns when it listens, or when it will not.
    pub(super) async fn start(&self, child: ChildRequest, control: Control) -> Result<Receipt, OrderRefused> {
        let impossible = |reason| OrderRefused::Unsupported { reason };
        if let Some(reason) = self.starter.refusal() {
            return Err(impossible(reason));
        }
        // Held while a person decides, so that several decisions at once cannot exceed the limit.
        let Ok(slot) = self.slots.clone().try_acquire_owned() else {
            return Err(impossible(format!("agents of this session have started {CHILDREN} sessions")));
        };
        control.order(SessionOrder::Start { child: child.clone() }).await?;
        let session = self.starter.start(child).await.map_err(impossible)?;
        // A session that began counts to the end of the stint: an agent must not start one after the other.
        slot.forget();
        Ok(Receipt::SessionStarted { session })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::control::{RunOrder, orders};

    struct FakeStarter;

    impl StartChild for FakeStarter {
        fn refusal(&self) -> Option<String> {
            None
        }

        async fn start(&self, child: ChildRequest) -> Result<SessionId, String> {
            match child.prompt.as_str() {
                "fail" => Err("the agent is not installed".to_owned()),
                _ => Ok(SessionId::from("s-child")),
            }
        }
    }

    fn child(prompt: &str) -> ChildRequest {
        let (provider, prompt) = ("alpha".to_owned(), prompt.to_owned());
        ChildRequest { provider, prompt, model: None, effort: None, permission: None, name: None }
    }

    #[tokio::test]
    async fn a_session_starts_only_a_few_others() {
        let (control, mut inbox) = orders();
        // The engine: it denies one prompt.
        tokio::spawn(async move {
            while let Some(RunOrder::Order(order)) = inbox.recv().await {
                let SessionOrder::Start { child } = &order.what else { panic!("{:?}", order.what) };
                let denied = OrderRefused::Denied { by: "a person".to_owned(), message: None };
                let answer = if child.prompt == "deny" { Err(denied) } else { Ok(Receipt::Done) };
                order.answer.send(answer).unwrap();
            }
        });
        let starts = ChildStarts::by(FakeStarter);
        let start = |prompt: &str| starts.start(child(prompt), control.clone());
        for _ in 0..CHILDREN {
            assert!(matches!(start("deny").await, Err(OrderRefused::Denied { .. })));
            let failed = start("fail").await.unwrap_err().to_string();
            assert_eq!(failed, "not possible: the agent is not installed");
        }
        // Neither took a place.
        for _ in 0..CHILDREN {
            let session = SessionId::from("s-child");
            assert_eq!(start("go").await, Ok(Receipt::SessionStarted { session }));
        }
        let refused = start("go").await.unwrap_err().to_string();
        assert_eq!(refused, "not possible: agents of this session have started 8 sessions");
        // A program that cannot start a runner refuses before a person is asked.
        let refused = ChildStarts::by(NoChildren).start(child("go"), control).await.unwrap_err().to_string();
        assert_eq!(refused, "not possible: the program that runs this session starts no others");
    }
}
