//! The run of an agent as a state machine: values in, decisions out.
//!
//! [`Run`] takes inputs (output, exits, timers, commands) and returns events, and actions for the caller to carry out. It owns
//! the decoder, numbers the events, keeps the watchdogs and the stop ladder, and decides how the run ended. It has no
//! processes, files or clocks. Time is an argument, so tests of cancels, deadlines and hangs are tables of values and need no
//! sleeping.

pub mod approvals;
pub mod breaker;
pub mod budget;
pub mod fallback;
pub mod footprint;
pub mod policy;
pub mod retry;
pub mod route;
mod run;
mod session;
mod usage_error;

pub use run::{
    ActFacts, Approver, AttemptPlan, HostResult, HostWork, HostWorkId, Lifetime, Now, Numbering, OrderId,
    ReplanResult, ResolvedPaths, ResumeTarget, Run, RunAction, RunCommand, RunEnd, RunInput, RunLimits,
    RunPlan, RunStep, SpawnFailure, StopSignal, Survivor, SweepResult, SyncId, Watchdog,
};
pub use session::{LifeRequest, LivePlan, Session, SessionOptions, SessionView};
