//! Converts errors of Bowline itself to failures of a turn.

use bowline_process::{SpawnError, SpawnErrorKind};
use bowline_protocol::{Category, Code, Failure, Remedy, RequestField};

use crate::run::error::Error;
use crate::sessions::journal::JournalError;
use crate::system::causes::in_full;

/// Returns the failure of a program that could not be started. `install` are the remedies of a default program that is missing.
#[expect(clippy::wildcard_enum_match_arm, reason = "other errors have no finer code")]
pub(crate) fn of_spawn(error: &SpawnError, install: Option<&[Remedy]>) -> Failure {
    let check = || Remedy::CheckFile { path: error.program.display().to_string() };
    let another = || vec![check(), Remedy::set(RequestField::Binary)];
    let mut remedies = Vec::new();
    let (category, code, hint) = match &error.kind {
        SpawnErrorKind::NotFound => {
            remedies = install.map_or_else(another, <[Remedy]>::to_vec);
            (Category::NotFound, Code::NotInstalled, None)
        }
        SpawnErrorKind::NotExecutable
        | SpawnErrorKind::PermissionDenied
        | SpawnErrorKind::WrongArchitecture
        | SpawnErrorKind::NoInterpreter => {
            remedies = another();
            (Category::Configuration, Code::CannotStart, None)
        }
        SpawnErrorKind::Busy => (
            Category::Configuration,
            Code::CannotStart,
            Some("wait until its update is done, then try again".to_owned()),
        ),
        SpawnErrorKind::NoSuchCwd { cwd, .. } => {
            let create = Remedy::CreateDirectory { path: cwd.display().to_string() };
            remedies = vec![create, Remedy::set(RequestField::Cwd)];
            (Category::Configuration, Code::BadConfig, None)
        }
        SpawnErrorKind::TooLong => (
            Category::Validation,
            Code::RequestTooLarge,
            Some("put long texts into the prompt, which is sent over standard input".to_owned()),
        ),
        SpawnErrorKind::Nul { .. } => (Category::Validation, Code::InvalidRequest, None),
        SpawnErrorKind::Other { source, .. } if too_little(source).is_some() => {
            (Category::Configuration, Code::BadConfig, too_little(source).map(str::to_owned))
        }
        SpawnErrorKind::Keeper(_) => (
            Category::Configuration,
            Code::Unknown,
            Some("nothing is wrong with the request; start it again".to_owned()),
        ),
        _ => (Category::Configuration, Code::Unknown, None),
    };
    let mut failure = Failure::new(category, code, in_full(error));
    failure.hint = hint.or(failure.hint);
    failure.with_remedies(remedies)
}

/// Returns the limit to raise, if the system refused a resource.
fn too_little(error: &std::io::Error) -> Option<&'static str> {
    match rustix::io::Errno::from_io_error(error)? {
        rustix::io::Errno::MFILE | rustix::io::Errno::NFILE => {
            Some("raise the limit on open files: `ulimit -n` shows it")
        }
        rustix::io::Errno::AGAIN => {
            Some("raise the limit on processes, which `ulimit -u` shows, or end other programs of this user")
        }
        rustix::io::Errno::NOMEM => Some("free some memory, or raise the limit that `ulimit -v` shows"),
        _ => None,
    }
}

/// Returns the failure of a `docker` command that could not be started.
pub(crate) fn of_docker(error: &SpawnError) -> Failure {
    let mut failure = of_spawn(error, None);
    if matches!(failure.code, Code::NotInstalled | Code::CannotStart) {
        (failure.category, failure.code) = (Category::Configuration, Code::BadConfig);
        let install = Remedy::Install { how: "install docker and put it on PATH".to_owned() };
        let without = Remedy::OmitField { field: RequestField::Docker };
        failure = failure.with_remedies(vec![install, without]);
    }
    failure
}

/// Returns the failure of a further process of a session that could not be planned.
#[expect(clippy::wildcard_enum_match_arm, reason = "other errors have no finer code")]
pub(crate) fn of_plan(error: &Error) -> Failure {
    match error {
        Error::Refused(_) => Failure::new(Category::Validation, Code::Unsupported, in_full(error)),
        Error::Journal(journal) => of_journal(journal),
        _ => Failure::new(Category::Configuration, Code::CannotStart, in_full(error)),
    }
}

/// Returns the failure of a run whose journal cannot be written.
#[expect(clippy::wildcard_enum_match_arm, reason = "only what is about room has a name of its own")]
pub(crate) fn of_journal(error: &JournalError) -> Failure {
    let code = match error {
        JournalError::QuotaExceeded { .. } => Code::DiskQuota,
        _ if error.is_out_of_room() => Code::DiskFull,
        _ => Code::Unknown,
    };
    let mut failure = Failure::new(Category::Configuration, code, in_full(error));
    failure.hint = error.hint();
    failure
}

/// Returns the failure of a run whose keeper process is gone.
pub(crate) fn keeper_lost() -> Failure {
    let message =
        "the keeper process was killed; the processes of this agent that can be found are being killed";
    let mut failure = Failure::new(Category::Unknown, Code::Killed, message);
    failure.hint = Some("nothing is wrong with the request; start it again".to_owned());
    failure
}

/// Returns the failure of a program that sends requests and does not read the responses.
pub(crate) fn unread(limit: usize) -> Failure {
    let message =
        format!("the program does not read its standard input: more than {} MiB wait for it", limit >> 20);
    Failure::new(Category::Unknown, Code::Crashed, message)
}
