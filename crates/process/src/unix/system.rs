//! Unix systems without a keeper of ours: this process starts its children itself.

use super::group::{self, Starter};
use crate::child::Child;
use crate::command::Command;
use crate::error::{KeeperError, SpawnErrorKind};
use crate::happening::Guarantee;
use crate::supervisor::Options;

/// Whoever starts children here.
#[derive(Debug, Clone)]
pub(crate) struct System(Starter);

impl System {
    #[expect(clippy::needless_pass_by_value, reason = "the same on every system")]
    pub(crate) fn start(_options: Options) -> Result<Self, KeeperError> {
        Starter::start().map(Self)
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
