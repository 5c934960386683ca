//! `bowline doctor`, `models` and `limits`, on machines with none, some and all of the programs. The programs are scripts
//! that answer as the recorded ones did.

mod models_and_limits;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::support::bowline;
use crate::world::now;

/// What an app server says. `$MODELS` is its list.
const APP_SERVER: &str = r#"
while read -r line; do
  case "$line" in
    *'"initialize"'*) echo '{"id":1,"result":{}}' ;;
    *'account/read'*) echo '{"id":2,"result":{"account":{"type":"apiKey"},"requiresOpenaiAuth":true}}' ;;
    *'model/list'*) printf '{"id":2,"result":{"data":%s,"nextCursor":null}}\n' "$MODELS" ;;
    *'rateLimits/read'*) echo '{"id":2,"result":{"rateLimits":{"planType":"plus","primary":{"usedPercent":12,"windowDurationMins":300}}}}' ;;
  esac
done"#;

/// Returns the folder of the last recorded version of each provider, in the order of the index.
fn recorded_versions() -> BTreeMap<String, String> {
    let index = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/index.jsonl");
    let index = std::fs::read_to_string(index).expect("the list of recordings");
    let versions = index.lines().filter_map(|line| {
        let entry: Value = serde_json::from_str(line).expect("a line of the list");
        let field = |name: &str| entry[name].as_str().expect("a field of the list").to_owned();
        let fixture = || format!("{}/{}", field("cli"), field("version"));
        (field("case") == "help").then(|| (field("provider"), fixture()))
    });
    versions.collect()
}

/// A machine of its own.
pub(crate) struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("it is there");
        std::fs::create_dir_all(dir.path().join("bin")).expect("it is there");
        std::fs::create_dir_all(dir.path().join("home")).expect("it is there");
        std::fs::create_dir_all(dir.path().join("work")).expect("it is there");
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a program; `$HERE` is the machine, and each start leaves a line in `started`.
    pub(crate) fn program(&self, name: &str, body: &str) {
        let path = self.path("bin").join(name);
        let here = self.dir.path().display();
        let text = format!("#!/bin/sh\nHERE='{here}'\necho \"{name} $*\" >> \"$HERE/started\"\n{body}\n");
        bowline_testkit::write_program(&path, text);
    }

    /// Writes a program that answers as it was recorded.
    pub(crate) fn recorded(&self, program: &str, fixture: &str) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(fixture);
        let root = root.canonicalize().expect("it is there");
        let root = root.display();
        let play = "play() { cat \"$F/$1/stdout.raw\"; cat \"$F/$1/stderr.raw\" >&2; exit \"$(cat \"$F/$1/exit_code\")\"; }";
        let pages = r#"case "$*" in
  --version) play version ;;
  --help) play help ;;
  'run --help'|'exec --help'|'exec resume --help'|'exec fork --help'|'app-server --help') play "$(echo "$*" | sed 's/ --help/-help/; s/ /-/')" ;;
  'auth status') play auth-status-key ;;
  'auth list') play auth-list ;;
  'auth check --provider anthropic --json --no-refresh') play auth-check-ok ;;
  models) play models ;;
  app-server) ;;
  *) echo "unexpected: $*" >&2; exit 64 ;;
esac"#;
        self.program(program, &format!("F='{root}'\n{play}\n{pages}\n{APP_SERVER}"));
    }

    pub(crate) fn command(&self, args: &[&str], env: &[(&str, &str)]) -> Command {
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let mut command = bowline(args);
        command
            .env("PATH", path)
            .env("HOME", self.path("home"))
            .env("BOWLINE_HOME", self.path("data"))
            .envs(env.iter().copied())
            .current_dir(self.path("work"));
        command
    }

    pub(crate) fn run(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        self.command(args, env).output().expect("the command ends")
    }

    pub(crate) fn json(&self, args: &[&str], env: &[(&str, &str)]) -> (i32, Value) {
        let output = self.run(args, env);
        let text = String::from_utf8_lossy(&output.stdout);
        let value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code().unwrap_or(-1), value)
    }

    pub(crate) fn started(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("started")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

pub(crate) fn text(output: &Output) -> (i32, String, String) {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
    (output.status.code().unwrap_or(-1), stdout, stderr)
}

pub(crate) fn row<'a>(report: &'a Value, provider: &str) -> &'a Value {
    let rows = report["agents"].as_array().expect("rows");
    rows.iter().find(|row| row["provider"] == provider).unwrap_or_else(|| panic!("no row for {provider}"))
}

#[test]
fn a_machine_without_agents() {
    let machine = Machine::new();
    let (code, stdout, stderr) = text(&machine.run(&["doctor"], &[]));
    assert_eq!((code, stderr.as_str()), (4, ""));
    let missing = stdout.lines().filter(|line| line.starts_with("- ") && line.contains("not installed"));
    assert_eq!(missing.count(), 10, "{stdout}");
    assert!(
        stdout.contains("- codex     not installed; fix: npm install -g @openai/codex@latest\n"),
        "{stdout}"
    );
    assert!(stdout.contains(&format!("+ data home {}", machine.path("data").display())), "{stdout}");
    assert!(stdout.ends_with("\nNo agent is usable. `bowline demo` plays a run without one.\n"), "{stdout}");
    let (code, report) = machine.json(&["doctor", "--json"], &[]);
    assert_eq!(
        (code, &report["v"], &report["usable"]),
        (4, &Value::from(1), &Value::from(Vec::<Value>::new()))
    );
    let claude = row(&report, "claude");
    assert_eq!((&claude["health"], &claude["auth"]["status"]), (&"missing".into(), &"not_found".into()));
    assert_eq!(claude["auth"]["binary"], "absent");
}

#[test]
fn a_machine_with_all_agents() {
    let machine = Machine::new();
    let recorded = recorded_versions();
    assert!(recorded.len() >= 8, "{recorded:?}");
    for (provider, fixture) in &recorded {
        let manifest = bowline_providers::catalogue::by_name(provider).expect("a provider");
        machine.recorded(&manifest.program, fixture);
    }
    let keys = [("ANTHROPIC_API_KEY", "made-up"), ("GEMINI_API_KEY", "none"), ("XAI_API_KEY", "made-up")];
    let (code, report) = machine.json(&["doctor", "--json"], &keys);
    assert_eq!(code, 0);
    for provider in recorded.keys() {
        let row = row(&report, provider);
        assert_eq!(row["health"], "answers", "{row}");
        assert_eq!(row["version"], row["certified"], "{row}");
        assert_eq!((&row["how"], row.get("lost")), (&"on PATH".into(), None), "{row}");
        assert!(row["took_ms"].is_u64());
    }
    assert_eq!(report["usable"].as_array().map(Vec::len), Some(4), "{}", report["usable"]);
    let auth = |provider: &str| {
        let auth = &row(&report, provider)["auth"];
        (auth["status"].as_str().unwrap(), auth["verified"].as_bool().unwrap())
    };
    assert_eq!(auth("claude"), ("authenticated", true));
    assert_eq!(auth("codex"), ("authenticated", true));
    assert_eq!(auth("pi"), ("authenticated", true));
    assert_eq!(auth("opencode"), ("authenticated", false), "its own word was no, and a key is set");
    assert_eq!(auth("gemini"), ("installed", false), "`none` is no key");
    assert_eq!(auth("grok"), ("authenticated", false), "a key without the program");
    assert_eq!(row(&report, "grok")["health"], "missing");
    assert_eq!(row(&report, "claude")["modes"]["streams"], "text");
    assert_eq!(row(&report, "codex")["modes"]["streams"], "messages");
    assert_eq!(row(&report, "codex")["modes"]["better"], serde_json::json!({ "ask": "app-server" }));
    assert_eq!(row(&report, "claude")["modes"].get("better"), None, "it has one form");

    // The second time no program is asked again.
    let asked = machine.started();
    // What was tried on this very version need not be looked up in its help.
    assert!(asked.iter().all(|start| !start.ends_with("--help")), "{asked:?}");
    let (code, again) = machine.json(&["doctor", "--json"], &keys);
    assert_eq!((code, &again["usable"]), (0, &report["usable"]));
    assert_eq!(machine.started(), asked);
    machine.json(&["doctor", "gemini", "--json", "--fresh"], &keys);
    let fresh = machine.started();
    assert_eq!(fresh[asked.len()..], ["gemini --version"]);
    machine.json(&["doctor", "gemini", "--json"], &keys);
    assert_eq!(machine.started(), fresh, "what was asked anew is kept");

    let (code, stdout, stderr) = text(&machine.run(&["doctor", "claude", "gemini"], &keys));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let line = stdout.lines().find(|line| line.starts_with("+ claude")).expect("a line");
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>().join(" "),
        "+ claude 2.1.325 certified logged in (an API key) text read ask edit yolo on PATH"
    );
    assert!(stdout.contains("no login was found: a Google login, or an API key; fix: gemini\n"), "{stdout}");
    assert!(stdout.ends_with("\n1 of 2 is usable: claude\n"), "{stdout}");
}

#[test]
fn one_that_hangs_is_named_and_holds_up_nobody() {
    let machine = Machine::new();
    machine.recorded("claude", "claude/2.1.325");
    machine.program("gemini", "exec sleep 600");
    machine.program("qwen", "echo 'no version here'");
    machine.program("pi", "kill -SEGV $$");
    machine.program("copilot", "echo 'no config' >&2; exit 3");
    let began = now();
    let (code, report) = machine.json(&["doctor", "--json"], &[("ANTHROPIC_API_KEY", "made-up")]);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!((code, &report["usable"]), (0, &Value::from(vec!["claude"])));
    let gemini = row(&report, "gemini");
    assert_eq!(gemini["health"], "found");
    let what = gemini["problems"][0]["what"].as_str().unwrap();
    assert_eq!(what, "`gemini --version`: it did not answer within 5 s, and was ended");
    assert_eq!(gemini["problems"][0]["fix"], "run `gemini --version` by hand, and see what it waits for");
    let tries = machine.started().iter().filter(|line| line.starts_with("gemini")).count();
    assert_eq!(tries, 1, "it is not asked anything more");
    assert!(row(&report, "claude")["took_ms"].as_u64() < gemini["took_ms"].as_u64());
    for (provider, what) in [
        ("qwen", "`qwen --version`: it prints no version, but: no version here"),
        ("pi", "`pi --version`: it was ended by SIGSEGV before it had answered"),
        ("copilot", "`copilot --version`: it prints no version and exits with 3: no config"),
    ] {
        assert_eq!(row(&report, provider)["problems"][0]["what"], what);
    }
}

#[test]
fn what_a_program_unpacks_when_it_is_first_started_it_unpacks_once() {
    let machine = Machine::new();
    machine.program(
        "gemini",
        r#"[ -e "$HOME/unpacked" ] || echo once >> "$HERE/unpacks"; touch "$HOME/unpacked"; echo 0.60.0"#,
    );
    machine.json(&["doctor", "gemini", "--json"], &[]);
    assert_eq!(machine.started(), ["gemini --version", "gemini --help"]);
    assert_eq!(std::fs::read_to_string(machine.path("unpacks")).expect("it was started"), "once\n");
}

#[test]
fn what_an_older_program_lacks_is_told_and_done_without() {
    let machine = Machine::new();
    let help = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude/2.1.325/help/stdout.raw");
    machine.program(
        "claude",
        &format!(
            r#"case "$*" in
  --version) echo '2.0.0 (Claude Code)' ;;
  --help) sed '/--include-partial-messages/d' '{}' ;;
  'auth status') echo '{{"loggedIn":true,"authMethod":"api_key"}}' ;;
  *) cat >/dev/null
     echo '{{"type":"system","subtype":"init","session_id":"n-1","model":"m"}}'
     echo '{{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"n-1"}}' ;;
esac"#,
            help.display()
        ),
    );
    let run = |extra: &[&str]| {
        let mut args = vec!["run", "--provider", "claude", "--output", "jsonl", "hello"];
        args.extend(extra);
        let (code, stdout, stderr) = text(&machine.run(&args, &[]));
        assert_eq!(code, 0, "{stderr}");
        let events: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let arguments = machine.started().pop().unwrap();
        let degraded: Vec<Value> = events
            .iter()
            .map(|event| event["kind"].clone())
            .filter(|kind| kind["type"] == "capability_degraded")
            .collect();
        (arguments, degraded, events[0]["kind"].clone())
    };
    // Nothing is known of the program yet: it is run as its manifest says.
    let (arguments, degraded, _) = run(&[]);
    assert!(arguments.contains("--include-partial-messages"), "{arguments}");
    assert_eq!(degraded, Vec::<Value>::new());

    let (_, report) = machine.json(&["doctor", "claude", "--json"], &[]);
    let claude = row(&report, "claude");
    assert_eq!(claude["lost"][0]["capability"], "streams_text");
    assert_eq!(claude["modes"]["streams"], "messages");
    let problems: Vec<&str> =
        claude["problems"].as_array().unwrap().iter().filter_map(|it| it["what"].as_str()).collect();
    assert!(problems.contains(&"this version was never certified; 2.1.325 was"), "{problems:?}");

    let (arguments, degraded, started) = run(&[]);
    assert!(
        arguments.contains("--verbose") && !arguments.contains("--include-partial-messages"),
        "{arguments}"
    );
    assert_eq!(degraded.len(), 1);
    assert_eq!(degraded[0]["instead"], "each message when it is complete");
    assert_eq!(degraded[0]["reason"], "`--include-partial-messages` is not in its help");
    assert_eq!(
        (&started["version"], &started["capabilities"]["streams_text"]),
        (&"2.0.0".into(), &false.into())
    );
    let (_, degraded, _) = run(&["--no-stream"]);
    assert_eq!(degraded, Vec::<Value>::new(), "nobody asked for a stream");
    // A format that was chosen is no loss, on the command line or in the settings.
    let (arguments, degraded, _) = run(&["--format", "stream-json"]);
    assert!(arguments.contains("--output-format stream-json"), "{arguments}");
    assert_eq!(degraded, Vec::<Value>::new(), "it was chosen on the command line");
    let dir = machine.path("home/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("bowline.toml"), "[providers.claude]\nformat = \"stream-json\"\n")
        .expect("a file");
    let (_, degraded, _) = run(&[]);
    assert_eq!(degraded, Vec::<Value>::new(), "it was chosen in the settings");
}

#[test]
fn a_request_is_made_when_it_is_asked_for() {
    let machine = Machine::new();
    let (code, report) = machine.json(&["doctor", "practice", "--live", "--json"], &[]);
    assert_eq!(code, 0, "{report}");
    let practice = row(&report, "practice");
    assert_eq!((&practice["health"], &practice["live"]["answered"]), (&"live".into(), &true.into()));
    assert_eq!(practice["auth"]["verified"], true);
    let (_, report) = machine.json(&["doctor", "practice", "--json"], &[]);
    let practice = row(&report, "practice");
    assert_eq!((practice.get("live"), &practice["auth"]["verified"]), (None, &false.into()));
    // One that says its version, and refuses the request.
    machine.program(
        "gemini",
        "[ \"$1\" = --version ] && exec echo 0.61.0; echo 'API key not valid' >&2; exit 41",
    );
    let (code, report) =
        machine.json(&["doctor", "gemini", "--live", "--json"], &[("GEMINI_API_KEY", "made-up")]);
    assert_eq!(code, 4, "{report}");
    let gemini = row(&report, "gemini");
    assert_eq!((&gemini["health"], &gemini["live"]["answered"]), (&"answers".into(), &false.into()));
}

#[test]
fn a_provider_of_ones_own_says_itself_whether_it_is_well() {
    let machine = Machine::new();
    machine.program(
        "mine",
        r#"[ "$1" = health ] || exit 64; [ -e "$HERE/ill" ] && { echo 'no model is loaded' >&2; exit 1; }; echo OK"#,
    );
    let dir = machine.path("home/.config/bowline/providers");
    std::fs::create_dir_all(&dir).expect("it is there");
    std::fs::write(dir.join("mine.toml"), "kind = \"executable\"\nname = \"mine\"\npath = \"mine\"\n")
        .expect("it is there");
    let (code, report) = machine.json(&["doctor", "--json"], &[]);
    let well = row(&report, "mine");
    assert_eq!(
        (code, &well["health"], &report["usable"]),
        (0, &"answers".into(), &serde_json::json!(["mine"]))
    );
    assert_eq!(well["problems"], serde_json::json!([]), "{well}");
    std::fs::write(machine.path("ill"), "").expect("it is there");
    let (code, report) = machine.json(&["doctor", "mine", "--json"], &[]);
    let ill = row(&report, "mine");
    assert_eq!((code, &ill["problems"][0]["what"]), (4, &"no model is loaded".into()), "{ill}");
    let asked = |start: &String| start == "mine health" || start == "mine --version";
    assert!(machine.started().iter().all(asked), "{:?}", machine.started());
}

#[test]
fn a_data_home_that_cannot_be_written_to_keeps_runs_from_working() {
    let machine = Machine::new();
    std::fs::write(machine.path("file"), "").expect("it is there");
    let home = machine.path("file/data").display().to_string();
    let env = [("BOWLINE_HOME", home.as_str())];
    let (code, stdout, _) = text(&machine.run(&["doctor", "practice"], &env));
    assert_eq!(code, 3, "{stdout}");
    assert!(stdout.contains(&format!("! data home {home} cannot be written to: ")), "{stdout}");
    assert!(stdout.ends_with("\nRuns fail until this is fixed: data home\n"), "{stdout}");
    let (code, report) = machine.json(&["doctor", "practice", "--json"], &env);
    assert_eq!((code, &report["machine"][0]["condition"]), (3, &"bad".into()));
    let (code, ..) = text(&machine.run(&["run", "--provider", "practice", "hi"], &env));
    assert_eq!(code, 3, "a run says the same");
}

#[test]
fn a_profile_is_an_account_of_its_own() {
    let machine = Machine::new();
    let set = |key: &str, value: &str| {
        let (code, _, stderr) = text(&machine.run(&["config", "set", key, value], &[]));
        assert_eq!(code, 0, "{stderr}");
    };
    // Who it is depends on where its settings are.
    machine.program(
        "codex",
        &format!(
            r#"case "$1" in --version) exec echo codex-cli 0.166.0 ;; app-server) ;; *) exit 64 ;; esac
WHO="$(basename "${{CODEX_HOME:-usual}}")"
MODELS='[{{"id":"'"$WHO"'-1"}}]'
{}"#,
            APP_SERVER.replace("plus", "'\"$WHO\"'")
        ),
    );
    let home = machine.path("work-account").display().to_string();
    std::fs::create_dir_all(&home).expect("it is there");
    set("profiles.work.provider", "codex");

    let refused = |args: &[&str]| {
        let (code, stdout, stderr) = text(&machine.run(args, &[]));
        assert_eq!(stdout, "", "{args:?}");
        (code, stderr)
    };
    let no_home =
        "error: the profile `work` has no directory\nhint: `bowline config set profiles.work.home DIR`\n";
    for command in ["doctor", "models", "limits"] {
        assert_eq!(refused(&[command, "--profile", "work"]), (3, no_home.to_owned()));
        let (code, stderr) = refused(&[command, "--profile", "home"]);
        assert_eq!(
            (code, stderr.as_str()),
            (2, "error: there is no profile `home`\nhint: existing profiles: work\n")
        );
    }
    set("profiles.work.home", &home);
    set("profiles.other.provider", "opencode");
    set("profiles.other.home", &home);
    for command in ["doctor", "models", "limits"] {
        let (code, stderr) = refused(&[command, "--profile", "other"]);
        assert_eq!(code, 2, "{stderr}");
        assert!(
            stderr.contains("opencode cannot be run with `--profile other`: it has one account only"),
            "{stderr}"
        );
        assert!(stderr.contains("hint: another home is another account: `--env HOME=DIR`"), "{stderr}");
        let (code, stderr) = refused(&[command, "claude", "--profile", "work"]);
        assert_eq!(code, 2, "{stderr}");
        assert!(
            stderr.contains("it is a profile of codex\nhint: name codex or no provider at all"),
            "{stderr}"
        );
    }

    let models = |args: &[&str]| {
        let (code, list) = machine.json(&[&["models", "--json"], args].concat(), &[]);
        assert_eq!(code, 0);
        (list[0]["profile"].clone(), list[0]["models"][0]["id"].clone())
    };
    assert_eq!(models(&["codex"]), (Value::Null, "usual-1".into()));
    assert_eq!(models(&["--profile", "work"]), ("work".into(), "work-account-1".into()));
    assert_eq!(models(&["codex", "--profile", "work"]), ("work".into(), "work-account-1".into()));
    let (_, stdout, _) = text(&machine.run(&["limits", "--profile", "work"], &[]));
    assert!(stdout.starts_with("codex (work) (work-account)\n"), "{stdout}");

    // A key in the environment is no login of a profile; the files in its directory are.
    let key = [("CODEX_API_KEY", "made-up")];
    let (_, report) = machine.json(&["doctor", "--profile", "work", "--json"], &key);
    let codex = row(&report, "codex");
    assert_eq!((&codex["profile"], report["agents"].as_array().map(Vec::len)), (&"work".into(), Some(1)));
    assert_eq!(codex["auth"]["evidence"], serde_json::json!(["word"]), "{codex}");
    std::fs::write(machine.path("work-account/auth.json"), "not a real login").expect("it is there");
    let (_, report) = machine.json(&["doctor", "--profile", "work", "--json"], &key);
    let file = serde_json::json!({"file": machine.path("work-account/auth.json")});
    assert_eq!(row(&report, "codex")["auth"]["evidence"], serde_json::json!([file, "word"]));
    let (_, stdout, _) = text(&machine.run(&["doctor", "--profile", "work"], &key));
    assert!(stdout.starts_with("+ codex (work) 0.166.0 "), "{stdout}");

    // What the account lists is what the router knows of it.
    let explain = |model: &str, args: &[&str]| {
        let (_, stdout, stderr) =
            text(&machine.run(&[&["route", "--explain", "--model", model], args].concat(), &key));
        stdout + &stderr
    };
    let dir = machine.path("home/.config/bowline");
    std::fs::write(
        dir.join("router.yaml"),
        "providers:\n  - name: at-work\n    config: {provider: codex, profile: work}\n",
    )
    .expect("it is there");
    let listed = explain("work-account-1", &[]);
    assert!(listed.contains("1      at-work  work-account-1"), "{listed}");
    let unlisted = explain("usual-1", &[]);
    assert!(!unlisted.contains("1     at-work"), "{unlisted}");
}
