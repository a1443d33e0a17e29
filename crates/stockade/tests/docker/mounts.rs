//! Host files in a container: read-only input, and output that belongs to the caller.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;

use stockade_testing::{Scratch, set_mode};

use crate::support::{command, finish, tests};

tests![callers_files_are_read_and_written_as_the_caller];

/// An ordinary user, whose files no other user may read.
const USER: u32 = 31_415;

fn callers_files_are_read_and_written_as_the_caller(runtime: &'static str) {
    let place = Scratch::new();
    let (input, output) = (place.directory("in"), place.directory("out"));
    fs::write(format!("{input}/data"), "input").expect("a file can be written");
    for path in [&input, &output, &format!("{input}/data")] {
        chown(path, Some(USER), Some(USER)).expect("root gives files away");
        set_mode(path.as_ref(), 0o700);
    }
    let script = "
import os
print(open('/input/data').read(), os.getuid())
try:
    open('/input/new', 'w')
except OSError as error:
    print(error.errno)
os.mkdir('/output/made')
with open('/output/made/file', 'w') as file: file.write('output')
os.chmod('/output/made/file', 0o640)
";
    let (read, write) = (format!("{input}:/input"), format!("{output}:/output:rw"));
    let flags = ["--no-record", "--mount", &read, "--mount", &write];
    let mut command = command(runtime, &flags, &["python3", "-c", script]);
    command.uid(USER).gid(USER).env("HOME", place.path());
    assert_eq!(finish(command).text(), format!("input {USER}\n30\n"));
    assert_eq!(fs::read_dir(&input).expect("it exists").count(), 1);
    let made = format!("{output}/made/file");
    assert_eq!(fs::read_to_string(&made).expect("the program wrote it"), "output");
    let found = fs::metadata(&made).expect("it exists");
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (USER, USER, 0o640));
    assert_eq!(fs::metadata(format!("{output}/made")).expect("it exists").uid(), USER);
}
