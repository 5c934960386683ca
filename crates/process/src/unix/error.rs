//! Explains the error numbers of a failed start.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::SpawnErrorKind;

/// Explains why `execve` refused a program.
pub(crate) fn of_exec(program: &Path, errno: i32) -> SpawnErrorKind {
    let error = io::Error::from_raw_os_error(errno);
    match errno {
        // The file is there, so ENOENT is about the interpreter in its `#!` line, or about its ELF loader (execve(2)).
        libc::ENOENT if program.exists() => SpawnErrorKind::NoInterpreter,
        libc::ENOENT | libc::ENOTDIR => SpawnErrorKind::NotFound,
        libc::EACCES => match program.metadata() {
            Ok(file) if file.is_dir() || file.permissions().mode() & 0o111 == 0 => {
                SpawnErrorKind::NotExecutable
            }
            // Executable for other users, but not for this one.
            Ok(_) if rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_err() => {
                SpawnErrorKind::NotExecutable
            }
            Ok(_) | Err(_) => SpawnErrorKind::PermissionDenied,
        },
        libc::EPERM => SpawnErrorKind::PermissionDenied,
        // ELIBBAD and EINVAL: an ELF file whose loader or whose headers are not this machine's.
        libc::ENOEXEC => SpawnErrorKind::WrongArchitecture,
        #[cfg(target_os = "linux")]
        libc::ELIBBAD => SpawnErrorKind::WrongArchitecture,
        #[cfg(target_os = "macos")]
        libc::EBADARCH | libc::EBADMACHO | libc::EBADEXEC => SpawnErrorKind::WrongArchitecture,
        libc::ETXTBSY => SpawnErrorKind::Busy,
        libc::E2BIG => SpawnErrorKind::TooLong,
        _ => SpawnErrorKind::Other { doing: "executing the program", source: error },
    }
}
