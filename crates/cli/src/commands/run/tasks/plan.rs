//! Compares the lines of a file of tasks with the command line, and makes the tasks.
//!
//! The file may have come with a repository, so a line only narrows what the person typed: its permission mode and timeout are at most those
//! of the command line, its directory is inside of that of the command line, and a provider that the person did not name must be one that can
//! be restricted. Every mistake is an error before an agent starts.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use bowline::route::RouteProblem;
use bowline::{PermissionMode, Task};
use bowline_protocol::Millis;

use super::super::choose::NamedProvider;
use super::super::request::permission;
use super::super::settings::untrusted_router;
use super::super::{RequestTarget, ResolvedRequest, warn};
use super::lines::{Placed, TaskLine, TaskList};
use crate::args::request::{RequestArgs, TimeLimit};
use crate::error::{CommandError, Fault};

/// A task that is ready to start.
#[derive(Debug)]
pub(super) struct PlannedTask {
    pub(super) id: String,
    pub(super) task: Task,
    /// The mode of its line.
    pub(super) permission: Option<PermissionMode>,
    /// The place of its group.
    pub(super) group: usize,
}

/// The tasks of a file, and the requests that they share.
pub(super) struct TaskPlan {
    pub(super) tasks: Vec<PlannedTask>,
    /// The requests: most files have one, and each directory, provider and model that a line names has another one.
    pub(super) groups: Vec<ResolvedRequest>,
}

/// The parts of a request that a line may change: directory, provider and model.
type GroupKey = (Option<PathBuf>, Option<String>, Option<String>);

/// Makes the tasks.
pub(super) fn plan(base: &RequestArgs, list: &TaskList) -> Result<TaskPlan, CommandError> {
    let mut plan = TaskPlan { tasks: Vec::with_capacity(list.tasks.len()), groups: Vec::new() };
    let (mut places, mut warned, mut previewed) =
        (HashMap::<GroupKey, usize>::new(), HashSet::new(), HashSet::new());
    for line in &list.tasks {
        let cwd = line.cwd.as_ref().map(|cwd| directory(list, line, cwd, base)).transpose()?;
        let of = |value: &Option<Placed<String>>| value.as_ref().map(|it| it.value.clone());
        let key = (cwd.clone(), of(&line.provider), of(&line.model));
        let group = match places.get(&key) {
            Some(group) => *group,
            None => {
                let resolved = resolve(base, list, line, cwd.clone())?;
                if warned.insert(cwd) {
                    warn(&resolved.config);
                }
                plan.groups.push(resolved);
                places.insert(key, plan.groups.len() - 1);
                plan.groups.len() - 1
            }
        };
        let resolved = &plan.groups[group];
        let task = task(list, line, base, resolved)?;
        // Start no agent if one of the requests is invalid. Only these differ between the tasks of a group.
        let mode = line.permission.as_ref().map(|mode| permission(Some(mode.value)));
        let changes = line.effort.is_some() || mode.is_some();
        if previewed.insert((group, line.effort.clone(), mode)) {
            check(&task).map_err(|error| if changes { error.at(&list.place(line)) } else { error })?;
        }
        plan.tasks.push(PlannedTask { id: line.id.clone(), task, permission: mode, group });
    }
    Ok(plan)
}

/// Resolves the request of a line.
fn resolve(
    base: &RequestArgs,
    list: &TaskList,
    line: &TaskLine,
    cwd: Option<PathBuf>,
) -> Result<ResolvedRequest, CommandError> {
    let chosen = line.provider.as_ref().filter(|provider| !is_typed(&provider.value, base));
    if let Some(provider) = chosen {
        reject_program(list, line, provider, base)?;
    }
    let provider = line.provider.as_ref().map(|it| it.value.clone()).or_else(|| base.provider.clone());
    let model = line.model.as_ref().map(|it| it.value.clone()).or_else(|| base.model.clone());
    let request = RequestArgs { cwd: cwd.or_else(|| base.cwd.clone()), provider, model, ..base.clone() };
    let is_own = line.cwd.is_none() && line.provider.is_none() && line.model.is_none();
    let resolved = ResolvedRequest::of(&request);
    let mut resolved = resolved.map_err(|error| if is_own { error } else { error.at(&list.place(line)) })?;
    if let RequestTarget::Several(_) = &resolved.target
        && (base.binary.is_some() || base.profile.is_some())
    {
        let message = "`--binary` and `--profile` cannot be used with several providers";
        return Err(CommandError::new(Fault::Usage, message).hint("name one provider"));
    }
    // Without any provider, the model selects the program.
    let by_model = line.model.as_ref().filter(|_| matches!(resolved.target, RequestTarget::Router));
    let by_model = by_model.filter(|_| base.provider.is_none() && line.provider.is_none());
    let Some(choice) = chosen.or(by_model) else { return Ok(resolved) };
    let names = if chosen.is_some() { choice.value.as_str() } else { bowline::route::AUTO };
    if let Some(router) = untrusted_router(names, &resolved.config) {
        let problem =
            format!("`{}` would use {}, which came with the project", choice.value, router.path.display());
        return Err(list
            .error(line, choice, problem)
            .hint("name the provider with `--provider`, or run `bowline trust`"));
    }
    resolved.restrict(format!(
        "name the provider with `--provider`: {} chose it, and a file of tasks can only choose a program that can be restricted",
        list.place(line)
    ));
    Ok(resolved)
}

/// Returns whether the command line names all these providers.
fn is_typed(names: &str, base: &RequestArgs) -> bool {
    let typed = base.provider.as_deref().unwrap_or_default();
    let has = |name: &str| typed.split(',').any(|it| it.trim().eq_ignore_ascii_case(name.trim()));
    names == typed || names.split(',').all(has)
}

/// Rejects a provider of a line that is a command, or that cannot be meant beside the options of the command line.
fn reject_program(
    list: &TaskList,
    line: &TaskLine,
    provider: &Placed<String>,
    base: &RequestArgs,
) -> Result<(), CommandError> {
    if provider.value.trim_start().starts_with("acp:") {
        let problem = "a line cannot start a program by its command".to_owned();
        return Err(list
            .error(line, provider, problem)
            .hint("name it with `--provider` on the command line"));
    }
    let of_one = [
        ("--binary", base.binary.is_some()),
        ("--executable", base.executable.is_some()),
        ("--profile", base.profile.is_some()),
        ("--agent-arg", !base.agent_arg.is_empty()),
    ];
    if let Some((flag, _)) = of_one.into_iter().find(|(_, given)| *given) {
        let problem = format!("`provider` cannot be used with `{flag}`, which is for one provider");
        return Err(list.error(line, provider, problem).hint("leave one of the two out"));
    }
    Ok(())
}

/// Returns the directory of a line, without symbolic links.
fn directory(
    list: &TaskList,
    line: &TaskLine,
    cwd: &Placed<PathBuf>,
    base: &RequestArgs,
) -> Result<PathBuf, CommandError> {
    let shown = cwd.value.display();
    if base.docker.is_some() {
        let problem = "`cwd` cannot be used with `--docker`".to_owned();
        return Err(list.error(line, cwd, problem).hint("`--cwd DIR` sets the directory in the container"));
    }
    let typed = base.cwd.as_deref().unwrap_or(Path::new("."));
    let root = typed.canonicalize().map_err(|error| {
        CommandError::new(Fault::Usage, format!("could not read the directory {}", typed.display()))
            .caused_by(error)
    })?;
    let dir = root.join(&cwd.value).canonicalize().map_err(|error| {
        list.error(line, cwd, format!("`cwd` {shown} is not a directory")).caused_by(error)
    })?;
    if !dir.is_dir() {
        return Err(list.error(line, cwd, format!("`cwd` {shown} is not a directory")));
    }
    if !dir.starts_with(&root) {
        let problem = format!("`cwd` {shown} is outside of {}", root.display());
        return Err(list
            .error(line, cwd, problem)
            .hint("`--cwd DIR` sets the directory that all tasks are inside of"));
    }
    Ok(dir)
}

/// Makes the task of a line.
fn task(
    list: &TaskList,
    line: &TaskLine,
    base: &RequestArgs,
    resolved: &ResolvedRequest,
) -> Result<Task, CommandError> {
    let task = match &resolved.target {
        RequestTarget::One(named) => resolved.task(&line.prompt, Some(named)),
        RequestTarget::Several(all) => resolved.task_in_order(&line.prompt, all),
        RequestTarget::Router => resolved.task(&line.prompt, None),
    };
    let mut task = task.map_err(|error| error.at(&list.place(line)))?;
    if let Some(mode) = &line.permission {
        let (asked, most) = (permission(Some(mode.value)), permission(resolved.args.permission));
        if asked > most {
            let problem = format!(
                "`permission` {} allows more than the command line, which has {}",
                word(asked),
                word(most)
            );
            return Err(list.error(line, mode, problem).hint(format!(
                "raise it for the whole file with `--permission {}`; a line may lower it",
                word(asked)
            )));
        }
        task = task.permission(asked);
    }
    if let Some(timeout) = &line.timeout {
        if let Some(TimeLimit::Of(most)) = base.timeout
            && !matches!(timeout.value, TimeLimit::Of(span) if span <= most)
        {
            let problem = format!("`timeout` is longer than `--timeout` {}", millis(most));
            return Err(list
                .error(line, timeout, problem)
                .hint("raise `--timeout`, or lower `timeout` in the line"));
        }
        task = task.timeout_ms(match timeout.value {
            TimeLimit::None => None,
            TimeLimit::Of(span) => Some(millis(span)),
        });
    }
    if let Some(effort) = &line.effort {
        task = task.effort(effort);
    }
    if let Some(label) = &line.label {
        task = task.label(label);
    }
    Ok(task)
}

fn millis(span: std::time::Duration) -> Millis {
    Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

fn word(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Read => "read",
        PermissionMode::Ask => "ask",
        PermissionMode::Edit => "edit",
        PermissionMode::Yolo => "yolo",
    }
}

/// Checks that a task can be started.
fn check(task: &Task) -> Result<(), CommandError> {
    match task.preview() {
        // A limit may be free again when the turn of the task comes.
        Err(bowline::Error::NoRoute(route)) if matches!(route.problem, RouteProblem::Limited { .. }) => {
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

/// Returns the provider of a request that has exactly one.
pub(super) fn only(resolved: &ResolvedRequest) -> Option<&NamedProvider> {
    match &resolved.target {
        RequestTarget::One(named) => Some(named),
        RequestTarget::Several(_) | RequestTarget::Router => None,
    }
}
