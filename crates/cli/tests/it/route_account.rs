//! What the router knows of the accounts behind the entries of its file: their limits and their logins.

use rustix::process::Signal;

use crate::route::{answering, failing, routed, run};
use crate::world::World;

/// Reports, in the format of Claude Code, that all of its five hours are used.
const USED_UP: &str = r#"case "$*" in *--no-session-persistence*)
  while read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"request_id":"\([0-9]*\)".*/\1/p')
    case "$line" in *get_usage*)
      printf '{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{"rate_limits_available":true,"rate_limits":{"five_hour":{"utilization":100,"resets_at":"2099-01-01T00:00:00Z"}}}}}\n' "$id";;
    esac
  done
  exit;;
esac
cat >/dev/null
"#;

fn explain(world: &World, env: &[(&str, &str)]) -> String {
    let call =
        env.iter().fold(world.bowline(&["route", "--explain"]), |call, (name, value)| call.env(name, value));
    call.end().exits(0).stdout
}

#[test]
fn each_entry_is_asked_for_its_own_limits() {
    let world = routed(&[("first", String::new()), ("second", answering())], "");
    world.script("first", &format!("{USED_UP}{}", answering()));
    let ended = run(&world, &["--provider", "auto", "-v"]).end().exits(0);
    ended.tells(&["second: priority 50"]);
    let explained = explain(&world, &[("ANTHROPIC_API_KEY", "made-up")]);
    assert!(explained.contains("its five hour limit is used up and resets in "), "{explained}");
}

#[test]
fn a_limit_that_is_known_is_told_or_waited_for() {
    let world = routed(&[("only", failing(429, "rate limit: retry after 3600 seconds"))], "");
    run(&world, &["--provider", "auto"]).end().exits(1);
    let ended = run(&world, &["--provider", "auto"]).end().exits(1);
    ended.tells(&[
        "error: the limits of all usable providers are used up; the first to reset is that of only, at ",
        "hint: `--wait-for-limit` waits until then",
    ]);
    let running = run(&world, &["--provider", "auto", "--wait-for-limit"]).start();
    running.tells("waiting for the limit, which resets ");
    running.signal(Signal::INT);
    running.end().exits(130);
}

#[test]
fn a_login_may_be_a_variable_of_the_entry_or_the_word_of_the_program() {
    let version = "[ \"$1\" = --version ] && { echo '2.1.325 (Claude Code)'; exit; }";
    let word = "[ \"$1 $2\" = 'auth status' ] && { echo '{\"loggedIn\":true}'; exit; }";
    let status = format!("{version}\n{word}\n{}", answering());
    let world = routed(&[("first", String::new()), ("second", answering())], "");
    world.script("first", &status);
    let unseen =
        "after the others, because no login was found (only the program itself can tell); priority 50";
    assert_eq!(explain(&world, &[]).matches(unseen).count(), 2);
    world.bowline(&["doctor", "first"]).end();
    let explained = explain(&world, &[]);
    assert!(explained.contains("1      first   its default  priority 50\n"), "{explained}");

    let file = world.path("work/.config/bowline/router.yaml");
    let text = std::fs::read_to_string(&file).expect("a file");
    let text =
        text.replace("provider: claude,", "provider: claude, env: {ANTHROPIC_API_KEY: '${WORK_KEY}'},");
    std::fs::write(&file, text).expect("a file");
    let explained = explain(&world, &[("WORK_KEY", "made-up")]);
    assert!(!explained.contains(unseen), "{explained}");
}
