//! Waits for the cleanup after an earlier run that was killed.

use std::time::Duration;

use bowline::registry;

use crate::signals::ProcessSignals;
use crate::ui::Ui;

/// How long a finished run waits for the cleanup after an earlier run: first silently, then with a notice. Docker answers
/// within three seconds or not at all.
const NOTICED: Duration = Duration::from_millis(500);
const IN_ORDER: Duration = Duration::from_millis(3500);

/// Waits until the library has cleaned up after killed runs: a short run may end before docker answers. A signal ends the wait.
pub(super) async fn leave_in_order(for_a_person: bool) {
    // `settled` blocks its thread, so it must not run on a thread of the async runtime.
    let settled = |patience| tokio::task::spawn_blocking(move || registry::settled(patience));
    let wait = async {
        // If the blocking task panicked, there is nothing left to wait for.
        if settled(NOTICED).await.unwrap_or(true) {
            return;
        }
        if for_a_person {
            Ui::new().status("Cleaning up after an earlier run that was killed (Ctrl-C to skip)");
        }
        if !settled(IN_ORDER).await.unwrap_or(true) {
            tracing::info!("the cleanup after a killed run is incomplete; the next run continues it");
        }
    };
    let Ok(mut signals) = ProcessSignals::new() else { return };
    tokio::select! {
        () = wait => {}
        _ = signals.stop() => {}
    }
}
