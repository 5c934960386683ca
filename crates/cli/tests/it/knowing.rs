//! A doctor that agrees with `run`: what it calls usable runs, what it calls broken does not, and what it does not know it
//! says. The programs are scripts on a machine of their own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use bowline_providers::catalogue;
use serde_json::Value;

use crate::doctor::{Machine, row, text};
use crate::support::in_shell;
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

#[test]
fn a_bad_file_of_settings_keeps_every_run_from_working() {
    let machine = Machine::new();
    machine.recorded("claude", "claude/2.1.325");
    let key = [("ANTHROPIC_API_KEY", "made-up")];
    let dir = machine.path("home/.config/bowline");
    std::fs::create_dir_all(&dir).expect("it is there");
    for (file, content, column) in [("bowline.toml", "run.bogus = 1", 5), ("router.yaml", "providers: 3", 12)]
    {
        let path = dir.join(file);
        std::fs::write(&path, format!("# ours\n{content}\n")).expect("it is there");
        let place = format!("{}:2:{column}: ", path.display());
        let (code, _, refused) = text(&machine.run(&["run", "-p", "claude", "hi"], &key));
        assert_eq!(code, 3, "{refused}");
        assert!(refused.contains(&place), "{refused}");
        for args in [&["doctor", "claude"][..], &["doctor"]] {
            let (code, stdout, stderr) = text(&machine.run(args, &key));
            assert_eq!((code, stderr.as_str()), (3, ""), "{stdout}");
            assert!(stdout.contains(&format!("\n! settings  {place}")), "{stdout}");
            assert!(stdout.contains(&format!("\n            2 | {content}\n")), "{stdout}");
            assert!(stdout.ends_with("\nRuns fail until this is fixed: settings\n"), "{stdout}");
            // What the run says was expected stands on the screen, too.
            let hints = refused.lines().filter_map(|line| line.strip_prefix("hint: "));
            hints.for_each(|hint| assert!(stdout.contains(hint), "{hint}: {stdout}"));
        }
        let (code, report) = machine.json(&["doctor", "claude", "--json"], &key);
        let items = report["machine"].as_array().expect("items");
        let item = items.iter().find(|item| item["name"] == "settings").expect("an item");
        assert_eq!((code, &item["condition"]), (3, &"bad".into()), "{item}");
        let place = serde_json::json!({"file": path, "line": 2, "column": column, "text": content});
        assert_eq!(item["place"], place, "{item}");
        std::fs::remove_file(path).expect("it was there");
    }
    let (code, stdout, _) = text(&machine.run(&["doctor", "claude"], &key));
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.contains("\n+ settings  no files, so the defaults count\n"), "{stdout}");
    // A file that is good is named.
    std::fs::write(dir.join("bowline.toml"), "[run]\nprovider = \"claude\"\n").expect("it is there");
    let (code, stdout, _) = text(&machine.run(&["doctor", "claude"], &key));
    let good = format!("\n+ settings  {}\n", dir.join("bowline.toml").display());
    assert!(code == 0 && stdout.contains(&good), "{stdout}");
}

/// An agent that speaks the Agent Client Protocol, and knows no `--version`.
const ACP: &str = r#"
while read -r line; do
  case "$line" in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}' ;;
    *'"method":"session/new"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"sh-1"}}' ;;
    *'"method":"session/prompt"'*)
      echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sh-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Here."}}}}'
      echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}' ;;
  esac
done"#;

#[test]
fn an_agent_of_which_no_version_and_no_login_is_known_can_be_used() {
    let machine = Machine::new();
    machine.program("acpagent", ACP);
    let (code, stdout, stderr) = text(&machine.run(&["run", "-p", "acp:acpagent", "hi"], &[]));
    assert_eq!((code, stdout.trim()), (0, "Here."), "{stderr}");
    let check = |name: &str, said: &str| {
        let (code, report) = machine.json(&["doctor", name, "--json"], &[]);
        let agent = row(&report, name);
        assert_eq!((code, &report["usable"]), (0, &serde_json::json!([name])), "{report}");
        assert_eq!((&agent["health"], agent.get("version")), (&"found".into(), None), "{agent}");
        assert_eq!(agent["version_unknown"], true, "{agent}");
        assert_eq!((&agent["problems"], &agent["auth"]["unknown"]), (&serde_json::json!([]), &true.into()));
        let remarks = agent["remarks"].as_array().expect("remarks");
        let remark = |place: usize| remarks[place].as_str().expect("a text");
        assert!(
            remark(0).starts_with("its version is not known: ") && remark(0).ends_with(said),
            "{remarks:?}"
        );
        assert!(remark(1).starts_with("the login status is unknown: "), "{remarks:?}");
    };
    check("acp:acpagent", "it prints nothing where its version should be");
    let (_, report) = machine.json(&["doctor", "acp:acpagent", "--live", "--json"], &[]);
    let agent = row(&report, "acp:acpagent");
    assert_eq!((&agent["health"], agent["auth"].get("unknown")), (&"live".into(), None), "{agent}");
    assert_eq!(agent["auth"]["status"], "authenticated", "it has answered");
    let (_, stdout, _) = text(&machine.run(&["doctor", "acp:acpagent"], &[]));
    let line = stdout.lines().next().expect("a line");
    assert!(line.starts_with("+ acp:acpagent ?") && line.contains("login unknown"), "{line}");
    assert!(stdout.ends_with("\n1 of 1 is usable: acp:acpagent\n"), "{stdout}");

    // The example that ships, whose program complains of `--version`.
    machine
        .program("omnara", "[ \"$1\" = headless ] || { echo 'unknown option' >&2; exit 2; }\necho 'Done.'");
    let dir = machine.path("home/.config/bowline/providers");
    std::fs::create_dir_all(&dir).expect("it is there");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/omnara.toml");
    std::fs::copy(example, dir.join("omnara.toml")).expect("the example");
    let (code, stdout, stderr) =
        text(&machine.run(&["run", "-p", "omnara", "--permission", "ask", "hi"], &[]));
    assert_eq!((code, stdout.trim()), (0, "Done."), "{stderr}");
    check("omnara", "it prints no version and exits with 2: unknown option");
    let (_, report) = machine.json(&["doctor", "omnara", "--json"], &[("OMNARA_API_KEY", "made-up")]);
    assert_eq!(row(&report, "omnara")["auth"]["status"], "authenticated");

    // One that was certified is held to what it said then.
    machine.program("gemini", "echo 'no config' >&2; exit 3");
    let (code, report) = machine.json(&["doctor", "gemini", "--json"], &[("GEMINI_API_KEY", "made-up")]);
    assert_eq!((code, row(&report, "gemini").get("version_unknown")), (4, None), "{report}");
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
    // The next runner of the session repairs it first.
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
fn what_helps_against_a_request_without_an_answer_fits_why_it_has_none() {
    let machine = Machine::new();
    let live = |name: &str, body: &str| {
        machine.program(name, body);
        let keys = [("GEMINI_API_KEY", "made-up"), ("ANTHROPIC_API_KEY", "made-up")];
        let (code, report) = machine.json(&["doctor", name, "--live", "--json"], &keys);
        assert_eq!(code, 4, "{report}");
        let row = row(&report, name);
        let problems = row["problems"].as_array().expect("problems");
        let is_it = |it: &&Value| it["what"].as_str().is_some_and(|it| it.starts_with("a request"));
        let problem = problems.iter().find(is_it).expect("a problem");
        (problem["fix"].as_str().expect("a fix").to_owned(), row["live"]["category"].clone())
    };
    let claude = |rest: &str| {
        format!(
            "[ \"$1\" = --version ] && exec echo '2.1.325 (Claude Code)'\n[ \"$1\" = auth ] && exec echo '{{\"loggedIn\":true}}'\ncat >/dev/null\n{rest}"
        )
    };
    // It is logged in, and its output was cut.
    let (fix, _) = live(
        "claude",
        &claude(r#"echo '{"type":"system","subtype":"init","session_id":"n-1"}'; printf '{"type":"ass'"#),
    );
    assert!(fix.starts_with("run claude once with a short prompt"), "{fix}");
    let limit = |said: &str| {
        claude(&format!(
            r#"echo '{{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"{said}","session_id":"n-1"}}'; exit 1"#
        ))
    };
    let (fix, _) = live("claude", &limit("Claude AI usage limit reached|4102444800"));
    assert!(
        fix.starts_with("wait until 2100-01-01 ") && fix.ends_with("when the limit starts anew"),
        "{fix}"
    );
    let (fix, _) = live("claude", &limit("Too many requests"));
    assert_eq!(fix, "read when the limits of claude reset");
    let gemini = |said: &str| format!("[ \"$1\" = --version ] && exec echo 0.61.0\n{said}");
    let (fix, category) = live("gemini", &gemini("echo 'getaddrinfo ENOTFOUND api.example.com' >&2; exit 1"));
    assert_eq!(
        (fix.as_str(), category),
        ("check the network and the service, and try again", "network".into())
    );
    let (fix, category) = live("gemini", &gemini("echo 'API key not valid' >&2; exit 41"));
    assert_eq!((fix.as_str(), category), ("gemini", "authentication".into()));
}

#[test]
fn a_provider_of_the_kit_shows_its_version() {
    let machine = Machine::new();
    let (code, _, stderr) = text(&machine.run(&["provider", "new", "my-model", "--lang", "sh"], &[]));
    assert_eq!(code, 0, "{stderr}");
    let dir = machine.path("home/.config/bowline/providers");
    std::fs::create_dir_all(&dir).expect("it is there");
    let program = machine.path("work/my-model.sh");
    let file = format!("kind = \"executable\"\nname = \"mine\"\npath = \"{}\"\n", program.display());
    std::fs::write(dir.join("mine.toml"), file).expect("it is there");
    let (code, report) = machine.json(&["doctor", "mine", "--json"], &[]);
    assert_eq!((code, &row(&report, "mine")["version"]), (0, &"0.1.0".into()), "{report}");
    let certify = |path: &str| {
        let args = ["certify", "--executable", path, "--only", "version", "--json"];
        let output = machine.run(&args, &[]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        (output.status.code(), report["version"].clone(), report["cells"][0]["status"].clone())
    };
    assert_eq!(certify("./my-model.sh"), (Some(0), "0.1.0".into(), "green".into()));
    let (_, stdout, _) =
        text(&machine.run(&["certify", "--executable", "./my-model.sh", "--only", "version"], &[]));
    assert!(stdout.contains(" 0.1.0  "), "{stdout}");
    machine.program("refuses", "echo 'what is that?' >&2; exit 2");
    let path = machine.path("bin/refuses").display().to_string();
    assert_eq!(certify(&path), (Some(0), Value::Null, "not_claimed".into()));
    machine.program("lies", "echo 'all is well'");
    let path = machine.path("bin/lies").display().to_string();
    assert_eq!(certify(&path), (Some(1), Value::Null, "red".into()));
}

#[test]
fn names_of_models_that_nobody_told_are_marked() {
    let machine = Machine::new();
    let (code, stdout, _) = text(&machine.run(&["models", "claude"], &[]));
    assert_eq!(code, 0, "{stdout}");
    let first = "claude (from Bowline's manifest; the program was not queried)\n  `claude` is not usable: ";
    assert!(stdout.starts_with(first), "{stdout}");
    let names: Vec<&str> = stdout.lines().skip(3).filter(|line| !line.is_empty()).collect();
    assert!(!names.is_empty() && names.iter().all(|line| line.contains(" alias")), "{stdout}");
    let (_, list) = machine.json(&["models", "claude", "--json"], &[]);
    assert_eq!(list[0]["source"], "manifest");
}

#[test]
fn what_holds_a_login_is_never_opened() {
    let machine = Machine::new();
    machine.recorded("claude", "claude/2.1.325");
    machine.recorded("codex", "codex/0.166.0");
    // To open one of these is to wait for ever: it has no writer.
    let mut held = 0;
    for file in catalogue::built_in().flat_map(|manifest| &manifest.auth.files) {
        let path = machine.path("home").join(file);
        if path.exists() {
            continue;
        }
        let dir = path.parent().expect("a directory").display().to_string();
        let line = format!("mkdir -p '{dir}' && mkfifo '{}'", path.display());
        assert!(in_shell(&line).status().expect("a shell").success());
        held += 1;
    }
    assert!(held >= 5, "{held}");
    for args in [
        &["doctor"][..],
        &["doctor", "--json", "--fresh"],
        &["models", "claude"],
        &["limits", "codex"],
        &["route", "--explain"],
        &["run", "--dry-run", "-p", "claude", "hi"],
        &["init", "--yes"],
    ] {
        let child = machine.command(args, &[]).spawn().expect("the command starts");
        let output = ended(child, &args.join(" "));
        let (code, _, stderr) = text(&output);
        assert!(matches!(code, 0 | 1 | 4), "{args:?}: {code} {stderr}");
    }
    let (_, report) = machine.json(&["doctor", "claude", "--json"], &[]);
    let evidence = &row(&report, "claude")["auth"]["evidence"][0]["file"];
    assert_eq!(evidence, &serde_json::json!(machine.path("home/.claude/.credentials.json")), "it was seen");
}

#[test]
fn a_row_appears_as_soon_as_it_is_known() {
    let machine = Machine::new();
    machine.recorded("claude", "claude/2.1.325");
    // It answers when the other row has been read, and not before.
    machine.program("gemini", "while [ ! -e \"$HERE/read\" ]; do sleep 0.02; done; echo 0.61.0");
    let key = [("ANTHROPIC_API_KEY", "made-up")];
    let mut child =
        machine.command(&["doctor", "gemini", "claude"], &key).spawn().expect("the command starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let first = lines.next().expect("a row");
    std::fs::write(machine.path("read"), "").expect("it is there");
    let rest: Vec<String> = lines.collect();
    ended(child, "doctor");
    assert!(first.starts_with("+ claude "), "{first}");
    let second = rest.iter().find(|line| line.starts_with("! gemini ")).expect("a row");
    assert!(second.contains(" 0.61.0 "), "it was still being asked when the first row was there: {second}");
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
    let open = "No agent is installed and logged in yet. Default agent (a name; auto = let Bowline choose; \
                empty = none): ";
    assert_eq!(init("\n", &[]), (open.to_owned(), None));
    let (asked, provider) = init("nobody\nClaude\n", &[]);
    let again = format!("{open}there is no provider `nobody`; `bowline providers` lists them\n{open}");
    assert_eq!((asked, provider), (again, Some("provider = \"claude\"".to_owned())));

    machine.recorded("claude", "claude/2.1.325");
    let key = [("ANTHROPIC_API_KEY", "made-up")];
    let (asked, provider) = init("\n", &key);
    let one = "Default agent (claude; auto = let Bowline choose) [claude]: ";
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
