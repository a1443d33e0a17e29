//! Sandboxes cannot communicate through locks and watches on files that both of them see.

use std::process::Command;

use crate::support::{Conversation, command, outside, stockade, walls_can_be_built};
use stockade_testing::Scratch;

/// Locks the named files and watches them with inotify; then prints the number of events.
const HOLD: &str = "import ctypes, fcntl, os, sys
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
held = [open(path) for path in sys.argv[1:]]
for file in held:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(os.open(file.name, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert libc.inotify_add_watch(watch, file.name.encode(), 0x20) >= 0
print('ready', flush=True)
input()
try: print(len(os.read(watch, 65536)) // 16)
except BlockingIOError: print(0)
";

/// Tries the same locks.
const TRY: &str = "import fcntl, sys
for path in sys.argv[1:]:
    try: fcntl.flock(open(path), fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')
    except BlockingIOError: print('held')
";

/// A file in a mounted directory, a mounted single file, and a system file.
struct Shown {
    scratch: Scratch,
    outside: [String; 3],
}

const INSIDE: [&str; 3] = ["/data/file", "/single", "/usr/bin/env"];

impl Shown {
    fn new() -> Shown {
        let scratch = Scratch::new();
        scratch.directory("data");
        let outside = [
            scratch.file("data/file", "shared"),
            scratch.file("single", "shared"),
            "/usr/bin/env".to_owned(),
        ];
        Shown { scratch, outside }
    }

    /// The arguments of a run that mounts the files and passes their names to a program.
    fn words(&self, program: &str) -> Vec<String> {
        let mounts =
            [format!("{}/data:/data", self.scratch.text()), format!("{}:/single", self.outside[1])];
        let mut words = Vec::new();
        for mount in mounts {
            words.extend(["--mount".to_owned(), mount]);
        }
        words.extend(["--", "python3", "-c", program].map(str::to_owned));
        words.extend(INSIDE.map(str::to_owned));
        words
    }
}

fn plain(program: &str, shown: &Shown) -> Vec<String> {
    let words = ["python3", "-c", program].map(str::to_owned);
    words.into_iter().chain(shown.outside.clone()).collect()
}

#[test]
fn locks_and_watches_of_one_sandbox_do_not_affect_another_or_the_host() {
    if !walls_can_be_built() {
        return;
    }
    let shown = Shown::new();
    let words = plain(HOLD, &shown);
    let mut holder = Command::new(&words[0]);
    holder.args(&words[1..]);
    let mut host = Conversation::start(holder);
    assert_eq!(host.hear(), "ready");
    assert_eq!(outside(&plain(TRY, &shown)).text(), "held\n".repeat(3));
    host.say("");
    let seen: usize = host.hear().parse().unwrap();
    assert!(seen >= 3, "without a wall every use is seen, not {seen}");
    assert_eq!(host.end(), 0);

    let mut first = Conversation::start(command(&shown.words(HOLD)));
    assert_eq!(first.hear(), "ready");
    assert_eq!(stockade(&shown.words(TRY)).text(), "free\n".repeat(3));
    assert_eq!(outside(&plain(TRY, &shown)).text(), "free\n".repeat(3));
    first.say("");
    assert_eq!(first.hear(), "0", "the use by another sandbox or the host was seen");
    assert_eq!(first.end(), 0);
}

#[test]
fn mounted_single_file_is_read_only_and_shows_changes_of_the_host() {
    if !walls_can_be_built() {
        return;
    }
    let shown = Shown::new();
    let talk = "import sys
print(open('/single').read(), flush=True)
input()
print(open('/single').read(), flush=True)
for path in ['/single', '/data/file', '/data/new']:
    try: open(path, 'a'); print('written')
    except OSError as error: print(error.strerror)
";
    let mut sandbox = Conversation::start(command(&shown.words(talk)));
    assert_eq!(sandbox.hear(), "shared");
    std::fs::write(&shown.outside[1], "changed").unwrap();
    sandbox.say("");
    assert_eq!(sandbox.hear(), "changed");
    for _ in 0..3 {
        assert_eq!(sandbox.hear(), "Read-only file system");
    }
    assert_eq!(sandbox.end(), 0);
    assert_eq!(std::fs::read_to_string(&shown.outside[0]).unwrap(), "shared");
}
