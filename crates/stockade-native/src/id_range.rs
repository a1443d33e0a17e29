//! Uids and gids on the host that only one sandbox has.
//!
//! ```text
//!   claim ──▶ IdRange ──▶ its lock is closed everywhere ──▶ free for the next
//! ```
//!
//! A range is held by a Unix socket with an abstract name: the kernel lets one socket have a name,
//! frees it with the last descriptor, however the holders end, and leaves nothing on disk. Such
//! names belong to a network namespace, so only claims from the same one exclude each other.

mod taken;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use stockade_sys::random_bytes;

use taken::Taken;

use stockade_sys::kernel_text;

/// Why no range could be claimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdRangeError {
    /// What the host gives to others could not be read.
    #[error("read which uids the host gives to others from {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel gave no random bytes.
    #[error("draw where to begin the search for free uids")]
    Random {
        /// What the kernel said.
        source: io::Error,
    },
    /// A lock could not be made.
    #[error("take the lock {name} on a range of uids")]
    Lock {
        /// Its abstract name.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Every range is in use.
    #[error("find {} free uids among {} ranges", IdRange::COUNT, IdRange::RANGES)]
    AllInUse,
}

/// A range of uids, and of the same gids, that no other sandbox of this host has at the same time.
///
/// Dropping it gives the range up, unless a copy of its lock is open elsewhere.
#[derive(Debug)]
pub struct IdRange {
    /// The first uid and gid.
    pub first: u32,
    lock: OwnedFd,
}

impl IdRange {
    /// How many ids a range has.
    pub const COUNT: u32 = 65_536;

    /// The first id of all ranges, above those that systemd gives to containers.
    pub const LOWEST: u32 = 0x7000_0000;

    /// How many ranges there are: up to 0x7ffe_0000, where systemd's range for foreign files begins.
    pub const RANGES: u32 = 4094;

    /// Whether every range means something in this user namespace: in one that maps fewer ids, even
    /// its root cannot give any of them to a process.
    pub fn are_all_mapped() -> bool {
        let first = u64::from(IdRange::LOWEST);
        let end = first + u64::from(IdRange::RANGES) * u64::from(IdRange::COUNT);
        ["/proc/self/uid_map", "/proc/self/gid_map"]
            .iter()
            .all(|path| kernel_text(path).is_ok_and(|map| maps(&map, first, end)))
    }

    /// Claims a free range. None is chosen that `/etc/subuid` and its like give to somebody.
    pub fn claim() -> Result<IdRange, IdRangeError> {
        let taken = Taken::read()?;
        let random = random_bytes().map_err(|source| IdRangeError::Random { source })?;
        claim_from(u32::from_ne_bytes(random) % IdRange::RANGES, &taken)
    }

    /// What holds the range, for another process to hold it after this one.
    pub fn into_lock(self) -> OwnedFd {
        self.lock
    }

    /// What holds the range. It closes on exec; a process that is to hold the range after this one
    /// ends needs a copy.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

/// Whether one line of a map of ids has all of these, user_namespaces(7).
fn maps(map: &str, first: u64, end: u64) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        matches!(numbers[..], [inside, _, count] if inside <= first && end <= inside + count)
    })
}

fn claim_from(start: u32, taken: &Taken) -> Result<IdRange, IdRangeError> {
    for step in 0..IdRange::RANGES {
        let number = (start + step) % IdRange::RANGES;
        let first = IdRange::LOWEST + number * IdRange::COUNT;
        if taken.overlaps(first, IdRange::COUNT) {
            continue;
        }
        if let Some(lock) = take_lock(number)? {
            return Ok(IdRange { first, lock });
        }
    }
    Err(IdRangeError::AllInUse)
}

/// The lock of a range, or none if somebody has it. The socket never listens, so nobody can reach
/// the holder through it.
fn take_lock(number: u32) -> Result<Option<OwnedFd>, IdRangeError> {
    let name = format!("stockade-ids-{number}");
    let attempt = || {
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &address).map(|()| socket)
    };
    match attempt() {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::ADDRINUSE) => Ok(None),
        Err(errno) => Err(IdRangeError::Lock { name, source: errno.into() }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn two_claims_differ_and_lie_in_bounds() {
        let ranges = [IdRange::claim().unwrap(), IdRange::claim().unwrap()];
        assert_ne!(ranges[0].first, ranges[1].first);
        for range in &ranges {
            assert_eq!(range.first % IdRange::COUNT, 0);
            assert!((0x7000_0000..0x7ffe_0000).contains(&range.first), "{:x}", range.first);
        }
    }

    #[test]
    fn range_is_free_again_when_the_last_copy_of_its_lock_is_closed() {
        // Numbers that no claim draws, so that no other test is in the way.
        let number = IdRange::RANGES + std::process::id();
        let lock = take_lock(number).unwrap().unwrap();
        assert!(take_lock(number).unwrap().is_none());
        let copy = lock.try_clone().unwrap();
        drop(lock);
        assert!(take_lock(number).unwrap().is_none());
        drop(copy);
        // A process that another test starts has all descriptors for a moment, until its exec.
        let deadline = Instant::now() + Duration::from_secs(10);
        while take_lock(number).unwrap().is_none() {
            assert!(Instant::now() < deadline, "the range is not free again");
            thread::yield_now();
        }
    }

    #[test]
    fn lock_does_not_reach_a_program_that_is_started() {
        let range = IdRange::claim().unwrap();
        let flags = rustix::io::fcntl_getfd(range.lock()).unwrap();
        assert_eq!(flags, rustix::io::FdFlags::CLOEXEC);
    }

    #[test]
    fn hundred_threads_get_a_hundred_ranges() {
        let together = Barrier::new(100);
        let ranges: Vec<IdRange> = thread::scope(|scope| {
            let one = || {
                together.wait();
                IdRange::claim().unwrap()
            };
            let threads: Vec<_> = (0..100).map(|_| scope.spawn(one)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let different: BTreeSet<u32> = ranges.iter().map(|range| range.first).collect();
        assert_eq!(different.len(), 100);
    }

    #[test]
    fn map_of_one_id_has_no_range_and_the_hosts_has_all() {
        let (first, end) = (0x7000_0000, 0x7ffe_0000);
        assert!(maps("         0          0 4294967295\n", first, end));
        assert!(maps("0 1000 1\n1 100000 4294967294\n", first, end));
        assert!(!maps("0 65534 1\n", first, end));
        assert!(!maps("0 0 1879048192\n1879048192 5 5\n", first, end));
        assert!(!maps("", first, end));
    }

    #[test]
    fn ranges_that_the_host_gives_away_are_skipped_around_the_end() {
        let last = IdRange::LOWEST + (IdRange::RANGES - 1) * IdRange::COUNT;
        let taken = Taken::parse(&format!("me:{last}:1\n"), "");
        let range = claim_from(IdRange::RANGES - 1, &taken).unwrap();
        assert!(range.first < last, "{:x}", range.first);
        let everything = Taken::parse("me:0:4294967295\n", "");
        assert!(matches!(claim_from(0, &everything), Err(IdRangeError::AllInUse)));
    }
}
