//! Windows: children cannot be started yet. It needs an owner on top of job objects.

pub(crate) mod streams {
    //! Streams of a child, which Windows does not have yet.

    use std::convert::Infallible;
    use std::task::{Context, Poll};

    use crate::child::StreamCommand;
    use crate::child_event::ChildEvent;

    /// The streams of a child. No value exists.
    #[derive(Debug)]
    pub(crate) struct NoStreams(Infallible);

    impl NoStreams {
        #[expect(clippy::needless_pass_by_value, reason = "the same on every system")]
        pub(crate) fn execute(&mut self, _command: StreamCommand) {
            match self.0 {}
        }

        pub(crate) fn poll_stdout(&mut self, _context: &mut Context<'_>) -> Poll<ChildEvent> {
            match self.0 {}
        }

        pub(crate) fn poll_stderr(&mut self, _context: &mut Context<'_>) -> Poll<ChildEvent> {
            match self.0 {}
        }

        pub(crate) fn poll_stdin(&mut self, _context: &mut Context<'_>) -> Poll<ChildEvent> {
            match self.0 {}
        }
    }
}

pub(crate) mod system {
    //! Returns an error for every start.

    use crate::child::Child;
    use crate::child_event::Guarantee;
    use crate::command::Command;
    use crate::error::{KeeperError, SpawnErrorKind};
    use crate::supervisor::SupervisorOptions;

    /// Starts nothing.
    #[derive(Debug, Clone)]
    pub(crate) struct WindowsSystem;

    impl WindowsSystem {
        #[expect(clippy::needless_pass_by_value, reason = "the same on every system")]
        pub(crate) fn start(_options: SupervisorOptions) -> Result<Self, KeeperError> {
            Ok(Self)
        }

        pub(crate) fn guarantee(&self) -> Guarantee {
            Guarantee::Group
        }

        pub(crate) fn keeper(&self) -> Option<u32> {
            None
        }

        #[expect(clippy::unused_async, reason = "the same on every system")]
        pub(crate) fn keeper_error(&self) -> Option<&KeeperError> {
            None
        }

        pub(crate) async fn spawn(&self, _command: Command) -> Result<Child, SpawnErrorKind> {
            Err(SpawnErrorKind::Unsupported)
        }
    }
}
