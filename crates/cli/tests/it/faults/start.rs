//! Programs that cannot be started, and directories that are not there.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use bowline_testkit::skip;

use crate::world::{Ended, NOBODY, World, is_root};

/// Runs a program as Claude Code.
fn start(world: &World, binary: &Path) -> Ended {
    world.run("claude", "hi").with(&[OsStr::new("--binary"), binary.as_os_str()]).end()
}

/// What is told of a program that is not missing.
const THERE: &str = "error: the agent is installed, but cannot be started";

/// A result, as a shell script prints it.
const RESULT: &str =
    "echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\"}'";

#[test]
fn a_missing_program() {
    let world = World::new();
    let binary = world.path("no-such-agent");
    start(&world, &binary).exits(4).tells(&[
        "error: the agent is not installed",
        "there is no such program",
        "hint: check",
        "--binary",
    ]);
    world.journal().check();

    let world = World::new();
    let ended = world.run("claude", "hi").env("PATH", world.path("tmp")).end().exits(4);
    ended.tells(&[
        "could not start `claude`",
        "hint: install it with `npm install -g @anthropic-ai/claude-code@latest`",
        "--binary",
    ]);
    world.journal().check();
}

/// The async runtime panics where it gets no descriptors or no threads; who set the limits is to be told instead.
#[test]
fn limits_that_are_too_low() {
    for limit in ["ulimit -n 5", "ulimit -n 8", "ulimit -n 10", "ulimit -n 12", "ulimit -n 16"] {
        let world = World::new();
        let ended = world.practice(&["say done"]).after(limit).end().exits(3);
        assert!(!ended.stderr.contains("panicked"), "{limit}: {}", ended.stderr);
        ended.tells(&[
            "error: could not open 20 more files",
            "caused by: Too many open files",
            "hint: raise the limit with",
        ]);
        assert!(world.journals_begun().is_empty(), "{limit}: nothing was begun");
    }
    let world = World::new();
    let ended = world.practice(&["say done"]).after("ulimit -n 32").end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    if !is_root() {
        return skip("limits_that_are_too_low", "only root can become another user");
    }
    // Some shells write it in one way, some in the other.
    for limit in ["ulimit -u 1 2>/dev/null || ulimit -p 1", "ulimit -u 2 2>/dev/null || ulimit -p 2"] {
        let world = World::new();
        let ended = world.practice(&["say done"]).user(NOBODY).after(limit).end().exits(3);
        assert!(!ended.stderr.contains("panicked"), "{limit}: {}", ended.stderr);
        ended.tells(&["error: could not start 4 threads", "caused by: Resource temporarily", "`ulimit -u`"]);
    }
}

#[test]
fn a_program_that_is_not_executable() {
    let world = World::new();
    let binary = world.script("agent", RESULT);
    world.mode(&binary, 0o644);
    start(&world, &binary).exits(4).tells(&[THERE, "not executable", "hint: check"]);
    world.journal().check();

    let world = World::new();
    start(&world, &world.path("work")).exits(4).tells(&[THERE, "could not start", "hint: check"]);
    world.journal().check();
}

#[test]
fn a_program_of_another_architecture() {
    let world = World::new();
    // A header of ELF for a machine that does not exist here: 64 bits, big-endian, number 0xfe77.
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    elf.extend([0, 2, 0xfe, 0x77, 0, 0, 0, 1]);
    elf.resize(4096, 0);
    let binary = world.path("agent");
    bowline_testkit::write_program(&binary, elf);
    start(&world, &binary).exits(4).tells(&[THERE, "could not start", "hint: check"]);
    world.journal().check();
}

#[test]
fn a_script_whose_interpreter_is_missing() {
    let world = World::new();
    let binary = world.path("agent");
    bowline_testkit::write_program(&binary, "#!/no/such/interpreter\n");
    start(&world, &binary).exits(4).tells(&[THERE, "interpreter", "hint: check"]);
    world.journal().check();
}

#[test]
fn a_program_that_this_user_may_not_run() {
    if !is_root() {
        return skip("a_program_that_this_user_may_not_run", "only root can become another user");
    }
    let world = World::new();
    let binary = world.script("agent", RESULT);
    world.mode(&binary, 0o700);
    let call = world.run("claude", "hi").with(&[OsStr::new("--binary"), binary.as_os_str()]);
    call.user(NOBODY).end().exits(4).tells(&[THERE, "could not start", "hint: check"]);
    world.journal().check();
}

#[test]
fn a_program_that_is_being_updated() {
    let world = World::new();
    let binary = world.script("agent", RESULT);
    let writer = std::fs::OpenOptions::new().append(true).open(&binary).unwrap();
    if !kernel_refuses(&binary) {
        return skip("a_program_that_is_being_updated", "this kernel starts programs that are being written");
    }
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(writer);
    });
    let ended = start(&world, &binary).exits(0);
    assert_eq!(ended.stdout, "done\n");
    release.join().unwrap();
    world.journal().check().ended("completed");
}

#[test]
fn a_program_whose_update_never_ends() {
    let world = World::new();
    let binary = world.script("agent", RESULT);
    let _writer = std::fs::OpenOptions::new().append(true).open(&binary).unwrap();
    if !kernel_refuses(&binary) {
        return skip(
            "a_program_whose_update_never_ends",
            "this kernel starts programs that are being written",
        );
    }
    start(&world, &binary).exits(4).tells(&[THERE, "could not start", "hint: wait until its update is done"]);
    world.journal().check();
}

/// Some kernels (6.11 and 6.12) start a program that is open for writing.
#[expect(clippy::disallowed_methods, reason = "what the kernel does is asked of the kernel")]
fn kernel_refuses(binary: &Path) -> bool {
    let tried = std::process::Command::new(binary).stdout(std::process::Stdio::null()).status();
    tried.is_err_and(|error| error.kind() == std::io::ErrorKind::ExecutableFileBusy)
}

#[test]
fn a_directory_that_is_missing() {
    let world = World::new();
    let ended = world.practice(&["say hi"]).with(&["--cwd", "/no/such/place"]).end().exits(2);
    ended.tells(&["error: `--cwd /no/such/place` is not a directory", "hint: "]);
    assert!(world.journals().is_empty(), "nothing was begun");
}

#[test]
fn a_directory_that_this_user_may_not_enter() {
    if !is_root() {
        return skip("a_directory_that_this_user_may_not_enter", "only root can become another user");
    }
    let world = World::new();
    let private = world.path("private");
    std::fs::create_dir(&private).unwrap();
    world.mode(&private, 0o700);
    let call = world.practice(&["say hi"]).with(&[OsStr::new("--cwd"), private.as_os_str()]);
    call.user(NOBODY).end().exits(3).tells(&["error: ", "private", "hint: "]);
    world.journal().check();
}

#[test]
fn our_own_directory_is_gone() {
    let world = World::new();
    let gone = world.path("gone");
    std::fs::create_dir(&gone).unwrap();
    let mut command = world.practice(&["say hi"]).command();
    command.current_dir(&gone);
    let mut shell = crate::support::in_shell("rmdir ../gone && exec \"$0\" \"$@\"");
    shell.arg(command.get_program()).args(command.get_args()).env_clear().current_dir(&gone);
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("hint: ") && stderr.contains("--cwd"), "{stderr}");
    world.nobody_is_left();
}
