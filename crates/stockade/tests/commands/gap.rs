//! Known gaps of a command list. README.md lists the same.

use crate::support::{PRELUDE, Tools, lists_can_be_held, run};

const LOADER: &str = "loader = next(p for p in ('/lib64/ld-linux-x86-64.so.2', \
                      '/lib/ld-linux-aarch64.so.1') if os.path.exists(p))\n";

#[test]
fn dynamic_loader_still_runs_unlisted_programs_from_read_only_mounts_and_memfds() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let policy = tools.policy("command_allowlist: [python3]");
    // Flag 8 is MFD_NOEXEC_SEAL: execve refuses the memfd, but the loader can map it.
    let code = format!(
        "{PRELUDE}{LOADER}\
         start('/tools/ls', '/')\n\
         start(loader, '/tools/ls', '/')\n\
         try:\n d = os.memfd_create('ls', 8)\n\
         except OSError as error:\n sys.exit(print('no memory file', error.errno))\n\
         os.write(d, open('/tools/ls', 'rb').read())\n\
         start(loader, f'/proc/{{os.getpid()}}/fd/{{d}}', '/')"
    );
    let held = run(&["--policy", &policy, "--"], &code);
    let mapped = if held.has_exact_memory() { "started 0" } else { "no memory file 38" };
    assert_eq!(held.text("stdout"), format!("refused 13\nstarted 0\n{mapped}\n"), "{}", held.0);
}

#[test]
fn dynamic_loader_maps_no_file_from_a_writable_directory_and_finds_no_host_program() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let code = format!(
        "{PRELUDE}{LOADER}start(loader, shutil.copy('/tools/ls', '/tmp/ls'), '/')\n\
         start(loader, '/usr/bin/ls', '/')"
    );
    let free = run(&["--policy", &tools.policy(""), "--"], &code);
    assert_eq!(free.text("stdout"), "started 0\nstarted 0\n");
    let held = run(&["--policy", &tools.policy("command_allowlist: [python3]"), "--"], &code);
    assert_eq!(held.text("stdout"), "started 127\nstarted 127\n", "{}", held.0);
}
