//! Work that waits for the disk, away from the thread that other runs need.
//!
//! A run that is alone in its process does such work where it is: starting a thread costs more than it saves, and nothing
//! else waits. Where several runs share the process, the work goes to tokio's threads for blocking work, a few at a time:
//! hundreds of journals opened at once would only queue up in the file system.

use tokio::sync::Semaphore;

use crate::sessions::session_monitor;

/// How many runs may share a thread before the disk is left to others.
const ALONE: usize = 1;

/// How much such work is done at the same time.
const AT_ONCE: usize = 4;

static ROOM: Semaphore = Semaphore::const_new(AT_ONCE);

/// Does the work, and waits for it without holding up other runs.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if session_monitor::count() <= ALONE {
        return work();
    }
    // The semaphore is never closed.
    let _room = ROOM.acquire().await;
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down and drops the waiting task.
            Err(_) => std::future::pending().await,
        },
    }
}
