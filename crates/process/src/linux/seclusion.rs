//! A network namespace with only loopback, for this process and all its children.
//!
//! Root can create one directly. Other users can create one inside a user namespace of their own, in which they keep their user
//! and group; some systems forbid that too.

use std::fs;
use std::io;

use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

/// Moves this process into a network namespace of its own and switches loopback on.
pub(crate) fn enter() -> io::Result<()> {
    // Before `unshare`: a new user namespace without a map shows the overflow id 65534 (user_namespaces(7)).
    let (user, group) = (getuid(), getgid());
    if user.is_root() {
        unshare(UnshareFlags::NEWNET)?;
    } else {
        unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
        // The kernel allows an unprivileged process to map a group only after it has given up `setgroups`.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))?;
        fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
    }
    loopback_up()
}

/// Counts the connections, datagrams and name lookups that found no route out of the namespace.
pub(crate) fn refused() -> io::Result<u64> {
    let four = fs::read_to_string("/proc/self/net/snmp")?;
    // A kernel without IPv6 does not have this file.
    let six = fs::read_to_string("/proc/self/net/snmp6").unwrap_or_default();
    // Many systems have a resolver on loopback. It is outside the namespace, so a name lookup reaches a port without a
    // listener.
    Ok(counter(&four, "Ip:", "OutNoRoutes") + counter(&four, "Udp:", "NoPorts") + out_no_routes_six(&six))
}

/// Counts the connections to ports of loopback that have no listener.
pub(crate) fn refused_by_ports() -> io::Result<u64> {
    Ok(counter(&fs::read_to_string("/proc/self/net/snmp")?, "Tcp:", "AttemptFails"))
}

/// Reads a counter. Two lines begin with the protocol: the first has the names, the second the numbers.
fn counter(snmp: &str, protocol: &str, wanted: &str) -> u64 {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix(protocol));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
    pairs.find(|(name, _)| *name == wanted).and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

fn out_no_routes_six(snmp: &str) -> u64 {
    let line = snmp.lines().find_map(|line| line.strip_prefix("Ip6OutNoRoutes"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[expect(
    unsafe_code,
    reason = "the call is unsafe for flags that would break the standard library's assumptions"
)]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: neither flag touches file descriptors or memory; a second thread makes the call fail, not misbehave.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

#[expect(unsafe_code, reason = "no safe call sets the flags of an interface")]
fn loopback_up() -> io::Result<()> {
    // The ioctl needs a socket of any kind as its handle (netdevice(7)).
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: all zeroes is a valid request, its name is set below and ends with a zero; both calls only read and
    // write this one structure, and the descriptor is open.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = libc::c_char::from_ne_bytes([*from]);
        }
        if libc::ioctl(descriptor, libc::SIOCGIFFLAGS as libc::Ioctl, &raw mut request) == -1 {
            return Err(io::Error::last_os_error());
        }
        let up = libc::c_short::try_from(libc::IFF_UP).expect("IFF_UP is 1");
        request.ifr_ifru.ifru_flags |= up;
        if libc::ioctl(descriptor, libc::SIOCSIFFLAGS as libc::Ioctl, &raw const request) == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_without_a_route_are_counted() {
        let four = "Ip: Forwarding OutNoRoutes ReasmTimeout\nIp: 1 3 0\nTcp: OutNoRoutes\nTcp: 9\n";
        assert_eq!(counter(four, "Ip:", "OutNoRoutes"), 3);
        assert_eq!(counter("Icmp: 1\n", "Ip:", "OutNoRoutes"), 0);
        assert_eq!(counter("Udp: InDatagrams NoPorts\nUdp: 8 2\n", "Udp:", "NoPorts"), 2);
        let tcp = "Tcp: ActiveOpens PassiveOpens AttemptFails\nTcp: 9 8 -1\n";
        assert_eq!(counter(tcp, "Tcp:", "AttemptFails"), 0);
        assert_eq!(counter(&tcp.replace("-1", "4"), "Tcp:", "AttemptFails"), 4);
        assert_eq!(out_no_routes_six("Ip6InNoRoutes \t7\nIp6OutNoRoutes                  \t2\n"), 2);
    }
}
