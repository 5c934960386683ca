//! `bowline demo`: the production road with the practice agent, for people who want to see before they install.
//!
//! Nothing here is staged: a scratch repository, a real child process, the real journal. The scratch repository stays, so
//! that what is printed at the end can be looked at.

use std::path::PathBuf;

use bowline::PermissionMode;
use bowline::journal::Home;
use bowline_practice::PROVIDER;
use bowline_providers::ansi;

use crate::args::DemoArgs;
use crate::commands::run;
use crate::error::{CommandError, Fault};
use crate::human::{Detail, wrapped};
use crate::output::Stdout;
use crate::output::sink::{Format, Sink};
use crate::terminal;

/// What the practice agent is asked to do.
const PROMPT: &str = "Make the greeting friendlier, and say what changed.";

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    bowline::start_keeper();
    run::runtime()?.block_on(play(args, stdout))
}

async fn play(args: &DemoArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let dir = scratch()?;
    let git = bowline::repository_in(&dir, "demo").await;
    let shown = dir.display();
    let words = wrapped(
        "This is a demonstration: the practice agent, a script inside bowline, works in a scratch repository. \
         No model, no network, no account. Everything else is what you get with a real agent.",
        terminal::stdout_width().min(100),
    );
    stdout.print(&format!(
        "{words}\n\n$ cd {shown}\n$ bowline run --provider {PROVIDER} --permission edit \\\n    \"{PROMPT}\"\n\n"
    ))?;
    stdout.flush()?;

    let cwd = Some(dir.to_string_lossy().into_owned());
    let options = terminal::options(Detail::Usual, PermissionMode::Edit, cwd);
    let sink = Sink::new(Format::Human, options, None);
    let mut task = bowline::task(PROMPT).provider(PROVIDER).permission(PermissionMode::Edit).cwd(&dir);
    if Home::from_env().is_err() {
        // There is no home to keep anything in: what is shown lies beside the scratch repository.
        task = task.home(Home::at(dir.with_extension("journal")));
    }
    if args.fast {
        task = task.env("PRACTICE_PACE", "0");
    }
    let (record, code) = run::to_the_end(task, sink).await?;
    if code != 0 {
        return Err(CommandError::told(code));
    }

    stdout.print("\n$ git diff\n")?;
    match git {
        Ok(()) => match bowline::git_in(&dir, &["diff", "--no-color", "--no-ext-diff"]).await {
            Ok(diff) => stdout.print(&ansi::harmless(&String::from_utf8_lossy(&diff)))?,
            Err(why) => stdout.print(&format!("(git did not say: {why})\n"))?,
        },
        Err(why) => {
            stdout.print(&format!("(there is no diff to show, because git could not be used: {why})\n"))?
        }
    }
    let mut words = String::from("\nThe journal has everything that was read and understood:\n");
    if let Some(journal) = &record.journal {
        words.push_str(&format!("  {}\n", journal.display()));
    }
    words.push_str(
        "\nWhat to try next:\n  \
         bowline providers                    which agents Bowline knows\n  \
         bowline run -p NAME \"Explain this\"   the same with a real one\n  \
         bowline run -p NAME --dry-run \"…\"    what would be started\n  \
         bowline run -p NAME -o jsonl \"…\"     the events, for programs\n",
    );
    stdout.print(&words)
}

/// Makes an empty directory for the demonstration.
fn scratch() -> Result<PathBuf, CommandError> {
    let base = std::env::temp_dir();
    let wrong = |error: std::io::Error| {
        CommandError::new(
            Fault::Configuration,
            format!("could not make a scratch directory in `{}`", base.display()),
        )
        .caused_by(error)
        .hint("set TMPDIR to a directory that you may write to")
    };
    for number in 1..10_000 {
        let dir = base.join(format!("bowline-demo-{number}"));
        match std::fs::create_dir(&dir) {
            Ok(()) => {
                let (name, text) = bowline_practice::SAMPLE;
                std::fs::write(dir.join(name), text).map_err(wrong)?;
                return Ok(dir);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(wrong(error)),
        }
    }
    Err(wrong(std::io::Error::other("there are ten thousand of them already")))
}
