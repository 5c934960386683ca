//! The messages between a host and its keeper, and how they cross the socket.
//!
//! A message is one packet of a SEQPACKET socket. What can be long (arguments, environment) goes into a memory file
//! that is passed along when it does not fit into a small packet, so nothing has a limit below the kernel's own.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use crate::happening::{Guarantee, Scope, Survivor};

/// The longest packet; longer bodies travel in a memory file. Well below the default socket buffer (208 KiB).
const PACKET: usize = 32 * 1024;
/// The room for descriptors: three streams and a memory file.
const DESCRIPTORS: usize = 4;
/// The most processes that one report names; the packet has to hold them.
pub(crate) const NAMED: usize = 256;
/// The most bytes of a command line that a report carries.
pub(crate) const COMMAND: usize = 256;

/// What a host asks its keeper.
#[derive(Debug)]
pub(crate) enum Request {
    Spawn {
        id: u64,
        terminal: bool,
        token: Vec<u8>,
        body: Body,
    },
    Signal {
        id: u64,
        signal: i32,
        scope: Scope,
    },
    /// End the tree: SIGTERM, and SIGKILL after the grace.
    End {
        id: u64,
        grace_ms: u64,
        answer: bool,
    },
    /// Nobody holds the child any more: end its tree and forget it.
    Forget {
        id: u64,
    },
}

/// What a keeper tells its host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Hello { guarantee: Guarantee },
    Started { id: u64, pid: i32, cgroup: Vec<u8> },
    Refused { id: u64, stage: Stage, errno: i32 },
    Exited { id: u64, signal: bool, number: i32 },
    Swept { id: u64, ended: Vec<Survivor>, survivors: Vec<Survivor> },
}

/// Where a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Fork,
    Prepare,
    Cwd,
    Exec,
}

impl Stage {
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
pub(crate) struct Body {
    args: u32,
    bytes: Vec<u8>,
}

impl Body {
    /// Begins a body. The strings must have no NUL.
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

    /// Adds a variable. All arguments must be there already.
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
        let env = args.split_off((self.args as usize).min(args.len()));
        Some((program, cwd, args, env))
    }
}

/// Sends a request, and with a spawn the child's three streams.
pub(crate) fn ask(socket: impl AsFd, request: &Request, streams: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut packet = Writer::default();
    let mut file = None;
    match request {
        Request::Spawn { id, terminal, token, body } => {
            packet.u8(1).u64(*id).u8(u8::from(*terminal)).bytes(token).u64(u64::from(body.args));
            if body.bytes.len() <= PACKET {
                packet.u8(0).bytes(&body.bytes);
            } else {
                packet.u8(1);
                file = Some(memory_file(&body.bytes)?);
            }
        }
        Request::Signal { id, signal, scope } => {
            let scope = u8::from(*scope == Scope::Tree);
            packet.u8(2).u64(*id).i32(*signal).u8(scope);
        }
        Request::End { id, grace_ms, answer } => {
            packet.u8(3).u64(*id).u64(*grace_ms).u8(u8::from(*answer));
        }
        Request::Forget { id } => {
            packet.u8(4).u64(*id);
        }
    }
    let descriptors: Vec<BorrowedFd<'_>> =
        streams.iter().copied().chain(file.as_ref().map(AsFd::as_fd)).collect();
    send(socket, &packet.0, &descriptors)
}

/// Receives a request with its descriptors; `None` when the host is gone.
pub(crate) fn asked(socket: impl AsFd) -> io::Result<Option<(Request, Vec<OwnedFd>)>> {
    let mut buffer = vec![0; PACKET + 4096];
    let Some((length, mut descriptors)) = receive(socket, &mut buffer)? else { return Ok(None) };
    let mut packet = Reader(&buffer[..length]);
    let request = (|| {
        Some(match packet.u8()? {
            1 => {
                let (id, terminal, token) = (packet.u64()?, packet.u8()? != 0, packet.bytes()?.to_vec());
                let args = u32::try_from(packet.u64()?).ok()?;
                let bytes = if packet.u8()? == 0 {
                    packet.bytes()?.to_vec()
                } else {
                    let mut bytes = Vec::new();
                    std::fs::File::from(descriptors.pop()?).read_to_end(&mut bytes).ok()?;
                    bytes
                };
                Request::Spawn { id, terminal, token, body: Body { args, bytes } }
            }
            2 => {
                let (id, signal) = (packet.u64()?, packet.i32()?);
                let scope = if packet.u8()? == 0 { Scope::Leader } else { Scope::Tree };
                Request::Signal { id, signal, scope }
            }
            3 => Request::End { id: packet.u64()?, grace_ms: packet.u64()?, answer: packet.u8()? != 0 },
            4 => Request::Forget { id: packet.u64()? },
            _ => return None,
        })
    })();
    match request {
        Some(request) => Ok(Some((request, descriptors))),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "a request that no host sends")),
    }
}

/// Sends a reply.
pub(crate) fn reply(socket: impl AsFd, reply: &Reply) -> io::Result<()> {
    let mut packet = Writer::default();
    match reply {
        Reply::Hello { guarantee } => packet.u8(1).u8(u8::from(*guarantee == Guarantee::Cgroup)),
        Reply::Started { id, pid, cgroup } => packet.u8(2).u64(*id).i32(*pid).bytes(cgroup),
        Reply::Refused { id, stage, errno } => packet.u8(3).u64(*id).u8(stage.number()).i32(*errno),
        Reply::Exited { id, signal, number } => packet.u8(4).u64(*id).u8(u8::from(*signal)).i32(*number),
        Reply::Swept { id, ended, survivors } => packet.u8(5).u64(*id).processes(ended).processes(survivors),
    };
    send(socket, &packet.0, &[])
}

/// Makes room for the longest reply: two full lists of processes, and some. Made as zeros, it is memory only where a reply
/// comes to lie, which is mostly its first page.
pub(crate) fn room() -> Vec<u8> {
    vec![0; 2 * NAMED * (COMMAND + 17) + 64]
}

/// Receives a reply; `None` when the keeper is gone.
pub(crate) fn replied(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<Reply>> {
    let Some((length, _)) = receive(socket, buffer)? else { return Ok(None) };
    let mut packet = Reader(&buffer[..length]);
    let reply = (|| {
        Some(match packet.u8()? {
            1 => {
                let guarantee = if packet.u8()? == 0 { Guarantee::Subreaper } else { Guarantee::Cgroup };
                Reply::Hello { guarantee }
            }
            2 => Reply::Started { id: packet.u64()?, pid: packet.i32()?, cgroup: packet.bytes()?.to_vec() },
            3 => Reply::Refused {
                id: packet.u64()?,
                stage: Stage::from_number(packet.u8()?)?,
                errno: packet.i32()?,
            },
            4 => Reply::Exited { id: packet.u64()?, signal: packet.u8()? != 0, number: packet.i32()? },
            5 => {
                Reply::Swept { id: packet.u64()?, ended: packet.processes()?, survivors: packet.processes()? }
            }
            _ => return None,
        })
    })();
    reply.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a reply that no keeper sends"))
}

fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(c"bowline-spawn", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(file);
    file.write_all(bytes)?;
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
        match rustix::net::recvmsg(&socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(rustix::io::Errno::INTR) => {}
            // The other side died with messages of ours unread.
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
    // No message of ours is empty: nothing is the end.
    Ok((received.bytes > 0).then_some((received.bytes, descriptors)))
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, number: u8) -> &mut Self {
        self.0.push(number);
        self
    }

    fn i32(&mut self, number: i32) -> &mut Self {
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

    fn processes(&mut self, processes: &[Survivor]) -> &mut Self {
        let named = &processes[..processes.len().min(NAMED)];
        self.u64(named.len() as u64);
        for process in named {
            let command = process.command.as_bytes();
            self.u64(u64::from(process.pid)).u8(u8::from(process.killed));
            self.bytes(&command[..command.len().min(COMMAND)]);
        }
        self
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
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

    fn processes(&mut self) -> Option<Vec<Survivor>> {
        (0..self.u64()?)
            .map(|_| {
                let pid = u32::try_from(self.u64()?).ok()?;
                let killed = self.u8()? != 0;
                let command = String::from_utf8_lossy(self.bytes()?).into_owned();
                Some(Survivor { pid, command, killed })
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
            let mut body = Body::new(b"/bin/program", b"/tmp");
            body.arg(b"program");
            body.arg(&vec![b'x'; size]);
            body.variable(b"NAME", b"value");
            let request = Request::Spawn { id: 7, terminal: true, token: b"token".to_vec(), body };
            ask(&host, &request, &[keeper.as_fd(), keeper.as_fd(), keeper.as_fd()]).unwrap();
            let (arrived, descriptors) = asked(&keeper).unwrap().unwrap();
            let Request::Spawn { id: 7, terminal: true, token, body } = arrived else {
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
        let one = |pid: u32| Survivor { pid, command: "c".repeat(COMMAND), killed: pid.is_multiple_of(2) };
        let many: Vec<Survivor> = (1..=u32::try_from(NAMED).unwrap()).map(one).collect();
        let replies = [
            Reply::Hello { guarantee: Guarantee::Cgroup },
            Reply::Started { id: 1, pid: 2, cgroup: b"/sys".to_vec() },
            Reply::Refused { id: 1, stage: Stage::Cwd, errno: -2 },
            Reply::Exited { id: u64::MAX, signal: true, number: 9 },
            Reply::Swept { id: 3, ended: many.clone(), survivors: many },
        ];
        for expected in replies {
            reply(&keeper, &expected).unwrap();
            assert_eq!(replied(&host, &mut room()).unwrap(), Some(expected));
        }
        drop(keeper);
        assert_eq!(replied(&host, &mut room()).unwrap(), None);
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
            assert!(asked(&keeper).is_err());
        }
        send(&keeper, b"\x09", &[]).unwrap();
        assert!(replied(&host, &mut room()).is_err());
    }
}
