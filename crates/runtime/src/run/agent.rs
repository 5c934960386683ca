//! The agent: a process, or in tests a script that plays one.

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bowline_engine::{StopSignal, Survivor, SweepResult};
use bowline_process as process;
use bowline_protocol::{Exit, Failure, Remedy};
use bowline_providers::invocation::docker;
use bowline_providers::manifest::run::StopScope;

use crate::run::failures;
use crate::system::container::{Inside, Messenger};

/// An event of the agent's process, or of a script that plays one.
///
/// It repeats some names of [`process::ChildEvent`] and is not that type: `process` depends on none of our crates, so its exit
/// status, its processes and its lost keeper are translated here, once, into values of the engine; and a script has none of them. It
/// is not [`bowline_engine::RunInput`] either: that borrows the bytes, which the journal gets first.
#[derive(Debug)]
pub(crate) enum AgentEvent {
    Stdout {
        bytes: Vec<u8>,
        at: SystemTime,
    },
    Stderr {
        bytes: Vec<u8>,
        at: SystemTime,
    },
    StdinWritten {
        bytes: Vec<u8>,
        at: SystemTime,
    },
    StdoutClosed,
    StderrClosed,
    Exited(Exit),
    Swept(SweepResult),
    /// An error of Bowline itself.
    Trouble(Failure),
}

/// An agent that is being started.
pub(crate) type Starting = Pin<Box<dyn Future<Output = Result<Agent, Failure>> + Send>>;

/// How the agent of each attempt is started.
#[derive(Debug)]
pub(crate) enum Launch {
    Processes {
        supervisor: process::Supervisor,
        commands: Vec<process::Command>,
        /// How to install the program, if it is the provider's default.
        install: Option<Vec<Remedy>>,
        /// The container that it runs in.
        inside: Option<Box<Inside>>,
        /// A command without a program, with the environment of the agent, if it may have terminals.
        shell: Option<Box<process::Command>>,
    },
    #[cfg(feature = "testing")]
    Script(crate::run::testing::Script),
}

impl Launch {
    /// Returns whether the agent gets a terminal. The manifest decides that for all attempts.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Processes { commands, .. } => {
                commands.iter().any(|command| matches!(command.stdio, process::Stdio::Terminal { .. }))
            }
            #[cfg(feature = "testing")]
            Self::Script(_) => false,
        }
    }

    /// Returns whether the agent runs in a container, whose files are not those of this process.
    pub(crate) fn is_in_container(&self) -> bool {
        match self {
            Self::Processes { inside, .. } => inside.is_some(),
            #[cfg(feature = "testing")]
            Self::Script(_) => false,
        }
    }

    /// Returns what starts the commands of the agent's terminals, if it may have them.
    pub(crate) fn shell(&self) -> Option<(process::Supervisor, process::Command)> {
        match self {
            Self::Processes { supervisor, shell, .. } => {
                Some((supervisor.clone(), (**shell.as_ref()?).clone()))
            }
            #[cfg(feature = "testing")]
            Self::Script(_) => None,
        }
    }

    /// Replaces the commands that were not tried yet. A script has an actor for every attempt.
    pub(crate) fn replace_rest(&mut self, command: process::Command) {
        match self {
            Self::Processes { commands, .. } => {
                commands.truncate(1);
                commands.push(command);
            }
            #[cfg(feature = "testing")]
            Self::Script(_) => {}
        }
    }

    /// Starts the agent of an attempt when the future is polled. Dropping the future ends a started process.
    ///
    /// Every attempt starts once. Its arguments, environment and input are then dropped.
    pub(crate) fn spawn(&mut self, attempt: usize) -> Starting {
        match self {
            Self::Processes { supervisor, commands, install, inside, .. } => {
                let stdio = commands[attempt].stdio;
                // `is_terminal` still reads the `stdio` of a command that was started.
                let emptied = process::Command { stdio, ..process::Command::new("", "") };
                let command = std::mem::replace(&mut commands[attempt], emptied);
                let supervisor = supervisor.clone();
                let (install, inside) = (install.clone(), inside.clone());
                Box::pin(async move {
                    match supervisor.spawn(command).await {
                        Ok(child) => {
                            let control = child.control();
                            // Ask the child, not the supervisor: a single tree may have a weaker containment.
                            let containment = child.guarantee().as_str();
                            Ok(Agent::Process {
                                child: Box::new(child),
                                control,
                                containment,
                                messenger: inside.map(|inside| Box::new(Messenger::new(*inside))),
                                told: None,
                            })
                        }
                        Err(error) if inside.is_some() => Err(failures::of_docker(&error)),
                        Err(error) => Err(failures::of_spawn(&error, install.as_deref())),
                    }
                })
            }
            #[cfg(feature = "testing")]
            Self::Script(script) => {
                let actor = script.actor(attempt);
                Box::pin(async move { Ok(Agent::Scripted(actor)) })
            }
        }
    }
}

/// A running agent.
#[derive(Debug)]
pub(crate) enum Agent {
    Process {
        child: Box<process::Child>,
        control: process::ChildControl,
        containment: &'static str,
        /// The connection to its container.
        messenger: Option<Box<Messenger>>,
        /// Events to return next.
        told: Option<AgentEvent>,
    },
    #[cfg(feature = "testing")]
    Scripted(crate::run::testing::Actor),
}

impl Agent {
    pub(crate) fn pid(&self) -> u32 {
        match self {
            Self::Process { child, .. } => child.pid(),
            #[cfg(feature = "testing")]
            Self::Scripted(_) => 0,
        }
    }

    /// Returns how well its processes are contained.
    pub(crate) fn containment(&self) -> &'static str {
        match self {
            Self::Process { containment, .. } => containment,
            #[cfg(feature = "testing")]
            Self::Scripted(_) => "scripted",
        }
    }

    /// Waits for the next event.
    pub(crate) async fn next(&mut self) -> AgentEvent {
        let (child, messenger, told) = match self {
            Self::Process { child, messenger, told, .. } => (child, messenger, told),
            #[cfg(feature = "testing")]
            Self::Scripted(actor) => return actor.next().await,
        };
        loop {
            if let Some(happening) = told.take() {
                return happening;
            }
            if let Some(messenger) = messenger
                && let Some(swept) = messenger.swept().await
            {
                return AgentEvent::Swept(swept);
            }
            return match child.next().await {
                process::ChildEvent::Stdout { bytes, at } => {
                    messenger.iter_mut().for_each(|messenger| messenger.stdout());
                    AgentEvent::Stdout { bytes, at }
                }
                process::ChildEvent::Stderr { bytes, at } => {
                    messenger.iter_mut().for_each(|messenger| messenger.stderr(&bytes));
                    AgentEvent::Stderr { bytes, at }
                }
                process::ChildEvent::StdinWritten(bytes) => {
                    AgentEvent::StdinWritten { bytes, at: crate::system::clock::system() }
                }
                process::ChildEvent::StdoutClosed => AgentEvent::StdoutClosed,
                process::ChildEvent::StderrClosed => AgentEvent::StderrClosed,
                process::ChildEvent::Exited(exit) => {
                    let exit = match exit {
                        process::ExitStatus::Code(code) => Exit::Code(code),
                        process::ExitStatus::Signal(signal) => Exit::Signal(signal),
                        // The agent died with its keeper, whose end kills its children with SIGKILL.
                        process::ExitStatus::Unknown => Exit::Signal(9),
                    };
                    messenger.iter_mut().for_each(|messenger| messenger.exited(exit));
                    AgentEvent::Exited(exit)
                }
                process::ChildEvent::Swept { ended, survivors } => {
                    let them = |those: Vec<process::TreeProcess>| {
                        let survivor =
                            |it: process::TreeProcess| Survivor { pid: it.pid, command: it.command };
                        those.into_iter().map(survivor).collect()
                    };
                    let killed = ended.iter().filter(|it| it.killed).cloned().collect();
                    let swept =
                        SweepResult { ended: them(ended), killed: them(killed), survivors: them(survivors) };
                    match messenger.as_mut().map(|messenger| (messenger.refusal(), messenger)) {
                        None => AgentEvent::Swept(swept),
                        Some((None, messenger)) => {
                            messenger.sweep(swept);
                            continue;
                        }
                        // Nothing was started in the container, so there is nothing to sweep.
                        Some((Some(refusal), _)) => {
                            *told = Some(AgentEvent::Swept(swept));
                            AgentEvent::Trouble(refusal)
                        }
                    }
                }
                process::ChildEvent::KeeperLost => AgentEvent::Trouble(failures::keeper_lost()),
                // The end of its standard input matters only to protocols.
                process::ChildEvent::StdinClosed { .. } => continue,
            };
        }
    }

    pub(crate) fn write(&self, bytes: Vec<u8>) {
        match self {
            Self::Process { control, .. } => control.write(bytes),
            #[cfg(feature = "testing")]
            Self::Scripted(actor) => actor.write(bytes),
        }
    }

    pub(crate) fn close_stdin(&self) {
        match self {
            Self::Process { control, .. } => control.close_stdin(),
            #[cfg(feature = "testing")]
            Self::Scripted(actor) => actor.close_stdin(),
        }
    }

    pub(crate) fn signal(&self, signal: StopSignal, scope: StopScope) {
        let (control, messenger) = match self {
            Self::Process { control, messenger, .. } => (control, messenger),
            #[cfg(feature = "testing")]
            Self::Scripted(actor) => return actor.signal(signal),
        };
        if let Some(messenger) = messenger {
            // `docker exec` ends with the agent. Ending it first would lose output.
            return messenger.signal(match signal {
                StopSignal::Interrupt => docker::ContainerSignal::Int,
                StopSignal::Terminate => docker::ContainerSignal::Term,
            });
        }
        // Three types of signals, because each has what its owner can send: the engine decides between two, `process` sends seven, and
        // a container gets names for its shell.
        let signal = match signal {
            StopSignal::Interrupt => process::Signal::Interrupt,
            StopSignal::Terminate => process::Signal::Terminate,
        };
        let scope = match scope {
            StopScope::Leader => process::SignalScope::Leader,
            StopScope::Tree => process::SignalScope::Tree,
        };
        control.signal(signal, scope);
    }

    pub(crate) fn kill_tree(&self) {
        match self {
            Self::Process { control, messenger, .. } => {
                // A signal to `docker exec` does not end the process in the container.
                if let Some(messenger) = messenger {
                    messenger.signal(docker::ContainerSignal::Kill);
                }
                control.kill_tree();
            }
            #[cfg(feature = "testing")]
            Self::Scripted(actor) => actor.kill(),
        }
    }

    pub(crate) fn sweep(&self, grace: Duration) {
        match self {
            Self::Process { control, .. } => control.sweep(grace),
            #[cfg(feature = "testing")]
            Self::Scripted(actor) => actor.sweep(),
        }
    }
}
