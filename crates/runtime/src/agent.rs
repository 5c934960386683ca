//! The agent at the other end: a process, or in tests a script that plays one.

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bowline_engine::{Scope, Signal, Survivor, Swept};
use bowline_process as process;
use bowline_protocol::{Exit, Failure};
use bowline_providers::invocation::docker;

use crate::container::{Inside, Messenger};
use crate::trouble;

/// What happened at the other end.
#[derive(Debug)]
pub(crate) enum Happening {
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
    Swept(Swept),
    /// Our own machinery broke.
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
        /// How to come by the program, if it is the usual one.
        install: Option<String>,
        /// The container that it runs in.
        inside: Option<Box<Inside>>,
    },
    #[cfg(feature = "testing")]
    Script(crate::testing::Script),
}

impl Launch {
    /// Says whether the agent gets a terminal. That is the same in all attempts: the manifest says it.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Processes { commands, .. } => {
                commands.iter().any(|command| matches!(command.stdio, process::Stdio::Terminal { .. }))
            }
            #[cfg(feature = "testing")]
            Self::Script(_) => false,
        }
    }

    /// Starts the agent of an attempt, as the future is polled. Dropping it ends what it may have started.
    pub(crate) fn spawn(&self, attempt: usize) -> Starting {
        match self {
            Self::Processes { supervisor, commands, install, inside } => {
                let (supervisor, command) = (supervisor.clone(), commands[attempt].clone());
                let (install, inside) = (install.clone(), inside.clone());
                Box::pin(async move {
                    match supervisor.spawn(command).await {
                        Ok(child) => {
                            let control = child.control();
                            // Its own: a tree may have less than the supervisor hopes for.
                            let containment = child.guarantee().as_str();
                            Ok(Agent::Process {
                                child: Box::new(child),
                                control,
                                containment,
                                messenger: inside.map(|inside| Box::new(Messenger::new(*inside))),
                                told: None,
                            })
                        }
                        Err(error) if inside.is_some() => Err(trouble::of_docker(&error)),
                        Err(error) => Err(trouble::of_spawn(&error, install.as_deref())),
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

/// An agent that runs.
#[derive(Debug)]
pub(crate) enum Agent {
    Process {
        child: Box<process::Child>,
        control: process::Control,
        containment: &'static str,
        /// The way into the container that it runs in.
        messenger: Option<Box<Messenger>>,
        /// What is told next.
        told: Option<Happening>,
    },
    #[cfg(feature = "testing")]
    Scripted(crate::testing::Actor),
}

impl Agent {
    pub(crate) fn pid(&self) -> u32 {
        match self {
            Self::Process { child, .. } => child.pid(),
            #[cfg(feature = "testing")]
            Self::Scripted(_) => 0,
        }
    }

    /// Returns the promise in force about what it may leave behind.
    pub(crate) fn containment(&self) -> &'static str {
        match self {
            Self::Process { containment, .. } => containment,
            #[cfg(feature = "testing")]
            Self::Scripted(_) => "scripted",
        }
    }

    /// Waits for the next thing that happens.
    pub(crate) async fn next(&mut self) -> Happening {
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
                return Happening::Swept(swept);
            }
            return match child.next().await {
                process::Happening::Stdout { bytes, at } => {
                    messenger.iter_mut().for_each(|messenger| messenger.stdout());
                    Happening::Stdout { bytes, at }
                }
                process::Happening::Stderr { bytes, at } => {
                    messenger.iter_mut().for_each(|messenger| messenger.stderr(&bytes));
                    Happening::Stderr { bytes, at }
                }
                process::Happening::StdinWritten(bytes) => {
                    Happening::StdinWritten { bytes, at: crate::clock::system() }
                }
                process::Happening::StdoutClosed => Happening::StdoutClosed,
                process::Happening::StderrClosed => Happening::StderrClosed,
                process::Happening::Exited(exit) => {
                    let exit = match exit {
                        process::Exit::Code(code) => Exit::Code(code),
                        process::Exit::Signal(signal) => Exit::Signal(signal),
                        // It died with its keeper, which takes its children along with SIGKILL.
                        process::Exit::Unknown => Exit::Signal(9),
                    };
                    messenger.iter_mut().for_each(|messenger| messenger.exited(exit));
                    Happening::Exited(exit)
                }
                process::Happening::Swept { ended, survivors } => {
                    let them = |those: Vec<process::Survivor>| {
                        let survivor = |it: process::Survivor| Survivor { pid: it.pid, command: it.command };
                        those.into_iter().map(survivor).collect()
                    };
                    let killed = ended.iter().filter(|it| it.killed).cloned().collect();
                    let swept =
                        Swept { ended: them(ended), killed: them(killed), survivors: them(survivors) };
                    match messenger.as_mut().map(|messenger| (messenger.refusal(), messenger)) {
                        None => Happening::Swept(swept),
                        Some((None, messenger)) => {
                            messenger.sweep(swept);
                            continue;
                        }
                        // Nothing was started there, so there is nothing to sweep either.
                        Some((Some(refusal), _)) => {
                            *told = Some(Happening::Swept(swept));
                            Happening::Trouble(refusal)
                        }
                    }
                }
                process::Happening::KeeperLost => Happening::Trouble(trouble::keeper_lost()),
                // What it says about our end of its input matters only to protocols.
                process::Happening::StdinClosed { .. } => continue,
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

    pub(crate) fn signal(&self, signal: Signal, scope: Scope) {
        let (control, messenger) = match self {
            Self::Process { control, messenger, .. } => (control, messenger),
            #[cfg(feature = "testing")]
            Self::Scripted(actor) => return actor.signal(signal),
        };
        if let Some(messenger) = messenger {
            // It ends when the agent does; ended first, it would take the output with it.
            return messenger.signal(match signal {
                Signal::Interrupt => docker::Signal::Int,
                Signal::Terminate => docker::Signal::Term,
            });
        }
        let signal = match signal {
            Signal::Interrupt => process::Signal::Interrupt,
            Signal::Terminate => process::Signal::Terminate,
        };
        let scope = match scope {
            Scope::Leader => process::Scope::Leader,
            Scope::Tree => process::Scope::Tree,
        };
        control.signal(signal, scope);
    }

    pub(crate) fn kill_tree(&self) {
        match self {
            Self::Process { control, messenger, .. } => {
                if let Some(messenger) = messenger {
                    messenger.signal(docker::Signal::Kill);
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
