//! The host that tests start as a separate process, because it is killed, has another user, or counts descriptors.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use bowline_process::{
    CgroupMode, Child, KeeperSource, Signal, SignalScope, Stdin, Supervisor, SupervisorOptions,
};

use crate::play::{hear, say, variable};
use crate::support::*;

/// Plays the host that `HOST` names.
pub(crate) fn host() -> ExitCode {
    match variable("HOST").as_deref() {
        Some("leak") => runtime().block_on(leak()),
        Some("tree") => {
            if variable("NET").as_deref() == Some("early") {
                bowline_process::keeper::start_early();
            }
            runtime().block_on(tree());
        }
        Some("detaches") => runtime().block_on(crate::detached::caller()),
        Some("next") => runtime().block_on(next()),
        Some("dropped") => dropped(),
        Some("fragile") => runtime().block_on(fragile()),
        Some("refused") => {
            let folder = variable("FOLDER").expect("is given");
            runtime().block_on(crate::errors::refused(folder.as_ref()));
            say("refused as it should");
        }
        other => panic!("no such host: {other:?}"),
    }
    ExitCode::SUCCESS
}

/// A service that root starts, and that becomes another user after it has begun: its keeper was started before that.
fn dropped() {
    // With threads the keeper is executed, without threads it is a copy.
    let runtime_first = variable("THREADS").is_some().then(runtime);
    bowline_process::keeper::start_early();
    #[expect(unsafe_code, reason = "no safe call changes the user of all threads")]
    // SAFETY: plain calls of the C library.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setgid(65534), 0);
        assert_eq!(libc::setuid(65534), 0);
    }
    let runtime = runtime_first.unwrap_or_else(runtime);
    let text = runtime.block_on(run(shell("id -u; id -g; id -G"))).text();
    say(&text.replace('\n', " "));
}

/// Runs a host as the user `nobody`, to its end.
#[expect(
    clippy::disallowed_methods,
    reason = "the host is started as a shell would, not by the crate under test"
)]
pub(crate) fn as_nobody(host: &str, folder: &Path) -> std::process::Output {
    std::process::Command::new("/proc/self/exe")
        .env("PLAY", "host")
        .env("HOST", host)
        .env("FOLDER", folder)
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output()
        .expect("starts")
}

/// Starts many children, some of which do not start, and counts descriptors.
async fn leak() {
    let supervisor = supervisor();
    let once = async || {
        let mut command = shell("cat");
        command.stdin = Stdin::Bytes(b"x".to_vec());
        let mut child = supervisor.spawn(command).await.expect("starts");
        Record::default().until_over(&mut child).await;
        let missing = supervisor.spawn(bowline_process::Command::new("/does/not/exist", "test")).await;
        assert!(missing.is_err());
    };
    let keeper = supervisor.keeper().expect("there is one").to_string();
    let count = |process: &str| std::fs::read_dir(format!("/proc/{process}/fd")).expect("reads").count();
    once().await;
    let before = (count("self"), count(&keeper));
    for _ in 0..100 {
        once().await;
    }
    // The keeper may still be closing those of the last child, now and at the first count.
    wait_until("no more descriptors than before", || count("self") <= before.0 && count(&keeper) <= before.1);
    say("no leak");
}

/// Starts a tree, waits for a line of input, and ends the tree in one of the ways.
async fn tree() {
    let given = |name| variable(name).expect("is given");
    let options = match given("NET").as_str() {
        "auto" | "early" => SupervisorOptions::default(),
        "never" => SupervisorOptions { cgroup: CgroupMode::Never, ..SupervisorOptions::default() },
        _ => SupervisorOptions { keeper: KeeperSource::None, ..SupervisorOptions::default() },
    };
    let supervisor = supervisor_with(options);
    let mut command = agent("tree");
    command.program = "/proc/self/exe".into();
    command.cwd = Some("/".into());
    command.env.push(("SHAPE".into(), given("SHAPE").into()));
    command.env.push(("PROOF".into(), given("HOST_PROOF").into()));
    command.marker = given("HOST_PROOF");
    command.env.extend(variable("PIPE").map(|pipe| ("PIPE".into(), pipe.into())));
    if given("END") != "done" {
        command.env.push(("STAYS".into(), "yes".into()));
    }
    let mut child = supervisor.spawn(command).await.expect("starts");
    let keeper = supervisor.keeper().map_or("none".to_owned(), |pid| pid.to_string());
    say(&format!("{} {keeper}", child.guarantee()));
    hear();
    let mut record = Record::default();
    end(&given("END"), &supervisor, &mut child, &mut record).await;
    record.until(&mut child, |record| record.swept.is_some()).await;
    let (ended, survivors) = record.swept.expect("was swept");
    say(&format!("swept, survivors: {}, ended: {ended:?}", survivors.len()));
    hear();
}

/// The run after a run whose host and keeper were killed. It has no journal, and does not know about the earlier run.
async fn next() {
    let never = variable("NET").as_deref() == Some("never");
    let cgroup = if never { CgroupMode::Never } else { CgroupMode::Auto };
    let supervisor = supervisor_with(SupervisorOptions { cgroup, ..SupervisorOptions::default() });
    let mut child = supervisor.spawn(shell("exit 0")).await.expect("starts");
    Record::default().until_over(&mut child).await;
    if let Some(marker) = variable("SETTLE") {
        // A run with a journal also ends the processes with the marker of the lost session.
        bowline_process::end_strays(&marker);
    }
}

async fn end(how: &str, supervisor: &Supervisor, child: &mut Child, record: &mut Record) {
    let control = child.control();
    match how {
        "done" => {
            record.until(child, |record| record.exit.is_some()).await;
            control.sweep(Duration::from_millis(50));
        }
        "cancel" => {
            control.signal(Signal::Interrupt, SignalScope::Leader);
            tokio::time::sleep(Duration::from_millis(50)).await;
            control.signal(Signal::Terminate, SignalScope::Tree);
            tokio::time::sleep(Duration::from_millis(50)).await;
            control.kill_tree();
            record.until(child, |record| record.exit.is_some()).await;
            control.sweep(Duration::ZERO);
        }
        "timeout" => {
            tokio::time::sleep(Duration::from_millis(50)).await;
            control.sweep(Duration::from_millis(100));
        }
        "runner-killed" | "both-killed" => std::future::pending().await,
        "keeper-killed" => {
            let keeper = supervisor.keeper().expect("there is one").cast_signed();
            let keeper = rustix::process::Pid::from_raw(keeper).expect("a number");
            rustix::process::kill_process(keeper, rustix::process::Signal::KILL).expect("is ours");
        }
        other => panic!("no such end: {other}"),
    }
}

/// A host that SIGPIPE would kill, like a host that is not a Rust program.
async fn fragile() {
    #[expect(unsafe_code, reason = "no safe call gives a signal its default")]
    // SAFETY: no code of ours runs for it.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL)
    };
    let mut command = shell("exec 0<&-; echo closed; sleep 1000");
    command.stdin = Stdin::Owned;
    let mut child = supervisor().spawn(command).await.expect("starts");
    let mut record = Record::default();
    record.until(&mut child, |record| !record.stdout.is_empty()).await;
    child.control().write(b"hello".to_vec());
    record.until(&mut child, |record| record.stdin_closed.is_some()).await;
    assert_eq!(record.stdin_closed, Some(true));
    say("alive");
}
