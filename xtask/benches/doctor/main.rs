//! Measures `bowline doctor` on the real programs. Run by `cargo xtask bench doctor`; see there for why.
//!
//! Cold: no cache has an answer of any of them, and each has an empty home. Warm: the same again. Beside it stands what the programs cost
//! when each says its version and nothing else. Wall-clock time on a shared machine says little, so that CPU time stands with it:
//! of all descendants, which the keeper waits for, and we for the keeper.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use bowline_certify::seclusion;
use bowline_providers::catalogue;

/// What has to hold with eight programs on two processors, in seconds.
const COLD: f64 = 8.0;
const WARM: f64 = 0.5;

/// What something took, in seconds.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

fn main() -> Result<()> {
    // There is no other thread yet.
    let (_, why_open) = seclusion::enter(&[], &[]);
    if let Some(why) = why_open {
        bail!("the programs are not cut off from the network: {why}");
    }
    run()
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [bowline, repeats, node, programs @ ..] = &args[..] else {
        bail!("run this by `cargo xtask bench doctor`")
    };
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let scratch = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("bowline-bench-doctor-{}", std::process::id()));
    let measured = measure(bowline, repeats.parse()?, node, programs, &scratch);
    std::fs::remove_dir_all(&scratch)?;
    measured
}

fn measure(bowline: &str, repeats: usize, node: &str, programs: &[String], scratch: &Path) -> Result<()> {
    let bin = scratch.join("bin");
    std::fs::create_dir_all(&bin)?;
    let mut asked = Vec::new();
    for program in programs {
        let (provider, path) = program.split_once('=').context("a provider and its program")?;
        let manifest = catalogue::by_name(provider).context("what is pinned is in the catalogue")?;
        let link = bin.join(&manifest.program);
        std::os::unix::fs::symlink(path, &link)?;
        asked.push((link, manifest.detect.version_args.clone()));
    }
    let dirs = [bin, PathBuf::from(node), "/usr/bin".into(), "/bin".into()];
    let path = std::env::join_paths(dirs.iter().filter(|dir| !dir.as_os_str().is_empty()))?;
    let (mut cold, mut warm, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..repeats {
        let home = |name: &str| -> Result<PathBuf> {
            let home = scratch.join(format!("{name}-{round}"));
            std::fs::create_dir_all(&home)?;
            Ok(home)
        };
        let own = home("home")?;
        let doctor =
            || took(&[(bowline.into(), vec!["doctor".into(), "--json".into()])], &own, &path, asked.len());
        cold.push(doctor()?);
        warm.push(doctor()?);
        bare.push(took(&asked, &home("bare")?, &path, asked.len())?);
    }
    let (cold, warm, bare) = (middle(&mut cold), middle(&mut warm), middle(&mut bare));
    let processors = std::thread::available_parallelism()?.get();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "\n{} programs, {processors} processors, {repeats} rounds, the middle one of each",
        asked.len()
    )?;
    writeln!(out, "{:<34} {:>8} {:>8}", "", "wall", "CPU")?;
    for (what, took, limit) in [
        ("doctor, cold", cold, Some(COLD)),
        ("doctor, warm", warm, Some(WARM)),
        ("bare `--version`, one by one", bare, None),
    ] {
        let verdict = match limit {
            Some(limit) if took.wall <= limit => format!("at most {limit} s: holds"),
            Some(limit) => format!("at most {limit} s: DOES NOT HOLD"),
            None => String::new(),
        };
        writeln!(out, "{what:<34} {:>6.2} s {:>6.2} s  {verdict}", took.wall, took.cpu)?;
    }
    Ok(())
}

/// Runs commands one after the other. The exit code of the doctor shows that no provider is logged in.
#[expect(clippy::disallowed_methods, reason = "the commands are started as a person does")]
fn took(
    commands: &[(PathBuf, Vec<String>)],
    home: &Path,
    path: &std::ffi::OsStr,
    all: usize,
) -> Result<Took> {
    let (began, before) = (Instant::now(), children_cpu()?);
    for (program, args) in commands {
        let output = Command::new(program)
            .args(args)
            .env_clear()
            .env("PATH", path)
            .env("HOME", home)
            .current_dir(home)
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let doctor = args[0] == "doctor";
        ensure!(doctor || output.status.success(), "{} failed: {}", program.display(), output.status);
        let answers = said.matches("\"health\": \"answers\"").count();
        ensure!(!doctor || answers == all, "{answers} of {all} programs answered the doctor: {said}");
    }
    let wall = began.elapsed().as_secs_f64();
    // The keeper outlives the command by a moment and is ours then.
    while rustix::process::wait(rustix::process::WaitOptions::empty()).is_ok_and(|waited| waited.is_some()) {}
    Ok(Took { wall, cpu: children_cpu()? - before })
}

/// Returns the CPU time of all descendants that ended and were waited for.
fn children_cpu() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().context("no name")?.split_whitespace().collect();
    let ticks: u64 = fields[13].parse::<u64>()? + fields[14].parse::<u64>()?;
    Ok(ticks as f64 / 100.0)
}

/// Returns the one in the middle, by what it cost.
fn middle(all: &mut [Took]) -> Took {
    all.sort_by(|a, b| a.wall.total_cmp(&b.wall));
    all[all.len() / 2]
}
