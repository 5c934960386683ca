//! Orders of callers, and the further processes of a live session.

use bowline_engine::{OrderId, RunCommand, RunInput};
use bowline_protocol::{OrderRefused, SessionSnapshot};

use super::ActiveRun;
use crate::run::error::Error;
use crate::run::failures;
use crate::run::launch::NextLife;
use crate::sessions::control::{AnsweredOrder, HandedOver, RunOrder};

/// Returns what a newer runner needs of a session that can be handed over: no turn, no prompt and no request would be lost.
fn at_rest(snapshot: &SessionSnapshot) -> Result<HandedOver, OrderRefused> {
    if !snapshot.is_at_rest() || !snapshot.approvals.is_empty() || !snapshot.questions.is_empty() {
        return Err(OrderRefused::Busy);
    }
    Ok(HandedOver { permission: snapshot.permission })
}

impl ActiveRun {
    pub(super) fn take_order(&mut self, order: RunOrder) {
        let input = match order {
            RunOrder::Command(command) => RunInput::Command(command),
            RunOrder::Overdue(limit) => RunInput::Overdue(limit),
            RunOrder::Remark(notice) => RunInput::Remark(notice),
            RunOrder::Order(order) => {
                let AnsweredOrder { what, images, answer } = *order;
                self.pending.last_order += 1;
                let order = OrderId(self.pending.last_order);
                // Before `handle`, which answers most orders at once.
                self.pending.answers.insert(order, answer);
                RunInput::Order { order, what, images }
            }
            RunOrder::HandOver(answer) => {
                let handed_over = match self.drive.engine.snapshot() {
                    // The newer runner would count from zero.
                    Some(_) if self.drive.engine.has_own_limit() => Err(OrderRefused::Unsupported {
                        reason: "the session has a limit, and only its runner knows what is used".to_owned(),
                    }),
                    Some(snapshot) => at_rest(&snapshot),
                    None => Err(OrderRefused::Stopping),
                };
                let stops = handed_over.is_ok();
                // Without its caller, nothing starts the newer runner.
                if answer.send(handed_over).is_err() || !stops {
                    return;
                }
                RunInput::Command(RunCommand::Cancel)
            }
            RunOrder::Snapshot(answer) => {
                if let Some(snapshot) = self.drive.engine.snapshot() {
                    // The caller may be gone.
                    let _ = answer.send(snapshot);
                }
                return;
            }
        };
        self.handle(input);
    }

    /// Takes the plan of a further process, with what it needs to be started.
    pub(super) fn take_next_life(&mut self, planned: Result<Box<NextLife>, Error>) {
        let next = match planned {
            Ok(next) => *next,
            Err(error) => {
                let failure = Box::new(failures::of_plan(&error));
                return self.handle(RunInput::Planned(Err(failure)));
            }
        };
        let NextLife { plan, launch, side_files, tree, succession } = next;
        self.drive.launch = launch;
        self.drive.side_files.absorb(side_files);
        (self.drive.tree, self.drive.succession) = (tree, succession);
        self.pending.before = None;
        self.handle(RunInput::Planned(Ok(plan)));
    }
}
