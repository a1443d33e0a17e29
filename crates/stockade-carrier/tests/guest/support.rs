//! A guest process, and the outcome of a program in it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stockade_carrier::{Link, LinkSettings, Liveness, guest_file};
use stockade_provider::{Command, Gateway, ProcessEnd, Running};
use stockade_testing::skipped;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::timeout;

use crate::pump::{Pump, pumped, reader, writer};

/// The deadline of every wait.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The settings of the links in these tests.
pub(crate) const SETTINGS: LinkSettings =
    LinkSettings { executions: 9, liveness: Liveness::EndOfStream };

/// The transport of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A socket whose other end the guest holds.
    Socket,
    /// Pipes and a task that copies between them and the link, as a container engine does.
    Pumped,
}

impl Transport {
    pub(crate) const BOTH: [Transport; 2] = [Transport::Socket, Transport::Pumped];

    /// A link to a guest that the test itself simulates.
    pub(crate) fn raw(self, gateway: Option<Arc<dyn Gateway>>) -> (Link, UnixStream) {
        let (host, guest) = UnixStream::pair().unwrap();
        let link = match self {
            Transport::Socket => Link::open_socket(host, gateway, SETTINGS).unwrap(),
            Transport::Pumped => {
                host.set_nonblocking(true).unwrap();
                let (reader, writer) = tokio::net::UnixStream::from_std(host).unwrap().into_split();
                let (stream, _) = pumped(reader, writer);
                Link::open(stream, gateway, SETTINGS).unwrap()
            }
        };
        (link, guest)
    }
}

/// A guest; dropping it kills it.
pub(crate) struct Guest {
    pub(crate) process: Child,
}

impl Guest {
    /// Starts a guest and opens a link to it.
    pub(crate) fn linked(transport: Transport) -> (Guest, Link) {
        let file = guest_file().unwrap();
        let mut guest = Process::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
        guest.env_clear().stderr(Stdio::null());
        match transport {
            Transport::Socket => {
                let (host, inside) = UnixStream::pair().unwrap();
                let process =
                    guest.stdin(OwnedFd::from(inside)).stdout(Stdio::null()).spawn().unwrap();
                (Guest { process }, Link::open_socket(host, None, SETTINGS).unwrap())
            }
            Transport::Pumped => {
                let (guest, stream, _) = Guest::piped(guest.arg("stdio"));
                (guest, Link::open(stream, None, SETTINGS).unwrap())
            }
        }
    }

    /// Starts a guest whose standard input and output are pumped.
    pub(crate) fn piped(command: &mut Process) -> (Guest, DuplexStream, Pump) {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = process.stdout.take().unwrap();
        let input = process.stdin.take().unwrap();
        let (stream, pump) = pumped(reader(output.into()), writer(input.into()));
        (Guest { process }, stream, pump)
    }

    /// Starts a guest as the first process of a pid namespace and opens a link to it. If this host
    /// does not allow that, prints why, or fails where `STOCKADE_REQUIRE` requires namespaces.
    pub(crate) fn linked_as_first_process() -> Option<(Guest, Link)> {
        let unshare = |arguments: &[&str]| {
            let mut unshare = Process::new("unshare");
            unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
            unshare.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
            unshare
        };
        if !unshare(&["true"]).status().is_ok_and(|status| status.success()) {
            skipped("namespaces", "unshare(1) cannot make a pid namespace here");
            return None;
        }
        let (host, inside) = UnixStream::pair().unwrap();
        let file = guest_file().unwrap();
        // Kept open across exec, because `unshare` is executed before the guest.
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let process = unshare(&[&path]).stdin(OwnedFd::from(inside)).spawn().unwrap();
        Some((Guest { process }, Link::open_socket(host, None, SETTINGS).unwrap()))
    }

    /// Waits for the guest to end and returns its exit code.
    pub(crate) async fn exit(&mut self, limit: Duration) -> Option<i32> {
        const LOOK: Duration = Duration::from_millis(5);
        let deadline = Instant::now() + limit;
        while !stockade_sys::ends_within(&self.process, LOOK).unwrap() {
            assert!(Instant::now() < deadline, "the guest stayed for {limit:?}");
            // Lets the pump run meanwhile.
            tokio::time::sleep(LOOK).await;
        }
        self.process.wait().unwrap().code()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The outcome of a program.
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
        next_code: None,
        terminal: None,
    }
}

/// A shell script.
pub(crate) fn shell(script: &str) -> Command {
    command(&["sh", "-c", script])
}

/// Runs a program to its end with `input` as its complete input.
pub(crate) async fn run(link: &Link, command: &Command, input: &[u8]) -> Outcome {
    let (_, running) = link.execute(command.clone()).unwrap();
    finish(running, input).await
}

/// Writes the input of a program and reads its output until it ends.
pub(crate) async fn finish(running: Running, input: &[u8]) -> Outcome {
    let Running { mut stdin, mut stdout, mut stderr, end, .. } = running;
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

/// Runs a program in a new guest over each transport; the outcome must be the same.
pub(crate) async fn run_alone(command: &Command, input: &[u8]) -> Outcome {
    let [socket, pumped] = Transport::BOTH.map(|transport| async move {
        let (_guest, link) = Guest::linked(transport);
        run(&link, command, input).await
    });
    let outcome = socket.await;
    assert_eq!(pumped.await, outcome);
    outcome
}
