//! `bowline run` on a terminal asks the person there.

use std::time::Duration;

use crate::pty::{Shown, Terminal, Typist, shown};
use crate::world::{Call, World, wait_until};

/// The command alone, without a pipe.
const ALONE: &str = r#""$0" "$@""#;

/// The command with a terminal of its own, so that Ctrl-C is a signal.
const IN_CONTROL: &str = r#"exec setsid --ctty --wait "$0" "$@""#;

/// An agent that answers by numbers: 1 is the introduction, 2 the session, 3 the prompt. It asks for two commands, the second one at
/// the end of the first or, for the prompt `both`, at once. An answer that allows makes a file.
const AGENT: &str = r#"
ask() {
  echo '{"jsonrpc":"2.0","id":'$1',"method":"session/request_permission","params":{"sessionId":"sh-1","toolCall":{"toolCallId":"t'$1'","title":"touch '$2'","kind":"execute","rawInput":{"command":"touch '$2'"}},"options":[{"optionId":"yes'$1'","name":"Allow","kind":"allow_once"},{"optionId":"always'$1'","name":"Always","kind":"allow_always"},{"optionId":"no'$1'","name":"Reject","kind":"reject_once"}]}}'
}
say() {
  echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sh-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}}}'
}
answered() {
  say " $1."
  left=$((left - 1))
  if [ $left = 0 ]; then echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
  elif [ -z "$both" ]; then ask 11 second.txt; fi
}
left=2
while read -r line; do
  printf '%s\n' "$line" >>heard.jsonl
  case "$line" in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"sh","version":"7.1"}}}' ;;
    *'"method":"session/new"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"sh-1"}}' ;;
    *'"method":"session/cancel"'*) echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}' ;;
    *'"method":"session/prompt"'*)
      say Begun
      case "$line" in
        *both*) both=1; ask 10 first.txt; ask 11 second.txt ;;
        *withdraw*) left=1; ask 10 first.txt; sleep 1; echo '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":10}}'; answered withdrawn ;;
        *) ask 10 first.txt ;;
      esac ;;
    *yes10*|*always10*) touch first.txt; answered one ;;
    *yes11*|*always11*) touch second.txt; answered two ;;
    *no1?*) answered none ;;
  esac
done
"#;

/// The keys that this agent takes at first.
const KEYS: &str = "[y] once [a] session [n] deny [m] message [?] more";

fn call<'a>(world: &'a World, prompt: &str, args: &[&str]) -> Call<'a> {
    let agent = world.script("work/agent.sh", AGENT);
    world.run(&format!("acp:{}", agent.display()), prompt).with(args)
}

fn heard(world: &World) -> String {
    std::fs::read_to_string(world.path("work/heard.jsonl")).expect("the agent heard something")
}

#[track_caller]
fn has(shown: &Shown, row: &str) {
    assert!(shown.rows.iter().any(|it| it.contains(row)), "`{row}` is missing: {:#?}", shown.rows);
}

#[test]
fn a_key_allows_or_denies_a_command() {
    let world = World::new();
    let mut terminal = Terminal::start(&call(&world, "Go.", &[]), ALONE, 100, Typist::Present);
    terminal.answers(KEYS, "y");
    terminal.answers("    touch second.txt", "n");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    has(&shown, "wants to run a command (high risk)");
    has(&shown, "allowed: execute touch first.txt");
    has(&shown, "denied by you: execute touch second.txt");
    assert!(!shown.rows.iter().any(|row| row.contains("--permission")), "no flag: {:#?}", shown.rows);
    assert!(!shown.rows.iter().any(|row| row.contains("[y]")), "no question is left: {:#?}", shown.rows);
    assert!(world.path("work/first.txt").exists() && !world.path("work/second.txt").exists());
    let journal = world.journal();
    let decided = journal.of("approval_decided");
    let decided: Vec<_> =
        decided.iter().map(|event| (&event["kind"]["decision"], &event["kind"]["by"])).collect();
    assert_eq!(decided, [(&"allow".into(), &"human".into()), (&"deny".into(), &"human".into())]);
}

#[test]
fn a_denial_takes_a_message_and_all_keys_are_explained() {
    let world = World::new();
    let mut terminal = Terminal::start(&call(&world, "Go.", &[]), ALONE, 100, Typist::Present);
    // Enter, a pasted text, and an arrow decide nothing.
    terminal.answers(KEYS, "\n");
    terminal.answers(KEYS, "yes");
    terminal.answers(KEYS, "\u{1b}[A");
    terminal.answers(KEYS, "?");
    terminal.answers("After a denial", "m");
    terminal.answers("denied; message to the agent:", "not hera");
    terminal.types("\u{7f}e, please\n");
    terminal.answers("    touch second.txt", "a");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    has(&shown, "n  deny it");
    has(&shown, "denied: execute touch first.txt");
    has(&shown, "allowed for this session: execute touch second.txt");
    assert!(!world.path("work/first.txt").exists() && world.path("work/second.txt").exists());
    assert!(world.has_line(&["reason_not_sent", "not here, please"]), "the message is kept");
    assert!(heard(&world).contains("always11"), "{}", heard(&world));
}

#[test]
fn an_agent_that_takes_no_changed_command_has_no_key_for_it() {
    let world = World::new();
    let mut terminal = Terminal::start(&call(&world, "Go.", &[]), ALONE, 100, Typist::Present);
    terminal.answers(KEYS, "e");
    terminal.answers(KEYS, "?");
    terminal.answers("After a denial", "n");
    terminal.answers("    touch second.txt", "n");
    let shown = terminal.end();
    assert!(!shown.bytes.contains("change the command"), "{:#?}", shown.rows);
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    assert!(!world.path("work/first.txt").exists() && !world.path("work/first.txt2").exists());
}

#[test]
fn two_open_requests_are_asked_one_after_the_other() {
    let world = World::new();
    let mut terminal = Terminal::start(&call(&world, "both", &[]), ALONE, 100, Typist::Present);
    terminal.answers("(1 of 2)", "y");
    terminal.answers("(2 of 2)", "y");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    assert!(world.path("work/first.txt").exists() && world.path("work/second.txt").exists());
}

#[test]
fn a_withdrawn_request_leaves_the_screen() {
    let world = World::new();
    let terminal = Terminal::start(&call(&world, "withdraw", &[]), ALONE, 100, Typist::Present);
    terminal.shows(KEYS);
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    has(&shown, "withdrawn by the agent: execute touch first.txt");
    assert!(!shown.rows.iter().any(|row| row.contains("[y]")), "{:#?}", shown.rows);
}

#[test]
fn a_deadline_is_counted_down_and_denies() {
    let world = World::new();
    let call = call(&world, "Go.", &["--approval-deadline", "2s"]);
    let mut terminal = Terminal::start(&call, ALONE, 100, Typist::Present);
    terminal.shows("(1 s left)");
    terminal.answers("    touch second.txt", "y");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    has(&shown, "denied, because its deadline passed: execute touch first.txt");
    has(&shown, "denied at the deadline: execute touch first.txt");
    assert!(!world.path("work/first.txt").exists() && world.path("work/second.txt").exists());
}

#[test]
fn the_terminal_reads_keys_only_while_a_question_is_open() {
    let world = World::new();
    let slow =
        AGENT.replace("say Begun", "say Begun; sleep 1").replacen("answered() {", "answered() { sleep 1;", 1);
    let agent = world.script("work/slow.sh", &slow);
    let call = world.run(&format!("acp:{}", agent.display()), "Go.");
    let mut terminal = Terminal::start(&call, ALONE, 100, Typist::Present);
    wait_until("the prompt", || {
        world.path("work/heard.jsonl").exists() && heard(&world).contains("session/prompt")
    });
    assert!(terminal.reads_lines(), "no question is open");
    // Typed before the question: it decides nothing.
    terminal.types("y");
    terminal.shows(KEYS);
    terminal.reads_keys();
    std::thread::sleep(Duration::from_millis(500));
    assert!(!world.path("work/first.txt").exists(), "an early key counted");
    terminal.answers(KEYS, "n");
    wait_until("lines again", || terminal.reads_lines());
    terminal.answers("    touch second.txt", "n");
    assert_eq!(terminal.end().code, Some(0));
}

#[test]
fn ctrl_c_at_a_question_cancels_the_run_and_restores_the_terminal() {
    let world = World::new();
    let mut terminal = Terminal::start(&call(&world, "Go.", &[]), IN_CONTROL, 100, Typist::Present);
    terminal.shows(KEYS);
    terminal.reads_keys();
    terminal.types("\u{3}");
    wait_until("lines again", || terminal.reads_lines());
    let shown = terminal.end();
    assert_eq!(shown.code, Some(130), "{:#?}", shown.rows);
    has(&shown, "cancelled");
    assert!(!shown.rows.iter().any(|row| row.contains("--permission")), "no flag: {:#?}", shown.rows);
    assert!(!world.path("work/first.txt").exists());
    assert!(heard(&world).contains("session/cancel"), "{}", heard(&world));
}

#[test]
fn a_terminal_that_goes_away_denies() {
    let world = World::new();
    // Hangups are ignored, so that the run goes on without its terminal.
    let line = r#"trap '' HUP; exec setsid --ctty --wait "$0" "$@""#;
    let terminal = Terminal::start(&call(&world, "Go.", &[]), line, 100, Typist::Present);
    terminal.shows(KEYS);
    terminal.reads_keys();
    terminal.hang_up();
    assert!(world.has_line(&["approval_decided", r#""by":"human""#, r#""decision":"deny""#]), "it is denied");
    assert!(!world.path("work/first.txt").exists());
    world.nobody_is_left();
}

#[test]
fn without_a_person_at_a_terminal_the_mode_decides() {
    for (args, line, typist) in [
        (&["--no-ask"][..], ALONE, Typist::Present),
        (&["-q"], ALONE, Typist::Present),
        (&["--permission", "read"], ALONE, Typist::Present),
        (&[], r#""$0" "$@" | cat"#, Typist::Present),
        (&[], ALONE, Typist::Absent),
        (&[], r#"CI=true "$0" "$@""#, Typist::Present),
        (&[], r#"TERM=dumb "$0" "$@""#, Typist::Present),
    ] {
        let world = World::new();
        let shown = Terminal::start(&call(&world, "Go.", args), line, 100, typist).end();
        assert_eq!(shown.code, Some(0), "{args:?} {line}: {:#?}", shown.rows);
        assert!(shown.rows.join(" ").contains("refused: "), "{args:?} {line}: {:#?}", shown.rows);
        assert!(!shown.bytes.contains("[y]"), "{args:?} {line}: {:#?}", shown.rows);
        assert!(!world.path("work/first.txt").exists());
    }
    let world = World::new();
    let ended = call(&world, "Go.", &[]).end().exits(0);
    assert!(ended.stderr.contains("--permission yolo would allow them"), "{}", ended.stderr);
    // A deadline without a question is an error only if both were asked for.
    call(&world, "Go.", &["--no-ask", "--approval-deadline", "1m"]).end().exits(2);
    let piped = shown(&call(&world, "Go.", &["--approval-deadline", "1m"]), ALONE, 100);
    assert_eq!(piped.code, Some(0), "{:#?}", piped.rows);
}

#[test]
fn options_of_the_program_are_checked_and_kept_also_where_the_agent_could_ask() {
    let world = World::new();
    let settings = world.path("work/.config/bowline/bowline.toml");
    let shown = |args: &[&str]| {
        let call = world.bowline(&[&["run", "--dry-run"], args, &["hi"]].concat());
        let shown = Terminal::start(&call, ALONE, 200, Typist::Present).end();
        (shown.code, shown.rows.join("\n"))
    };
    let (_, usual) = shown(&["-p", "codex"]);
    assert!(usual.contains("app-server"), "{usual}");
    let (_, native) = shown(&["-p", "codex", "--agent-arg=--foo"]);
    assert!(native.contains("codex exec") && native.contains("--foo"), "{native}");
    for provider in ["gemini", "qwen"] {
        let (code, refused) = shown(&["-p", provider, "--format", "acp", "--agent-arg=--approval-mode=yolo"]);
        assert_eq!(code, Some(2), "{refused}");
        assert!(refused.contains("Bowline passes `--approval-mode` itself"), "{refused}");
    }
    let (_, asking) = shown(&["-p", "qwen"]);
    assert!(asking.contains("--acp"), "{asking}");
    std::fs::create_dir_all(settings.parent().expect("a directory")).expect("a directory");
    std::fs::write(&settings, "[providers.qwen]\nformat = \"text\"\n").expect("a file");
    let (_, chosen) = shown(&["-p", "qwen"]);
    assert!(!chosen.contains("--acp"), "{chosen}");
}

#[test]
fn an_agent_that_cannot_ask_says_so_also_on_a_terminal() {
    let world = World::new();
    let program = world.script("pi", "cat >/dev/null\nexit 1").display().to_string();
    let call = world.bowline(&["run", "-p", "pi", "--binary", &program, "hi"]);
    let shown = Terminal::start(&call, ALONE, 120, Typist::Present).end();
    has(&shown, "pi cannot ask for permission, so it only reads; --permission edit lets it change files");
}

/// An agent that asks a question. It says the text that it got.
const QUESTIONER: &str = r#"
while read -r line; do
  case "$line" in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"sh","version":"7.1"}}}' ;;
    *'"method":"session/new"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"sh-1"}}' ;;
    *'"method":"session/prompt"'*) echo '{"jsonrpc":"2.0","id":10,"method":"elicitation/create","params":{"sessionId":"sh-1","mode":"form","message":"Which colour?","requestedSchema":{"type":"object","properties":{"colour":{"type":"string","enum":["red","dark blue"]}},"required":["colour"]}}}' ;;
    *'"id":10'*)
      printf '%s\n' "$line" >>heard.jsonl
      echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sh-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Thanks."}}}}'
      echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}' ;;
  esac
done
"#;

#[test]
fn a_question_is_answered_or_dismissed_at_the_terminal() {
    for (lines, response, remark) in [
        (
            &["3\n", "green\n", "2\n"][..],
            r#"{"action":"accept","content":{"colour":"dark blue"}}"#,
            "dark blue",
        ),
        (&["x\n"], r#"{"action":"decline"}"#, "dismissed"),
    ] {
        let world = World::new();
        let agent = world.script("work/agent.sh", QUESTIONER);
        let call = world.run(&format!("acp:{}", agent.display()), "Go.");
        let mut terminal = Terminal::start(&call, ALONE, 100, Typist::Present);
        terminal.shows("Which colour?");
        for line in lines {
            terminal.answers("answer (x dismisses)", line);
        }
        let shown = terminal.end();
        assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
        has(&shown, "Thanks.");
        assert!(heard(&world).contains(response), "{}", heard(&world));
        let journal = world.journal();
        assert_eq!(journal.of("question_answered").len(), 1, "{remark}: {:#?}", shown.rows);
        if lines.len() > 1 {
            has(&shown, "choose a number from 1 to 2");
            has(&shown, "the answer is none of the choices");
        }
    }
    // Without a person it is dismissed at once.
    let world = World::new();
    let agent = world.script("work/agent.sh", QUESTIONER);
    world.run(&format!("acp:{}", agent.display()), "Go.").end().exits(0);
    assert!(heard(&world).contains(r#"{"action":"decline"}"#), "{}", heard(&world));
}
