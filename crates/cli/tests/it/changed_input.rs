//! A person allows a tool with another input, and the tool runs with that: at the terminal of a run, and with `approve --input`.

use crate::live::LiveWorld;
use crate::pty::{Terminal, Typist};
use crate::world::World;

/// An agent that speaks the two-way protocol of Claude Code, the only one whose approvals carry a changed input. It asks for a command,
/// and runs the one that the answer has.
const AGENT: &str = r#"
result() {
  echo '{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"'"$1"'","is_error":'$2'}]},"parent_tool_use_id":null,"session_id":"sh-1"}'
  echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"sh-1","total_cost_usd":0,"usage":{"input_tokens":1,"output_tokens":1}}'
}
while read -r line; do
  case "$line" in
    *'"subtype":"initialize"'*)
      id=$(printf '%s' "$line" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
      echo '{"type":"control_response","response":{"subtype":"success","request_id":"'$id'","response":{"commands":[]}}}' ;;
    *'"type":"user"'*)
      echo '{"type":"system","subtype":"init","cwd":"/","session_id":"sh-1","tools":["Bash"],"mcp_servers":[],"model":"m","permissionMode":"default"}'
      echo '{"type":"assistant","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"touch first.txt","description":"make a file"}}],"usage":{"input_tokens":1,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"sh-1"}'
      echo '{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"touch first.txt","description":"make a file"},"tool_use_id":"t1"}}' ;;
    *'"behavior":"allow"'*)
      printf '%s\n' "$line" >>answers
      sh -c "$(printf '%s' "$line" | sed 's/.*"updatedInput":{[^}]*"command":"\([^"]*\)".*/\1/')"
      result done false ;;
    *'"behavior":"deny"'*) result denied true ;;
  esac
done
"#;

#[test]
fn a_command_that_is_edited_at_the_terminal_runs_as_edited() {
    let world = World::new();
    let agent = world.script("work/agent.sh", AGENT).display().to_string();
    let call = world.run("claude", "Go.").with(&["--binary", &agent]);
    let mut terminal = Terminal::start(&call, r#""$0" "$@""#, 100, Typist::Present);
    terminal.answers("[e] edit", "e");
    // The line begins with the command; `.txt` goes, and another ending comes.
    terminal.answers("command: touch first.txt", "\u{7f}\u{7f}\u{7f}md\n");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    assert!(world.path("work/first.md").exists(), "{:#?}", shown.rows);
    assert!(!world.path("work/first.txt").exists());
    let decided = world.journal().of("approval_decided")[0]["kind"].clone();
    assert_eq!((&decided["decision"], &decided["by"]), (&"allow".into(), &"human".into()));
    assert_eq!(decided["changed_input"]["command"], "touch first.md", "{decided}");
}

#[test]
fn the_input_of_a_file_is_that_of_the_tool() {
    let live = LiveWorld::new();
    let agent = live.world().script("work/agent.sh", AGENT).display().to_string();
    let mark = format!("MARK={}", live.world().mark());
    let start =
        ["start", "-p", "claude", "--binary", &agent, "--name", "fix", "--json", "--env", &mark, "Go."];
    let session = live.session(&live.end(&start).exits(0).json());
    let asked = session.asks();
    let id = asked["id"].as_str().expect("an id");
    std::fs::write(live.path("work/input.json"), r#"{"command":"touch second.txt","description":"another"}"#)
        .expect("written");
    let shown = session.order("approve", &[id, "--input", "input.json"]).exits(0).stdout;
    assert!(shown.contains("allowed with your change") && shown.contains("touch second.txt"), "{shown}");
    session.has_played(1);
    assert!(live.path("work/second.txt").exists() && !live.path("work/first.txt").exists());
    let decided = session.of("approval_decided")[0].clone();
    assert_eq!(decided["changed_input"]["command"], "touch second.txt", "{decided}");
    session.stop();
}
