//! Tests of the protocol's JSON.

mod kinds;
#[cfg(feature = "schema")]
mod schema;
