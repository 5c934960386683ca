//! Processes of a session whose host and keeper are both gone.

use crate::child_event::TreeProcess;

/// The processes found of a session without host and keeper.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StrayReport {
    /// The processes that were ended.
    pub ended: Vec<TreeProcess>,
    /// The processes that could not be ended.
    pub survivors: Vec<TreeProcess>,
}

/// Ends every process that has this session's marker, and every process that they started.
///
/// Use it for a session whose runner is known to be dead. Blocks for at most some seconds. Does nothing in a process that the
/// session started itself. Only Linux shows the environment of other processes; elsewhere nothing is found.
pub fn end_strays(marker: &str) -> StrayReport {
    #[cfg(target_os = "linux")]
    let (ended, survivors) = crate::linux::strays::end_session(marker);
    #[cfg(not(target_os = "linux"))]
    let (ended, survivors) = (Vec::new(), {
        let _ = marker;
        Vec::new()
    });
    StrayReport { ended, survivors }
}
