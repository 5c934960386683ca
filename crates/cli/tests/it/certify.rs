//! `bowline certify`, with programs that only play agents. The real ones are put through it by `cargo xtask certify`.

use bowline_testkit::skip;
use serde_json::Value;

use crate::support::show;
use crate::world::{Call, World, is_root};

/// What a program answers about itself before it plays an agent.
const ABOUT: &str = r#"case "$1" in
--version) echo "9.9.9 (Fake)"; exit ;;
--help) echo "Usage: fake"; exit ;;
esac"#;

/// What a program says that has answered.
const ANSWER: &str = r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"The knot holds, and it always unties.","session_id":"s"}'"#;

fn certify<'a>(world: &'a World, script: &str, only: &[&str]) -> Call<'a> {
    let program = world.script("agent", &format!("{ABOUT}\n{script}"));
    let mut args = vec!["certify".into(), "claude".into(), "--json".into(), "--keep".into()];
    args.extend(["--binary".to_owned(), program.display().to_string()]);
    args.extend(only.iter().flat_map(|case| ["--only".to_owned(), (*case).to_owned()]));
    world.bowline(&args)
}

fn status(report: &Value, case: &str) -> String {
    let cells = report["cells"].as_array().expect("cells");
    let cell = cells.iter().find(|cell| cell["case"] == case).expect("a cell");
    cell["status"].as_str().expect("a word").to_owned()
}

fn evidence(report: &Value, case: &str) -> String {
    let cells = report["cells"].as_array().expect("cells");
    cells.iter().find(|cell| cell["case"] == case).expect("a cell")["evidence"].to_string()
}

#[test]
fn what_cannot_be_tried_is_said() {
    let nobody = show(&["certify", "nobody"], "");
    assert!(nobody.contains("exit 2") && nobody.contains("there is no provider `nobody`"), "{nobody}");
    let case = show(&["certify", "claude", "--only", "txt"], "");
    assert!(case.contains("exit 2") && case.contains("did you mean `text`?"), "{case}");
    let practice = show(&["certify", "practice"], "");
    assert!(practice.contains("exit 2") && practice.contains("has no `[simulate]` section"), "{practice}");
}

#[test]
fn a_program_that_is_missing_is_exit_4_and_how_to_install_it() {
    let world = World::new();
    let ended = world.bowline(&["certify", "claude"]).end();
    assert_eq!(ended.status.code(), Some(4), "{}", ended.stderr);
    assert!(ended.stderr.contains("npm install"), "{}", ended.stderr);
}

#[test]
fn a_report_that_cannot_be_read_is_exit_3_before_anything_is_tried() {
    let world = World::new();
    std::fs::write(world.path("old.json"), "{}").expect("a file");
    let old = world.path("old.json").display().to_string();
    let ended = certify(&world, ANSWER, &["text"]).with(&["--against", &old]).end();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("could not read the report"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
}

/// Who is not root gets a namespace of another kind.
#[test]
fn a_program_is_alone_and_what_it_tries_is_seen() {
    let users: &[Option<u32>] = if is_root() { &[None, Some(65534)] } else { &[None] };
    for user in users {
        let world = World::new();
        let stray =
            format!("env > \"$HOME/env.txt\"\nbash -c 'exec 3<>/dev/tcp/192.0.2.1/80' 2>/dev/null\n{ANSWER}");
        let mut call = certify(&world, &stray, &["detect", "text", "stays-home"]);
        call = call.env("ANTHROPIC_API_KEY", "sk-somebodys-own");
        if let Some(uid) = user {
            call = call.user(*uid);
        }
        let ended = call.end();
        let report: Value = serde_json::from_str(&ended.stdout).expect("a report");
        if report["isolation"].as_str().is_some_and(|it| it.contains("the network of this machine")) {
            skip(
                "certify::a_program_is_alone_and_what_it_tries_is_seen",
                "there are no network namespaces here",
            );
            continue;
        }
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert_eq!(report["version"], "9.9.9");
        assert_eq!(status(&report, "detect"), "green");
        // The answer is right, but the model got no request for it.
        assert!(evidence(&report, "text").contains("the program sent no request to the model"), "{report}");
        assert!(evidence(&report, "stays-home").contains("had no route out"), "{report}");

        let scratch = std::fs::read_dir(world.path("tmp")).expect("a directory").flatten();
        let scratch =
            scratch.map(|entry| entry.path()).find(|path| path.join("text").exists()).expect("it is kept");
        let env = std::fs::read_to_string(scratch.join("text/one/home/env.txt")).expect("it ran");
        assert!(!env.contains("sk-somebodys-own"), "{env}");
        assert!(env.contains("ANTHROPIC_API_KEY=sk-bowline-made-up"), "{env}");
        assert!(!env.contains("HOST_MARK"), "{env}");
    }
}

/// A service of this machine is not in the namespace: a program that looks for one on loopback finds none, and is seen.
#[test]
fn what_is_looked_for_on_loopback_is_seen() {
    let world = World::new();
    let stray = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/9' 2>/dev/null\n{ANSWER}");
    let ended = certify(&world, &stray, &["text", "stays-home"]).end();
    let report: Value = serde_json::from_str(&ended.stdout).expect("a report");
    if report["isolation"].as_str().is_some_and(|it| it.contains("the network of this machine")) {
        skip("certify::what_is_looked_for_on_loopback_is_seen", "there are no network namespaces here");
        return;
    }
    assert!(evidence(&report, "stays-home").contains("1 connections or lookups had"), "{report}");
}

/// One that hangs costs its own case, after its deadline, and no other.
#[test]
fn a_case_in_which_the_program_hangs_is_red_and_the_rest_go_on() {
    let world = World::new();
    let ended = certify(&world, "sleep 300", &["detect", "text", "no-survivors"]).end();
    let report: Value = serde_json::from_str(&ended.stdout).expect("a report");
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(["detect", "text"].map(|case| status(&report, case)), ["green", "red"]);
    // No process is left, but of a program that always has to be ended that is only half of what is promised.
    assert!(evidence(&report, "no-survivors").contains("no run ended by itself"), "{report}");
}

/// Programs read standard output; what changed is in the document, and what people read is not beside it.
#[test]
fn drift_is_in_the_document() {
    let world = World::new();
    let (old, new) = (world.path("old.json"), world.path("new.json"));
    let [old, new] = [&old, &new].map(|path| path.display().to_string());
    let first = certify(&world, ANSWER, &["detect"]).with(&["--save", &old]).end();
    assert_eq!(first.status.code(), Some(0), "{}", first.stderr);
    let changed = std::fs::read_to_string(&old).expect("a report").replace("9.9.9", "9.9.8");
    std::fs::write(&old, changed).expect("a report");
    let ended = certify(&world, ANSWER, &["detect"]).with(&["--against", &old, "--save", &new]).end();
    let report: Value = serde_json::from_str(&ended.stdout).expect("one document");
    let drift = serde_json::json!([{ "change": "version", "before": "9.9.8", "now": "9.9.9" }]);
    assert_eq!(report["drift"], drift);
    assert!(!ended.stderr.to_lowercase().contains("drift"), "{}", ended.stderr);
    // A report that was compared can be compared with again.
    let again = certify(&world, ANSWER, &["detect"]).with(&["--against", &new]).end();
    let report: Value = serde_json::from_str(&again.stdout).expect("one document");
    assert_eq!(report["drift"], serde_json::json!([]), "{}", again.stderr);
}

#[test]
fn a_report_that_is_never_written_leaves_no_file() {
    let world = World::new();
    let file = world.path("work").join("report.json");
    let args =
        ["certify", "claude", "--binary", "/no/such/program", "--save", file.to_str().expect("a path")];
    world.bowline(&args).end().exits(4);
    let left: Vec<_> = std::fs::read_dir(world.path("work")).expect("a directory").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
