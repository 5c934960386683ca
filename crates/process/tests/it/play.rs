//! The parts that this binary plays when a test executes it again: agents of all shapes, and a host.

use std::io::{BufRead, Read, Write};
use std::process::{Command as Program, ExitCode, Stdio};
use std::time::Duration;

/// Plays the part that `PLAY` names, if it names one.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let role = variable("PLAY")?;
    match role.as_str() {
        "environment" => environment(),
        "state" => state(),
        "sleep" => sleep(),
        "setsid" => {
            let _ = rustix::process::setsid();
            start("sleep");
            sleep();
        }
        "daemon-middle" => {
            // The second half of a double fork: a session of its own, then a child, then gone.
            let _ = rustix::process::setsid();
            start("setsid");
        }
        "tree" => tree(),
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

/// Starts it and does not care for it any more, as agents do.
fn start(role: &str) {
    drop(begin(role));
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

/// Stays, and does not care for SIGTERM.
fn sleep() {
    ignore_terminate();
    std::thread::sleep(Duration::from_secs(600));
}

#[expect(unsafe_code, reason = "no safe call ignores a signal")]
fn ignore_terminate() {
    // SAFETY: ignoring runs no code of ours.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
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
        "launcher" => {
            // `npx` and its like: what was started is only the way to the program.
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

/// Says that it is there, ignores SIGTERM, and stays.
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

/// Says when its `main` began, by the monotonic clock that all processes share.
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
