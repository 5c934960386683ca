//! The command of a program's health check.

use bowline_protocol::Request;

use super::{Arg, Invocation, StdinPlan, Wish, build};
use crate::manifest::Manifest;

/// Returns the command of a program's health check, if it has one.
pub fn health(manifest: &Manifest) -> Option<Invocation> {
    let args = &manifest.probe.health;
    if args.is_empty() {
        return None;
    }
    // Use the environment of a run, because it may be the cause of the problem.
    let request = Request { prompt: "health".to_owned(), ..Request::default() };
    let mut asked = build(manifest, &request, &Wish::default()).ok()?;
    asked.args = args.iter().map(|arg| Arg::Plain(arg.clone())).collect();
    asked.stdin = StdinPlan::Null;
    Some(asked)
}
