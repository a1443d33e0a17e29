//! Tests the filter in a real kernel: what works under it, and what it denies.
//!
//! A filter applies to a thread and all its later children. So each test installs it in a new
//! thread and starts programs from there.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::{env, fs, thread};

use stockade_seccomp::{
    Action, Architecture, CustomProfile, ExecutableMemfd, Filters, Host, Options, Profile, Program,
    Rule, Syscall, Tracing, built_in, compile, needed_to_start, tighten,
};
use stockade_sys::{Controls, Spawn, install_filter, set_no_new_privs, spawn};

/// A description, the name or number of the call, its arguments, and the result under the filter.
type Denied = (&'static str, &'static str, &'static str, i64);

fn programs(options: Options) -> Vec<Program> {
    Filters::built_in(built_in(options)).compile(Architecture::native().unwrap()).unwrap()
}

/// Runs a command from a thread with these filters.
fn run(filters: Vec<Program>, mut command: Command) -> Output {
    let filtered = thread::spawn(move || {
        set_no_new_privs().unwrap();
        for filter in &filters {
            install_filter(filter.instructions()).unwrap();
        }
        command.output().unwrap()
    });
    filtered.join().unwrap()
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

fn assert_works(options: Options, words: &[&str]) {
    let output = run(programs(options), command(words));
    assert!(output.status.success(), "{words:?} under {options:?}: {output:?}");
}

/// Makes the calls one after another in Python and returns their results, negative for errors.
fn results(filters: Vec<Program>, calls: &[Denied]) -> Vec<i64> {
    let mut script = String::from(
        "import ctypes\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def call(*words):\n\
         \x20   wide = [ctypes.c_long(w) if isinstance(w, int) else w for w in words]\n\
         \x20   answer = libc.syscall(*wide)\n\
         \x20   print(-ctypes.get_errno() if answer == -1 else answer, flush=True)\n",
    );
    let native = Architecture::native().unwrap();
    for (_, name, arguments, _) in calls {
        let number = match Syscall::named(name) {
            Some(syscall) => syscall.number(native).unwrap(),
            None => name.parse().unwrap(),
        };
        script += &format!("call({number}, {arguments})\n");
    }
    let output = run(filters, command(&["python3", "-I", "-S", "-c", &script]));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Checks that every call has another result without the filter, and the expected one with it.
fn assert_stops(options: Options, calls: &[Denied]) {
    let free = results(Vec::new(), calls);
    let filtered = results(programs(options), calls);
    for (((what, _, _, expected), free), filtered) in calls.iter().zip(free).zip(filtered) {
        assert_ne!(free, *expected, "{what} answers this without a filter too");
        assert_eq!(filtered, *expected, "{what}");
    }
}

#[test]
fn ordinary_programs_work() {
    let script = "
import os, socket, subprocess, tempfile, threading, multiprocessing, select, mmap, signal, time
numbers = []
threads = [threading.Thread(target=numbers.append, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sorted(numbers) == list(range(8))
assert subprocess.run(['sh', '-c', 'echo $((6*7))'], capture_output=True).stdout == b'42\\n'
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
client.sendall(b'x'); assert peer.recv(1) == b'x'
socket.getaddrinfo('localhost', 80); socket.if_nameindex()
a, b = socket.socketpair(); a.send(b'y'); assert b.recv(1) == b'y'
poll = select.epoll(); poll.register(b.fileno())
with tempfile.TemporaryDirectory() as place:
    os.symlink('x', place + '/link'); os.mkfifo(place + '/fifo'); os.rename(place + '/link', place + '/l')
mmap.mmap(-1, 4096); os.sched_getaffinity(0); os.getrandom(8); os.memfd_create('m')
signal.setitimer(signal.ITIMER_REAL, 5); time.sleep(0.001)
with multiprocessing.get_context('fork').Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
";
    for tracing in [Tracing::Refused, Tracing::Allowed] {
        let options = Options { tracing, ..Options::default() };
        assert_works(options, &["/bin/true"]);
        assert_works(
            options,
            &["bash", "-c", "set -e; x=$(echo a | cat); [ $x = a ]; (exit 0) & wait"],
        );
        assert_works(options, &["python3", "-I", "-c", script]);
    }
    assert_works(Options::default(), &["sh", "-c", "echo 'int main(){}' | cc -x c -o /dev/null -"]);
    for optional in
        [&["node", "-e", "setTimeout(()=>{},1)"][..], &["java", "-version"], &["git", "version"]]
    {
        match command(optional).output() {
            Ok(output) if output.status.success() => assert_works(Options::default(), optional),
            _ => writeln!(std::io::stderr(), "not tried, it does not run here: {optional:?}")
                .unwrap(),
        }
    }
}

#[test]
fn denied_calls_return_the_result_of_the_profile() {
    assert_stops(
        Options::default(),
        &[
            ("io_uring_setup", "io_uring_setup", "1, None", -38),
            ("clone3", "clone3", "None, 0", -38),
            ("keyctl", "keyctl", "0xffff", -38),
            ("fsopen", "fsopen", "None, 0xff", -38),
            ("clone with a user namespace", "clone", "0x10000200", -1),
            ("unshare of a user namespace", "unshare", "0x10000001", -1),
            ("setns", "setns", "-1, 0", -1),
            ("mount", "mount", "None, None, None, 0, None", -1),
            ("ptrace", "ptrace", "1, 0x7ffffff0, 0, 0", -1),
            ("process_vm_readv", "process_vm_readv", "0x7ffffff0, None, 0, None, 0, 9", -1),
            ("pidfd_getfd", "pidfd_getfd", "-1, 0, 0", -1),
            ("personality", "personality", "0x0040000", -1),
            ("perf_event_open", "perf_event_open", "None, 0, 0, 0, 0", -1),
            ("vmsplice", "vmsplice", "-1, None, 0, 0", -1),
            ("name_to_handle_at", "name_to_handle_at", "-1, None, None, None, 0xffff", -1),
            ("a number between the known ones", "400", "", -1),
            ("a packet socket", "socket", "17, 3, 0", -97),
            ("another netlink protocol", "socket", "16, 3, 9", -97),
            ("a raw socket", "socket", "2, 3, 0", -1),
            ("a stream of many paths", "socket", "2, 1, 262", -93),
            ("a pair of other sockets", "socketpair", "2, 1, 0, 0", -97),
            ("TIOCSTI", "ioctl", "-1, 0x5412, 0", -1),
            ("TIOCSTI with the high half filled", "ioctl", "-1, 0x7fffffff00005412, 0", -1),
            ("TIOCLINUX", "ioctl", "-1, 0x541c, 0", -1),
        ],
    );
}

#[test]
fn vsock_and_a_plain_user_namespace_are_denied_where_the_host_has_them() {
    for call in
        [("vsock", "socket", "40, 1, 0", -97), ("a user namespace", "unshare", "0x10000000", -1)]
    {
        let free = results(Vec::new(), &[call]);
        if free[0] < 0 {
            writeln!(std::io::stderr(), "this host has no {}: {free:?}", call.0).unwrap();
        }
        assert_eq!(results(programs(Options::default()), &[call]), [call.3]);
    }
}

#[test]
fn debugging_lets_ptrace_through() {
    let no_such_process = [("ptrace", "ptrace", "1, 0x7ffffff0, 0, 0", -3)];
    let debug = Options { tracing: Tracing::Allowed, ..Options::default() };
    assert_eq!(results(programs(debug), &no_such_process), [-3]);
    assert_eq!(results(programs(Options::default()), &no_such_process), [-1]);
}

#[test]
fn executable_memory_files_are_denied_when_commands_are_listed() {
    let refused = Options { executable_memfd: ExecutableMemfd::Refused, ..Options::default() };
    let memfd = ("memfd_create", "memfd_create", "b'm', 0", -1);
    assert_stops(refused, &[memfd]);
    let sealed = ("memfd_create without execution", "memfd_create", "b'm', 8", 0);
    assert_ne!(results(programs(refused), &[sealed]), [-1]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn other_calling_conventions_kill() {
    use std::os::unix::process::ExitStatusExt;

    const SIGSYS: i32 = 31;
    let folder = env::temp_dir().join(format!("stockade-seccomp-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("int80");
    let source =
        "int main(){int a; __asm__ volatile(\"int $0x80\":\"=a\"(a):\"a\"(20)); return a < 1;}";
    let mut compiler = command(&["cc", "-x", "c", "-"]);
    let mut compiler =
        compiler.arg("-o").arg(&program).stdin(std::process::Stdio::piped()).spawn().unwrap();
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    let free = Command::new(&program).status().unwrap();
    let filtered = run(programs(Options::default()), Command::new(&program)).status;
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!((free.signal(), filtered.signal()), (None, Some(SIGSYS)));

    let x32 = "import ctypes; ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39))";
    let python = || command(&["python3", "-I", "-S", "-c", x32]);
    // If a version manager's shim starts Python through a shell, the signal arrives as 128 + its
    // number.
    let killed = |output: Output| {
        output.status.signal() == Some(SIGSYS) || output.status.code() == Some(128 + SIGSYS)
    };
    assert!(python().status().unwrap().success());
    assert!(killed(run(programs(Options::default()), python())));
}

#[test]
fn custom_profile_denies_more_and_never_allows_more() {
    let custom = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"name": "getppid", "action": "SCMP_ACT_ERRNO", "errnoRet": 95},
        {"name": "unshare", "action": "SCMP_ACT_ALLOW"}
    ]}"#;
    let architecture = Architecture::native().unwrap();
    let host = Host { architecture, kernel: (6, 1) };
    let custom = CustomProfile::parse(custom).unwrap().resolve(host).unwrap();
    let filters = tighten(built_in(Options::default()), custom);
    let programs = filters.compile(architecture).unwrap();
    let script = "import os, ctypes\n\
        print(os.getppid() > 0)\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        libc.unshare(0x10000001)\n\
        print(ctypes.get_errno())";
    let python = || command(&["python3", "-I", "-S", "-c", script]);
    let [free, filtered] = [run(Vec::new(), python()), run(programs, python())];
    assert_eq!(String::from_utf8_lossy(&free.stdout), "True\n22\n", "{free:?}");
    assert_eq!(String::from_utf8_lossy(&filtered.stdout), "False\n1\n", "{filtered:?}");
}

#[test]
fn no_program_starts_without_a_call_listed_as_needed() {
    let architecture = Architecture::native().unwrap();
    let nothing = fs::File::open("/dev/null").unwrap();
    let starts = |missing: Option<Syscall>| {
        let refuse = |call| (call, vec![Rule::always(Action::Errno(1))]);
        let rules = missing.into_iter().map(refuse).collect();
        let profile = Profile { default: Action::Allow, rules };
        let filter = compile(&profile, architecture).unwrap().instructions().to_vec();
        let started = spawn(Spawn {
            path: c"/bin/true",
            arguments: &[c"true".to_owned()],
            environment: &[],
            streams: [nothing.as_fd(); 3],
            controls: Controls::Nothing,
            open_files: None,
            cgroups: &[],
            filters: &[filter],
        });
        started.is_ok_and(|child| {
            let ended =
                rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
            ended.unwrap().is_some_and(|(_, status)| status.exit_status() == Some(0))
        })
    };
    assert!(starts(None));
    assert!(starts(Syscall::named("rseq")), "one that a start can do without");
    for call in needed_to_start(architecture) {
        assert!(!starts(Some(call)), "{}", call.name());
    }
}
