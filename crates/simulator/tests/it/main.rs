//! Tests of the simulator as a client meets it: over a socket, in the words of each API.

mod answers;
mod faults;
mod ledger;
mod load;
mod picks;
mod start;
mod support;
