//! Agents that speak the Agent Client Protocol, without any manifest: `--provider acp:<command>`.

use rustix::process::Signal;

use crate::world::{World, wait_until};

/// An agent that answers by numbers: 1 is the introduction, 2 the session, 3 the prompt.
const AGENT: &str = r#"
while read -r line; do
  printf '%s\n' "$line" >>heard.jsonl
  case "$line" in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"sh","version":"7.1"}}}' ;;
    *'"method":"session/new"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"sh-1"}}' ;;
    *'"method":"session/cancel"'*) echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}' ;;
    *'"method":"session/prompt"'*)
      echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sh-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Half a"}}}}'
      case "$line" in *wait*) continue ;; esac
      echo '{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"sh-1","toolCall":{"toolCallId":"t1","title":"touch made.txt","kind":"execute"},"options":[{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Reject","kind":"reject_once"}]}}' ;;
    *'"optionId":"yes"'*) touch made.txt; echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}' ;;
    *'"optionId":"no"'*)
      echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sh-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" knot."}}}}'
      echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}' ;;
  esac
done
"#;

#[test]
fn any_agent_is_run_by_its_command() {
    let world = World::new();
    let agent = world.script("work/agent.sh", AGENT);
    let provider = format!("acp:{} --flag", agent.display());
    let ended = world.run(&provider, "Tie it.").end().exits(0);
    assert_eq!(ended.stdout.trim(), "Half a\n knot.");
    assert!(ended.stderr.contains("touch made.txt"), "what was refused is named: {}", ended.stderr);
    assert!(ended.stderr.contains("--permission yolo would allow it"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("--allow-tool"), "it cannot be allowed by name: {}", ended.stderr);
    assert!(!world.path("work/made.txt").exists(), "nobody could be asked");
    let heard = std::fs::read_to_string(world.path("work/heard.jsonl")).expect("it heard something");
    assert!(heard.contains(r#""text":"Tie it.""#), "{heard}");

    let args = ["run", "--provider", &provider, "--permission", "yolo", "--output", "json", "Tie it."];
    let ended = world.bowline(&args).end().exits(0);
    let answer: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((&answer["text"], &answer["native_session"]), (&"Half a".into(), &"sh-1".into()), "{answer}");
    assert!(world.path("work/made.txt").exists(), "it was allowed");
}

#[test]
fn an_agent_gets_a_decision_that_is_already_in_the_journal() {
    let world = World::new();
    let journals = world.path("home/sessions").display().to_string();
    let copies =
        format!("case \"$line\" in *optionId*) cat {journals}/*/events.jsonl >>seen.jsonl ;; esac\n  case");
    let script = AGENT.replacen("case", &copies, 1);
    let agent = world.script("work/agent.sh", &script);
    let provider = format!("acp:{}", agent.display());
    for (permission, decision) in [("ask", "deny"), ("yolo", "allow")] {
        let args = ["run", "--provider", &provider, "--permission", permission, "Tie it."];
        world.bowline(&args).end().exits(0);
        let seen = std::fs::read_to_string(world.path("work/seen.jsonl")).expect("the agent copied it");
        let decided: Vec<_> = seen.lines().filter(|line| line.contains("\"approval_decided\"")).collect();
        let expected =
            format!(r#""decision":"{decision}","by":"policy","rule":"permission_mode:{permission}""#);
        assert!(decided.iter().any(|line| line.contains(&expected)), "{expected} in {decided:?}");
    }
    assert!(world.path("work/made.txt").exists(), "it was allowed");
}

#[test]
fn it_is_stopped_in_its_own_words_and_keeps_what_it_said() {
    let world = World::new();
    let agent = world.script("work/agent.sh", AGENT);
    let provider = format!("acp:{}", agent.display());
    let run = world.run(&provider, "Tie it, and wait.").start();
    wait_until("half a knot", || world.has_line(&["text_delta", "Half a"]));
    run.signal(Signal::INT);
    let ended = run.end().exits(130);
    assert!(ended.stdout.contains("Half a"), "{}", ended.stdout);
    let heard = std::fs::read_to_string(world.path("work/heard.jsonl")).expect("it heard something");
    assert!(heard.contains("session/cancel"), "{heard}");
}

#[test]
fn what_it_cannot_do_is_said() {
    let world = World::new();
    let agent = world.script("work/agent.sh", AGENT);
    let provider = format!("acp:{}", agent.display());
    let ended = world.bowline(&["run", "--provider", &provider, "--model", "big", "Tie it."]).end().exits(1);
    assert!(ended.stderr.contains("the agent has no setting for the model"), "{}", ended.stderr);
    let ended = world.bowline(&["run", "--provider", "acp: ", "Tie it."]).end().exits(2);
    assert!(ended.stderr.contains("acp:"), "{}", ended.stderr);
    let ended = world.bowline(&["run", "--provider", "acp:no-such-agent", "Tie it."]).end().exits(4);
    assert!(ended.stderr.contains("no-such-agent"), "{}", ended.stderr);
}

#[test]
fn an_agent_that_asks_and_does_not_read_costs_no_memory_without_end() {
    let world = World::new();
    // It asks for ever, each time with an id that has to be repeated in the answer.
    let asks = r#"
id=$(head -c 100000 /dev/zero | tr '\0' x)
while :; do printf '{"jsonrpc":"2.0","id":"%s","method":"no/such/method","params":{}}\n' "$id"; done"#;
    let agent = world.script("work/agent.sh", asks);
    let provider = format!("acp:{}", agent.display());
    let ended = world.run(&provider, "Tie it.").end().exits(1);
    assert!(ended.stderr.contains("does not read its standard input"), "{}", ended.stderr);
}

#[test]
fn a_session_that_still_runs_is_not_resumed() {
    let world = World::new();
    let agent = world.script("work/agent.sh", AGENT);
    let provider = format!("acp:{}", agent.display());
    let run = world.run(&provider, "Tie it, and wait.").start();
    wait_until("half a knot", || world.has_line(&["text_delta", "Half a"]));
    let dir = world.journals_begun().pop().expect("a session");
    let session = dir.file_name().expect("a name").display().to_string();
    let second = world.bowline(&["run", "--resume", &session, "Go on."]).start().end_among_others().exits(2);
    assert!(second.stderr.contains("is still running"), "{}", second.stderr);
    run.signal(Signal::INT);
    run.end().exits(130);
}

/// An agent that asks to edit the file that its prompt names, and edits it if that is allowed.
const EDITOR: &str = r#"
while read -r line; do
  case "$line" in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}' ;;
    *'"method":"session/new"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"sh-1"}}' ;;
    *'"method":"session/prompt"'*)
      file="$PWD/$(printf '%s' "$line" | sed 's/.*edit <\([^>]*\)>.*/\1/')"
      echo '{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"sh-1","toolCall":{"toolCallId":"t1","title":"Edit","kind":"edit","locations":[{"path":"'"$file"'"}]},"options":[{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Reject","kind":"reject_once"}]}}' ;;
    *'"optionId":"yes"'*) echo edited >"$file"; echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}' ;;
    *'"optionId":"no"'*) echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}' ;;
  esac
done
"#;

#[test]
fn an_edit_through_a_link_out_of_the_project_is_refused() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    let agent = world.script("work/agent.sh", EDITOR);
    let provider = format!("acp:{}", agent.display());
    std::fs::create_dir_all(world.path("outside")).expect("created");
    std::fs::create_dir_all(world.path("work/sub")).expect("created");
    symlink("../outside", world.path("work/out")).expect("linked");
    symlink("../outside/new.txt", world.path("work/dangling.txt")).expect("linked");
    symlink("sub", world.path("work/inner")).expect("linked");
    let run = |file: &str| {
        let prompt = format!("edit <{file}>");
        let args = ["run", "--provider", &provider, "--permission", "edit", "--output", "jsonl", &prompt];
        world.bowline(&args).end()
    };
    // The second file does not exist before the edit; the link to it does.
    for (file, outside) in [("out/a.txt", "outside/a.txt"), ("dangling.txt", "outside/new.txt")] {
        let ended = run(file);
        assert!(
            ended.stdout.contains("a symbolic link leads to a file outside of the project"),
            "{}",
            ended.stdout
        );
        assert!(!world.path(outside).exists(), "{file}");
    }
    for (file, real) in [("plain.txt", "work/plain.txt"), ("inner/b.txt", "work/sub/b.txt")] {
        run(file).exits(0);
        assert!(world.path(real).exists(), "{file}");
    }
}

/// An agent that reads and writes the files of its prompt through its host, and reports the responses.
const ASKS_FOR_FILES: &str = r#"
while read -r line; do
  printf '%s\n' "$line" >>heard.jsonl
  case "$line" in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}' ;;
    *'"method":"session/new"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"sh-1"}}' ;;
    *'"method":"session/prompt"'*)
      echo '{"jsonrpc":"2.0","id":10,"method":"fs/read_text_file","params":{"sessionId":"sh-1","path":"'"$PWD"'/in.txt"}}'
      echo '{"jsonrpc":"2.0","id":11,"method":"fs/read_text_file","params":{"sessionId":"sh-1","path":"'"$PWD"'/out/secret"}}'
      echo '{"jsonrpc":"2.0","id":12,"method":"fs/write_text_file","params":{"sessionId":"sh-1","path":"'"$PWD"'/new/made.txt","content":"made"}}' ;;
    *'"id":12'*) sleep 0.2; echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}' ;;
  esac
done
"#;

#[test]
fn an_agent_gets_files_of_its_workspace_and_no_others() {
    let world = World::new();
    let agent = world.script("work/agent.sh", ASKS_FOR_FILES);
    world.acp_provider("files", &agent, "host_files = \"offered\"");
    std::fs::create_dir_all(world.path("outside")).expect("created");
    std::fs::write(world.path("outside/secret"), "hunter2").expect("written");
    std::fs::write(world.path("work/in.txt"), "from the workspace").expect("written");
    std::os::unix::fs::symlink("../outside", world.path("work/out")).expect("linked");
    for (permission, writes) in [("read", false), ("ask", false), ("edit", true)] {
        let args = ["run", "--provider", "files", "--permission", permission, "--output", "jsonl", "Go."];
        let ended = world.bowline(&args).end().exits(0);
        let heard = std::fs::read_to_string(world.path("work/heard.jsonl")).expect("it heard something");
        assert!(heard.contains(r#""content":"from the workspace""#), "{heard}");
        assert!(heard.contains("it is outside of the workspace") && !heard.contains("hunter2"), "{heard}");
        assert_eq!(world.path("work/new/made.txt").exists(), writes, "{permission}: {}", ended.stdout);
        assert!(ended.stdout.contains("approval_asked"), "{}", ended.stdout);
    }
}
