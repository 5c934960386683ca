//! Work of the host that a request of the agent needs before it can be decided or answered.
//!
//! The engine looks nothing up. It asks its caller ([`RunAction::Host`](super::RunAction::Host)), holds the request back, and goes
//! on when the result comes ([`RunInput::Host`](super::RunInput::Host)). A result whose request is gone, because the agent withdrew
//! it or its process ended, is dropped.

use std::path::PathBuf;

use bowline_protocol::Kind;
use bowline_protocol::kinds::{Level, Notice};
use bowline_providers::dialect::{
    DecisionRequest, HostAnswer, HostCall, HostProblem, HostRequest, HostToken, RequestedAct, Sent,
};

use super::{Now, Run, RunAction, RunPhase, RunStep};
use crate::approvals::{PolicySet, RealPlace};
use crate::policy::WorkspaceFacts;

/// The number of a piece of the host's work, counted from 1 within a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostWorkId(pub u64);

/// A piece of work for the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostWork {
    /// Find out where files really are, after all symbolic links. The files need not exist.
    Resolve {
        /// The files, as the agent named them.
        files: Vec<String>,
        /// The project, against which relative names count, then the directories that the user added.
        roots: Vec<String>,
    },
    /// Read the policies again, and look up the facts that a judgement of these acts needs.
    Judge {
        /// The acts.
        acts: Vec<RequestedAct>,
        /// The files of the request, as the agent named them.
        files: Vec<String>,
        /// The project, then the directories that the user added.
        roots: Vec<String>,
    },
    /// Carry out a request of the agent, inside these directories only. Decisions that it needs have been taken.
    Call {
        /// The request.
        call: HostCall,
        /// The project, then the directories that the user added.
        roots: Vec<String>,
    },
}

/// The result of a piece of the host's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostResult {
    /// Where the files of [`HostWork::Resolve`] are.
    Resolved(ResolvedPaths),
    /// The facts for [`HostWork::Judge`].
    Judged(Box<ActFacts>),
    /// The result of [`HostWork::Call`].
    Called(Result<HostAnswer, HostProblem>),
}

/// The policies and facts of one judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActFacts {
    /// The policies, or why they cannot be read.
    pub policies: Result<PolicySet, String>,
    /// The place in which the acts would happen.
    pub workspace: WorkspaceFacts,
    /// Where the files of the request are.
    pub paths: ResolvedPaths,
}

/// Where files really are, after all symbolic links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedPaths {
    /// The files, in the order in which they were asked for. `None` if that could not be found out.
    pub files: Vec<Option<PathBuf>>,
    /// The project and the directories that the user added, as far as they exist.
    pub roots: Vec<PathBuf>,
}

impl ResolvedPaths {
    /// Returns whether there are files, and all of them lie in one of the directories.
    pub fn place(&self) -> RealPlace {
        let is_inside = |file: &Option<PathBuf>| {
            file.as_ref().is_some_and(|file| self.roots.iter().any(|root| file.starts_with(root)))
        };
        if !self.files.is_empty() && self.files.iter().all(is_inside) {
            RealPlace::Inside
        } else {
            RealPlace::Outside
        }
    }
}

impl Run {
    /// Gives a piece of work to the host.
    pub(super) fn give_work(&mut self, work: HostWork, step: &mut RunStep) -> HostWorkId {
        self.host_works.0 += 1;
        step.actions.push(RunAction::Host(self.host_works, work));
        self.host_works
    }

    /// Has the real places of a request's files found out, and holds the request until then.
    pub(super) fn resolve(&mut self, request: DecisionRequest, roots: Vec<String>, step: &mut RunStep) {
        let files = request.paths.clone().unwrap_or_default();
        let work = self.give_work(HostWork::Resolve { files, roots }, step);
        self.approvals.resolves(work, request);
    }

    /// Has requests of the agent carried out.
    pub(super) fn call_host(&mut self, requests: Vec<HostRequest>, step: &mut RunStep) {
        for HostRequest { token, call } in requests {
            let roots = self.plan.attempts[self.attempt].conversation.as_ref().map(|talk| talk.directories());
            let work = self.give_work(HostWork::Call { call, roots: roots.unwrap_or_default() }, step);
            self.host_calls.push((work, token));
        }
    }

    /// Sends the result of a request that the host has carried out.
    fn called(
        &mut self,
        work: HostWorkId,
        result: &Result<HostAnswer, HostProblem>,
        now: Now,
        step: &mut RunStep,
    ) {
        // Work of an earlier process is not in the list, and a process that is gone reads nothing.
        let Some(place) = self.host_calls.iter().position(|(given, _)| *given == work) else { return };
        let (_, token): (_, HostToken) = self.host_calls.remove(place);
        if self.phase != RunPhase::Running {
            return;
        }
        if let Sent::Cannot(why) = self.decoder.host_done(token, result, &self.moment, &mut self.drafts) {
            let text = format!("the result of a request of the agent was not sent: {why}");
            self.emit(Kind::Notice(Notice { level: Level::Info, text, code: None }), now, step);
        }
        self.emit_decoded(now, step);
        self.take_client_output(now, step);
    }

    /// Goes on with the request that a piece of work was for.
    pub(super) fn host_done(&mut self, work: HostWorkId, result: HostResult, now: Now, step: &mut RunStep) {
        match result {
            HostResult::Resolved(paths) => {
                // Without its process, the request is left open, and the end of the attempt decides it as withdrawn.
                let request = self.approvals.resolved(work).filter(|_| self.phase == RunPhase::Running);
                if let Some(request) = request {
                    self.decide_located(request, paths.place(), now, step);
                    self.update_state(now, step);
                }
            }
            HostResult::Judged(facts) => self.judged(work, &facts, now, step),
            HostResult::Called(result) => self.called(work, &result, now, step),
        }
    }
}
