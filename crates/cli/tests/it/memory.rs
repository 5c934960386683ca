//! What the command holds in memory, in bytes and with a wide margin: never what an agent makes of it.

use std::io::Read as _;
use std::time::Duration;

use crate::support::bowline;
use crate::world::World;

const MEGABYTE: u64 = 1_000_000;

/// Returns how many bytes of memory of its own a process holds; none if it is gone.
fn held(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn a_flood_in_place_of_a_document_costs_little_more_than_its_bytes() {
    let world = World::new();
    let script = "cat >/dev/null; yes x | head -c 3000000";
    let running = world.claude(script).with(&["--no-stream", "--output", "text"]).start();
    let mut most = 0;
    while !running.is_over() {
        most = most.max(held(running.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    running.end().exits(1);
    assert!(most > 0 && most < 100 * MEGABYTE, "{most} bytes for 3 MB");
    let journal = world.journal();
    assert!(journal.of("unrecognized").len() < 100, "a few events, not one for each line");
}

#[test]
fn an_answer_is_held_once_by_the_formats_that_print_it_at_the_end() {
    let world = World::new();
    let (file, length) = (world.path("long.txt"), 32 * MEGABYTE);
    let line = format!("{}\n", "word ".repeat(200).trim_end());
    std::fs::write(&file, line.repeat(length as usize / line.len())).expect("a file");
    let file = file.to_str().expect("a path");
    for view in ["text", "summary"] {
        let mut child = bowline(&["decode", "--dialect", "text", "--view", view, file])
            .spawn()
            .expect("the command starts");
        let mut stdout = child.stdout.take().expect("a pipe");
        // When the first byte comes, all is there that it needs for the rest.
        stdout.read_exact(&mut [0]).expect("a byte");
        let now = held(child.id());
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).expect("the rest");
        assert!(child.wait().expect("the command ends").success());
        assert!(rest.len() as u64 > length - 2 * line.len() as u64, "{view}: {} bytes", rest.len());
        assert!(now > length / 2 && now < 2 * length, "{view}: {now} bytes for an answer of {length}");
    }
}
