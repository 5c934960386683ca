//! The knowledge of the built-in rules about programs: which of their acts are risky, by name and arguments.

mod code;
mod deploy;
mod files;
mod git;
mod git_options;
pub(super) mod network;
mod own;
mod packages;
mod secrets;

use super::judge::ActJudge;
use super::shell::{ShellCommand, ShellWord};
use super::wrappers::skip_options;

/// A program that is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramCall<'a> {
    /// The last part of the program's path.
    pub(super) name: &'a str,
    /// The arguments.
    pub(super) args: &'a [ShellWord],
    /// The whole command.
    pub(super) command: &'a ShellCommand,
}

/// Options in front of a subcommand that take the next word.
const LEADING_VALUES: &[(&str, &[&str])] = &[
    ("git", &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"]),
    ("docker", &["-H", "-c", "--host", "--context", "--config", "-l", "--log-level"]),
    ("podman", &["--connection", "--url", "--root"]),
    ("kubectl", &["-n", "-s", "--namespace", "--context", "--kubeconfig", "--cluster", "--user", "--server"]),
    ("helm", &["-n", "--namespace", "--kube-context", "--kubeconfig"]),
    ("npm", &["--prefix", "-w", "--workspace", "-C"]),
    ("pnpm", &["-C", "--dir", "-F", "--filter"]),
    ("yarn", &["--cwd"]),
    ("bun", &["--cwd"]),
    ("cargo", &["-C", "-Z", "--config", "--color"]),
    ("terraform", &[]),
    ("aws", &["--profile", "--region", "--output", "--endpoint-url", "--query", "--cli-input-json"]),
    ("gh", &["-R", "--repo"]),
    ("glab", &["-R", "--repo"]),
    ("uv", &["--directory", "--project", "--config-file", "--python", "-p"]),
    ("poetry", &["-C", "-P", "--directory", "--project"]),
    ("pip", &["--python", "--log", "--proxy"]),
    ("composer", &["-d", "--working-dir"]),
    ("make", &["-C", "-f", "-j", "-I"]),
];

impl ProgramCall<'_> {
    /// Returns the arguments from the subcommand on.
    pub(super) fn subcommand(&self) -> &[ShellWord] {
        let values = LEADING_VALUES.iter().find(|it| it.0 == self.name).map_or(&[][..], |it| it.1);
        let (at, _) = skip_options(self.args, 0, values);
        &self.args[at..]
    }

    /// Returns the subcommand: the first argument that is no option.
    pub(super) fn verb(&self) -> Option<&str> {
        // `cargo +nightly build` names a toolchain first.
        let words = self.subcommand();
        let words = match words.split_first() {
            Some((first, rest)) if first.text.starts_with('+') => rest,
            Some(_) | None => words,
        };
        words.first().map(|word| word.text.as_str())
    }

    /// Returns the arguments that are no options.
    pub(super) fn operands(&self) -> impl Iterator<Item = &ShellWord> {
        let mut open = true;
        self.args.iter().filter(move |arg| {
            if arg.text == "--" {
                open = false;
                return false;
            }
            !open || !arg.text.starts_with('-') || arg.text == "-"
        })
    }

    /// Returns whether an option is there: as a word, with a value, or as a letter among others.
    pub(super) fn has(&self, options: &[&str]) -> bool {
        // Behind `--` are operands, even if they begin with a dash.
        self.args.iter().take_while(|arg| arg.text != "--").any(|arg| {
            options.iter().any(|option| match option.strip_prefix("--") {
                Some(_) => {
                    arg.text == *option
                        || arg.text.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
                }
                None => {
                    let letters = arg.text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
                    letters.zip(option.strip_prefix('-')).is_some_and(|(all, one)| all.contains(one))
                }
            })
        })
    }
}

/// Returns the arguments without the options in front of the subcommand.
pub(super) fn without_leading_options<'a>(call: &'a ProgramCall<'_>) -> Vec<&'a ShellWord> {
    call.subcommand().iter().collect()
}

/// Applies the rules for a program.
pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    files::look(judge, call);
    code::look(judge, call);
    secrets::look(judge, call);
    packages::look(judge, call);
    deploy::look(judge, call);
    network::look(judge, call);
    own::look(judge, call);
    if call.name == "git" {
        git::look(judge, call);
    }
}
