//! Processes of a session whose host and keeper are both gone.

use crate::happening::Survivor;

/// What was found of a session that nobody owns any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strays {
    /// What was ended.
    pub ended: Vec<Survivor>,
    /// What could not be.
    pub survivors: Vec<Survivor>,
}

/// Ends every process that carries this session's marker, and all that they started.
///
/// For a session whose runner is known to be dead. Blocks, at most for some seconds. Does nothing in a process that the session
/// started itself. Only Linux shows the environment of other processes; elsewhere nothing is found.
pub fn end_strays(marker: &str) -> Strays {
    #[cfg(target_os = "linux")]
    let (ended, survivors) = crate::linux::strays::end_session(marker);
    #[cfg(not(target_os = "linux"))]
    let (ended, survivors) = (Vec::new(), {
        let _ = marker;
        Vec::new()
    });
    Strays { ended, survivors }
}
