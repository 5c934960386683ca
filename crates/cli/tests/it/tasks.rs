//! `bowline run --tasks`: many tasks of a file, over the same providers, within one budget.

mod lines;
mod terminal;

use std::io::{BufRead as _, BufReader};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::route::{answering, failing, routed};
use crate::world::{Call, Ended, World, wait_until};

/// A line: its id, and what the practice agent does.
fn line(id: &str, directives: &[&str]) -> Value {
    let prompt: Vec<String> = directives.iter().map(|it| format!("practice: {it}")).collect();
    json!({ "id": id, "prompt": prompt.join("\n") })
}

/// Writes the file, and calls the practice agent with it.
fn tasks<'a>(world: &'a World, lines: &[Value]) -> Call<'a> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(world.path("work/tasks.jsonl"), text).expect("a file");
    let args = ["--env", "PRACTICE_PACE=0", "--tasks", "tasks.jsonl"];
    world.run("practice", "").no_prompt().with(&args)
}

/// Texts that differ from run to run.
const FILTERS: [(&str, &str); 3] =
    [(r"\$[\d.]+", "$[COST]"), (r", \d+ s\n", ", [TIME]\n"), (r"s-\d{8}-\d{9}-[a-z0-9]{8}", "[SESSION]")];

fn filtered(check: impl FnOnce()) {
    insta::with_settings!({filters => FILTERS.to_vec()}, { check() });
}

#[test]
fn each_answer_is_printed_when_its_task_ends() {
    let world = World::new();
    let lines = [
        line("first", &["say The first one."]),
        line("fails", &["fail 529 too much to do"]),
        json!({"title": "Third", "goal": "practice: say \"Third, by its title.\""}),
    ];
    let ended = tasks(&world, &lines).with(&["--at-once", "1"]).end().exits(1);
    filtered(|| {
        insta::assert_snapshot!(ended.show(), @r"
        exit 1
        --- stdout
        == first ==
        The first one.

        == fails: failed ==


        == 3 ==
        Third, by its title.

        --- stderr
        fails: error: the model's service is overloaded
        fails: caused by: API Error: 529 too much to do
        fails: hint: try again, or choose another provider with --provider; the request is valid
        3 tasks: 2 completed, 1 failed, $[COST], [TIME]
        ");
    });
    let labels: Vec<Value> = {
        let list = world.bowline(&["sessions", "--all", "--json"]).end().exits(0).json();
        list.as_array().expect("a list").iter().map(|row| row["label"].clone()).collect()
    };
    assert!(labels.contains(&"Third".into()), "a title is the label: {labels:?}");
    // All completed, and a slow one does not hold up the others.
    let slow = [line("slow", &["sleep 3s", "say Slow."]), line("fast", &["say Fast."])];
    let ended = tasks(&world, &slow).end().exits(0);
    assert_eq!(ended.stdout, "== fast ==\nFast.\n\n== slow ==\nSlow.\n\n");
    let ended = tasks(&world, &lines[2..]).end().exits(0);
    assert_eq!(ended.stdout, "== 1 ==\nThird, by its title.\n\n");
    assert!(ended.stderr.starts_with("1 task: 1 completed, "), "{}", ended.stderr);
    let quiet = tasks(&world, &lines[2..]).with(&["-q"]).end().exits(0);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("== 1 ==\nThird, by its title.\n\n", ""));
}

#[test]
fn the_file_may_be_standard_input() {
    let world = World::new();
    let call = world.run("practice", "").no_prompt().with(&["--tasks", "-"]);
    let text = format!("\u{feff}{}\r\n\n{}", line("a", &["say one"]), line("b", &["say two"]));
    let ended = call.with(&["--at-once", "1"]).input(text).end().exits(0);
    assert_eq!(ended.stdout, "== a ==\none\n\n== b ==\ntwo\n\n");
}

fn objects(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn an_object_for_each_task_has_its_id() {
    let world = World::new();
    let lines = [line("a", &["say one"]), line("b", &["fail 500 down"])];
    for format in ["json", "jsonl"] {
        let ended = tasks(&world, &lines).with(&["-o", format, "--at-once", "1"]).end().exits(1);
        let all = objects(&ended);
        let of = |key: &str| all.iter().map(|it| it[key].clone()).collect::<Vec<_>>();
        assert_eq!(
            (of("task"), of("outcome")),
            (vec!["a".into(), "b".into()], vec!["completed".into(), "failed".into()])
        );
        assert_eq!((&all[0]["text"], &all[1]["exit_code"]), (&"one".into(), &1.into()));
        // The same keys as those of a run.
        let single = world.practice(&["say one"]).with(&["-o", "json"]).end().exits(0).json();
        let keys =
            |object: &Value| object.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        let own: Vec<String> = keys(&all[0]).into_iter().filter(|key| key != "task").collect();
        assert_eq!(own, keys(&single));
        ended.tells(&["b: error: ", "2 tasks: 1 completed, 1 failed, "]);
    }
    for format in ["pi", "chunks", "stream-events"] {
        tasks(&world, &lines).with(&["-o", format]).end().exits(2).tells(&[
            &format!("error: `--output {format}` cannot be used with `--tasks`"),
            "hint: `-o json` prints an object for each task",
        ]);
    }
    let ended = tasks(&world, &lines[..1]).with(&["-o", "text"]).end().exits(0);
    assert_eq!(ended.stdout, "== a ==\none\n\n");
}

#[test]
fn few_run_at_once() {
    let world = World::new();
    let counts = "tool run echo + >>log; sleep 0.3; echo - >>log";
    let lines: Vec<Value> = (0..5).map(|number| line(&format!("t{number}"), &[counts])).collect();
    tasks(&world, &lines).with(&["--at-once", "2", "--permission", "yolo"]).end().exits(0);
    let log = std::fs::read_to_string(world.path("work/log")).expect("a log");
    let (mut running, mut most) = (0, 0);
    for sign in log.lines() {
        running += if sign == "+" { 1 } else { -1 };
        most = most.max(running);
    }
    assert_eq!((most, running, log.lines().count()), (2, 0, 10), "{log}");
    for wrong in ["0", "-1", "257", "many"] {
        tasks(&world, &lines).with(&["--at-once", wrong]).end().exits(2).tells(&["from 1 to 256"]);
    }
}

#[test]
fn a_task_behind_a_used_up_budget_is_not_begun_and_says_so() {
    let world = World::new();
    let said = |id: &str| line(id, &["say x", "say y"]);
    let lines = [said("a"), said("b"), said("c")];
    let limits = ["--at-once", "1", "--max-tokens", "5"];
    let ended = tasks(&world, &lines).with(&limits).end().exits(5);
    assert!(!ended.stdout.contains("== b"), "{}", ended.stdout);
    assert_eq!(world.journals().len(), 1, "no session of theirs");
    let ended = ended.tells(&[
        "a: error: the budget is used up",
        "b: not begun: the budget for these tasks is used up: ",
        "c: not begun: the budget for these tasks is used up: ",
        "3 tasks: 1 failed, 2 not begun, ",
    ]);
    drop(ended);
    let ended = tasks(&world, &lines).with(&limits).with(&["-o", "json"]).end().exits(5);
    let all = objects(&ended);
    let of = |key: &str| all.iter().map(|it| it[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("outcome"), ["failed", "not_begun", "not_begun"].map(Value::from));
    assert_eq!((of("task"), of("exit_code")), (["a", "b", "c"].map(Value::from).to_vec(), vec![5.into(); 3]));
    assert!(
        all[1]["error"].as_str().is_some_and(|text| text.contains("for these tasks is used up")),
        "{all:#?}"
    );
    // Failures of several kinds have no cause that holds for all.
    let long = line("b", &[&format!("say {}", "x ".repeat(200))]);
    let ended = tasks(&world, &[line("a", &["fail 500 down"]), long, said("c")]);
    let ended = ended.with(&["--at-once", "1", "--max-tokens", "50"]).end().exits(1);
    ended.tells(&["a: error: the model's service failed", "b: error: the budget", "c: not begun: "]);
}

#[test]
fn the_providers_are_tried_in_their_order() {
    let world = routed(&[("first", failing(400, "insufficient_quota")), ("second", answering())], "");
    let lines = [json!({"prompt": "Say hello."}), json!({"prompt": "Say hello.", "provider": "second"})];
    std::fs::write(world.path("work/tasks.jsonl"), format!("{}\n{}\n", lines[0], lines[1])).expect("a file");
    let args = ["run", "-p", "first,second", "--tasks", "tasks.jsonl", "--at-once", "1", "-o", "json"];
    let ended = world.bowline(&args).env("ANTHROPIC_API_KEY", "made-up").end().exits(0);
    let all = objects(&ended);
    let attempts = |task: &Value| {
        let all = task["attempts"].as_array().cloned().unwrap_or_default();
        all.iter().map(|it| it["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (attempts(&all[0]), &all[0]["text"]),
        (vec!["first".to_owned(), "second".to_owned()], &"hello".into())
    );
    assert_eq!(attempts(&all[1]), ["second"]);
    ended.tells(&["1: warning: falling back from first to second: "]);
}

#[test]
fn an_answer_is_held_to_the_schema() {
    let world = World::new();
    std::fs::write(world.path("work/schema.json"), r#"{"type": "object", "required": ["line"]}"#).unwrap();
    let saying = |json: &str| answering().replace("hello", &json.replace('"', "\\\""));
    let agent = world.script("agent", &saying(r#"{"page": 1}"#));
    let binary = agent.to_str().expect("UTF-8");
    std::fs::write(world.path("work/tasks.jsonl"), "{\"id\": \"a\", \"prompt\": \"x\"}\n").expect("a file");
    let call = world.run("claude", "").no_prompt();
    let ended =
        call.with(&["--binary", binary, "--schema", "schema.json", "--tasks", "tasks.jsonl"]).end().exits(1);
    assert_eq!(ended.stdout, "== a: failed ==\n{\"page\": 1}\n\n");
    ended.tells(&["error: the answer of task a does not match `--schema schema.json`", "1 task: 1 failed, "]);
}

#[test]
fn an_interrupt_cancels_what_runs_and_begins_no_more() {
    let world = World::new();
    let hangs = |id: &str| line(id, &["say so far", "hang"]);
    let lines = [line("first", &["say one"]), hangs("b"), hangs("c"), hangs("d")];
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let before = world.journals_begun().len();
        let running = tasks(&world, &lines).with(&["--at-once", "2"]).start();
        running.prints("== first ==");
        wait_until("two that hang", || world.journals_begun().len() == before + 3);
        running.has_agents(2);
        running.signal(signal);
        let ended = running.end().exits(code);
        assert!(ended.stdout.contains("== first ==\none\n"), "{}", ended.stdout);
        assert!(ended.stdout.contains("== b: cancelled ==\n"), "what there is: {}", ended.stdout);
        assert!(!ended.stdout.contains("== d"), "{}", ended.stdout);
        ended.tells(&[
            "cancelling; Ctrl-C again kills the agents",
            "4 tasks: 1 completed, 2 cancelled, 1 not begun, ",
        ]);
        assert_eq!(world.journals_begun().len(), before + 3, "the fourth was not begun");
    }
}

#[test]
fn an_agent_that_does_not_stop_is_killed_by_the_second_signal() {
    let world = World::new();
    let deaf = |id: &str| line(id, &["ignore sigint sigterm", "say deaf", "hang"]);
    let running = tasks(&world, &[deaf("a"), deaf("b")]).start();
    wait_until("both", || world.journals_begun().len() == 2);
    running.says("deaf");
    running.signal(Signal::INT);
    running.tells("cancelling");
    running.signal(Signal::INT);
    running.end().exits(130).tells(&["2 tasks: 2 cancelled, "]);
}

#[test]
fn a_reader_that_goes_away_stops_the_tasks() {
    let world = World::new();
    let hangs = |id: &str| line(id, &["say so far", "hang"]);
    let lines =
        [line("a", &["say one"]), line("b", &["sleep 400ms", "say two"]), hangs("c"), hangs("d"), hangs("e")];
    let (running, stdout) = tasks(&world, &lines).with(&["--at-once", "2"]).start_unread();
    let mut stdout = BufReader::new(stdout);
    let mut first = String::new();
    stdout.read_line(&mut first).expect("a line");
    drop(stdout);
    let ended = running.end().exits(141);
    assert!(first.starts_with("== a"), "{first}");
    ended.tells(&[
        "error: the reader of standard output closed it; the agent",
        "the journal has the agent's work; `--resume s-",
        " not begun, ",
    ]);
}

#[test]
fn tasks_have_a_key_by_which_they_are_stopped() {
    let world = World::new();
    let running =
        tasks(&world, &[line("a", &["hang"]), line("b", &["hang"])]).with(&["--key", "many"]).start();
    running.has_agents(2);
    wait_until("both", || {
        let listed =
            world.bowline(&["sessions", "--key", "many", "--json"]).start().end_among_others().exits(0);
        listed.json().as_array().map(Vec::len) == Some(2)
    });
    world.bowline(&["stop", "--key", "many"]).start().end_among_others().exits(0);
    running.end().exits(130).tells(&["2 tasks: 2 cancelled, "]);
}
