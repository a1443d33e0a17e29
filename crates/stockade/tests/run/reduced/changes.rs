//! No program behind the wall changes files of the host.

use super::{can_be_built, inside, outside};
use stockade_testing::{Scratch, set_mode};

/// Tries every way to change what is below a directory, and prints those that work.
const CHANGE: &str = r#"
import ctypes, os, sys
place = sys.argv[1]
file, folder = place + "/file", place + "/folder"
libc = ctypes.CDLL(None, use_errno=True)
def behind(change):
    descriptor = os.open(file, os.O_RDONLY)
    try: change(descriptor)
    finally: os.close(descriptor)
acts = {
    "append": lambda: open(file, "a").write("x"),
    "truncate": lambda: os.truncate(file, 0),
    "create": lambda: open(place + "/new", "w").close(),
    "mkdir": lambda: os.mkdir(place + "/made"),
    "symlink": lambda: os.symlink("/", place + "/symlink"),
    "link": lambda: os.link(file, place + "/link"),
    "fifo": lambda: os.mkfifo(place + "/fifo"),
    "chmod": lambda: os.chmod(file, 0o666),
    "fchmod": lambda: behind(lambda it: os.fchmod(it, 0o666)),
    "chown": lambda: os.chown(file, os.getuid(), os.getgid()),
    "times": lambda: os.utime(file, (1, 1)),
    "times now": lambda: os.utime(file),
    "times behind": lambda: behind(lambda it: os.utime(it, (1, 1))),
    "attribute": lambda: os.setxattr(file, "user.canary", b"x"),
    "rename": lambda: os.rename(folder, place + "/other"),
    "unlink": lambda: os.unlink(file),
}
done = []
for name, act in acts.items():
    try: act()
    except OSError: continue
    done.append(name)
print(",".join(done))
"#;

const EVERYTHING: &str = "append,truncate,create,mkdir,symlink,link,fifo,chmod,fchmod,chown,times,\
                          times now,times behind,attribute,rename,unlink\n";

/// A directory that every user may change.
fn open_to_all() -> Scratch {
    let scratch = Scratch::new();
    set_mode(scratch.path(), 0o777);
    let file = scratch.file("file", "content");
    set_mode(std::path::Path::new(&file), 0o666);
    scratch.directory("folder");
    scratch
}

#[test]
fn unlisted_files_are_not_changed_in_any_way() {
    if !can_be_built() {
        return;
    }
    let scratch = open_to_all();
    assert_eq!(outside(CHANGE, &[scratch.text()]).text(), EVERYTHING);
    let scratch = open_to_all();
    assert_eq!(inside(&["--quiet"], CHANGE, &[scratch.text()]).text(), "\n");
    let mount = format!("{0}:{0}", scratch.text());
    // Also with a read-only mount, through which the program can open a descriptor.
    assert_eq!(inside(&["--quiet", "--mount", &mount], CHANGE, &[scratch.text()]).text(), "\n");
    assert_eq!(std::fs::read(scratch.path().join("file")).unwrap(), b"content");
}

#[test]
fn writable_directory_is_changed_and_its_siblings_are_not() {
    if !can_be_built() {
        return;
    }
    let scratch = open_to_all();
    let place = scratch.directory("writable");
    set_mode(std::path::Path::new(&place), 0o777);
    let mount = format!("{place}:{place}:rw");
    let script = format!(
        "echo new > {place}/file; mkdir {place}/made; mv {place}/file {place}/made/; \
         echo x > {0}/beside; mv {place}/made {0}/; cat {place}/made/file",
        scratch.text()
    );
    let run = super::reduced(&["--quiet", "--mount", &mount, "--", "sh", "-c", &script]);
    assert_eq!(run.stdout, "new\n", "{}", run.stderr);
    assert!(scratch.path().join("writable/made/file").exists());
    assert!(!scratch.path().join("beside").exists() && !scratch.path().join("made").exists());
}

#[test]
fn extended_attributes_of_unlisted_files_are_not_readable() {
    if !can_be_built() {
        return;
    }
    let scratch = open_to_all();
    let file = format!("{}/file", scratch.text());
    let mark = "import os, sys\nos.setxattr(sys.argv[1], 'user.canary', b'told')";
    assert_eq!(outside(mark, &[&file]).text(), "");
    let ask = "import os, sys
try: print(os.listxattr(sys.argv[1]), os.getxattr(sys.argv[1], 'user.canary'))
except OSError as error: print(error.strerror)";
    assert!(outside(ask, &[&file]).text().contains("told"));
    assert_eq!(inside(&["--quiet"], ask, &[&file]).text(), "Operation not supported\n");
}
