//! A budget that several tasks share.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_engine::budget::Amounts;
use tokio::sync::watch;

/// A budget that several tasks share: each task sees what the others use, and all of them stop when a limit is reached.
///
/// The limits are those of the pot ([`Pot::max_cost`], [`Pot::max_tokens`]) and those of each task; the stricter one counts. The usage
/// of finished tasks stays in the pot. A task that joins a used-up pot starts nothing:
///
/// ```
/// # async fn example() -> Result<(), bowline::Error> {
/// use bowline::Error;
/// use bowline::budget::Pot;
///
/// let pot = Pot::default().max_tokens(50_000);
/// let ask = |name: &str| bowline::task("Explain this repository").provider(name).pot(&pot);
/// # let tied = r#"{"steps": [{"say": "It ties knots."}, {"result": {"usage": {"input": 29000, "output": 1000}}}]}"#;
/// # let ask = |name: &str| ask(name).script(bowline::testing::script(tied));
/// let (one, other) = tokio::join!(ask("claude").run(), ask("codex").run());
/// # one?; other?;
/// println!("{:?} tokens are used", pot.spent().tokens);
/// # assert_eq!(pot.spent().tokens, Some(60_000));
/// assert!(matches!(ask("gemini").run().await, Err(Error::OverBudget { .. })));
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pot {
    accounts: watch::Sender<Accounts>,
    limits: Amounts,
}

/// The usage of the tasks of a pot.
#[derive(Debug, Default)]
struct Accounts {
    /// The number of the next task.
    next: u64,
    /// The usage of finished tasks.
    ended: Amounts,
    /// The usage of each running task so far.
    open: BTreeMap<u64, Amounts>,
}

impl Accounts {
    fn spent_except(&self, number: Option<u64>) -> Amounts {
        let open = self.open.iter().filter(|(other, _)| Some(**other) != number);
        open.fold(self.ended, |sum, (_, spent)| sum.plus(spent))
    }
}

impl Pot {
    /// Limits the cost of all tasks together, in US dollars. Applies to tasks that join afterwards.
    #[must_use]
    pub fn max_cost(mut self, usd: f64) -> Self {
        self.limits.cost = Some(usd);
        self
    }

    /// Limits the tokens of all tasks together. Applies to tasks that join afterwards.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.limits.tokens = Some(tokens);
        self
    }

    /// Returns what the tasks have used so far: tokens, and cost where it is known. The time is not added up.
    pub fn spent(&self) -> Amounts {
        self.accounts.borrow().spent_except(None)
    }

    /// Returns the limits of the pot itself.
    pub fn limits(&self) -> Amounts {
        self.limits
    }

    /// Takes in a task.
    pub(crate) fn share(&self) -> Share {
        Share::join(self.accounts.clone(), self.limits)
    }
}

/// One task's part of a pot. A clone is the part of another task.
#[derive(Debug)]
pub(crate) struct Share {
    seat: Arc<Seat>,
    news: watch::Receiver<Accounts>,
    limits: Amounts,
    /// The usage of earlier attempts of the task.
    before: Amounts,
}

/// A task's place in a pot. When the task is over, what it used joins the sum of all that are.
#[derive(Debug)]
struct Seat {
    accounts: watch::Sender<Accounts>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.accounts.send_if_modified(|all| {
            if let Some(spent) = all.open.remove(&self.number) {
                all.ended = all.ended.plus(&spent);
            }
            // The sum is the same as before.
            false
        });
    }
}

impl Clone for Share {
    fn clone(&self) -> Self {
        Self::join(self.seat.accounts.clone(), self.limits)
    }
}

impl Share {
    fn join(accounts: watch::Sender<Accounts>, limits: Amounts) -> Self {
        let mut number = 0;
        // A new seat has used nothing, so no other task has to wake up.
        accounts.send_if_modified(|all| {
            number = all.next;
            all.next += 1;
            all.open.insert(number, Amounts::default());
            false
        });
        let mut news = accounts.subscribe();
        // The usage of other tasks before this one began is news to it.
        news.mark_changed();
        Self { seat: Arc::new(Seat { accounts, number }), news, limits, before: Amounts::default() }
    }

    /// Goes on with another attempt, after those that used so much.
    pub(crate) fn after(&self, before: Amounts) -> Self {
        let mut news = self.news.clone();
        news.mark_changed();
        Self { seat: self.seat.clone(), news, limits: self.limits, before }
    }

    /// Returns the limits of the pot.
    pub(crate) fn limits(&self) -> Amounts {
        self.limits
    }

    /// Returns what the other tasks have used so far.
    pub(crate) fn spent_by_others(&self) -> Amounts {
        self.seat.accounts.borrow().spent_except(Some(self.seat.number))
    }

    /// Shares the usage of this one with the others.
    pub(crate) fn tell(&self, spent: Amounts) {
        let spent = Amounts { time: None, ..self.before.plus(&spent) };
        self.seat.accounts.send_if_modified(|all| {
            let known = all.open.insert(self.seat.number, spent);
            known != Some(spent)
        });
    }

    /// Waits until another task has used more, and returns what the others have used.
    pub(crate) async fn others(&mut self) -> Amounts {
        if self.news.changed().await.is_err() {
            // We hold a sender ourselves, so that there always is one.
            std::future::pending::<()>().await;
        }
        self.news.borrow_and_update().spent_except(Some(self.seat.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pot_does_not_grow_with_the_tasks_that_are_over() {
        let pot = Pot::default();
        for _ in 0..1_000 {
            let share = pot.share();
            share.tell(Amounts { tokens: Some(2), ..Amounts::default() });
            let again = share.after(Amounts { tokens: Some(2), ..Amounts::default() });
            drop(share);
            again.tell(Amounts { tokens: Some(1), ..Amounts::default() });
        }
        assert_eq!(pot.spent().tokens, Some(3_000));
        assert!(pot.accounts.borrow().open.is_empty());
    }
}
