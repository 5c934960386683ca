//! The rights of a client on a control socket.
//!
//! An agent and its user share a user id, so the socket's mode does not tell them apart; [`bowline_process::ancestry`] does, and
//! names the limits. The rights are checked for each order, because the process at the other end may have changed.
//!
//! A client checks the runner in the same way: an agent can replace the socket by one of its own.

use bowline_process::Guarantee;
use bowline_process::ancestry::{ProcessOrigin, SocketPeer, origin_of};

/// The rights of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientRights {
    /// Watch, and give every order.
    Full,
    /// Watch only.
    Watch {
        /// The reason.
        why: String,
    },
}

/// Decides the rights of a peer. A test gives its own.
pub(crate) trait PeerJudge: Send + Sync + 'static {
    fn rights(&self, peer: &SocketPeer) -> ClientRights;

    /// Returns whether the peer belongs to an agent of this process. It may then ask for another session.
    fn is_own_agent(&self, peer: &SocketPeer) -> bool;
}

/// Judges a peer by its place in the tree of processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeJudge {
    /// How the session's own agent is owned.
    pub(crate) guarantee: Guarantee,
}

impl PeerJudge for TreeJudge {
    fn rights(&self, peer: &SocketPeer) -> ClientRights {
        // Not by a handle: no other process can have our own id while we live.
        let is_self = peer.pid() == Some(std::process::id());
        by_origin(peer.origin(), self.guarantee, if is_self { PeerKind::Runner } else { PeerKind::Other })
    }

    fn is_own_agent(&self, peer: &SocketPeer) -> bool {
        peer.is_below(std::process::id())
    }
}

/// Whether the peer is the runner's own process, such as the terminal of `bowline run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerKind {
    Runner,
    Other,
}

fn by_origin(origin: ProcessOrigin, guarantee: Guarantee, kind: PeerKind) -> ClientRights {
    match (origin, guarantee, kind) {
        (ProcessOrigin::Agent { reason }, _, _) => {
            ClientRights::Watch { why: format!("the client is a process of an agent: {reason}") }
        }
        (ProcessOrigin::Unknown { reason }, _, _) => {
            ClientRights::Watch { why: format!("the client may be a process of an agent: {reason}") }
        }
        // An orphan of an agent without a keeper is a child of pid 1, like a program of the user.
        (ProcessOrigin::Outside, Guarantee::Group, PeerKind::Other) => ClientRights::Watch {
            why: "the session has no keeper, so the runner cannot tell the agent's processes from yours"
                .to_owned(),
        },
        (ProcessOrigin::Outside, Guarantee::Group, PeerKind::Runner)
        | (ProcessOrigin::Outside, Guarantee::Subreaper | Guarantee::Cgroup, _) => ClientRights::Full,
    }
}

/// Returns why a client does not take the process that listens on a socket for the runner.
///
/// `recorded` is the runner in `session.json`. An agent can write that file, so it only names mistakes; the place in the tree of
/// processes is the proof.
pub(super) fn distrust(listener: &SocketPeer, recorded: Option<u32>) -> Option<String> {
    by_place(listener.origin(), || origin_of(std::process::id())).or_else(|| {
        let (pid, recorded) = (listener.pid()?, recorded?);
        (pid != recorded).then(|| format!("the runner of the session is process {recorded}"))
    })
}

fn by_place(listener: ProcessOrigin, own: impl FnOnce() -> ProcessOrigin) -> Option<String> {
    match listener {
        // A detached runner is a child of init or of the next subreaper, never of a keeper, also if an agent asked for it.
        ProcessOrigin::Outside => None,
        ProcessOrigin::Agent { reason } => match own() {
            // A host that runs below an agent, and its clients. A client that is an agent's itself has no rights to lose.
            ProcessOrigin::Agent { .. } => None,
            ProcessOrigin::Outside | ProcessOrigin::Unknown { .. } => Some(reason),
        },
        // Where `/proc` shows no parents, all processes are unknown, and the runner gives none of them rights.
        ProcessOrigin::Unknown { reason } => match own() {
            ProcessOrigin::Outside => Some(reason),
            ProcessOrigin::Agent { .. } | ProcessOrigin::Unknown { .. } => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_of_processes_decides() {
        use std::os::fd::AsFd;
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = SocketPeer::of(socket.as_fd()).unwrap();
        let found = TreeJudge { guarantee: Guarantee::Cgroup }.rights(&peer);
        // The tests themselves may run below an agent.
        match bowline_process::ancestry::origin_of(std::process::id()) {
            ProcessOrigin::Outside => assert_eq!(found, ClientRights::Full),
            ProcessOrigin::Agent { reason } | ProcessOrigin::Unknown { reason } => {
                let ClientRights::Watch { why } = found else { panic!("{reason}") };
                assert!(why.ends_with(&reason), "{why}");
            }
        }
    }

    #[test]
    fn a_client_trusts_a_runner_outside_of_every_agent() {
        let agent = || ProcessOrigin::Agent { reason: "a keeper".to_owned() };
        let unknown = || ProcessOrigin::Unknown { reason: "hidden".to_owned() };
        let outside = || ProcessOrigin::Outside;
        for own in [agent, unknown, outside] {
            assert_eq!(by_place(ProcessOrigin::Outside, own), None);
        }
        assert_eq!(by_place(agent(), outside).as_deref(), Some("a keeper"));
        assert_eq!(by_place(agent(), unknown).as_deref(), Some("a keeper"));
        assert_eq!(by_place(unknown(), outside).as_deref(), Some("hidden"));
        // No order of these clients would be carried out.
        assert_eq!(by_place(agent(), agent), None);
        assert_eq!(by_place(unknown(), agent), None);
        assert_eq!(by_place(unknown(), unknown), None);
    }

    #[test]
    fn only_a_process_outside_of_every_agent_has_full_rights() {
        let reason = || "because".to_owned();
        let agent = || ProcessOrigin::Agent { reason: reason() };
        let unknown = || ProcessOrigin::Unknown { reason: reason() };
        for guarantee in [Guarantee::Group, Guarantee::Subreaper, Guarantee::Cgroup] {
            for kind in [PeerKind::Runner, PeerKind::Other] {
                for origin in [agent(), unknown()] {
                    assert!(matches!(by_origin(origin, guarantee, kind), ClientRights::Watch { .. }));
                }
            }
            assert_eq!(by_origin(ProcessOrigin::Outside, guarantee, PeerKind::Runner), ClientRights::Full);
        }
        let other = |guarantee| by_origin(ProcessOrigin::Outside, guarantee, PeerKind::Other);
        assert_eq!(other(Guarantee::Cgroup), ClientRights::Full);
        assert_eq!(other(Guarantee::Subreaper), ClientRights::Full);
        assert!(matches!(other(Guarantee::Group), ClientRights::Watch { .. }));
    }
}
