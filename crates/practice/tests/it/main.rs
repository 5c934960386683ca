//! The practice agent, started and read as any other agent is: what it prints goes through our own readers.

mod children;
mod directives;
mod invocation;
mod options;
mod signals;
mod support;
mod task;
