//! Scripts in the place of programs, for tests.

use super::{JournalChoice, Task};
use crate::run::testing::Script;

impl Task {
    /// Plays this script instead of starting a process. Everything else is real. The journal is deleted with the run unless you
    /// set its home.
    pub fn script(self, script: Script) -> Self {
        self.scripts([script])
    }

    /// Plays these scripts, one for each attempt of the router, and the last one for all further attempts.
    pub fn scripts(mut self, scripts: impl IntoIterator<Item = Script>) -> Self {
        self.cast.set(scripts);
        self.without_own_journal()
    }

    /// Plays this script for that provider. Providers without a script count as not installed; see
    /// [`crate::testing`].
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use bowline::testing::says;
    ///
    /// let task = bowline::task("Say hello").provider("auto").script_for("codex", says("hello"));
    /// assert_eq!(task.run().await?.attempts[0].name, "codex");
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    pub fn script_for(mut self, provider: &str, script: Script) -> Self {
        self.cast.set_for(provider, script);
        self.without_own_journal()
    }

    /// Keeps the sessions of tests out of the developer's data home.
    fn without_own_journal(mut self) -> Self {
        if matches!(self.journal, JournalChoice::Default) {
            self.journal = JournalChoice::Temporary;
        }
        self
    }
}
