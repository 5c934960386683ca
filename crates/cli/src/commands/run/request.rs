//! Makes a task from the arguments.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use bowline::{PermissionMode, Task};
use bowline_protocol::Millis;

use super::choose::NamedProvider;
use super::mcp;
use super::schema::AnswerSchema;
use crate::args::request::{PermissionArg, RequestArgs, TimeLimit};
use crate::error::{CommandError, Fault};

/// The maximum size of a file that an option names.
const LONGEST_FILE: u64 = 4 * 1024 * 1024;

/// Makes the task.
pub(crate) fn task(
    args: &RequestArgs,
    prompt: &str,
    named: Option<&NamedProvider>,
    schema: Option<&AnswerSchema>,
) -> Result<Task, CommandError> {
    let task = bowline::task(prompt);
    let task = match named {
        Some(NamedProvider::Provider(manifest)) => task.of_provider(manifest),
        Some(NamedProvider::Listed(name)) => task.provider(name),
        None => task.provider(bowline::route::AUTO),
    };
    let task = args.routing(args.agent(task));
    let task = args.work(task, schema)?;
    let task = args.time_limits(args.limits(args.permissions(task))?);
    args.session(task)
}

/// Each method sets the options of one heading of the help.
impl RequestArgs {
    fn routing(&self, task: Task) -> Task {
        let task = with(task, self.hint.as_ref(), Task::hint);
        let task = with(task, self.retries, Task::retries);
        let task = with(task, self.fallback, Task::fallback);
        let task = with(task, self.stream_fallback, Task::stream_fallback);
        let task = when(task, self.wait_for_limit, Task::wait_for_limit);
        when(task, self.repeat_tools, Task::repeat_tools)
    }

    fn agent(&self, task: Task) -> Task {
        let task = task.agent_args(self.agent_arg.iter());
        let task = with(task, self.format.as_ref(), Task::format);
        let task = with(task, self.model.as_ref(), Task::model);
        let task = with(task, self.effort.as_ref(), Task::effort);
        let task = with(task, self.docker.as_ref(), Task::docker);
        let task = with(task, self.binary.as_ref(), Task::binary);
        let task = self.set.iter().fold(task, |task, (name, value)| task.set(name, value.clone()));
        let task = self.env.iter().fold(task, |task, (name, value)| task.env(name, value));
        let task = when(task, self.isolate, Task::isolate);
        when(task, self.no_stream, Task::no_stream)
    }

    fn work(&self, task: Task, schema: Option<&AnswerSchema>) -> Result<Task, CommandError> {
        let task = with(task, self.system.as_ref(), Task::system_prompt);
        let task = with(task, self.append_system.as_ref(), Task::append_system_prompt);
        let mut task = with(task, schema.map(|schema| schema.json.clone()), Task::output_schema);
        if let Some(cwd) = &self.cwd {
            task = task.cwd(directory(cwd, "--cwd", self)?);
        }
        for dir in &self.add_dir {
            task = task.add_dir(directory(dir, "--add-dir", self)?);
        }
        for image in &self.image {
            task = task.attach(file(image, "--image", self)?);
        }
        for (name, server) in mcp::servers(&self.mcp_config)? {
            task = task.mcp_server(name, server);
        }
        task = with(task, bowline_config::policy_files(&self.policy)?, Task::policy);
        // A file without servers: a resume goes on without those of the session.
        task = when(task, !self.mcp_config.is_empty(), Task::only_named_mcp_servers);
        Ok(task)
    }

    fn permissions(&self, task: Task) -> Task {
        let mode = self.permission.map(|mode| permission(Some(mode)));
        let task = with(task, mode, Task::permission);
        let task = self.allow_tool.iter().fold(task, Task::allow_tool);
        let task = self.deny_tool.iter().fold(task, Task::deny_tool);
        when(task, self.no_tools, Task::no_tools)
    }

    fn limits(&self, task: Task) -> Result<Task, CommandError> {
        if self.max_tokens == Some(0) {
            return Err(nothing("--max-tokens"));
        }
        match self.max_cost {
            Some(0.0) => return Err(nothing("--max-cost")),
            Some(usd) if !usd.is_finite() || usd < 0.0 => {
                let message = format!("`--max-cost {usd}` is not an amount of money");
                return Err(CommandError::new(Fault::Usage, message).hint("write it as 0.50"));
            }
            Some(_) | None => {}
        }
        let task = with(task, self.max_tokens, Task::max_tokens);
        let task = with(task, self.max_cost, Task::max_cost);
        let task = with(task, self.max_turns, Task::max_turns);
        Ok(with(task, self.max_time, Task::max_time))
    }

    fn time_limits(&self, task: Task) -> Task {
        let millis = |limit| match limit {
            TimeLimit::None => None,
            TimeLimit::Of(span) => Some(Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))),
        };
        let task = with(task, self.timeout.map(millis), Task::timeout_ms);
        with(task, self.idle_timeout.map(millis), Task::idle_timeout_ms)
    }

    fn session(&self, task: Task) -> Result<Task, CommandError> {
        if self.ephemeral && self.key.is_some() {
            let message =
                "`--key` cannot be used with `--ephemeral`: other processes cannot find an ephemeral session";
            return Err(CommandError::new(Fault::Usage, message).hint("leave out one of the two"));
        }
        let task = with(task, self.key.as_ref(), Task::key);
        let mut task = with(task, self.label.as_ref(), Task::label);
        if let Some(id) = &self.resume {
            task = task.resume(id.as_str());
        }
        let task = when(task, self.continue_latest, Task::resume_latest);
        Ok(when(task, self.ephemeral, Task::ephemeral))
    }
}

/// Sets an option that has a value.
fn with<T>(task: Task, value: Option<T>, set: impl FnOnce(Task, T) -> Task) -> Task {
    match value {
        Some(value) => set(task, value),
        None => task,
    }
}

/// Sets an option that was given.
fn when(task: Task, given: bool, set: impl FnOnce(Task) -> Task) -> Task {
    if given { set(task) } else { task }
}

/// Makes the error of a limit of 0.
fn nothing(option: &str) -> CommandError {
    CommandError::new(Fault::Usage, format!("`{option}` must be greater than 0"))
        .hint("leave it out for no limit")
}

/// Returns the permission mode; `ask` by default.
pub(crate) fn permission(mode: Option<PermissionArg>) -> PermissionMode {
    match mode.unwrap_or(PermissionArg::Ask) {
        PermissionArg::Read => PermissionMode::Read,
        PermissionArg::Ask => PermissionMode::Ask,
        PermissionArg::Edit => PermissionMode::Edit,
        PermissionArg::Yolo => PermissionMode::Yolo,
    }
}

fn directory(path: &Path, option: &str, args: &RequestArgs) -> Result<PathBuf, CommandError> {
    let path = absolute(path, option)?;
    if path.is_dir() || args.docker.is_some() {
        return Ok(path);
    }
    let message = format!("`{option} {}` is not a directory", path.display());
    Err(CommandError::new(Fault::Usage, message).hint("check the path, or create the directory"))
}

fn file(path: &Path, option: &str, args: &RequestArgs) -> Result<PathBuf, CommandError> {
    // A path in a container cannot be checked here.
    if args.docker.is_some() { absolute(path, option) } else { absolute_file(path, option) }
}

/// Makes the path of a file that an option names absolute.
pub(crate) fn absolute_file(path: &Path, option: &str) -> Result<PathBuf, CommandError> {
    let path = absolute(path, option)?;
    if path.is_file() {
        return Ok(path);
    }
    let message = format!("`{option} {}` is not a file", path.display());
    Err(CommandError::new(Fault::Usage, message).hint("check the path"))
}

/// Makes a path absolute, because the agent may run in another directory.
fn absolute(path: &Path, option: &str) -> Result<PathBuf, CommandError> {
    std::path::absolute(path).map_err(|error| {
        CommandError::new(Fault::Usage, format!("`{option} {}` is not a path", path.display()))
            .caused_by(error)
    })
}

/// Reads a file that an option names. Rejects devices, pipes and large files.
pub(crate) fn read(path: &Path, option: &str) -> Result<String, CommandError> {
    let wrong = |message: String| CommandError::new(Fault::Usage, message);
    let named = format!("`{option} {}`", path.display());
    let failed = |error| wrong(format!("could not read {named}")).caused_by(error);
    // Check before opening: opening a pipe blocks until it has a writer.
    let meta = std::fs::metadata(path).map_err(failed)?;
    if !meta.is_file() {
        return Err(wrong(format!("{named} is not a regular file")).hint("write it to a file first"));
    }
    let mut text = String::new();
    // The file system may not report the size, or the file may grow.
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(LONGEST_FILE + 1).read_to_string(&mut text).map_err(failed)?;
    if meta.len().max(text.len() as u64) > LONGEST_FILE {
        let most = LONGEST_FILE / (1024 * 1024);
        return Err(wrong(format!("{named} is larger than {most} MiB")).hint("check the path"));
    }
    Ok(text)
}
