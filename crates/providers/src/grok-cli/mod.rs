//! grok-cli, the npm program: the conversation as JSON lines, printed when it is over.

mod dialect;

pub(crate) use dialect::GrokCli;
