//! Exhausting resources that a sandbox limits. Every act is bounded, so the control can run it on
//! the host.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use stockade_conformance::Tried;
use stockade_sys::probe::{Argument, raw_call};

use crate::{Act, number, word};

pub(crate) const ACTS: &[(&str, Act)] = &[
    ("children", children),
    ("memory", memory),
    ("fill", fill),
    ("allocate", allocate),
    ("inodes", inodes),
    ("open-files", open_files),
    ("burn", burn),
    ("print", print),
    ("queue-signals", queue_signals),
    ("locks-of-memory", locks_of_memory),
];

const MEBIBYTE: usize = 1 << 20;

/// Starts waiting children, until there are enough or fork fails.
fn children(words: &[&str]) -> Tried {
    const HELD: std::time::Duration = std::time::Duration::from_secs(1);
    let mut started: Vec<Child> = Vec::new();
    let mut stopped_by = None;
    while (started.len() as u64) < number(words, 0) {
        let mut sleeper = Command::new("/proc/self/exe");
        sleeper.args(["wait", "20000"]).stdin(Stdio::null()).stdout(Stdio::null());
        match sleeper.spawn() {
            Ok(child) => started.push(child),
            Err(error) => {
                stopped_by = Some(error);
                break;
            }
        }
    }
    let count = started.len() as i64;
    if stopped_by.is_some() {
        // Keeps the children alive long enough for a watcher that polls.
        std::thread::sleep(HELD);
    }
    for mut child in started {
        // It may already be dead.
        let _ = child.kill();
        let _ = child.wait();
    }
    Tried::counted(count, stopped_by)
}

/// Allocates this many mebibytes of one kind and touches all pages.
fn memory(words: &[&str]) -> Tried {
    let mebibytes = number(words, 1) as usize;
    let block = vec![1_u8; MEBIBYTE];
    let mut taken = 0;
    let mut take = || -> io::Result<()> {
        match word(words, 0) {
            "private" => {
                let mut kept = Vec::new();
                for _ in 0..mebibytes {
                    kept.push(block.clone());
                    taken += 1;
                }
                drop(std::hint::black_box(kept));
            }
            "memory-file" => {
                let mut file = File::from(memfd_create("probe", MemfdFlags::CLOEXEC)?);
                for _ in 0..mebibytes {
                    file.write_all(&block)?;
                    taken += 1;
                }
            }
            _ => return Err(crate::errno(libc::EDOM)),
        }
        Ok(())
    };
    let stopped_by = take().err();
    Tried::counted(taken as i64, stopped_by)
}

/// Writes this many mebibytes to a file.
fn fill(words: &[&str]) -> Tried {
    let path = Path::new(word(words, 0)).join("stockade-probe-fill");
    let block = vec![1_u8; MEBIBYTE];
    let mut written = 0;
    let mut write = || -> io::Result<()> {
        let mut file = File::create(&path)?;
        for _ in 0..number(words, 1) {
            file.write_all(&block)?;
            written += 1;
        }
        Ok(())
    };
    let stopped_by = write().err();
    // Keeps the file full for a moment, so that a watcher that polls sees it.
    if stopped_by.is_none() {
        let _ = fs::remove_file(&path);
    }
    Tried::counted(written, stopped_by)
}

/// Allocates the same space in one call, with fallocate(2).
fn allocate(words: &[&str]) -> Tried {
    let path = Path::new(word(words, 0)).join("stockade-probe-allocate");
    let bytes = number(words, 1) << 20;
    let allocated = File::create(&path).and_then(|file| {
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
        Ok("allocated")
    });
    let _ = fs::remove_file(&path);
    Tried::one(allocated)
}

/// Creates this many empty files.
fn inodes(words: &[&str]) -> Tried {
    let place = Path::new(word(words, 0)).join("stockade-probe-inodes");
    let mut made = 0;
    let mut make = || -> io::Result<()> {
        fs::create_dir(&place)?;
        for index in 0..number(words, 1) {
            File::create(place.join(index.to_string()))?;
            made += 1;
        }
        Ok(())
    };
    let stopped_by = make().err();
    if stopped_by.is_none() {
        let _ = fs::remove_dir_all(&place);
    }
    Tried::counted(made, stopped_by)
}

/// Opens this many descriptors.
fn open_files(words: &[&str]) -> Tried {
    let mut open = Vec::new();
    let mut stopped_by = None;
    while (open.len() as u64) < number(words, 0) {
        match File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(error) => {
                stopped_by = Some(error);
                break;
            }
        }
    }
    Tried::counted(open.len() as i64, stopped_by)
}

/// Computes with some threads for some milliseconds; the count is the CPU time they got, in
/// hundredths of one CPU.
fn burn(words: &[&str]) -> Tried {
    let wall = Duration::from_millis(number(words, 1));
    let began = Instant::now();
    let spin = move || {
        let mut sum = 0_u64;
        while began.elapsed() < wall {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    };
    let threads: Vec<_> = (0..number(words, 0)).map(|_| std::thread::spawn(spin)).collect();
    for thread in threads {
        // A thread that only counts does not panic.
        let _ = thread.join();
    }
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
    Tried::counted((100.0 * used / began.elapsed().as_secs_f64()) as i64, None)
}

/// Prints this many mebibytes in one line.
fn print(words: &[&str]) -> Tried {
    let block = vec![b'x'; MEBIBYTE];
    let mut out = io::stdout();
    let mut stopped_by = None;
    for _ in 0..number(words, 0) {
        stopped_by = stopped_by.or(out.write_all(&block).err());
    }
    // The answer needs its own line.
    let _ = out.write_all(b"\n");
    Tried::counted(number(words, 0) as i64, stopped_by)
}

/// Queues as many signals to itself as the limit allows.
fn queue_signals(words: &[&str]) -> Tried {
    const REAL_TIME: u32 = 40;
    const QUEUED: u32 = -1_i32 as u32;
    let blocked = u64::MAX.to_ne_bytes();
    let mask = raw_call(
        libc::SYS_rt_sigprocmask,
        &mut [
            Argument::Number(0),
            Argument::Bytes(&mut { blocked }),
            Argument::Number(0),
            Argument::Number(8),
        ],
    );
    if let Err(error) = mask {
        return Tried::one(Err::<String, _>(error));
    }
    let mut information = [0; 128];
    information[8..12].copy_from_slice(&QUEUED.to_ne_bytes());
    information[0] = REAL_TIME as u8;
    let (mut sent, mut stopped_by) = (0, None);
    while sent < number(words, 0) as i64 && stopped_by.is_none() {
        let process = Argument::Number(std::process::id());
        let signal = Argument::Number(REAL_TIME);
        let bytes = Argument::Bytes(&mut information);
        match raw_call(libc::SYS_rt_sigqueueinfo, &mut [process, signal, bytes]) {
            Ok(_) => sent += 1,
            Err(error) => stopped_by = Some(error),
        }
    }
    Tried::counted(sent, stopped_by)
}

/// Locks memory with mlock(2).
fn locks_of_memory(words: &[&str]) -> Tried {
    let mut memory = vec![1_u8; (number(words, 0) as usize) << 20];
    let length = u32::try_from(memory.len()).unwrap_or(u32::MAX);
    let locked =
        raw_call(libc::SYS_mlock, &mut [Argument::Bytes(&mut memory), Argument::Number(length)]);
    Tried::one(locked.map(|_| "locked"))
}
