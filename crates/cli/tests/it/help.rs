//! Snapshots of every page of help. The list of pages is the program's own: a new command fails until it has a snapshot.

use crate::support::{bowline, show};

/// Returns a page of help as a pipe gets it: 100 columns, no colour.
fn page(path: &[String]) -> String {
    let args: Vec<&str> = std::iter::once("help").chain(path.iter().map(String::as_str)).collect();
    let output = bowline(&args).output().expect("the command ends");
    assert_eq!(output.status.code(), Some(0), "{path:?}");
    assert!(output.stderr.is_empty(), "{path:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the commands that a page lists.
fn commands(page: &str) -> Vec<String> {
    let list = page.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.take_while(|line| !line.is_empty()).filter_map(|line| {
        // A description that wraps is indented further than a name.
        line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?.split(' ').next()
    });
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Collects the page of a command and those of its subcommands.
fn collect(path: Vec<String>, pages: &mut Vec<(Vec<String>, String)>) {
    let page = page(&path);
    for name in commands(&page) {
        collect(path.iter().cloned().chain([name]).collect(), pages);
    }
    pages.push((path, page));
}

#[test]
fn every_page_of_help() {
    let mut pages = Vec::new();
    collect(Vec::new(), &mut pages);
    assert!(pages.len() > 20, "{}", pages.len());
    for (path, page) in pages {
        let name = if path.is_empty() { "bowline".to_owned() } else { path.join("-") };
        insta::assert_snapshot!(format!("help_{name}"), page);
    }
}

#[test]
fn every_form_of_help_prints_the_same_page() {
    let page = show(&["--help"], "");
    // As `cargo` and `gh` do, no command is not an error.
    assert_eq!(show(&[], ""), page);
    assert_eq!(show(&["help"], ""), page);
    assert_eq!(show(&["help", "run"], ""), show(&["run", "--help"], ""));
}
