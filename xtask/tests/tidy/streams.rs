//! Standard streams in the command: only its module `ui` writes to them.

use super::{File, Violation};

/// The modules that own the streams.
const OWNERS: &[&str] = &["crates/cli/src/ui.rs", "crates/cli/src/ui/"];

/// The ways to reach a standard stream.
const WRITERS: &[&str] = &["stderr()", "stdout()", "eprint!", "eprintln!", "print!(", "println!("];

/// Finds writers to the standard streams outside `ui`. Text that bypasses it is not escaped, not wrapped, and may be
/// printed into the status line.
pub(crate) fn outside_ui(files: &[File]) -> Vec<Violation> {
    let in_cli = |file: &&File| {
        let owned = OWNERS.iter().any(|owner| file.path.starts_with(owner));
        file.is_rust() && !file.is_test() && file.path.starts_with("crates/cli/src/") && !owned
    };
    let mut found = Vec::new();
    for file in files.iter().filter(in_cli) {
        for (number, line) in file.lines() {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(writer) = WRITERS.iter().find(|writer| code.contains(**writer)) {
                let what = format!("`{writer}` outside `ui`: print with `Ui` or `Stdout`");
                found.push(file.violation(number, what));
            }
        }
    }
    found
}

#[test]
fn a_raw_writer_is_caught() {
    let text = "fn f() {\n    // stderr() in a comment\n    writeln!(io::stderr(), \"x\");\n    eprintln!(\"y\");\n}\n";
    let raw = File::new("crates/cli/src/commands/doctor.rs", text);
    let found: Vec<String> = outside_ui(&[raw]).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("crates/cli/src/commands/doctor.rs:3: `stderr()` outside `ui`"),
        "{found:?}"
    );
    for owner in ["crates/cli/src/ui.rs", "crates/cli/src/ui/stdout.rs", "crates/practice/src/main.rs"] {
        assert_eq!(outside_ui(&[File::new(owner, text)]), [], "{owner}");
    }
}
