//! The parts that this binary plays when a test executes it again: agents of all shapes, and a host.

use std::io::{BufRead, Read, Write};
use std::process::{Command as Program, ExitCode, Stdio};
use std::time::Duration;

/// Plays the part that `PLAY` names, if it names one.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    // A process without an environment gets its part by its arguments.
    let told = || std::env::args().nth(1).and_then(|arg| arg.strip_prefix("PLAY=").map(str::to_owned));
    let role = variable("PLAY").or_else(told)?;
    match role.as_str() {
        "environment" => environment(),
        "state" => state(),
        "sleep" => sleep(),
        "setsid" => {
            let _ = rustix::process::setsid();
            start("sleep");
            sleep();
        }
        "setsid-alone" => {
            let _ = rustix::process::setsid();
            sleep();
        }
        "daemon-middle" => {
            // The second half of a double fork: a session of its own, then a child, then gone.
            let _ = rustix::process::setsid();
            start("setsid");
        }
        "stopped" => stop_oneself(),
        "hopper" => hop(),
        "subreaper" => {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("may");
            begin("daemon-middle").wait().expect("ends");
            sleep();
        }
        "other-user" => {
            become_nobody();
            sleep();
        }
        "leaves-cgroup" => {
            leave_cgroup();
            sleep();
        }
        "tree" => tree(),
        "connects" => {
            let _socket = connect();
            sleep();
        }
        "hands-on" => hand_on(),
        "detached-runner" => crate::detached::runner(),
        "host" => return Some(crate::host::host()),
        "flood" => flood(),
        "deaf" => deaf(),
        "closes-stdout" => closes_stdout(),
        "started" => started(),
        other => panic!("no such part: {other}"),
    }
    Some(ExitCode::SUCCESS)
}

#[expect(clippy::disallowed_methods, reason = "this is how a part is given")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[expect(clippy::print_stdout, reason = "an agent prints")]
pub(crate) fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("flushes");
}

/// Starts this binary in another part. It inherits everything, above all the environment.
#[expect(clippy::disallowed_methods, reason = "an agent starts what it likes")]
fn begin(role: &str) -> std::process::Child {
    Program::new("/proc/self/exe").env("PLAY", role).stdin(Stdio::null()).spawn().expect("starts")
}

fn connect() -> std::os::unix::net::UnixStream {
    let path = variable("SOCKET").expect("is given");
    std::os::unix::net::UnixStream::connect(path).expect("connects")
}

/// Connects, passes the socket to a child as its standard input, and exits while the child holds it for a second.
#[expect(clippy::disallowed_methods, reason = "an agent starts what it likes")]
fn hand_on() {
    let socket = std::os::fd::OwnedFd::from(connect());
    drop(Program::new("/bin/sleep").arg("1").stdin(socket).spawn().expect("starts"));
}

/// Starts it and does not wait for it, as agents do.
fn start(role: &str) {
    drop(begin(role));
}

/// Starts a process with no environment and a session of its own: neither marker nor session shows where it comes from.
#[expect(clippy::disallowed_methods, reason = "an agent starts what it likes")]
fn start_cleared() {
    let proof = format!("PROOF={}", variable("PROOF").expect("has a proof"));
    let mut command = Program::new("/proc/self/exe");
    command.env_clear().args(["PLAY=setsid-alone", &proof]).stdin(Stdio::null());
    drop(command.spawn().expect("starts"));
}

/// Starts five hundred at once.
#[expect(clippy::disallowed_methods, reason = "an agent starts what it likes")]
fn start_many() {
    for _ in 0..500 {
        let mut command = Program::new("/bin/sleep");
        drop(command.arg("600").stdin(Stdio::null()).spawn().expect("starts"));
    }
}

fn environment() {
    for (name, value) in std::env::vars() {
        say(&format!("{name}={value}"));
    }
    say(&format!("cwd={}", std::env::current_dir().expect("is somewhere").display()));
}

fn state() {
    let mut descriptors: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .expect("reads")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    descriptors.sort_unstable();
    // The last one is the directory that was just read.
    descriptors.pop();
    let descriptors: Vec<String> = descriptors.iter().map(ToString::to_string).collect();
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("is there");
        u64::from_str_radix(line.trim(), 16).expect("is a number")
    };
    // Rust itself ignores SIGPIPE in every program, before its `main`.
    let ignored = mask("SigIgn:") & !(1 << (13 - 1));
    say(&format!(
        "descriptors={} blocked={:016x} ignored={ignored:016x} session={} group={}",
        descriptors.join(","),
        mask("SigBlk:"),
        rustix::process::getsid(None).expect("has one").as_raw_nonzero(),
        rustix::process::getpgrp().as_raw_nonzero(),
    ));
}

/// Stops itself, with SIGTERM ignored: only SIGKILL ends it.
fn stop_oneself() {
    ignore_terminate();
    let own = rustix::process::getpid();
    loop {
        rustix::process::kill_process(own, rustix::process::Signal::STOP).expect("is ourselves");
    }
}

/// Forks and exits, again and again, so that each scan of `/proc` finds another process. It ends by itself after at most
/// about twenty seconds: a chain that escaped a failing test would otherwise use up all process ids of the machine.
#[expect(unsafe_code, reason = "no safe call forks")]
fn hop() {
    ignore_terminate();
    // All its copies hold it open.
    let pipe = std::fs::OpenOptions::new().write(true).open(variable("PIPE").expect("is given"));
    let _pipe = pipe.expect("opens");
    // Limited: a chain that escaped a failing test would use up all process ids of the machine.
    for _ in 0..3000 {
        // SAFETY: this process has one thread, and the copy does what this process does.
        if unsafe { libc::fork() } > 0 {
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(0) };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[expect(unsafe_code, reason = "no safe call changes the user")]
fn become_nobody() {
    // SAFETY: a plain call of the C library.
    assert_eq!(unsafe { libc::setuid(65534) }, 0, "only root plays this");
}

/// Moves to the root of all cgroups, as root may.
fn leave_cgroup() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("reads");
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"));
    let mount = mount.and_then(|line| line.split(' ').nth(1)).expect("there are cgroups");
    std::fs::write(format!("{mount}/cgroup.procs"), std::process::id().to_string()).expect("may leave");
}

/// Stays, and ignores SIGTERM.
fn sleep() {
    ignore_terminate();
    std::thread::sleep(Duration::from_secs(600));
}

#[expect(unsafe_code, reason = "no safe call ignores a signal")]
fn ignore_terminate() {
    // SAFETY: ignoring runs no code of ours. A group that loses its leader while it is stopped gets SIGHUP from the kernel.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
    }
}

/// An agent that starts others in the shape of `SHAPE`, then stays or goes, as `STAYS` says.
fn tree() {
    let shape = variable("SHAPE").expect("has a shape");
    let stays = variable("STAYS").is_some();
    match shape.as_str() {
        "plain" => {
            start("sleep");
            start("sleep");
        }
        "setsid" => start("setsid"),
        "daemon" => drop(begin("daemon-middle").wait().expect("ends")),
        "stopped" => {
            start("stopped");
            start("stopped");
        }
        "hopper" => start("hopper"),
        "subreaper" => start("subreaper"),
        "other-user" => start("other-user"),
        "leaves-cgroup" => start("leaves-cgroup"),
        "cleared" => start_cleared(),
        "many" => start_many(),
        "launcher" => {
            // `npx` and similar programs: the started program only starts the real one.
            start("setsid");
            start("sleep");
            return;
        }
        other => panic!("no such shape: {other}"),
    }
    if stays {
        sleep();
    }
}

/// Prints a lot to standard error while standard output is quiet, then one line.
fn flood() {
    let line = [b'e'; 4096];
    for _ in 0..2560 {
        std::io::stderr().write_all(&line).expect("writes");
    }
    say("done");
}

/// Prints that it is ready, ignores SIGTERM, and stays.
fn deaf() {
    ignore_terminate();
    say("ready");
    std::thread::sleep(Duration::from_secs(600));
}

/// Closes standard output and lives on until its input ends.
fn closes_stdout() {
    say("before");
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null").expect("opens");
    rustix::stdio::dup2_stdout(&null).expect("replaces");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("reads");
}

/// Prints when its `main` began, by the monotonic clock that all processes share.
fn started() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    say(&format!("{}", i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)));
}

/// Waits for one line on standard input.
pub(crate) fn hear() -> String {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("reads");
    line
}
