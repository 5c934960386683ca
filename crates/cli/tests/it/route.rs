//! The router as a person meets it: retries, fallbacks, limits and budgets, with programs that fail as real ones do.

mod entries;

use rustix::process::Signal;

use crate::world::{Call, World, now};

pub(crate) const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s","model":"claude-sonnet-4-5"}"#;
const HELLO: &str = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"hello"}]},"session_id":"s"}
{"type":"result","subtype":"success","is_error":false,"result":"hello","session_id":"s","usage":{"input_tokens":10,"output_tokens":20}}"#;

/// A call to the model that used 3000 tokens, and text before it.
pub(crate) fn calls() -> String {
    let event = |event: &str| format!(r#"{{"type":"stream_event","event":{event},"session_id":"s"}}"#);
    [
        INIT.to_owned(),
        event(r#"{"type":"message_start","message":{"id":"m1","model":"claude-sonnet-4-5"}}"#),
        event(r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"so far"}}"#),
        event(
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"input_tokens":1000,"output_tokens":2000}}"#,
        ),
        event(r#"{"type":"message_stop"}"#),
    ]
    .join("\n")
}

pub(crate) fn failing(status: u16, text: &str) -> String {
    let line = format!(
        r#"{{"type":"result","subtype":"success","is_error":true,"api_error_status":{status},"result":"API Error: {text}","session_id":"s"}}"#
    );
    format!("echo '{INIT}'; echo '{line}'; exit 1")
}

pub(crate) fn answering() -> String {
    format!("echo '{INIT}'; cat <<'END'\n{HELLO}\nEND")
}

/// A world with a router's file that has these programs, each speaking as Claude Code does.
pub(crate) fn routed(programs: &[(&str, String)], rest: &str) -> World {
    let world = World::new();
    let mut file = "providers:\n".to_owned();
    for (name, script) in programs {
        // Who closes a pipe that is being written to is told so.
        let path = world.script(name, &format!("cat >/dev/null\n{script}"));
        file.push_str(&format!(
            "  - name: {name}\n    config: {{provider: claude, binary: {}}}\n",
            path.display()
        ));
    }
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("router.yaml"), format!("{file}{rest}")).expect("a file");
    world
}

pub(crate) fn run<'a>(world: &'a World, args: &[&str]) -> Call<'a> {
    let mut all = vec!["run"];
    all.extend(args);
    all.push("Say hello.");
    world.bowline(&all).env("ANTHROPIC_API_KEY", "made-up")
}

#[test]
fn whoever_has_a_file_for_the_router_need_not_name_a_provider() {
    let world = routed(&[("first", failing(500, "down")), ("second", answering())], "");
    let ask = || world.bowline(&["run", "--cwd", "project", "--retries", "0", "hi"]).end();
    std::fs::create_dir_all(world.path("work/project")).expect("a directory");
    assert!(ask().exits(0).stdout.contains("hello"));
    // One that came with a project names programs that its user has not chosen.
    let (own, project) =
        (world.path("work/.config/bowline/router.yaml"), world.path("work/project/.bowline"));
    std::fs::create_dir_all(&project).expect("a directory");
    std::fs::rename(&own, project.join("router.yaml")).expect("the file");
    ask().exits(2).tells(&[
        "ignored `first`: it runs ",
        "ignored `second`: it runs ",
        "error: no provider is selected",
    ]);
    world.bowline(&["trust"]).after("cd project").end().exits(0);
    ask().exits(2).tells(&[
        "error: no provider is selected",
        "hint: `--provider auto` uses ",
        "/.bowline/router.yaml, which came with the project",
    ]);
    // The project's settings may ask for one of its own that are trusted.
    for (provider, trusted) in [("auto", true), ("second", true), ("auto", false), ("codex, claude", false)] {
        std::fs::write(project.join("bowline.toml"), format!("[run]\nprovider = \"{provider}\"\n"))
            .expect("a file");
        if trusted {
            assert!(ask().exits(0).stdout.contains("hello"), "{provider}");
            continue;
        }
        let theirs = std::fs::read_to_string(project.join("router.yaml")).expect("a file");
        std::fs::write(project.join("router.yaml"), "providers: [{name: claude}, {name: codex}]\n")
            .expect("a file");
        ask().exits(2).tells(&["warning: `run.provider` of ", "came with the project and is not trusted"]);
        std::fs::write(project.join("router.yaml"), theirs).expect("a file");
    }
    std::fs::remove_file(project.join("bowline.toml")).expect("the file");
    let settings = world.path("work/.config/bowline/bowline.toml");
    std::fs::write(&settings, "[run]\nmodel = \"claude-sonnet-4-5\"\n").expect("a file");
    ask().exits(2).tells(&["error: no provider is selected"]);
    std::fs::remove_file(&settings).expect("the file");
    let chosen =
        world.bowline(&["run", "--cwd", "project", "--retries", "0", "-p", "auto", "hi"]).end().exits(0);
    assert!(chosen.stdout.contains("hello"));
    std::fs::write(&own, "providers:\n  - {name: first, enabled: false}\n").expect("a file");
    std::fs::remove_file(project.join("router.yaml")).expect("the file");
    ask().exits(2).tells(&["error: no provider is selected"]);
}

#[test]
fn a_limit_is_retried_and_the_answer_comes() {
    let limited = failing(429, "Request rejected (429)");
    let once = format!("if [ ! -e count ]; then touch count; {limited}; fi; {}", answering());
    let world = routed(&[("only", once)], "");
    let ended = run(&world, &["--provider", "auto", "-v"]).end().exits(0);
    assert_eq!(ended.stdout, "hello\n");
    ended.tells(&["only: priority 50", "retrying in ", "(rate limit)"]);
    let [journal] = &world.journals_begun()[..] else { panic!("a retry goes on in its session") };
    let meta = std::fs::read_to_string(journal.join("session.json")).expect("a description");
    assert!(!meta.contains("\"parent\""), "{meta}");
    world.journal().check().ended("completed");
    world.nobody_is_left();
}

#[test]
fn a_wait_for_a_limit_is_told_where_nothing_can_be_drawn() {
    for format in ["human", "jsonl"] {
        let limited = failing(429, "rate limit: retry after 3600 seconds");
        let world = routed(&[("only", limited)], "");
        let args = ["--provider", "auto", "--wait-for-limit", "--output", format];
        let running = run(&world, &args).start();
        running.tells("waiting for the limit, which resets ");
        running.tells(" (in 1 h)\n");
        running.signal(Signal::INT);
        running.end().exits(130);
    }
}

#[test]
fn asking_for_limits_is_part_of_the_time() {
    let limits = [("--timeout", 124), ("--max-time", 5)];
    // The agents work for ever, and what could tell of their limits never does.
    let worlds = limits.map(|_| {
        let world = routed(&[("first", "exec sleep 600".into()), ("second", "exec sleep 600".into())], "");
        std::fs::create_dir_all(world.path("work/bin")).expect("a directory");
        world.script("work/bin/claude", "exec sleep 600");
        world
    });
    let began = now();
    let runs = limits.iter().zip(&worlds).map(|((limit, _), world)| {
        let path = format!("{}:/usr/bin:/bin", world.path("work/bin").display());
        let args = ["--provider", "auto", "--retries", "0", "--fallback", "none", limit, "6s"];
        run(world, &args).env("PATH", &path).start()
    });
    for (run, (limit, code)) in runs.collect::<Vec<_>>().into_iter().zip(limits) {
        run.end().exits(code);
        let took = began.elapsed();
        assert!(took < std::time::Duration::from_millis(8_500), "{limit}: {took:?}");
    }
}

#[test]
fn a_quota_falls_back_and_a_login_does_not() {
    let quota = failing(400, "Your credit balance is too low: insufficient_quota");
    let world = routed(&[("first", quota), ("second", answering())], "");
    let ended = run(&world, &["--provider", "auto"]).end().exits(0);
    assert_eq!(ended.stdout, "hello\n");
    assert!(!ended.stderr.contains("told of an error"), "it is said once: {}", ended.stderr);
    ended.tells(&["warning: falling back from first to second: "]);

    let login = failing(401, "Invalid API key");
    let world = routed(&[("first", login), ("second", answering())], "");
    let ended = run(&world, &["--provider", "auto"]).end().exits(4);
    assert!(!ended.stderr.contains("falling back"), "{}", ended.stderr);
    // Whose login it was, and why no other provider was asked.
    ended.tells(&["first: authentication: not retried; no fallback under `next`"]);
    assert_eq!(world.journals_begun().len(), 1);
    let ended = run(&world, &["--provider", "auto", "--fallback", "any"]).end().exits(0);
    assert_eq!(ended.stdout, "hello\n");
}

#[test]
fn a_time_that_is_over_is_a_failure_like_any_other() {
    let slow = "sleep 60 & wait".to_owned();
    let world = routed(&[("slow", slow), ("second", answering())], "");
    let asked =
        |more: &[&str]| run(&world, &["--provider", "auto", "--retries", "0", "-o", "json"]).with(more).end();
    let provider = |ended: crate::world::Ended| -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(&ended.stdout).expect("JSON")["provider"].clone()
    };
    assert_eq!(provider(asked(&["--timeout", "700ms"]).exits(0)), "second");
    // The same with a time of its own, which is its agent's alone: asking for limits takes nothing of it.
    let file = world.path("work/.config/bowline/router.yaml");
    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::write(&file, text.replacen("config: {", "config: {timeout: 700ms, ", 1)).expect("a file");
    assert_eq!(provider(asked(&[]).exits(0)), "second");
    let unheard = "case \"$*\" in *--no-session-persistence*) sleep 60;; esac; cat >/dev/null; sleep 1";
    world.script("slow", &format!("{unheard}\n{}", answering()));
    std::fs::write(
        &file,
        text.replacen("config: {", "config: {timeout: 10s, ", 1) + "routing: {selection_timeout: 12s}\n",
    )
    .expect("a file");
    assert_eq!(provider(asked(&[]).exits(0)), "slow");
    world.nobody_is_left();
}

#[test]
fn what_is_waited_is_part_of_the_time_for_all_of_it() {
    let limited = failing(429, "rate limited: retry after 20 seconds");
    let world = routed(&[("first", limited)], "");
    let began = now();
    let ended = run(&world, &["--provider", "auto", "--max-time", "4s"]).end().exits(5);
    assert!(began.elapsed() < std::time::Duration::from_secs(18), "{:?}", began.elapsed());
    ended.tells(&["retrying in 20 s (rate limit)", "error: the budget is used up", "the budget of 4 s for"]);

    let later = failing(429, "rate limited: retry after 3600 seconds");
    let world = routed(&[("first", later)], "");
    let ended = run(&world, &["--provider", "auto", "--wait-for-limit", "--max-time", "4s"]).end().exits(5);
    ended.tells(&["waiting for the limit", "the budget of 4 s for"]);
}

#[test]
fn nothing_of_a_failed_attempt_is_in_the_answer() {
    let half = r#"{"type":"assistant","message":{"id":"h","content":[{"type":"text","text":"half an answ"}]},"session_id":"s"}"#;
    let broken = format!("echo '{INIT}'; echo '{half}'; {}", failing(503, "service unavailable"));
    let world = routed(&[("first", broken), ("second", answering())], "routing: {max_retries: 0}\n");
    assert_eq!(run(&world, &["--repeat-tools", "--provider", "auto"]).end().exits(0).stdout, "hello\n");
    for (format, key) in [("json", "text"), ("generate", "content")] {
        let ended = run(&world, &["--repeat-tools", "--provider", "auto", "-o", format]).end().exits(0);
        let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect("one object");
        assert_eq!(value[key], "hello", "{format}");
    }
    let ended = run(&world, &["--repeat-tools", "--provider", "auto", "-o", "chunks"]).end().exits(0);
    let last: serde_json::Value =
        serde_json::from_str(ended.stdout.lines().last().expect("lines")).expect("JSON");
    assert_eq!(last["content"], "hello");
}

#[test]
fn who_keeps_failing_is_left_alone_and_the_explanation_says_so() {
    let world = routed(&[("first", failing(503, "service unavailable")), ("second", answering())], "");
    let explain = |args: &[&str]| {
        let all: Vec<&str> = ["route"].iter().chain(args).copied().collect();
        world.bowline(&all).env("ANTHROPIC_API_KEY", "made-up").end()
    };
    insta::assert_snapshot!(explain(&["--explain"]).exits(0).stdout.replace(&world.root().display().to_string(), "WORLD"), @r"
    ORDER  NAME    MODEL        WHY
    1      first   its default  priority 50
    2      second  its default  priority 50

    strategy priority, 2 retries each, fallback next, by WORLD/work/.config/bowline/router.yaml

    AFTER                                      RETRY                               THEN                WHY
    quota, not_found, unknown                  no                                  tries second; ends  no other agent to fall back to
    rate_limit                                 2 times, after up to 1 s, 2 s       ends                no fallback under `next`
    authentication, validation, configuration  no                                  ends                no fallback under `next`
    network, server, timeout                   each 2 times, after up to 1 s, 2 s  tries second; ends  no other agent to fall back to

    the run ends if it exceeds a budget, is cancelled, or fails after a tool ran or may have run
    ");
    assert_eq!(explain(&[]).exits(0).stdout, "first\n");
    for _ in 0..5 {
        run(&world, &["--provider", "auto", "--retries", "0", "--fallback", "none"]).end().exits(1);
    }
    let ended = explain(&["--explain"]).exits(0);
    assert!(
        ended.stdout.contains("it failed 5 times within a minute and is skipped for another"),
        "{}",
        ended.stdout
    );
    let told = explain(&["--after", "server"]).exits(0).stdout;
    assert!(
        told.contains("server  2 times, after up to 1 s, 2 s  ends  no other agent to fall back to\n"),
        "{told}"
    );
    // The other one has a program of its own, and nothing is held against it.
    assert_eq!(run(&world, &["--provider", "auto"]).end().exits(0).stdout, "hello\n");
}

#[test]
fn a_budget_stops_a_turn_that_runs_and_what_was_spent_is_written_down() {
    let script = format!("cat <<'END'\n{}\nEND\nsleep 60 & wait", calls());
    let world = routed(&[("only", script)], "");
    // 1000 tokens of the prompt and 2000 of the answer are 0.033 dollars by the list.
    let ended = run(&world, &["--provider", "only", "--max-cost", "0.02"]).end().exits(5);
    assert_eq!(ended.stdout, "so far\n");
    ended.tells(&[
        "error: the budget is used up",
        "warning: the budget of $0.0200 for this request is used up: $0.0330 so far, by the price list (2026-10-10), tokens as the agent reports",
    ]);
    assert!(world.has_line(&["\"type\":\"notice\"", "\"code\":\"budget\""]));
    let spending = std::fs::read_dir(world.path("home/spending")).expect("a directory");
    let file = spending.flatten().next().expect("a file").path();
    let text = std::fs::read_to_string(file).expect("a file");
    let line: serde_json::Value = serde_json::from_str(text.trim()).expect("one line");
    assert_eq!((line["tokens"].as_u64(), line["cost_usd"].as_f64()), (Some(3000), Some(0.033)));
    world.nobody_is_left();

    let file = world.path("work/.config/bowline/bowline.toml");
    std::fs::write(file, "[budget.day]\ncost = 0.03\n").expect("a file");
    let ended = run(&world, &["--provider", "only"]).end().exits(5);
    ended.tells(&["error: the budget for today is used up: $0.0330 of $0.0300"]);
}

#[test]
fn the_last_one_is_what_is_told_of() {
    let world = routed(&[("first", failing(503, "service unavailable"))], "");
    let spare = "  - {name: practice, priority: 10, config: {env: {PRACTICE_PACE: \"0\"}}}\nrouting: {max_retries: 0}\n";
    let file = world.path("work/.config/bowline/router.yaml");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, format!("{text}{spare}")).expect("a file");
    let args = ["run", "--provider", "auto", "-o", "json", "practice: say done"];
    let ended = world.bowline(&args).env("ANTHROPIC_API_KEY", "made-up").end().exits(0);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert_eq!((&value["text"], &value["model"]), (&"done".into(), &"practice-1".into()), "{value:#}");
    assert_ne!(value["native_session"], "s", "who wants to go on goes on with the one that answered");
}

#[test]
fn who_is_named_says_itself_what_is_the_matter() {
    let world = routed(&[("first", failing(503, "service unavailable"))], "");
    let refused = run(&world, &["--provider", "codex", "--retries", "1", "--max-turns", "3"]).end().exits(2);
    refused.tells(&["error: codex cannot be run with `--max-turns`"]);
    run(&world, &["--provider", "codex", "--retries", "1"])
        .end()
        .exits(4)
        .tells(&["the agent is not installed"]);
    for _ in 0..6 {
        // It is left alone by those who let the router choose.
        run(&world, &["--provider", "first"]).end().exits(1).tells(&["error: the model's service failed"]);
    }
}

#[test]
fn a_profile_is_an_account_and_one_that_is_not_there_is_not_passed_over() {
    let home = format!("{}\nprintf '%s' \"$CLAUDE_CONFIG_DIR\" >account.txt", answering());
    let world = routed(&[("first", home)], "");
    let file = world.path("work/.config/bowline/router.yaml");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, text.replace("provider: claude,", "provider: claude, profile: work,"))
        .expect("a file");
    let ended = run(&world, &["--provider", "auto"]).end().exits(4);
    ended.tells(&["caused by: first: there is no profile `work`; none are set"]);

    let account = world.path("work/account");
    std::fs::create_dir_all(&account).expect("a directory");
    let settings = format!("[profiles.work]\nprovider = \"claude\"\nhome = \"{}\"\n", account.display());
    std::fs::write(world.path("work/.config/bowline/bowline.toml"), settings).expect("a file");
    let explained =
        || world.bowline(&["route", "--explain"]).env("ANTHROPIC_API_KEY", "x").end().exits(0).stdout;
    assert!(explained().contains("no login was found"), "{}", explained());
    std::fs::write(account.join(".credentials.json"), "{\"made\": \"up\"}").expect("a file");
    assert!(!explained().contains("no login was found"), "{}", explained());
    run(&world, &["--provider", "auto"]).end().exits(0);
    let told = std::fs::read_to_string(world.path("work/account.txt")).expect("it ran");
    assert_eq!(told, account.display().to_string());

    run(&world, &["--profile", "home"])
        .end()
        .exits(2)
        .tells(&["error: there is no profile `home`", "hint: existing profiles: work"]);
}
