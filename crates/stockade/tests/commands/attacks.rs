//! A program that is not listed does not start, under any name and from any directory.

use crate::support::{NOT_ALLOWED, NOT_THERE, Tools, lists_can_be_held, run};

/// Asserts that each act works without a command list and is denied with one.
fn denied(acts: &[(&str, &str, &str)]) {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    for (act, answer, target) in acts {
        tools.assert_denied(act, answer, target);
    }
}

#[test]
fn unlisted_host_program_is_missing_under_every_path() {
    denied(&[
        ("start('/bin/ls')", NOT_THERE, "/bin/ls"),
        ("start('ls')", NOT_THERE, "/usr/bin/ls"),
        ("start('/proc/self/root/usr/bin/ls')", NOT_THERE, "/proc/self/root/usr/bin/ls"),
        ("start('/usr/../bin/./ls')", NOT_THERE, "/usr/../bin/./ls"),
        ("os.chdir('/usr'); start('bin/ls')", NOT_THERE, "/usr/bin/ls"),
    ]);
}

#[test]
fn libc_system_finds_no_shell() {
    let act = "code = os.system('true'); print('started' if code == 0 else 'refused', code >> 8)";
    denied(&[(act, "refused 127", "/bin/sh")]);
}

#[test]
fn copied_program_does_not_start_from_any_writable_directory() {
    for place in ["/tmp", "/workspace", "/dev/shm", "/run"] {
        let act = format!("start(shutil.copy('/tools/ls', '{place}/ls'))");
        denied(&[(&act, NOT_ALLOWED, &format!("{place}/ls"))]);
    }
}

#[test]
fn copied_program_does_not_start_under_another_name_or_through_a_link() {
    let copy = "shutil.copy('/tools/ls', '/tmp/a'); ";
    let act = |rest: &str| format!("{copy}{rest}");
    denied(&[
        (&act("os.rename('/tmp/a', '/tmp/b'); start('/tmp/b')"), NOT_ALLOWED, "/tmp/b"),
        (&act("os.link('/tmp/a', '/tmp/b'); start('/tmp/b')"), NOT_ALLOWED, "/tmp/b"),
        (&act("os.symlink('/tmp/a', '/tmp/b'); start('/tmp/b')"), NOT_ALLOWED, "/tmp/b"),
        (
            &act("os.rename('/tmp/a', '/tmp/python3'); start('/tmp/python3')"),
            NOT_ALLOWED,
            "/tmp/python3",
        ),
        (&act("os.chdir('/tmp'); start('./a')"), NOT_ALLOWED, "/tmp/./a"),
        (
            "os.symlink('/proc/self/root/tools/ls', '/tmp/b'); start('/tmp/b')",
            NOT_ALLOWED,
            "/tmp/b",
        ),
    ]);
}

#[test]
fn program_in_a_read_only_mount_does_not_start() {
    denied(&[
        ("start('/tools/ls')", NOT_ALLOWED, "/tools/ls"),
        ("start('/proc/self/root/tools/ls')", NOT_ALLOWED, "/proc/self/root/tools/ls"),
        ("start('/proc/self/cwd/../tools/ls')", NOT_ALLOWED, "/proc/self/cwd/../tools/ls"),
    ]);
}

#[test]
fn program_does_not_start_through_an_open_descriptor() {
    let by_path = "d = os.open('/tools/ls', os.O_RDONLY); os.set_inheritable(d, True); \
                   start_open(f'/proc/self/fd/{d}')";
    let by_descriptor = "start_open(os.open('/tools/ls', os.O_RDONLY))";
    let by_folder = "d = os.open('/tools', os.O_RDONLY)\n\
         child = os.fork()\n\
         if child == 0:\n \
           os.dup2(os.open('/dev/null', os.O_WRONLY), 1)\n \
           argv = (ctypes.c_char_p * 2)(b'ls', None)\n \
           c = ctypes.CDLL(None, use_errno=True)\n \
           number = 322 if os.uname().machine == 'x86_64' else 281\n \
           c.syscall(number, d, b'ls', argv, None, 0)\n \
           os._exit(100 + ctypes.get_errno())\n\
         code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n\
         print('started 0' if code == 0 else f'refused {code - 100}')";
    denied(&[
        (by_path, NOT_ALLOWED, "/proc/self/fd/3"),
        (by_descriptor, NOT_ALLOWED, "/tools/ls"),
        (by_folder, NOT_ALLOWED, "/tools/ls"),
    ]);
}

#[test]
fn program_in_a_memfd_does_not_start() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let make = "import os\ntry: os.memfd_create('x'); print('made')\n\
                except OSError as error: print(error.errno)";
    let made = run(&["--policy", &tools.policy(""), "--"], make);
    if !made.has_exact_memory() {
        assert_eq!(made.text("stdout"), "38\n", "no memory file can be made: {}", made.0);
        return;
    }
    // Flag 8 is MFD_NOEXEC_SEAL: under a command list no other memfd can be created.
    let act = "flags = 0\n\
         try:\n d = os.memfd_create('ls', 0)\n\
         except PermissionError:\n d = os.memfd_create('ls', 8)\n\
         os.write(d, open('/tools/ls', 'rb').read())\n";
    let by_descriptor = format!("{act}start_open(d)");
    let by_path = format!("{act}start_open(f'/proc/self/fd/{{d}}')");
    denied(&[
        (&by_descriptor, NOT_ALLOWED, "/memfd:ls (deleted)"),
        (&by_path, NOT_ALLOWED, "/proc/self/fd/3"),
    ]);
}

#[test]
fn script_written_at_run_time_does_not_start() {
    let script = |interpreter: &str| {
        format!(
            "open('/tmp/s', 'w').write('#!' + {interpreter} + '\\n'); os.chmod('/tmp/s', 0o755); \
             start('/tmp/s')"
        )
    };
    denied(&[
        (&script("'/bin/sh'"), NOT_ALLOWED, "/tmp/s"),
        // Not even with the one listed program as its interpreter.
        (&script("sys.executable"), NOT_ALLOWED, "/tmp/s"),
    ]);
}
