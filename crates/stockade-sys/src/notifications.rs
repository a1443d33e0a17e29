//! Seccomp user notification: system calls that wait until another process has inspected them. See
//! seccomp_unotify(2).
//!
//! ```text
//! thread inside ── call ──▶ SECCOMP_RET_USER_NOTIF ──▶ waits ──────────────▶ continues
//!                                      └── notification ──▶ listener's holder ──┘
//! ```
#![expect(unsafe_code, reason = "rustix wraps neither the listener nor its ioctls")]
// UNSAFETY: the listener's ioctls take structures of fixed size, asserted below.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::ioctl::{Setter, Updater, ioctl, opcode};

/// One system call that waits for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Identifies the notification in the response.
    pub id: u64,
    /// The thread that made the call, as a thread id in the receiving process's PID namespace; 0 if
    /// it has none there.
    pub thread: u32,
    /// The number of the call.
    pub call: i32,
    /// The call's arguments: numbers, and addresses in the memory of that thread.
    pub arguments: [u64; 6],
}

const RECEIVE: u32 = opcode::read_write::<libc::seccomp_notif>(b'!', 0);
const RESPOND: u32 = opcode::read_write::<libc::seccomp_notif_resp>(b'!', 1);
const IS_PENDING: u32 = opcode::write::<u64>(b'!', 2);

// The request numbers of linux/seccomp.h, which encode the sizes of the structures.
const _: () =
    assert!(RECEIVE == 0xc050_2100 && RESPOND == 0xc018_2101 && IS_PENDING == 0x4008_2102);

/// Receives the next notification; blocks until there is one. poll(2) reports when one is ready,
/// and hangs up once no process is left under the filter.
///
/// Fails with `ENOENT` if the thread ended before its notification was received.
pub fn next_notification(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    let data = libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
    // All zero, as the kernel requires.
    let mut notice = libc::seccomp_notif { id: 0, pid: 0, flags: 0, data };
    // SAFETY: the request number is for a structure of this size, as asserted above; the kernel
    // fills it with integers, of which every value is valid, and keeps no address of it.
    unsafe { ioctl(listener, Updater::<RECEIVE, _>::new(&mut notice)) }?;
    let libc::seccomp_notif { id, pid: thread, data, .. } = notice;
    Ok(Notification { id, thread, call: data.nr, arguments: data.args })
}

/// Whether the thread still waits for the response. Check this after reading the thread's state:
/// until then the thread id may have been reused.
pub fn is_pending(listener: BorrowedFd<'_>, notification: &Notification) -> bool {
    // SAFETY: the request number is for one 64-bit number, which the kernel only reads.
    unsafe { ioctl(listener, Setter::<IS_PENDING, u64>::new(notification.id)) }.is_ok()
}

/// Continues the call as if no filter had stopped it; all other kernel checks still apply.
///
/// Fails with `ENOENT` if the thread has ended, or was interrupted and will make the call again.
pub fn continue_call(listener: BorrowedFd<'_>, notification: &Notification) -> io::Result<()> {
    // The kernel takes the flag as 32 bits; libc declares it as a long.
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut response = libc::seccomp_notif_resp { id: notification.id, val: 0, error: 0, flags };
    // SAFETY: the request number is for a structure of this size, as asserted above; the kernel
    // reads it and keeps no address of it.
    unsafe { ioctl(listener, Updater::<RESPOND, _>::new(&mut response)) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;
    use crate::{Instruction, install_notifying_filter, set_no_new_privs};

    const RETURN: u16 = 0x06;

    #[test]
    fn call_waits_until_it_is_continued_and_the_last_threads_end_hangs_up() {
        let notify_on_fsync = [
            Instruction { code: 0x20, jt: 0, jf: 0, k: 0 },
            Instruction { code: 0x15, jt: 0, jf: 1, k: libc::SYS_fsync as u32 },
            Instruction { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_USER_NOTIF },
            Instruction { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
        ];
        let (sender, receiver) = std::sync::mpsc::channel();
        let caller = std::thread::spawn(move || {
            let file = crate::sealed_file("synced", b"").unwrap();
            set_no_new_privs().unwrap();
            sender.send(install_notifying_filter(&notify_on_fsync).unwrap()).unwrap();
            rustix::fs::fsync(&file)
        });
        let listener = receiver.recv().unwrap();
        let notification = next_notification(listener.as_fd()).unwrap();
        assert_eq!(i64::from(notification.call), libc::SYS_fsync);
        assert!(is_pending(listener.as_fd(), &notification));
        continue_call(listener.as_fd(), &notification).unwrap();
        assert!(!is_pending(listener.as_fd(), &notification));
        assert_eq!(caller.join().unwrap(), Ok(()));
        let mut watched = [PollFd::new(&listener, PollFlags::IN)];
        poll(&mut watched, None).unwrap();
        assert!(watched[0].revents().contains(PollFlags::HUP));
    }
}
