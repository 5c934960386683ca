//! What is certified: a program on this machine, and what asking it about itself gave.

use std::path::PathBuf;

use bowline_providers::manifest::Manifest;
use bowline_providers::probe::{Finding, Page, Version};

/// A program that is put through the suite.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The provider that drives it.
    pub manifest: &'static Manifest,
    /// The program.
    pub program: PathBuf,
    /// The version that it answers with, or why there is none.
    pub version: Result<Version, String>,
    /// Its pages of help.
    pub pages: Vec<Page>,
    /// Where its options differ from what the manifest relies on.
    pub findings: Vec<Finding>,
}
