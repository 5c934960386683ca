//! Executable providers, as a caller meets them: the request that they get, their answers, their failures, their health.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::world::{World, now};

/// A provider that writes down how it was called and answers both commands.
const RECORDER: &str = r#"
for last; do :; done
printf '%s\n' "$@" >"$0.args"
env >"$0.env"
case "$last" in
generate) cat >"$0.request"
    echo '{"content":"4","tokens_used":41,"input_tokens":32,"output_tokens":9,"model":"m-1","latency":1,"finish_reason":"stop","provider":"p"}' ;;
stream) cat >"$0.request"
    echo '{"content":"2","delta":"2","done":false,"timestamp":"2025-01-07T10:30:00Z"}'
    echo '{"content":"2+2","delta":"+2","done":true,"tokens_used":7,"error":"","timestamp":"2025-01-07T10:30:00Z"}' ;;
health) echo OK ;;
*) echo "unknown command" >&2; exit 2 ;;
esac"#;

fn text(path: &Path, ending: &str) -> String {
    let path = PathBuf::from(format!("{}.{ending}", path.display()));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn request(path: &Path) -> Value {
    serde_json::from_str(&text(path, "request")).expect("a request is JSON")
}

fn summary(stdout: &str) -> Value {
    serde_json::from_str(stdout).expect("a summary")
}

/// A run of an executable by its path.
fn call<'a>(world: &'a World, path: &Path, args: &[&str]) -> crate::world::Call<'a> {
    let path = path.to_str().expect("a path");
    let output: &[&str] = if args.contains(&"--output") { &[] } else { &["--output", "json"] };
    world.bowline(&["run", "--executable", path]).with(output).with(args).with(&["What is 2+2?"])
}

#[test]
fn an_executable_answers_in_a_stream_or_in_one_piece() {
    let world = World::new();
    let path = world.script("my-provider.sh", RECORDER);
    let ended = call(&world, &path, &[]).end().exits(0);
    let told = summary(&ended.stdout);
    assert_eq!((&told["text"], &told["usage"]["total"]), (&json!("2+2"), &json!(7)));
    assert_eq!(
        (text(&path, "args").as_str(), request(&path)),
        ("stream\n", json!({"prompt": "What is 2+2?"}))
    );

    let ended = call(&world, &path, &["--no-stream"]).end().exits(0);
    let told = summary(&ended.stdout);
    assert_eq!(
        (&told["text"], &told["model"], &told["usage"]["input"]),
        (&json!("4"), &json!("m-1"), &json!(32))
    );
    assert_eq!(text(&path, "args"), "generate\n");

    // The latency of the answer is ours: the provider claims a nanosecond.
    let ended = call(&world, &path, &["--no-stream", "--output", "generate"]).end().exits(0);
    let answer = summary(&ended.stdout);
    assert!(answer["latency"].as_u64().is_some_and(|latency| latency > 1), "{answer}");
    assert_eq!(answer["provider"], "my-provider");
}

#[test]
fn options_become_fields_of_the_request() {
    let world = World::new();
    let path = world.script("p", RECORDER);
    let args = [
        "--model",
        "m-2",
        "--system",
        "Be brief.",
        "--append-system",
        "Be kind.",
        "--set",
        "seed=7",
        "--set",
        "style=plain",
        "--env",
        "A_KEY=made-up-secret",
    ];
    call(&world, &path, &args).end().exits(0);
    assert_eq!(
        request(&path),
        json!({
            "prompt": "What is 2+2?",
            "system_prompt": "Be brief.\n\nBe kind.",
            "config": {"model": "m-2", "seed": 7, "style": "plain"},
        })
    );
    let env = text(&path, "env");
    assert!(env.contains("A_KEY=made-up-secret") && !env.contains("HOST_MARK"), "{env}");
    // NAME alone passes ours on.
    call(&world, &path, &["--env", "HOST_MARK"]).end().exits(0);
    assert!(text(&path, "env").contains("HOST_MARK=host-of-"));
    let ended = call(&world, &path, &["--resume", "s1"]).end().exits(2);
    assert!(ended.stderr.contains("an executable provider keeps no session"), "{}", ended.stderr);
}

/// Describes an executable in the user's configuration.
fn describe(world: &World, text: &str) {
    let dir = world.path("work/.config/bowline/providers");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("llama.toml"), text).expect("a file");
}

const LLAMA: &str = r#"
kind = "executable"
name = "llama"
path = "./p.sh"
args = ["--quiet", "-x"]
timeout = "30s"
model = "llama3.2:latest"
env = { OLLAMA_HOST = "127.0.0.1:1" }
config = { keep_alive = "5m" }
"#;

#[test]
fn an_executable_of_the_configuration_is_a_provider_and_what_changes_counts_at_once() {
    let world = World::new();
    describe(&world, LLAMA);
    let path = world.script("work/.config/bowline/providers/p.sh", RECORDER);
    let run = || world.run("llama", "hi").end().exits(0).stdout;
    assert_eq!(run().trim(), "2+2");
    assert_eq!(text(&path, "args"), "--quiet\n-x\nstream\n");
    assert_eq!(request(&path)["config"], json!({"keep_alive": "5m", "model": "llama3.2:latest"}));
    assert!(text(&path, "env").contains("OLLAMA_HOST=127.0.0.1:1"));

    describe(&world, &LLAMA.replace("llama3.2:latest", "qwen3:8b"));
    run();
    assert_eq!(request(&path)["config"]["model"], "qwen3:8b");
    world.script(
        "work/.config/bowline/providers/p.sh",
        r#"cat >/dev/null; echo '{"delta":"new","done":true}'"#,
    );
    assert_eq!(run().trim(), "new");

    describe(&world, &LLAMA.replace("30s", "300ms"));
    world.script("work/.config/bowline/providers/p.sh", "sleep 60");
    world.run("llama", "hi").end().exits(124);
    world.nobody_is_left();

    describe(&world, &LLAMA.replace("timeout", "tiemout"));
    let ended = world.run("llama", "hi").end().exits(3);
    assert!(
        ended.stderr.contains("line 6, column 1, `tiemout = \"30s\"`: unknown field"),
        "{}",
        ended.stderr
    );
}

#[test]
fn secrets_of_the_configuration_do_not_reach_the_journal() {
    let world = World::new();
    let secrets =
        "env = { LLAMA_API_KEY = \"made-up-variable\" }\nconfig = { api_key = \"made-up-setting\" }\n";
    describe(&world, &format!("kind = \"executable\"\nname = \"llama\"\npath = \"./p.sh\"\n{secrets}"));
    let script = r#"cat >"$0.request"; echo "{\"delta\":\"$LLAMA_API_KEY\",\"done\":true}""#;
    let path = world.script("work/.config/bowline/providers/p.sh", script);
    assert_eq!(world.run("llama", "hi").end().exits(0).stdout.trim(), "made-up-variable");
    assert_eq!(request(&path)["config"]["api_key"], "made-up-setting", "the provider has it");
    for file in std::fs::read_dir(&world.journals_begun()[0]).expect("a journal").flatten() {
        let kept = String::from_utf8_lossy(&std::fs::read(file.path()).unwrap_or_default()).into_owned();
        assert!(!kept.contains("made-up-"), "{}: {kept}", file.path().display());
    }
}

#[test]
fn what_goes_wrong_is_told_with_its_reason() {
    let world = World::new();
    let failing = |name: &str, script: &str| {
        let path = world.script(name, &format!("cat >/dev/null; {script}"));
        let told = summary(&call(&world, &path, &["--no-stream"]).end().exits(1).stdout);
        (
            told["failure"]["category"].clone(),
            told["failure"]["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let (category, message) = failing("a", "echo 'connect ECONNREFUSED 127.0.0.1:11434' >&2; exit 1");
    assert_eq!((category, message.contains("ECONNREFUSED")), (json!("network"), true), "{message}");
    let (category, message) = failing("b", r#"echo '{"content":"","error":"model not found"}'"#);
    assert_eq!((category, message.contains("model not found")), (json!("not_found"), true), "{message}");
    let (category, _) = failing("c", "echo 'this is not JSON'");
    assert_eq!(category, json!("unknown"), "an answer that is none is no success");
    for error in ["", r#","error":null"#, r#","error":"""#] {
        let script = format!("cat >/dev/null; echo '{{\"content\":\"x\"{error}}}'");
        let path = world.script("d", &script);
        assert_eq!(
            summary(&call(&world, &path, &["--no-stream"]).end().exits(0).stdout)["text"],
            "x",
            "{error}"
        );
    }
    let ended = call(&world, Path::new("./nowhere"), &[]).end().exits(4);
    assert!(ended.stderr.contains("nowhere") || ended.stdout.contains("nowhere"), "{ended:?}");
    let both = call(&world, &world.path("d"), &["--provider", "practice"]);
    let ended = both.end().exits(2);
    assert!(ended.stderr.contains("`--provider practice` and `--executable`"), "{}", ended.stderr);
    // One that is only the usual one gives way.
    call(&world, &world.path("d"), &["--no-stream"]).env("BOWLINE_PROVIDER", "practice").end().exits(0);
    let ended = call(&world, &world.path("work"), &[]).end().exits(2);
    assert!(ended.stderr.contains("is a directory"), "{}", ended.stderr);
}

#[test]
fn health_is_asked_within_five_seconds() {
    let world = World::new();
    let ask =
        |path: &Path| world.bowline(&["provider", "health", "--executable", path.to_str().expect("a path")]);
    let well = world.script("well", RECORDER);
    assert_eq!(ask(&well).end().exits(0).stdout, "well is healthy: OK\n");
    assert_eq!(text(&well, "args"), "health\n");
    let ill = world.script("ill", "echo 'ollama not available' >&2; exit 7");
    assert_eq!(ask(&ill).end().exits(1).stdout, "ill is not healthy (exit code 7): ollama not available\n");
    let told = summary(&ask(&ill).with(&["--json"]).end().exits(1).stdout);
    assert_eq!((&told["well"], &told["exit_code"]), (&json!(false), &json!(7)));
    ask(Path::new("./nowhere")).end().exits(4);
    let began = now();
    let ended = ask(&world.script("slow", "sleep 60")).end().exits(124);
    assert!(ended.stderr.contains("did not answer within 5 s"), "{}", ended.stderr);
    assert!(began.elapsed().as_secs() < 30);
    let ended = world.bowline(&["provider", "health", "claude"]).end().exits(2);
    assert!(ended.stderr.contains("has no health check"), "{}", ended.stderr);
}
