//! Allocates host uids and gids that only one sandbox uses.
//!
//! ```text
//!   claim ──▶ IdRange ──▶ its lock is closed everywhere ──▶ free for the next
//! ```
//!
//! An abstract Unix socket holds a range: only one socket can have a name, and the kernel frees the
//! name with the last descriptor, however its holders end. Abstract names belong to a network
//! namespace, so only claims in the same namespace exclude each other.

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
    /// A file with the host's own ids could not be read.
    #[error("read which uids the host gives to others from {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel returned no random bytes.
    #[error("draw where to begin the search for free uids")]
    Random {
        /// The kernel's error.
        source: io::Error,
    },
    /// A lock could not be created.
    #[error("take the lock {name} on a range of uids")]
    Lock {
        /// Its abstract name.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Every range is in use.
    #[error("find {} free uids among {} ranges", IdRange::COUNT, IdRange::RANGES)]
    AllInUse,
}

/// A range of uids, and of the same gids, that no other sandbox of this host uses at the same time.
///
/// Dropping it releases the range, unless a copy of its lock is open elsewhere.
#[derive(Debug)]
pub struct IdRange {
    /// The first uid and gid.
    pub first: u32,
    lock: OwnedFd,
}

impl IdRange {
    /// How many ids a range has.
    pub const COUNT: u32 = 65_536;

    /// The first id of all ranges, above those that systemd assigns to containers.
    pub const LOWEST: u32 = 0x7000_0000;

    /// The number of ranges: they end at 0x7ffe_0000, where systemd's range for foreign files
    /// starts.
    pub const RANGES: u32 = 4094;

    /// Whether this user namespace maps every range. In one that maps fewer ids, not even its root
    /// can assign them to a process.
    pub fn are_all_mapped() -> bool {
        let first = u64::from(IdRange::LOWEST);
        let end = first + u64::from(IdRange::RANGES) * u64::from(IdRange::COUNT);
        ["/proc/self/uid_map", "/proc/self/gid_map"]
            .iter()
            .all(|path| kernel_text(path).is_ok_and(|map| maps(&map, first, end)))
    }

    /// Claims a free range that no user or group of the host owns, as `/etc/subuid` and similar
    /// files list them.
    pub fn claim() -> Result<IdRange, IdRangeError> {
        let taken = Taken::read()?;
        let random = random_bytes().map_err(|source| IdRangeError::Random { source })?;
        claim_from(u32::from_ne_bytes(random) % IdRange::RANGES, &taken)
    }

    /// Returns the lock, so that another process can hold the range after this one.
    pub fn into_lock(self) -> OwnedFd {
        self.lock
    }

    /// The lock of the range. It is close-on-exec; a process that holds the range after this one
    /// ends needs a copy.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

/// Whether one line of an id map contains all of these ids, user_namespaces(7).
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

/// Locks a range, or returns `None` if it is in use. The socket never listens, so no process can
/// reach the holder through it.
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
    fn range_is_released_when_the_last_copy_of_its_lock_closes() {
        // Numbers that no claim draws, so that other tests do not interfere.
        let number = IdRange::RANGES + std::process::id();
        let lock = take_lock(number).unwrap().unwrap();
        assert!(take_lock(number).unwrap().is_none());
        let copy = lock.try_clone().unwrap();
        drop(lock);
        assert!(take_lock(number).unwrap().is_none());
        drop(copy);
        // A process that another test starts holds all descriptors until its exec.
        let deadline = Instant::now() + Duration::from_secs(10);
        while take_lock(number).unwrap().is_none() {
            assert!(Instant::now() < deadline, "the range is not free again");
            thread::yield_now();
        }
    }

    #[test]
    fn lock_is_closed_on_exec() {
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
    fn one_id_map_has_no_range_and_the_host_map_has_all() {
        let (first, end) = (0x7000_0000, 0x7ffe_0000);
        assert!(maps("         0          0 4294967295\n", first, end));
        assert!(maps("0 1000 1\n1 100000 4294967294\n", first, end));
        assert!(!maps("0 65534 1\n", first, end));
        assert!(!maps("0 0 1879048192\n1879048192 5 5\n", first, end));
        assert!(!maps("", first, end));
    }

    #[test]
    fn assigned_ranges_are_skipped_with_wraparound() {
        let last = IdRange::LOWEST + (IdRange::RANGES - 1) * IdRange::COUNT;
        let taken = Taken::parse(&format!("me:{last}:1\n"), "");
        let range = claim_from(IdRange::RANGES - 1, &taken).unwrap();
        assert!(range.first < last, "{:x}", range.first);
        let everything = Taken::parse("me:0:4294967295\n", "");
        assert!(matches!(claim_from(0, &everything), Err(IdRangeError::AllInUse)));
    }
}
