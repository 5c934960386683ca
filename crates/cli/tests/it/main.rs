//! Tests of the `bowline` command as a person or a script meets it: exit code, standard output, standard error.

mod acp;
mod certify;
mod classify;
mod config;
mod decode;
mod demo;
mod docker;
mod doctor;
mod errors;
mod executable;
mod faults;
mod files;
mod journal;
mod lost;
mod provide;
mod provider_new;
mod readme;
mod roster;
mod route;
mod run;
mod run_output;
mod run_signals;
mod simulate;
mod support;
mod tables;
mod world;
