//! `cargo xtask test`: everything that must pass, in the order in which a mistake is cheapest to find. CI runs exactly
//! this.
//!
//! The first step that fails ends the run, with the command that repeats it. A step that needs a missing tool or the
//! network is skipped with its reason; if `CI` is set, that is a failure. The last lines list the skipped steps and tests.
//!
//! Tests that skip themselves: the runner hides what passing tests print, so they append a line, `<test>: <reason>`, to
//! the file that this command names in `BOWLINE_SKIPPED_FILE`. `bowline_testkit::skip` does that. Tests with an
//! `ignore` attribute (a tidy rule forbids it) and ignored examples in documentation are found and listed as well.

use anyhow::{Result, bail};

use crate::args::Test;
use crate::sh::{self, Call, Stopwatch};
use crate::{check, report};

/// The version of cargo-deny, pinned because its checks grow with its versions.
const DENY: &str = "0.20.2";

/// The default time to fuzz.
const FUZZ_SECONDS: u64 = 20;
const FUZZ_SECONDS_CI: u64 = 300;

/// The result of a step that did not fail.
#[derive(Debug)]
enum Outcome {
    Done,
    Skipped(String),
}

/// The options of the steps, and the tests that they skipped.
#[derive(Debug)]
struct Context {
    fuzz_seconds: u64,
    skipped: Vec<String>,
}

type Step = (&'static str, fn(&mut Context) -> Result<Outcome>);

const STEPS: &[Step] = &[
    ("format", format),
    ("lints", lints),
    ("tests", tests),
    ("the second reading of the recordings", oracle),
    ("examples in the documentation", doc_tests),
    ("documentation", documentation),
    ("wasm", wasm),
    ("macOS and Windows", other_systems),
    ("static program in an empty root", static_program),
    ("licences and sources", deny),
    ("real programs", real_programs),
    ("fuzzing", fuzzing),
];

/// Runs every step.
pub fn run(args: &Test) -> Result<()> {
    let default = if sh::is_ci() { FUZZ_SECONDS_CI } else { FUZZ_SECONDS };
    let mut context = Context { fuzz_seconds: args.fuzz_seconds.unwrap_or(default), skipped: Vec::new() };
    let whole = Stopwatch::start();
    for (name, step) in STEPS {
        report::line(format_args!("==> {name}"));
        let time = Stopwatch::start();
        match step(&mut context).map_err(|error| error.context(format!("the step `{name}` failed")))? {
            Outcome::Done => report::line(format_args!("    {name}: {:.1} s", time.elapsed().as_secs_f64())),
            Outcome::Skipped(reason) if sh::is_ci() => {
                bail!("the step `{name}` must not be skipped in CI: {reason}")
            }
            Outcome::Skipped(reason) => context.skipped.push(format!("{name}: {reason}")),
        }
    }
    report::line(format_args!("==> all passed in {:.1} s", whole.elapsed().as_secs_f64()));
    if context.skipped.is_empty() {
        report::line("skipped: none");
    } else {
        report::line("skipped:");
        context.skipped.iter().for_each(|what| report::line(format_args!("  {what}")));
        if sh::is_ci() {
            bail!("nothing may be skipped in CI");
        }
    }
    Ok(())
}

fn format(_: &mut Context) -> Result<Outcome> {
    Call::cargo("fmt --all --check").run()?;
    // Not `--all`: that would follow the paths out of fuzz/ and format the rest a second time.
    Call::cargo("fmt --manifest-path fuzz/Cargo.toml --check").run()?;
    check::format_of_provider_folders()?.run()?;
    Ok(Outcome::Done)
}

fn lints(_: &mut Context) -> Result<Outcome> {
    Call::cargo("clippy --workspace --all-targets --all-features -- -D warnings").run()?;
    Ok(Outcome::Done)
}

fn tests(context: &mut Context) -> Result<Outcome> {
    install_programs();
    let skipped = sh::root().join("target/skipped-tests");
    std::fs::create_dir_all(sh::root().join("target"))?;
    std::fs::write(&skipped, "")?;
    let marked = |call: Call| call.env("BOWLINE_SKIPPED_FILE", &skipped);
    if Call::cargo("nextest --version").works() {
        marked(Call::cargo("nextest run --workspace --all-features --no-tests fail --no-fail-fast")).run()?;
        let ignored = "nextest list --workspace --all-features --run-ignored only --message-format oneline";
        let ignored = Call::cargo(ignored).words("--cargo-quiet").output()?;
        context.skipped.extend(ignored.lines().map(|test| format!("{test}: ignored")));
    } else {
        let call = marked(Call::cargo("test --workspace --all-features --lib --bins --tests"));
        call.run_watching(|line| context.skipped.extend(ignored(line)))?;
    }
    context.skipped.extend(std::fs::read_to_string(&skipped)?.lines().map(str::to_owned));
    Ok(Outcome::Done)
}

/// Installs the shells that the completion scripts are tried in, and tmux, in which `attach` is tried. Without root or apt, those tests
/// report that they were skipped.
fn install_programs() {
    // tmux has no `--version`.
    let programs = [("zsh", "--version"), ("fish", "--version"), ("tmux", "-V")];
    let missing = programs.iter().filter(|(program, version)| !Call::new(program).arg(version).works());
    let missing: Vec<_> = missing.map(|(program, _)| *program).collect();
    if missing.is_empty() || !Call::new("apt-get").arg("--version").works() {
        return;
    }
    report::line(format_args!("    installing {}", missing.join(" and ")));
    let install =
        Call::new("apt-get").words("install --yes --no-install-recommends").words(&missing.join(" "));
    let install = install.env("DEBIAN_FRONTEND", "noninteractive");
    if install.clone().quiet_output().is_ok() {
        return;
    }
    // A new machine has no package lists. If this fails too, the tests themselves name the shell that they lack.
    let _ = Call::new("apt-get").arg("update").quiet_output();
    let _ = install.quiet_output();
}

/// Compares the output of the script that reads the recordings a second time with the copy that the tests read.
fn oracle(_: &mut Context) -> Result<Outcome> {
    let python = |words: &str| Call::new("python3").words(words);
    if !python("--version").works() {
        return Ok(Outcome::Skipped("there is no python3".to_owned()));
    }
    python("fixtures/oracle/oracle.py --selftest fixtures").run()?;
    let output = python("fixtures/oracle/oracle.py fixtures").quiet_output()?;
    let kept = std::fs::read_to_string(sh::root().join("fixtures/oracle/oracle.jsonl"))?;
    if output.trim() != kept.trim() {
        bail!(
            "fixtures/oracle/oracle.jsonl differs from the output of the script: write it again, and read the difference"
        );
    }
    Ok(Outcome::Done)
}

fn doc_tests(context: &mut Context) -> Result<Outcome> {
    let call = Call::cargo("test --workspace --all-features --doc");
    call.run_watching(|line| context.skipped.extend(ignored(line)))?;
    Ok(Outcome::Done)
}

/// Reads a line of the standard test runner: the name of a test that it ignored.
fn ignored(line: &str) -> Option<String> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    result.starts_with("ignored").then(|| format!("{name}: {result}"))
}

fn documentation(_: &mut Context) -> Result<Outcome> {
    Call::cargo("doc --workspace --no-deps --all-features").env("RUSTDOCFLAGS", "-D warnings").run()?;
    Ok(Outcome::Done)
}

fn wasm(_: &mut Context) -> Result<Outcome> {
    const TARGET: &str = "wasm32-unknown-unknown";
    if !sh::has_target(TARGET)? {
        return Ok(Outcome::Skipped(format!("the target {TARGET} is missing and rustup could not add it")));
    }
    let check = Call::cargo("check --package bowline-protocol --target").arg(TARGET);
    check.run()?;
    check.words("--all-features").run()?;
    Ok(Outcome::Done)
}

/// The thinking crates and the spawner have to compile for the other systems. They are not run there.
fn other_systems(_: &mut Context) -> Result<Outcome> {
    let targets = [
        ("x86_64-apple-darwin", ["CC_x86_64_apple_darwin", "AR_x86_64_apple_darwin"]),
        ("x86_64-pc-windows-gnu", ["CC_x86_64_pc_windows_gnu", "AR_x86_64_pc_windows_gnu"]),
    ];
    for (target, tools) in targets {
        if !sh::has_target(target)? {
            return Ok(Outcome::Skipped(format!(
                "the target {target} is missing and rustup could not add it"
            )));
        }
        // A dependency of the shell's grammar (`psm`) assembles a file. There is no assembler for these systems here, and nothing is
        // linked, so its compiler is a program that does nothing.
        let check =
            Call::cargo("check --package bowline-engine --package bowline-process --target").arg(target);
        tools.into_iter().fold(check, |check, tool| check.env(tool, "true")).run()?;
    }
    Ok(Outcome::Done)
}

/// Builds the static program, and runs it where nothing else is.
fn static_program(_: &mut Context) -> Result<Outcome> {
    Ok(crate::dist::check_static_program()?.map_or(Outcome::Done, Outcome::Skipped))
}

fn deny(_: &mut Context) -> Result<Outcome> {
    let Some(program) = cargo_deny() else {
        return Ok(Outcome::Skipped(format!("cargo-deny {DENY} is missing and could not be installed")));
    };
    program.words("--workspace --all-features check bans licenses sources").run()?;
    Ok(Outcome::Done)
}

/// Finds cargo-deny on the PATH or among our tools, or installs it there.
fn cargo_deny() -> Option<Call> {
    let version = format!("cargo-deny {DENY}");
    let usable =
        |call: &Call| call.clone().arg("--version").quiet_output().is_ok_and(|said| said.trim() == version);
    let on_path = Call::new("cargo-deny");
    if usable(&on_path) {
        return Some(on_path);
    }
    let tools = sh::tools()?;
    let ours = Call::new(tools.join("bin/cargo-deny"));
    if !usable(&ours) {
        report::line(format_args!("    installing {version}, which takes some minutes, once"));
        let install = Call::cargo("install --quiet --locked cargo-deny --version").arg(DENY);
        install.arg("--root").arg(tools).run().ok()?;
    }
    usable(&ours).then_some(ours)
}

/// The contract suite on the real programs. `BOWLINE_REAL_CLIS=skip` leaves it out, visibly.
fn real_programs(_: &mut Context) -> Result<Outcome> {
    if sh::variable("BOWLINE_REAL_CLIS").is_some_and(|value| value == "skip") {
        return Ok(Outcome::Skipped("BOWLINE_REAL_CLIS is `skip`".to_owned()));
    }
    crate::certify::whole()?;
    Ok(Outcome::Done)
}

fn fuzzing(context: &mut Context) -> Result<Outcome> {
    // libFuzzer is C++ and is built with the targets.
    if !Call::new("c++").arg("--version").works() {
        return Ok(Outcome::Skipped("there is no C++ compiler to build libFuzzer with".to_owned()));
    }
    crate::fuzz::run_for(context.fuzz_seconds, None, crate::fuzz::Search::Again)?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::ignored;

    #[test]
    fn ignored_tests_are_found_in_the_runners_output() {
        assert_eq!(
            ignored("test a::b ... ignored, no terminal"),
            Some("a::b: ignored, no terminal".to_owned())
        );
        assert_eq!(ignored("test a::b ... ok"), None);
        assert_eq!(ignored("running 2 tests"), None);
    }
}
