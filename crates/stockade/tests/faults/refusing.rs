//! Runs the binary under a seccomp filter that refuses one system call.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use stockade_sys::{Instruction, ends_within, install_filter, set_no_new_privs};
use stockade_testing::Scratch;

use crate::leftovers::binary;

/// The maximum time of a refused start.
const PATIENCE: Duration = Duration::from_secs(20);

/// The refused calls: those with this number and matching arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) call: libc::c_long,
    /// Argument index, mask of its lower 32 bits, and their value; `upper` selects the upper half.
    pub(crate) when: &'static [(u32, u32, u32)],
    pub(crate) errno: i32,
}

/// Selects the upper 32 bits of an argument.
pub(crate) const fn upper(argument: u32) -> u32 {
    argument | UPPER
}

const UPPER: u32 = 0x80;

/// Selects the upper 32 bits of the calling instruction's address instead of an argument.
pub(crate) const CALLER: u32 = 0x40;

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) pid: u32,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A directory that is writable inside, where a program creates a mark file to prove that it ran.
pub(crate) struct Marked(Scratch);

impl Marked {
    pub(crate) fn new() -> Marked {
        Marked(Scratch::new())
    }

    /// Whether a program ran and created the mark file.
    pub(crate) fn is_marked(&self) -> bool {
        self.mark().exists()
    }

    pub(crate) fn clear(&self) {
        // The file exists only if a program ran.
        let _ = std::fs::remove_file(self.mark());
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn mark(&self) -> PathBuf {
        self.path().join("mark")
    }

    /// `stockade run` of a program that prints and creates the mark file.
    pub(crate) fn command(&self) -> Command {
        self.command_of("echo ran; echo ran > /out/mark", &[])
    }

    /// `stockade run` of a shell script, with the directory at `/out`.
    pub(crate) fn command_of(&self, script: &str, flags: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(["run", "--memory", "100m", "--mount"])
            .arg(format!("{}:/out:rw", self.0.text()))
            .args(flags)
            .args(["--", "sh", "-c", script])
            .current_dir(Path::new("/"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// Runs a command until it exits, and fails if it exceeds [`PATIENCE`].
pub(crate) fn finish(mut command: Command) -> Run {
    let mut child = command.spawn().expect("the binary under test starts");
    let ended = ends_within(&child, PATIENCE).expect("the child can be waited for");
    if !ended {
        child.kill().expect("the child can be killed");
    }
    let pid = child.id();
    let output = child.wait_with_output().expect("the child can be waited for");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(ended, "it does not end: {stdout}{stderr}");
    Run { pid, code: output.status.code(), stdout, stderr }
}

/// Runs a command with some calls refused. A seccomp filter applies to a thread and its children,
/// so a separate thread starts the command.
pub(crate) fn finish_refusing(command: Command, refused: &[Refused]) -> Run {
    let programs: Vec<_> = refused.iter().map(program).collect();
    let run = std::thread::spawn(move || {
        set_no_new_privs().expect("a promise is always taken");
        for program in programs {
            install_filter(&program).expect("the filter is well formed");
        }
        finish(command)
    });
    run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The seccomp filter as a BPF program, seccomp(2).
fn program(refused: &Refused) -> Vec<Instruction> {
    const LOAD: u16 = 0x20;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    // Offsets in struct seccomp_data: call number at 0, address of the call at 8, arguments from
    // 16, each with its lower half first.
    let mut tests = vec![(0, u32::MAX, u32::try_from(refused.call).expect("numbers are small"))];
    tests.extend(refused.when.iter().map(|(argument, mask, value)| {
        let half = if argument & UPPER == 0 { 0 } else { 4 };
        let offset = match *argument {
            CALLER => 12,
            _ => 16 + 8 * (argument & !UPPER) + half,
        };
        (offset, *mask, *value)
    }));
    let mut program = Vec::new();
    for (at, (offset, mask, value)) in tests.iter().enumerate() {
        let after = 3 * (tests.len() - at - 1) + 1;
        let past = u8::try_from(after).expect("a filter is short");
        program.extend([
            Instruction { code: LOAD, jt: 0, jf: 0, k: *offset },
            Instruction { code: AND, jt: 0, jf: 0, k: *mask },
            Instruction { code: JUMP_IF_EQUAL, jt: 0, jf: past, k: *value },
        ]);
    }
    let errno = ERRNO | u32::try_from(refused.errno).expect("error numbers are positive");
    program.push(Instruction { code: RETURN, jt: 0, jf: 0, k: errno });
    program.push(Instruction { code: RETURN, jt: 0, jf: 0, k: ALLOW });
    program
}
