//! An agent that takes the place of the runner: it gets no prompt and gives no receipt.

use std::path::Path;

use bowline_testkit::skip;
use rustix::process::Signal;

use super::session::{LiveWorld, Session};
use crate::world::wait_until;

/// A process of the agent: it waits for its gate, binds the socket's path, and notes each line that it gets. It answers as a runner
/// would.
const IMPOSTOR: &str = r#"
use Socket;
$SIG{PIPE} = 'IGNORE';
my ($path, $session) = @ARGV;
sub note { open(my $to, '>>', $_[0]); syswrite($to, $_[1]); close($to); }
open(my $gate, '<', 'gate-take'); <$gate>;
unlink $path;
socket(my $all, PF_UNIX, SOCK_STREAM, 0) or die;
bind($all, pack_sockaddr_un($path)) or die;
listen($all, 8) or die;
note('taken', 'yes');
while (accept(my $client, $all)) {
    while (my $line = <$client>) {
        note('stolen', $line);
        my $answer = $line =~ /"hello"/
            ? qq({"hello":{"version":1,"session":"$session","head":1,"rights":"full"}}\n)
            : qq({"id":1,"receipt":{"receipt":"done"}}\n);
        syswrite($client, $answer);
    }
}
"#;

/// Starts a session whose agent has an impostor below it, in a session of its own and with a cleared environment.
fn with_impostor(live: &LiveWorld) -> Session<'_> {
    std::fs::write(live.path("work/impostor.pl"), IMPOSTOR).expect("writes");
    live.gate("gate-take");
    let session = live.start(None, &["--permission", "yolo"]);
    let (socket, id) = (session.socket.display(), &session.id);
    let launch = format!(
        "setsid env -i /usr/bin/perl impostor.pl '{socket}' '{id}' </dev/null >/dev/null 2>impostor.err &\n"
    );
    std::fs::write(live.path("work/launch.sh"), launch).expect("writes");
    session.send(&["tool run sh launch.sh", "say ready"], &[]);
    session.has_played(1);
    session
}

/// Stops a runner, and waits until each of its threads is stopped: until then it may still bind its path again.
fn stop(session: &Session<'_>) {
    rustix::process::kill_process(session.runner, Signal::STOP).expect("it lives");
    let tasks = format!("/proc/{}/task", session.runner.as_raw_nonzero());
    let is_stopped = |stat: String| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"));
    wait_until("every thread is stopped", || {
        let all = std::fs::read_dir(&tasks).expect("its threads").flatten();
        all.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok()).all(is_stopped)
    });
}

/// Lets the impostor take the path, and waits until it listens.
fn take(live: &LiveWorld) {
    live.open_gate("gate-take");
    wait_until("the impostor listens", || live.path("work/taken").exists());
}

fn stolen(live: &LiveWorld) -> String {
    std::fs::read_to_string(live.path("work/stolen")).unwrap_or_default()
}

#[test]
fn an_agent_cannot_take_prompts_in_the_place_of_the_runner() {
    if !Path::new("/usr/bin/perl").exists() {
        return skip("an_agent_cannot_take_prompts_in_the_place_of_the_runner", "there is no perl here");
    }
    let live = LiveWorld::new();
    let session = with_impostor(&live);
    // A runner that is stopped does not bind its path again.
    stop(&session);
    take(&live);
    for order in [&["send", "secret plan"][..], &["deny"], &["wait"], &["status"]] {
        let ended = session.order(order[0], &order[1..]).exits(3);
        ended.tells(&["which is not the runner: it descends from the keeper", "hint: nothing was sent"]);
    }
    rustix::process::kill_process(session.runner, Signal::CONT).expect("it lives");
    // Within a second, not at the runner's next check, which comes once a minute.
    wait_until("the runner binds its path again", || session.order("status", &[]).status.success());
    session.send(&["say genuine"], &[]);
    session.has_played(2);
    assert_eq!(stolen(&live), "");
    let journal = session.stop();
    assert_eq!(journal.text(), "readygenuine");
}

#[test]
fn a_link_to_the_socket_of_another_session_delivers_nothing() {
    let live = LiveWorld::new();
    let one = live.start(None, &["--name", "one"]);
    let other = live.start(None, &["--name", "other"]);
    // An agent of either session can do that; so can this test.
    stop(&one);
    std::fs::remove_file(&one.socket).expect("removes");
    std::os::unix::fs::symlink(&other.socket, &one.socket).expect("a link");
    one.order("send", &["for one"]).exits(3).tells(&["which is not the runner"]);
    rustix::process::kill_process(one.runner, Signal::CONT).expect("it lives");
    assert_eq!(other.of("prompt_queued").len(), 0);
    wait_until("the runner binds its path again", || one.order("status", &[]).status.success());
    live.end(&["stop", "--all"]).exits(0);
    one.is_gone();
}
