//! Tests of the protocol as it stands on the wire.

mod kinds;
#[cfg(feature = "schema")]
mod schema;
