//! The processes of this machine, as `/proc` has them: independent of Bowline's own reports.

use std::path::PathBuf;

/// Returns the processes whose environment has this variable. Those of other users, which cannot be read, are left out.
pub(crate) fn with_variable(variable: &str) -> Vec<String> {
    let has = |dir: &PathBuf| {
        // Processes exit while /proc is read, and the environment of another user's process is unreadable (proc(5)). Both
        // count as empty.
        let environ = std::fs::read(dir.join("environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|it| it == variable.as_bytes())
    };
    all().filter(has).map(|dir| described(&dir)).collect()
}

/// Returns the processes whose command line has this text.
pub(crate) fn with_command(text: &str) -> Vec<String> {
    all().filter(|dir| command(dir).contains(text)).map(|dir| described(&dir)).collect()
}

/// Returns whether a process runs. One that has ended stays a zombie until its parent reads its status, which init may do late.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in brackets and may contain any byte (proc_pid_stat(5)).
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn all() -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path())
}

fn command(dir: &std::path::Path) -> String {
    // Empty for a process that has exited.
    std::fs::read_to_string(dir.join("cmdline")).unwrap_or_default().replace('\0', " ")
}

fn described(dir: &std::path::Path) -> String {
    let pid = dir.file_name().unwrap_or_default().to_string_lossy();
    format!("pid {pid}: {}", command(dir))
}
