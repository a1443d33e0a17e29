//! No program behind the wall finds secrets of the host or affects its processes.

use std::process::{Child, Command, Stdio};

use super::{ASKED, PROGRAMS, can_be_built, inside, outside, words};
use crate::canaries::nothing_planted_is_found;
use crate::support::finish;
use stockade_testing::Scratch;

#[test]
fn nothing_planted_on_the_host_is_found_behind_the_reduced_wall() {
    if !can_be_built() {
        return;
    }
    let mut inside = words(&["run", "--json"]);
    inside.args(ASKED);
    nothing_planted_is_found(7, inside);
}

/// A process of the host with the caller's own ids. Dropping it kills it.
struct Victim(Child);

impl Victim {
    fn new() -> Victim {
        let mut sleep = Command::new("sleep");
        sleep.arg("600").stdin(Stdio::null()).current_dir("/").env("PLANTED", "canary-beside");
        Victim(sleep.spawn().expect("sleep starts"))
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("a child can be asked for").is_none()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Prints which attacks on a process id work; the last one kills the process.
const ATTACK: &str = r#"
import ctypes, os, resource, signal, sys
pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def call(answer):
    if answer < 0: raise OSError(ctypes.get_errno())
def read(name):
    with open(f"/proc/{pid}/{name}", "rb") as file: return file.read()
acts = {
    "affinity": lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
    "environ": lambda: read("environ"),
    "limits": lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)),
    "nice": lambda: os.setpriority(os.PRIO_PROCESS, pid, 5),
    "queue": lambda: call(libc.sigqueue(pid, 0, None)),
    "root": lambda: os.listdir(f"/proc/{pid}/root"),
    "scheduler": lambda: os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0)),
    "working directory": lambda: os.readlink(f"/proc/{pid}/cwd"),
    "stop": lambda: os.kill(pid, signal.SIGSTOP),
    "pidfd": lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGCONT),
    "kill": lambda: os.kill(pid, signal.SIGKILL),
}
done = []
for name, act in acts.items():
    try: act()
    except OSError: continue
    done.append(name)
print(",".join(sorted(done)))
"#;

#[test]
fn processes_of_the_same_user_are_neither_signalled_nor_changed_nor_read() {
    if !can_be_built() {
        return;
    }
    let everything =
        "affinity,environ,kill,limits,nice,pidfd,queue,root,scheduler,stop,working directory\n";
    let mut beside = Victim::new();
    assert_eq!(outside(ATTACK, &[&beside.id()]).text(), everything);
    let _ = beside.0.wait();
    let mut beside = Victim::new();
    assert_eq!(inside(&["--quiet"], ATTACK, &[&beside.id()]).text(), "\n");
    // A program may signal only the processes of its own sandbox, including the guest.
    let everybody = "import os, signal; os.kill(-1, signal.SIGTERM)";
    inside(&["--quiet"], everybody, &[]);
    assert!(beside.is_alive());
}

/// Sends a datagram to a socket of the host from one end of a pair, which needs no socket(2).
const DATAGRAM: &str = r#"
import socket, sys
try:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"canary", sys.argv[1])
    print("sent")
except PermissionError:
    one, other = socket.socketpair()
    one.send(b"x"); other.recv(1)
    print("refused")
"#;

#[test]
fn socketpair_cannot_send_to_a_socket_of_the_host() {
    if !can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.path().join("log");
    let log = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    stockade_testing::set_mode(&path, 0o777);
    let path = path.to_str().unwrap();
    assert_eq!(outside(DATAGRAM, &[path]).text(), "sent\n");
    assert_eq!(log.recv(&mut [0; 16]).unwrap(), 6);
    assert_eq!(inside(&["--quiet"], DATAGRAM, &[path]).text(), "refused\n");
    log.set_nonblocking(true).unwrap();
    assert!(log.recv(&mut [0; 16]).is_err(), "something came through");
}

/// Tries to read, list and watch a directory, and to create System V and POSIX IPC objects.
const PEEK: &str = r#"
import ctypes, os, sys
place = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
def call(answer):
    if answer < 0: raise OSError(ctypes.get_errno())
acts = {
    "list": lambda: os.listdir(place),
    "read": lambda: open(place + "/file").read(),
    "path": lambda: os.open("/proc/self/root" + place + "/file", os.O_RDONLY),
    "reopen": lambda: open(f"/proc/self/fd/{os.open(place + '/file', os.O_PATH)}").read(),
    "watch": lambda: call(libc.inotify_add_watch(libc.inotify_init(), place.encode(), 0xfff)),
    "semaphore": lambda: call(libc.semget(0, 1, 0o600)),
    "queue": lambda: call(libc.msgget(0, 0o600)),
    "message queue": lambda: call(libc.syscall(240, b"canary", os.O_CREAT | os.O_RDWR, 0o600, None)),
}
done = []
for name, act in acts.items():
    try: act()
    except OSError: continue
    done.append(name)
print(",".join(done))
"#;

#[test]
fn unlisted_paths_are_neither_read_nor_listed_nor_watched() {
    if !can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("file", "canary");
    let all = "list,read,path,reopen,watch,semaphore,queue,message queue\n";
    let all = if cfg!(target_arch = "x86_64") {
        all.to_owned()
    } else {
        all.replace(",message queue", "")
    };
    // A new IPC namespace, so that no IPC object stays on the host.
    let mut before = Command::new("unshare");
    before.args(["-U", "-r", "-i", "python3", "-c", PEEK, scratch.text()]).env("PATH", PROGRAMS);
    assert_eq!(finish(before).text(), all);
    assert_eq!(inside(&["--quiet"], PEEK, &[scratch.text()]).text(), "\n");
}
