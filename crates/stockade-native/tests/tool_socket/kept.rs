//! No program inside can change the tool directory. Each test first performs the operation on an
//! ordinary directory of the same sandbox, where it succeeds.

use crate::support::{python, run, walls_can_be_built};

/// A directory with the same content, created by the program itself.
const ORDINARY: &str = "\
import shutil, ctypes, stat
def fill(directory):
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory + '/bin')
    for name in ('tools.json', 'bin/stockade-tool'):
        open(f'{directory}/{name}', 'w').close()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(directory + '/tools.sock')
    return listener
def other(name):
    listener = socket.socket(socket.AF_UNIX)
    if os.path.lexists(name):
        os.unlink(name)
    listener.bind(name)
    return name
def write(path):
    with open(path, 'ab') as file:
        file.write(b'x')
def exchange(one, another):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, one.encode(), -100, another.encode(), 2):
        raise OSError(ctypes.get_errno(), 'renameat2')
def bind(path):
    socket.socket(socket.AF_UNIX).bind(path)
def bind_again(path):
    os.unlink(path)
    bind(path)
ACTS = {
    'unlink the socket': lambda d: os.unlink(d + '/tools.sock'),
    'rename the socket': lambda d: os.rename(d + '/tools.sock', d + '/gone'),
    'rename over the socket': lambda d: os.rename(other('/run/another'), d + '/tools.sock'),
    'exchange the socket': lambda d: exchange(other('/run/another'), d + '/tools.sock'),
    'link the socket': lambda d: os.link(d + '/tools.sock', d + '/linked'),
    'chmod the socket': lambda d: os.chmod(d + '/tools.sock', 0o600),
    'chown the socket': lambda d: os.chown(d + '/tools.sock', os.getuid(), os.getgid()),
    'touch the socket': lambda d: os.utime(d + '/tools.sock', (1, 1)),
    'bind again': lambda d: bind_again(d + '/tools.sock'),
    'bind another': lambda d: bind(d + '/another.sock'),
    'write a file': lambda d: write(d + '/tools.json'),
    'empty a file': lambda d: os.truncate(d + '/tools.json', 0),
    'unlink a file': lambda d: os.unlink(d + '/tools.json'),
    'make a file': lambda d: write(d + '/new'),
    'make a link': lambda d: os.symlink('/etc/passwd', d + '/link'),
    'make a directory': lambda d: os.mkdir(d + '/directory'),
    'write the command': lambda d: write(d + '/bin/stockade-tool'),
    'unlink the command': lambda d: os.unlink(d + '/bin/stockade-tool'),
    'chmod the command': lambda d: os.chmod(d + '/bin/stockade-tool', 0o755),
    'rename the commands': lambda d: os.rename(d + '/bin', d + '/bin2'),
    'chmod the directory': lambda d: os.chmod(d, 0o700),
    'mark the directory': lambda d: os.setxattr(d, 'user.x', b'y'),
    'rename the directory': lambda d: os.rename(d, '/run/gone'),
    'exchange the directory': lambda d: exchange(d, '/run/spare'),
    'remove the directory': lambda d: shutil.rmtree(d),
}
os.mkdir('/run/spare')
";

#[test]
fn tool_directory_cannot_be_changed() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(python(&format!(
        "{ORDINARY}\
for name, act in ACTS.items():
    kept = fill('/run/ordinary')
    shutil.rmtree('/run/gone', ignore_errors=True)
    ordinary = refused(act, '/run/ordinary')
    if not os.path.isdir('/run/spare'):
        os.mkdir('/run/spare')
    tools = refused(act, '/run/stockade')
    print(f'{{name}}: {{ordinary}}, {{tools}}')
print(call('echo', still='here')['result'], sorted(os.listdir('/run/stockade')))
"
    )));
    let mut lines: Vec<&str> = said.lines().collect();
    let last = lines.pop();
    let there = "{'still': 'here'} ['bin', 'python', 'tools.json', 'tools.sock']";
    assert_eq!(last, Some(there), "{said}");
    assert_eq!(lines.len(), 25, "{said}");
    for line in lines {
        let (name, ends) = line.split_once(": ").unwrap();
        let (ordinary, tools) = ends.split_once(", ").unwrap();
        // Some kernels do not support user extended attributes on tmpfs.
        let marks = name == "mark the directory" && ordinary == "EOPNOTSUPP";
        assert!(ordinary == "done" || marks, "{line}");
        // A file without write permission fails with EACCES before the mount is checked.
        let expected = ["EROFS", "EBUSY", "EXDEV", "EACCES", "EOPNOTSUPP"];
        assert!(expected.contains(&tools), "{line}");
    }
}

#[test]
fn tool_mount_cannot_be_covered_or_changed() {
    if !walls_can_be_built() {
        return;
    }
    // No program inside can mount anything, so no place exists where this succeeds.
    let (said, _) = run(python(
        "\
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call_of(name, *words):
    ctypes.set_errno(0)
    answer = getattr(libc, name)(*words)
    return 'done' if answer == 0 else errno.errorcode.get(ctypes.get_errno())
place = b'/run/stockade'
print(call_of('mount', b'none', place, b'tmpfs', 0, None))
print(call_of('mount', b'/tmp', place, None, 4096, None))
print(call_of('mount', b'none', place, None, 32, None))
print(call_of('umount2', place, 2))
mounted = [line.split() for line in open('/proc/self/mountinfo') if ' /run/stockade ' in line]
print(len(mounted), mounted[0][5])
",
    ));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[..4].iter().all(|end| *end != "done"), "{said}");
    let attributes: Vec<&str> = lines[4].split([' ', ',']).collect();
    assert_eq!(attributes[0], "1", "{said}");
    for attribute in ["ro", "nosuid", "nodev"] {
        assert!(attributes.contains(&attribute), "{said}");
    }
    assert!(!attributes.contains(&"noexec"), "{said}");
}

#[test]
fn program_shadows_the_tool_command_only_through_its_own_path() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(python(
        "\
import shutil, subprocess
os.mkdir('/tmp/bin')
with open('/tmp/bin/stockade-tool', 'w') as file:
    file.write('#!/bin/sh\\necho own\\n')
os.chmod('/tmp/bin/stockade-tool', 0o755)
print(subprocess.check_output(['stockade-tool', 'echo']))
print(subprocess.check_output(['stockade-tool', 'echo'], env={'PATH': '/tmp/bin:' + os.environ['PATH']}))
print(shutil.which('stockade-tool'))
",
    ));
    assert_eq!(said, "b'{}\\n'\nb'own\\n'\n/run/stockade/bin/stockade-tool\n");
}
