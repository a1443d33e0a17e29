//! Signals of this process and to others.
#![expect(unsafe_code, reason = "rustix wraps neither signal masks nor kill(2) for everybody")]
// UNSAFETY: signal sets are plain C values of ours, and no handler of ours is ever installed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::process::Signal;

/// Ends the delivery of `SIGCHLD` to the calling thread and returns a descriptor that is readable
/// while one is pending. It does not block and closes on exec. See signalfd(2).
///
/// In a process with more threads another one may still take the signal.
pub fn child_signals() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let pointer = set.as_mut_ptr();
    // SAFETY: sigemptyset initialises the whole set behind the pointer, which is ours; sigaddset
    // then changes one bit of it. Neither keeps the pointer.
    unsafe {
        libc::sigemptyset(pointer);
        libc::sigaddset(pointer, libc::SIGCHLD);
    }
    // SAFETY: the set was initialised above and is only read; no old mask is asked for.
    let answer = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, pointer, std::ptr::null_mut()) };
    if answer != 0 {
        return Err(io::Error::from_raw_os_error(answer));
    }
    // SAFETY: as above, the set is only read; with -1 the kernel makes a new descriptor.
    let descriptor = unsafe { libc::signalfd(-1, pointer, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Ignores a signal from now on.
pub fn ignore_signal(signal: Signal) -> io::Result<()> {
    // SAFETY: SIG_IGN installs no handler, so no code of ours can run at a bad moment.
    match unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Lets a signal do from now on what it does by default.
pub fn default_signal(signal: Signal) -> io::Result<()> {
    // SAFETY: SIG_DFL installs no handler, so no code of ours can run at a bad moment.
    match unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Signals every process the caller may signal, but for itself and the namespace's first process.
///
/// From the first process of a pid namespace these are all others in it, and from one whose signals
/// a Landlock domain or ids of its own hold back all others behind them: the caller sees to it that
/// it is one of these. Returns `ESRCH` when there is none. See kill(2).
pub fn signal_everybody(signal: Signal) -> io::Result<()> {
    // SAFETY: kill takes two integers by value and touches none of our memory.
    match unsafe { libc::kill(-1, signal.as_raw()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
