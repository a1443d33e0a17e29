//! A guest process, and what a program in it did.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command as Process, Stdio};
use std::time::Duration;

use stockade_carrier::{Command, Link, guest_file};
use stockade_provider::{ProcessEnd, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// How long anything may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A guest; dropping it kills it.
pub(crate) struct Guest {
    pub(crate) process: Child,
}

impl Guest {
    /// Starts a guest and links it.
    pub(crate) fn linked() -> (Guest, Link) {
        let (host, inside) = UnixStream::pair().unwrap();
        let file = guest_file().unwrap();
        let process = Process::new(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .env_clear()
            .stdin(OwnedFd::from(inside))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        (Guest { process }, Link::open(host, None).unwrap())
    }

    /// Starts a guest as the first process of a pid namespace and links it, or says why this host
    /// does not let it, which is a failure where `STOCKADE_REQUIRE` asks for namespaces.
    pub(crate) fn linked_as_first_process() -> Option<(Guest, Link)> {
        let unshare = |arguments: &[&str]| {
            let mut unshare = Process::new("unshare");
            unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
            unshare.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
            unshare
        };
        if !unshare(&["true"]).status().is_ok_and(|status| status.success()) {
            let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
            let reason = "unshare(1) cannot make a pid namespace here";
            let named =
                required.split(',').map(str::trim).any(|one| one == "namespaces" || one == "all");
            assert!(!named, "required, but skipped: {reason}");
            // Past the harness, which keeps the output of tests that pass.
            let _ = writeln!(std::io::stderr(), "guest tests: skipped: {reason}");
            return None;
        }
        let (host, inside) = UnixStream::pair().unwrap();
        let file = guest_file().unwrap();
        // Kept open across exec, because unshare is executed before the guest.
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let process = unshare(&[&path]).stdin(OwnedFd::from(inside)).spawn().unwrap();
        Some((Guest { process }, Link::open(host, None).unwrap()))
    }

    /// Waits for the guest to end and returns its exit code.
    pub(crate) async fn exit(&mut self, limit: Duration) -> Option<i32> {
        let ended = stockade_sys::ends_within(&self.process, limit).unwrap();
        assert!(ended, "the guest stayed for {limit:?}");
        self.process.wait().unwrap().code()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a program did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) end: ProcessEnd,
}

impl Outcome {
    pub(crate) fn exited(code: i32, stdout: &str, stderr: &str) -> Outcome {
        let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
        Outcome { stdout, stderr, end: ProcessEnd::Exited { code } }
    }
}

/// A program with the usual search path.
pub(crate) fn command(argv: &[&str]) -> Command {
    Command {
        program: argv[0].to_owned(),
        arguments: argv.iter().map(|word| (*word).to_owned()).collect(),
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        working_directory: "/".to_owned(),
        code: None,
    }
}

/// A shell script.
pub(crate) fn shell(script: &str) -> Command {
    command(&["sh", "-c", script])
}

/// Runs a program to its end with `input` as all of its input.
pub(crate) async fn run(link: &mut Link, command: &Command, input: &[u8]) -> Outcome {
    let running = timeout(LIMIT, link.execute(command.clone())).await.unwrap().unwrap();
    finish(running, input).await
}

/// Feeds a program and reads all it says until it ends.
pub(crate) async fn finish(running: Running, input: &[u8]) -> Outcome {
    let Running { mut stdin, mut stdout, mut stderr, end } = running;
    let (mut out, mut err) = (String::new(), String::new());
    let feed = async {
        // A program may end without reading its input.
        let _ = stdin.write_all(input).await;
        let _ = stdin.shutdown().await;
    };
    let all = async {
        tokio::join!(feed, stdout.read_to_string(&mut out), stderr.read_to_string(&mut err), end)
    };
    let (_, stdout, stderr, end) = timeout(LIMIT, all).await.unwrap();
    stdout.unwrap();
    stderr.unwrap();
    Outcome { stdout: out, stderr: err, end: end.unwrap() }
}

/// Runs a program in a guest of its own.
pub(crate) async fn run_alone(command: &Command, input: &[u8]) -> Outcome {
    let (_guest, mut link) = Guest::linked();
    run(&mut link, command, input).await
}
