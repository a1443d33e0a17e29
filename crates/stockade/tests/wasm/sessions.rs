//! Sessions: many executions, one set of files.

use std::io::{BufRead, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use stockade_testing::{Run, Scratch, finish, finish_with, under_test, wait_for};

use crate::support::{directory, is_machine, named, patience, stockade, wall};
use crate::tools::TOOLS;

named![
    files_stay_and_interpreter_state_does_not,
    killed_program_leaves_the_session_usable,
    files_are_copied_in_and_out,
    twenty_executions_run_at_once,
    destroyed_session_is_gone,
    session_comes_back_to_a_checkpoint_of_its_files,
    forks_share_no_file,
    files_of_a_single_run_are_kept_and_forked,
    running_program_goes_on_after_a_checkpoint_of_one_moment,
    posture_limits_and_tools_are_those_of_the_session_after_a_restore,
    checkpoint_without_the_places_of_its_wall_is_refused_by_name,
    checkpoint_of_this_wall_is_restored_by_the_native_wall,
];

/// A session that ends with the test.
pub(crate) struct Session {
    pub(crate) name: String,
    pub(crate) home: Scratch,
}

impl Session {
    pub(crate) fn new() -> Session {
        Session::with(&[])
    }

    pub(crate) fn with(options: &[&str]) -> Session {
        let home = Scratch::new();
        let mut session = Session { name: String::new(), home };
        let words = [&["create", "--provider", wall()], options].concat();
        session.name = session.text(&words).trim().to_owned();
        session
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let home = self.home.path();
        let mut command = stockade();
        command.env("STOCKADE_STATE", home.join("state")).env("STOCKADE_STORE", home.join("store"));
        command.env("XDG_STATE_HOME", home).args(arguments);
        command
    }

    /// What a command prints that succeeds.
    #[track_caller]
    pub(crate) fn text(&self, arguments: &[&str]) -> String {
        let run = finish(self.command(arguments));
        assert_eq!(run.code, 0, "{arguments:?}: {run:?}");
        run.stdout
    }

    pub(crate) fn run(&self, code: &str) -> Run {
        self.run_in(&self.name, code)
    }

    fn run_in(&self, name: &str, code: &str) -> Run {
        let arguments = ["code", "--language", "python", name, "-"];
        finish_with(self.command(&arguments), code.as_bytes())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Every session of the test's own state, with its forks. A test may have removed some.
        let listed = self.command(&["ls", "--quiet"]).output();
        let listed = listed.map(|listed| listed.stdout).unwrap_or_default();
        for name in String::from_utf8_lossy(&listed).split_whitespace() {
            let _ = self.command(&["rm", "--force", name]).output();
        }
    }
}

fn files_stay_and_interpreter_state_does_not() {
    let session = Session::new();
    let code = "import builtins, sys, os\nbuiltins.leak = 1\nsys.leak = 1\nos.environ['LEAK'] = '1'\n\
                sys.path.append('/leak')\nopen('kept.txt', 'w').write('kept')";
    assert_eq!(session.run(code).text(), "");
    let code = "import builtins, sys, os\n\
                print(hasattr(builtins, 'leak'), hasattr(sys, 'leak'), dict(os.environ), '/leak' in sys.path)\n\
                print(open('kept.txt').read())";
    assert_eq!(session.run(code).text(), "False False {} False\nkept\n");
}

fn killed_program_leaves_the_session_usable() {
    let session = Session::new();
    let start = Instant::now();
    let arguments = ["code", "--timeout", "500ms", "--language", "python", &session.name, "-"];
    let run = finish_with(session.command(&arguments), b"while True: pass");
    assert_eq!(run.code, 124, "{run:?}");
    assert!(start.elapsed() < patience(Duration::from_secs(5)), "{:?}", start.elapsed());
    assert_eq!(session.run("print('still here')").text(), "still here\n");
}

fn files_are_copied_in_and_out() {
    let session = Session::new();
    let place = session.home.path().join("files");
    std::fs::create_dir(&place).expect("new");
    std::fs::write(place.join("a.txt"), "sent").expect("new");
    let source = place.join("a.txt");
    let target = format!("{}:/workspace/b.txt", session.name);
    finish(session.command(&["cp", source.to_str().expect("text"), &target])).text();
    assert_eq!(
        session.run("print(open('b.txt').read()); open('c.txt', 'w').write('made')").text(),
        "sent\n"
    );
    let back = place.join("c.txt");
    let source = format!("{}:/workspace/c.txt", session.name);
    finish(session.command(&["cp", &source, back.to_str().expect("text")])).text();
    assert_eq!(std::fs::read_to_string(back).expect("copied"), "made");
}

fn twenty_executions_run_at_once() {
    let session = Session::new();
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..20)
            .map(|number| {
                let session = &session;
                scope.spawn(move || {
                    let code = format!("import time; time.sleep(0.2); print({number})");
                    (number, session.run(&code))
                })
            })
            .collect();
        for run in runs {
            let (number, run) = run.join().expect("no panic");
            assert_eq!(run.text(), format!("{number}\n"));
        }
    });
}

/// Asserts that a command is refused, and that the refusal has all words.
#[track_caller]
pub(crate) fn refused(run: &Run, words: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{run:?}");
    for word in words {
        assert!(run.stderr.contains(word), "no {word:?} in {run:?}");
    }
}

/// Makes every kind of entry that this wall has.
const MAKE: &str = "
import os
os.makedirs('deep/empty')
open('deep/file', 'w').write('content')
os.link('deep/file', 'same')
os.symlink('deep/file', 'link')
open('/tmp/note', 'w').write('note')
with open('sparse', 'wb') as file:
    file.truncate(3 << 20)
    file.seek(1 << 20)
    file.write(b'middle')
os.utime('link', (1, 1_000_000_000))
";

/// Prints every entry.
const LIST: &str = "
import hashlib, os
for place in ('.', '/tmp', '/var/tmp'):
    for folder, names, files in sorted(os.walk(place)):
        for name in sorted(names + files):
            path = os.path.join(folder, name)
            found = os.lstat(path)
            if os.path.islink(path): content = os.readlink(path)
            elif os.path.isdir(path): content = ''
            else: content = hashlib.sha256(open(path, 'rb').read()).hexdigest()
            print(path, found.st_mode, found.st_size, found.st_mtime_ns, content)
";

fn session_comes_back_to_a_checkpoint_of_its_files() {
    let session = Session::new();
    let name = session.name.as_str();
    assert_eq!(session.run(MAKE).text(), "");
    let before = session.run(LIST).text().to_owned();
    assert_eq!(before.lines().count(), 7, "{before}");
    let reference = format!("{name}/first");
    assert_eq!(session.text(&["checkpoint", name, "first"]).trim(), reference);
    let change = "import os, shutil\nshutil.rmtree('deep')\nopen('same', 'w').write('other')\n\
                  os.remove('/tmp/note')\nopen('new', 'w').write('new')";
    assert_eq!(session.run(change).text(), "");
    let changed = session.text(&["diff", name, "--from", "first"]);
    for path in ["new", "same", "deep/file"] {
        assert!(changed.contains(path), "no {path} in {changed}");
    }
    session.text(&["restore", name, "first"]);
    assert_eq!(session.run(LIST).text(), before);
    let same = "open('same', 'a').write('!')\nprint(open('deep/file').read(), open('link').read())";
    assert_eq!(session.run(same).text(), "content! content!\n");
    // Through a file, into an empty store.
    let parcel = session.home.path().join("first.tar.zst");
    session.text(&["export", &reference, parcel.to_str().expect("text")]);
    session.text(&["checkpoint", "rm", &reference]);
    session.text(&["store", "gc"]);
    session.text(&["import", parcel.to_str().expect("text")]);
    session.text(&["discard", name]);
    assert_eq!(session.run(LIST).text(), "");
    session.text(&["restore", name, "first"]);
    assert_eq!(session.run(LIST).text(), before);
}

fn forks_share_no_file() {
    let session = Session::with(&["--env", "COLOUR=blue"]);
    let name = session.name.as_str();
    session.run("open('file', 'w').write('base')").text();
    session.text(&["checkpoint", name, "base"]);
    let forks = session.text(&["fork", name, "-n", "2", "--from", "base", "--name", "idea"]);
    assert_eq!(forks, "idea-1\nidea-2\n");
    session.run_in("idea-1", "open('file', 'w').write('one')").text();
    let show = "import os; print(open('file').read(), os.environ['COLOUR'])";
    assert_eq!(session.run_in("idea-1", show).text(), "one blue\n");
    assert_eq!(session.run_in("idea-2", show).text(), "base blue\n");
    assert_eq!(session.run(show).text(), "base blue\n");
    // Of a session as it is now, and without its interpreter.
    session.run_in("idea-1", "import builtins; builtins.leak = 1").text();
    let now = session.text(&["fork", "idea-1"]);
    let show = "import builtins; print(open('file').read(), hasattr(builtins, 'leak'))";
    assert_eq!(session.run_in(now.trim(), show).text(), "one False\n");
}

fn files_of_a_single_run_are_kept_and_forked() {
    let session = Session::new();
    let arguments = ["run", "--provider", wall(), "--keep", "first", "--language", "python", "-"];
    let kept = finish_with(session.command(&arguments), b"open('made', 'w').write('made')");
    assert_eq!(kept.text(), "");
    let fork = session.text(&["fork", "run", "--from", "first"]);
    assert_eq!(session.run_in(fork.trim(), "print(open('made').read())").text(), "made\n");
}

fn running_program_goes_on_after_a_checkpoint_of_one_moment() {
    let session = Session::new();
    let name = session.name.as_str();
    // Both files have the same number at every moment, or the first the next one.
    let code = "
for name in ('a', 'b'):
    open(name, 'w').write('%9d' % 0)
a, b = open('a', 'r+'), open('b', 'r+')
number = 0
while True:
    number += 1
    for file in (a, b):
        file.seek(0)
        file.write('%9d' % number)
        file.flush()
    if number == 100: print('counting', flush=True)
";
    let arguments = ["code", "--timeout", "60s", "--language", "python", name, "-"];
    let mut counting = session.command(&arguments);
    counting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut counting = counting.spawn().expect("the command starts");
    counting.stdin.take().expect("piped").write_all(code.as_bytes()).expect("it reads");
    let mut line = String::new();
    let stdout = counting.stdout.take().expect("piped");
    std::io::BufReader::new(stdout).read_line(&mut line).expect("text");
    assert_eq!(line, "counting\n");
    for number in 0..5 {
        session.text(&["checkpoint", name, &format!("c{number}")]);
    }
    let restore = ["restore", name, "c0"];
    refused(&finish(session.command(&restore)), &["programs run in the session", "--force"]);
    let read = "print(int(open('a').read()), int(open('b').read()))";
    let numbers = |name: &str| {
        let shown = session.run_in(name, read).text().to_owned();
        let words = shown.split_whitespace().map(|word| word.parse().expect("a number"));
        <[u64; 2]>::try_from(words.collect::<Vec<u64>>()).expect("two numbers")
    };
    for number in 0..5 {
        let fork = session.text(&["fork", name, "--from", &format!("c{number}")]);
        let [a, b] = numbers(fork.trim());
        assert!(a >= 100 && a - b <= 1, "{a} {b}");
        session.text(&["rm", "--force", fork.trim()]);
    }
    // The micro-VM runs one program at a time.
    if !is_machine() {
        let before = numbers(name);
        wait_for("the program goes on", || (numbers(name) != before).then_some(()));
    }
    session.text(&["restore", "--force", name, "c0"]);
    counting.wait().expect("it has ended");
    assert!(numbers(name)[0] >= 100);
}

fn posture_limits_and_tools_are_those_of_the_session_after_a_restore() {
    let (_scratch, path) = directory(&[("t.yaml", TOOLS)]);
    let tools = path.join("t.yaml");
    let session = Session::with(&["--disk", "4m", "--tools", tools.to_str().expect("text")]);
    let name = session.name.as_str();
    let inspected = || -> Value {
        serde_json::from_str(&session.text(&["inspect", name])).expect("inspect prints JSON")
    };
    let before = inspected()[0].clone();
    session.run("open('kept', 'wb').write(bytes(3 << 20))").text();
    session.text(&["checkpoint", name, "first"]);
    session.text(&["restore", name, "first"]);
    let after = inspected()[0].clone();
    for field in ["policy_text", "controls", "created", "ttl_seconds", "name", "record"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    assert_eq!(session.run("print(double(21))").text(), "42\n");
    let code = "
import os
try:
    open('more', 'wb').write(bytes(2 << 20))
except OSError as error:
    print('full')
os.remove('kept')
open('more', 'wb').write(bytes(2 << 20))
print('room')
try:
    http_get('http://example.test/')
except PermissionError:
    print('denied')
";
    assert_eq!(session.run(code).text(), "full\nroom\ndenied\n");
}

fn checkpoint_without_the_places_of_its_wall_is_refused_by_name() {
    if !stockade_testing::walls_can_be_built(&under_test(env!("CARGO_BIN_EXE_stockade"))) {
        return;
    }
    let session = Session::new();
    session.text(&["create", "--provider", "native", "--name", "other"]);
    session.text(&["checkpoint", "other", "base"]);
    assert_eq!(session.text(&["restore", "other", "base"]), "other\n", "the checkpoint is good");
    session.run("open('kept.txt', 'w').write('kept')").text();
    let run = finish(session.command(&["restore", &session.name, "other/base"]));
    refused(&run, &["the sandbox has no such writable place at /run", "use the wall"]);
    assert_eq!(session.run("print(open('kept.txt').read())").text(), "kept\n");
}

fn checkpoint_of_this_wall_is_restored_by_the_native_wall() {
    if !stockade_testing::walls_can_be_built(&under_test(env!("CARGO_BIN_EXE_stockade"))) {
        return;
    }
    let session = Session::new();
    session.run(MAKE).text();
    session.text(&["checkpoint", &session.name, "base"]);
    session.text(&["create", "--provider", "native", "--name", "other"]);
    session.text(&["restore", "other", &format!("{}/base", session.name)]);
    let shown = session.text(&["exec", "other", "--", "cat", "deep/file", "link", "/tmp/note"]);
    assert_eq!(shown, "contentcontentnote");
}

fn destroyed_session_is_gone() {
    let session = Session::new();
    session.run("print(1)").text();
    finish(session.command(&["rm", "--force", &session.name])).text();
    assert_ne!(session.run("print(1)").code, 0);
}
