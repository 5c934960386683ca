//! The practice agent, started and read like any other agent: our own decoders read its output.

mod children;
mod directives;
mod invocation;
mod options;
mod signals;
mod support;
mod task;
