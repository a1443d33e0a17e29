//! Which process a group belongs to, and whether that process is still alive.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use stockade_sys::kernel_text;

/// A process, told apart from every other that had or will have its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// In clock ticks since boot.
    pub(super) start: u64,
    pub(super) realm: Realm,
}

/// Where process numbers and start times mean the same: a hash of the boot, the pid namespace and
/// the time namespace. A cgroup tree can be seen from several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Realm(pub(super) u64);

/// What can be said about the process behind an [`Owner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Alive,
    Dead,
    /// It lives, or lived, where this process cannot see.
    Elsewhere,
}

impl Owner {
    /// This process.
    pub(super) fn current() -> io::Result<Owner> {
        let stat = kernel_text("/proc/self/stat")?;
        let stat = Stat::parse(&stat).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Owner { pid: std::process::id(), start: stat.start, realm: Realm::current()? })
    }

    /// Whether the process lives. Only certain death is called death.
    pub(super) fn life(&self, here: Realm) -> Life {
        if self.realm != here {
            return Life::Elsewhere;
        }
        let path = format!("/proc/{}/stat", self.pid);
        match kernel_text(path).ok().as_deref().and_then(Stat::parse) {
            Some(stat) if stat.start == self.start && !stat.ended => Life::Alive,
            Some(_) => Life::Dead,
            // With `hidepid` a process that lives can be missing from /proc, proc(5).
            None => match i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
                Some(pid) if test_kill_process(pid) != Err(Errno::SRCH) => Life::Alive,
                _ => Life::Dead,
            },
        }
    }
}

impl Realm {
    /// That of this process.
    pub(super) fn current() -> io::Result<Realm> {
        let mut text = kernel_text("/proc/sys/kernel/random/boot_id")?.into_bytes();
        text.extend(fs::read_link("/proc/self/ns/pid")?.into_os_string().into_encoded_bytes());
        // Missing before Linux 5.6 and where time namespaces are not built in.
        if let Ok(time) = fs::read_link("/proc/self/ns/time") {
            text.extend(time.into_os_string().into_encoded_bytes());
        }
        Ok(Realm(fnv1a(&text)))
    }
}

/// What is needed of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    start: u64,
    /// A zombie whose threads have all ended. The first thread alone may end while others run.
    ended: bool,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The name in parentheses may itself have parentheses and spaces.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let threads: u64 = fields.get(17)?.parse().ok()?;
        let ended = matches!(*fields.first()?, "Z" | "X") && threads <= 1;
        Some(Stat { start: fields.get(19)?.parse().ok()?, ended })
    }
}

/// The 64-bit FNV-1a hash. The standard library's hasher may change between compilers, and two
/// builds of Stockade must agree.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(state: &str, threads: u64) -> String {
        let middle = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        format!("42 (a ) b) {state} {middle} {threads} 0 98765 1 2 3")
    }

    #[test]
    fn start_time_is_found_behind_a_hostile_name() {
        assert_eq!(Stat::parse(&stat("S", 3)), Some(Stat { start: 98765, ended: false }));
        assert_eq!(Stat::parse("42 (x"), None);
    }

    #[test]
    fn zombie_with_threads_left_has_not_ended() {
        assert_eq!(Stat::parse(&stat("Z", 1)), Some(Stat { start: 98765, ended: true }));
        assert_eq!(Stat::parse(&stat("Z", 2)), Some(Stat { start: 98765, ended: false }));
    }

    #[test]
    fn this_process_is_alive_and_its_number_with_another_start_is_not() {
        let me = Owner::current().unwrap();
        assert_eq!(me.life(me.realm), Life::Alive);
        assert_eq!(Owner { start: me.start + 1, ..me }.life(me.realm), Life::Dead);
        assert_eq!(Owner { realm: Realm(0), ..me }.life(me.realm), Life::Elsewhere);
    }

    #[test]
    fn hash_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
