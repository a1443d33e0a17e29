//! Host files that are mounted inside a sandbox.

use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::{is_root, not_run, outside, report, stockade, walls_can_be_built};
use stockade_testing::{Scratch, set_mode};

fn mount(host: &str, guest: &str) -> String {
    format!("{host}:{guest}")
}

#[test]
fn mounted_file_is_readable_and_its_siblings_are_not_visible() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("data.csv", "a,b\n");
    scratch.file("beside", "canary");
    let mount = mount(&file, "/input/data.csv");
    let run = stockade(&["--mount", &mount, "--", "sh", "-c", "cat /input/data.csv; ls /input"]);
    assert_eq!(run.text(), "a,b\ndata.csv\n");
    let write = "echo x > /input/data.csv; rm -f /input/data.csv; mv /input /other; \
                 chmod 666 /input/data.csv; ln /input/data.csv /tmp/l; truncate -s 0 /input/data.csv";
    assert_ne!(stockade(&["--quiet", "--mount", &mount, "--", "sh", "-c", write]).code, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a,b\n");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o7777, 0o644);
}

#[test]
fn private_file_of_the_caller_can_be_mounted() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.directory("private");
    let file = scratch.file("private/notes", "mine\n");
    set_mode(Path::new(&file), 0o600);
    set_mode(Path::new(&folder), 0o700);
    let run = stockade(&["--mount", &mount(&file, "/notes"), "--", "cat", "/notes"]);
    assert_eq!(run.text(), "mine\n");
    let run = stockade(&["--mount", &mount(&folder, "/data"), "--", "cat", "/data/notes"]);
    assert_eq!(run.text(), "mine\n");
    let script = scratch.file("private.py", "print('ran')\n");
    set_mode(Path::new(&script), 0o600);
    assert_eq!(stockade(&[&script]).text(), "ran\n");
}

#[test]
fn mounted_directory_is_read_only_at_every_depth() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.directory("data");
    scratch.directory("data/deep");
    scratch.file("data/deep/file", "kept");
    set_mode(&scratch.path().join("data/deep/file"), 0o666);
    let try_all = "cd $1; echo x > deep/file; echo x > new; rm deep/file; mv deep moved; touch deep; \
                   mkdir sub; ln -s a b; chmod 777 deep; cat deep/file";
    let control = scratch.directory("control");
    outside(&["cp", "-r", &folder, &control]);
    let host = outside(&["sh", "-c", try_all, "sh", &format!("{control}/data")]);
    assert!(!host.stdout.contains("kept"), "without the wall everything changes");
    let words = ["--quiet", "--mount", &mount(&folder, "/data"), "--"];
    let run = stockade(&[&words[..], &["sh", "-c", try_all, "sh", "/data"]].concat());
    assert_eq!(run.stdout, "kept", "{}", run.stderr);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn written_files_belong_to_the_caller_and_keep_their_modes() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let out = scratch.directory("out");
    set_mode(Path::new(&out), 0o700);
    let write = "set -e; cd /out; echo a > plain; mkdir folder; echo b > folder/deep; \
                 umask 077; echo c > private; ln -s plain link; \
                 python3 -c \"open('big','wb').write(b'x' * 5_000_000)\"; stat -c %u:%g plain";
    let words = ["--mount", &format!("{out}:/out:rw"), "--", "sh", "-c", write];
    assert_eq!(stockade(&words).text(), "1000:1000\n");
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    for (name, mode) in [
        ("plain", 0o100_644),
        ("folder", 0o40_755),
        ("folder/deep", 0o100_644),
        ("private", 0o100_600),
        ("link", 0o120_777),
        ("big", 0o100_600),
    ] {
        let found = Path::new(&out).join(name).symlink_metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode()), (user, group, mode), "{name}");
    }
    assert_eq!(std::fs::metadata(format!("{out}/big")).unwrap().len(), 5_000_000);
    assert_eq!(std::fs::metadata(&out).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn no_set_user_id_file_can_be_left_on_the_host() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let make = "import ctypes, os, sys
os.chdir(sys.argv[1]); os.umask(0)
libc = ctypes.CDLL(None)
for number, mode in enumerate([0o4755, 0o2755, 0o6755]):
    acts = [
        lambda name: (open(name, 'x').close(), os.chmod(name, mode)),
        lambda name: (open(name, 'x').close(), libc.fchmodat(-100, name.encode(), mode, 0)),
        lambda name: os.close(os.open(name, os.O_CREAT | os.O_WRONLY, mode)),
        lambda name: libc.creat(name.encode(), mode),
        lambda name: os.mknod(name, 0o100000 | mode),
        lambda name: libc.syscall(437, -100, name.encode(), (ctypes.c_uint64 * 3)(0o102, mode, 0), 24),
    ]
    for act, _ in enumerate(acts):
        try: acts[act](f'{number}-{act}')
        except OSError: pass";
    let marked = |folder: &str| {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        entries.filter(|entry| entry.metadata().unwrap().mode() & 0o6000 != 0).count()
    };
    let control = scratch.directory("control");
    outside(&["python3", "-c", make, &control]).text();
    assert!(marked(&control) >= 12, "without the wall {} are marked", marked(&control));
    let out = scratch.directory("out");
    let words = ["--mount", &format!("{out}:/out:rw"), "--", "python3", "-c", make, "/out"];
    stockade(&words).text();
    assert_eq!(marked(&out), 0);
}

#[test]
fn set_user_id_programs_of_the_host_give_no_rights() {
    if !walls_can_be_built() {
        return;
    }
    if !is_root() {
        return not_run("only root can make a program that gives root's rights");
    }
    let scratch = Scratch::new();
    let program = format!("{}/id", scratch.text());
    std::fs::copy("/usr/bin/id", &program).unwrap();
    set_mode(Path::new(&program), 0o4755);
    let mut nobody = Command::new(&program);
    std::os::unix::process::CommandExt::uid(nobody.arg("-u"), 65534);
    assert_eq!(crate::support::finish(nobody).text(), "0\n", "it works without the wall");
    let run = stockade(&["--mount", &mount(&program, "/opt/id"), "--", "/opt/id", "-u"]);
    assert_eq!(run.text(), "1000\n");
}

#[test]
fn links_in_a_mount_do_not_lead_outside_it() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.directory("data");
    let secret = scratch.file("secret", "canary");
    symlink(&secret, format!("{folder}/absolute")).unwrap();
    symlink("../secret", format!("{folder}/relative")).unwrap();
    symlink("/proc/1/root/etc/shadow", format!("{folder}/magic")).unwrap();
    let read = "cat absolute relative magic ../secret ../../secret";
    let host = outside(&["sh", "-c", &format!("cd {folder}; {read}")]);
    assert!(host.stdout.starts_with("canarycanary"), "{}", host.stdout);
    let script = format!("cd /data; {read}");
    let words = ["--quiet", "--mount", &mount(&folder, "/data"), "--", "sh", "-c", &script];
    assert_eq!(stockade(&words).stdout, "");
}

fn refused(source: &str, message: &str, remedy: &str) {
    let run = stockade(&["--mount", &mount(source, "/data"), "--", "true"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{source}: {}", run.stderr);
    assert!(run.stderr.contains(message) && run.stderr.contains(remedy), "{}", run.stderr);
}

#[test]
fn source_that_cannot_be_mounted_is_refused_with_a_remedy() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let real = scratch.file("real", "x");
    let folder = scratch.directory("folder");
    scratch.file("folder/inner", "x");
    let link = format!("{}/link", scratch.text());
    symlink(&real, &link).unwrap();
    let way = format!("{}/way", scratch.text());
    symlink(&folder, &way).unwrap();
    let fifo = format!("{}/fifo", scratch.text());
    outside(&["mkfifo", &fifo]).text();
    let socket = format!("{}/socket", scratch.text());
    let _listener = UnixListener::bind(&socket).unwrap();
    refused(&link, "symbolic link", &real);
    refused(&format!("{way}/inner"), "symbolic link", &format!("{folder}/inner"));
    refused(&format!("{real}-gone"), "No such file", "create it");
    refused(&fifo, "neither a file nor a directory", "name a file or a directory");
    refused(&socket, "neither a file nor a directory", "sockets and devices stay outside");
    refused("/etc/shadow", "/etc/shadow", "  = ");
    refused("/dev/null", "/dev/null", "  = ");
}

#[test]
fn mounts_nest_and_hidden_paths_stay_hidden() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let data = scratch.directory("data");
    scratch.file("data/public", "public");
    scratch.file("data/.env", "canary");
    scratch.directory("data/out");
    scratch.directory("data/keys");
    scratch.file("data/keys/key", "canary");
    let out = scratch.directory("real-out");
    let policy = scratch.file(
        "policy.yaml",
        "filesystem:\n  read: [{ host: ./data, guest: /data }]\n  write: [{ host: ./real-out, \
         guest: /data/out }]\n  hide: [/data/.env, /data/keys]\n",
    );
    let script = "cat /data/public /data/.env /data/keys/key; ls /data/keys; echo done > /data/out/x; \
                  echo no > /data/y";
    assert_eq!(outside(&["cat", &format!("{data}/.env")]).text(), "canary");
    let (_, report) = report(&["--policy", &policy, "--", "sh", "-c", script]);
    assert_eq!(report["stdout"], json!("public"), "{report}");
    assert_eq!(std::fs::read_to_string(format!("{out}/x")).unwrap(), "done\n");
    assert!(!Path::new(&data).join("y").exists() && !Path::new(&data).join("out/x").exists());
}

#[test]
fn mount_below_a_system_directory_shows_the_callers_file() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("replaced", "mine\n");
    let run = stockade(&["--mount", &mount(&file, "/usr/share/dict/words"), "--", "true"]);
    // The host's /usr is mounted read-only, so a mount can only replace an existing path in it.
    if Path::new("/usr/share/dict/words").exists() {
        assert_eq!(run.code, 0, "{}", run.stderr);
    } else {
        assert_eq!(run.code, 125);
        assert!(run.stderr.contains("/usr/share/dict/words"), "{}", run.stderr);
        assert!(run.stderr.contains("choose another place inside"), "{}", run.stderr);
    }
    let over = mount(&file, "/usr/bin/env");
    assert_eq!(stockade(&["--mount", &over, "--", "cat", "/usr/bin/env"]).text(), "mine\n");
}

#[test]
fn mount_over_a_file_that_the_sandbox_provides_replaces_it() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("mine", "mine\n");
    let folder = scratch.directory("folder");
    for place in ["/etc/passwd", "/etc/hosts", "/etc/localtime", "/etc/ld.so.cache", "/etc/new"] {
        let over = mount(&file, place);
        assert_eq!(stockade(&["--mount", &over, "--", "cat", place]).text(), "mine\n", "{place}");
        let over = mount(&folder, place);
        let is_folder = ["--mount", &over, "--", "test", "-d", place];
        assert_eq!(stockade(&is_folder).text(), "", "{place}");
    }
    assert!(stockade(&["--", "cat", "/etc/passwd"]).text().contains("agent"));
}

#[test]
fn directory_mounted_over_a_file_is_refused_with_a_remedy() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.directory("folder");
    let run = stockade(&["--mount", &mount(&folder, "/usr/bin/env"), "--", "true"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    let remedy = "a directory cannot stand where the sandbox has a file";
    assert!(run.stderr.contains("/usr/bin/env") && run.stderr.contains(remedy), "{}", run.stderr);
}

#[test]
fn hidden_path_that_is_missing_at_the_start_can_be_created_later() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    scratch.directory("data");
    let there = scratch.directory("data/there");
    scratch.file("data/there/file", "canary");
    let policy = scratch.file(
        "policy.yaml",
        "filesystem:\n  write: [{ host: ./data, guest: /data }]\n  hide: [/data/there, /data/later]\n",
    );
    // A hidden path that exists stays covered, whatever the program does around it.
    let act = "cd /data; cat there/file; mv there x; rm -rf there; echo y > there; \
               cat x/file there; echo own > later; cat later";
    let (_, report) = report(&["--policy", &policy, "--", "sh", "-c", act]);
    assert_eq!(report["stdout"], json!("own\n"), "{report}");
    assert_eq!(std::fs::read_to_string(format!("{there}/file")).unwrap(), "canary");
}

#[test]
fn more_paths_than_a_socket_buffer_holds_are_mounted() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let deep: PathBuf = std::iter::repeat_n("d".repeat(200), 15).collect();
    let mut policy = "filesystem:\n  read:\n".to_owned();
    for number in 0..100 {
        let folder = scratch.path().canonicalize().unwrap().join(&deep).join(number.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        policy += &format!("    - {}\n", folder.display());
    }
    assert!(policy.len() > 256 << 10);
    let file = scratch.path().join("policy.yaml");
    std::fs::write(&file, policy).unwrap();
    let file = file.to_str().unwrap();
    for provider in [&[][..], &["--provider", "native"]] {
        let run = stockade(&[provider, &["--policy", file, "--", "echo", "ran"]].concat());
        assert_eq!(run.text(), "ran\n");
    }
}

#[test]
fn wall_error_is_reported_when_the_plan_exceeds_the_socket_buffer() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("root");
    for folder in ["usr", "bin"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::os::unix::fs::symlink("/nonexistent", root.join("etc")).unwrap();
    let mut policy = "filesystem:\n  hide:\n".to_owned();
    for number in 0..200 {
        let path: PathBuf = std::iter::repeat_n("h".repeat(200), 15).collect();
        policy += &format!("    - /{}/{number}\n", path.display());
    }
    let file = scratch.path().join("policy.yaml");
    std::fs::write(&file, policy).unwrap();
    let words = ["--root", root.to_str().unwrap(), "--policy", file.to_str().unwrap()];
    let run = stockade(&[&words[..], &["--", "/bin/true"]].concat());
    assert_eq!(run.code, 125, "{}", run.stderr);
    assert!(run.stderr.contains("/etc/passwd"), "{}", run.stderr);
    assert!(run.stderr.contains("the root that was given"), "{}", run.stderr);
    assert!(run.elapsed < Duration::from_secs(20), "{:?}", run.elapsed);
}
