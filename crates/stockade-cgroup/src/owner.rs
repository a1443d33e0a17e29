//! The process that owns a group or another leftover of a sandbox, and whether it is still alive.

use std::fmt;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use stockade_sys::kernel_text;

/// A process, distinguished from every other process with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// The start time in clock ticks since boot.
    pub start: u64,
    /// Where the process id has this meaning.
    pub realm: Realm,
}

/// Identifies where pids and start times have the same meaning: a hash of the boot, the pid
/// namespace and the time namespace. Several of these can see one cgroup tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Realm(pub u64);

/// What is known about the process of an [`Owner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Alive,
    /// It has ended.
    Dead,
    /// It lives, or lived, in a namespace that this process cannot see.
    Elsewhere,
}

impl Owner {
    /// This process.
    pub fn current() -> io::Result<Owner> {
        let stat = kernel_text("/proc/self/stat")?;
        let stat = Stat::parse(&stat).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Owner { pid: std::process::id(), start: stat.start, realm: Realm::current()? })
    }

    /// Whether the process is alive. Returns dead only if that is certain.
    pub fn life(&self, here: Realm) -> Life {
        if self.realm != here {
            return Life::Elsewhere;
        }
        let path = format!("/proc/{}/stat", self.pid);
        match kernel_text(path).ok().as_deref().and_then(Stat::parse) {
            Some(stat) if stat.start == self.start && !stat.ended => Life::Alive,
            Some(_) => Life::Dead,
            // With `hidepid` a living process can be missing from /proc, proc(5).
            None => match i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
                Some(pid) if test_kill_process(pid) != Err(Errno::SRCH) => Life::Alive,
                _ => Life::Dead,
            },
        }
    }
}

/// `PID.START.REALM`, as a name or a label carries it.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{:016x}", self.pid, self.start, self.realm.0)
    }
}

impl Owner {
    /// Parses the form of [`Owner`]'s display.
    pub fn parse(text: &str) -> Option<Owner> {
        let mut fields = text.split('.');
        let (pid, start) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let realm = Realm(u64::from_str_radix(fields.next()?, 16).ok()?);
        fields.next().is_none().then_some(Owner { pid, start, realm })
    }
}

impl Realm {
    /// The realm of this process.
    pub fn current() -> io::Result<Realm> {
        let mut text = kernel_text("/proc/sys/kernel/random/boot_id")?.into_bytes();
        text.extend(fs::read_link("/proc/self/ns/pid")?.into_os_string().into_encoded_bytes());
        // Missing before Linux 5.6 and on kernels built without time namespaces.
        if let Ok(time) = fs::read_link("/proc/self/ns/time") {
            text.extend(time.into_os_string().into_encoded_bytes());
        }
        Ok(Realm(fnv1a(&text)))
    }
}

/// The used fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    start: u64,
    /// A zombie whose threads have all ended. The main thread alone may end while others run.
    ended: bool,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The name in parentheses may itself contain parentheses and spaces.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let threads: u64 = fields.get(17)?.parse().ok()?;
        let ended = matches!(*fields.first()?, "Z" | "X") && threads <= 1;
        Some(Stat { start: fields.get(19)?.parse().ok()?, ended })
    }
}

/// The 64-bit FNV-1a hash. The standard library's hasher may change between compilers, and two
/// builds of Stockade must compute the same value.
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
    fn start_time_is_parsed_after_a_hostile_name() {
        assert_eq!(Stat::parse(&stat("S", 3)), Some(Stat { start: 98765, ended: false }));
        assert_eq!(Stat::parse("42 (x"), None);
    }

    #[test]
    fn zombie_with_running_threads_has_not_ended() {
        assert_eq!(Stat::parse(&stat("Z", 1)), Some(Stat { start: 98765, ended: true }));
        assert_eq!(Stat::parse(&stat("Z", 2)), Some(Stat { start: 98765, ended: false }));
    }

    #[test]
    fn this_process_is_alive_and_its_pid_with_another_start_time_is_not() {
        let me = Owner::current().unwrap();
        assert_eq!(me.life(me.realm), Life::Alive);
        assert_eq!(Owner { start: me.start + 1, ..me }.life(me.realm), Life::Dead);
        assert_eq!(Owner { realm: Realm(0), ..me }.life(me.realm), Life::Elsewhere);
    }

    #[test]
    fn owner_is_parsed_from_its_display_and_from_nothing_else() {
        let owner = Owner { pid: 7, start: 99, realm: Realm(0xab) };
        assert_eq!(owner.to_string(), "7.99.00000000000000ab");
        assert_eq!(Owner::parse(&owner.to_string()), Some(owner));
        for wrong in ["", "7.99", "7.99.ab.1", "x.99.ab", "7.-1.ab"] {
            assert_eq!(Owner::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hash_matches_the_published_test_vectors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
