//! The modules of `cargo xtask`. A library only so that the tidy tests can read the list of commands.

pub mod args;
pub mod bench;
pub mod captures;
pub mod certify;
pub mod check;
pub mod dist;
pub mod fuzz;
pub mod mutants;
pub mod real_clis;
pub mod report;
pub mod schema;
pub mod sh;
pub mod survey;
pub mod test;
pub mod tidy;
pub mod tree;
