//! `bowline provide`: an agent as an executable provider.

use serde_json::{Value, json};

use crate::route::{answering, routed};
use crate::world::{Call, Ended, World};

fn provide<'a>(world: &'a World, word: &str, request: &Value) -> Call<'a> {
    world.bowline(&["provide", "practice", word]).env("PRACTICE_PACE", "0").input(request.to_string())
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn an_agent_answers_in_one_piece_and_in_chunks() {
    let world = World::new();
    let request = json!({"prompt": "practice: say 'one two three'"});
    let answer = lines(&provide(&world, "generate", &request).end().exits(0)).remove(0);
    assert_eq!((&answer["provider"], &answer["error"]), (&json!("practice"), &json!("")), "{answer}");
    assert_eq!(answer["finish_reason"], "stop");
    let content = answer["content"].as_str().expect("a text").to_owned();
    assert!(!content.is_empty());
    let chunks = lines(&provide(&world, "stream", &request).end().exits(0));
    let last = chunks.last().expect("a last chunk");
    assert_eq!((&last["done"], &last["error"]), (&json!(true), &json!("")));
    let said: String = chunks.iter().filter_map(|chunk| chunk["delta"].as_str()).collect();
    assert_eq!(last["content"], said);
}

#[test]
fn what_is_not_passed_on_stands_in_the_metadata() {
    let world = World::new();
    let request = json!({"prompt": "hi", "temperature": 0.7, "max_tokens": 9, "metadata": {"task_id": "a"}, "config": {"custom_option": 1, "model": "default"}});
    let answer = lines(&provide(&world, "generate", &request).end().exits(0)).remove(0);
    let notices = answer["metadata"]["notices"].to_string();
    for part in [
        "`temperature` is not passed on",
        "`max_tokens` is not passed on",
        "`metadata` is not passed on",
        "`config.custom_option` is not passed on",
    ] {
        assert!(notices.contains(part), "{part}: {answer}");
    }
    let chunks = lines(&provide(&world, "stream", &request).end().exits(0));
    assert!(chunks.last().expect("a chunk")["metadata"]["notices"].to_string().contains("`temperature`"));
}

#[test]
fn the_conversation_reaches_the_agent_as_text() {
    let world = World::new();
    let agent = world.script("agent", "cat >\"$0.prompt\"; echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\",\"session_id\":\"b\"}'");
    let request = json!({
        "prompt": "now", "system_prompt": "Be brief.",
        "context": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    });
    let args = ["provide", "claude", "generate", "--binary", agent.to_str().expect("UTF-8")];
    let ended = world.bowline(&args).input(request.to_string()).end().exits(0);
    assert_eq!(lines(&ended)[0]["content"], "done");
    let prompt = std::fs::read_to_string(format!("{}.prompt", agent.display())).expect("a prompt");
    assert_eq!(prompt, "Be brief.\n\nUser: a\nAssistant: b\nUser: now");
}

#[test]
fn an_executable_provider_gets_messages_as_they_are() {
    let world = World::new();
    let dir = world.path("work/.config/bowline/providers");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(
        dir.join("m.toml"),
        "kind = \"executable\"\nname = \"mine\"\npath = \"./m.sh\"\nstreams = false\n",
    )
    .expect("a file");
    let script = "[ \"$1\" = generate ] || { echo fine; exit; }\ncat >\"$0.request\"; echo '{\"content\":\"done\",\"tokens_used\":1,\"model\":\"m\",\"latency\":1,\"finish_reason\":\"stop\",\"provider\":\"p\"}'";
    let path = world.script("work/.config/bowline/providers/m.sh", script);
    let request = json!({"prompt": "now", "system_prompt": "Be brief.", "temperature": 0.5, "context": [{"role": "user", "content": "a"}], "config": {"x": 1}, "metadata": {"task_id": "abc123"}});
    for word in ["generate", "stream"] {
        let ended = world.bowline(&["provide", "mine", word]).input(request.to_string()).end().exits(0);
        assert_eq!(lines(&ended).last().expect("an answer")["content"], "done");
        let sent = std::fs::read(format!("{}.request", path.display())).expect("a request");
        assert_eq!(serde_json::from_slice::<Value>(&sent).expect("JSON"), request);
    }
    let ended = world.bowline(&["provide", "mine", "health"]).end().exits(0);
    assert_eq!(ended.stdout, "mine is healthy: fine\n");
    // What it does not claim to have is not held against it.
    let ended = world.bowline(&["certify", "mine", "--only", "generate", "--only", "streams"]).end().exits(0);
    assert!(ended.stdout.contains("1 green, 0 red, 1 not claimed"), "{}", ended.stdout);
}

#[test]
fn what_goes_wrong_has_an_exit_code_and_a_reason() {
    let world = World::new();
    let ended = world.bowline(&["provide", "practice", "generate"]).input("{").end().exits(2);
    assert!(ended.stderr.contains("the request on standard input cannot be read"), "{}", ended.stderr);
    let ended = provide(&world, "generate", &json!({"prompt": ""})).end().exits(2);
    assert!(ended.stderr.contains("the prompt is empty"), "{}", ended.stderr);
    let tools = json!({"prompt": "hi", "tools": [{"name": "add"}]});
    let ended = provide(&world, "generate", &tools).end().exits(2);
    assert!(ended.stderr.contains("cannot call a tool that is only declared"), "{}", ended.stderr);
    let ended = provide(&world, "stream", &json!({"prompt": "practice: exit 3"})).end();
    assert_ne!(ended.status.code(), Some(0), "{ended:?}");
    assert!(!ended.stderr.is_empty());
    assert!(lines(&ended).last().expect("a chunk")["error"].as_str().is_some_and(|error| !error.is_empty()));
    world.bowline(&["provide", "practice", "dance"]).end().exits(2);
    world.bowline(&["provide", "claude", "health"]).end().exits(4);
    let ended = world.bowline(&["provide", "practice", "health"]).end().exits(0);
    assert!(ended.stdout.starts_with("OK: Practice agent "), "{}", ended.stdout);
}

#[test]
fn a_wrapper_keeps_the_contract_of_executable_providers() {
    let world = World::new();
    let wrapper = world.script(
        "wrapper",
        &format!("PRACTICE_PACE=0 exec {} provide practice \"$@\"", env!("CARGO_BIN_EXE_bowline")),
    );
    let ended = world.bowline(&["certify", "--json", "--executable", wrapper.to_str().expect("UTF-8")]).end();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let cells = report["cells"].as_array().expect("cells");
    // It is a command of ours, and has no version of its own to say.
    let good =
        |cell: &&Value| cell["status"] == if cell["case"] == "version" { "not_claimed" } else { "green" };
    let red: Vec<&Value> = cells.iter().filter(|cell| !good(cell)).collect();
    assert!(red.is_empty() && cells.len() >= 15, "{red:#?}");
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn budgets_count_as_they_do_for_a_run() {
    let world = routed(&[("mine", answering())], "");
    let provide = |word: &str| world.bowline(&["provide", "mine", word]).input(r#"{"prompt": "hi"}"#).end();
    provide("generate").exits(0);
    let dir = world.path("work/.config/bowline");
    std::fs::write(dir.join("bowline.toml"), "[budget.day]\ntokens = 1\n").expect("a file");
    for word in ["generate", "stream"] {
        let ended = provide(word).exits(5);
        ended.tells(&["error: the budget for today is used up"]);
    }
    std::fs::write(dir.join("bowline.toml"), "[budget.project]\ntokens = 1\n").expect("a file");
    let ended = provide("generate").exits(5);
    ended.tells(&["error: the budget for this project is used up"]);
}

#[test]
fn an_entry_of_the_routers_file_comes_with_all_that_it_says() {
    let world = routed(&[("mine", answering())], "");
    let path = world.path("work/.config/bowline/router.yaml");
    let text = std::fs::read_to_string(&path).expect("the file");
    let say = |more: &str| {
        let text = text.replace("config: {", &format!("config: {{{more}, "));
        std::fs::write(&path, text).expect("a file");
        world.bowline(&["provide", "mine", "generate"]).input(r#"{"prompt": "hi"}"#).end()
    };
    world.script(
        "mine",
        &format!("cat >/dev/null\n{}", answering().replace("'END'", "END").replace("hello", "$WORD")),
    );
    let ended = say("env: {WORD: ahoy}").exits(0);
    assert_eq!(lines(&ended)[0]["content"], "ahoy", "{ended:?}");
    world.script("mine", "sleep 60 & wait");
    say("timeout: 300ms").exits(124);
    world.nobody_is_left();
}
