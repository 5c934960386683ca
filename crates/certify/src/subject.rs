//! The program under test, and what Bowline found out about it.

use std::path::PathBuf;

use bowline_providers::manifest::Manifest;
use bowline_providers::probe::{Finding, Page, Version};

/// The program under test.
#[derive(Clone, Debug)]
pub struct TestedProgram {
    /// The provider that drives it.
    pub manifest: &'static Manifest,
    /// The program.
    pub program: PathBuf,
    /// An older version of the program, if the caller has one.
    pub older: Option<PathBuf>,
    /// The version that the program prints, or the reason why it prints none.
    pub version: Result<Version, String>,
    /// Its pages of help.
    pub pages: Vec<Page>,
    /// Options that differ from what the manifest relies on.
    pub findings: Vec<Finding>,
}
