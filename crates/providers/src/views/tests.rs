//! What the views print: the specs' own examples, the cases that went wrong elsewhere, and properties of all streams.

mod answer;
mod digest;
mod pi;
mod properties;
mod records;

use super::script::render;
use super::{ALL, by_name};

/// Compares what a view prints for a stream, line by line.
#[track_caller]
fn check<const N: usize>(
    view: &str,
    kinds: impl IntoIterator<Item = bowline_protocol::Kind>,
    expect: [&str; N],
) {
    let printed = render(view, kinds);
    assert!(printed.is_empty() || printed.ends_with('\n'), "a record is a line");
    assert_eq!(printed.lines().collect::<Vec<_>>(), expect);
}

#[test]
fn the_list_is_the_one_that_users_know() {
    let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
    let known = "events text summary pi pi-partials simple chunks generate stream-events provider-events";
    assert_eq!(names.join(" "), known);
    assert_eq!(by_name("pi").map(|entry| entry.name), Some("pi"));
    assert!(by_name("Pi").is_none());
}
