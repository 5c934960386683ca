//! `bowline simulate`, as a person or a script meets it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use bowline_providers::catalogue;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{bowline, run, show};
use crate::world::wait_until;

/// A simulator that runs beside a test.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut all = vec!["simulate"];
        all.extend(args);
        let mut child = bowline(&all).stdin(Stdio::null()).spawn().expect("the command starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut first = String::new();
        out.read_line(&mut first).expect("a line");
        let address = first.trim_end().strip_prefix("http://").expect("an address").to_owned();
        Self { child, address }
    }

    fn post(&self, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Sends a signal, and returns the exit code and what stands on standard error.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process")).expect("a process");
        kill_process(pid, signal).expect("it is there");
        let mut code = None;
        wait_until("the end of the simulator", || {
            code = self.child.try_wait().expect("it can be asked");
            code.is_some()
        });
        let mut told = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut told).expect("text");
        (code.and_then(|status| status.code()), told)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind; one that is over has nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ASK: &str = r#"{"model":"m","messages":[{"role":"user","content":"[[text]] \u001b[2Jhi"}]}"#;

#[test]
fn it_says_its_address_and_each_request_until_ctrl_c() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = folder.path().join("ledger.jsonl");
    let running = Running::start(&["--port", "0", "--ledger", ledger.to_str().expect("text")]);
    let answer = running.post("/r/me/v1/chat/completions", ASK);
    assert!(answer.contains("The knot holds, and it always unties."), "{answer}");
    running.post("/r/me/v1/chat/completions", &ASK.replace("text", "unauthorized"));
    running.post("/v1/chat/completions", &ASK.replace("text", "nonsense"));
    running.post("/v1/what\u{1b}[2J", "");
    let (code, told) = running.end(Signal::INT);
    assert_eq!(code, Some(0), "{told}");
    for line in [
        "1  [me]  openai-chat  text step 1  200  ",
        "2  [me]  openai-chat  unauthorized step 1  401  ",
        "3  openai-chat  there is no scenario `nonsense`  400  ",
    ] {
        assert!(told.contains(line), "{told}");
    }
    assert!(!told.contains('\u{1b}'), "{told}");
    let written = std::fs::read_to_string(&ledger).expect("the ledger");
    let routes: Vec<serde_json::Value> = written
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line)["route"].clone())
        .collect();
    assert_eq!(routes[..2], ["me", "me"]);
}

#[test]
fn sigterm_ends_it_too_and_what_is_open_is_told() {
    let running = Running::start(&["--port", "0"]);
    let mut stream = TcpStream::connect(&running.address).expect("it listens");
    let body = ASK.replace("text", "hang");
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("it reads");
    wait_until("the request is in the ledger", || {
        let mut stream = TcpStream::connect(&running.address).expect("it listens");
        write!(stream, "GET /_bowline/ledger HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.contains("\"outcome\":\"open\"")
    });
    let (code, told) = running.end(Signal::TERM);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("hang step 1  stopped"), "{told}");
}

#[test]
fn a_port_in_use_is_said() {
    let running = Running::start(&["--port", "0"]);
    let port = running.address.rsplit(':').next().expect("a port");
    let shown = show(&["simulate", "--port", port], "");
    assert_eq!(
        shown.replace(port, "PORT"),
        "exit 3\n--- stdout\n--- stderr\n\
         error: could not start the simulator\n\
         caused by: port PORT of 127.0.0.1 is in use\n\
         hint: stop the other process, or choose another port with `--port N`; `--port 0` takes any free one\n"
    );
}

#[test]
fn who_lets_other_machines_in_is_warned() {
    let running = Running::start(&["--listen", "0.0.0.0:0"]);
    let (_, told) = running.end(Signal::INT);
    assert!(
        told.starts_with("warning: other machines can reach this simulator, and it serves every request\n"),
        "{told}"
    );
}

#[test]
fn scenarios_are_listed_checked_and_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let good = file("mine.toml", "about = \"Mine.\"\n[[step]]\ntext = \"my words\"\n");
    let bad = file("bad.toml", "about = \"x\"\n\n[[step]]\nfault = \"oops\"\n");
    let badly_named = file("Bad Name.toml", "about = \"x\"\n[[step]]\n");
    let plain = |text: String| text.replace(folder.path().to_str().expect("text"), "DIR");

    let listed = show(&["simulate", "--list", "--scenario", &good], "");
    assert!(listed.contains("\nmine                Mine.\n"), "{listed}");
    assert!(listed.contains("\ndefault "), "{listed}");
    assert_eq!(
        plain(show(&["simulate", "--check", &good], "")),
        "exit 0\n--- stdout\nDIR/mine.toml: `[[mine]]` is a valid scenario\n--- stderr\n"
    );
    let refused = plain(show(&["simulate", "--check", &bad], ""));
    let lines: Vec<&str> = refused.lines().collect();
    assert_eq!(
        lines[..4],
        ["exit 3", "--- stdout", "--- stderr", "error: the scenario `DIR/bad.toml` is not valid"]
    );
    assert!(
        lines[4].starts_with(
            "caused by: DIR/bad.toml:4:9: unknown variant `oops`, expected one of `bad-request`, "
        ),
        "{refused}"
    );
    assert_eq!(
        lines[5..],
        [
            "  |",
            "4 | fault = \"oops\"",
            "  |         ^^^^^^",
            "hint: docs/simulator.md describes the form of a scenario",
        ]
    );
    // The same is said before anything is served.
    let refused = plain(show(&["simulate", "--port", "0", "--scenario", &bad], ""));
    assert!(
        refused.starts_with("exit 3\n--- stdout\n--- stderr\nerror: the scenario `DIR/bad.toml`"),
        "{refused}"
    );
    assert_eq!(
        plain(show(&["simulate", "--scenario", &badly_named], "")),
        "exit 3\n--- stdout\n--- stderr\n\
         error: `DIR/Bad Name.toml` cannot name a scenario: `Bad Name` is not made of small letters, digits and `-`\n\
         hint: rename the file: a scenario is named after its file\n"
    );
    assert_eq!(
        plain(show(&["simulate", "--check", folder.path().join("none.toml").to_str().expect("text")], "")),
        "exit 3\n--- stdout\n--- stderr\n\
         error: could not read the scenario `DIR/none.toml`\ncaused by: No such file or directory (os error 2)\n"
    );
    let running = Running::start(&["--port", "0", "--scenario", &good]);
    assert!(running.post("/v1/chat/completions", &ASK.replace("text", "mine")).contains("my words"));
}

#[test]
fn what_points_a_program_at_it_is_printed() {
    insta::assert_snapshot!(
        "print_env_codex",
        show(&["simulate", "--print-env", "codex", "--port", "9000"], "")
    );
    insta::assert_snapshot!(
        "print_env_grok_cli",
        show(&["simulate", "--print-env", "grok-cli", "--route", "edit~1"], "")
    );
    let can: Vec<&str> =
        catalogue::built_in().filter(|it| it.simulate.is_some()).map(|it| &*it.name).collect();
    assert_eq!(
        show(&["simulate", "--print-env", "practice"], ""),
        format!(
            "exit 2\n--- stdout\n--- stderr\n\
             error: the manifest of `practice` has no `[simulate]` section\n\
             hint: providers with that section: {}\n",
            can.join(", ")
        )
    );
    let unknown = show(&["simulate", "--print-env", "cluade"], "");
    assert!(unknown.contains("hint: did you mean `claude`?"), "{unknown}");
    let everywhere = show(&["simulate", "--print-env", "grok-cli", "--listen", "0.0.0.0:9000"], "");
    assert!(everywhere.contains("GROK_BASE_URL=http://127.0.0.1:9000/v1\n"), "{everywhere}");
    let no_route = show(&["simulate", "--print-env", "claude", "--route", "a/b"], "");
    assert!(no_route.contains("error: `a/b` is not a valid route\n"), "{no_route}");
    let no_port = show(&["simulate", "--print-env", "claude", "--port", "0"], "");
    assert!(no_port.contains("error: the address of a simulator needs its port"), "{no_port}");
}

#[test]
fn files_are_written_into_a_fresh_home_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("it's new");
    let args = ["simulate", "--print-env", "codex", "--home", home.to_str().expect("text")];
    let first = run(&args, "");
    assert_eq!(first.status.code(), Some(0), "{}", String::from_utf8_lossy(&first.stderr));
    let lines = String::from_utf8(first.stdout).expect("text");
    let config = std::fs::read_to_string(home.join(".codex/config.toml")).expect("it is written");
    assert!(config.contains("base_url = \"http://127.0.0.1:8484/v1\""), "{config}");
    // A shell reads the lines as they are.
    let script = format!("{lines}\nprintf %s \"$HOME|$CODEX_SIMULATOR_KEY\"");
    let output = crate::support::in_shell(&script).output().expect("a shell");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{}|made-up-key-for-the-simulator", home.display())
    );
    // Again it is as it was; with another address it would be changed, and is not.
    assert_eq!(run(&args, "").status.code(), Some(0));
    let other: Vec<&str> = args.iter().copied().chain(["--port", "9000"]).collect();
    let refused = show(&other, "");
    assert!(refused.starts_with("exit 3\n"), "{refused}");
    assert!(refused.contains("/.codex/config.toml` already exists with other content"), "{refused}");
    assert_eq!(std::fs::read_to_string(home.join(".codex/config.toml")).expect("it is there"), config);
}
