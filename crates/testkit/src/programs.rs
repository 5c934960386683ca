//! Programs that a test writes and then starts.
//!
//! The kernel does not execute a file that a process has open for writing (`ETXTBSY`). Tests run as threads of one process: a
//! thread that forks copies the descriptors of all others, including one through which another thread writes a program, and has the
//! copy until its child calls `exec`. So a test that writes a program itself and starts it at once fails now and then.
//! Here a child writes the file: this process never has it open, so no fork can copy the descriptor.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Writes a program that can be started at once. It replaces an existing file, as an update does.
pub fn write_program(path: &Path, text: impl AsRef<[u8]>) {
    let source = beside(path, "text");
    std::fs::write(&source, text).expect("the text of the program is written");
    copy_program(&source, path);
    std::fs::remove_file(&source).expect("the text of the program is removed");
}

/// Copies a program so that it can be started at once. It replaces an existing file, as an update does.
pub fn copy_program(from: &Path, to: &Path) {
    let source = File::open(from).expect("the program can be read");
    let new = beside(to, "new");
    #[expect(
        clippy::disallowed_methods,
        reason = "a child has to have the file open instead of this process"
    )]
    let mut writer = Command::new("/bin/sh");
    writer.args(["-c", "exec cat > \"$0\""]).arg(&new).stdin(source).stdout(Stdio::null());
    assert!(writer.status().expect("a child is started").success(), "{} is not written", new.display());
    std::fs::set_permissions(&new, Permissions::from_mode(0o755)).expect("the program can be executed");
    std::fs::rename(&new, to).expect("the program is put in its place");
}

/// Returns a path in the same directory.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}
