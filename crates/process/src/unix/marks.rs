//! The marks of our processes, and the environment that contains them.

use std::ffi::{OsStr, OsString};
use std::io;

use crate::command::{Command, SESSION_VARIABLE, SPAWN_VARIABLE};
use crate::keeper;

/// Draws the random mark of one spawn.
pub(crate) fn token() -> io::Result<String> {
    let mut random = [0u8; 12];
    #[cfg(target_os = "linux")]
    // Blocks only until the kernel has seeded its generator, early at boot (getrandom(2)).
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    #[cfg(not(target_os = "linux"))]
    {
        use std::io::Read;
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    }
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the environment of a child: the command's variables and the marks. Marks in the command's variables are dropped.
pub(crate) fn environment(command: &Command, token: &str) -> Vec<(OsString, OsString)> {
    let ours = [SESSION_VARIABLE, SPAWN_VARIABLE, keeper::VARIABLE];
    let is_ours = |name: &OsStr| ours.iter().any(|our| name == *our);
    let mut environment: Vec<_> = command.env.iter().filter(|(name, _)| !is_ours(name)).cloned().collect();
    environment.push((SESSION_VARIABLE.into(), OsString::from(&command.marker)));
    #[expect(clippy::disallowed_methods, reason = "a spawn inside a spawn carries the outer mark too")]
    let chain = match std::env::var_os(SPAWN_VARIABLE) {
        Some(mut outer) => {
            outer.push("/");
            outer.push(token);
            outer
        }
        None => OsString::from(token),
    };
    environment.push((SPAWN_VARIABLE.into(), chain));
    environment
}
