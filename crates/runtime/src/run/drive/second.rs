//! The second plan of a run whose program rejected its options. It replaces the first one.

use bowline_engine::RunInput;

use super::ActiveRun;
use crate::run::failures;
use crate::run::launch::SecondPlan;

impl ActiveRun {
    /// Takes a second plan. Updates the session's `meta.json` before the second plan starts a process.
    pub(super) fn take_second_plan(&mut self, second: SecondPlan) {
        let SecondPlan { replanned, start } = second;
        if let Some(start) = start {
            // Before `Replanned`: the engine then spawns an attempt, and takes its command from here.
            self.drive.launch.replace_rest(start.command);
            self.drive.side_files.absorb(start.cleanup);
            if let Some(journal) = self.drive.journal.as_mut().filter(|_| !self.pending.closing) {
                let capabilities = Some(Box::new(start.capabilities));
                if let Err(error) = journal.set_meta(|meta| meta.capabilities = capabilities) {
                    self.pending.closing = true;
                    return self.handle(RunInput::Trouble(failures::of_journal(&error)));
                }
            }
        }
        self.handle(RunInput::Replanned(replanned));
    }
}
