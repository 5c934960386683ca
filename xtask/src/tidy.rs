//! `cargo xtask tidy`: the rules about the source tree, alone. They are tests of this package (`xtask/tests/tidy`), so
//! `cargo xtask test` runs them too.

use anyhow::Result;

use crate::sh::Call;

/// Runs the tidy tests.
pub fn run() -> Result<()> {
    Call::cargo("test --quiet --package xtask --test tidy").run()
}
