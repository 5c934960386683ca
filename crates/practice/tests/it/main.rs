//! The practice agent, started and read like any other agent: our own decoders read its output.

mod acp;
mod children;
mod directives;
mod host;
mod invocation;
mod options;
mod signals;
mod support;
mod task;
