//! Terminals that an ACP agent has through Bowline, by a manifest of the user.

use crate::world::{World, wait_until};

/// An agent that sends the lines of `requests.jsonl`, each when the one before is answered, and `PWD` for its directory. Then its
/// prompt is over. A line `wait` waits for a file `go`.
const AGENT: &str = r#"
next() {
  while read -r request <&3; do
    case "$request" in
      wait) until [ -e go ]; do sleep 0.05; done ;;
      *) printf '%s\n' "$request" | sed "s|PWD|$PWD|g"; return ;;
    esac
  done
  echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
}
exec 3<requests.jsonl
echo $$ >agent.pid
while read -r line; do
  printf '%s\n' "$line" >>heard.jsonl
  case "$line" in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}' ;;
    *'"method":"session/new"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"sh-1"}}' ;;
    *'"method":"session/prompt"'*) next ;;
    *'"id":1'[0-9][0-9]*) next ;;
  esac
done
"#;

struct Scene {
    world: World,
}

impl Scene {
    /// An agent that sends these requests: their method behind `terminal/`, and their parameters without the session.
    fn new(requests: &[(&str, &str)]) -> Self {
        let world = World::new();
        let agent = world.script("work/agent.sh", AGENT);
        world.acp_provider("terms", &agent, "host_terminals = \"offered\"");
        let line = |(number, (method, params)): (usize, &(&str, &str))| {
            if *method == "wait" {
                return "wait\n".to_owned();
            }
            let id = number + 100;
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"terminal/{method}","params":{{"sessionId":"sh-1",{params}}}}}"#
            ) + "\n"
        };
        let lines: String = requests.iter().enumerate().map(line).collect();
        std::fs::write(world.path("work/requests.jsonl"), lines).expect("written");
        Self { world }
    }

    /// Runs it, and returns what the agent got for its requests.
    #[track_caller]
    fn ends(&self, permission: &str) -> Vec<serde_json::Value> {
        let args = ["run", "--provider", "terms", "--permission", permission, "--output", "jsonl", "Go."];
        let ended = self.world.bowline(&args).end().exits(0);
        assert!(ended.stdout.contains("\"outcome\":\"completed\""), "{}", ended.stdout);
        self.heard()
    }

    fn heard(&self) -> Vec<serde_json::Value> {
        let heard = std::fs::read_to_string(self.world.path("work/heard.jsonl")).expect("it heard something");
        let all = heard.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        all.filter(|line: &serde_json::Value| line["id"].as_u64().is_some_and(|id| id >= 100)).collect()
    }
}

const T1: &str = r#""terminalId":"t1""#;

#[test]
fn an_agent_runs_a_command_through_its_host() {
    let scene = Scene::new(&[
        (
            "create",
            r#""command":"sh","args":["-c","echo $A; pwd; echo err >&2; exit 3"],"env":[{"name":"A","value":"one two"}],"cwd":"PWD/sub""#,
        ),
        ("wait_for_exit", T1),
        ("output", T1),
        ("release", T1),
        ("release", T1),
        ("output", r#""terminalId":"t9""#),
        // By a path that counts from its directory.
        ("create", r#""command":"./tool","cwd":"PWD/sub""#),
        ("wait_for_exit", r#""terminalId":"t2""#),
        ("output", r#""terminalId":"t2""#),
        ("create", r#""command":"no-such-program""#),
    ]);
    std::fs::create_dir_all(scene.world.path("work/sub")).expect("created");
    scene.world.script("work/sub/tool", "pwd");
    let sub = scene.world.path("work/sub").canonicalize().expect("it is there").display().to_string();
    let heard = scene.ends("yolo");
    assert_eq!(heard[0]["result"], serde_json::json!({ "terminalId": "t1" }));
    assert_eq!(heard[1]["result"], serde_json::json!({ "exitCode": 3, "signal": null }));
    let output = heard[2]["result"]["output"].as_str().expect("output");
    assert!(output.contains(&format!("one two\n{sub}\n")) && output.contains("err\n"), "{output}");
    assert_eq!(heard[2]["result"]["exitStatus"]["exitCode"], 3);
    assert_eq!(heard[3]["result"], serde_json::json!({}));
    for place in [4, 5] {
        assert_eq!(heard[place]["error"]["code"], -32602, "{}", heard[place]);
        assert!(heard[place]["error"]["message"].as_str().is_some_and(|it| it.contains("no terminal")));
    }
    assert_eq!(heard[8]["result"]["output"], format!("{sub}\n"), "{heard:?}");
    assert_eq!(heard[9]["error"]["code"], -32603, "{}", heard[9]);
    assert!(heard[9]["error"]["message"].as_str().is_some_and(|it| it.contains("no-such-program")));
}

#[test]
fn a_command_that_is_denied_is_not_started() {
    for permission in ["read", "ask"] {
        let scene = Scene::new(&[("create", r#""command":"touch","args":["made"]"#)]);
        let heard = scene.ends(permission);
        assert_eq!(heard[0]["error"]["message"], "the command was denied", "{permission}");
        assert!(!scene.world.path("work/made").exists(), "{permission}");
        assert!(scene.world.has_line(&["approval_asked", "\"shell\"", "touch made"]));
    }
}

#[test]
fn a_command_runs_inside_of_the_workspace_only() {
    let touch = |cwd: &str| format!(r#""command":"touch","args":["made"],"cwd":"{cwd}""#);
    let places = ["PWD/../outside", "PWD/out", "/", "sub", "PWD/file", "PWD/none"].map(touch);
    let requests: Vec<(&str, &str)> = places.iter().map(|params| ("create", params.as_str())).collect();
    let scene = Scene::new(&requests);
    std::fs::create_dir_all(scene.world.path("outside")).expect("created");
    std::fs::write(scene.world.path("work/file"), "").expect("written");
    std::os::unix::fs::symlink("../outside", scene.world.path("work/out")).expect("linked");
    let heard = scene.ends("yolo");
    assert_eq!(heard.len(), 6);
    for answer in &heard[..5] {
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert_eq!(heard[5]["error"]["code"], -32002, "{}", heard[5]);
    assert!(!scene.world.path("outside/made").exists() && !scene.world.path("work/made").exists());
}

#[test]
fn a_flood_of_output_is_kept_to_its_limit_and_a_killed_command_keeps_its_output() {
    let t2 = r#""terminalId":"t2""#;
    let scene = Scene::new(&[
        // Two bytes for each character, and an odd limit.
        (
            "create",
            r#""command":"sh","args":["-c","yes ää | tr -d '\\n' | head -c 8000000"],"outputByteLimit":1001"#,
        ),
        ("wait_for_exit", T1),
        ("output", T1),
        ("create", r#""command":"sh","args":["-c","echo begun; exec sleep 600"]"#),
        ("wait", ""),
        ("kill", t2),
        ("wait_for_exit", t2),
        ("output", t2),
    ]);
    // The second command has printed when the agent kills it.
    let run = scene.world.bowline(&["run", "--provider", "terms", "--permission", "yolo", "Go."]).start();
    wait_until("the second terminal", || scene.heard_so_far() >= 4);
    std::thread::sleep(std::time::Duration::from_millis(500));
    std::fs::write(scene.world.path("work/go"), "").expect("written");
    run.end().exits(0);
    let heard = scene.heard();
    let output = heard[2]["result"]["output"].as_str().expect("output");
    assert_eq!((output.len(), &heard[2]["result"]["truncated"]), (1000, &true.into()));
    assert!(output.chars().all(|it| it == 'ä'), "{output}");
    assert_eq!(heard[5]["result"], serde_json::json!({ "exitCode": null, "signal": "SIGKILL" }), "{heard:?}");
    assert_eq!(heard[6]["result"]["output"], "begun\n");
}

impl Scene {
    fn heard_so_far(&self) -> usize {
        std::fs::read_to_string(self.world.path("work/heard.jsonl"))
            .unwrap_or_default()
            .lines()
            .filter(|line| line.contains(r#""id":1"#) && line.contains("result") && !line.contains("method"))
            .count()
    }
}

#[test]
fn a_terminal_ends_with_its_agent() {
    // The command leaves the session of its processes, and ignores the signal to end.
    let sleeper = r#""command":"sh","args":["-c","trap '' TERM; setsid sleep 600 & echo $$ >pid; wait"]"#;
    for ending in ["the prompt ends", "the agent is killed"] {
        let scene = Scene::new(&[("create", sleeper), ("wait", "")]);
        let mark = format!("MARK={}", scene.world.mark());
        let args = ["run", "--provider", "terms", "--permission", "yolo", "--env", &mark, "Go."];
        let run = scene.world.bowline(&args).start();
        // The agent, its command, and what that left behind.
        wait_until("the command", || {
            scene.world.path("work/pid").exists() && scene.world.agents().len() >= 3
        });
        if ending == "the prompt ends" {
            std::fs::write(scene.world.path("work/go"), "").expect("written");
            run.end().exits(0);
        } else {
            let pid = std::fs::read_to_string(scene.world.path("work/agent.pid")).expect("a pid");
            let agent = rustix::process::Pid::from_raw(pid.trim().parse().expect("a number")).expect("a pid");
            rustix::process::kill_process(agent, rustix::process::Signal::KILL).expect("it is alive");
            run.end();
        }
        wait_until(ending, || scene.world.agents().is_empty());
    }
}

#[test]
fn an_agent_has_at_most_16_terminals_until_it_releases_one() {
    let create = ("create", r#""command":"sleep","args":["600"]"#);
    let mut requests = vec![create; 17];
    requests.extend([("release", T1), create]);
    let heard = Scene::new(&requests).ends("yolo");
    assert!(heard[..16].iter().all(|answer| answer["result"]["terminalId"].is_string()), "{heard:?}");
    assert_eq!(heard[16]["error"]["code"], -32602, "{}", heard[16]);
    assert_eq!(heard[18]["result"]["terminalId"], "t17", "{}", heard[18]);
}
