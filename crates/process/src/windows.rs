//! Windows, where nothing is started yet: a job object has to be written first.

pub(crate) mod streams {
    //! There are no streams where nothing can be started.

    use std::convert::Infallible;
    use std::task::{Context, Poll};

    use crate::child::Wish;
    use crate::happening::Happening;

    /// The streams of a child that cannot be.
    #[derive(Debug)]
    pub(crate) struct Streams(Infallible);

    impl Streams {
        #[expect(clippy::needless_pass_by_value, reason = "the same on every system")]
        pub(crate) fn obey(&mut self, _wish: Wish) {
            match self.0 {}
        }

        pub(crate) fn poll_stdout(&mut self, _context: &mut Context<'_>) -> Poll<Happening> {
            match self.0 {}
        }

        pub(crate) fn poll_stderr(&mut self, _context: &mut Context<'_>) -> Poll<Happening> {
            match self.0 {}
        }

        pub(crate) fn poll_stdin(&mut self, _context: &mut Context<'_>) -> Poll<Happening> {
            match self.0 {}
        }
    }
}

pub(crate) mod system {
    //! Says that nothing can be started.

    use crate::child::Child;
    use crate::command::Command;
    use crate::error::{KeeperError, SpawnErrorKind};
    use crate::happening::Guarantee;
    use crate::supervisor::Options;

    /// Starts nothing.
    #[derive(Debug, Clone)]
    pub(crate) struct System;

    impl System {
        #[expect(clippy::needless_pass_by_value, reason = "the same on every system")]
        pub(crate) fn start(_options: Options) -> Result<Self, KeeperError> {
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
