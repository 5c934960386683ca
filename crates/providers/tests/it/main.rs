//! Tests of the whole way from bytes to a view, by specification.

mod acp;
mod argv;
mod asked;
mod captures;
mod careless;
mod claude;
mod codex;
mod copilot;
mod dialect_docs;
mod docker;
mod framing;
mod gemini;
mod grok_cli;
mod help;
mod hints;
mod inv_cli_parse_001;
mod inv_cli_parse_002;
mod inv_cli_parse_003;
mod inv_cli_parse_004;
mod noise;
mod opencode;
mod oracle;
mod pi;
mod properties;
mod qwen;
mod recordings;
mod snapshots;
mod spec_000;
mod spec_001;
mod spec_002;
mod spec_003;
mod spec_004;
mod support;
mod turns;

use bowline_testkit::recordings as fixtures;
