//! A run on the screen: recordings of real programs and made events, on terminals in memory and in pipes.

mod asks;
mod made;
mod pipes;
mod screens;
mod support;
