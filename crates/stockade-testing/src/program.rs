//! Programs that tests start, and what they printed.

use std::borrow::BorrowMut;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// What a program printed and how it ended.
#[derive(Debug)]
pub struct Run {
    /// Its exit code, or 128 and the signal.
    pub code: i32,
    /// Standard output, as it is.
    pub bytes: Vec<u8>,
    /// Standard output as text.
    pub stdout: String,
    /// Standard error as text.
    pub stderr: String,
    /// From before its start to after its end; zero if [`ended`] waited for it.
    pub elapsed: Duration,
}

impl Run {
    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    /// Standard output of a program that must have ended with exit code 0.
    #[track_caller]
    pub fn text(&self) -> &str {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        &self.stdout
    }

    /// Standard error without the line in which the container wall names its default image: portable
    /// tests run behind that wall too.
    pub fn messages(&self) -> String {
        let lines = self.stderr.split_inclusive('\n');
        lines.filter(|line| !line.starts_with("image: python:3.11-slim, ")).collect()
    }

    /// The lines of [`Run::text`], each as JSON.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}"));
        self.text().lines().map(read).collect()
    }
}

/// Runs a command to its end without input.
#[track_caller]
pub fn finish(mut command: impl BorrowMut<Command>) -> Run {
    let began = Instant::now();
    let run = ended(start(command.borrow_mut()));
    Run { elapsed: began.elapsed(), ..run }
}

/// Runs a command to its end with an input.
#[track_caller]
pub fn finish_with(mut command: impl BorrowMut<Command>, input: &[u8]) -> Run {
    let began = Instant::now();
    let mut child = spawn(command.borrow_mut(), Stdio::piped());
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let input = input.to_vec();
    // The program may exit without reading its input, so the write may fail.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let run = ended(child);
    let elapsed = began.elapsed();
    writer.join().expect("writing does not panic");
    Run { elapsed, ..run }
}

/// Starts a command without input and captures its output.
#[track_caller]
pub fn start(command: &mut Command) -> Child {
    spawn(command, Stdio::null())
}

#[track_caller]
fn spawn(command: &mut Command, input: Stdio) -> Child {
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"))
}

/// Waits for the end of a command.
pub fn ended(child: Child) -> Run {
    let output = child.wait_with_output().expect("the child can be waited for");
    let Output { status, stdout, stderr } = output;
    Run {
        code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        bytes: stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        elapsed: Duration::ZERO,
    }
}

/// A running program with pipes for input and output; dropping it kills it.
#[derive(Debug)]
pub struct Conversation(pub Child);

impl Conversation {
    /// Starts it.
    pub fn start(mut command: Command) -> Conversation {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Conversation(command.spawn().expect("the program starts"))
    }

    /// Sends a line.
    pub fn say(&mut self, line: &str) {
        let stdin = self.0.stdin.as_mut().expect("standard input is piped");
        writeln!(stdin, "{line}").expect("the program takes a line");
    }

    /// The next line that the program prints; empty at end of file.
    pub fn hear(&mut self) -> String {
        let stdout = self.0.stdout.as_mut().expect("standard output is piped");
        let mut line = Vec::new();
        let mut byte = [0];
        while stdout.read(&mut byte).expect("output can be read") == 1 && byte != *b"\n" {
            line.extend(byte);
        }
        String::from_utf8(line).expect("output is text")
    }

    /// Closes its input, waits for it to exit and returns its exit code, or -1 after a signal.
    pub fn end(mut self) -> i32 {
        drop(self.0.stdin.take());
        let status = self.0.wait().expect("the child can be waited for");
        status.code().unwrap_or(-1)
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command lines of all processes of the host, each word followed by a blank.
pub fn processes() -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("processes can be listed");
    let read = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).ok();
    let lines = entries.flatten().filter_map(read);
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}
