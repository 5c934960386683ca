//! Orders of callers, and the further processes of a live session.

use bowline_engine::{OrderId, RunInput};

use super::ActiveRun;
use crate::run::error::Error;
use crate::run::failures;
use crate::run::launch::NextLife;
use crate::sessions::control::{AnsweredOrder, RunOrder};

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
