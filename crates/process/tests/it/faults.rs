//! Faults of agents, each played by a real child.

use std::time::Duration;

use bowline_process::{
    CgroupMode, ChildEvent, ExitStatus, KeeperError, Signal, SignalScope, SpawnErrorKind, Stdin,
    SupervisorOptions,
};
use bowline_testkit::skip;
use libtest_mimic::Trial;

use crate::support::*;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("faults::the_keeper_is_killed", the_keeper_is_killed),
        trial("faults::a_start_right_after_the_keeper_died", a_start_right_after_the_keeper_died),
        trial(
            "faults::a_keeper_that_is_stopped_while_it_is_asked",
            a_keeper_that_is_stopped_while_it_is_asked,
        ),
        trial("faults::a_cleared_environment_does_not_help", a_cleared_environment_does_not_help),
        trial("faults::a_broken_pipe_does_not_kill_the_host", a_broken_pipe_does_not_kill_the_host),
        trial("faults::strays_are_found_by_their_marker", strays_are_found_by_their_marker),
        trial("faults::a_session_inside_a_session", a_session_inside_a_session),
        trial("faults::a_host_that_drops_its_rights", a_host_that_drops_its_rights),
    ];
    let both = [
        trials_with_and_without_keeper("faults::stdin_never_read", stdin_never_read),
        trials_with_and_without_keeper("faults::stdin_without_a_reader", stdin_without_a_reader),
        trials_with_and_without_keeper(
            "faults::stdin_closed_while_nothing_is_written",
            stdin_closed_while_nothing_is_written,
        ),
        trials_with_and_without_keeper("faults::ten_megabytes_both_ways", ten_megabytes_both_ways),
        trials_with_and_without_keeper("faults::flood_of_stderr", flood_of_stderr),
        trials_with_and_without_keeper("faults::a_grandchild_holds_stdout", a_grandchild_holds_stdout),
        trials_with_and_without_keeper(
            "faults::killed_processes_are_reported",
            killed_processes_are_reported,
        ),
        trials_with_and_without_keeper("faults::stdout_closed_early", stdout_closed_early),
        trials_with_and_without_keeper("faults::terminate_is_ignored", terminate_is_ignored),
        trials_with_and_without_keeper("faults::a_stopped_child_is_swept", a_stopped_child_is_swept),
        trials_with_and_without_keeper("faults::two_hundred_at_once", two_hundred_at_once),
    ];
    trials.extend(both.into_iter().flatten());
    trials
}

const TEN_MEGABYTES: usize = 10 * 1024 * 1024;

/// The most bytes of one read or write. Larger pieces would leave the cache before events are made of them.
const LONGEST_PIECE: usize = 16 * 1024;

async fn stdin_never_read() {
    let mut command = shell("echo answer; echo more >&2; sleep 1000");
    command.stdin = Stdin::Bytes(vec![b'p'; TEN_MEGABYTES]);
    let mut child = supervisor().spawn(command).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| !record.stdout.is_empty() && !record.stderr.is_empty()).await;
    assert!(record.stdin.len() < TEN_MEGABYTES && record.stdin_closed.is_none());
    child.control().kill_tree();
    record.until_over(&mut child).await;
    assert_eq!(record.exit, Some(ExitStatus::Signal(9)));
}

async fn stdin_without_a_reader() {
    let mut command = shell("head -c 100000 >/dev/null; exec 0<&-; echo enough");
    command.stdin = Stdin::Bytes(vec![b'p'; TEN_MEGABYTES]);
    let mut child = supervisor().spawn(command).await.expect("starts");
    let mut record = Record::default();
    record.until_over(&mut child).await;
    record.until(&mut child, |record| record.stdin_closed.is_some()).await;
    assert_eq!((record.text().as_str(), record.stdin_closed), ("enough\n", Some(true)));
    assert!(record.stdin.len() >= 100_000 && record.stdin.len() < TEN_MEGABYTES);
    assert_eq!(record.exit, Some(ExitStatus::Code(0)));
}

async fn stdin_closed_while_nothing_is_written() {
    let mut command = shell("read line; exec 0<&-; echo $line; sleep 1000");
    command.stdin = Stdin::Owned;
    let mut child = supervisor().spawn(command).await.expect("starts");
    let mut record = Record::default();
    child.control().write(b"first\n".to_vec());
    record.until(&mut child, |record| record.stdin_closed.is_some()).await;
    assert_eq!((record.stdin_closed, record.exit), (Some(true), None));
}

async fn ten_megabytes_both_ways() {
    let prompt: Vec<u8> = (0..TEN_MEGABYTES).map(|number| (number % 251) as u8).collect();
    let mut command = shell("cat");
    command.stdin = Stdin::Bytes(prompt.clone());
    let record = run(command).await;
    assert!(record.stdout == prompt && record.stdin == prompt, "what went in came out");
    assert!(record.longest <= LONGEST_PIECE, "{}", record.longest);
    assert_eq!(record.exit, Some(ExitStatus::Code(0)));
}

async fn flood_of_stderr() {
    let record = run(agent("flood")).await;
    assert_eq!((record.stderr.len(), record.text().as_str()), (TEN_MEGABYTES, "done\n"));
    assert!(record.longest <= LONGEST_PIECE, "{}", record.longest);
}

async fn a_grandchild_holds_stdout() {
    let mut child = supervisor().spawn(shell("sleep 1000 & echo answer")).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| record.exit.is_some() && !record.stdout.is_empty()).await;
    let drained = tokio::time::timeout(Duration::from_millis(300), child.next()).await;
    assert!(drained.is_err(), "the pipe is still held: {drained:?}");
    child.control().sweep(Duration::from_millis(100));
    record
        .until(&mut child, |record| record.swept.is_some() && record.stdout_closed && record.stderr_closed)
        .await;
    assert_eq!((record.text().as_str(), record.exit), ("answer\n", Some(ExitStatus::Code(0))));
}

/// One process ends on SIGTERM, the other one does not.
async fn killed_processes_are_reported() {
    let script = "sleep 1000 & (trap '' TERM; echo deaf; while :; do sleep 1; done) & wait";
    let mut child = supervisor().spawn(shell(script)).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| !record.stdout.is_empty()).await;
    child.control().signal(Signal::Kill, SignalScope::Leader);
    record.until(&mut child, |record| record.exit.is_some()).await;
    child.control().sweep(Duration::from_millis(200));
    record.until(&mut child, |record| record.swept.is_some()).await;
    let (ended, _) = record.swept.expect("was swept");
    let count = |killed| ended.iter().filter(|it| it.killed == killed).count();
    // Not by their command lines: `sleep` has the shell's until it has called `exec`, and none any more while it exits.
    assert_eq!(count(false), 1, "{ended:?}");
    assert!(ended.iter().any(|it| it.killed && it.command.starts_with("/bin/sh")), "{ended:?}");
}

async fn stdout_closed_early() {
    let mut command = agent("closes-stdout");
    command.stdin = Stdin::Owned;
    let mut child = supervisor().spawn(command).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| record.stdout_closed).await;
    assert_eq!((record.text().as_str(), record.exit, is_alive(child.pid())), ("before\n", None, true));
    child.control().close_stdin();
    record.until_over(&mut child).await;
    assert_eq!(record.exit, Some(ExitStatus::Code(0)));
}

async fn terminate_is_ignored() {
    let mut child = supervisor().spawn(agent("deaf")).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| !record.stdout.is_empty()).await;
    child.control().signal(Signal::Terminate, SignalScope::Tree);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), child.next()).await.is_err(),
        "it does not care"
    );
    child.control().sweep(Duration::from_millis(200));
    record.until(&mut child, |record| record.swept.is_some()).await;
    assert_eq!(record.exit, Some(ExitStatus::Signal(9)));
}

async fn a_stopped_child_is_swept() {
    let mut child = supervisor().spawn(shell("echo ready; sleep 1000")).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| !record.stdout.is_empty()).await;
    child.control().signal(Signal::Stop, SignalScope::Tree);
    // The sweep continues it so that SIGTERM is delivered, and the long grace is not needed.
    child.control().sweep(Duration::from_secs(50));
    record.until(&mut child, |record| record.swept.is_some()).await;
    assert_eq!(record.exit, Some(ExitStatus::Signal(15)));
}

async fn the_keeper_is_killed() {
    let supervisor = supervisor();
    let mut child = supervisor.spawn(shell("setsid sleep 1000 & echo $!; sleep 1000")).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| record.text().ends_with('\n')).await;
    let (leader, other) = (child.pid(), record.text().trim().parse::<u32>().expect("a number"));
    let keeper = supervisor.keeper().expect("there is one");
    let pid = rustix::process::Pid::from_raw(keeper.cast_signed()).expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("is ours");
    record.until(&mut child, |record| record.swept.is_some()).await;
    assert!(record.keeper_lost);
    assert_eq!(record.exit, Some(ExitStatus::Unknown));
    assert!(!is_alive(leader) && !is_alive(other));
    // The run that waits for its sweep gets a `Swept`, and the next one a new keeper.
    record.swept = None;
    child.control().sweep(Duration::ZERO);
    record.until(&mut child, |record| record.swept.is_some()).await;
    let mut next = supervisor.spawn(shell("echo again")).await.expect("starts");
    let mut record = Record::default();
    record.until_over(&mut next).await;
    assert_eq!((record.text().as_str(), record.exit), ("again\n", Some(ExitStatus::Code(0))));
    assert_ne!(supervisor.keeper(), Some(keeper));
}

/// An agent knows the process id of its keeper and may stop it; here for a while, at each moment at which a reply is due. The
/// host recovers by itself: the test does not continue the keeper.
async fn a_keeper_that_is_stopped_while_it_is_asked() {
    let supervisor = supervisor();
    let keeper = supervisor.keeper().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    let keeper = keeper.expect("there is one");
    let stop = move || rustix::process::kill_process(keeper, rustix::process::Signal::STOP).expect("is ours");
    for _ in 0..3 {
        let (begun, began) = std::sync::mpsc::channel();
        let stops = std::thread::spawn(move || {
            let since = now();
            while since.elapsed() < Duration::from_millis(300) {
                stop();
                let _ = begun.send(());
            }
        });
        began.recv().expect("it was stopped");
        let start = tokio::time::timeout(
            Duration::from_secs(15),
            supervisor.spawn(shell("echo started; sleep 1000")),
        );
        let mut child = start.await.expect("a start does not hang").expect("starts");
        stops.join().expect("ends");
        let mut record = Record::default();
        record.until(&mut child, |record| record.text() == "started\n").await;
        // Once more, without a request under way. The sweep continues the keeper, and the exit that it could not report is
        // reported.
        stop();
        child.control().sweep(Duration::ZERO);
        record.until(&mut child, |record| record.swept.is_some()).await;
        let (_, survivors) = record.swept.take().expect("was swept");
        assert_eq!(
            (survivors, record.exit, is_alive(child.pid())),
            (Vec::new(), Some(ExitStatus::Signal(9)), false)
        );
    }
}

async fn two_hundred_at_once() {
    let supervisor = supervisor();
    let runs: Vec<_> = (0..200)
        .map(|number| {
            let supervisor = supervisor.clone();
            tokio::spawn(async move {
                let script = format!("sleep 1000 & read line; echo {number} $line; exit {}", number % 100);
                let mut command = shell(&script);
                command.stdin = Stdin::Bytes(b"hello\n".to_vec());
                let mut child = supervisor.spawn(command).await.expect("starts");
                let mut record = Record::default();
                record.until(&mut child, |record| record.exit.is_some()).await;
                child.control().sweep(Duration::ZERO);
                record.until_over(&mut child).await;
                record.until(&mut child, |record| record.swept.is_some()).await;
                assert_eq!(record.text(), format!("{number} hello\n"));
                assert_eq!(record.exit, Some(ExitStatus::Code(number % 100)));
                let (ended, survivors) = record.swept.expect("was swept");
                assert_eq!((ended.len(), survivors.len()), (1, 0), "{ended:?}");
                let last = tokio::time::timeout(Duration::from_millis(1), child.next()).await;
                assert!(!matches!(last, Ok(ChildEvent::Exited(_))));
            })
        })
        .collect();
    for run in runs {
        run.await.expect("succeeds");
    }
}

/// Marker and session are gone. Only the keeper, which inherits all orphans, still finds the process.
async fn a_cleared_environment_does_not_help() {
    for cgroup in [CgroupMode::Auto, CgroupMode::Never] {
        let supervisor = supervisor_with(SupervisorOptions { cgroup, ..SupervisorOptions::default() });
        // A duration that no other process sleeps for.
        let script = "(setsid env -i sleep 98765 & echo $!) ; echo gone >&2";
        let mut child = supervisor.spawn(shell(script)).await.expect("starts");
        let mut record = Record::default();
        record.until(&mut child, |record| record.exit.is_some() && record.text().ends_with('\n')).await;
        let stray = record.text().trim().parse::<u32>().expect("a number");
        let has_executed =
            || std::fs::read(format!("/proc/{stray}/environ")).is_ok_and(|read| read.is_empty());
        wait_until("its environment is empty", has_executed);
        assert!(is_alive(stray));
        child.control().sweep(Duration::ZERO);
        record.until(&mut child, |record| record.swept.is_some()).await;
        assert!(!is_alive(stray), "{cgroup:?}");
        let (ended, _) = record.swept.expect("was swept");
        assert_eq!(ended.iter().map(|one| one.pid).collect::<Vec<_>>(), [stray]);
    }
}

/// An agent that is itself a host: its keeper and its tree end with it, or after it.
async fn a_session_inside_a_session() {
    for cgroup in [CgroupMode::Auto, CgroupMode::Never] {
        let supervisor = supervisor_with(SupervisorOptions { cgroup, ..SupervisorOptions::default() });
        let proof = format!("{}-inside-{cgroup:?}", std::process::id());
        let mut command = agent("host");
        command.stdin = Stdin::Owned;
        for (name, value) in [
            ("HOST", "tree"),
            ("SHAPE", "daemon"),
            ("END", "runner-killed"),
            ("NET", "auto"),
            ("HOST_PROOF", &proof),
        ] {
            command.env.push((name.into(), value.into()));
        }
        let mut child = supervisor.spawn(command).await.expect("starts");
        let mut record = Record::default();
        record.until(&mut child, |record| record.text().ends_with('\n')).await;
        let keeper: u32 =
            record.text().trim().rsplit(' ').next().and_then(|pid| pid.parse().ok()).expect("a number");
        let variable = format!("PROOF={proof}");
        wait_until("the inner tree stands", || marked(&variable).len() == 3);
        child.control().sweep(Duration::ZERO);
        record.until(&mut child, |record| record.swept.is_some()).await;
        wait_until("the inner keeper and its tree are gone", || {
            marked(&variable).is_empty() && !is_alive(keeper)
        });
        let (_, survivors) = record.swept.expect("was swept");
        assert_eq!(survivors, []);
    }
}

async fn a_broken_pipe_does_not_kill_the_host() {
    let mut command = agent("host");
    command.env.push(("HOST".into(), "fragile".into()));
    let record = run(command).await;
    assert_eq!((record.text().as_str(), record.exit), ("alive\n", Some(ExitStatus::Code(0))));
}

/// Finds processes of a session by their marker alone. The test with host and keeper really gone is `tree::*::both-killed`.
async fn strays_are_found_by_their_marker() {
    let marker = format!("lost-{}", std::process::id());
    let mut command = shell("setsid sh -c 'echo $$; sleep 1000'");
    command.marker.clone_from(&marker);
    let supervisor =
        supervisor_with(SupervisorOptions { cgroup: CgroupMode::Never, ..SupervisorOptions::default() });
    let mut child = supervisor.spawn(command).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| record.text().ends_with('\n')).await;
    let stray = record.text().trim().parse::<u32>().expect("a number");
    assert!(is_alive(stray));
    let found = bowline_process::end_strays(&marker);
    assert!(!is_alive(stray) && found.survivors.is_empty());
    assert!(found.ended.iter().any(|one| one.pid == stray), "{found:?}");
    assert_eq!(bowline_process::end_strays(&marker), bowline_process::StrayReport::default());
}

/// Agents of a service that has dropped root must not run as root either.
async fn a_host_that_drops_its_rights() {
    if !rustix::process::getuid().is_root() {
        skip("faults::a_host_that_drops_its_rights", "only root has rights to drop");
        return;
    }
    for threads in [None, Some("yes")] {
        let mut command = agent("host");
        command.cwd = Some("/".into());
        command.env.push(("HOST".into(), "dropped".into()));
        command.env.extend(threads.map(|yes| ("THREADS".into(), yes.into())));
        let record = run(command).await;
        assert_eq!(record.text(), "65534 65534 65534 \n", "{threads:?} {record:?}");
    }
}

async fn a_start_right_after_the_keeper_died() {
    let supervisor = supervisor();
    let first = supervisor.keeper();
    for _ in 0..20 {
        let keeper = supervisor.keeper().expect("there is one").cast_signed();
        let keeper = rustix::process::Pid::from_raw(keeper).expect("a number");
        // The keeper may have died after its last start already.
        let _ = rustix::process::kill_process(keeper, rustix::process::Signal::KILL);
        let mut child = match supervisor.spawn(shell("echo again")).await {
            Ok(child) => child,
            // The signal came late: the keeper got the request and died before it replied.
            Err(error) => {
                let is_lost = matches!(error.kind, SpawnErrorKind::Keeper(KeeperError::Lost));
                assert!(is_lost, "{error:?}");
                continue;
            }
        };
        let mut record = Record::default();
        record.until(&mut child, |record| record.exit.is_some()).await;
        assert!(record.exit == Some(ExitStatus::Code(0)) || record.keeper_lost, "{record:?}");
    }
    assert_ne!(supervisor.keeper(), first);
}
