//! Finds the execution whose process made a connection, while several executions run.
//!
//! ```text
//! Unix socket ── its credentials ──▶ process ── its cgroup, or its parents ──▶ execution
//! TCP socket ── /proc/net/tcp ──▶ inode ── /proc/PID/fd ──▶ process
//! ```
//! The answer only says whose name an event gets; nothing is decided by it. A process that cannot be
//! looked at, or that got its socket from another execution, leaves an event without an execution,
//! or with that of the socket's holder.

use std::fs;
use std::io::Read;
use std::net::SocketAddrV4;
use std::rc::Rc;

use rustix::net::{getpeername, sockopt};

use crate::processes::Processes;
use crate::reactor::Descriptor;

/// The maximum number of descriptors to look at for one connection.
const MOST_DESCRIPTORS: usize = 4096;

/// The maximum size of a table of sockets.
const MOST_TABLE_BYTES: usize = 1 << 20;

/// The state of a connection that is open in both directions, in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";

/// Finds the executions of connections.
#[derive(Clone)]
pub(crate) struct Callers {
    processes: Rc<Processes>,
}

impl Callers {
    pub(crate) fn new(processes: &Rc<Processes>) -> Callers {
        Callers { processes: Rc::clone(processes) }
    }

    /// The execution at the other end of a Unix socket.
    pub(crate) fn of_local(&self, client: &Descriptor) -> Option<u64> {
        self.if_several(|| {
            let process = sockopt::socket_peercred(client).ok()?.pid;
            self.processes.execution_of(process.as_raw_nonzero().get())
        })
    }

    /// The execution at the other end of a TCP connection to `dialled`.
    pub(crate) fn of_tcp(&self, client: &Descriptor, dialled: SocketAddrV4) -> Option<u64> {
        self.if_several(|| {
            let from = SocketAddrV4::try_from(getpeername(client).ok()??).ok()?;
            self.processes.execution_of(holder(&link_of(from, dialled)?)?)
        })
    }

    /// With one execution the host needs no answer, and the search would only cost time.
    fn if_several(&self, find: impl FnOnce() -> Option<u64>) -> Option<u64> {
        self.processes.runs_several().then(find).flatten()
    }
}

/// What a descriptor of a connection links to.
fn link_of(from: SocketAddrV4, to: SocketAddrV4) -> Option<String> {
    // A program may use a socket of version 6 for an address of version 4.
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().find_map(|table| {
        let mut text = String::new();
        let most = MOST_TABLE_BYTES as u64;
        fs::File::open(table).ok()?.take(most + 1).read_to_string(&mut text).ok()?;
        if text.len() > MOST_TABLE_BYTES {
            return None;
        }
        Some(format!("socket:[{}]", inode(&text, from, to)?))
    })
}

/// The inode of the connection between two addresses, proc_pid_net(5). Pure.
fn inode(table: &str, from: SocketAddrV4, to: SocketAddrV4) -> Option<u64> {
    let (from, to) = (written(from), written(to));
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, _, _, inode, ..] = words[..] else { return None };
        let is_it = local.ends_with(&from) && remote.ends_with(&to) && state == ESTABLISHED;
        is_it.then(|| inode.parse().ok()).flatten()
    })
}

/// An address as these tables have it: the four bytes as one number of this machine.
fn written(address: SocketAddrV4) -> String {
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}

/// A process with a descriptor that links to `wanted`.
fn holder(wanted: &str) -> Option<i32> {
    let mut left = MOST_DESCRIPTORS;
    let names = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.file_name());
    let mut processes: Vec<i32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    // The newest are the likeliest.
    processes.sort_unstable_by(|one, other| other.cmp(one));
    for process in processes {
        // Fails for a process that has ended, and for one that is not dumpable.
        let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { continue };
        for descriptor in descriptors.flatten() {
            left = left.checked_sub(1)?;
            if fs::read_link(descriptor.path()).is_ok_and(|link| link.as_os_str() == wanted) {
                return Some(process);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn address(text: &str) -> SocketAddrV4 {
        text.parse().unwrap()
    }

    #[test]
    fn inode_of_a_connection_is_found_by_both_addresses_and_its_state() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let line = |local: &str, remote: &str, state: &str, inode: u32| {
            format!(
                "   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 1000 0 {inode} 1\n"
            )
        };
        let (from, to) = (address("127.0.0.1:40000"), address("127.64.0.1:443"));
        let six = |address| format!("0000000000000000FFFF0000{}", written(address));
        let table = [
            head.to_owned(),
            line(&written(from), &written(address("127.64.0.2:443")), "01", 1),
            line(&written(to), &written(from), "01", 2),
            line(&written(from), &written(to), "06", 3),
            line(&written(from), &written(to), "01", 4),
        ];
        assert_eq!(inode(&table.concat(), from, to), Some(4));
        assert_eq!(inode(&table[..4].concat(), from, to), None);
        let table = [head.to_owned(), line(&six(from), &six(to), "01", 5)].concat();
        assert_eq!(inode(&table, from, to), Some(5));
    }

    #[test]
    fn process_with_a_connection_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let client = TcpStream::connect(&to).unwrap();
        let from = address(&client.local_addr().unwrap().to_string());
        let link = link_of(from, address(&to)).unwrap();
        assert_eq!(holder(&link), Some(i32::try_from(std::process::id()).unwrap()));
        assert_eq!(holder("socket:[0]"), None);
    }
}
