//! The signals that this process receives, and how they stop an agent.
//!
//! SIGINT, SIGTERM and SIGHUP ask a command to stop: the first one cancels the agents, the next one kills them. Commands that run no
//! agent end at the first one. How a run then stops its agent is decided in `engine`, and `process` sends those signals.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline::{Control, exit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::error::{CommandError, Fault};
use crate::ui::keyboard;

/// After the agent was killed for this long, one more signal ends this process, even if its output is blocked.
const LEAVE_AFTER: Duration = Duration::from_secs(1);

/// How long a command may go on printing after a signal if its agent has ended.
const PRINTED_BY: Duration = Duration::from_millis(500);

/// The signal that stopped a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    No,
    Interrupted,
    Terminated,
}

impl StopSignal {
    /// Returns the exit code of a command that was stopped.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Terminated => exit::TERMINATED,
            Self::Interrupted | Self::No => exit::CANCELLED,
        }
    }
}

/// The meaning of a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SignalAction {
    Stop(StopSignal),
    /// The terminal has another size.
    Window,
}

/// The agents that a signal stops. A command that starts agents one after the other adds each when it begins; an agent that begins
/// after the signal is stopped at once.
#[derive(Clone, Debug)]
pub(crate) struct StopTargets(Arc<Mutex<TargetList>>);

#[derive(Debug)]
struct TargetList {
    controls: Vec<Control>,
    order: StopOrder,
    /// Whether more agents may begin.
    more: bool,
}

/// The strongest order so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StopOrder {
    No,
    Cancel,
    Kill,
}

impl StopTargets {
    /// Makes a list that does not grow.
    pub(crate) fn of(controls: Vec<Control>) -> Self {
        Self(Arc::new(Mutex::new(TargetList { controls, order: StopOrder::No, more: false })))
    }

    /// Makes an empty list that grows until [`Self::close`].
    pub(crate) fn growing() -> Self {
        Self(Arc::new(Mutex::new(TargetList { controls: Vec::new(), order: StopOrder::No, more: true })))
    }

    /// Adds an agent that began.
    pub(crate) fn add(&self, control: Control) {
        self.with(|list| {
            // Of many tasks, only those that run are kept.
            list.controls.retain(|control| !control.is_over());
            list.order.give(&control);
            list.controls.push(control);
        });
    }

    /// No more agents begin.
    pub(crate) fn close(&self) {
        self.with(|list| list.more = false);
    }

    /// Cancels all agents, and those that begin later.
    pub(crate) fn cancel(&self) {
        self.order(StopOrder::Cancel);
    }

    fn kill(&self) {
        self.order(StopOrder::Kill);
    }

    /// Returns whether all agents have ended and no more can begin.
    fn are_over(&self) -> bool {
        self.with(|list| !list.more && list.controls.iter().all(Control::is_over))
    }

    fn order(&self, order: StopOrder) {
        self.with(|list| {
            list.order = list.order.max(order);
            list.controls.iter().for_each(|control| order.give(control));
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut TargetList) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl StopOrder {
    fn give(self, control: &Control) {
        match self {
            Self::No => {}
            Self::Cancel => control.cancel(),
            Self::Kill => control.kill(),
        }
    }
}

/// The signals of this process. While this value exists, they no longer end the process by themselves.
#[derive(Debug)]
pub(crate) struct ProcessSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if the caller ignores hangups, as `nohup` does.
    hangup: Option<Signal>,
    window: Signal,
}

impl ProcessSignals {
    /// Installs the handlers.
    pub(crate) fn new() -> Result<Self, CommandError> {
        Self::install().map_err(|error| {
            CommandError::new(Fault::Internal, "could not install the signal handlers").caused_by(error)
        })
    }

    fn install() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            // A handler would replace the disposition that `nohup` set, and closing the terminal would stop the agent.
            hangup: if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) },
            window: signal(SignalKind::window_change())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.interrupt.recv() => SignalAction::Stop(StopSignal::Interrupted),
            _ = self.terminate.recv() => SignalAction::Stop(StopSignal::Terminated),
            () = hangup(&mut self.hangup) => SignalAction::Stop(StopSignal::Terminated),
            _ = self.window.recv() => SignalAction::Window,
        }
    }

    /// Waits for a signal that stops the command.
    pub(crate) async fn stop(&mut self) -> StopSignal {
        loop {
            if let SignalAction::Stop(how) = self.next().await {
                return how;
            }
        }
    }

    /// Acts on signals at once, in a task of its own, and passes them on to the display.
    ///
    /// The display may be blocked by a reader that does not read; the agents must stop nevertheless.
    pub(crate) async fn obey(mut self, targets: StopTargets, shown: mpsc::UnboundedSender<SignalAction>) {
        let (mut cancelled, mut killed) = (false, None);
        loop {
            let sent = self.next().await;
            if let SignalAction::Stop(how) = sent
                && targets.are_over()
            {
                // The agents have ended; only the output is left to stop.
                // In a task of its own, so that this loop stays free for the next signal.
                tokio::spawn(leave_soon(how));
                continue;
            }
            // Pass it on before acting, so that the display knows the cause of the end. The receiver may be gone.
            let _ = shown.send(sent);
            match sent {
                SignalAction::Window => {}
                SignalAction::Stop(_) if !cancelled => {
                    cancelled = true;
                    targets.cancel();
                }
                SignalAction::Stop(how) => {
                    targets.kill();
                    // The time since the first kill counts, not since the latest signal.
                    let since = killed.get_or_insert_with(tokio::time::Instant::now);
                    if since.elapsed() > LEAVE_AFTER {
                        leave(how);
                    }
                }
            }
        }
    }
}

/// Waits for a hangup; forever if hangups are ignored.
async fn hangup(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Returns whether this process was started with SIGHUP ignored, as `nohup` does.
fn ignores_hangup() -> bool {
    // sigaction(2) needs `unsafe`, which only the crate `process` may use. proc(5) has the same mask. Without /proc, hangups
    // are handled.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Ends this process unless it finishes printing first.
async fn leave_soon(how: StopSignal) {
    tokio::time::sleep(PRINTED_BY).await;
    leave(how)
}

/// Ends this process with unread output. The agent has ended, or the keeper kills it.
#[expect(clippy::exit, reason = "the thread that would return waits for a reader that may never read")]
fn leave(how: StopSignal) -> ! {
    keyboard::restore();
    std::process::exit(i32::from(how.code()))
}
