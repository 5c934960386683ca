//! `bowline certify`: runs the contract suite against an agent program, without a network, an account or the user's settings.

mod executable;
mod matrix;
mod own_calls;
mod progress;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline::certificate::Certificate;
use bowline::detect::{self, Ask, Found, Missing, Probe, Search};
use bowline::journal::Home;
use bowline_certify::{CaseStatus, KeptFolders, Report, SuitePart, SuitePlan, TestedProgram, seclusion};
use bowline_providers::manifest::{Manifest, PromptStyle};
use bowline_providers::probe;

use crate::args::CertifyArgs;
use crate::async_runtime;
use crate::error::{CommandError, Fault};
use crate::signals::ProcessSignals;
use crate::time;
use crate::ui::{Stdout, Ui};
use crate::{remedies, suggest};
use progress::ProgressBar;

/// The only variables that we and the program keep: paths of programs, locale, terminal and temporary files. No keys.
const KEPT: [&str; 10] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TERM",
    "NO_COLOR",
    "TMPDIR",
    "BOWLINE_LOG",
    "RUST_BACKTRACE",
];

/// The timeout of a question about the program itself. Programs are slow on a busy machine.
const ASK_FOR: Duration = Duration::from_secs(20);

/// Runs the command.
pub(crate) fn run(args: &CertifyArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let manifest = match (&args.executable, &args.provider) {
        (Some(path), _) => super::executable::provider(path)?,
        (None, Some(name)) => suggest::listed(name)?.0,
        (None, None) => return Err(CommandError::new(Fault::Usage, "no provider is named")),
    };
    if manifest.prompt == PromptStyle::Request {
        return executable::run(args, manifest, stdout);
    }
    if !args.set.is_empty() || !args.env.is_empty() {
        let what = "`--set` and `--env` apply to executable providers only";
        let hint = "leave them out: an agent is certified in a clean environment";
        return Err(CommandError::new(Fault::Usage, what).hint(hint));
    }
    if manifest.simulate.is_none() {
        let (what, why) =
            (format!("`{}` cannot be certified", manifest.name), "its manifest has no `[simulate]` section");
        return Err(CommandError::new(Fault::Usage, what).caused_by(why));
    }
    args.only.iter().try_for_each(|name| suggest::case(name))?;
    let suite = if args.smoke { SuitePart::Smoke } else { SuitePart::Full };
    if bowline_certify::chosen(suite, &args.only).is_empty() {
        let what = "`--smoke` includes none of the named cases";
        return Err(CommandError::new(Fault::Usage, what).hint("leave out `--smoke`"));
    }
    let before = prepare(args, manifest)?;
    // Before the environment is cleared: it has the path of the user's data directory.
    let data_home = Home::from_env().ok();
    let found = detect::find(manifest, args.binary.as_deref(), &Search::from_env()).map_err(missing)?;
    let older = older(args, manifest)?;
    let scratch = scratch()?;
    let command = own_calls::command()?;

    // From here on there is no network, and the environment is clean. There must be no other thread yet.
    let home = scratch.join("home");
    let (network, why_open) = seclusion::enter(&KEPT, &[("HOME", home.as_os_str())]);
    let attempts_before = seclusion::attempts_to_leave().unwrap_or_default();
    let mut ui = Ui::new();
    if let Some(why) = why_open {
        ui.warning(&format!(
            "the program is not isolated from the network ({why}); only its settings direct it to the simulator"
        ));
    }
    let mut bar = ProgressBar::new(ui);
    let keep = if args.keep { KeptFolders::All } else { KeptFolders::Red };
    let runtime = async_runtime::start()?;
    let report = runtime.block_on(async {
        let mut signals = ProcessSignals::new()?;
        let tried = async {
            let mut subject = subject(manifest, &found).await;
            subject.older = older;
            let plan = SuitePlan {
                subject,
                command,
                suite,
                only: args.only.clone(),
                scratch: scratch.clone(),
                keep,
                network,
                attempts_before,
            };
            bowline_certify::certify(plan, |news| bar.tell(&news)).await
        };
        Ok::<_, CommandError>(tokio::select! {
            report = tried => Some(report),
            // The keeper kills the program under test when this process ends.
            _ = signals.stop() => None,
        })
    })?;
    let mut ui = bar.end();
    let Some(mut report) = report else {
        // This ends the tasks of the suite, before the files that they use are removed.
        drop(runtime);
        // A dying program may still write there; the directory is temporary.
        let _ = std::fs::remove_dir_all(&scratch);
        ui.status("interrupted; no result was saved");
        return Err(CommandError::told(130));
    };
    report.drift = before.map(|before| bowline_certify::drift(&before, &report));
    let whole = suite == SuitePart::Full && args.only.is_empty() && args.binary.is_none();
    if let Some(home) = data_home.filter(|_| whole) {
        keep_certificate(&report, &home, &mut ui);
    }
    finish(args, &report, Some(&scratch), stdout)
}

/// Finds the older version of the program, if one is named.
fn older(args: &CertifyArgs, manifest: &'static Manifest) -> Result<Option<PathBuf>, CommandError> {
    let Some(path) = &args.older else { return Ok(None) };
    let found = detect::find(manifest, Some(path), &Search::from_env()).map_err(missing)?;
    Ok(Some(found.program().to_owned()))
}

/// Saves the result of a whole suite for `bowline doctor` and the footer of runs. A part of the suite certifies nothing, and
/// neither does a program that a run would not start.
fn keep_certificate(report: &Report, home: &Home, ui: &mut Ui) {
    let Some(version) = &report.version else { return };
    let red = report.cells.iter().filter(|cell| cell.status == CaseStatus::Red);
    let failed = red.map(|cell| cell.case.clone()).collect();
    let kept = Certificate::new(&report.provider, version, time::now(), failed).keep(home);
    if let Err(error) = kept {
        let place = home.path().display();
        ui.warning(&format!("could not save the result in {place}: {error}"));
    }
}

/// Reads the older report and checks that the new one can be saved, before the suite runs for minutes.
fn prepare(args: &CertifyArgs, manifest: &Manifest) -> Result<Option<Report>, CommandError> {
    let before = args.against.as_deref().map(|file| read_report(file, manifest)).transpose()?;
    if let Some(file) = &args.save {
        // Remove the file again: an interrupted run must not leave an empty one.
        let tried = std::fs::write(fresh(file), "").and_then(|()| std::fs::remove_file(fresh(file)));
        tried.map_err(|error| not_saved(file, error))?;
    }
    Ok(before)
}

/// Queries the program about itself. A cached answer is not evidence, so the cache is off.
async fn subject(manifest: &'static Manifest, found: &Found) -> TestedProgram {
    let ask = Ask { deadline: ASK_FOR, cache: None, ..Ask::from_env() };
    let program = found.program().to_owned();
    match ask.probe(found).await {
        Ok(Probe { version, pages, .. }) => {
            let findings = probe::check(manifest, &pages, Some(&version));
            TestedProgram { manifest, program, older: None, version: Ok(version), pages, findings }
        }
        Err(error) => {
            let mut why = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                why.push_str(&format!(": {error}"));
                cause = error.source();
            }
            let (pages, findings) = (Vec::new(), Vec::new());
            TestedProgram { manifest, program, older: None, version: Err(why), pages, findings }
        }
    }
}

/// Reports a missing program, with the way to install it.
fn missing(missing: Missing) -> CommandError {
    let what = missing.to_string();
    let hint = remedies::hint(&missing.remedies);
    CommandError::new(Fault::Missing, what).caused_by(missing.kind).maybe_hint(hint)
}

fn finish(
    args: &CertifyArgs,
    report: &Report,
    scratch: Option<&Path>,
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    let json = serde_json::to_string_pretty(report)
        .map_err(|error| CommandError::new(Fault::Internal, "could not write the report").caused_by(error))?;
    if args.json {
        stdout.print(&format!("{json}\n"))?;
    } else {
        stdout.print(&matrix::draw(report))?;
    }
    stdout.flush()?;
    if let Some(file) = &args.save {
        let saved = std::fs::write(fresh(file), format!("{json}\n"));
        saved.and_then(|()| std::fs::rename(fresh(file), file)).map_err(|error| not_saved(file, error))?;
    }
    let Some(scratch) = scratch else {
        return if report.holds() { Ok(()) } else { Err(CommandError::told(1)) };
    };
    if report.holds() && !args.keep {
        // If this fails, the files stay in a temporary directory.
        let _ = std::fs::remove_dir_all(scratch);
        return Ok(());
    }
    let whose = if args.keep { "Files of the cases" } else { "Files of the red cases" };
    stdout.flush()?;
    Ui::new().status(&format!("{whose}: {}", scratch.display()));
    if report.holds() { Ok(()) } else { Err(CommandError::told(1)) }
}

fn read_report(file: &Path, manifest: &Manifest) -> Result<Report, CommandError> {
    let wrong = |cause: Box<dyn std::error::Error + Send + Sync>| {
        CommandError::new(Fault::Configuration, format!("could not read the report `{}`", file.display()))
            .caused_by(cause)
            .hint("use a report of `bowline certify PROVIDER --save FILE`")
    };
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.into()))?;
    let report: Report = serde_json::from_str(&text).map_err(|error| wrong(error.into()))?;
    if report.format != bowline_certify::FORMAT {
        return Err(wrong(
            format!(
                "the report has format {}; this version reads format {}",
                report.format,
                bowline_certify::FORMAT
            )
            .into(),
        ));
    }
    if report.provider != manifest.name {
        return Err(wrong(format!("the report is about {}, not {}", report.provider, manifest.name).into()));
    }
    Ok(report)
}

/// Creates an empty directory for homes, projects and journals. Its name cannot be guessed, and other users cannot enter it.
fn scratch() -> Result<PathBuf, CommandError> {
    use std::hash::BuildHasher as _;
    use std::os::unix::fs::DirBuilderExt as _;

    let base = std::env::temp_dir();
    // `RandomState` has new keys each time, so the name cannot be guessed.
    let number = std::hash::RandomState::new().hash_one(std::process::id());
    let dir = base.join(format!("bowline-certify-{number:016x}"));
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o700);
    let made = builder.create(&dir).and_then(|()| builder.create(dir.join("home")));
    made.map(|()| dir).map_err(|error| {
        let what = format!("could not create a scratch directory in `{}`", base.display());
        CommandError::new(Fault::Configuration, what)
            .caused_by(error)
            .hint("set TMPDIR to a writable directory")
    })
}

/// Returns the temporary file that replaces a file when it is complete.
fn fresh(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    file.with_file_name(name)
}

fn not_saved(file: &Path, error: std::io::Error) -> CommandError {
    let what = format!("could not save the report to `{}`", file.display());
    CommandError::new(Fault::Configuration, what).caused_by(error)
}
