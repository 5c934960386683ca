//! The run of an agent as a state machine: values in, decisions out.
//!
//! [`Run`] is told what happened (output, exits, timers, commands) and answers with events and with actions that
//! somebody else carries out. It owns the decoder, numbers the events, keeps the watchdogs and the termination ladder,
//! and says how it all ended. What is deliberately not here: processes, files, clocks. Time is an argument, so that
//! cancels, deadlines and hangs are tables of values in a test and need no sleeping.

pub mod breaker;
pub mod budget;
pub mod fallback;
pub mod footprint;
pub mod retry;
pub mod route;
mod run;

pub use run::{
    Action, Attempt, Command, Ended, Input, Limits, Now, Plan, Polite, Run, Scope, Signal, SpawnFailure,
    Step, Survivor, Swept, Wanted, Watchdog,
};
