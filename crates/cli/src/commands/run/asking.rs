//! Asks the person at the terminal: opens the keyboard while a request is shown, and sends the decisions.
//!
//! `human::ask` decides the meaning of the keys.

use bowline::{Control, OrderRefused, PermissionMode, SessionOrder, Task};
use bowline_providers::manifest::Manifest;
use tokio::sync::mpsc;

use super::request::permission;
use crate::args::request::RequestArgs;
use crate::args::run::RunArgs;
use crate::error::CommandError;
use crate::output::sink::{OutputFormat, Sink};
use crate::time;
use crate::ui::keyboard::{KeyInput, Keyboard};
use crate::ui::terminal;

/// Whether the person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// The permission mode decides.
    No,
    Person,
}

impl Asking {
    /// Decides whether this run asks.
    pub(super) fn of(args: &RunArgs, request: &RequestArgs, format: OutputFormat, task: &Task) -> Self {
        let for_a_person = matches!(format, OutputFormat::Human) && !args.quiet && !args.no_ask;
        let can_be_asked = match permission(request.permission) {
            PermissionMode::Ask | PermissionMode::Edit => true,
            // `yolo` allows everything, but a policy may still ask.
            PermissionMode::Yolo => task.has_policies(),
            // Nothing is left to ask: `read` promises that nothing changes.
            PermissionMode::Read => false,
        };
        if for_a_person && can_be_asked && terminal::can_ask() { Self::Person } else { Self::No }
    }

    /// Lets the person decide in a task. If the agent can ask only in a format that does not support an option of the request, the
    /// option is more important. Returns whether the person is asked then.
    pub(super) fn applied(self, task: Task, args: &RunArgs, manifest: Option<&Manifest>) -> (Task, Self) {
        if self == Self::No {
            return (task, self);
        }
        let asking = task.clone().ask_a_person();
        let asking = match args.approval_deadline {
            Some(deadline) => asking.approval_deadline(deadline),
            None => asking,
        };
        let switches = manifest.is_some_and(|manifest| manifest.asking_format().is_some());
        if switches && matches!(asking.preview(), Err(bowline::Error::Refused(_))) && task.preview().is_ok() {
            return (task, Self::No);
        }
        (asking, self)
    }
}

/// The way from the keyboard to the session.
#[derive(Debug)]
pub(super) struct Asker {
    control: Control,
    /// Open while a request is shown, and the number of that request.
    keyboard: Option<(Keyboard, u64)>,
    /// Whether the terminal is gone.
    lost: bool,
    refused: mpsc::UnboundedReceiver<(SessionOrder, OrderRefused)>,
    refuses: mpsc::UnboundedSender<(SessionOrder, OrderRefused)>,
}

/// Something that the person did, or the answer to it.
#[derive(Debug)]
pub(super) enum AskerInput {
    Keys(KeyInput),
    Refused(SessionOrder, OrderRefused),
}

impl Asker {
    pub(super) fn new(control: Control) -> Self {
        let (refuses, refused) = mpsc::unbounded_channel();
        Self { control, keyboard: None, lost: false, refused, refuses }
    }

    /// Waits for the person, or for the refusal of an order. Cancel safe.
    pub(super) async fn next(&mut self) -> AskerInput {
        let Self { keyboard, refused, .. } = self;
        let keys = async {
            match keyboard {
                Some((keyboard, _)) => keyboard.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            keys = keys => AskerInput::Keys(keys),
            // `self` has a sender, so the channel never ends.
            Some((order, why)) = refused.recv() => AskerInput::Refused(order, why),
        }
    }

    /// Acts on what the person did.
    pub(super) fn handle(&mut self, input: AskerInput, sink: &mut Sink) -> Result<(), CommandError> {
        let now = time::now();
        match input {
            AskerInput::Keys(KeyInput::Bytes(bytes)) => {
                let order = sink.typed(&bytes, now)?;
                order.into_iter().for_each(|order| self.send(order));
            }
            AskerInput::Keys(KeyInput::Closed) => {
                self.lost = true;
                sink.warn("the terminal is gone: approvals are denied from now on")?;
            }
            AskerInput::Refused(order, why) => sink.order_refused(&order, &why, now)?,
        }
        Ok(())
    }

    /// Opens the keyboard if a request is shown, and closes it if none is.
    pub(super) fn attend(&mut self, sink: &mut Sink) -> Result<(), CommandError> {
        if self.lost {
            self.keyboard = None;
            sink.deny_shown().into_iter().for_each(|order| self.send(order));
            return Ok(());
        }
        match (sink.waits_for_keys(), &mut self.keyboard) {
            (None, keyboard) => *keyboard = None,
            (Some(number), Some((keyboard, shown))) => {
                if *shown != number {
                    sink.ring();
                    keyboard.flush();
                    *shown = number;
                }
            }
            (Some(number), None) => {
                sink.ring();
                self.keyboard = Some((Keyboard::open()?, number));
            }
        }
        Ok(())
    }

    /// Sends an order. Its success shows as an event.
    fn send(&self, order: SessionOrder) {
        let (control, refuses) = (self.control.clone(), self.refuses.clone());
        tokio::spawn(async move {
            if let Err(why) = control.order(order.clone()).await {
                // The run may be over.
                let _ = refuses.send((order, why));
            }
        });
    }
}
