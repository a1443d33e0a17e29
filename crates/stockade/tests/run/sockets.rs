//! Unix sockets of the host in mounted directories.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{
    Run, binary, finish, is_root, not_run, outside, report, stockade, walls_can_be_built,
};
use stockade_testing::{Scratch, set_mode};

/// Connects to a socket and prints what it receives.
const CONNECT: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(99).decode(), end='')";

/// Tries to create two sockets at each path and prints the results.
const MAKE: &str = "import os, socket, sys
for path in sys.argv[1:]:
    try: socket.socket(socket.AF_UNIX).bind(path); print('made')
    except PermissionError: print('refused')
    try: os.mknod(path + '2', 0o140600); print('made')
    except PermissionError: print('refused')";

/// A directory with a Unix socket that a thread of this process serves.
fn served() -> Scratch {
    let scratch = Scratch::new();
    scratch.directory("data");
    scratch.directory("data/run");
    let path = scratch.path().join("data/run/daemon.sock");
    let listener = UnixListener::bind(&path).expect("a socket can be made");
    set_mode(&path, 0o666);
    std::thread::spawn(move || {
        for peer in listener.incoming() {
            // The peer may have disconnected.
            let _ = peer.and_then(|mut peer| peer.write_all(b"canary\n"));
        }
    });
    let control = outside(&["python3", "-c", CONNECT, path.to_str().expect("it is text")]);
    assert_eq!(control.text(), "canary\n", "without the wall it answers");
    scratch
}

fn is_refused(run: &Run, what: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{what}: {}", run.stderr);
    assert!(run.stderr.contains("daemon.sock"), "{what}: {}", run.stderr);
    assert!(run.stderr.contains("Unix socket"), "{what}: {}", run.stderr);
}

/// Whether Landlock on this kernel refuses connections, so that Stockade refuses no directory.
fn landlock_holds_sockets() -> bool {
    let doctor = Command::new(binary()).args(["doctor", "--json"]).output();
    let doctor = doctor.expect("the binary starts").stdout;
    let doctor: Value = serde_json::from_slice(&doctor).expect("its report is JSON");
    doctor["machine"]["host"]["landlock"]["version"].as_u64().is_some_and(|version| version >= 9)
}

#[test]
fn host_socket_is_not_reached_through_a_writable_directory() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = served();
    let data = format!("{}/data", scratch.text());
    let policy = scratch.file("policy.yaml", "sandbox_mounts: {output_dir: ./data}\n");
    for (words, place) in [
        (["--mount".to_owned(), format!("{data}:/data:rw")], "/data"),
        (["--workspace".to_owned(), format!("{data}:write")], "/workspace"),
        (["--policy".to_owned(), policy], "/output"),
    ] {
        let socket = format!("{place}/run/daemon.sock");
        let program = ["--", "python3", "-c", CONNECT, &socket];
        let run = stockade(&[&[words[0].as_str(), &words[1], "--quiet"][..], &program].concat());
        match landlock_holds_sockets() {
            true => assert_eq!(run.stdout, "", "{words:?}"),
            false => is_refused(&run, &words[1]),
        }
    }
}

#[test]
fn host_socket_is_not_reached_through_an_overlay_or_a_read_only_mount() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = served();
    let data = format!("{}/data", scratch.text());
    for (words, place) in [
        (["--workspace", &data], "/workspace"),
        (["--workspace", &format!("{data}:read")], "/workspace"),
        (["--mount", &format!("{data}:/data")], "/data"),
    ] {
        let socket = format!("{place}/run/daemon.sock");
        let program = ["--", "python3", "-c", CONNECT, &socket];
        let run = stockade(&[&[words[0], words[1], "--quiet"][..], &program].concat());
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{words:?}: {}", run.stderr);
        assert!(run.stderr.contains("ConnectionRefusedError"), "{words:?}: {}", run.stderr);
    }
}

#[test]
fn hidden_directory_with_a_socket_is_not_refused() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = served();
    let text = "filesystem: {write: [{host: ./data, guest: /data}], hide: [/data/run]}\n";
    let policy = scratch.file("policy.yaml", text);
    let run = stockade(&["--policy", &policy, "--", "ls", "/data/run"]);
    assert_eq!(run.text(), "");
}

#[test]
fn socket_in_a_read_only_directory_that_has_a_mount_below_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    if !is_root() {
        return not_run("only root mounts something below a directory");
    }
    let scratch = served();
    let below = scratch.directory("data/below");
    let data = format!("{}/data", scratch.text());
    let own = format!("{below}:/data/below");
    let program = ["--", "python3", "-c", CONNECT, "/data/run/daemon.sock"];
    let words = ["--quiet", "--mount", &format!("{data}:/data"), "--mount", &own];
    let run = with_a_mount_at(&below, &[&words[..], &program].concat());
    match landlock_holds_sockets() {
        true => assert_eq!(run.stdout, ""),
        false => is_refused(&run, "read-only"),
    }
}

/// Runs Stockade in a mount namespace with a tmpfs at `point`.
fn with_a_mount_at(point: &str, words: &[&str]) -> Run {
    let script = "mount -t tmpfs none \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", point]).arg(binary());
    command.arg("run").args(words);
    finish(command)
}

#[test]
fn socket_in_a_system_directory_that_has_a_mount_below_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    if !is_root() {
        return not_run("only root mounts something below a directory");
    }
    let point = "/usr/local/games";
    if !std::path::Path::new(point).is_dir() {
        return not_run("there is no /usr/local/games to mount something on");
    }
    let scratch = served();
    let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(scratch.path().join("data/run")).arg(point).arg(binary());
    command.args(["run", "--quiet", "--", "/usr/bin/python3", "-c", CONNECT]);
    command.arg(format!("{point}/daemon.sock"));
    let run = finish(command);
    match landlock_holds_sockets() {
        true => assert_eq!(run.stdout, ""),
        false => is_refused(&run, "system directory"),
    }
}

#[test]
fn directory_that_is_covered_at_another_place_is_searched() {
    if !walls_can_be_built() || landlock_holds_sockets() {
        return;
    }
    let scratch = served();
    let text = "filesystem: {write: [{host: ./data, guest: /a}, {host: ./data, guest: /b}], \
                hide: [/a/run]}\n";
    let policy = scratch.file("policy.yaml", text);
    let program = ["--", "python3", "-c", CONNECT, "/b/run/daemon.sock"];
    is_refused(&stockade(&[&["--policy", &policy][..], &program].concat()), "second place");
}

#[test]
fn directory_that_the_caller_has_closed_is_refused_and_not_skipped() {
    if !walls_can_be_built() || landlock_holds_sockets() {
        return;
    }
    if is_root() {
        return not_run("no directory is closed to root");
    }
    let scratch = served();
    let closed = scratch.path().join("data/run");
    set_mode(&closed, 0);
    let workspace = format!("{}/data:write", scratch.text());
    let opens = format!("import os; os.chmod('run', 0o700)\n{CONNECT}");
    let words = ["--quiet", "--workspace", &workspace, "--", "python3", "-c", &opens];
    let run = stockade(&[&words[..], &["run/daemon.sock"]].concat());
    let text = "filesystem: {write: [{host: ./data, guest: /d}], hide: [/d/run/sec]}\n";
    let policy = scratch.file("policy.yaml", text);
    let hidden = stockade(&["--policy", &policy, "--", "echo", "ran"]);
    set_mode(&closed, 0o700);
    for run in [run, hidden] {
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
        assert!(run.stderr.contains("cannot be searched"), "{}", run.stderr);
    }
}

#[test]
fn mount_point_below_a_read_only_directory_needs_an_entry_and_is_reported() {
    if !walls_can_be_built() {
        return;
    }
    if !is_root() {
        return not_run("only root mounts something below a directory");
    }
    let scratch = Scratch::new();
    let data = scratch.directory("data");
    let below = scratch.directory("data/below");
    let (all, own) = (format!("{data}:/data"), format!("{below}:/data/below"));
    let mounts = ["--mount", &all, "--mount", &own];
    let text = "filesystem: {workspace: {host: ./data, mode: read}}\n";
    let workspace = scratch.file("workspace.yaml", text);
    if !landlock_holds_sockets() {
        let place = format!("{{host: {below}, guest: /data/below}}");
        let place_below_workspace = format!("{{host: {below}, guest: /workspace/below}}");
        for (words, remedy) in
            [(["--mount", &all], place), (["--policy", &workspace], place_below_workspace)]
        {
            let run = with_a_mount_at(&below, &[&words[..], &["--", "echo", "ran"]].concat());
            assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
            assert!(run.stderr.contains(&format!("{below} is mounted below it")), "{}", run.stderr);
            assert!(run.stderr.contains(&remedy), "{}", run.stderr);
        }
    }
    let run = with_a_mount_at(&below, &[&mounts[..], &["--json", "--", "true"]].concat());
    let report: Value = serde_json::from_str(&run.stdout).expect("the report is JSON");
    assert_eq!(run.code, 0, "{report}");
    assert_sockets(&report, &data);
    let text = format!("filesystem: {{exact: true, read: [{data}, {below}]}}\n");
    let exact = scratch.file("exact.yaml", &text);
    let words = ["--policy", &exact, "--", "echo", "ran"];
    if !landlock_holds_sockets() {
        let run = with_a_mount_at(&below, &words);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    }
}

#[test]
fn file_system_without_overlay_support_needs_an_entry_and_is_reported() {
    if !walls_can_be_built() || landlock_holds_sockets() {
        return;
    }
    if !is_root() {
        return not_run("only root mounts a file system");
    }
    let scratch = Scratch::new();
    let data = scratch.directory("data");
    // ramfs does not support id-mapped mounts, so root cannot mount one inside at all.
    let script = "mount -t ramfs none \"$1\" && mkdir \"$1/below\" && shift && exec setpriv \
                  --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \"$@\"";
    let run = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", &data]).arg(binary());
        command.args(["run", "--no-record", "--json", "--mount", &format!("{data}:/data")]);
        command.args(words);
        finish(command)
    };
    let refused = run(&["--", "true"]);
    assert_eq!(refused.code, 125, "{}", refused.stdout);
    let said = refused.stdout + &refused.stderr;
    assert!(said.contains("no overlay can be laid over its file system"), "{said}");
    let accepted = run(&["--mount", &format!("{data}/below:/data/below"), "--", "true"]);
    assert_eq!(accepted.code, 0, "{}{}", accepted.stdout, accepted.stderr);
    assert_sockets(&serde_json::from_str(&accepted.stdout).expect("the report is JSON"), &data);
}

/// Asserts how a report describes sockets in a directory that is mounted without an overlay.
fn assert_sockets(report: &Value, directory: &str) {
    let controls = report["isolation"]["controls"].as_array().expect("controls are listed");
    let expected = if landlock_holds_sockets() { "exact" } else { "approximate" };
    let asks = format!("no Unix socket of the host is reached through {directory}");
    let held = controls.iter().find(|it| it["control"] == "host_sockets" && it["asks"] == asks);
    let held = held.unwrap_or_else(|| panic!("{directory}: {controls:?}"));
    assert_eq!(held["precision"], json!(expected), "{held}");
}

#[test]
fn read_only_directory_with_a_nested_entry_keeps_its_overlay() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = served();
    let data = format!("{}/data:/data", scratch.text());
    scratch.directory("data/other");
    let other = format!("{}:/data/other", scratch.directory("other"));
    let words = ["--quiet", "--mount", &data, "--mount", &other, "--", "python3", "-c", CONNECT];
    let run = stockade(&[&words[..], &["/data/run/daemon.sock"]].concat());
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    assert!(run.stderr.contains("ConnectionRefusedError"), "{}", run.stderr);
}

#[test]
fn no_socket_can_be_created_in_a_directory_that_sandboxes_can_share() {
    if !walls_can_be_built() {
        return;
    }
    let control = Scratch::new();
    let made = outside(&["python3", "-c", MAKE, &format!("{}/s", control.text())]);
    assert_eq!(made.text(), "made\nmade\n");
    let scratch = Scratch::new();
    for folder in ["data", "below", "work"] {
        scratch.directory(folder);
    }
    let text = "filesystem:\n  write: [{host: ./data, guest: /data}, {host: ./below, guest: \
                /opt/a/b}]\n  workspace: {host: ./work, mode: write}\n";
    let policy = scratch.file("policy.yaml", text);
    let shared = ["/data/s", "/opt/a/b/s", "/workspace/s"];
    let own = ["/tmp/s", "/dev/shm/s"];
    let words = ["--policy", &policy, "--", "python3", "-c", MAKE];
    let run = stockade(&[&words[..], &shared, &own].concat());
    assert_eq!(run.text(), "refused\n".repeat(6) + &"made\n".repeat(4));
    let nested = "filesystem: {write: [{host: ./data, guest: /workspace/out}]}\n";
    let policy = scratch.file("nested.yaml", nested);
    let words = ["--policy", &policy, "--", "python3", "-c", MAKE, "/workspace/out/s", "/tmp/s"];
    assert_eq!(stockade(&words).text(), "refused\nrefused\nmade\nmade\n");
}

#[test]
fn report_calls_sockets_approximate_where_only_a_search_excludes_them() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let data = scratch.directory("data");
    let (code, report) = report(&["--mount", &format!("{data}:/data:rw"), "--", "true"]);
    assert_eq!(code, 0, "{report}");
    let controls = report["isolation"]["controls"].as_array().unwrap();
    let held = controls.iter().find(|held| held["control"] == "host_sockets").unwrap();
    let expected = if landlock_holds_sockets() { "exact" } else { "approximate" };
    assert_eq!(held["precision"], json!(expected), "{held}");
    if landlock_holds_sockets() {
        return;
    }
    let mechanism = held["mechanism"].as_str().unwrap();
    assert!(mechanism.contains("makes there during the run can be connected to"), "{mechanism}");
    let text = "filesystem: {exact: true, write: [{host: ./data, guest: /data}]}\n";
    let policy = scratch.file("policy.yaml", text);
    let plan = finish_plan(&policy);
    assert_ne!(plan.code, 0);
    assert!(plan.stdout.contains("refused  host_sockets"), "{}", plan.stdout);
    let run = stockade(&["--policy", &policy, "--", "echo", "ran"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains("filesystem.exact"), "{}", run.stderr);
}

#[test]
fn strict_with_a_writable_mount_is_refused_before_landlock_9() {
    if !walls_can_be_built() || landlock_holds_sockets() {
        return;
    }
    let scratch = Scratch::new();
    let strict = Command::new(binary()).args(["policy", "init", "strict"]).output().unwrap();
    let strict = String::from_utf8(strict.stdout).unwrap();
    let kept = scratch.file("strict.yaml", &strict);
    assert_eq!(finish_plan(&kept).code, 0);
    let mount = "filesystem:\n  write: [{host: ./data, guest: /data}]\n";
    scratch.directory("data");
    let wider = scratch.file("wider.yaml", strict.replace("filesystem:\n", mount));
    let plan = finish_plan(&wider);
    assert_ne!(plan.code, 0, "{}", plan.stdout);
    assert!(plan.stdout.contains("refused  host_sockets"), "{}", plan.stdout);
}

fn finish_plan(policy: &str) -> Run {
    let mut command = Command::new(binary());
    command.args(["policy", "plan", policy]);
    finish(command)
}
