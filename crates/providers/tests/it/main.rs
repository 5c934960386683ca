//! Tests of the whole way from bytes to a view, by specification.

mod careless;
mod framing;
mod inv_cli_parse_001;
mod inv_cli_parse_002;
mod inv_cli_parse_003;
mod inv_cli_parse_004;
mod properties;
mod spec_000;
mod spec_001;
mod spec_002;
mod spec_003;
mod spec_004;
mod support;
mod turns;
