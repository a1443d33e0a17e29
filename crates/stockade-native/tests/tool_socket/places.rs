//! A program inside cannot reach connections of another program.

use crate::support::{python, run, walls_can_be_built};

/// A sibling process that has called a tool and keeps its connection and a file open.
const SIBLING: &str = "\
import subprocess, ctypes, time
child = subprocess.Popen(
    [sys.executable, '-c', '''
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(\"/run/stockade/tools.sock\")
connection.sendall(b\"{\\\\\"id\\\\\": 1, \\\\\"call\\\\\": \\\\\"word\\\\\", \\\\\"arguments\\\\\": {}}\\\\n\")
file = open(\"/etc/passwd\")
print(connection.fileno(), file.fileno(), flush=True)
sys.stdin.read()
print(len(connection.recv(4096)))
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
their_connection, their_file = map(int, child.stdout.readline().split())
libc = ctypes.CDLL(None, use_errno=True)
def call_of(number, *words):
    ctypes.set_errno(0)
    answer = libc.syscall(number, *words)
    return 'done' if answer >= 0 else errno.errorcode.get(ctypes.get_errno())
PIDFD_OPEN, PIDFD_GETFD, PTRACE = 434, 438, 101 if os.uname().machine == 'x86_64' else 117
";

#[test]
fn connection_of_another_program_cannot_be_opened_or_taken() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(python(&format!(
        "{SIBLING}\
def open_theirs(number):
    os.close(os.open(f'/proc/{{child.pid}}/fd/{{number}}', os.O_RDWR if number == their_connection else os.O_RDONLY))
print(refused(open_theirs, their_file))
print(refused(open_theirs, their_connection))
handle = libc.syscall(PIDFD_OPEN, child.pid, 0)
print(handle >= 0, call_of(PIDFD_GETFD, handle, their_connection, 0))
print(call_of(PTRACE, 16, child.pid, 0, 0))
print(child.communicate('')[0].strip())
"
    )));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], ["done", "ENXIO"], "a file can be opened so, and a socket cannot");
    assert!(lines[2].starts_with("True ") && !lines[2].ends_with("done"), "{said}");
    assert_ne!(lines[3], "done", "nobody can be traced");
    let answer = "{\"id\":1,\"result\":\"a \\\"word\\\"\\nand more\"}\n";
    assert_eq!(lines[4], answer.len().to_string(), "the whole answer reached the client");
}

#[test]
fn guest_cannot_be_inspected() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(python(&format!(
        "{SIBLING}\
def look(process):
    def read_memory():
        with open(f'/proc/{{process}}/mem', 'rb') as memory:
            memory.read(0)
    print(refused(os.listdir, f'/proc/{{process}}/fd'),
          refused(read_memory),
          refused(os.listdir, f'/proc/{{process}}/map_files'),
          refused(os.readlink, f'/proc/{{process}}/exe'),
          refused(os.readlink, f'/proc/{{process}}/fd/3'))
look(child.pid)
look(1)
handle = libc.syscall(PIDFD_OPEN, 1, 0)
print(sum(call_of(PIDFD_GETFD, handle, number, 0) == 'done' for number in range(64)))
print(call_of(PTRACE, 16, 1, 0, 0))
child.communicate('')
"
    )));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("done done "), "a sibling can be looked into: {said}");
    assert!(lines[0].ends_with(" done done"), "{said}");
    assert!(lines[1].split(' ').all(|end| ["EACCES", "EPERM"].contains(&end)), "{said}");
    assert_eq!(lines[2], "0");
    assert_ne!(lines[3], "done");
}

#[test]
fn no_program_can_listen_on_the_tool_socket() {
    if !walls_can_be_built() {
        return;
    }
    // A program can bind the same name in the abstract namespace, which no client uses.
    let (said, _) = run(python(
        "\
thief = socket.socket(socket.AF_UNIX)
print(refused(thief.bind, '/run/stockade/tools.sock'))
print(refused(thief.bind, '\\0/run/stockade/tools.sock'))
thief.listen()
print(call('echo', to='the broker')['result'])
thief.setblocking(False)
print(refused(thief.accept))
",
    ));
    assert_eq!(said, "EADDRINUSE\ndone\n{'to': 'the broker'}\nEAGAIN\n");
}
