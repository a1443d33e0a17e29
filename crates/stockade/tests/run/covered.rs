//! Hidden and read-only paths in a host directory stay so, in later runs too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::{
    Conversation, Run, binary, command, finish, is_root, not_run, outside, stockade,
    walls_can_be_built,
};
use stockade_testing::Scratch;

/// Tries every way to move a directory away, and creates another in its place.
const MOVE_AWAY: &str = "import ctypes, os, shutil, sys
os.chdir(sys.argv[1]); libc = ctypes.CDLL(None); libc.renameat2.restype = ctypes.c_int
def attempt(act):
    try: return act()
    except OSError: pass
moved = sys.argv[2].encode()
os.makedirs('other', exist_ok=True)
libc.renameat2(-100, moved, -100, b'other', 2)
attempt(lambda: os.rename(moved, b'away'))
attempt(lambda: os.rmdir(moved))
attempt(lambda: os.makedirs(os.path.join(moved.decode(), sys.argv[3])))
";

/// Reads and overwrites every file below a directory.
const USE_ALL: &str = "cd $1; find . -type f -exec cat {} + ; for f in $(find . -type f); do \
                       echo changed > $f; done";

fn moved(scratch: &Scratch, policy: &str, place: &str, names: [&str; 2]) -> Run {
    let words = ["--quiet", "--policy", policy, "--"];
    let act = ["python3", "-c", MOVE_AWAY, place, names[0], names[1]];
    let first = stockade(&[&words[..], &act].concat());
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(scratch.path().join("data/other").is_dir(), "the directory can be written");
    stockade(&[&words[..], &["sh", "-c", USE_ALL, "sh", place]].concat())
}

fn project() -> Scratch {
    let scratch = Scratch::new();
    for folder in ["data", "data/a", "data/a/b", "data/a/b/kept"] {
        scratch.directory(folder);
    }
    scratch.file("data/a/b/kept/file", "canary\n");
    scratch
}

#[test]
fn moving_a_parent_away_uncovers_nothing_hidden_in_the_next_run() {
    if !walls_can_be_built() {
        return;
    }
    let control = project();
    let data = control.path().join("data").display().to_string();
    outside(&["python3", "-c", MOVE_AWAY, &data, "a", "b/kept"]).text();
    let read = outside(&["sh", "-c", USE_ALL, "sh", &data]);
    assert_eq!(read.text(), "canary\n", "without the wall it is moved and read");
    assert!(!control.path().join("data/a/b/kept/file").exists());
    let ways = [
        ("workspace: {host: ./data, mode: write}", "/workspace"),
        ("write: [{host: ./data, guest: /data}]", "/data"),
        ("write: [{host: ./data, guest: /data}, {host: ./data/a, guest: /again}]", "/data"),
    ];
    for (shown, place) in ways {
        for names in [["a", "b/kept"], ["a/b", "kept"]] {
            let scratch = project();
            let text = format!("filesystem: {{{shown}, hide: [{place}/a/b/kept]}}\n");
            let policy = scratch.file("policy.yaml", text);
            let run = moved(&scratch, &policy, place, names);
            assert_eq!(run.stdout, "", "{shown} {names:?}: {}", run.stderr);
            let kept = scratch.path().join("data/a/b/kept/file");
            assert_eq!(fs::read_to_string(kept).unwrap(), "canary\n");
        }
    }
}

#[test]
fn moving_a_parent_away_makes_nothing_writable_in_the_next_run() {
    if !walls_can_be_built() {
        return;
    }
    let ways = [
        (
            "filesystem: {workspace: {host: ./data, mode: write}, read: [{host: ./data/a/b/kept, \
          guest: /workspace/a/b/kept}]}\n",
            "/workspace",
        ),
        (
            "filesystem: {write: [{host: ./data, guest: /data}], read: [{host: ./data/a/b/kept, \
          guest: /data/a/b/kept}]}\n",
            "/data",
        ),
        (
            "sandbox_mounts: {output_dir: ./data}\nfilesystem: {read: [{host: ./data/a/b/kept, \
          guest: /output/a/b/kept}]}\n",
            "/output",
        ),
    ];
    for (text, place) in ways {
        for names in [["a", "b/kept"], ["a/b", "kept"]] {
            let scratch = project();
            let policy = scratch.file("policy.yaml", text);
            let run = moved(&scratch, &policy, place, names);
            assert_eq!(run.stdout, "canary\n", "{text} {names:?}: {}", run.stderr);
            let kept = scratch.path().join("data/a/b/kept/file");
            assert_eq!(fs::read_to_string(kept).unwrap(), "canary\n", "{text}");
        }
    }
}

fn is_refused(scratch: &Scratch, text: &str, why: &str) {
    let policy = scratch.file("policy.yaml", text);
    let run = stockade(&["--policy", &policy, "--", "echo", "ran"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{text}: {}", run.stderr);
    assert!(run.stderr.contains(why), "{text}: {}", run.stderr);
}

#[test]
fn single_file_in_a_writable_directory_cannot_be_hidden_or_read_only() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = project();
    let write = "filesystem: {write: [{host: ./data, guest: /data}]";
    let file = "/data/a/b/kept/file";
    is_refused(&scratch, &format!("{write}, hide: [{file}]}}\n"), "hide the directory");
    let read = format!("{write}, read: [{{host: .{file}, guest: {file}}}]}}\n");
    is_refused(&scratch, &read, "saves it again");
    let workspace =
        "filesystem: {workspace: {host: ./data, mode: write}, hide: [/workspace/a/b/kept/file]}\n";
    is_refused(&scratch, workspace, "hide the directory");
}

#[test]
fn hidden_file_stays_hidden_when_the_host_replaces_it() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = project();
    let file = scratch.path().join("data/a/b/kept/file");
    for (shown, place) in [
        ("workspace: {host: ./data}", "/workspace"),
        ("workspace: {host: ./data, mode: read}", "/workspace"),
        ("read: [{host: ./data, guest: /data}]", "/data"),
    ] {
        let hidden = format!("{place}/a/b/kept/file");
        let text = format!("filesystem: {{{shown}, hide: [{hidden}]}}\n");
        let policy = scratch.file("policy.yaml", text);
        let act = format!("echo ready; read go; cat {hidden}; echo end");
        let mut run = Conversation::start(command(&["--policy", &policy, "--", "sh", "-c", &act]));
        assert_eq!(run.hear(), "ready");
        let next = scratch.file("data/next", "canary\n");
        fs::rename(next, &file).unwrap();
        run.say("go");
        assert_eq!(run.hear(), "end", "{shown}");
        assert_eq!(run.end(), 0);
    }
}

#[test]
fn read_only_path_that_is_also_mounted_writable_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = project();
    for text in [
        "filesystem: {write: [{host: ./data, guest: /data}], read: [{host: ./data/a, guest: /ro}]}\n",
        "filesystem: {write: [{host: ./data, guest: /data}], read: [{host: ./data, guest: /ro}]}\n",
        "filesystem: {read: [{host: ./data/a, guest: /ro}], workspace: {host: ./data, mode: write}}\n",
        "filesystem: {write: [{host: ./data, guest: /data}], workspace: {host: ./data/a}}\n",
        "sandbox_mounts: {input_dir: ./data/a, output_dir: ./data}\n",
    ] {
        is_refused(&scratch, text, "it shall not be changed");
    }
    if !is_root() {
        return not_run("only root mounts one directory over another");
    }
    let alias = scratch.directory("alias");
    let text = "filesystem: {write: [{host: ./data, guest: /data}], \
                read: [{host: ./alias, guest: /ro}]}\n";
    let policy = scratch.file("policy.yaml", text);
    let words = ["run", "--policy", &policy, "--", "echo", "ran"];
    let run = with_bind(&scratch.path().join("data/a"), Path::new(&alias), &words);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains("it shall not be changed"), "{}", run.stderr);
}

/// Runs Stockade in a mount namespace where `source` is also bind-mounted at `place`.
pub(crate) fn with_bind(source: &Path, place: &Path, words: &[&str]) -> Run {
    let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(source).arg(place);
    command.arg(binary()).args(words);
    finish(command)
}

#[test]
fn symbolic_or_hard_link_to_a_hidden_file_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = project();
    symlink("a/b/kept/file", scratch.path().join("data/link")).unwrap();
    symlink("a", scratch.path().join("data/way")).unwrap();
    let hide = |path: &str| {
        format!("filesystem: {{workspace: {{host: ./data}}, hide: [/workspace/{path}]}}\n")
    };
    is_refused(&scratch, &hide("link"), "symbolic link");
    is_refused(&scratch, &hide("way/b/kept/file"), "symbolic link");
    let file = scratch.path().join("data/a/b/kept/file");
    fs::hard_link(&file, scratch.path().join("data/again")).unwrap();
    is_refused(&scratch, &hide("a/b/kept/file"), "second name");
    let text =
        "filesystem: {workspace: {host: ./data, mode: write}, hide: [/workspace/a/b/kept]}\n";
    is_refused(&scratch, text, "second name");
}

fn decides_and_is_refused(run: &Run) {
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains("decides what the next run may do"), "{}", run.stderr);
}

/// A policy that mounts the directory writable.
fn write(scratch: &Scratch) -> String {
    format!("filesystem: {{write: [{{host: {}/data, guest: /data}}]}}\n", scratch.text())
}

const PROFILE: &str = "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": []}";

#[test]
fn policy_that_the_program_could_change_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = project();
    let run = |policy: &str| stockade(&["--policy", policy, "--", "echo", "ran"]);
    let good = scratch.file("policy.yaml", write(&scratch));
    assert_eq!(run(&good).text(), "ran\n");
    let inside = scratch.file("data/policy.yaml", write(&scratch));
    decides_and_is_refused(&run(&inside));
    let link = scratch.path().join("data/link.yaml");
    symlink("../policy.yaml", &link).unwrap();
    decides_and_is_refused(&run(&link.display().to_string()));
    let way = scratch.path().join("way.yaml");
    symlink("data/link.yaml", &way).unwrap();
    decides_and_is_refused(&run(&way.display().to_string()));
    let mut input = command(&["--policy", "-", "--", "echo", "ran"]);
    let text = fs::File::open(&inside).unwrap();
    let output = input.current_dir(scratch.path().join("data")).stdin(text).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", String::from_utf8_lossy(&output.stderr));
    fs::remove_file(&inside).unwrap();
    let twice = scratch.file("twice.yaml", write(&scratch));
    fs::hard_link(&twice, scratch.path().join("data/again")).unwrap();
    decides_and_is_refused(&run(&twice));
}

#[test]
fn seccomp_profile_that_the_program_could_change_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = project();
    scratch.file("profile.json", PROFILE);
    scratch.file("data/profile.json", PROFILE);
    let profile =
        |path: &str| scratch.file("policy.yaml", format!("{}seccomp: {path}\n", write(&scratch)));
    let run = |policy: &str| stockade(&["--policy", policy, "--", "echo", "ran"]);
    assert_eq!(run(&profile("./profile.json")).text(), "ran\n");
    symlink("data/profile.json", scratch.path().join("inside.json")).unwrap();
    decides_and_is_refused(&run(&profile("./inside.json")));
    symlink("../profile.json", scratch.path().join("data/link.json")).unwrap();
    symlink("data/link.json", scratch.path().join("through.json")).unwrap();
    decides_and_is_refused(&run(&profile("./through.json")));
    fs::remove_file(scratch.path().join("data/profile.json")).unwrap();
    fs::hard_link(scratch.path().join("profile.json"), scratch.path().join("data/p")).unwrap();
    decides_and_is_refused(&run(&profile("./profile.json")));
}

#[test]
fn policy_that_a_bind_mount_makes_writable_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    if !is_root() {
        return not_run("only root mounts one directory over another");
    }
    let scratch = project();
    let kept = scratch.directory("kept");
    scratch.file("kept/policy.yaml", write(&scratch));
    let alias = scratch.directory("data/alias");
    let policy = format!("{kept}/policy.yaml");
    let words = ["run", "--policy", &policy, "--", "echo", "ran"];
    assert_eq!(stockade(&words[1..]).text(), "ran\n");
    decides_and_is_refused(&with_bind(Path::new(&kept), Path::new(&alias), &words));
}

#[test]
fn tools_file_that_the_program_could_change_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = project();
    let tools = "tools: [{name: say, description: d, command: [/bin/echo], input_schema: {type: object}}]\n";
    let kept = scratch.file("tools.yaml", tools);
    let mount = format!("{}/data:/data:rw", scratch.text());
    let run = |tools: &str| stockade(&["--tools", tools, "--mount", &mount, "--", "echo", "ran"]);
    assert_eq!(run(&kept).text(), "ran\n");
    let link = scratch.path().join("data/tools.yaml");
    symlink(&kept, &link).unwrap();
    decides_and_is_refused(&run(&link.display().to_string()));
}

#[test]
fn hidden_directory_that_a_bind_mount_shows_again_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    if !is_root() {
        return not_run("only root makes bind mounts");
    }
    let scratch = Scratch::new();
    scratch.directory("data");
    let hidden = scratch.directory("data/secret");
    let alias = scratch.directory("data/alias");
    scratch.file("data/secret/key", "canary\n");
    let text = "filesystem: {workspace: {host: ./data, mode: write}, hide: [/workspace/secret]}\n";
    let policy = scratch.file("policy.yaml", text);
    let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", &hidden, &alias]).arg(binary());
    command.args(["run", "--policy", &policy, "--", "cat", "alias/key"]);
    let run = finish(command);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains(&alias), "{}", run.stderr);
}
