//! Plays a script in the place of a process.

use std::collections::VecDeque;

use bowline_engine::{StopSignal, SweepResult};
use bowline_protocol::Exit;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::host_call::CallSlot;
use super::{KeptAgent, OnStop, Step};
use crate::run::agent::AgentEvent;
use crate::run::host_tools::HostTool;
use crate::system::clock;

/// The signals by their numbers, as a process would report them.
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// An agent that plays a script.
#[derive(Debug)]
pub(crate) struct Actor {
    steps: VecDeque<Step>,
    on_stop: OnStop,
    /// Until when the step in front waits. Kept here, because the wait may be given up and begun again.
    waits_until: Option<Instant>,
    /// The call of a tool of the task that the step in front makes.
    calling: CallSlot,
    tools: Vec<HostTool>,
    /// Events that are not delivered yet.
    ready: VecDeque<AgentEvent>,
    over: bool,
    /// The agent's side of the protocol, if the process takes many prompts. It does not end with its steps.
    kept: Option<Box<KeptAgent>>,
    sender: mpsc::UnboundedSender<ActorOrder>,
    orders: mpsc::UnboundedReceiver<ActorOrder>,
}

/// An action on the agent.
#[derive(Debug)]
enum ActorOrder {
    Stop(Exit),
    Kill,
    Write(Vec<u8>),
    Sweep,
}

impl Actor {
    pub(super) fn new(steps: Vec<Step>, on_stop: OnStop) -> Self {
        let (sender, orders) = mpsc::unbounded_channel();
        let (waits_until, ready, over) = (None, VecDeque::new(), false);
        let (calling, tools) = (CallSlot(None), Vec::new());
        let steps = steps.into();
        Self { steps, on_stop, waits_until, calling, tools, ready, over, kept: None, sender, orders }
    }

    /// Gives it the tools of the task.
    pub(super) fn with_tools(self, tools: Vec<HostTool>) -> Self {
        Self { tools, ..self }
    }

    /// Makes the process that takes many prompts.
    pub(super) fn kept(agent: KeptAgent, on_stop: OnStop) -> Self {
        Self { kept: Some(Box::new(agent)), ..Self::new(Vec::new(), on_stop) }
    }

    /// Waits for the next thing that happens. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> AgentEvent {
        // A script never has to wait for a pipe; without this it would hold up every other task of the thread.
        tokio::task::consume_budget().await;
        loop {
            while let Ok(order) = self.orders.try_recv() {
                self.obey(order);
            }
            if let Some(happening) = self.ready.pop_front() {
                return happening;
            }
            match self.steps.front() {
                _ if self.over => self.wait_for_orders().await,
                Some(Step::Hang) => self.wait_for_orders().await,
                None if self.kept.is_some() => self.wait_for_orders().await,
                Some(Step::Kept(_)) => {
                    match self.kept.as_mut().and_then(|agent| agent.play(&mut self.steps)) {
                        Some(lines) => self.print(&lines),
                        None => self.wait_for_orders().await,
                    }
                }
                Some(Step::Wait(span)) => {
                    let until = *self.waits_until.get_or_insert_with(|| Instant::now() + *span);
                    tokio::select! {
                        biased;
                        Some(order) = self.orders.recv() => self.obey(order),
                        () = tokio::time::sleep_until(until) => {
                            self.waits_until = None;
                            self.steps.pop_front();
                        }
                    }
                }
                Some(Step::Host(call)) => {
                    let calling = self.calling.0.get_or_insert_with(|| call.begin(&self.tools));
                    tokio::select! {
                        biased;
                        Some(order) = self.orders.recv() => self.obey(order),
                        ended = calling => {
                            self.calling.0 = None;
                            self.steps[0] = ended;
                        }
                    }
                }
                Some(Step::Stdout(_) | Step::Stderr(_) | Step::Exit(_)) | None => self.play(),
            }
        }
    }

    /// Plays a step that takes no time.
    fn play(&mut self) {
        let at = clock::system();
        match self.steps.pop_front() {
            Some(Step::Stdout(bytes)) => self.ready.push_back(AgentEvent::Stdout { bytes, at }),
            Some(Step::Stderr(bytes)) => self.ready.push_back(AgentEvent::Stderr { bytes, at }),
            Some(Step::Exit(exit)) => self.exit(exit),
            Some(Step::Wait(_) | Step::Hang | Step::Kept(_) | Step::Host(_)) | None => {
                self.exit(Exit::Code(0))
            }
        }
    }

    fn print(&mut self, lines: &[Value]) {
        let at = clock::system();
        let line = |line: &Value| AgentEvent::Stdout { bytes: format!("{line}\n").into_bytes(), at };
        self.ready.extend(lines.iter().map(line));
    }

    async fn wait_for_orders(&mut self) {
        // It holds a sender itself, so there is always an order or a wait.
        if let Some(order) = self.orders.recv().await {
            self.obey(order);
        }
    }

    fn obey(&mut self, order: ActorOrder) {
        match order {
            ActorOrder::Write(bytes) if !self.over => {
                let lines = self.kept.as_mut().map(|agent| agent.read(&bytes, &mut self.steps));
                self.ready.push_back(AgentEvent::StdinWritten { bytes, at: clock::system() });
                self.print(&lines.unwrap_or_default());
                if !matches!(self.steps.front(), Some(Step::Wait(_))) {
                    self.waits_until = None;
                }
                if !matches!(self.steps.front(), Some(Step::Host(_))) {
                    self.calling.0 = None;
                }
            }
            ActorOrder::Sweep => self.ready.push_back(AgentEvent::Swept(SweepResult::default())),
            ActorOrder::Kill => self.exit(Exit::Signal(SIGKILL)),
            ActorOrder::Stop(exit) if !self.over => {
                match std::mem::replace(&mut self.on_stop, OnStop::Ignore) {
                    OnStop::Ignore => {}
                    OnStop::Obey => self.exit(exit),
                    OnStop::Play(mut steps) => {
                        // The process ends with these steps, also one that takes many prompts.
                        steps.push(Step::Exit(Exit::Code(0)));
                        self.steps = steps.into();
                        (self.waits_until, self.calling.0) = (None, None);
                    }
                }
            }
            // The played process has ended.
            ActorOrder::Write(_) | ActorOrder::Stop(_) => {}
        }
    }

    fn exit(&mut self, exit: Exit) {
        self.calling.0 = None;
        if !std::mem::replace(&mut self.over, true) {
            self.ready.extend([AgentEvent::StdoutClosed, AgentEvent::StderrClosed, AgentEvent::Exited(exit)]);
        }
    }

    pub(crate) fn write(&self, bytes: Vec<u8>) {
        self.order(ActorOrder::Write(bytes));
    }

    pub(crate) fn close_stdin(&self) {
        self.order(ActorOrder::Stop(Exit::Code(0)));
    }

    pub(crate) fn signal(&self, signal: StopSignal) {
        self.order(ActorOrder::Stop(Exit::Signal(match signal {
            StopSignal::Interrupt => SIGINT,
            StopSignal::Terminate => SIGTERM,
        })));
    }

    pub(crate) fn kill(&self) {
        self.order(ActorOrder::Kill);
    }

    pub(crate) fn sweep(&self) {
        self.order(ActorOrder::Sweep);
    }

    fn order(&self, order: ActorOrder) {
        // The receiver is ours as well, so it is there.
        let _: Result<(), _> = self.sender.send(order);
    }
}
