//! What was spent, on file: whose it was, for what, and that nothing is lost or counted twice.

use crate::route::{INIT, answering, calls};
use crate::world::{World, wait_until};

pub(crate) fn lines(world: &World) -> Vec<serde_json::Value> {
    let files = std::fs::read_dir(world.path("home/spending")).into_iter().flatten().flatten();
    let texts = files.map(|file| std::fs::read_to_string(file.path()).expect("a file"));
    texts
        .flat_map(|text| {
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn a_killed_run_leaves_its_line_once() {
    let world = World::new();
    let mut running = world.claude(&format!("cat <<'END'\n{}\nEND\nexec sleep 600", calls())).start();
    wait_until("the usage", || world.has_line(&["usage_reported"]));
    let lost = world.journals_begun().remove(0);
    let id = lost.file_name().expect("a name").display().to_string();
    running.kill();
    let _ = running.end_among_others();
    assert!(lines(&world).is_empty(), "nobody was there to write it");

    let of_lost = |line: &serde_json::Value| line["session"] == id.as_str();
    // Two at once, and one later: each looks for what killed runners left.
    let next = [world.practice(&["say a", "hang"]).start(), world.practice(&["say b", "hang"]).start()];
    wait_until("its line", || lines(&world).iter().any(of_lost));
    for next in next {
        next.signal(rustix::process::Signal::INT);
        next.end_among_others().exits(130);
    }
    world.practice(&["say c"]).end().exits(0);
    let lines: Vec<_> = lines(&world).into_iter().filter(of_lost).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!((lines[0]["tokens"].as_u64(), lines[0]["cost_usd"].as_f64()), (Some(3000), Some(0.033)));
    assert_eq!(lines[0]["project"], world.path("work").display().to_string());
    let events = std::fs::read_to_string(lost.join("events.jsonl")).expect("events");
    let ended = events.lines().find(|line| line.contains("turn_ended")).expect("the turn ended");
    assert!(ended.contains(r#""output":2000"#), "the journal says what the turn used: {ended}");
}

#[test]
fn a_killed_run_of_a_users_provider_is_billed_unless_its_manifest_pretends() {
    let world = World::new();
    let dir = world.path("work/.config/bowline/providers");
    std::fs::create_dir_all(&dir).expect("a directory");
    world.script(
        "work/.config/bowline/providers/agent.sh",
        &format!("cat <<'END'\n{}\nEND\nexec sleep 600", calls()),
    );
    for (name, pretends) in [("mine", false), ("made-up", true)] {
        let manifest = format!(
            "name = \"{name}\"\nprogram = \"./agent.sh\"\nprompt = \"stdin\"\npretends = {pretends}\nformats.lines.dialect = \"claude\"\n[permission.ask]\n"
        );
        std::fs::write(dir.join(format!("{name}.toml")), manifest).expect("a manifest");
        let mut running = world.run(name, "Go.").start();
        let said_usage = |dir: &std::path::PathBuf| {
            // The directory is there before its description.
            let meta = bowline::journal::SessionMeta::read(dir);
            let events = std::fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default();
            meta.is_ok_and(|meta| meta.provider == name) && events.contains("usage_reported")
        };
        wait_until("the usage", || world.journals_begun().iter().any(said_usage));
        running.kill();
        let _ = running.end_among_others();
    }
    let lost = world.journals_begun();
    let next = world.practice(&["say a", "hang"]).start();
    let is_over = |dir: &std::path::PathBuf| {
        std::fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default().contains("session_ended")
    };
    wait_until("both ends", || lost.iter().all(is_over));
    next.signal(rustix::process::Signal::INT);
    next.end_among_others().exits(130);
    let providers: Vec<_> = lines(&world).iter().map(|line| line["provider"].clone()).collect();
    assert_eq!(providers, ["mine"]);
}

#[test]
fn a_line_says_whose_it_was_and_a_run_without_a_trace_has_a_project() {
    let world = World::new();
    let agent = world.script("agent", &format!("cat >/dev/null; cat <<'END'\n{}\nEND", calls()));
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    let router = format!(
        "providers:\n  - {{name: mine, config: {{provider: claude, profile: work, binary: {}}}}}\n",
        agent.display()
    );
    std::fs::write(dir.join("router.yaml"), router).expect("a file");
    let account = world.path("work/account");
    std::fs::create_dir_all(&account).expect("a directory");
    std::fs::write(
        dir.join("bowline.toml"),
        format!("[profiles.work]\nprovider = \"claude\"\nhome = \"{}\"\n", account.display()),
    )
    .expect("a file");
    let run = |more: &[&str]| {
        let args: Vec<&str> = ["run", "--provider", "mine"].into_iter().chain(more.iter().copied()).collect();
        world.bowline(&args).with(&["Go."]).env("ANTHROPIC_API_KEY", "made-up").end()
    };
    // It ends without a result.
    run(&[]).exits(1);
    run(&["--ephemeral"]).exits(1);
    let lines = lines(&world);
    assert_eq!(lines.len(), 2, "{lines:#?}");
    for line in &lines {
        assert_eq!((&line["provider"], &line["profile"]), (&"claude".into(), &"work".into()), "{line}");
        assert_eq!(line["project"], world.path("work").display().to_string());
    }
    assert!(lines.iter().any(|line| line["session"].is_null()), "which session it was is a trace");
}

#[test]
fn what_a_budget_stopped_is_told_with_what_was_counted() {
    let world = World::new();
    // As the real program does: it is asked to stop, and says that it used nothing.
    let nothing = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"s","usage":{"input_tokens":0,"output_tokens":0}}"#;
    let script = format!(
        "trap \"echo '{}'; exit 1\" INT TERM\ncat <<'END'\n{}\nEND\nsleep 60 & wait",
        nothing.replace('"', "\\\""),
        calls()
    );
    let ended = world.claude(&script).with(&["--max-cost", "0.02", "-o", "json"]).end().exits(5);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert_eq!(value["usage"]["output"], 2000, "{value:#}");
    assert_eq!(lines(&world)[0]["tokens"], 3000);

    // Where it never told of anything but text, the text is counted.
    let world = World::new();
    let text = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"0123456789012345678901234567890123456789"}},"session_id":"s"}"#;
    let script = format!(
        "trap \"echo '{}'; exit 1\" INT TERM\ncat <<'END'\n{INIT}\n{text}\nEND\nsleep 60 & wait",
        nothing.replace('"', "\\\"")
    );
    let ended = world.claude(&script).with(&["--max-tokens", "12", "-o", "json"]).end().exits(5);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert_eq!(
        (&value["usage"]["output"], &value["usage"]["source"]),
        (&10.into(), &"estimated".into()),
        "{value:#}"
    );
}

#[test]
fn a_line_that_cannot_be_read_is_named_and_the_others_count() {
    let world = World::new();
    world.claude(&answering()).end().exits(0);
    let file = std::fs::read_dir(world.path("home/spending")).expect("a directory").flatten().next();
    let file = file.expect("a file").path();
    let mut text = std::fs::read(&file).expect("a file");
    text.extend(b"{\"day\": \"\xff\xfe\"}\n{\"day\": \n");
    std::fs::write(&file, text).expect("a file");
    world.bowline(&["config", "set", "budget.day.tokens", "1000000"]).end().exits(0);
    world.bowline(&["config", "set", "budget.project.tokens", "1000000"]).end().exits(0);
    let ended = world.claude(&answering()).end().exits(0);
    assert_eq!(ended.stdout, "hello\n");
    assert_eq!(
        ended.stderr.matches("does not count this line").count(),
        2,
        "each is said once: {}",
        ended.stderr
    );
    let shown = file.display();
    ended.tells(&[&format!("warning: {shown}:2: "), &format!("warning: {shown}:3: ")]);
    // What can be read is counted.
    world.bowline(&["config", "set", "budget.day.tokens", "1"]).end().exits(0);
    world.claude(&answering()).end().exits(5).tells(&["error: the budget for today is used up"]);
}

/// Returns the file of the month.
fn month(world: &World) -> std::path::PathBuf {
    let mut files = std::fs::read_dir(world.path("home/spending")).expect("a directory").flatten();
    files.next().expect("a file").path()
}

#[test]
fn a_line_that_was_cut_short_does_not_swallow_the_next_one() {
    let world = World::new();
    world.claude(&answering()).end().exits(0);
    let file = month(&world);
    let first = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, format!("{first}{{\"day\"")).expect("a file");
    world.claude(&answering()).end().exits(0);
    let text = std::fs::read_to_string(&file).expect("a file");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[1]), (3, "{\"day\""), "{text}");
    let last: serde_json::Value = serde_json::from_str(lines[2]).expect("a whole line");
    assert_eq!(last["provider"], "claude", "{text}");
    world.claude(&answering()).end().exits(0);
    assert_eq!(std::fs::read_to_string(&file).expect("a file").lines().count(), 4, "and no line is empty");
}

#[test]
fn a_ledger_that_cannot_be_written_is_told_of() {
    let world = World::new();
    std::fs::create_dir_all(world.path("home")).expect("a directory");
    std::fs::write(world.path("home/spending"), "in the way").expect("a file");
    let ended = world.claude(&answering()).end().exits(0);
    assert_eq!(ended.stderr.matches("could not record the cost of this run").count(), 1, "{}", ended.stderr);
}

#[test]
fn the_price_of_an_entry_counts_whichever_model_answers() {
    let world = World::new();
    let script = format!("cat >/dev/null; cat <<'END'\n{}\nEND\nsleep 60 & wait", calls());
    let agent = world.script("agent", &script);
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    // The model that answers is in the list that ships, with another price.
    let entry =
        format!("{{provider: claude, model: opus, binary: {}, cost_per_1k_tokens: 10}}", agent.display());
    std::fs::write(dir.join("router.yaml"), format!("providers:\n  - {{name: mine, config: {entry}}}\n"))
        .expect("a file");
    let args = ["run", "--provider", "mine", "--max-cost", "20", "Go."];
    let ended = world.bowline(&args).env("ANTHROPIC_API_KEY", "made-up").end().exits(5);
    ended.tells(&["the budget of $20.00 for this request is used up: $30.00 so far"]);
    assert_eq!(lines(&world)[0]["cost_usd"], 30.0);
}
