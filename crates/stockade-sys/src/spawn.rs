//! Starting a program with nothing inherited but what is named.
#![expect(unsafe_code, reason = "std leaves ignored signals ignored and cannot make a session")]
// UNSAFETY: posix_spawn(3) and its two argument objects, which live in one frame and are destroyed.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::process::Pid;

/// A program to start.
#[derive(Clone, Copy, Debug)]
pub struct Spawn<'a> {
    /// The path that is executed; it is not looked for anywhere.
    pub path: &'a CStr,
    /// The arguments, its own name first.
    pub arguments: &'a [CString],
    /// `NAME=value` for each variable.
    pub environment: &'a [CString],
    /// Its standard input, output and error.
    pub streams: [BorrowedFd<'a>; 3],
}

/// Starts a program in a session of its own, with default signals and nothing blocked.
///
/// Returns once it has been executed, or with the reason why it could not be. It inherits the
/// caller's directory, umask and every descriptor that is not marked to close on exec.
pub fn spawn(program: Spawn<'_>) -> io::Result<Pid> {
    // A source among the targets 0, 1 and 2 could be overwritten before its turn.
    let mut moved: [Option<OwnedFd>; 3] = [None, None, None];
    for (slot, stream) in moved.iter_mut().zip(program.streams) {
        if stream.as_raw_fd() < 3 {
            *slot = Some(rustix::io::fcntl_dupfd_cloexec(stream, 3)?);
        }
    }
    let mut actions = Actions::new()?;
    for (target, (slot, stream)) in moved.iter().zip(program.streams).enumerate() {
        actions.duplicate(slot.as_ref().map_or(stream, AsFd::as_fd), target as libc::c_int)?;
    }
    let attributes = Attributes::new()?;
    let arguments = pointers(program.arguments);
    let environment = pointers(program.environment);
    let mut pid = 0;
    // SAFETY: every pointer is to something that lives until the call returns: the path, the two
    // null-terminated lists and the strings they point to are borrowed, the actions and attributes
    // are initialised. The child shares our memory only until it executes, and runs only libc code.
    let answer = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.path.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    checked(answer)?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::from(rustix::io::Errno::SRCH))
}

/// A list of pointers that ends with a null, as execve(2) takes it.
fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    let pointers = strings.iter().map(|string| string.as_ptr().cast_mut());
    pointers.chain([ptr::null_mut()]).collect()
}

/// The functions around posix_spawn(3) return their error number.
fn checked(answer: libc::c_int) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Actions> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the call initialises the object behind the pointer, which is ours.
        checked(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: the call above succeeded, so the object is initialised.
        Ok(Actions(unsafe { actions.assume_init() }))
    }

    fn duplicate(&mut self, source: BorrowedFd<'_>, target: libc::c_int) -> io::Result<()> {
        let actions = &raw mut self.0;
        // SAFETY: the object is initialised and only two numbers are stored in it.
        checked(unsafe {
            libc::posix_spawn_file_actions_adddup2(actions, source.as_raw_fd(), target)
        })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: the object was initialised by `new` and is not used again.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// A new session, an empty signal mask, and every signal at its default.
    fn new() -> io::Result<Attributes> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the call initialises the object behind the pointer, which is ours.
        checked(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: the call above succeeded, so the object is initialised.
        let mut attributes = Attributes(unsafe { attributes.assume_init() });
        let object = &raw mut attributes.0;
        let flags = libc::POSIX_SPAWN_SETSID as libc::c_int
            | libc::POSIX_SPAWN_SETSIGMASK as libc::c_int
            | libc::POSIX_SPAWN_SETSIGDEF as libc::c_int;
        let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset and sigfillset initialise the whole set, which is ours, before the
        // next call copies it into the initialised object.
        unsafe {
            checked(libc::posix_spawnattr_setflags(object, flags as libc::c_short))?;
            libc::sigemptyset(signals.as_mut_ptr());
            checked(libc::posix_spawnattr_setsigmask(object, signals.as_ptr()))?;
            libc::sigfillset(signals.as_mut_ptr());
            checked(libc::posix_spawnattr_setsigdefault(object, signals.as_ptr()))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the object was initialised by `new` and is not used again.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use rustix::process::{Signal, WaitOptions, waitpid};

    use super::*;

    /// What a shell started by us prints, with its standard error on the same pipe.
    fn printed(script: &str) -> String {
        let (reader, writer) = io::pipe().unwrap();
        let nothing = File::open("/dev/null").unwrap();
        let arguments = ["sh", "-c", script].map(|word| CString::new(word).unwrap());
        let child = spawn(Spawn {
            path: c"/bin/sh",
            arguments: &arguments,
            environment: &[c"ONLY=this".to_owned()],
            streams: [nothing.as_fd(), writer.as_fd(), writer.as_fd()],
        });
        drop(writer);
        let mut text = String::new();
        { reader }.read_to_string(&mut text).unwrap();
        waitpid(Some(child.unwrap()), WaitOptions::empty()).unwrap();
        text
    }

    #[test]
    fn program_has_the_streams_and_the_environment_it_was_given_and_no_more() {
        assert_eq!(
            printed("read line; echo \"$?\" \"$ONLY\" \"$HOME\"; echo error >&2"),
            "1 this \nerror\n"
        );
        assert_eq!(
            printed("for fd in 3 4 5 6 7 8 9; do if : >&$fd; then echo $fd; fi; done 2>&-"),
            ""
        );
    }

    #[test]
    fn program_leads_its_own_session_with_default_signals_and_an_empty_mask() {
        crate::ignore_signal(Signal::HUP).unwrap();
        let text = printed(
            "grep -E '^Sig(Blk|Ign)' /proc/self/status; ps -o sid= -p $$ 2>/dev/null | tr -d ' ' | grep -qx $$ && echo leader",
        );
        // The C library leaves its own two signals, 32 and 33, ignored in what it spawns.
        let text = text.replace("0000000180000000", "0000000000000000");
        let clear = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nleader\n";
        assert_eq!(text, clear);
    }

    #[test]
    fn program_that_cannot_be_executed_gives_the_kernels_reason() {
        let nothing = File::open("/dev/null").unwrap();
        let try_path = |path| {
            let streams = [nothing.as_fd(); 3];
            spawn(Spawn { path, arguments: &[], environment: &[], streams }).unwrap_err().kind()
        };
        assert_eq!(try_path(c"/nowhere"), io::ErrorKind::NotFound);
        assert_eq!(try_path(c"/dev/null"), io::ErrorKind::PermissionDenied);
    }
}
