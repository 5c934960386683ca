//! The best form of a program is taken by itself, and the next one with a word about it where it cannot be had.

use rustix::process::Signal;

use crate::world::{Running, World, wait_until};

/// A program with two forms: a server that asks before it acts, and a plain one that never does.
const AGENT: &str = r#"
printf '%s\n' "$*" >>started.txt
case "$1" in exec)
  cat >/dev/null
  echo '{"type":"thread.started","thread_id":"01a1de29-5a33-76d0-b631-9144e1a08a40"}'
  echo '{"type":"turn.started"}'
  echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"A plain knot."}}'
  echo '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":0,"output_tokens":2}}'
  exit 0 ;;
esac
say() { printf '%s\n' "$1"; }
ended() { say '{"method":"turn/completed","params":{"threadId":"t-1","turn":{"id":"u-1","status":"'"$1"'","items":[],"error":null}}}'; }
while read -r line; do
  printf '%s\n' "$line" >>heard.jsonl
  case "$line" in
    *'"method":"initialize"'*) say '{"id":1,"result":{"userAgent":"sh"}}' ;;
    *'"method":"thread/start"'*)
      say '{"id":2,"result":{"thread":{"id":"t-1","cliVersion":"0.166.0"},"model":"m","approvalPolicy":"untrusted","sandbox":{"type":"readOnly"}}}' ;;
    *'"method":"turn/start"'*)
      say '{"id":3,"result":{"turn":{"id":"u-1","status":"inProgress"}}}'
      say '{"method":"turn/started","params":{"threadId":"t-1","turn":{"id":"u-1"}}}'
      say '{"method":"item/agentMessage/delta","params":{"threadId":"t-1","itemId":"m-1","delta":"Half a"}}'
      case "$line" in *wait*) continue ;; esac
      say '{"method":"item/started","params":{"threadId":"t-1","item":{"type":"commandExecution","id":"c-1","command":"touch made.txt","status":"inProgress"}}}'
      say '{"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"t-1","itemId":"c-1","command":"touch made.txt"}}' ;;
    *'"method":"turn/interrupt"'*) say '{"id":4,"result":{}}'; ended interrupted ;;
    *'"decision":"decline"'*)
      say '{"method":"item/completed","params":{"threadId":"t-1","item":{"type":"commandExecution","id":"c-1","command":"touch made.txt","status":"declined"}}}'
      say '{"method":"item/completed","params":{"threadId":"t-1","item":{"type":"agentMessage","id":"m-1","text":"Half a knot."}}}'
      ended completed ;;
    *'"decision":"accept"'*) touch made.txt; ended completed ;;
  esac
done
"#;

/// Runs the program with these options.
fn run<'a>(world: &'a World, options: &[&str]) -> Running<'a> {
    let agent = world.script("work/agent.sh", AGENT);
    let agent = agent.display().to_string();
    let mut args = vec!["run", "--provider", "codex", "--binary", &agent];
    args.extend(options);
    world.bowline(&args).start()
}

fn heard(world: &World) -> String {
    std::fs::read_to_string(world.path("work/heard.jsonl")).unwrap_or_default()
}

#[test]
fn where_something_may_be_asked_it_is_asked_and_the_refusal_is_told() {
    let world = World::new();
    let ended = run(&world, &["Tie it."]).end().exits(0);
    assert_eq!(ended.stdout.trim(), "Half a knot.");
    let refused = "refused: command_execution touch made.txt; --permission edit would allow it in a sandbox, --permission yolo without one";
    assert!(ended.stderr.contains(refused), "{}", ended.stderr);
    assert!(!world.path("work/made.txt").exists(), "nobody could be asked");
    assert!(world.has_line(&["process_spawned", "json_rpc"]));
    assert!(world.has_line(&["session_started", r#""approvals":"interactive""#]), "as it is run");
    assert!(heard(&world).contains(r#""text":"Tie it.""#), "{}", heard(&world));
}

#[test]
fn where_it_cannot_be_had_the_next_form_is_taken_and_told() {
    let world = World::new();
    let ended = run(&world, &["--isolate", "Tie it."]).end().exits(0);
    assert_eq!(ended.stdout.trim(), "A plain knot.");
    assert!(world.has_line(&["capability_degraded", "approvals", "`isolate`: "]));
    assert!(world.has_line(&["session_started", r#""approvals":"rules""#]), "as it is run");
    assert_eq!(heard(&world), "", "the server was not started");
    let started = std::fs::read_to_string(world.path("work/started.txt")).expect("it was started");
    assert!(started.starts_with("exec --json "), "{started}");
}

/// An older program, or one whose server speaks otherwise by now: nothing was asked yet, so that nothing is done twice.
#[test]
fn a_server_that_does_not_know_our_words_is_done_without() {
    let unknown = r#"say '{"id":2,"error":{"code":-32600,"message":"Invalid request: unknown variant `thread/start`"}}'"#;
    let none = r#"say '{"id":2,"error":{"code":-32601,"message":"Method not found"}}'"#;
    for (refusal, why) in [
        (format!("*thread/start*) {unknown}"), "unknown variant"),
        (format!("*thread/start*) {none}"), "Method not found"),
        (
            "*initialize*) echo \"error: unexpected argument 'app-server' found\" >&2; exit 2".to_owned(),
            "unexpected argument",
        ),
    ] {
        let world = World::new();
        let agent =
            AGENT.replace("  case \"$line\" in\n", &format!("  case \"$line\" in\n    {refusal};;\n"));
        let agent = world.script("work/older.sh", &agent).display().to_string();
        let args = ["run", "--provider", "codex", "--binary", &agent, "Tie it."];
        let ended = world.bowline(&args).start().end().exits(0);
        assert_eq!(ended.stdout.trim(), "A plain knot.");
        assert!(
            world.has_line(&["fallback_taken"]) && world.has_line(&["capability_degraded", "approvals", why])
        );
    }
}

#[test]
fn it_is_stopped_in_its_own_words_and_keeps_what_it_said() {
    let world = World::new();
    let run = run(&world, &["Tie it, and wait."]);
    wait_until("half a knot", || world.has_line(&["text_delta", "Half a"]));
    run.signal(Signal::INT);
    let ended = run.end().exits(130);
    assert!(ended.stdout.contains("Half a"), "{}", ended.stdout);
    assert!(heard(&world).contains(r#""method":"turn/interrupt""#), "{}", heard(&world));
}

#[test]
fn a_dry_run_shows_which_form_it_would_be() {
    let world = World::new();
    let ended = run(&world, &["--dry-run", "Tie it."]).end().exits(0);
    assert!(ended.stdout.contains(" app-server"), "{}", ended.stdout);
    let ended = run(&world, &["--dry-run", "--isolate", "Tie it."]).end().exits(0);
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(all.contains(" exec ") && all.contains("without approvals: it never asks"), "{all}");
    let ended = run(&world, &["--dry-run", "--permission", "edit", "Tie it."]).end().exits(0);
    assert!(!ended.stdout.contains("without approvals"), "nothing is missed: {}", ended.stdout);
}
