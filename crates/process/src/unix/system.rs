//! Unix systems without a keeper: this process starts its children itself.

use super::group::{self, GroupStarter};
use crate::child::Child;
use crate::child_event::Guarantee;
use crate::command::Command;
use crate::error::{KeeperError, SpawnErrorKind};
use crate::supervisor::SupervisorOptions;

/// Starts children on Unix systems other than Linux.
#[derive(Debug, Clone)]
pub(crate) struct UnixSystem(GroupStarter);

impl UnixSystem {
    #[expect(clippy::needless_pass_by_value, reason = "the same on every system")]
    pub(crate) fn start(_options: SupervisorOptions) -> Result<Self, KeeperError> {
        GroupStarter::start().map(Self)
    }

    pub(crate) fn guarantee(&self) -> Guarantee {
        Guarantee::Group
    }

    pub(crate) fn keeper(&self) -> Option<u32> {
        None
    }

    pub(crate) fn keeper_error(&self) -> Option<&KeeperError> {
        None
    }

    pub(crate) async fn spawn(&self, command: Command) -> Result<Child, SpawnErrorKind> {
        group::spawn(&self.0, command).await
    }
}
