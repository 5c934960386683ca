//! Signals: the agent exits on a stop signal, in the form of its dialect, unless a directive makes it ignore the signal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::player::Show;
use crate::tools;
use crate::voices::{Parting, usual};

/// The signals that the agent handles.
pub(crate) const HEARD: &[i32] = &[SIGINT, SIGTERM, SIGHUP];

/// How long the final output may take. A reader that does not read must not keep the agent alive.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// An order of the host, which the agent can ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostOrder {
    Signal(i32),
    /// The host cancels the prompt.
    Cancel,
    /// The host hands a text to the running prompt.
    Steer,
    /// The host changes a setting.
    Set,
    /// The end of standard input that carries a protocol.
    EndOfInput,
}

impl HostOrder {
    /// Returns its bit in [`Deaf`].
    fn bit(self) -> u64 {
        match self {
            Self::Signal(signal) => 1 << signal,
            // Behind the signals that the agent handles.
            Self::Set => 1 << 60,
            Self::Steer => 1 << 61,
            Self::Cancel => 1 << 62,
            Self::EndOfInput => 1 << 63,
        }
    }
}

/// The orders that the agent ignores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deaf(Arc<AtomicU64>);

impl Deaf {
    /// Makes the agent ignore an order.
    pub(crate) fn to(&self, order: HostOrder) {
        self.0.fetch_or(order.bit(), Ordering::SeqCst);
    }

    pub(crate) fn is_to(&self, order: HostOrder) -> bool {
        self.0.load(Ordering::SeqCst) & order.bit() != 0
    }
}

/// Starts the handler, on a thread of its own.
pub(crate) fn listen(show: Arc<Mutex<Show>>, deaf: Deaf) -> Result<(), String> {
    let mut signals =
        Signals::new(HEARD).map_err(|error| format!("could not listen for signals: {error}"))?;
    let hear = move || {
        for signal in signals.forever() {
            if !deaf.is_to(HostOrder::Signal(signal)) {
                leave(signal, &show);
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(hear);
    thread.map(drop).map_err(|error| format!("could not start a thread for signals: {error}"))
}

/// Writes the final output and ends the process.
#[expect(clippy::exit, reason = "the other thread may be blocked in a write; nothing else ends it")]
fn leave(signal: i32, show: &Arc<Mutex<Show>>) {
    let (sender, receiver) = mpsc::channel();
    let show = Arc::clone(show);
    let speak = move || {
        // The player may hold this lock in a blocked write. `recv_timeout` below then gives up.
        let mut show = show.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Show { voice, stage } = &mut *show;
        let parting = voice.part(signal, stage);
        stage.out.flush();
        // The receiver is gone if this took too long; then the process is, too.
        _ = sender.send(parting);
        // Keep the lock: nothing may follow the final output.
        std::thread::sleep(Duration::from_secs(60));
    };
    let spoken =
        std::thread::Builder::new().spawn(speak).ok().and_then(|_| receiver.recv_timeout(LAST_WORDS).ok());
    // A running command has a process group of its own, so the signal did not reach it.
    tools::end_work();
    match spoken.unwrap_or(usual(signal)) {
        Parting::Code(code) => std::process::exit(code),
        Parting::Signal => {
            // It returns only if the signal cannot be raised, or does not end a process by default.
            _ = signal_hook::low_level::emulate_default_handler(signal);
            std::process::exit(128 + signal)
        }
    }
}
