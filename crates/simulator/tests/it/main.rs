//! Tests of the simulator over a socket, in the form of each API.

mod answers;
mod faults;
mod ledger;
mod load;
mod picks;
mod start;
mod support;
