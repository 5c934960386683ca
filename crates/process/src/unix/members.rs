//! The processes of a tree that this process owns itself.

#[cfg(target_os = "linux")]
mod found {
    use rustix::process::{Pid, Signal};

    use super::GroupTree;
    use crate::child_event::{SignalScope, TreeProcess};
    use crate::linux::scan::{self, ProcessEntry, ProcessView};

    /// Returns the members of a tree, dead ones too.
    fn members(tree: &GroupTree, view: &ProcessView) -> Vec<ProcessEntry> {
        scan::with_descendants(view.all(), |process| {
            // The leader is not reaped yet, so no other session can have its number.
            process.session == tree.leader || view.environment(process).is_of_spawn(&tree.token)
        })
    }

    /// Returns the living ones.
    pub(crate) fn living(tree: &GroupTree) -> Vec<TreeProcess> {
        let members = members(tree, &ProcessView::with_environments());
        members.iter().filter(|process| !process.dead).map(ProcessEntry::describe).collect()
    }

    /// Sends a signal to the leader or to the whole tree.
    pub(crate) fn signal(tree: &GroupTree, number: i32, scope: SignalScope) {
        let (Some(signal), Some(leader)) = (Signal::from_named_raw(number), Pid::from_raw(tree.leader))
        else {
            return;
        };
        match scope {
            SignalScope::Leader => {
                // It fails when the leader is a zombie, which needs no signal.
                let _: Result<(), _> = rustix::process::kill_process(leader, signal);
            }
            SignalScope::Tree => {
                let view = ProcessView::with_environments();
                let members = members(tree, &view);
                for process in members.iter().filter(|process| !process.dead) {
                    let _sent: bool = process.signal(signal);
                }
                // Only for SIGKILL: a process that handles another signal would get it twice.
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

    use super::GroupTree;
    use crate::child_event::{SignalScope, TreeProcess};

    /// Returns the leader while it is alive. This system does not show the other processes of the tree.
    pub(crate) fn living(tree: &GroupTree) -> Vec<TreeProcess> {
        // NOWAIT leaves the zombie, which keeps the id reserved. NOHANG makes it a look, not a wait.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let is_alive = Pid::from_raw(tree.leader)
            .is_some_and(|leader| matches!(rustix::process::waitid(WaitId::Pid(leader), options), Ok(None)));
        let leader = TreeProcess { pid: tree.leader.cast_unsigned(), command: String::new(), killed: false };
        is_alive.then_some(leader).into_iter().collect()
    }

    /// Sends a signal to the leader or to its group.
    pub(crate) fn signal(tree: &GroupTree, number: i32, scope: SignalScope) {
        let (Some(signal), Some(leader)) = (Signal::from_named_raw(number), Pid::from_raw(tree.leader))
        else {
            return;
        };
        // It fails when no process is left.
        let _: Result<(), _> = match scope {
            SignalScope::Leader => rustix::process::kill_process(leader, signal),
            SignalScope::Tree => rustix::process::kill_process_group(leader, signal),
        };
    }
}

pub(crate) use found::{living, signal};

/// A tree, as this process knows it.
#[derive(Debug)]
pub(crate) struct GroupTree {
    pub(crate) leader: i32,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux shows the environment of others")
    )]
    pub(crate) token: Vec<u8>,
}
