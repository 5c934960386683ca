//! The id of one of our sessions where the agent's own id is needed.

use bowline_protocol::{NativeSessionId, Resume, SessionId};

use crate::run::error::Error;
use crate::run::error::ResumeGap;
use crate::run::task::{JournalChoice, Task};
use crate::sessions::journal::{Home, JournalError, SessionMeta};

/// Puts the agent's own id in the place of ours. Every other id is left as it is: the agent knows whether it has it.
pub(super) fn translate(task: &mut Task, provider: &str) -> Result<(), Error> {
    let home = match &task.journal {
        JournalChoice::At(home) => Some(home.clone()),
        JournalChoice::None | JournalChoice::Default | JournalChoice::Temporary => None,
    };
    let variables = task.variables().clone();
    let Some(Resume::Id { native_session } | Resume::Fork { native_session }) = &mut task.request.resume
    else {
        return Ok(());
    };
    if !is_ours(native_session.as_str()) {
        return Ok(());
    }
    let session = SessionId::from(native_session.as_str());
    let gap = |gap| Error::NotResumable { session: session.clone(), gap, source: None };
    let unread = |error: JournalError| {
        let is_missing = matches!(error, JournalError::NoSession { .. });
        let gap = if is_missing { ResumeGap::NotFound } else { ResumeGap::Unreadable };
        Error::NotResumable { session: session.clone(), gap, source: Some(Box::new(error)) }
    };
    let home = home.map_or_else(|| Home::of(&variables), Ok)?;
    let meta = SessionMeta::read(&home.session_dir(&session)?).map_err(unread)?;
    if meta.provider != provider {
        return Err(gap(ResumeGap::OtherProvider { provider: meta.provider }));
    }
    let native: NativeSessionId = meta.native_session.ok_or_else(|| gap(ResumeGap::NoNativeSession))?;
    *native_session = native;
    task.parent.get_or_insert(session);
    Ok(())
}

/// Says whether an id has the form of ours: `s-20261115-083000123-000g40zz`. No agent that we know has ids like that.
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
