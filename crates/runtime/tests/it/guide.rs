//! The programs of `docs/library.md`, as processes of their own, with a fake agent that a manifest describes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use libtest_mimic::Trial;

use crate::support::{CALL_TOOL, Stage, plain};

/// The page that explains the programs.
const PAGE: &str = include_str!("../../../../docs/library.md");

/// The index of the documents, which counts the programs.
const INDEX: &str = include_str!("../../../../docs/README.md");

/// The programs of the page.
const PROGRAMS: [&str; 8] = ["chat", "review", "web", "watchers", "session", "adapter", "tools", "testing"];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        plain("guide_names_its_programs", names),
        plain("guide_chat_resumes_and_falls_back", chat),
        plain("guide_review_has_a_typed_answer", review),
        plain("guide_review_stops_at_its_budget", budget),
        plain("guide_web_goes_on_after_the_last_event_id", web),
        plain("guide_watchers_see_every_event", watchers),
        plain("guide_session_takes_many_prompts", session),
        plain("guide_adapter_asks_every_provider", adapter),
        plain("guide_tools_answers_with_its_own_function", tools),
        plain("guide_testing_starts_nothing", testing),
    ]
}

/// Writes manifests for providers that are one fake agent: it gets the provider's name as its first argument.
fn stage(providers: &[&str], body: &str) -> Stage {
    let stage = Stage::new(body);
    let folder = stage.path("config/bowline/providers");
    std::fs::create_dir_all(&folder).unwrap();
    for name in providers {
        let agent = stage.agent().display();
        let text = format!(
            r#"
            name = "{name}"
            program = "{agent}"
            prompt = "stdin"
            formats.lines = {{ dialect = "claude", shape = "lines" }}
            auth = {{ none = true }}
            permission = {{ read = {{}}, ask = {{}} }}
            capabilities = {{ resume = "by_id", permission_modes = ["read", "ask"] }}
            [run]
            args = ["{name}"]
            [run.flags]
            resume = {{ args = ["--resume", "{{value}}"] }}
            schema = {{ args = ["--schema", "{{value}}"] }}
            mcp_config = {{ form = "typed", file = "mcp.json", args = ["--mcp-config", "{{file}}"] }}
            "#
        );
        std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    stage
}

/// Returns a command for a program. Cargo builds the examples of a package together with its tests.
fn program(name: &str, stage: &Stage) -> Command {
    let deps: PathBuf = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let path = deps.parent().unwrap().join("examples").join(name);
    assert!(path.exists(), "`cargo build -p bowline --examples --all-features` builds {}", path.display());
    #[expect(clippy::disallowed_methods, reason = "a test of a program")]
    let mut command = Command::new(path);
    command.current_dir(stage.world.path()).env("HOME", stage.world.path());
    command.env("XDG_CONFIG_HOME", stage.path("config")).env("BOWLINE_HOME", stage.path("data"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn names() {
    for program in PROGRAMS {
        assert!(
            PAGE.contains(&format!("crates/runtime/examples/{program}.rs")),
            "{program} is not on the page"
        );
    }
    let listed = PAGE.lines().filter(|line| line.starts_with("| [")).count();
    assert_eq!(listed, PROGRAMS.len(), "the table has other programs");
    let count = ["six", "seven", "eight", "nine", "ten"][PROGRAMS.len() - 6];
    assert!(INDEX.contains(&format!("{count} complete programs")), "the index counts differently");
    assert!(PAGE.contains(&format!("All {count} are complete")), "the page counts differently");
}

fn chat() {
    // The first provider runs out of quota in its second turn. The second one gets all that was said.
    let body = r#"
        cat > "$HERE/$1$2.prompt"
        case "$*" in
            "first --resume n-1") printf '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"insufficient_quota: You exceeded your current quota","session_id":"n-1"}\n'; exit 1;;
            first) init; say m1 One; result One;;
            second) init; say m1 Two; result Two;;
            "second --resume n-1") init; say m1 Three; result Three;;
        esac"#;
    let stage = stage(&["first", "second"], body);
    let mut child = program("chat", &stage).args(["first", "second"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"red\ngreen\nblue\n").unwrap();
    let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
    let said = String::from_utf8(stdout).unwrap();
    let expected = "[first answers]\nOne\n[first cannot go on]\n[second answers]\nTwo\nThree\n";
    assert_eq!(said, expected, "{}", String::from_utf8_lossy(&stderr));
    let prompt = |name: &str| std::fs::read_to_string(stage.path(name)).unwrap();
    assert_eq!(
        prompt("second.prompt").trim(),
        "red\n[Assistant]\nOne\n\ngreen",
        "a new session gets the conversation"
    );
    assert_eq!(prompt("second--resume.prompt").trim(), "blue", "a resumed session gets the new message only");
}

fn review() {
    let answer =
        r#"{\"approved\":false,\"findings\":[{\"file\":\"a.rs\",\"line\":7,\"text\":\"off by one\"}]}"#;
    let stage = stage(&["reviewer"], &format!("init; say m1 '{answer}'; result '{answer}'"));
    let (code, stdout, stderr) = output(program("review", &stage).arg("reviewer"));
    assert_eq!((code, stdout.as_str()), (Some(10), "a.rs:7: off by one\ncost: 0.25 USD\n"), "{stderr}");
}

fn budget() {
    // A million tokens of a model that is on the price list, and no end in sight.
    let body = r#"
        printf '{"type":"system","subtype":"init","session_id":"n-1","model":"claude-opus-4-5"}\n'
        printf '{"type":"assistant","message":{"id":"m1","role":"assistant","model":"claude-opus-4-5","content":[{"type":"text","text":"Hm."}],"usage":{"input_tokens":9,"output_tokens":1000000}},"session_id":"n-1"}\n'
        sleep 60"#;
    let stage = stage(&["reviewer"], body);
    let (code, _, stderr) = output(program("review", &stage).arg("reviewer"));
    assert_eq!(code, Some(i32::from(bowline::exit::NOT_ALLOWED)), "{stderr}");
    assert!(stderr.contains("0.5"), "it names the limit: {stderr}");
}

fn watchers() {
    let stage = stage(&["speaker"], "init; say m1 Hello; sleep 0.2; say m2 again; result again");
    let (code, stdout, stderr) = output(program("watchers", &stage).args(["speaker", "Speak"]));
    assert_eq!(code, Some(0), "{stderr}");
    let [text, end, log, late] = stdout.lines().collect::<Vec<_>>()[..] else { panic!("{stdout}") };
    assert_eq!(text, "Helloagain");
    let events = end.strip_prefix("completed, ").unwrap().strip_suffix(" events").unwrap();
    assert_eq!(log, format!("the log has {events} events"));
    assert_eq!(late, "from event 3 on there were 0 tool calls");
}

fn session() {
    // A program for each prompt. The second one resumes the first one's session.
    let body = r#"cat >/dev/null; init; say m1 "got $*"; result done"#;
    let stage = stage(&["speaker"], body);
    let (code, stdout, stderr) = output(program("session", &stage).args(["speaker", "Plan it", "Write it"]));
    let lines: Vec<&str> = stdout.lines().collect();
    let [first, second, text, ended, resumed, again, hint] = lines[..] else { panic!("{stdout}{stderr}") };
    assert_eq!(code, Some(0), "{stderr}");
    assert!(first.starts_with("Started {") && first.contains("turn: 1"), "{first}");
    assert!(second.starts_with("Queued {") && second.contains("ahead: 0"), "{second}");
    assert_eq!((text, ended), ("got speaker", "turn 1: Completed"));
    assert_eq!((resumed, again), ("got speaker --resume n-1", "turn 2: Completed"));
    assert!(hint.starts_with("resume it: bowline start --resume s-"), "{hint}");
}

fn adapter() {
    let body = r#"
        case "$*" in *--version*) echo "2.9.9"; exit;; esac
        cat >/dev/null; init; say m1 "got $*"; result done"#;
    let stage = stage(&["one", "two"], body);
    let (code, stdout, stderr) = output(program("adapter", &stage).args(["one", "two", "Name it"]));
    let expected =
        |name| format!("{name}: version 2.9.9, takes input during a turn: false\ngot {name}\nCompleted\n");
    assert_eq!((code, stdout), (Some(0), expected("one") + &expected("two")), "{stderr}");
    // The program is gone.
    std::fs::remove_file(stage.agent()).unwrap();
    let (code, stdout, stderr) = output(program("adapter", &stage).args(["one", "Name it"]));
    let missing = format!("one: `{}` is not usable\n", stage.agent().display());
    assert_eq!((code, stdout), (Some(0), missing), "{stderr}");
}

fn tools() {
    let body = r#"
        ANSWER=$(call_tool stock '{"article":"M4 screw"}'); OTHER=$(call_tool stock '{"article":"rope"}')
        init; say m1 "$ANSWER, and $OTHER"; result "$ANSWER, and $OTHER""#;
    let stage = stage(&["clerk"], &format!("{CALL_TOOL}{body}"));
    let (code, stdout, stderr) = output(program("tools", &stage).args(["clerk", "How many M4 screws?"]));
    let said = "1200 pieces, and there is no article `rope`\n";
    assert_eq!((code, stdout.as_str()), (Some(0), said), "{stderr}");
}

fn testing() {
    let stage = Stage::new("exit 1");
    let (code, stdout, stderr) = output(&mut program("testing", &stage));
    assert_eq!((code, stdout.lines().count()), (Some(0), 1), "{stderr}");
}

/// Sends an HTTP request and returns the body of the response.
fn http(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{head}: {response}")).1.to_owned()
}

fn web() {
    let stage = stage(&["speaker"], "init; say m1 Hello; sleep 0.2; say m2 again; result again");
    let mut server = program("web", &stage).args(["speaker", "127.0.0.1:0"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap();

    let path = http(address, "POST /runs HTTP/1.1", "Speak");
    let path = path.trim();
    // While the run goes on, then once more from the fourth event on, when it is over.
    let all = http(address, &format!("GET {path} HTTP/1.1"), "");
    let rest = http(address, &format!("GET {path} HTTP/1.1\r\nLast-Event-ID: 3"), "");
    let nowhere = http(address, "GET /runs/../../etc HTTP/1.1", "");
    server.kill().unwrap();
    server.wait().unwrap();

    let ids = |text: &str| -> Vec<u64> {
        text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
    };
    let (all_ids, rest_ids) = (ids(&all), ids(&rest));
    assert!(all_ids.len() > 5 && all_ids.iter().copied().eq(1..=all_ids.len() as u64), "{all}");
    assert_eq!(rest_ids, all_ids[3..], "nothing twice, nothing missing");
    assert!(all.ends_with("event: end\ndata:\n\n") && all.contains("again"), "{all}");
    assert_eq!(nowhere, "");
}
