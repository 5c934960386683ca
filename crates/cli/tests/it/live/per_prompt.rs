//! A live session whose agent can be resumed by a process for each prompt only: Gemini CLI, played by a script.

use super::session::{LiveWorld, Session, kill};

/// Over ACP it answers `one`; with `--resume` it names the session that it resumes and its prompt.
const GEMINI: &str = r#"
case " $* " in
*" --acp "*)
  while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
      *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}' ;;
      *'"method":"session/new"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"9f7f6216-33c5-4e6e-956a-fd5a42f73b74"}}' ;;
      *'"method":"session/prompt"'*)
        echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"9f7f6216-33c5-4e6e-956a-fd5a42f73b74","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"one"}}}}'
        echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"stopReason":"end_turn"}}' ;;
      *'"method"'*'"id"'*|*'"id"'*'"method"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
    esac
  done ;;
*)
  while [ $# -gt 0 ]; do [ "$1" = --resume ] && session=$2; shift; done
  prompt=$(cat)
  echo '{"type":"init","session_id":"'"$session"'","model":"auto"}'
  echo '{"type":"message","role":"assistant","content":", '"$prompt"' in '"$session"'","delta":true}'
  echo '{"type":"result","status":"success","stats":{"total_tokens":2,"input_tokens":1,"output_tokens":1}}' ;;
esac
"#;

#[test]
fn a_session_that_only_a_process_for_each_prompt_resumes_goes_on_with_one() {
    let live = LiveWorld::new();
    let program = live.world().script("gemini", GEMINI);
    let mark = format!("MARK={}", live.world().mark());
    let start = |more: &[&str]| -> Session<'_> {
        let binary = program.to_str().expect("UTF-8");
        let fixed = ["start", "--json", "-p", "gemini", "--binary", binary, "--env", &mark];
        // The key is for the check that the agent is logged in.
        let args = [&fixed, &["--env", "GEMINI_API_KEY=made-up", "--idle", "1s"][..], more].concat();
        live.session(&live.end(&args).exits(0).json())
    };
    let session = start(&["Say one."]);
    // Its process outlives the idle time: a further one could not ask for approvals.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(session.has_played(1)["has_process"], true);
    kill(session.agents()[0]);
    session.until("the end of the process", |status| status["has_process"] == false);
    session.done("send", &["two"]);
    session.has_played(2);
    session.done("send", &["three"]);
    session.has_played(3);
    let native = "9f7f6216-33c5-4e6e-956a-fd5a42f73b74";
    assert_eq!(session.text(), format!("one, two in {native}, three in {native}"));
    // It is reported once, and not with each prompt.
    let lost = session.of("capability_degraded");
    let [loss] = lost.as_slice() else { panic!("{lost:?}") };
    assert_eq!(loss["capability"], "approvals", "{loss}");
    assert!(loss["reason"].as_str().is_some_and(|why| why.contains("session/load")), "{loss}");
    let id = session.id.clone();
    session.stop();

    let session = start(&["--resume", &id]);
    session.done("send", &["four"]);
    session.has_played(4);
    assert_eq!(session.of("capability_degraded").len(), 2);
    let journal = session.stop();
    assert!(journal.text().ends_with(&format!(", four in {native}")), "{}", journal.text());
    assert_eq!(journal.count("process_spawned"), 4);
}

#[test]
fn a_format_that_cannot_resume_is_refused_with_its_reason() {
    let live = LiveWorld::new();
    let program = live.world().script("gemini", GEMINI);
    let args = ["run", "-p", "gemini", "--format", "acp", "--binary", program.to_str().expect("UTF-8")];
    let more = ["--env", "GEMINI_API_KEY=made-up", "--resume", "9f7f6216-33c5-4e6e-956a-fd5a42f73b74", "Go."];
    let ended = live.end(&[&args[..], &more].concat()).exits(2);
    assert!(ended.stderr.contains("over ACP it can lose the session that it loads"), "{}", ended.stderr);
}
