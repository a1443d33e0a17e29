//! Calls that only the host's administrator may make. Each has a form that changes nothing even if
//! it is allowed: a wrong magic number, a missing file, a value that is already set.

use std::io;

use stockade_conformance::Tried;
use stockade_sys::probe::{Argument, raw_call};

use crate::{Act, errno};

pub(crate) const ACTS: &[(&str, Act)] = &[("administer", administer)];

fn administer(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for name in words {
        tried.add(name, made(name).map(|answer| answer.to_string()));
    }
    tried
}

fn plain(number: libc::c_long, words: &[u32]) -> io::Result<i64> {
    let mut arguments: Vec<Argument<'_>> = words.iter().map(|it| Argument::Number(*it)).collect();
    raw_call(number, &mut arguments)
}

/// Inside, the guest.
fn parent() -> io::Result<u32> {
    Ok(plain(libc::SYS_getppid, &[])? as u32)
}

const MISSING: &std::ffi::CStr = c"/stockade-probe-is-not-there";

fn made(name: &str) -> io::Result<i64> {
    match name {
        // Both magic numbers are wrong.
        "reboot" => plain(libc::SYS_reboot, &[1, 2, 3, 0]),
        "kexec_load" => plain(libc::SYS_kexec_load, &[0, 0, 0, 0xffff]),
        "init_module" => raw_call(
            libc::SYS_init_module,
            &mut [Argument::Bytes(&mut [0; 8]), Argument::Number(8), Argument::Text(c"")],
        ),
        "delete_module" => raw_call(
            libc::SYS_delete_module,
            &mut [Argument::Text(c"stockade_probe"), Argument::Number(libc::O_NONBLOCK as u32)],
        ),
        "swapoff" => raw_call(libc::SYS_swapoff, &mut [Argument::Text(MISSING)]),
        "acct" => raw_call(libc::SYS_acct, &mut [Argument::Text(MISSING)]),
        "syslog" => plain(libc::SYS_syslog, &[10, 0, 0]),
        // Neither a time nor a time zone: the kernel checks the privilege and sets nothing.
        "settimeofday" => plain(libc::SYS_settimeofday, &[0, 0]),
        // An invalid time.
        "clock_settime" => raw_call(
            libc::SYS_clock_settime,
            &mut [Argument::Number(0), Argument::Bytes(&mut [0xff; 16])],
        ),
        "sethostname" => {
            let mut name = std::fs::read("/proc/sys/kernel/hostname")?;
            name.retain(|byte| *byte != b'\n');
            let length = u32::try_from(name.len()).map_err(io::Error::other)?;
            raw_call(
                libc::SYS_sethostname,
                &mut [Argument::Bytes(&mut name), Argument::Number(length)],
            )
        }
        #[cfg(target_arch = "x86_64")]
        "iopl" => plain(libc::SYS_iopl, &[3]),
        #[cfg(target_arch = "x86_64")]
        "ioperm" => plain(libc::SYS_ioperm, &[0x80, 1, 1]),
        #[cfg(target_arch = "x86_64")]
        "modify_ldt" => raw_call(
            libc::SYS_modify_ldt,
            &mut [Argument::Number(0), Argument::Bytes(&mut [0; 64]), Argument::Number(64)],
        ),
        // Other architectures have neither I/O ports nor descriptor tables.
        #[cfg(not(target_arch = "x86_64"))]
        "iopl" | "ioperm" | "modify_ldt" => Err(errno(libc::ENOSYS)),
        "sched_fifo" => raw_call(
            libc::SYS_sched_setscheduler,
            &mut [Argument::Number(0), Argument::Number(1), Argument::Bytes(&mut [1, 0, 0, 0])],
        ),
        "nice" => raw_call(
            libc::SYS_setpriority,
            &mut [Argument::Number(0), Argument::Number(0), Argument::Minus(20)],
        ),
        // Sets the parent's scheduling to its current values, so that nothing changes on the host.
        "schedule_parent" => {
            let (parent, mut priority) = (parent()?, [0; 4]);
            let policy_now = plain(libc::SYS_sched_getscheduler, &[parent])? as u32;
            raw_call(
                libc::SYS_sched_setscheduler,
                &mut [
                    Argument::Number(parent),
                    Argument::Number(policy_now),
                    Argument::Bytes(&mut priority),
                ],
            )
        }
        "pin_parent" => {
            let (parent, mut set) = (parent()?, [0; 128]);
            let mut arguments =
                [Argument::Number(parent), Argument::Number(128), Argument::Bytes(&mut set)];
            raw_call(libc::SYS_sched_getaffinity, &mut arguments)?;
            raw_call(libc::SYS_sched_setaffinity, &mut arguments)
        }
        "nice_parent" => {
            let parent = parent()?;
            // The kernel answers 20 less the value.
            let now = 20 - plain(libc::SYS_getpriority, &[0, parent])?;
            let value = match u32::try_from(now) {
                Ok(value) => Argument::Number(value),
                Err(_) => Argument::Minus(now.unsigned_abs() as u32),
            };
            let mut arguments = [Argument::Number(0), Argument::Number(parent), value];
            raw_call(libc::SYS_setpriority, &mut arguments)
        }
        "disk_priority_of_parent" => {
            let parent = parent()?;
            let now = plain(libc::SYS_ioprio_get, &[1, parent])? as u32;
            plain(libc::SYS_ioprio_set, &[1, parent, now])
        }
        _ => Err(errno(libc::EDOM)),
    }
}
