//! `bowline` without a command, `version`, `completions` and `man`, generated from the same definitions as the help.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Args;
use crate::args::config::CompletionsArgs;
use crate::error::{CommandError, Fault};
use crate::ui::Stdout;
use crate::ui::tables::Layout;

/// Prints the help, as `cargo` and `gh` do without a command.
pub(crate) fn help(stdout: &mut Stdout) -> Result<(), CommandError> {
    let help = Args::command().render_help();
    // The parser's text is ours and has its own colours, so it need not be made harmless.
    let text = match stdout.layout() {
        Layout::Terminal { colour: true, .. } => help.ansi().to_string(),
        Layout::Terminal { .. } | Layout::Pipe => help.to_string(),
    };
    stdout.print_laid_out(&text)
}

/// Prints the version, as `--version` does.
pub(crate) fn version(stdout: &mut Stdout) -> Result<(), CommandError> {
    stdout.print(&Args::command().render_version())
}

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    // These call `bowline __complete`, which completes names of providers, models and sessions.
    let scripts = [
        (Shell::Bash, include_str!("shell/bowline.bash")),
        (Shell::Zsh, include_str!("shell/bowline.zsh")),
        (Shell::Fish, include_str!("shell/bowline.fish")),
    ];
    if let Some((_, script)) = scripts.iter().find(|(shell, _)| *shell == args.shell) {
        return stdout.print(script);
    }
    // Scripts for the other shells are static: commands and options.
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
    let mut page = Vec::new();
    // Leave out its list of commands, which refers to manual pages that do not exist.
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(&mut page).map_err(failed)?;
    man.render_name_section(&mut page).map_err(failed)?;
    man.render_synopsis_section(&mut page).map_err(failed)?;
    man.render_description_section(&mut page).map_err(failed)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let man = clap_mangen::Man::new(sub.clone());
        let mut part = Vec::new();
        man.render_synopsis_section(&mut part).map_err(failed)?;
        man.render_description_section(&mut part).map_err(failed)?;
        man.render_options_section(&mut part).map_err(failed)?;
        let part = String::from_utf8_lossy(&part).replace(".SH ", ".SS ");
        let head = format!(".SH \"BOWLINE {}\"\n{part}", sub.get_name().to_uppercase());
        page.extend_from_slice(head.as_bytes());
    }
    man.render_extra_section(&mut page).map_err(failed)?;
    stdout.print(&String::from_utf8_lossy(&page))
}
