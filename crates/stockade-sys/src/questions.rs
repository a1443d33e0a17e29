//! System calls that wait until another process has looked at them. See seccomp_unotify(2).
//!
//! ```text
//! thread inside ── call ──▶ filter answers "ask" ──▶ waits ─────────────────────▶ goes on
//!                                       └── question ──▶ whoever holds the listener ──┘
//! ```
#![expect(unsafe_code, reason = "rustix wraps neither the listener nor its requests")]
// UNSAFETY: the requests of a listener are ioctls on structures of fixed size, asserted below.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::ioctl::{Setter, Updater, ioctl, opcode};

/// One system call that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Names the question when it is answered.
    pub id: u64,
    /// The thread that made the call, as the receiving process numbers it; 0 where it cannot.
    pub thread: u32,
    /// The number of the call.
    pub call: i32,
    /// What the call was given: numbers, and addresses in the memory of that thread.
    pub arguments: [u64; 6],
}

const RECEIVE: u32 = opcode::read_write::<libc::seccomp_notif>(b'!', 0);
const ANSWER: u32 = opcode::read_write::<libc::seccomp_notif_resp>(b'!', 1);
const IS_WAITING: u32 = opcode::write::<u64>(b'!', 2);

// The kernel knows its requests by these numbers, which hold the sizes of the structures.
const _: () = assert!(RECEIVE == 0xc050_2100 && ANSWER == 0xc018_2101 && IS_WAITING == 0x4008_2102);

/// Takes the next question. Waits for one; poll(2) says when there is one, and hangs up when nobody
/// is left who could ask.
///
/// `ENOENT` says that the thread was gone before its question was taken.
pub fn next_question(listener: BorrowedFd<'_>) -> io::Result<Question> {
    let data = libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
    // All zero, as the kernel demands of what it fills.
    let mut notice = libc::seccomp_notif { id: 0, pid: 0, flags: 0, data };
    // SAFETY: the request is the kernel's for a structure of this size, as asserted above; the
    // kernel fills it with integers, of which every value is valid, and keeps no address of it.
    unsafe { ioctl(listener, Updater::<RECEIVE, _>::new(&mut notice)) }?;
    let libc::seccomp_notif { id, pid: thread, data, .. } = notice;
    Ok(Question { id, thread, call: data.nr, arguments: data.args })
}

/// Whether the thread still waits for the answer. Until that was seen, what was read of the thread
/// may have been another's, to whom its number was given.
pub fn is_waiting(listener: BorrowedFd<'_>, question: &Question) -> bool {
    // SAFETY: the request is the kernel's for one 64-bit number, which it only reads.
    unsafe { ioctl(listener, Setter::<IS_WAITING, u64>::new(question.id)) }.is_ok()
}

/// Lets the call go on as if nobody had asked; every other rule of the kernel still judges it.
///
/// `ENOENT` says that the thread is gone, or was interrupted and will ask again.
pub fn let_go_on(listener: BorrowedFd<'_>, question: &Question) -> io::Result<()> {
    // The kernel takes the flag as 32 bits, and libc has it as a long.
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut answer = libc::seccomp_notif_resp { id: question.id, val: 0, error: 0, flags };
    // SAFETY: the request is the kernel's for a structure of this size, as asserted above; the
    // kernel reads it and keeps no address of it.
    unsafe { ioctl(listener, Updater::<ANSWER, _>::new(&mut answer)) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;
    use crate::{Instruction, install_asking_filter, set_no_new_privs};

    const RETURN: u16 = 0x06;

    #[test]
    fn call_waits_for_its_answer_goes_on_and_the_end_of_the_last_thread_hangs_up() {
        let ask_on_fsync = [
            Instruction { code: 0x20, jt: 0, jf: 0, k: 0 },
            Instruction { code: 0x15, jt: 0, jf: 1, k: libc::SYS_fsync as u32 },
            Instruction { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_USER_NOTIF },
            Instruction { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
        ];
        let (sender, receiver) = std::sync::mpsc::channel();
        let asking = std::thread::spawn(move || {
            let file = crate::sealed_file("asked", b"").unwrap();
            set_no_new_privs().unwrap();
            sender.send(install_asking_filter(&ask_on_fsync).unwrap()).unwrap();
            rustix::fs::fsync(&file)
        });
        let listener = receiver.recv().unwrap();
        let question = next_question(listener.as_fd()).unwrap();
        assert_eq!(i64::from(question.call), libc::SYS_fsync);
        assert!(is_waiting(listener.as_fd(), &question));
        let_go_on(listener.as_fd(), &question).unwrap();
        assert!(!is_waiting(listener.as_fd(), &question));
        assert_eq!(asking.join().unwrap(), Ok(()));
        let mut watched = [PollFd::new(&listener, PollFlags::IN)];
        poll(&mut watched, None).unwrap();
        assert!(watched[0].revents().contains(PollFlags::HUP));
    }
}
