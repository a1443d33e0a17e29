//! Probes of Python code: acts that succeed on this host, and must fail behind the wall. The probes
//! of `stockade-conformance` are programs of the processor, which this wall does not run.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Command;

use stockade_testing::{Scratch, finish};

use crate::support::{named, run};

named![acts_that_succeed_on_the_host_fail_behind_the_wall];

/// Names and code. `FILE`, `FOLDER`, `PORT` and `SOCKET` stand for things of the host.
const ACTS: [(&str, &str); 18] = [
    ("read a file of the system", "open('/etc/passwd').read()"),
    ("read a file of the user", "open('FILE').read()"),
    ("read a file by a relative path", "open('../../../../../../..FILE').read()"),
    ("read a file through a link", "os.symlink('FILE', LINK); open(LINK).read()"),
    ("write a file of the user", "open('FILE', 'a').write('x')"),
    ("list a directory of the user", "os.listdir('FOLDER')"),
    ("look at processes", "assert any(name.isdigit() for name in os.listdir('/proc'))"),
    ("open a device", "open('/dev/zero', 'rb').read(1)"),
    ("start a program", "subprocess.run(['/bin/true'], check=True)"),
    ("start a shell", "assert os.system('true') == 0"),
    ("fork", "child = os.fork(); child or os._exit(0); os.waitpid(child, 0)"),
    ("signal the parent", "os.kill(os.getppid(), 0)"),
    ("connect to a port of the host", "socket.create_connection(('127.0.0.1', PORT), 5).close()"),
    ("listen", "socket.create_server(('127.0.0.1', 0)).close()"),
    ("connect to a socket file", "socket.socket(socket.AF_UNIX).connect('SOCKET')"),
    ("load native code", "import ctypes; ctypes.CDLL(None).getpid()"),
    (
        "map shared memory",
        "from multiprocessing import shared_memory as s; \
      m = s.SharedMemory(create=True, size=9); m.close(); m.unlink()",
    ),
    ("start a thread", "t = threading.Thread(target=print, args=('in',)); t.start(); t.join()"),
];

/// The code of one act, which prints `done` if it succeeds.
fn program(act: &str) -> String {
    format!(
        "import os, tempfile, threading\n\
         try: import socket, subprocess\n\
         except ImportError: pass\n\
         LINK = os.path.join(tempfile.mkdtemp(), 'link')\n\
         try:\n    {act}\n    print('done')\n\
         except BaseException as error: print(type(error).__name__, error)\n"
    )
}

fn acts_that_succeed_on_the_host_fail_behind_the_wall() {
    let scratch = Scratch::new();
    let file = scratch.file("mine.txt", "canary");
    let folder = scratch.path().to_str().expect("a scratch path is text");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = tcp.local_addr().expect("it is bound").port().to_string();
    let socket = scratch.path().join("listener.sock");
    let _unix = UnixListener::bind(&socket).expect("the directory is new");
    let socket = socket.to_str().expect("a scratch path is text");
    for (name, act) in ACTS {
        let act = act.replace("FILE", &file).replace("FOLDER", folder);
        let code = program(&act.replace("PORT", &port).replace("SOCKET", socket));
        let outside = finish(Command::new("python3").args(["-I", "-c", &code]));
        assert!(outside.text().ends_with("done\n"), "{name}, on the host: {outside:?}");
        let inside = run(&code);
        assert!(!inside.stdout.contains("done"), "{name}: {inside:?}");
        assert!(!inside.stdout.contains("canary"), "{name}: {inside:?}");
        assert_eq!(inside.code, 0, "{name} ends with an exception: {inside:?}");
    }
    let kept = std::fs::read_to_string(&file).expect("it is there");
    assert_eq!(kept, "canaryx", "only the control wrote to the file");
}
