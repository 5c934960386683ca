//! What agents and machines do wrong, each against a real child. Every time: the right outcome and exit code, nothing
//! lost, bad lines reported and not fatal, an end in time, a journal that is whole, and no process left.

mod disk;
mod ends;
mod lines;
mod many;
mod pipes;
mod start;
mod tree;
