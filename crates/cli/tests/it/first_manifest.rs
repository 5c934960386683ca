//! The tutorial `docs/first-manifest.md`: every step of it, with the files that it shows.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use bowline_testkit::{skip, write_program};
use serde_json::Value;

use crate::support::bowline;
use crate::world::World;

const PAGE: &str = include_str!("../../../../docs/first-manifest.md");
const AGENT: &str = include_str!("../../../../docs/examples/my-agent.py");
const MANIFEST: &str = include_str!("../../../../docs/examples/my-agent.toml");

/// A simulator that ends with the test.
struct Simulator {
    child: Child,
    address: String,
}

impl Simulator {
    fn start() -> Self {
        let mut child =
            bowline(&["simulate", "--port", "0"]).stdin(Stdio::null()).spawn().expect("it starts");
        let mut address = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut address).expect("a line");
        Self { child, address: address.trim_end().to_owned() }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }
}

/// Saves the files as the page tells.
fn reader(agent: &str) -> World {
    let world = World::new();
    let folder = world.path("work/.config/bowline/providers");
    std::fs::create_dir_all(&folder).expect("a directory");
    std::fs::write(folder.join("my-agent.toml"), MANIFEST).expect("a manifest");
    write_program(&folder.join("my-agent.py"), agent);
    world
}

/// Returns the report of some cases.
fn certified(world: &World, args: &[&str], code: i32) -> Value {
    let ended = world.bowline(&["certify", "my-agent", "--json"]).with(args).end();
    let report: Value = serde_json::from_str(&ended.stdout).expect("a report");
    if is_isolated(&report) {
        ended.exits(code);
    }
    report
}

/// Without network namespaces, `stays-home` is red.
fn is_isolated(report: &Value) -> bool {
    !report["isolation"].as_str().is_some_and(|it| it.contains("the network of this machine"))
}

/// Counts the cells that are green, red and not claimed.
fn counts(report: &Value) -> [usize; 3] {
    let cells = report["cells"].as_array().expect("cells");
    ["green", "red", "not_claimed"].map(|status| cells.iter().filter(|cell| cell["status"] == status).count())
}

#[test]
fn the_page_shows_the_files() {
    for text in [AGENT, MANIFEST] {
        assert!(PAGE.contains(&format!("\n{text}```\n")), "the page differs from a file in docs/examples");
    }
}

#[test]
fn every_step_of_the_tutorial_works() {
    if !["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|dir| Path::new(dir).join("python3").exists()) {
        return skip("every_step_of_the_tutorial_works", "there is no python3 here");
    }
    let world = reader(AGENT);
    let listed = world.bowline(&["providers"]).end().exits(0);
    assert!(listed.stdout.lines().any(|line| line.starts_with("my-agent ")), "{}", listed.stdout);

    let simulator = Simulator::start();
    let url = format!("{}/v1", simulator.address);
    let ready =
        |args: &[&str]| world.bowline(args).env("MY_AGENT_URL", &url).env("MY_AGENT_KEY", "made-up").end();
    let answer = ready(&["run", "--provider", "my-agent", "Say hello"]).exits(0).stdout;
    assert!(PAGE.contains(&format!("\"Say hello\"\n{answer}```")), "{answer}");
    let command = ready(&["run", "-p", "my-agent", "--dry-run", "--model", "large-1", "x"]).exits(0).stdout;
    assert!(command.contains("my-agent.py --model large-1\n"), "{command}");
    let refused = ready(&["run", "-p", "my-agent", "--effort", "high", "x"]).exits(2).stderr;
    assert!(PAGE.contains(refused.lines().next().expect("an error")), "{refused}");
    let state = ready(&["doctor", "my-agent", "--json"]).exits(0).stdout;
    let state: Value = serde_json::from_str(&state).expect("JSON");
    assert!(state.to_string().contains("0.1.0") && state.to_string().contains("MY_AGENT_KEY"), "{state:#}");

    let report = certified(&world, &["--smoke"], 0);
    if !is_isolated(&report) {
        return skip("every_step_of_the_tutorial_works", "there are no network namespaces here");
    }
    assert_eq!(counts(&report), [10, 0, 5], "{report:#}");
    let mistaken = AGENT.replace("usage=usage", "usage={\"input\": 1, \"output\": 1}");
    assert_ne!(mistaken, AGENT);
    assert_eq!(counts(&certified(&reader(&mistaken), &["--only", "usage"], 1)), [0, 1, 0]);
}
