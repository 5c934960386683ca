//! Questions of an agent over ACP: it asks only where the client announces that a person can answer.

use super::session::LiveWorld;

/// An agent that asks for a colour, if its client takes forms, and prints the response. Like claude-agent-acp 0.99.1.
const AGENT: &str = r#"
say() { echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sh-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}}}'; }
over() { echo '{"jsonrpc":"2.0","id":'"$prompt"',"result":{"stopReason":"end_turn"}}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      case "$line" in *'"elicitation":{"form":{}}'*) forms=yes ;; esac
      echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1}}' ;;
    *'"method":"session/new"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"sh-1"}}' ;;
    *'"method":"session/prompt"'*)
      prompt=$id
      if [ -z "$forms" ]; then say "no form"; over; continue; fi
      echo '{"jsonrpc":"2.0","id":900,"method":"elicitation/create","params":{"mode":"form","sessionId":"sh-1","message":"Which colour?","requestedSchema":{"type":"object","properties":{"question_0":{"type":"string","oneOf":[{"const":"Red","title":"Red"},{"const":"Blue","title":"Blue"}]},"question_0_custom":{"type":"string","title":"Other"}}}}}' ;;
    *'"id":900'*) case "$line" in *'"question_0":"Blue"'*) say blue ;; *) say declined ;; esac; over ;;
  esac
done
"#;

#[test]
fn an_agent_asks_over_acp_where_a_person_can_answer() {
    let live = LiveWorld::new();
    let agent = live.world().script("agent.sh", AGENT);
    let provider = format!("acp:{}", agent.display());
    // Without a terminal no person can answer, and the agent is told so.
    let ended = live.end(&["run", "--provider", &provider, "Go."]).exits(0);
    assert_eq!(ended.stdout.trim(), "no form");

    let mark = format!("MARK={}", live.world().mark());
    let started = live.end(&["start", "--json", "-p", &provider, "--env", &mark, "Go."]).exits(0);
    let session = live.session(&started.json());
    let status = session.is("waiting_for_input");
    let question = &status["questions"][0];
    assert_eq!(question["text"], "Which colour?", "{status}");
    assert_eq!(question["choices"], serde_json::json!(["Red", "Blue"]), "{status}");
    session.done("answer", &["Blue"]);
    session.has_played(1);
    assert_eq!(session.stop().text(), "blue");
}
