//! `bowline demo`: a run of the practice agent, for people who have no agent installed yet.
//!
//! The run is real: a scratch repository, a child process, a journal. The scratch repository is kept, so that the reader can
//! look at the files that the output names.

use std::path::PathBuf;

use bowline::PermissionMode;
use bowline::journal::Home;
use bowline::settings::RunSettings;
use bowline_config::Config;
use bowline_practice::PROVIDER;
use bowline_providers::ansi;

use crate::args::DemoArgs;
use crate::commands::run;
use crate::error::{CommandError, Fault};
use crate::human::{DetailLevel, wrapped};
use crate::output::sink::{OutputFormat, Sink};
use crate::ui::Stdout;
use crate::ui::terminal;

/// The task for the practice agent.
const PROMPT: &str = "Make the greeting friendlier, and say what changed.";

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    bowline::start_keeper();
    crate::async_runtime::start()?.block_on(play(args, stdout)).map_err(run::beside_the_run)
}

async fn play(args: &DemoArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let dir = scratch()?;
    let git = bowline::repository_in(&dir, "demo").await;
    let shown = dir.display();
    let width = terminal::stdout_width().min(100);
    let words = wrapped(
        "This is a demonstration: the practice agent, a script inside bowline, works in a scratch repository. \
         No model, no network, no account. Everything else works as with a real agent.",
        width,
    );
    let provider = format!("--provider {PROVIDER}");
    let command = shell_lines(&["$ bowline run", &provider, "--permission edit"], PROMPT, width);
    stdout.print(&format!("{words}\n\n$ cd {shown}\n{command}\n\n"))?;
    stdout.flush()?;

    let cwd = Some(dir.to_string_lossy().into_owned());
    let options = terminal::options(DetailLevel::Usual, PermissionMode::Edit, cwd);
    let sink = Sink::new(OutputFormat::Human, options, None);
    let mut task = bowline::task(PROMPT).provider(PROVIDER).permission(PermissionMode::Edit).cwd(&dir);
    if let Ok(config) = Config::load(None) {
        // The demonstration runs with defaults. Runs that were killed are settled by the user's prices.
        let mut settings = RunSettings::default();
        settings.prices = config.run_settings().prices;
        task = task.settings(settings.into());
    }
    if Home::from_env().is_err() {
        // Without a data directory, keep the journal next to the scratch repository.
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
        // The user's git configuration may set colours or an external diff program.
        Ok(()) => match bowline::git_in(&dir, &["diff", "--no-color", "--no-ext-diff"]).await {
            Ok(diff) => stdout.print(&ansi::harmless(&String::from_utf8_lossy(&diff)))?,
            Err(why) => stdout.print(&format!("(git failed: {why})\n"))?,
        },
        Err(why) => stdout.print(&format!("(no diff: could not run git: {why})\n"))?,
    }
    let journal = wrapped("The journal has the agent's raw output and all events:", width);
    let mut words = format!("\n{journal}\n");
    if let Some(journal) = &record.journal {
        words.push_str(&format!("  {}\n", journal.display()));
    }
    words.push_str("\nTry next:\n");
    words.push_str(&examples(width));
    stdout.print(&words)
}

/// Commands for the next step, with descriptions.
const EXAMPLES: [(&str, &str); 4] = [
    ("bowline providers", "list the agents that Bowline knows"),
    ("bowline run -p NAME \"Explain this\"", "run a real agent"),
    ("bowline run -p NAME --dry-run \"…\"", "print the command, run nothing"),
    ("bowline run -p NAME -o jsonl \"…\"", "print the events as JSON"),
];

/// Formats the examples in two columns, or in one on a narrow terminal.
fn examples(width: usize) -> String {
    let longest = |texts: [&str; 4]| texts.into_iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let column = longest(EXAMPLES.map(|(command, _)| command)) + 3;
    if 2 + column + longest(EXAMPLES.map(|(_, about)| about)) <= width {
        return EXAMPLES.iter().map(|(command, about)| format!("  {command:column$}{about}\n")).collect();
    }
    EXAMPLES.iter().map(|(command, about)| format!("  {command}\n      {about}\n")).collect()
}

/// Breaks a command with a prompt into lines that a shell reads as one: it drops a backslash and the line end after it, even
/// inside quotes.
fn shell_lines(words: &[&str], prompt: &str, width: usize) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    // The last two columns are for the backslash.
    let room = width.saturating_sub(2).max(20);
    let fits = |line: &str, word: &str| line.chars().count() + 1 + word.chars().count() <= room;
    let prompt = format!("\"{prompt}\"");
    for word in words.iter().copied().chain([prompt.as_str()]) {
        if line.is_empty() {
            line.push_str(word);
        } else if fits(&line, word) {
            line = format!("{line} {word}");
        } else {
            lines.push(format!("{line} \\"));
            line = format!("    {word}");
        }
    }
    // The rest of the prompt is not indented: inside quotes, spaces would be part of it.
    while line.chars().count() > width {
        let cut = line.char_indices().take(room).filter(|(_, letter)| *letter == ' ').last();
        let Some((cut, _)) = cut.filter(|(cut, _)| !line[..*cut].trim().is_empty()) else { break };
        let rest = line.split_off(cut + 1);
        lines.push(format!("{line}\\"));
        line = rest;
    }
    lines.push(line);
    lines.join("\n")
}

/// Creates a directory for the demonstration.
fn scratch() -> Result<PathBuf, CommandError> {
    let base = std::env::temp_dir();
    let wrong = |error: std::io::Error| {
        CommandError::new(
            Fault::Configuration,
            format!("could not create a scratch directory in `{}`", base.display()),
        )
        .caused_by(error)
        .hint("set TMPDIR to a writable directory")
    };
    for number in 1..10_000 {
        let dir = base.join(format!("bowline-demo-{number}"));
        // mkdir(2) fails if the name exists, even as a dangling link, so another user of /tmp cannot prepare the directory.
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
    Err(wrong(std::io::Error::other("ten thousand of them exist already")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(width: usize) -> String {
        shell_lines(&["$ bowline run", "--provider practice", "--permission edit"], PROMPT, width)
    }

    #[test]
    fn the_commands_fit_a_narrow_terminal_and_stay_commands() {
        for width in [30, 40, 50, 60, 80, 100] {
            let text = command(width);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            // As a shell reads it.
            let read = text.replace("\\\n", "");
            let read = read.split_whitespace().collect::<Vec<_>>().join(" ");
            let whole = format!("$ bowline run --provider practice --permission edit \"{PROMPT}\"");
            assert_eq!(read, whole, "{width}");
        }
        for width in [40, 50, 60, 80] {
            for line in examples(width).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_usual_terminal_shows_them_side_by_side() {
        assert_eq!(
            command(80),
            "$ bowline run --provider practice --permission edit \\\n    \"Make the greeting friendlier, and say what changed.\""
        );
        let first = examples(80);
        assert_eq!(
            first.lines().next(),
            Some("  bowline providers                    list the agents that Bowline knows")
        );
    }
}
