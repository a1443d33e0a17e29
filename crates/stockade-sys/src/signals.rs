//! Receiving, ignoring and sending signals.
#![expect(unsafe_code, reason = "rustix wraps neither signal masks nor kill(-1)")]
// UNSAFETY: signal sets are plain C values of ours, and this module never installs a handler.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::process::Signal;

/// Blocks `SIGCHLD` for the calling thread and returns a descriptor that is readable while one is
/// pending. The descriptor is non-blocking and closes on exec. See signalfd(2).
///
/// In a process with several threads another thread may still take the signal.
pub fn child_signals() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let pointer = set.as_mut_ptr();
    // SAFETY: sigemptyset initialises the whole set behind the pointer, which is ours; sigaddset
    // then changes one bit of it. Neither keeps the pointer.
    unsafe {
        libc::sigemptyset(pointer);
        libc::sigaddset(pointer, libc::SIGCHLD);
    }
    // SAFETY: the set was initialised above and is only read; the old mask is not requested.
    let answer = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, pointer, std::ptr::null_mut()) };
    if answer != 0 {
        return Err(io::Error::from_raw_os_error(answer));
    }
    // SAFETY: as above, the set is only read; with -1 the kernel creates a new descriptor.
    let descriptor = unsafe { libc::signalfd(-1, pointer, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor and no other code knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Ignores a signal from now on.
pub fn ignore_signal(signal: Signal) -> io::Result<()> {
    // SAFETY: SIG_IGN installs no handler, so none of our code runs at signal time.
    match unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Restores the default action of a signal.
pub fn default_signal(signal: Signal) -> io::Result<()> {
    // SAFETY: SIG_DFL installs no handler, so none of our code runs at signal time.
    match unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sends a signal to every process that the caller may signal, except itself and the first process
/// of its PID namespace.
///
/// The caller must be confined so that this reaches only its sandbox: as the first process of a PID
/// namespace, under a Landlock domain that scopes signals, or with user ids that no other process
/// has. Fails with `ESRCH` if there is no such process. See kill(2).
pub fn signal_all_processes(signal: Signal) -> io::Result<()> {
    // SAFETY: kill takes two integers by value and touches none of our memory.
    match unsafe { libc::kill(-1, signal.as_raw()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
