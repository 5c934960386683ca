//! Makes a task from the arguments.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bowline::{PermissionMode, Preview, SessionId, Task};
use bowline_protocol::Millis;
use bowline_providers::invocation::environment::listed;

use super::choose::NamedProvider;
use super::mcp;
use super::resume::ResumedSession;
use super::schema::AnswerSchema;
use crate::args::request::{PermissionArg, RequestArgs, TimeLimit};
use crate::error::{CommandError, Fault};

/// The maximum size of a file that an option names.
const LONGEST_FILE: u64 = 4 * 1024 * 1024;

/// The maximum number of characters of a value in `--dry-run`.
const SHOWN: usize = 200;

/// Makes the task. `resumed` is the session to resume, if it is one of Bowline.
pub(crate) fn task(
    args: &RequestArgs,
    prompt: &str,
    named: Option<&NamedProvider>,
    resumed: Option<&ResumedSession>,
    schema: Option<&AnswerSchema>,
) -> Result<Task, CommandError> {
    let mut task = bowline::task(prompt);
    if args.permission.is_some() {
        task = task.permission(permission(args.permission));
    }
    task = task.agent_args(args.agent_arg.iter());
    task = match named {
        Some(NamedProvider::Provider(manifest)) => task.of_provider(manifest),
        Some(NamedProvider::Listed(name)) => task.provider(name),
        None => task.provider(bowline::route::AUTO),
    };
    if let Some(hint) = &args.hint {
        task = task.hint(hint);
    }
    if let Some(retries) = args.retries {
        task = task.retries(retries);
    }
    if let Some(fallback) = args.fallback {
        task = task.fallback(fallback);
    }
    if args.wait_for_limit {
        task = task.wait_for_limit();
    }
    if args.repeat_tools {
        task = task.repeat_tools();
    }
    if let Some(when) = args.stream_fallback {
        task = task.stream_fallback(when);
    }
    if let Some(tokens) = args.max_tokens {
        if tokens == 0 {
            return Err(nothing("--max-tokens"));
        }
        task = task.max_tokens(tokens);
    }
    if let Some(limit) = args.max_time {
        task = task.max_time(limit);
    }
    for (value, set) in [
        (&args.model, Task::model as fn(Task, String) -> Task),
        (&args.effort, Task::effort),
        (&args.system, Task::system_prompt),
        (&args.append_system, Task::append_system_prompt),
        (&args.key, Task::key),
        (&args.label, Task::label),
        (&args.docker, Task::docker),
        (&args.format, Task::format),
    ] {
        if let Some(value) = value {
            task = set(task, value.clone());
        }
    }
    if let Some(binary) = &args.binary {
        task = task.binary(binary);
    }
    if let Some(cwd) = &args.cwd {
        task = task.cwd(directory(cwd, "--cwd", args)?);
    }
    for dir in &args.add_dir {
        task = task.add_dir(directory(dir, "--add-dir", args)?);
    }
    for image in &args.image {
        task = task.attach(file(image, "--image", args)?);
    }
    for tool in &args.allow_tool {
        task = task.allow_tool(tool);
    }
    for tool in &args.deny_tool {
        task = task.deny_tool(tool);
    }
    for (name, value) in &args.env {
        task = task.env(name, value);
    }
    for (name, value) in &args.set {
        task = task.set(name, value.clone());
    }
    if let Some(schema) = schema {
        task = task.output_schema(schema.json.clone());
    }
    for (name, server) in mcp::servers(&args.mcp_config)? {
        task = task.mcp_server(name, server);
    }
    if args.no_tools {
        task = task.no_tools();
    }
    if let Some(turns) = args.max_turns {
        task = task.max_turns(turns);
    }
    if args.ephemeral && args.key.is_some() {
        let message =
            "`--key` cannot be used with `--ephemeral`: other processes cannot find an ephemeral session";
        return Err(CommandError::new(Fault::Usage, message).hint("leave out one of the two"));
    }
    if let Some(usd) = args.max_cost {
        if usd == 0.0 {
            return Err(nothing("--max-cost"));
        }
        if !usd.is_finite() || usd < 0.0 {
            let message = format!("`--max-cost {usd}` is not an amount of money");
            return Err(CommandError::new(Fault::Usage, message).hint("write it as 0.50"));
        }
        task = task.max_cost(usd);
    }
    for (limit, set) in [
        (args.timeout, Task::timeout_ms as fn(Task, Option<Millis>) -> Task),
        (args.idle_timeout, Task::idle_timeout_ms),
    ] {
        task = match limit {
            None => task,
            Some(TimeLimit::None) => set(task, None),
            Some(TimeLimit::Of(span)) => {
                set(task, Some(Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))))
            }
        };
    }
    if let Some(id) = &args.resume {
        if resumed.is_some() {
            task = task.parent(SessionId::from(id.as_str()));
        }
        task = task.resume(resumed.map_or(id.as_str(), |resumed| resumed.native.as_str()));
    }
    if args.continue_latest {
        task = task.resume_latest();
    }
    if args.ephemeral {
        task = task.ephemeral();
    }
    if args.isolate {
        task = task.isolate();
    }
    if args.no_stream {
        task = task.no_stream();
    }
    Ok(task)
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

/// Describes the command that would be started.
pub(crate) fn in_words(preview: &Preview) -> String {
    let mut text = String::new();
    let mut words = vec![quoted(&preview.program)];
    words.extend(preview.args.iter().map(|arg| quoted(arg)));
    let _ = writeln!(text, "{}", words.join(" "));
    if let Some(cwd) = &preview.cwd {
        let _ = writeln!(text, "  in        {cwd}");
    }
    for (name, value) in &preview.env {
        let _ = writeln!(text, "  sets      {name}={}", quoted(value));
    }
    let passed = |name: &String| listed(&preview.env_keep, name) && !listed(&preview.env_removed, name);
    let mut names: Vec<String> =
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(passed).collect();
    names.sort();
    let _ = writeln!(text, "  passes on {}", names.join(" "));
    for (name, content) in &preview.files {
        let _ = writeln!(text, "  writes    {name} ({} bytes)", content.len());
    }
    for (name, value) in &preview.protocol {
        // A prompt may be long; show its beginning.
        let value = value.lines().next().unwrap_or_default();
        let shown: String = value.chars().take(SHOWN).collect();
        let cut = if shown.len() < value.len() { "…" } else { "" };
        let _ = writeln!(text, "  sends     {name}: {shown}{cut}");
    }
    match &preview.stdin {
        Some(_) if !preview.protocol.is_empty() => {
            let _ = writeln!(text, "  reads     the protocol's messages from standard input");
        }
        Some(stdin) => {
            let _ = writeln!(text, "  reads     {} characters from standard input", stdin.chars().count());
        }
        None => {
            let _ = writeln!(text, "  reads     nothing");
        }
    }
    for notice in &preview.notices {
        let _ = writeln!(text, "  note      {notice}");
    }
    text
}

/// Quotes an argument for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
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
    let path = absolute(path, option)?;
    // A path in a container cannot be checked here.
    if path.is_file() || args.docker.is_some() {
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
pub(super) fn read(path: &Path, option: &str) -> Result<String, CommandError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_quoted_as_a_shell_reads_it() {
        assert_eq!(quoted("--model"), "--model");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("a b"), "'a b'");
    }
}
