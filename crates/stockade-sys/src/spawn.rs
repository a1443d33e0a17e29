//! Starting a program that inherits only what the caller names.
#![expect(unsafe_code, reason = "no safe API starts a program in a new session")]
// UNSAFETY: one clone(2) whose child shares our memory until it executes, as in posix_spawn(3), and
// runs one function that only makes system calls.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::seccomp::{Instruction, to_kernel};

/// A program to start.
#[derive(Clone, Copy, Debug)]
pub struct Spawn<'a> {
    /// The path of the executable; `PATH` is not searched.
    pub path: &'a CStr,
    /// The arguments; the first is the name that the program sees as its own.
    pub arguments: &'a [CString],
    /// The environment, as `NAME=value`.
    pub environment: &'a [CString],
    /// Its standard input, output and error.
    pub streams: [BorrowedFd<'a>; 3],
    /// Whether standard input becomes the controlling terminal.
    pub controls: Controls,
    /// The program's hard limit of open descriptors; `None` keeps the caller's limit.
    pub open_files: Option<u64>,
    /// Files of cgroups that the child enters first, by writing `0` to each: the kernel checks the
    /// rights of the process that opened them.
    pub cgroups: &'a [BorrowedFd<'a>],
    /// Filters of system calls that it alone runs under, installed last before execve(2). With any,
    /// execve(2) grants it no rights either.
    pub filters: &'a [Vec<Instruction>],
}

/// What the standard input of a program is to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controls {
    /// An ordinary file or pipe.
    Nothing,
    /// A terminal, which becomes the controlling terminal of the program's new session.
    Terminal,
}

/// The size of the child's stack until it executes.
const STACK_BYTES: usize = 16 << 10;

/// Starts a program in a new session, with default signal actions and an empty signal mask.
///
/// Returns once execve(2) has succeeded, or with the error why it failed. The program inherits the
/// caller's working directory, umask and every descriptor without FD_CLOEXEC.
pub fn spawn(program: Spawn<'_>) -> io::Result<Pid> {
    // dup2 onto 0, 1 or 2 could overwrite a source that is itself 0, 1 or 2 before its turn.
    let mut moved: [Option<OwnedFd>; 3] = [None, None, None];
    let mut streams = [0; 3];
    for (slot, (number, stream)) in moved.iter_mut().zip(streams.iter_mut().zip(program.streams)) {
        if stream.as_raw_fd() < 3 {
            *slot = Some(rustix::io::fcntl_dupfd_cloexec(stream, 3)?);
        }
        *number = slot.as_ref().map_or(stream, AsFd::as_fd).as_raw_fd();
    }
    let cgroups: Vec<_> = program.cgroups.iter().map(AsRawFd::as_raw_fd).collect();
    let filters = program.filters.iter().map(|filter| to_kernel(filter));
    let filters = filters.collect::<io::Result<Vec<_>>>()?;
    let arguments = pointers(program.arguments);
    let environment = pointers(program.environment);
    let mut start = Start {
        path: program.path.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        streams,
        controls: program.controls,
        open_files: program.open_files,
        cgroups: cgroups.as_ptr(),
        cgroup_count: cgroups.len(),
        filters: filters.as_ptr(),
        filter_count: filters.len(),
        failed: 0,
    };
    let mut stack: Vec<MaybeUninit<u8>> = Vec::with_capacity(STACK_BYTES);
    // SAFETY: the offset is within the allocation; rounding down by less than 16 stays in it.
    let top = unsafe { stack.as_mut_ptr().add(STACK_BYTES) };
    let top = top.wrapping_sub(top.addr() % 16);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // A signal handler of ours that ran in the child would change our memory.
    let before = block_all_signals()?;
    // SAFETY: this thread waits until the child has executed or ended, so `start`, the strings and
    // lists behind it and the stack outlive the child's use of them, and no other code uses the
    // stack.
    let child = unsafe { libc::clone(in_child, top.cast(), flags, (&raw mut start).cast()) };
    let refused = io::Error::last_os_error();
    restore_signals(&before);
    let Some(child) = Pid::from_raw(child.max(0)) else { return Err(refused) };
    // SAFETY: the child no longer uses `start`; the read is volatile because the child may have
    // written to it.
    match unsafe { ptr::read_volatile(&raw const start.failed) } {
        0 => Ok(child),
        errno => {
            // The child has ended; reap it here, because the caller does not know its process id.
            let _ = waitpid(Some(child), WaitOptions::empty());
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// A null-terminated list of pointers, as execve(2) takes it.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    let pointers = strings.iter().map(|string| string.as_ptr());
    pointers.chain([ptr::null()]).collect()
}

/// The child's instructions, and the field for its errno.
struct Start {
    path: *const libc::c_char,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
    streams: [libc::c_int; 3],
    controls: Controls,
    open_files: Option<u64>,
    cgroups: *const libc::c_int,
    cgroup_count: usize,
    filters: *const libc::sock_fprog,
    filter_count: usize,
    failed: libc::c_int,
}

/// The child's first function. It shares our memory and may interrupt another thread at any point,
/// so it allocates nothing and takes no lock.
extern "C" fn in_child(start: *mut libc::c_void) -> libc::c_int {
    let start = start.cast::<Start>();
    // SAFETY: the pointer is to the `Start` of the calling thread, which waits and does not touch
    // it. The calls take numbers and pointers that are valid as long as it is, and keep none of
    // them.
    unsafe {
        if !enter_cgroups(&*start) || !prepare(&*start) || !install_filters(&*start) {
            (*start).failed = errno();
            return 127;
        }
        libc::execve((*start).path, (*start).arguments, (*start).environment);
        (*start).failed = errno();
    }
    127
}

fn errno() -> libc::c_int {
    // Never report errno 0: the parent reads 0 as success.
    io::Error::last_os_error().raw_os_error().filter(|errno| *errno != 0).unwrap_or(libc::EIO)
}

/// Sets up the child for the program. On `false` the reason is in `errno`.
fn prepare(start: &Start) -> bool {
    /// The highest signal number, signal(7).
    const LAST_SIGNAL: libc::c_int = 64;
    /// At least as large as the kernel's `struct sigaction` on any architecture.
    static DEFAULT: [u64; 8] = [0; 8];
    const NULL: *const u64 = ptr::null();
    /// The size of the kernel's signal set.
    const SET_BYTES: usize = 8;
    // SAFETY: every call takes plain numbers or a pointer to a value of this frame, which it fills
    // or reads before it returns. No handler is installed.
    unsafe {
        for signal in 1..=LAST_SIGNAL {
            // An all-zero kernel structure is the default action. A raw system call, because the C
            // library reserves two signals for itself. SIGKILL and SIGSTOP cannot be changed and
            // need not be.
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const DEFAULT, NULL, SET_BYTES);
        }
        if libc::setsid() < 0 {
            return false;
        }
        for (target, stream) in (0..).zip(start.streams) {
            if libc::dup2(stream, target) < 0 {
                return false;
            }
        }
        // After setsid(2): only the leader of a session without a terminal can take one.
        if start.controls == Controls::Terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) != 0 {
            return false;
        }
        if !start.open_files.is_none_or(limit_open_files) {
            return false;
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()) == 0
    }
}

/// Enters the cgroups, first, so that they count everything that the child does.
fn enter_cgroups(start: &Start) -> bool {
    for index in 0..start.cgroup_count {
        // SAFETY: `cgroups` points to `cgroup_count` descriptors of the waiting caller, which keeps
        // them open; the kernel reads one byte of a constant.
        let written = unsafe {
            libc::write(*start.cgroups.add(index), c"0".as_ptr().cast::<libc::c_void>(), 1)
        };
        if written != 1 {
            return false;
        }
    }
    true
}

/// Installs the filters. Nothing but execve(2) and the end follow, which is all a filter must allow.
fn install_filters(start: &Start) -> bool {
    const MODE: libc::c_uint = libc::SECCOMP_SET_MODE_FILTER;
    const NO_FLAGS: libc::c_uint = 0;
    if start.filter_count > 0 {
        // SAFETY: the call takes plain numbers.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return false;
        }
    }
    for index in 0..start.filter_count {
        // SAFETY: `filters` points to `filter_count` programs of the waiting caller, each with its
        // instructions behind it; the kernel copies them and writes nothing.
        let answer =
            unsafe { libc::syscall(libc::SYS_seccomp, MODE, NO_FLAGS, start.filters.add(index)) };
        if answer != 0 {
            return false;
        }
    }
    true
}

/// Lowers both limits and reads them back: a seccomp filter may return success without setting
/// them.
fn limit_open_files(most: u64) -> bool {
    let wanted = libc::rlimit { rlim_cur: most, rlim_max: most };
    let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads one structure and fills the other; both live in this frame.
    let answered = unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) == 0
            && libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut found) == 0
    };
    answered && (found.rlim_cur, found.rlim_max) == (most, most)
}

/// Blocks every signal of this thread and returns the old mask.
fn block_all_signals() -> io::Result<libc::sigset_t> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: sigfillset initialises the whole set before it is read, and the call fills the other
    // one if it succeeds.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: the set is initialised and only read. The call fails only for an unknown `how`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use rustix::process::Signal;

    use super::*;

    /// Runs a shell script with `spawn`; returns its standard output and standard error.
    fn printed(script: &str) -> String {
        printed_under(script, None)
    }

    fn printed_under(script: &str, open_files: Option<u64>) -> String {
        let (reader, writer) = io::pipe().unwrap();
        let nothing = File::open("/dev/null").unwrap();
        let arguments = ["sh", "-c", script].map(|word| CString::new(word).unwrap());
        let child = spawn(Spawn {
            path: c"/bin/sh",
            arguments: &arguments,
            environment: &[c"ONLY=this".to_owned()],
            streams: [nothing.as_fd(), writer.as_fd(), writer.as_fd()],
            controls: Controls::Nothing,
            open_files,
            cgroups: &[],
            filters: &[],
        });
        drop(writer);
        let mut text = String::new();
        { reader }.read_to_string(&mut text).unwrap();
        waitpid(Some(child.unwrap()), WaitOptions::empty()).unwrap();
        text
    }

    #[test]
    fn program_gets_only_the_given_streams_and_environment() {
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
        let clear = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nleader\n";
        assert_eq!(text, clear);
    }

    #[test]
    fn failed_exec_returns_the_kernels_error() {
        let nothing = File::open("/dev/null").unwrap();
        let try_path = |path| {
            let streams = [nothing.as_fd(); 3];
            let program = Spawn {
                path,
                arguments: &[],
                environment: &[],
                streams,
                controls: Controls::Nothing,
                open_files: None,
                cgroups: &[],
                filters: &[],
            };
            spawn(program).unwrap_err().kind()
        };
        assert_eq!(try_path(c"/nowhere"), io::ErrorKind::NotFound);
        assert_eq!(try_path(c"/dev/null"), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn program_cannot_raise_its_limit_and_the_caller_keeps_its_own() {
        let own = || rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let before = own();
        let script = "ulimit -Sn; ulimit -Hn; ulimit -n 100 2>/dev/null || echo refused";
        assert_eq!(printed_under(script, Some(40)), "40\n40\nrefused\n");
        let unlimited = printed("ulimit -Hn");
        assert_eq!(
            unlimited.trim(),
            before.maximum.map_or("unlimited".into(), |it| it.to_string())
        );
        assert_eq!((own().current, own().maximum), (before.current, before.maximum));
    }

    #[test]
    fn limit_above_the_callers_is_refused() {
        let nothing = File::open("/dev/null").unwrap();
        let (arguments, environment) = (&[c"true".to_owned()], &[]);
        let path = c"/bin/true";
        let streams = [nothing.as_fd(); 3];
        let open_files = Some(u64::MAX - 1);
        let (controls, cgroups, filters) = (Controls::Nothing, &[], &[]);
        let program =
            Spawn { path, arguments, environment, streams, controls, open_files, cgroups, filters };
        assert!(spawn(program).is_err());
    }

    #[test]
    fn filter_is_over_the_program_and_not_over_its_starter() {
        let instruction = |code, jt, jf, k| Instruction { code, jt, jf, k };
        let refuse = |call: libc::c_long| {
            vec![
                instruction(0x20, 0, 0, 0),
                instruction(0x15, 0, 1, u32::try_from(call).unwrap()),
                instruction(0x06, 0, 0, 0x0005_0000 | libc::ENOTNAM.unsigned_abs()),
                instruction(0x06, 0, 0, 0x7fff_0000),
            ]
        };
        let nothing = File::open("/dev/null").unwrap();
        let arguments = ["sh", "-c", "umask 7"].map(|word| CString::new(word).unwrap());
        let start = |filters: &[Vec<Instruction>]| {
            let streams = [nothing.as_fd(); 3];
            let (path, environment, open_files) = (c"/bin/sh", &[], None);
            let (controls, arguments, cgroups) = (Controls::Nothing, &arguments[..], &[]);
            let program = Spawn {
                path,
                arguments,
                environment,
                streams,
                controls,
                open_files,
                cgroups,
                filters,
            };
            let child = spawn(program)?;
            let status = waitpid(Some(child), WaitOptions::empty())?;
            io::Result::Ok(status.and_then(|(_, status)| status.exit_status()))
        };
        assert_eq!(start(&[]).unwrap(), Some(0));
        let error = start(&[refuse(libc::SYS_execve)]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTNAM));
        assert_ne!(start(&[refuse(libc::SYS_getrandom), refuse(libc::SYS_mmap)]).unwrap(), Some(0));
        assert_eq!(start(&[]).unwrap(), Some(0));
    }
}
