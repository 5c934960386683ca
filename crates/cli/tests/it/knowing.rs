//! A doctor that agrees with `run`: what it calls usable runs, what it calls broken does not, and what it does not know it
//! says. The programs are scripts on a machine of their own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::doctor::{Machine, text};
use crate::world::now;

/// Longer than anything here takes, and shorter than for ever.
const LONG: Duration = Duration::from_secs(90);

/// Waits for the end of a command, and ends it if that does not come.
fn ended(mut child: Child, what: &str) -> Output {
    let began = now();
    while child.try_wait().expect("a child").is_none() {
        if began.elapsed() > LONG {
            child.kill().expect("a child");
            panic!("`{what}` hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("a child")
}

/// A program that says this version when it is asked, and perhaps another while it runs.
fn claude(asked: &str, said: &str) -> String {
    format!(
        r#"case "$*" in
  --version) {asked}; exit ;;
  'auth status') echo '{{"loggedIn":true,"authMethod":"api_key"}}'; exit ;;
esac
cat >/dev/null
echo '{{"type":"system","subtype":"init","session_id":"n-1","model":"m"{said}}}'
echo '{{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"n-1"}}'"#
    )
}

#[test]
fn a_program_that_was_replaced_is_named_with_both_versions() {
    let machine = Machine::new();
    let run = |args: &[&str]| {
        let args = [&["run", "-p", "claude", "--output", "jsonl", "hi"], args].concat();
        let (code, stdout, stderr) = text(&machine.run(&args, &[]));
        assert_eq!(code, 0, "{stderr}");
        let events: Vec<Value> =
            stdout.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        let replaced =
            events.iter().map(|event| &event["kind"]).filter(|kind| kind["code"] == "program_replaced");
        let notices: Vec<String> =
            replaced.map(|kind| kind["text"].as_str().expect("a text").to_owned()).collect();
        let session = events[0]["session"].as_str().expect("a session").to_owned();
        let meta = std::fs::read(machine.path("data/sessions").join(&session).join("session.json"));
        let meta: Value = serde_json::from_slice(&meta.expect("a file")).expect("JSON");
        (session, notices, meta["provider_version"].clone())
    };
    let asked = || machine.started().iter().filter(|line| *line == "claude --version").count();
    machine.program("claude", &claude("echo '2.1.325 (Claude Code)'", ""));
    machine.json(&["doctor", "claude", "--json"], &[]);
    let (first, notices, version) = run(&[]);
    assert_eq!((notices, version, asked()), (vec![], "2.1.325".into(), 1));

    machine.program("claude", &claude("echo '2.1.400 (Claude Code)'", ""));
    let (second, notices, version) = run(&["--resume", &first]);
    let told = "Claude Code was 2.1.325 when this session began and is 2.1.400 now: its earlier sessions may look different to it";
    assert_eq!((notices, version, asked()), (vec![told.to_owned()], "2.1.400".into(), 2));
    let (_, notices, version) = run(&["--resume", &second]);
    assert_eq!((notices, version, asked()), (vec![], "2.1.400".into(), 2), "nothing has changed since");

    // One that does not say it when it is asked says it while it runs.
    machine.program("claude", &claude("exit 3", r#","claude_code_version":"2.1.500""#));
    let (third, notices, version) = run(&["--resume", &second]);
    assert_eq!((version, notices.len()), ("2.1.500".into(), 2), "{notices:?}");
    assert!(notices[0].starts_with("Claude Code (it was 2.1.400) was replaced on 20"), "{notices:?}");
    let (_, when) = notices[0].split_once("replaced on ").expect("a time");
    assert!(when[10..].starts_with(' ') && when[16..].starts_with(' '), "for people: {when}");
    assert!(notices[1].contains("was 2.1.400 when this session began and is 2.1.500 now"), "{notices:?}");

    // One that hangs when it is asked holds the task up for two seconds, no longer.
    machine.program("claude", &claude("exec sleep 600", r#","claude_code_version":"2.1.600""#));
    let began = now();
    let (_, notices, version) = run(&["--resume", &third]);
    assert_eq!((version, notices.len()), ("2.1.600".into(), 2), "{notices:?}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn a_session_whose_runner_was_killed_has_the_version_that_the_program_said() {
    let machine = Machine::new();
    machine.program(
        "claude",
        r#"cat >/dev/null
echo '{"type":"system","subtype":"init","session_id":"n-1","model":"m","claude_code_version":"2.1.325"}'
exec sleep 600"#,
    );
    let mut child =
        machine.command(&["run", "-p", "claude", "--output", "jsonl", "hi"], &[]).spawn().expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let said = lines.map_while(Result::ok).find(|line| line.contains("2.1.325")).expect("its first event");
    let event: Value = serde_json::from_str(&said).expect("an event");
    child.kill().expect("a child");
    child.wait().expect("a child");
    let session = event["session"].as_str().expect("a session");
    // Whoever goes on with it puts it in order first.
    machine.program("claude", &claude("exit 3", ""));
    text(&machine.run(&["run", "--resume", session, "go on"], &[]));
    let meta =
        std::fs::read(machine.path("data/sessions").join(session).join("session.json")).expect("a file");
    let meta: Value = serde_json::from_slice(&meta).expect("JSON");
    assert_eq!(
        (&meta["provider_version"], &meta["native_session"]),
        (&"2.1.325".into(), &"n-1".into()),
        "{meta}"
    );
}

#[test]
fn names_of_models_that_nobody_told_are_marked() {
    let machine = Machine::new();
    let (code, stdout, _) = text(&machine.run(&["models", "claude"], &[]));
    assert_eq!(code, 0, "{stdout}");
    let first = "claude (the names that Bowline's manifest has; the program was not asked)\n  `claude` cannot be had: ";
    assert!(stdout.starts_with(first), "{stdout}");
    let names: Vec<&str> = stdout.lines().skip(3).filter(|line| !line.is_empty()).collect();
    assert!(!names.is_empty() && names.iter().all(|line| line.contains(" alias")), "{stdout}");
    let (_, list) = machine.json(&["models", "claude", "--json"], &[]);
    assert_eq!(list[0]["source"], "manifest");
}

#[test]
fn init_asks_one_question_on_a_terminal() {
    let machine = Machine::new();
    let init = |typed: &str, env: &[(&str, &str)]| {
        let file = machine.path("home/.config/bowline/bowline.toml");
        let _ = std::fs::remove_file(&file);
        let (master, slave) = terminal();
        let command = &mut machine.command(&["init"], env);
        let child = command.stdin(Stdio::from(slave)).spawn().expect("the command starts");
        rustix::io::write(&master, typed.as_bytes()).expect("a terminal");
        let (code, _, stderr) = text(&ended(child, "init"));
        assert_eq!(code, 0, "{stderr}");
        let written = std::fs::read_to_string(file).expect("it was written");
        let provider = written.lines().find(|line| line.starts_with("provider = ")).map(str::to_owned);
        (stderr, provider)
    };
    let open = "No agent is installed and logged in yet. Which one is to be asked when none is named? \
                A name, auto for whichever suits, or nothing to leave it open: ";
    assert_eq!(init("\n", &[]), (open.to_owned(), None));
    let (asked, provider) = init("nobody\nClaude\n", &[]);
    let again = format!("{open}there is no provider `nobody`; `bowline providers` lists them\n{open}");
    assert_eq!((asked, provider), (again, Some("provider = \"claude\"".to_owned())));

    machine.recorded("claude", "claude/2.1.325");
    let key = [("ANTHROPIC_API_KEY", "made-up")];
    let (asked, provider) = init("\n", &key);
    let one = "Which agent is to be asked when none is named: claude, or auto for whichever suits? [claude] ";
    assert_eq!((asked.as_str(), provider), (one, Some("provider = \"claude\"".to_owned())));
    assert_eq!(init("auto\n", &key).1, Some("provider = \"auto\"".to_owned()));
    // The end of what is typed is no answer.
    assert_eq!(init("\u{4}", &key).1, Some("provider = \"claude\"".to_owned()));
}

/// Makes a terminal, and returns both of its ends.
fn terminal() -> (rustix::fd::OwnedFd, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("a terminal");
    unlockpt(&master).expect("a terminal");
    let name = ptsname(&master, Vec::new()).expect("a terminal").into_string().expect("UTF-8");
    let slave = std::fs::File::options().read(true).write(true).open(name).expect("a terminal");
    (master, slave)
}
