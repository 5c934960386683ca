//! The session of ours that a task resumes: the agent's own id in the place of ours, and whether the run appends to its journal.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{PermissionMode, Resume, SessionId};

use crate::run::error::{Error, ResumeGap};
use crate::run::task::{JournalChoice, Task};
use crate::sessions::journal::{self, Home, JournalError, KeptPolicies, KeptServer, ResumeOptions};
use crate::sessions::registry;

/// Cleans up after a killed runner of the session that a task resumes, before another runner takes it.
pub(super) async fn settle(task: &Task) -> Result<(), Error> {
    let Some(session) = own_session(task) else { return Ok(()) };
    let dir = home(task)?.session_dir(&session)?;
    let settled = registry::settle_before_resume(&dir, &task.settings.prices, task.variables()).await;
    match settled.map_err(Error::from) {
        // `translate` reports what is wrong with the directory, and `Writer::open` that another process holds it.
        Err(Error::Journal(error)) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "a session to resume is not in order");
            Ok(())
        }
        other => other,
    }
}

/// Puts the agent's own id in the place of ours, and has the run append to that session. Every other id is left as it is: the
/// agent knows whether it has it.
pub(super) fn translate(task: &mut Task, provider: &str) -> Result<(), Error> {
    let Some(session) = own_session(task) else { return Ok(()) };
    let gap = |gap| Error::NotResumable { session: session.clone(), gap, source: None };
    let unread = |error: JournalError| {
        let is_missing = matches!(error, JournalError::NoSession { .. });
        let gap = if is_missing { ResumeGap::NotFound } else { ResumeGap::Unreadable };
        Error::NotResumable { session: session.clone(), gap, source: Some(Box::new(error)) }
    };
    let dir = home(task)?.session_dir(&session)?;
    let meta = journal::current_meta(&dir).map_err(unread)?;
    if meta.provider != provider {
        return Err(gap(ResumeGap::OtherProvider { provider: meta.provider }));
    }
    if let Some(options) = &meta.resume {
        take_over(task, options).map_err(gap)?;
    }
    let Some(native) = meta.native_session else {
        // A live session may have prompts that wait, also if its runner was killed before the agent opened a session of its own.
        if task.live.is_none() || matches!(task.request.resume, Some(Resume::Fork { .. })) {
            return Err(gap(ResumeGap::NoNativeSession));
        }
        // A fork that the agent has not made yet.
        task.request.resume = meta.forked_from.map(|native_session| Resume::Fork { native_session });
        task.continues = Some(session);
        return Ok(());
    };
    match (&mut task.request.resume, &task.journal) {
        (Some(Resume::Id { native_session }), JournalChoice::Default | JournalChoice::At(_)) => {
            *native_session = native;
            task.continues = Some(session);
        }
        // A fork is another session, and a task without a lasting journal leaves that of the session as it is.
        (Some(Resume::Id { native_session } | Resume::Fork { native_session }), _) => {
            *native_session = native;
            task.parent.get_or_insert(session);
        }
        (Some(Resume::Latest) | None, _) => {}
    }
    Ok(())
}

/// Returns what a later resume needs of a task.
pub(super) fn options_of(task: &Task) -> ResumeOptions {
    let request = &task.request;
    ResumeOptions {
        permission: task.mode_chosen.then_some(request.permission),
        model: task.chosen_model(),
        effort: request.effort.clone(),
        add_dirs: request.add_dirs.clone(),
        mcp_servers: request
            .mcp_servers
            .iter()
            .map(|(name, it)| (name.clone(), KeptServer::of(it)))
            .collect(),
        host_tools: task.host_tools.iter().map(|tool| tool.name().to_owned()).collect(),
        variables: request.env.keys().cloned().collect(),
        policies: match &task.policy {
            Some(policy) if !policy.files().is_empty() => KeptPolicies::Files(policy.files().to_vec()),
            Some(_) => KeptPolicies::OfCaller,
            None if request.policy.is_some() => KeptPolicies::OfCaller,
            None => KeptPolicies::None,
        },
    }
}

/// Checks that the policies of the earlier stint are in force again: a resume must not widen what the agent may do.
fn check_policies(task: &Task, kept: &KeptPolicies) -> Result<(), ResumeGap> {
    let has = |file: &PathBuf| task.policy.as_ref().is_some_and(|policy| policy.files().contains(file));
    match kept {
        KeptPolicies::None => Ok(()),
        KeptPolicies::Files(files) if files.iter().all(has) => Ok(()),
        KeptPolicies::Files(files) => Err(ResumeGap::Policies { files: files.clone() }),
        KeptPolicies::OfCaller if task.policy.is_some() || task.request.policy.is_some() => Ok(()),
        KeptPolicies::OfCaller => Err(ResumeGap::Policies { files: Vec::new() }),
    }
}

/// Takes over the options of the earlier stint that the caller left open. Values of variables come from the caller's environment.
fn take_over(task: &mut Task, options: &ResumeOptions) -> Result<(), ResumeGap> {
    check_policies(task, &options.policies)?;
    let variables: BTreeMap<String, String> = task.variables().texts().collect();
    for name in &options.variables {
        if task.request.env.contains_key(name) {
            continue;
        }
        match variables.get(name) {
            Some(value) => drop(task.request.env.insert(name.clone(), value.clone())),
            None => warn(task, format!("the variable {name} of the earlier session is not set")),
        }
    }
    match options.permission {
        Some(mode) if !task.mode_chosen && mode != PermissionMode::Yolo => {
            task.request.permission = mode;
            task.mode_chosen = true;
        }
        Some(PermissionMode::Yolo) if !task.mode_chosen => {
            warn(
                task,
                "the session ran with the permission mode `yolo`, which has to be chosen anew".to_owned(),
            );
        }
        Some(_) | None => {}
    }
    let request = &mut task.request;
    if request.model.is_none() {
        request.model.clone_from(&options.model);
    }
    if request.effort.is_none() {
        request.effort.clone_from(&options.effort);
    }
    if request.add_dirs.is_empty() {
        request.add_dirs.clone_from(&options.add_dirs);
    }
    if task.servers_chosen {
        return Ok(());
    }
    let given = |name: &&String| task.host_tools.iter().any(|tool| tool.name() == *name);
    let names: Vec<String> = options.host_tools.iter().filter(|name| !given(name)).cloned().collect();
    if !names.is_empty() {
        return Err(ResumeGap::HostTools { names });
    }
    let mut missing = Vec::new();
    for (name, kept) in &options.mcp_servers {
        // Bowline's own server of this run has the name of a server that the session had.
        let is_taken =
            task.request.mcp_servers.contains_key(name) || task.host_server().as_ref() == Some(name);
        match kept.server(|name| variables.get(name).cloned()).filter(|_| !is_taken) {
            Some(server) => drop(task.request.mcp_servers.insert(name.clone(), server)),
            None => missing.push(name.clone()),
        }
    }
    // Without its tools the agent would do something else than before, so this is no warning.
    if missing.is_empty() { Ok(()) } else { Err(ResumeGap::McpServers { names: missing }) }
}

fn warn(task: &mut Task, text: String) {
    task.notices.push(Notice { level: Level::Warn, text, code: Some("resume_option".to_owned()) });
}

/// Returns the session of ours that a task resumes or forks.
fn own_session(task: &Task) -> Option<SessionId> {
    match &task.request.resume {
        Some(Resume::Id { native_session } | Resume::Fork { native_session }) => {
            Some(SessionId::from(native_session.as_str())).filter(|id| is_ours(id.as_str()))
        }
        Some(Resume::Latest) | None => None,
    }
}

/// Returns the data home with the sessions of a task.
pub(crate) fn home(task: &Task) -> Result<Home, JournalError> {
    match &task.journal {
        JournalChoice::At(home) => Ok(home.clone()),
        JournalChoice::None | JournalChoice::Default | JournalChoice::Temporary => Home::of(task.variables()),
    }
}

/// Returns whether an id has the form of ours: `s-20261115-083000123-000g40zz`. No agent that we know has ids like that.
fn is_ours(id: &str) -> bool {
    let parts: Vec<&str> = id.split('-').collect();
    let digits = |part: &str, count| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(parts[..], ["s", day, time, tail]
        if digits(day, 8) && digits(time, 9) && tail.len() == 8 && tail.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_ids_are_told_from_those_of_agents() {
        assert!(is_ours("s-20261115-083000123-000g40zz"));
        for other in
            ["", "s-", "0a1b2c3d-1234-4abc-8def-001122334455", "s-20261115-083000123-000g40z", "s-1-2-3"]
        {
            assert!(!is_ours(other), "{other}");
        }
    }
}
