//! `bowline completions` and `bowline man`: what shells and readers of manuals want, made of the same list as the help.

use clap::CommandFactory as _;

use crate::args::Args;
use crate::args::config::CompletionsArgs;
use crate::error::{CommandError, Fault};
use crate::output::Stdout;

/// Prints a script that completes commands.
pub(crate) fn completions(args: &CompletionsArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "bowline", &mut text);
    stdout.print(&String::from_utf8_lossy(&text))
}

/// Prints the manual page: the command, then each of its commands.
pub(crate) fn man(stdout: &mut Stdout) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(Fault::Internal, "could not write the manual page").caused_by(error)
    };
    let mut command = Args::command();
    command.build();
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(failed)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let man = clap_mangen::Man::new(sub.clone());
        text.extend_from_slice(format!(".SH COMMAND {}\n", sub.get_name().to_uppercase()).as_bytes());
        man.render_synopsis_section(&mut text).map_err(failed)?;
        man.render_description_section(&mut text).map_err(failed)?;
        man.render_options_section(&mut text).map_err(failed)?;
    }
    stdout.print(&String::from_utf8_lossy(&text))
}
