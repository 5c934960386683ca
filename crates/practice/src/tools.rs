//! The agent's tools: their permissions and their effects.

use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::options::{Mode, Options};

/// A tool call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Its id in this session.
    pub(crate) id: String,
    /// The action.
    pub(crate) tool: Tool,
}

/// The action of a tool. Paths are absolute.
#[derive(Clone, Debug)]
pub(crate) enum Tool {
    Read { path: String },
    Edit { path: String, old: String, new: String },
    Write { path: String, content: String },
    Run { command: String },
}

impl Tool {
    /// Returns its name for permissions.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "Read",
            Self::Edit { .. } => "Edit",
            Self::Write { .. } => "Write",
            Self::Run { .. } => "Bash",
        }
    }

    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Read { path } | Self::Edit { path, .. } | Self::Write { path, .. } => Some(path),
            Self::Run { .. } => None,
        }
    }
}

/// The result of a tool.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It succeeded.
    Done(Done),
    /// It failed, for this reason.
    Failed(String),
    /// It was denied, for this reason.
    Refused(String),
}

/// The effect of a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    /// The output of a command, or the content of a file.
    pub(crate) output: String,
    /// The exit code of a command.
    pub(crate) exit_code: i32,
    /// The file before, if it was changed and there was one.
    pub(crate) before: Option<String>,
    /// The file afterwards, if it was changed.
    pub(crate) after: Option<String>,
}

/// Commands that change nothing, so they need no permission. With arguments, `date` sets the clock.
const HARMLESS: &[&str] = &["ls", "wc", "cat", "echo", "pwd", "true", "false"];

/// Why a tool is denied.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refusal {
    /// No permission could allow it.
    Forbidden(String),
    /// It lacks a permission.
    NotGranted(String),
}

/// Returns why a tool is denied, if it is.
pub(crate) fn refusal(tool: &Tool, options: &Options, mode: Mode, cwd: &Path) -> Option<Refusal> {
    let name = tool.name();
    // `Bash(git:*)` allows some commands; the agent treats it as all of them.
    let listed = |flag: &str| options.values(flag).iter().any(|it| it.split('(').next() == Some(name));
    if options.has("no-tools") {
        return Some(Refusal::Forbidden(format!("No such tool available: {name}")));
    }
    if listed("deny-tool") {
        return Some(Refusal::Forbidden(format!("Permission to use {name} has been denied.")));
    }
    let places: Vec<PathBuf> = std::iter::once(cwd.to_owned())
        .chain(options.values("add-dir").iter().map(|dir| absolute(cwd, dir)))
        .collect();
    if let Some(path) = tool.path()
        && !places.iter().any(|place| Path::new(path).starts_with(place))
    {
        let why = format!("{path} is outside the working directories of this session.");
        return Some(Refusal::Forbidden(why));
    }
    let needed = match tool {
        Tool::Read { .. } => false,
        Tool::Edit { .. } | Tool::Write { .. } => !matches!(mode, Mode::Edit | Mode::Yolo),
        Tool::Run { command } => mode != Mode::Yolo && !harmless(command),
    };
    (needed && !listed("allow-tool")).then(|| {
        Refusal::NotGranted(match tool {
            Tool::Run { .. } => "This command requires approval".to_owned(),
            Tool::Read { path } | Tool::Edit { path, .. } | Tool::Write { path, .. } => {
                format!("The agent requested permissions to write to {path}, but you haven't granted it yet.")
            }
        })
    })
}

fn harmless(command: &str) -> bool {
    let first = command.split_whitespace().next().unwrap_or_default();
    let is_simple = !command.contains(['<', '>', '|', ';', '&', '`', '$', '\n', '\r']);
    command.trim() == "date" || (HARMLESS.contains(&first) && is_simple)
}

/// Returns the absolute path of a name, without `.` and `..`.
pub(crate) fn absolute(cwd: &Path, name: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in cwd.join(name).components() {
        match part {
            // By the text alone: behind a symbolic link the kernel's `..` leads elsewhere.
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => path.push(part),
        }
    }
    path
}

/// Executes it. A command is killed if `stopped` returns true as it starts; for later, there is [`end_work`].
pub(crate) fn perform(tool: &Tool, cwd: &Path, stopped: &dyn Fn() -> bool) -> Outcome {
    let done = match tool {
        Tool::Read { path } => std::fs::read_to_string(path).map(|output| Done { output, ..Done::default() }),
        Tool::Edit { path, old, new } => match std::fs::read_to_string(path) {
            Ok(before) if !before.contains(old.as_str()) => {
                return Outcome::Failed(format!("String to replace not found in file.\nString: {old}"));
            }
            Ok(before) => write(path, Some(before.clone()), before.replacen(old.as_str(), new, 1)),
            Err(error) => Err(error),
        },
        Tool::Write { path, content } => write(path, std::fs::read_to_string(path).ok(), content.clone()),
        Tool::Run { command } => run(command, cwd, stopped),
    };
    match done {
        Ok(done) => Outcome::Done(done),
        Err(error) => Outcome::Failed(format!("{}: {error}", tool.path().unwrap_or("the command"))),
    }
}

fn write(path: &str, before: Option<String>, after: String) -> std::io::Result<Done> {
    std::fs::write(path, &after)?;
    Ok(Done { before, after: Some(after), ..Done::default() })
}

/// The process group of the running command, or 0.
static AT_WORK: AtomicI32 = AtomicI32::new(0);

#[expect(clippy::disallowed_methods, reason = "the agent plays programs that run commands")]
fn run(command: &str, cwd: &Path, stopped: &dyn Fn() -> bool) -> std::io::Result<Done> {
    let mut shell = Command::new("sh");
    // In a group of its own, as the real programs start it, so that a signal to the agent's group does not reach it.
    shell.args(["-c", command]).current_dir(cwd).process_group(0);
    let child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    AT_WORK.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
    // The number is stored above: an order to stop from now on finds it.
    if stopped() {
        end_work();
    }
    let output = child.wait_with_output();
    // Clear it before the `?` below: the command is reaped, and the kernel may reuse its number.
    AT_WORK.store(0, Ordering::SeqCst);
    let output = output?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(Done { output: text, exit_code: output.status.code().unwrap_or(-1), ..Done::default() })
}

/// Kills the running command, if there is one.
pub(crate) fn end_work() {
    if let Some(group) = rustix::process::Pid::from_raw(AT_WORK.load(Ordering::SeqCst)) {
        // It may have exited by itself in the meantime.
        _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    //! Permissions of tools.

    use super::*;
    use crate::options::{Parsed, parse};

    fn options(args: &[&str]) -> Options {
        match parse(&args.iter().map(std::ffi::OsString::from).collect::<Vec<_>>()).expect("reads") {
            Parsed::Play(options) => *options,
            other @ (Parsed::Help | Parsed::Child(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn modes_and_lists_decide_who_may_do_what() {
        let read = || Tool::Read { path: "/w/a".to_owned() };
        let edit = || Tool::Edit { path: "/w/a".to_owned(), old: "a".to_owned(), new: "b".to_owned() };
        let ls = || Tool::Run { command: "ls -l".to_owned() };
        let rm = || Tool::Run { command: "echo a > b".to_owned() };
        // The flags, and whether reading, editing, a harmless command and another one are allowed.
        for (args, expected) in [
            (&[] as &[&str], [true, false, true, false]),
            (&["--permission", "read"], [true, false, true, false]),
            (&["--permission", "edit"], [true, true, true, false]),
            (&["--permission", "yolo"], [true, true, true, true]),
            (&["--allow-tool", "Edit", "--allow-tool", "Bash(echo:*)"], [true, true, true, true]),
            (&["--permission", "yolo", "--deny-tool", "Bash"], [true, true, false, false]),
            (&["--permission", "yolo", "--no-tools"], [false; 4]),
        ] {
            let options = options(args);
            let allowed = [read(), edit(), ls(), rm()]
                .map(|tool| refusal(&tool, &options, options.mode, Path::new("/w")).is_none());
            assert_eq!(allowed, expected, "{args:?}");
        }
    }

    #[test]
    fn a_command_that_may_change_something_needs_permission() {
        for command in ["ls -l", "cat a b", "date", " date ", "echo it's"] {
            assert!(harmless(command), "{command}");
        }
        for command in ["date -s 2020", "cat <(touch x)", "ls; rm x", "echo a > b", "echo $(rm x)", "datefoo"]
        {
            assert!(!harmless(command), "{command}");
        }
    }

    #[test]
    fn paths_stay_inside() {
        let read = |path: &str, args: &[&str]| {
            let path = absolute(Path::new("/w"), path).display().to_string();
            refusal(&Tool::Read { path }, &options(args), Mode::Ask, Path::new("/w")).is_none()
        };
        assert!(read("a/../b", &[]));
        assert!(!read("../b", &[]) && !read("/etc/passwd", &[]));
        assert!(read("../b", &["--add-dir", "/b"]));
    }
}
