//! Fake agents as shell scripts, and ways to wait for what they do.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline::Task;
use bowline::testing::World;
use libtest_mimic::Trial;

/// Long enough for any machine that is not broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// What every fake agent can say, in the words of one provider.
const VOICE: &str = r#"
init() { printf '{"type":"system","subtype":"init","session_id":"n-1","model":"m-1","claude_code_version":"2.9.9"}\n'; }
say() { printf '{"type":"assistant","message":{"id":"%s","role":"assistant","content":[{"type":"text","text":"%s"}]},"session_id":"n-1"}\n' "$1" "$2"; }
result() { printf '{"type":"result","subtype":"success","is_error":false,"result":"%s","session_id":"n-1","usage":{"input_tokens":1,"output_tokens":2},"total_cost_usd":0.25}\n' "$1"; }
"#;

/// Reads the address and the token of the server for the tools from the agent's configuration. `call_tool NAME ARGUMENTS` then prints
/// the text of a result.
pub(crate) const CALL_TOOL: &str = r#"
while [ $# -gt 0 ]; do [ "$1" = --mcp-config ] && CONFIG=$2; shift; done
export SERVER=$(sed -n 's/.*"url":"http:\/\/\([^/"]*\)\/mcp".*/\1/p' "$CONFIG")
export TOKEN=$(sed -n 's/.*"Authorization":"Bearer \([^"]*\)".*/\1/p' "$CONFIG")
call_tool() {
    export BODY="{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"$1\",\"arguments\":$2}}"
    bash -c 'exec 3<>/dev/tcp/${SERVER%:*}/${SERVER#*:}
        printf "POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n" "$SERVER" "$TOKEN" >&3
        printf "Content-Type: application/json\r\nContent-Length: %s\r\n\r\n%s" "${#BODY}" "$BODY" >&3
        cat <&3' | sed -n 's/.*"text":"\([^"]*\)".*/\1/p'
}
"#;

/// A world with a fake agent.
pub(crate) struct Stage {
    pub(crate) world: World,
    agent: PathBuf,
}

impl Stage {
    /// Writes an agent: `$HERE` is a directory in which it and the test can leave each other signs.
    pub(crate) fn new(body: &str) -> Self {
        let world = bowline::testing::world();
        let agent = world.path().join("agent");
        let here = world.path().display();
        let text = format!("#!/bin/sh\nHERE='{here}'\n{VOICE}\n{body}\n");
        bowline_testkit::write_program(&agent, text);
        Self { world, agent }
    }

    /// Returns a task for the agent.
    pub(crate) fn task(&self, prompt: &str) -> Task {
        self.world.task(prompt).provider("claude").binary(&self.agent).cwd(self.world.path())
    }

    pub(crate) fn agent(&self) -> &Path {
        &self.agent
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.world.path().join(name)
    }

    /// Waits for a process id that the agent wrote.
    pub(crate) fn pid(&self, name: &str) -> u32 {
        let path = self.path(name);
        let mut pid = None;
        wait_for(&format!("a process id in {name}"), || {
            pid = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
            pid.is_some()
        });
        pid.expect("it was waited for")
    }
}

/// Returns whether a process is there and not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until something holds.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "tests read the clock")]
    let until = std::time::Instant::now() + PATIENCE;
    while !holds() {
        #[expect(clippy::disallowed_methods, reason = "tests read the clock")]
        let now = std::time::Instant::now();
        assert!(now < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes a test of an async function.
pub(crate) fn trial<F: Future<Output = ()> + 'static>(name: &str, test: fn() -> F) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(test());
        Ok(())
    })
}

/// Makes a test of a plain function.
pub(crate) fn plain(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}
