//! The inputs of a child, and the events about it.

use std::time::Duration;

use bowline_process::{
    CgroupMode, ExitStatus, Guarantee, Signal, SignalScope, Stdin, Stdio, SupervisorOptions,
};
use libtest_mimic::Trial;

use crate::support::*;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("basics::no_cgroup_when_not_wanted", no_cgroup_when_not_wanted),
        trial("basics::the_keeper_goes_with_the_supervisor", the_keeper_goes_with_the_supervisor),
    ];
    let both = [
        trials_with_and_without_keeper("basics::output_and_code", output_and_code),
        trials_with_and_without_keeper("basics::a_signal_is_a_signal", a_signal_is_a_signal),
        trials_with_and_without_keeper(
            "basics::the_environment_is_the_given_one",
            the_environment_is_the_given_one,
        ),
        trials_with_and_without_keeper("basics::stdin_bytes_then_end", stdin_bytes_then_end),
        trials_with_and_without_keeper("basics::stdin_owned", stdin_owned),
        trials_with_and_without_keeper("basics::a_child_inherits_nothing", a_child_inherits_nothing),
        trials_with_and_without_keeper("basics::a_terminal", a_terminal),
        trials_with_and_without_keeper("basics::a_dropped_child_is_ended", a_dropped_child_is_ended),
        trials_with_and_without_keeper("basics::a_dropped_next_loses_nothing", a_dropped_next_loses_nothing),
        trials_with_and_without_keeper(
            "basics::the_leader_alone_is_signalled",
            the_leader_alone_is_signalled,
        ),
        trials_with_and_without_keeper("basics::a_large_command_passes", a_large_command_passes),
    ];
    trials.extend(both.into_iter().flatten());
    trials
}

async fn output_and_code() {
    let record = run(shell("echo out; echo err >&2; exit 3")).await;
    assert_eq!((record.text().as_str(), &record.stderr[..]), ("out\n", &b"err\n"[..]));
    assert_eq!(record.exit, Some(ExitStatus::Code(3)));
}

async fn a_signal_is_a_signal() {
    assert_eq!(run(shell("kill -9 $$")).await.exit, Some(ExitStatus::Signal(9)));
    assert_eq!(run(shell("kill -15 $$")).await.exit, Some(ExitStatus::Signal(15)));
    assert_eq!(run(shell("exit 143")).await.exit, Some(ExitStatus::Code(143)));
}

async fn the_environment_is_the_given_one() {
    let mut command = agent("environment");
    command.env.push(("GIVEN".into(), "x y".into()));
    command.env.push(("BOWLINE_SESSION_ID".into(), "somebody else's".into()));
    command.env.push(("BOWLINE_KEEPER".into(), "auto".into()));
    command.cwd = Some("/usr".into());
    let text = run(command).await.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let spawn = lines.iter().position(|line| line.starts_with("BOWLINE_SPAWN=")).expect("has the mark");
    assert!(lines.remove(spawn).len() > "BOWLINE_SPAWN=".len() + 16);
    assert_eq!(lines, ["BOWLINE_SESSION_ID=test-session", "GIVEN=x y", "PLAY=environment", "cwd=/usr"]);
}

async fn stdin_bytes_then_end() {
    let record = run_with(shell("cat"), Stdin::Bytes(b"hello".to_vec())).await;
    assert_eq!((record.text().as_str(), record.stdin_closed), ("hello", Some(false)));
    assert_eq!(record.stdin, b"hello");
    let record = run_with(shell("cat"), Stdin::Null).await;
    assert_eq!((record.text().as_str(), record.stdin_closed), ("", None));
    let record = run_with(shell("cat"), Stdin::Bytes(Vec::new())).await;
    assert_eq!((record.text().as_str(), record.stdin_closed), ("", Some(false)));
}

async fn stdin_owned() {
    let mut command = shell("while read line; do echo got $line; done; echo over");
    command.stdin = Stdin::Owned;
    let mut child = supervisor().spawn(command).await.expect("starts");
    let mut record = Record::default();
    for question in ["one", "two", "three"] {
        child.control().write(format!("{question}\n").into_bytes());
        let expected = format!("got {question}\n");
        record.until(&mut child, |record| record.text().ends_with(&expected)).await;
    }
    child.control().close_stdin();
    child.control().write(b"too late\n".to_vec());
    record.until_over(&mut child).await;
    assert_eq!(record.text(), "got one\ngot two\ngot three\nover\n");
    assert_eq!((record.stdin, record.stdin_closed), (b"one\ntwo\nthree\n".to_vec(), Some(false)));
}

async fn a_child_inherits_nothing() {
    // A descriptor without close-on-exec, as careless programs create them.
    let file = tempfile::tempfile().expect("opens");
    let leaked = rustix::io::dup(&file).expect("duplicates");
    let supervisor = supervisor();
    drop(leaked);
    let mut child = supervisor.spawn(agent("state")).await.expect("starts");
    let mut record = Record::default();
    record.until_over(&mut child).await;
    let text = record.text();
    let own = format!("session={0} group={0}", child.pid());
    for expected in
        ["descriptors=0,1,2", "blocked=0000000000000000", "ignored=0000000000000000", own.as_str()]
    {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
}

async fn a_terminal() {
    let mut command = shell(
        "test -t 0 && test -t 1 && test -t 2 && stty size; read line; echo said $line; stty size; cat; echo end",
    );
    command.stdin = Stdin::Owned;
    command.stdio = Stdio::Terminal { rows: 30, cols: 90 };
    let mut child = supervisor().spawn(command).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| record.text().contains("30 90")).await;
    child.control().resize(40, 100);
    child.control().write(b"hello\n".to_vec());
    record.until(&mut child, |record| record.text().contains("said hello")).await;
    child.control().write(b"half a line".to_vec());
    child.control().close_stdin();
    record.until_over(&mut child).await;
    assert!(record.text().contains("40 100"), "{}", record.text());
    assert!(record.text().trim_end().ends_with("end"), "{}", record.text());
    assert_eq!(record.exit, Some(ExitStatus::Code(0)));
    assert_eq!(record.stdin_closed, Some(false));
}

async fn a_dropped_child_is_ended() {
    let supervisor = supervisor();
    let mut child = supervisor.spawn(shell("sleep 1000 & echo $!; sleep 1000")).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| record.text().ends_with('\n')).await;
    let (leader, other) = (child.pid(), record.text().trim().parse::<u32>().expect("a number"));
    assert!(is_alive(leader) && is_alive(other));
    let control = child.control();
    drop(child);
    wait_until("both are gone", || !is_alive(leader) && !is_alive(other));
    // Nothing is left to act on, and the call does no harm.
    control.kill_tree();
    control.write(b"x".to_vec());
}

async fn a_dropped_next_loses_nothing() {
    let mut child = supervisor()
        .spawn(shell("i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); done"))
        .await
        .expect("starts");
    let mut record = Record::default();
    while !(record.exit.is_some() && record.stdout_closed && record.stderr_closed) {
        tokio::select! {
            biased;
            event = child.next() => record.take(event),
            () = tokio::task::yield_now() => {}
        }
    }
    let expected: String = (0..300).map(|number| format!("{number}\n")).collect();
    assert_eq!(record.text(), expected);
}

async fn the_leader_alone_is_signalled() {
    let supervisor = supervisor();
    let mut child = supervisor.spawn(shell("sleep 1000 & echo $!; wait")).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| record.text().ends_with('\n')).await;
    let other = record.text().trim().parse::<u32>().expect("a number");
    // Between fork and exec it still has the name of the shell.
    let name = || std::fs::read_to_string(format!("/proc/{other}/comm")).unwrap_or_default();
    wait_until("it sleeps", || name() == "sleep\n");
    child.control().signal(Signal::Terminate, SignalScope::Leader);
    record.until(&mut child, |record| record.exit.is_some()).await;
    assert_eq!(record.exit, Some(ExitStatus::Signal(15)));
    assert!(is_alive(other) && !record.stdout_closed, "it holds the pipe");
    child.control().sweep(Duration::from_secs(20));
    record.until(&mut child, |record| record.swept.is_some()).await;
    let (ended, survivors) = record.swept.take().expect("was swept");
    assert_eq!(ended.iter().map(|one| one.pid).collect::<Vec<_>>(), [other]);
    assert!(ended[0].command.starts_with("sleep 1000"), "{ended:?}");
    assert_eq!(survivors, []);
    record.until_over(&mut child).await;
    // A second sweep finds nothing, and reports that.
    child.control().sweep(Duration::ZERO);
    record.until(&mut child, |record| record.swept.is_some()).await;
    assert_eq!(record.swept, Some((Vec::new(), Vec::new())));
}

async fn a_large_command_passes() {
    let mut command = shell("echo ${#1} ${#BIG}");
    command.args.extend(["sh".into(), "x".repeat(120_000).into()]);
    for number in 0..8 {
        command.env.push((format!("FILL{number}").into(), "y".repeat(100_000).into()));
    }
    command.env.push(("BIG".into(), "z".repeat(100_000).into()));
    assert_eq!(run(command).await.text(), "120000 100000\n");
}

async fn no_cgroup_when_not_wanted() {
    let supervisor =
        supervisor_with(SupervisorOptions { cgroup: CgroupMode::Never, ..SupervisorOptions::default() });
    assert_eq!(supervisor.guarantee(), Guarantee::Subreaper);
    let mut child = supervisor.spawn(shell("cat /proc/self/cgroup")).await.expect("starts");
    assert_eq!(child.guarantee(), Guarantee::Subreaper);
    let mut record = Record::default();
    record.until_over(&mut child).await;
    assert!(!record.text().contains("bowline"), "{}", record.text());
}

async fn the_keeper_goes_with_the_supervisor() {
    let supervisor = supervisor();
    let keeper = supervisor.keeper().expect("there is one");
    let name = std::fs::read_to_string(format!("/proc/{keeper}/comm")).expect("reads");
    assert_eq!(name, "bowline-keeper\n");
    let child = supervisor.spawn(shell("sleep 1000")).await.expect("starts");
    let pid = child.pid();
    drop(supervisor);
    assert!(is_alive(keeper) && is_alive(pid), "the child holds its keeper");
    drop(child);
    // It is reaped as well, not only dead.
    wait_until("the keeper is gone", || !std::path::Path::new(&format!("/proc/{keeper}")).exists());
    assert!(!is_alive(pid));
}
