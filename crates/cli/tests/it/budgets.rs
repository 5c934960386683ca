//! Budgets that hold: between processes, after a failure, at nothing, and against money that was only pretended.

use rustix::process::Signal;
use serde_json::Value;

use crate::route::{INIT, answering, calls, routed, run};
use crate::spending::lines;
use crate::world::{World, wait_until};

fn set(world: &World, key: &str, value: &str) {
    world.bowline(&["config", "set", key, value]).end().exits(0);
}

fn spent(world: &World) -> f64 {
    lines(world).iter().filter_map(|line| line["cost_usd"].as_f64()).sum()
}

#[test]
fn money_that_is_only_pretended_is_in_nobodys_budget() {
    let world = World::new();
    set(&world, "budget.day.cost", "0.005");
    set(&world, "budget.project.tokens", "10");
    world.practice(&["say x"]).end().exits(0);
    world.bowline(&["demo", "--fast"]).end().exits(0);
    assert_eq!(lines(&world), Vec::<Value>::new(), "nothing was spent");
    assert_eq!(world.claude(&answering()).end().exits(0).stdout, "hello\n");
    assert_eq!(lines(&world).len(), 1);
    // What one run pretends to spend can be limited, so that a limit can be tried.
    world.practice(&["say x", "say y"]).with(&["--max-tokens", "5"]).end().exits(5);
    let mut killed = world.practice(&["say x", "hang"]).start();
    wait_until("the words", || world.has_line(&["text_delta", "\"x\""]));
    killed.kill();
    let _ = killed.end_among_others();
    assert_eq!(world.practice(&["say z"]).end().exits(0).stdout, "z\n");
    assert_eq!(lines(&world).len(), 1, "nor is it by who puts a killed run in order");
}

#[test]
fn the_price_list_and_the_practice_agent_agree() {
    let world = World::new();
    let value = world.practice(&["say hello"]).with(&["-o", "json"]).end().exits(0).json();
    let count = |name: &str| value["usage"][name].as_u64().unwrap_or(0);
    let usage = bowline_protocol::Usage {
        input: count("input"),
        output: count("output"),
        cache_read: count("cache_read"),
        cache_write: count("cache_write"),
        reasoning: None,
    };
    let model = value["model"].as_str().expect("a model");
    let price = bowline_providers::prices::of(model, &[]).expect("a price");
    let told = value["cost_usd"].as_f64().expect("a cost");
    assert!(usage.total() > 0 && (price.of(&usage) - told).abs() < 1e-9, "{} {value:#}", price.of(&usage));
}

/// An agent that calls its model this often, for 0.033 dollars each time.
fn calling(times: u32, pause: &str) -> String {
    let call = |number: u32| calls().replace(INIT, "").replace("m1", &format!("m{number}"));
    let each: Vec<String> =
        (1..=times).map(|it| format!("cat <<'END'\n{}\nEND\nsleep {pause} & wait $!", call(it))).collect();
    format!("echo '{INIT}'\n{}", each.join("\n"))
}

#[test]
fn a_budget_of_the_day_holds_for_all_who_run_at_once() {
    let world = World::new();
    set(&world, "budget.day.cost", "0.10");
    let script = calling(4, "3");
    let all: Vec<_> = (0..4).map(|_| world.claude(&script).start()).collect();
    for one in all {
        one.end_among_others().exits(5).tells(&["the budget", "for today is used up"]);
    }
    // What is over is what each was told of at once: a call.
    let sum = spent(&world);
    assert!((0.1..0.24).contains(&sum), "{sum} {:#?}", lines(&world));
    assert_eq!(std::fs::read_dir(world.path("home/spending-now")).expect("a directory").count(), 0);
}

#[test]
fn who_has_said_nothing_stops_when_others_have_used_it_all() {
    let world = World::new();
    set(&world, "budget.project.cost", "0.05");
    let waits = world.script("waits", &format!("echo '{INIT}'\nsleep 100 & wait"));
    let silent = world.run("claude", "Wait.").with(&["--binary", waits.to_str().expect("UTF-8")]).start();
    wait_until("the first", || world.has_line(&["session_started", "claude-sonnet"]));
    world.claude(&calling(2, "0.1")).start().end_among_others().exits(5);
    silent.end_among_others().exits(5).tells(&[
        "error: the budget is used up",
        "the budget of $0.0500 for this project is used up: $0.0660 so far with other runs",
    ]);
    world.nobody_is_left();
}

#[test]
fn what_a_killed_run_without_a_trace_had_told_is_counted() {
    let world = World::new();
    let script = format!("trap '' INT TERM\n{}", calling(1, "600"));
    let mut running = world.claude(&script).with(&["--ephemeral"]).start();
    wait_until("what it used", || {
        let files = std::fs::read_dir(world.path("home/spending-now")).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        texts.into_iter().any(|text| text.contains("0.033"))
    });
    running.kill();
    let _ = running.end_among_others();
    set(&world, "budget.day.cost", "0.03");
    let refused = || {
        let end = world.claude(&answering()).start().end_among_others();
        end.exits(5).tells(&["the budget for today is used up: $0.0330 of $0.0300"]);
    };
    refused();
    // The next run writes it down, once.
    let next = world.practice(&["say a", "hang"]).start();
    wait_until("its line", || lines(&world).len() == 1);
    next.signal(Signal::INT);
    next.end_among_others().exits(130);
    let lines = lines(&world);
    assert_eq!((lines.len(), lines[0]["cost_usd"].as_f64()), (1, Some(0.033)), "{lines:#?}");
    assert!(lines[0]["session"].is_null(), "which session it was is a trace: {lines:#?}");
    refused();
}

#[test]
fn a_failure_that_used_the_budget_up_is_one_of_the_budget() {
    let dear = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":500,"result":"API Error: 500 Internal","total_cost_usd":0.6,"session_id":"s","usage":{"input_tokens":10,"output_tokens":20}}"#;
    let programs = [("dear", format!("echo '{INIT}'; echo '{dear}'; exit 1")), ("good", answering())];
    let world = routed(&programs, "routing: {max_retries: 0}\n");
    let words = "the budget of $0.5000 for this request is used up: $0.6000 so far, as the agent reports";
    let ask = |more: &[&str]| run(&world, &["-p", "auto", "--max-cost", "0.5"]).with(more).end().exits(5);
    let ended = ask(&[]);
    assert!(!ended.stderr.contains("when the answer was complete"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("choose another provider"), "{}", ended.stderr);
    ended.tells(&["error: the budget is used up", words, "500"]);
    assert_eq!(world.journals_begun().len(), 1, "nobody else is asked");
    let value = ask(&["-o", "json"]).json();
    assert_eq!((&value["failure"]["code"], &value["failure"]["message"]), (&"budget".into(), &words.into()));
    let value = ask(&["-o", "generate"]).json();
    assert_eq!(value["error"], words);
    assert!(ask(&["-o", "text"]).stderr.contains(words));
}

#[test]
fn a_budget_of_nothing_starts_nobody() {
    let world = World::new();
    let script = format!("touch {}; {}", world.path("started").display(), answering());
    for key in ["request.cost", "request.tokens", "day.cost", "day.tokens", "project.cost", "project.tokens"]
    {
        set(&world, &format!("budget.{key}"), "0");
        world.claude(&script).end().exits(5).tells(&["is used up: the limit is 0"]);
        std::fs::remove_file(world.path("work/.config/bowline/bowline.toml")).expect("the file");
    }
    for option in ["--max-cost", "--max-tokens"] {
        let ended = world.claude(&script).with(&[option, "0"]).end().exits(2);
        ended.tells(&[&format!("error: `{option}` must be greater than 0\n")]);
    }
    assert!(!world.path("started").exists());
    world.claude(&script).end().exits(0);
    assert!(world.path("started").exists());
}

#[test]
fn a_model_that_streams_is_the_one_that_was_asked_for_and_its_tokens_are_counted_the_same_everywhere() {
    let world = World::new();
    let dir = world.path("work/.config/bowline/providers");
    std::fs::create_dir_all(&dir).expect("a directory");
    let llama = "kind = \"executable\"\nname = \"llama\"\npath = \"./p.sh\"\nmodel = \"llama3.2:latest\"\n";
    std::fs::write(dir.join("llama.toml"), llama).expect("a file");
    world.script(
        "work/.config/bowline/providers/p.sh",
        r#"cat >/dev/null; echo '{"delta":"2+2","done":true}'"#,
    );
    set(&world, "prices.llama3.2:latest.input", "1");
    set(&world, "prices.llama3.2:latest.output", "1");
    let ended = world.run("llama", "hi").with(&["-o", "generate", "--max-tokens", "2"]).end().exits(0);
    let answer = ended.json();
    assert_eq!(answer["model"], "llama3.2:latest", "{answer:#}");
    let notices = answer["metadata"]["notices"].to_string();
    assert!(notices.contains("so far, counted by its text"), "{answer:#}");
    let line = lines(&world).remove(0);
    assert_eq!(line["model"], "llama3.2:latest", "{line:#}");
    assert!(line["basis"].as_str().is_some_and(|it| it.ends_with("tokens counted by its text")), "{line:#}");
    // Another one that is asked for.
    let ended = world.run("llama", "hi").with(&["-o", "json", "--model", "qwen3:8b"]).end().exits(0);
    assert_eq!(ended.json()["model"], "qwen3:8b");
    for (word, model) in [("generate", "llama3.2:latest"), ("generate", "m-9")] {
        let request = match model {
            "m-9" => r#"{"prompt": "hi", "config": {"model": "m-9"}}"#,
            _ => r#"{"prompt": "hi"}"#,
        };
        let ended = world.bowline(&["provide", "llama", word]).input(request).end().exits(0);
        assert_eq!(ended.json()["model"], model);
    }
    // What it says itself counts.
    let says = r#"cat >/dev/null; echo '{"delta":"2+2","done":true,"model":"real-1"}'"#;
    world.script("work/.config/bowline/providers/p.sh", says);
    assert_eq!(world.run("llama", "hi").with(&["-o", "generate"]).end().exits(0).json()["model"], "real-1");
}

#[test]
fn a_ledger_that_lacks_an_earlier_attempt_is_told_of() {
    let world = routed(&[("first", String::new()), ("second", String::new())], "routing: {max_retries: 0}\n");
    std::fs::write(world.path("home/spending"), "in the way").expect("a file");
    let told = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":500,"result":"API Error: 500","session_id":"s","usage":{"input_tokens":10,"output_tokens":0}}"#;
    // Programs are also asked for their limits, before the first attempt.
    let path = world.path("home/spending").display().to_string();
    world.script("first", &format!("cat >/dev/null; echo x >{path}; echo '{INIT}'; echo '{told}'; exit 1"));
    world.script("second", &format!("cat >/dev/null; rm -f {path}; {}", answering()));
    let ended = run(&world, &["-p", "auto"]).end().exits(0);
    assert_eq!(lines(&world).len(), 1, "the second is written");
    ended.tells(&["could not record the cost of this run"]);
}
