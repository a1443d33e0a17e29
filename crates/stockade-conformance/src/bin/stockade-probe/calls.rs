//! System calls that open a part of the kernel, selected by name.

use std::io;

use stockade_conformance::Tried;
use stockade_sys::probe::{Argument, clone3_and_end, raw_call};

use crate::{Act, errno};

pub(crate) const ACTS: &[(&str, Act)] =
    &[("call", call), ("clone3", clone3), ("helpers", helpers), ("foreign", foreign)];

/// Makes each named call.
fn call(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for name in words {
        tried.add(name, made(name).map(|answer| answer.to_string()));
    }
    tried
}

/// A call whose arguments are all numbers, as most of these are.
fn plain(number: libc::c_long, words: &[u32]) -> io::Result<i64> {
    let mut arguments: Vec<Argument<'_>> = words.iter().map(|it| Argument::Number(*it)).collect();
    raw_call(number, &mut arguments)
}

/// A call whose first argument is a structure of `bytes` bytes, with some of them set.
fn with_structure(
    number: libc::c_long,
    before: &[u32],
    bytes: &mut [u8],
    after: &[u32],
) -> io::Result<i64> {
    let mut arguments: Vec<Argument<'_>> = before.iter().map(|it| Argument::Number(*it)).collect();
    arguments.push(Argument::Bytes(bytes));
    arguments.extend(after.iter().map(|it| Argument::Number(*it)));
    raw_call(number, &mut arguments)
}

fn made(name: &str) -> io::Result<i64> {
    let own = std::process::id();
    match name {
        "io_uring_setup" => with_structure(libc::SYS_io_uring_setup, &[4], &mut [0; 256], &[]),
        // BPF_MAP_CREATE of an array with one entry of four bytes.
        "bpf" => {
            let mut attributes = [0; 64];
            for (at, value) in [(0, 2), (4, 4), (8, 4), (12, 1)] {
                attributes[at] = value;
            }
            with_structure(libc::SYS_bpf, &[0], &mut attributes, &[64])
        }
        // A software counter of this process.
        "perf_event_open" => {
            let mut attributes = [0; 128];
            (attributes[0], attributes[4]) = (1, 112);
            let mut arguments = [
                Argument::Bytes(&mut attributes),
                Argument::Number(0),
                Argument::Minus(1),
                Argument::Minus(1),
                Argument::Number(0),
            ];
            raw_call(libc::SYS_perf_event_open, &mut arguments)
        }
        "userfaultfd" => plain(libc::SYS_userfaultfd, &[0]),
        // The id of this thread's session keyring.
        "keyctl" => raw_call(libc::SYS_keyctl, &mut [Argument::Number(0), Argument::Minus(3)]),
        "add_key" => raw_call(
            libc::SYS_add_key,
            &mut [
                Argument::Text(c"user"),
                Argument::Text(c"stockade-probe"),
                Argument::Bytes(&mut [1; 4]),
                Argument::Number(4),
                Argument::Minus(3),
            ],
        ),
        "request_key" => raw_call(
            libc::SYS_request_key,
            &mut [
                Argument::Text(c"user"),
                Argument::Text(c"stockade-canary"),
                Argument::Number(0),
                Argument::Number(0),
            ],
        ),
        "ptrace_traceme" => plain(libc::SYS_ptrace, &[0, 0, 0, 0]),
        "pidfd_getfd" => {
            let process = plain(libc::SYS_pidfd_open, &[own, 0])?;
            plain(libc::SYS_pidfd_getfd, &[process as u32, 0, 0])
        }
        "kcmp" => plain(libc::SYS_kcmp, &[own, own, 0, 0, 0]),
        "process_vm_readv" => read_own_memory(own),
        "unshare_user" => plain(libc::SYS_unshare, &[libc::CLONE_NEWUSER as u32]),
        "unshare_mounts" => plain(libc::SYS_unshare, &[libc::CLONE_NEWNS as u32]),
        "unshare_pid" => plain(libc::SYS_unshare, &[libc::CLONE_NEWPID as u32]),
        "unshare_network" => plain(libc::SYS_unshare, &[libc::CLONE_NEWNET as u32]),
        "unshare_ipc" => plain(libc::SYS_unshare, &[libc::CLONE_NEWIPC as u32]),
        "unshare_uts" => plain(libc::SYS_unshare, &[libc::CLONE_NEWUTS as u32]),
        "unshare_cgroup" => plain(libc::SYS_unshare, &[libc::CLONE_NEWCGROUP as u32]),
        "unshare_time" => plain(libc::SYS_unshare, &[0x80]),
        "setns_by_pid" => {
            let process = plain(libc::SYS_pidfd_open, &[own, 0])?;
            plain(libc::SYS_setns, &[process as u32, libc::CLONE_NEWUTS as u32])
        }
        "setns_by_file" => {
            let file = std::fs::File::open("/proc/self/ns/uts")?;
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file).unsigned_abs();
            plain(libc::SYS_setns, &[descriptor, 0])
        }
        "personality_no_randomisation" => plain(libc::SYS_personality, &[0x0004_0000]),
        "personality_executable_reads" => plain(libc::SYS_personality, &[0x0040_0000]),
        "name_to_handle_at" => raw_call(
            libc::SYS_name_to_handle_at,
            &mut [
                Argument::Minus(100),
                Argument::Text(c"/"),
                Argument::Bytes(&mut handle_of(128)),
                Argument::Bytes(&mut [0; 4]),
                Argument::Number(0),
            ],
        ),
        "fanotify_init" => plain(libc::SYS_fanotify_init, &[0, 0]),
        "vsock" => plain(libc::SYS_socket, &[libc::AF_VSOCK as u32, libc::SOCK_STREAM as u32, 0]),
        "memfd_secret" => plain(libc::SYS_memfd_secret, &[0]),
        "set_mempolicy" => plain(libc::SYS_set_mempolicy, &[0, 0, 0]),
        "move_pages" => plain(libc::SYS_move_pages, &[0, 0, 0, 0, 0, 0]),
        _ => Err(errno(libc::EDOM)),
    }
}

fn handle_of(bytes: u8) -> [u8; 136] {
    let mut handle = [0; 136];
    handle[0] = bytes;
    handle
}

/// Reads eight bytes of this process with process_vm_readv(2), which also reads other processes.
fn read_own_memory(own: u32) -> io::Result<i64> {
    let (mut to, from) = ([0_u8; 8], [7_u8; 8]);
    let vector = |place: *const u8| {
        let mut vector = [0; 16];
        vector[..8].copy_from_slice(&(place as u64).to_ne_bytes());
        vector[8] = 8;
        vector
    };
    let (mut local, mut remote) = (vector(to.as_mut_ptr()), vector(from.as_ptr()));
    raw_call(
        libc::SYS_process_vm_readv,
        &mut [
            Argument::Number(own),
            Argument::Bytes(&mut local),
            Argument::Number(1),
            Argument::Bytes(&mut remote),
            Argument::Number(1),
            Argument::Number(0),
        ],
    )
}

/// clone3(2), whose flags a seccomp filter cannot inspect.
fn clone3(_: &[&str]) -> Tried {
    Tried::one(clone3_and_end(libc::CLONE_NEWUSER as u64).map(|_| "cloned"))
}

/// Threads and children, which must still work when clone3 is refused.
fn helpers(_: &[&str]) -> Tried {
    let mut tried = Tried::default();
    let thread = std::thread::Builder::new().spawn(|| 7).map(|thread| thread.join());
    tried.add("thread", thread.map(|_| "ran"));
    let program = std::env::current_exe();
    let child = program.and_then(|program| std::process::Command::new(program).output());
    tried.add("child", child.map(|_| "ran"));
    tried
}

/// System calls in another calling convention than the machine's native one.
fn foreign(words: &[&str]) -> Tried {
    match words {
        #[cfg(target_arch = "x86_64")]
        ["int80"] => Tried::one(Ok(stockade_sys::probe::getpid_by_int80().to_string())),
        #[cfg(target_arch = "x86_64")]
        ["x32"] => Tried::one(match plain(0x4000_0000 | libc::SYS_getpid, &[]) {
            Ok(pid) => Ok(pid.to_string()),
            // A kernel without x32 returns ENOSYS; the probe only checks that the call returns.
            Err(error) => Ok(format!("answered {error}")),
        }),
        // Other architectures have one calling convention.
        _ => Tried::one(Err::<String, _>(errno(libc::ENOSYS))),
    }
}
