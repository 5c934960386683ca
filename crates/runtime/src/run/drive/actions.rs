//! Carries out the actions of the engine: starts, writes, signals and sweeps.

use std::time::Duration;

use bowline_engine::RunAction;

use super::{ActiveRun, Preparation};
use crate::run::agent::Agent;
use crate::run::error::Error;
use crate::run::launch::SecondPlan;

impl ActiveRun {
    pub(super) fn carry_out(&mut self, actions: Vec<RunAction>) {
        for action in actions {
            self.pending.ending |= Self::ends(&action);
            match action {
                RunAction::Prepare => {
                    let tree = self.drive.tree.take();
                    self.pending.preparation = tree.map(|tree| Box::pin(tree.snapshot()) as Preparation);
                }
                RunAction::Spawn(attempt) => {
                    // The engine may not have waited for the snapshot.
                    self.pending.preparation = None;
                    self.pending.replan = None;
                    // Dropping the earlier agent ends what is left of its process tree. The counter was about its standard
                    // input.
                    (self.pending.agent, self.pending.ending, self.pending.unread) = (None, false, 0);
                    self.pending.spawn = Some(self.drive.launch.spawn(attempt));
                }
                RunAction::Write(bytes) => {
                    self.pending.unread += bytes.len();
                    self.with_agent(|agent| agent.write(bytes));
                }
                // `sync_decisions` begins it, when all actions of the step are carried out.
                RunAction::Sync(sync) => self.pending.sync_wanted = Some(sync),
                RunAction::Answer(order, result) => {
                    if let Some(answer) = self.pending.answers.remove(&order) {
                        // The caller may have given up.
                        let _ = answer.send(result);
                    }
                }
                RunAction::Plan(request) => {
                    self.pending.planning = Some(match &mut self.drive.planner {
                        Some(planner) => planner.plan(*request),
                        None => Box::pin(std::future::ready(Err(Error::Lost))),
                    });
                }
                RunAction::Host(work, what) => {
                    let (launch, policy) = (&self.drive.launch, self.drive.policy.as_ref());
                    self.pending.host.begin(work, what, launch, policy);
                }
                RunAction::CloseStdin => self.with_agent(Agent::close_stdin),
                RunAction::Signal(signal, scope) => self.with_agent(|agent| agent.signal(signal, scope)),
                RunAction::KillTree => self.with_agent(Agent::kill_tree),
                RunAction::Sweep(grace) => {
                    self.with_agent(|agent| agent.sweep(Duration::from_millis(grace.0)));
                }
                RunAction::LookAtFiles => {
                    let before = self.pending.before.clone();
                    self.pending.files = Some(tokio::spawn(async move {
                        match before {
                            Some(before) => before.changes().await.map(|(files, after)| (files, Some(after))),
                            None => Ok((Vec::new(), None)),
                        }
                    }));
                }
                RunAction::Replan => {
                    // Taken, so a program that rejects the second plan too gets no third one.
                    self.pending.replan = Some(match self.drive.replanner.take() {
                        Some(replanner) => Box::pin(replanner.replan()),
                        None => Box::pin(std::future::ready(SecondPlan::unchanged())),
                    });
                }
                RunAction::Done(ended) => self.pending.ended = Some(*ended),
            }
        }
    }

    /// Returns whether an action ends the agent, or begins to.
    pub(super) fn ends(action: &RunAction) -> bool {
        match action {
            RunAction::CloseStdin | RunAction::Signal(..) | RunAction::KillTree | RunAction::Sweep(_) => true,
            RunAction::Prepare
            | RunAction::Spawn(_)
            | RunAction::Write(_)
            | RunAction::Sync(_)
            | RunAction::Answer(..)
            | RunAction::Plan(_)
            | RunAction::Host(..)
            | RunAction::LookAtFiles
            | RunAction::Replan
            | RunAction::Done(_) => false,
        }
    }

    pub(super) fn with_agent(&self, act: impl FnOnce(&Agent)) {
        if let Some(agent) = &self.pending.agent {
            act(agent);
        }
    }
}
