//! System V and POSIX queues, semaphores and shared memory.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};

use stockade_conformance::Tried;
use stockade_sys::probe::{Argument, raw_call};

use crate::{Act, number, word};

pub(crate) const ACTS: &[(&str, Act)] = &[("plant", plant), ("find", find)];

const CREATE: u32 = 0o1000;

/// Creates one of each kind under a name, prints `planted`, and keeps them until its input ends.
fn plant(words: &[&str]) -> Tried {
    let (name, key, token) = (word(words, 0), number(words, 1) as u32, word(words, 2));
    let planted = || -> io::Result<()> {
        let queue = made(libc::SYS_msgget, &[key, CREATE | 0o666])?;
        let memory = made(libc::SYS_shmget, &[key, 4096, CREATE | 0o666])?;
        let semaphore = made(libc::SYS_semget, &[key, 1, CREATE | 0o666])?;
        let posix = CString::new(name).map_err(io::Error::other)?;
        // Landlock forbids creating a POSIX queue if it is enabled.
        let queued = raw_call(
            libc::SYS_mq_open,
            &mut [
                Argument::Text(&posix),
                Argument::Number((libc::O_CREAT | libc::O_RDWR) as u32),
                Argument::Number(0o666),
                Argument::Number(0),
            ],
        );
        let files = ["/dev/shm", "/tmp", "/var/tmp", "."].map(|place| format!("{place}/{name}"));
        for file in &files {
            fs::write(file, token)?;
        }
        writeln!(io::stdout(), "planted")?;
        io::stdin().read_to_end(&mut Vec::new())?;
        for file in &files {
            fs::remove_file(file)?;
        }
        if queued.is_ok() {
            raw_call(libc::SYS_mq_unlink, &mut [Argument::Text(&posix)])?;
        }
        for (remove, object) in
            [(libc::SYS_msgctl, queue), (libc::SYS_shmctl, memory), (libc::SYS_semctl, semaphore)]
        {
            if let Some(object) = object {
                raw_call(remove, &mut numbers(&[object, 0, 0]))?;
            }
        }
        Ok(())
    };
    Tried::one(planted().map(|()| "kept"))
}

/// Makes an object of System V; `None` where the wall refuses new ones because no cgroup counts them.
fn made(call: libc::c_long, words: &[u32]) -> io::Result<Option<u32>> {
    match raw_call(call, &mut numbers(words)) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => Ok(None),
        made => made.map(|object| Some(object as u32)),
    }
}

/// Looks for each kind under the name.
fn find(words: &[&str]) -> Tried {
    let (name, key) = (word(words, 0), number(words, 1) as u32);
    let mut tried = Tried::default();
    let queue = raw_call(libc::SYS_msgget, &mut numbers(&[key, 0]));
    tried.add("message queue", queue.map(|_| "found"));
    let memory = raw_call(libc::SYS_shmget, &mut numbers(&[key, 0, 0]));
    tried.add("shared memory", memory.map(|_| "found"));
    let semaphore = raw_call(libc::SYS_semget, &mut numbers(&[key, 0, 0]));
    tried.add("semaphore", semaphore.map(|_| "found"));
    let posix = CString::new(name).unwrap_or_default();
    let flags = Argument::Number(libc::O_RDONLY as u32);
    let zero = || Argument::Number(0);
    let posix = raw_call(libc::SYS_mq_open, &mut [Argument::Text(&posix), flags, zero(), zero()]);
    tried.add("posix queue", posix.map(|_| "found"));
    tried.add("file of shared memory", fs::read_to_string(format!("/dev/shm/{name}")));
    tried
}

fn numbers(words: &[u32]) -> Vec<Argument<'static>> {
    words.iter().map(|word| Argument::Number(*word)).collect()
}
