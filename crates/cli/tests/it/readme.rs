//! What README shows is what happens.

use std::path::Path;

use crate::support::shell;

const README: &str = include_str!("../../../../README.md");

#[test]
fn every_example_prints_what_readme_says() {
    let bin = Path::new(env!("CARGO_BIN_EXE_bowline")).parent().expect("a folder");
    let mut examples = 0;
    let mut lines = README.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else { continue };
        let mut expect = String::new();
        while let Some(output) = lines.next_if(|line| !line.starts_with("$ ") && !line.starts_with("```")) {
            expect.push_str(output);
            expect.push('\n');
        }
        let output = shell(command, bin);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expect, "{command}");
        assert!(output.status.success(), "{command}");
        examples += 1;
    }
    assert!(examples >= 3, "README has examples");
}
