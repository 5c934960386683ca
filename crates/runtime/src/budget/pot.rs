//! A budget that several tasks share while they run side by side.

use bowline_engine::budget::Amounts;
use tokio::sync::watch;

/// What tasks share that go by one limit: each sees what the others have used, and all of them stop when it is enough.
///
/// ```
/// # async fn example() -> Result<(), bowline::Error> {
/// let pot = bowline::budget::Pot::default();
/// let ask = |name: &str| bowline::task("Explain this repository").provider(name).max_tokens(50_000).pot(&pot);
/// # let ask = |name: &str| ask(name).script(bowline::testing::says("It ties knots."));
/// let (one, other) = tokio::join!(ask("claude").run(), ask("codex").run());
/// # one?; other?;
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pot(watch::Sender<Vec<Amounts>>);

impl Pot {
    /// Takes in a task.
    pub(crate) fn share(&self) -> Share {
        let mut place = 0;
        self.0.send_modify(|all| {
            place = all.len();
            all.push(Amounts::default());
        });
        Share { news: self.0.subscribe(), pot: self.0.clone(), place, before: Amounts::default() }
    }
}

/// One task's part of a pot.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pot: watch::Sender<Vec<Amounts>>,
    news: watch::Receiver<Vec<Amounts>>,
    place: usize,
    /// What earlier attempts of the task used.
    before: Amounts,
}

impl Share {
    /// Goes on with another attempt, after those that used so much.
    pub(crate) fn after(&self, before: Amounts) -> Self {
        Self { before, ..self.clone() }
    }

    /// Tells the others what this one has used.
    pub(crate) fn tell(&self, spent: Amounts) {
        let spent = Amounts { time: None, ..self.before.plus(&spent) };
        self.pot.send_if_modified(|all| {
            let changed = all.get(self.place).is_some_and(|known| *known != spent);
            all[self.place] = spent;
            changed
        });
    }

    /// Waits until somebody has used more, and returns what the others have used.
    pub(crate) async fn others(&mut self) -> Amounts {
        if self.news.changed().await.is_err() {
            // We hold a sender ourselves, so that there always is one.
            std::future::pending::<()>().await;
        }
        let all = self.news.borrow_and_update();
        let others = all.iter().enumerate().filter(|(place, _)| *place != self.place);
        others.fold(Amounts::default(), |sum, (_, spent)| sum.plus(spent))
    }
}
