//! Who belongs to a tree that this process owns itself.

#[cfg(target_os = "linux")]
mod found {
    use rustix::process::{Pid, Signal};

    use super::Tree;
    use crate::happening::{Scope, Survivor};
    use crate::linux::scan::{self, Process, View};

    /// Returns the members of a tree, dead ones too.
    fn members(tree: &Tree, view: &View) -> Vec<Process> {
        scan::with_descendants(view.all(), |process| {
            // The leader is not reaped yet, so nobody else can have its number as a session.
            process.session == tree.leader || view.environment(process).is_of_spawn(&tree.token)
        })
    }

    /// Returns those that live.
    pub(crate) fn living(tree: &Tree) -> Vec<Survivor> {
        let members = members(tree, &View::with_environments());
        members.iter().filter(|process| !process.dead).map(Process::describe).collect()
    }

    /// Sends a signal to the leader or to all.
    pub(crate) fn signal(tree: &Tree, number: i32, scope: Scope) {
        let (Some(signal), Some(leader)) = (Signal::from_named_raw(number), Pid::from_raw(tree.leader))
        else {
            return;
        };
        match scope {
            Scope::Leader => {
                // It fails when the leader is a zombie: then there is nobody to hear.
                let _: Result<(), _> = rustix::process::kill_process(leader, signal);
            }
            Scope::Tree => {
                let view = View::with_environments();
                let members = members(tree, &view);
                for process in members.iter().filter(|process| !process.dead) {
                    let _sent: bool = process.signal(signal);
                }
                if signal == Signal::KILL {
                    scan::kill_groups(view.all(), &members);
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod found {
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

    use super::Tree;
    use crate::happening::{Scope, Survivor};

    /// Returns the leader as long as it lives; of the others nothing is known here.
    pub(crate) fn living(tree: &Tree) -> Vec<Survivor> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let is_alive = Pid::from_raw(tree.leader)
            .is_some_and(|leader| matches!(rustix::process::waitid(WaitId::Pid(leader), options), Ok(None)));
        let leader = Survivor { pid: tree.leader.cast_unsigned(), command: String::new(), killed: false };
        is_alive.then_some(leader).into_iter().collect()
    }

    /// Sends a signal to the leader or to its group.
    pub(crate) fn signal(tree: &Tree, number: i32, scope: Scope) {
        let (Some(signal), Some(leader)) = (Signal::from_named_raw(number), Pid::from_raw(tree.leader))
        else {
            return;
        };
        // It fails when nobody is left to hear.
        let _: Result<(), _> = match scope {
            Scope::Leader => rustix::process::kill_process(leader, signal),
            Scope::Tree => rustix::process::kill_process_group(leader, signal),
        };
    }
}

pub(crate) use found::{living, signal};

/// A tree, as far as this process knows it.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) leader: i32,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux shows the environment of others")
    )]
    pub(crate) token: Vec<u8>,
}
