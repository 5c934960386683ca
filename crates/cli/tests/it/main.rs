//! Tests of the `bowline` command as a person or a script meets it: exit code, standard output, standard error.

mod classify;
mod decode;
mod errors;
mod readme;
mod support;
mod tables;
