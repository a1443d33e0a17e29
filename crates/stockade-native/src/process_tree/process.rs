//! Reads one process from `/proc`.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{Dir, Mode, OFlags, open, openat};
use rustix::io::Errno;
use rustix::process::Pid;

/// Ticks per second in `/proc/PID/stat`: `USER_HZ`, which is 100 on all supported architectures.
const TICKS_PER_SECOND: u64 = 100;

/// The flag `PF_FORKNOEXEC` in `/proc/PID/stat`.
const FORKED_NOT_EXECUTED: u64 = 0x40;

/// The most that is read of a file. Only a list of a hundred thousand children would be longer.
const MOST_BYTES: u64 = 1 << 20;

/// The `/proc` directory of a process. Once the process is gone, reads fail even if its pid is
/// reused.
#[derive(Debug)]
pub(super) struct Process(OwnedFd);

impl Process {
    /// Opens the process with this pid, or returns `None` if it does not exist.
    pub(super) fn open(pid: Pid) -> io::Result<Option<Process>> {
        let path = format!("/proc/{}", pid.as_raw_nonzero());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        unless_gone(open(path, flags, Mode::empty()).map(Process).map_err(Into::into))
    }

    /// CPU time, threads and parent, or `None` if the process is gone.
    pub(super) fn stat(&self) -> io::Result<Option<Stat>> {
        self.parsed("stat", Stat::parse)
    }

    /// Its anonymous and shared memory, swapped out or not, or `None` if the process is gone.
    ///
    /// `statm` would be shorter, but it does not separate shared anonymous memory from file
    /// content, and memory that only a shared mapping holds must count.
    pub(super) fn memory(&self) -> io::Result<Option<u64>> {
        self.parsed("status", |text| Some(sum(text, &["RssAnon:", "RssShmem:", "VmSwap:"])))
    }

    /// The same, with each page divided by the number of processes that map it.
    pub(super) fn proportional_memory(&self) -> io::Result<Option<u64>> {
        self.parsed("smaps_rollup", |text| {
            // The kernel reports the two parts since Linux 5.3.
            let resident = match text.contains("Pss_Anon:") {
                true => sum(text, &["Pss_Anon:", "Pss_Shmem:"]),
                false => sum(text, &["Pss:"]),
            };
            Some(resident + sum(text, &["SwapPss:"]))
        })
    }

    /// The children of all its threads.
    pub(super) fn children(&self) -> io::Result<Vec<Pid>> {
        let mut found = Vec::new();
        self.each_thread("children", |text| {
            let pids = text.split_whitespace().filter_map(|word| word.parse().ok());
            found.extend(pids.filter_map(Pid::from_raw));
        })?;
        Ok(found)
    }

    /// The number of its threads in uninterruptible sleep.
    pub(super) fn uninterruptible_threads(&self) -> io::Result<u64> {
        let mut count = 0;
        self.each_thread("stat", |text| {
            count += u64::from(Stat::parse(text).is_some_and(|stat| stat.uninterruptible));
        })?;
        Ok(count)
    }

    /// Reads a file of each of its threads.
    fn each_thread(&self, name: &str, mut visit: impl FnMut(&str)) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let tasks = openat(&self.0, "task", flags, Mode::empty()).map_err(Into::into);
        let Some(tasks) = unless_gone(tasks)? else { return Ok(()) };
        let entries = unless_gone(Dir::read_from(&tasks).map_err(Into::into))?;
        for entry in entries.into_iter().flatten() {
            let Some(entry) = unless_gone(entry.map_err(Into::into))? else { break };
            let Ok(thread) = entry.file_name().to_str() else { continue };
            if thread.starts_with('.') {
                continue;
            }
            if let Some(text) = read(&tasks, &format!("{thread}/{name}"))? {
                visit(&text);
            }
        }
        Ok(())
    }

    /// Whether the kernel lists children, `CONFIG_PROC_CHILDREN`.
    pub(super) fn tells_children(&self, pid: Pid) -> io::Result<bool> {
        Ok(read(&self.0, &format!("task/{}/children", pid.as_raw_nonzero()))?.is_some())
    }

    fn parsed<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>) -> io::Result<Option<T>> {
        match read(&self.0, name)? {
            Some(text) => parse(&text).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into()),
            None => Ok(None),
        }
    }
}

/// The fields that are used of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) parent: i32,
    pub(super) threads: u64,
    /// In ticks since boot: distinguishes the process from others with the same pid.
    pub(super) start: u64,
    /// Its own, and that of its reaped descendants. A reaped process is no longer listed, so no
    /// time counts twice in a tree.
    pub(super) cpu_time: Duration,
    /// Its first thread is in uninterruptible sleep; for a thread's `stat`, that thread.
    pub(super) uninterruptible: bool,
    /// It has not called execve(2) since it was forked.
    pub(super) before_exec: bool,
}

impl Stat {
    pub(super) fn parse(text: &str) -> Option<Stat> {
        // The name in parentheses may itself contain parentheses and spaces.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // proc(5) numbers fields from 1, and the first field after the name is the third.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let ticks = [number(14)?, number(15)?, number(16)?, number(17)?].iter().sum::<u64>();
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            threads: number(20)?,
            start: number(22)?,
            cpu_time: Duration::from_millis(ticks.saturating_mul(1000 / TICKS_PER_SECOND)),
            uninterruptible: *fields.first()? == "D",
            before_exec: number(9)? & FORKED_NOT_EXECUTED != 0,
        })
    }
}

/// The sum of lines such as `RssAnon:  12 kB`, in bytes. A missing line counts as 0: a process that
/// is exiting has no memory and no such lines.
fn sum(text: &str, keys: &[&str]) -> u64 {
    let value = |key: &&str| {
        let line = text.lines().find_map(|line| line.strip_prefix(*key))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    keys.iter().filter_map(value).sum::<u64>().saturating_mul(1024)
}

/// The text of a file, or `None` if the process is gone.
fn read(directory: &OwnedFd, name: &str) -> io::Result<Option<String>> {
    let attempt = || {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = File::from(openat(directory, name, flags, Mode::empty())?);
        let mut bytes = Vec::with_capacity(4096);
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        // A process chooses its name, which may be invalid UTF-8.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    unless_gone(attempt())
}

fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH) => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_parsed_after_a_hostile_process_name() {
        let text = "42 (a) S 1 (b) D 7 42 42 0 -1 4194368 1 2 3 4 10 20 300 4000 20 0 5 0 987 1 2";
        let stat = Stat {
            parent: 7,
            threads: 5,
            start: 987,
            cpu_time: Duration::from_millis(43_300),
            uninterruptible: true,
            before_exec: true,
        };
        assert_eq!(Stat::parse(text), Some(stat));
        for end in [0, 5, 30, 60] {
            assert_eq!(Stat::parse(&text[..end]), None);
        }
    }

    #[test]
    fn memory_is_summed_and_a_missing_line_is_zero() {
        let text = "Name:\tx\nRssAnon:\t      12 kB\nRssFile:\t 400 kB\nVmSwap:\t 3 kB\n";
        assert_eq!(sum(text, &["RssAnon:", "RssShmem:", "VmSwap:"]), 15 * 1024);
    }
}
