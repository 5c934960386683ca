//! The messages between a host and its keeper, and their encoding on the socket.
//!
//! A message is one packet of a SEQPACKET socket. Long parts (arguments, environment) that do not fit into a small packet are
//! passed in a memory file, so no limit is below the kernel's own.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use crate::child_event::{Guarantee, SignalScope, TreeProcess};

/// The longest packet; longer bodies are passed in a memory file. Well below the default socket buffer (208 KiB).
const PACKET: usize = 32 * 1024;
/// The most descriptors of a message: three streams and a memory file.
const DESCRIPTORS: usize = 4;
/// The most processes in one report. They have to fit into one packet.
pub(crate) const NAMED: usize = 256;
/// The most bytes of a command line in a report.
pub(crate) const COMMAND: usize = 256;

/// A request from the host to its keeper.
#[derive(Debug)]
pub(crate) enum HostRequest {
    Spawn {
        id: u64,
        terminal: bool,
        token: Vec<u8>,
        body: SpawnBody,
    },
    Signal {
        id: u64,
        signal: i32,
        scope: SignalScope,
    },
    /// End the tree: SIGTERM, and SIGKILL after the grace.
    End {
        id: u64,
        grace_ms: u64,
        answer: bool,
    },
    /// The host dropped the child: end its tree and forget it.
    Forget {
        id: u64,
    },
}

/// A reply from the keeper to its host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeeperReply {
    Hello { guarantee: Guarantee },
    Started { id: u64, pid: i32, cgroup: Vec<u8> },
    Refused { id: u64, stage: SpawnStage, errno: i32 },
    Exited { id: u64, signal: bool, number: i32 },
    Swept { id: u64, ended: Vec<TreeProcess>, survivors: Vec<TreeProcess> },
}

/// The step at which a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnStage {
    Fork,
    Prepare,
    Cwd,
    Exec,
}

impl SpawnStage {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Fork => 1,
            Self::Prepare => 2,
            Self::Cwd => 3,
            Self::Exec => 4,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::Fork, Self::Prepare, Self::Cwd, Self::Exec].into_iter().find(|stage| stage.number() == number)
    }
}

/// Program, working directory, arguments and environment, as the C strings that `execve` takes.
#[derive(Debug, Default, Clone)]
pub(crate) struct SpawnBody {
    args: u32,
    bytes: Vec<u8>,
}

impl SpawnBody {
    /// Begins a body. The strings must not contain a NUL.
    pub(crate) fn new(program: &[u8], cwd: &[u8]) -> Self {
        let mut body = Self::default();
        body.push(program);
        body.push(cwd);
        body
    }

    pub(crate) fn arg(&mut self, arg: &[u8]) {
        self.args += 1;
        self.push(arg);
    }

    /// Adds a variable. Add all arguments before it.
    pub(crate) fn variable(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.bytes.push(b'=');
        self.push(value);
    }

    fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.bytes.push(0);
    }

    /// Returns program, working directory, arguments, environment.
    pub(crate) fn strings(&self) -> Option<(&CStr, &CStr, Vec<&CStr>, Vec<&CStr>)> {
        let mut strings = self
            .bytes
            .split_inclusive(|byte| *byte == 0)
            .map_while(|bytes| CStr::from_bytes_with_nul(bytes).ok());
        let (program, cwd) = (strings.next()?, strings.next()?);
        let mut args: Vec<&CStr> = strings.collect();
        // `split_off` panics beyond the end. A broken message must not end the keeper that way.
        let env = args.split_off((self.args as usize).min(args.len()));
        Some((program, cwd, args, env))
    }
}

/// Sends a request, and with a spawn the child's three streams.
pub(crate) fn send_request(
    socket: impl AsFd,
    request: &HostRequest,
    streams: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut packet = PacketWriter::default();
    let mut file = None;
    match request {
        HostRequest::Spawn { id, terminal, token, body } => {
            packet.u8(1).u64(*id).u8(u8::from(*terminal)).bytes(token).u64(u64::from(body.args));
            if body.bytes.len() <= PACKET {
                packet.u8(0).bytes(&body.bytes);
            } else {
                packet.u8(1);
                file = Some(memory_file(&body.bytes)?);
            }
        }
        HostRequest::Signal { id, signal, scope } => {
            let scope = u8::from(*scope == SignalScope::Tree);
            packet.u8(2).u64(*id).i32(*signal).u8(scope);
        }
        HostRequest::End { id, grace_ms, answer } => {
            packet.u8(3).u64(*id).u64(*grace_ms).u8(u8::from(*answer));
        }
        HostRequest::Forget { id } => {
            packet.u8(4).u64(*id);
        }
    }
    let descriptors: Vec<BorrowedFd<'_>> =
        streams.iter().copied().chain(file.as_ref().map(AsFd::as_fd)).collect();
    send(socket, &packet.0, &descriptors)
}

/// Receives a request with its descriptors; `None` when the host is gone.
pub(crate) fn receive_request(socket: impl AsFd) -> io::Result<Option<(HostRequest, Vec<OwnedFd>)>> {
    // The 4096 bytes are for the fields before the body.
    let mut buffer = vec![0; PACKET + 4096];
    let Some((length, mut descriptors)) = receive(socket, &mut buffer)? else { return Ok(None) };
    let mut packet = PacketReader(&buffer[..length]);
    let request = (|| {
        Some(match packet.u8()? {
            1 => {
                let (id, terminal, token) = (packet.u64()?, packet.u8()? != 0, packet.bytes()?.to_vec());
                let args = u32::try_from(packet.u64()?).ok()?;
                let bytes = if packet.u8()? == 0 {
                    packet.bytes()?.to_vec()
                } else {
                    let mut bytes = Vec::new();
                    // The memory file is the last descriptor: `send_request` appends it to the streams.
                    std::fs::File::from(descriptors.pop()?).read_to_end(&mut bytes).ok()?;
                    bytes
                };
                HostRequest::Spawn { id, terminal, token, body: SpawnBody { args, bytes } }
            }
            2 => {
                let (id, signal) = (packet.u64()?, packet.i32()?);
                let scope = if packet.u8()? == 0 { SignalScope::Leader } else { SignalScope::Tree };
                HostRequest::Signal { id, signal, scope }
            }
            3 => HostRequest::End { id: packet.u64()?, grace_ms: packet.u64()?, answer: packet.u8()? != 0 },
            4 => HostRequest::Forget { id: packet.u64()? },
            _ => return None,
        })
    })();
    match request {
        Some(request) => Ok(Some((request, descriptors))),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "a request that no host sends")),
    }
}

/// Sends a reply.
pub(crate) fn send_reply(socket: impl AsFd, reply: &KeeperReply) -> io::Result<()> {
    let mut packet = PacketWriter::default();
    match reply {
        KeeperReply::Hello { guarantee } => packet.u8(1).u8(u8::from(*guarantee == Guarantee::Cgroup)),
        KeeperReply::Started { id, pid, cgroup } => packet.u8(2).u64(*id).i32(*pid).bytes(cgroup),
        KeeperReply::Refused { id, stage, errno } => packet.u8(3).u64(*id).u8(stage.number()).i32(*errno),
        KeeperReply::Exited { id, signal, number } => {
            packet.u8(4).u64(*id).u8(u8::from(*signal)).i32(*number)
        }
        KeeperReply::Swept { id, ended, survivors } => {
            packet.u8(5).u64(*id).processes(ended).processes(survivors)
        }
    };
    send(socket, &packet.0, &[])
}

/// Allocates a buffer for the longest reply: two full lists of processes, and some. The kernel backs zeroed memory only where
/// it is written, which is usually the first page.
pub(crate) fn reply_buffer() -> Vec<u8> {
    // A process takes 17 bytes beside its command line: id (8), killed (1), length (8). 64 bytes hold the tag, the id and two
    // counts.
    vec![0; 2 * NAMED * (COMMAND + 17) + 64]
}

/// Receives a reply; `None` when the keeper is gone.
pub(crate) fn receive_reply(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<KeeperReply>> {
    let Some((length, _)) = receive(socket, buffer)? else { return Ok(None) };
    let mut packet = PacketReader(&buffer[..length]);
    let reply = (|| {
        Some(match packet.u8()? {
            1 => {
                let guarantee = if packet.u8()? == 0 { Guarantee::Subreaper } else { Guarantee::Cgroup };
                KeeperReply::Hello { guarantee }
            }
            2 => KeeperReply::Started {
                id: packet.u64()?,
                pid: packet.i32()?,
                cgroup: packet.bytes()?.to_vec(),
            },
            3 => KeeperReply::Refused {
                id: packet.u64()?,
                stage: SpawnStage::from_number(packet.u8()?)?,
                errno: packet.i32()?,
            },
            4 => KeeperReply::Exited { id: packet.u64()?, signal: packet.u8()? != 0, number: packet.i32()? },
            5 => KeeperReply::Swept {
                id: packet.u64()?,
                ended: packet.processes()?,
                survivors: packet.processes()?,
            },
            _ => return None,
        })
    })();
    reply.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a reply that no keeper sends"))
}

fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(c"bowline-spawn", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(file);
    file.write_all(bytes)?;
    // The keeper receives the same open file, with the same offset, and not a fresh one (unix(7)).
    file.rewind()?;
    Ok(file.into())
}

fn send(socket: impl AsFd, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        // Without `NOSIGNAL`, a closed socket would raise SIGPIPE, which may end the host.
        match rustix::net::sendmsg(&socket, &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<(usize, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut slices = [IoSliceMut::new(buffer)];
        // Without close-on-exec the agent would inherit a second copy of its streams, and closing its stdout would not end
        // it.
        match rustix::net::recvmsg(&socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(rustix::io::Errno::INTR) => {}
            // The other side died with unread messages from us.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    let descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            RecvAncillaryMessage::ScmCredentials(_) | _ => None,
        })
        .flatten()
        .collect();
    // Every message has at least one byte, so an empty one is the end.
    Ok((received.bytes > 0).then_some((received.bytes, descriptors)))
}

#[derive(Default)]
struct PacketWriter(Vec<u8>);

impl PacketWriter {
    fn u8(&mut self, number: u8) -> &mut Self {
        self.0.push(number);
        self
    }

    fn i32(&mut self, number: i32) -> &mut Self {
        // Native byte order suffices: both ends are on one machine.
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn processes(&mut self, processes: &[TreeProcess]) -> &mut Self {
        let named = &processes[..processes.len().min(NAMED)];
        self.u64(named.len() as u64);
        for process in named {
            let command = process.command.as_bytes();
            self.u64(u64::from(process.pid)).u8(u8::from(process.killed));
            // The cut may split a character. The reader replaces the broken part.
            self.bytes(&command[..command.len().min(COMMAND)]);
        }
        self
    }
}

struct PacketReader<'a>(&'a [u8]);

impl<'a> PacketReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn i32(&mut self) -> Option<i32> {
        self.take(4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u64()?).ok()?;
        self.take(length)
    }

    fn processes(&mut self) -> Option<Vec<TreeProcess>> {
        (0..self.u64()?)
            .map(|_| {
                let pid = u32::try_from(self.u64()?).ok()?;
                let killed = self.u8()? != 0;
                let command = String::from_utf8_lossy(self.bytes()?).into_owned();
                Some(TreeProcess { pid, command, killed })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        use rustix::net::{AddressFamily, SocketFlags, SocketType};
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .unwrap()
    }

    #[test]
    fn a_spawn_of_any_size_arrives_whole() {
        for size in [0, 1, PACKET - 100, PACKET, 3_000_000] {
            let (host, keeper) = pair();
            let mut body = SpawnBody::new(b"/bin/program", b"/tmp");
            body.arg(b"program");
            body.arg(&vec![b'x'; size]);
            body.variable(b"NAME", b"value");
            let request = HostRequest::Spawn { id: 7, terminal: true, token: b"token".to_vec(), body };
            send_request(&host, &request, &[keeper.as_fd(), keeper.as_fd(), keeper.as_fd()]).unwrap();
            let (arrived, descriptors) = receive_request(&keeper).unwrap().unwrap();
            let HostRequest::Spawn { id: 7, terminal: true, token, body } = arrived else {
                panic!("{arrived:?}")
            };
            assert_eq!((&token[..], descriptors.len()), (&b"token"[..], 3), "{size}");
            let (program, cwd, args, env) = body.strings().unwrap();
            assert_eq!((program, cwd, args.len(), env), (c"/bin/program", c"/tmp", 2, vec![c"NAME=value"]));
            assert_eq!(args[1].count_bytes(), size);
        }
    }

    #[test]
    fn every_reply_arrives_whole() {
        let (host, keeper) = pair();
        let one = |pid: u32| TreeProcess { pid, command: "c".repeat(COMMAND), killed: pid.is_multiple_of(2) };
        let many: Vec<TreeProcess> = (1..=u32::try_from(NAMED).unwrap()).map(one).collect();
        let replies = [
            KeeperReply::Hello { guarantee: Guarantee::Cgroup },
            KeeperReply::Started { id: 1, pid: 2, cgroup: b"/sys".to_vec() },
            KeeperReply::Refused { id: 1, stage: SpawnStage::Cwd, errno: -2 },
            KeeperReply::Exited { id: u64::MAX, signal: true, number: 9 },
            KeeperReply::Swept { id: 3, ended: many.clone(), survivors: many },
        ];
        for expected in replies {
            send_reply(&keeper, &expected).unwrap();
            assert_eq!(receive_reply(&host, &mut reply_buffer()).unwrap(), Some(expected));
        }
        drop(keeper);
        assert_eq!(receive_reply(&host, &mut reply_buffer()).unwrap(), None);
    }

    #[test]
    fn nonsense_is_refused() {
        let (host, keeper) = pair();
        for nonsense in [
            &b"\x09"[..],
            b"\x01",
            b"\x02\x01",
            b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            send(&host, nonsense, &[]).unwrap();
            assert!(receive_request(&keeper).is_err());
        }
        send(&keeper, b"\x09", &[]).unwrap();
        assert!(receive_reply(&host, &mut reply_buffer()).is_err());
    }
}
