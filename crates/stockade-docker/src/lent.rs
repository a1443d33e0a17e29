//! Root's files for programs that never run as root: idmapped mounts, shown to the engine during a
//! start.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use stockade_carrier::guest_file;
use stockade_hostfiles::{Mode, Shown};
use stockade_launcher::{Lending, LentTree};
use stockade_sys::random_bytes;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::DockerError;
use crate::endpoint::Endpoint;
use crate::files::{Files, NOBODY, is_nobodys};
use crate::start::MOST_START;

/// The most bytes of the process's answer, and of its reason for refusing.
const MOST_BYTES: u64 = 1000;

/// A process that keeps mounts until it is dropped or this process ends.
#[derive(Debug)]
pub(crate) struct Lent {
    input: Option<ChildStdin>,
    child: Option<Child>,
}

/// Shows root's files as those of the user in the container, and changes the host paths of `files`
/// to those that the engine must show instead. Blocks, on a thread of the runtime for that.
pub(crate) fn lend(
    files: &mut Files,
    caller: (u32, u32),
    endpoint: &Endpoint,
) -> Result<Option<Lent>, DockerError> {
    let Endpoint::Unix(socket) = endpoint else { return Ok(None) };
    // The caller's own user, or one of the image, for which only the policy decides.
    if caller.0 != 0 || files.user != NOBODY {
        return Ok(None);
    }
    let mut shown: Vec<&mut Shown> =
        files.shown.iter_mut().filter(|shown| !is_nobodys(&shown.host)).collect();
    if shown.is_empty() {
        return Ok(None);
    }
    let writes = shown.iter().any(|shown| shown.mode == Mode::Write);
    match start(&shown, socket) {
        Ok((lent, lending)) => {
            for (shown, place) in shown.iter_mut().zip(lending.places()) {
                shown.host = place;
            }
            Ok(Some(lent))
        }
        // Programs read what every user of the host may read.
        Err(_) if !writes => Ok(None),
        Err(error) => Err(DockerError::Unsupported {
            what: "a writable mount",
            reason: format!(
                "programs in a container never run as root, and this host cannot show root's files \
                 as those of another user: {error}"
            ),
            remedy: "run as an ordinary user of the engine, show it read-only, show a directory of \
                     user 65534, or use the native wall",
        }),
    }
}

fn start(shown: &[&mut Shown], socket: &Path) -> io::Result<(Lent, Lending)> {
    let random: [u8; 8] = random_bytes()?;
    let tree = |shown: &&mut Shown| LentTree {
        path: shown.host.clone(),
        kind: shown.kind,
        writable: shown.mode == Mode::Write,
    };
    let lending = Lending {
        engine: engine(socket)?,
        name: format!("{:016x}", u64::from_be_bytes(random)),
        user: NOBODY.0,
        trees: shown.iter().map(tree).collect(),
    };
    let request = format!("{}\n", serde_json::to_string(&lending)?);
    let program = guest_file().map_err(io::Error::other)?;
    let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .arg0("stockade-guest")
        .arg("lend")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A signal for the whole group of this process must not end it before it has cleaned up.
        .process_group(0)
        .spawn()?;
    let mut lent = Lent { input: None, child: Some(child) };
    let child = lent.child.as_mut().expect("it has started");
    lent.input = Some(ask(child, request, MOST_START)?);
    Ok((lent, lending))
}

/// The process that listens at an engine's socket.
fn engine(socket: &Path) -> io::Result<u32> {
    let connect = async { timeout(MOST_START, UnixStream::connect(socket)).await };
    let peer = Handle::current().block_on(connect)??.peer_cred()?;
    of_root(peer.uid(), peer.pid())
}

/// The process of a peer. Root does not enter the namespaces of another user.
fn of_root(user: u32, process: Option<i32>) -> io::Result<u32> {
    if user != 0 {
        return Err(io::Error::other(format!("the engine's socket belongs to user {user}")));
    }
    match process.and_then(|number| u32::try_from(number).ok()) {
        // The kernel has 0 for a process outside this process's pid namespace.
        None | Some(0) => Err(io::Error::other("the engine's process cannot be seen from here")),
        Some(process) => Ok(process),
    }
}

/// Sends a request to the process, and waits until it has carried it out. Kills it at a deadline.
fn ask(child: &mut Child, request: String, limit: Duration) -> io::Result<ChildStdin> {
    let pipe = "each stream is a pipe";
    let mut input = child.stdin.take().expect(pipe);
    let output = child.stdout.take().expect(pipe);
    let errors = child.stderr.take().expect(pipe);
    let talk = move || {
        input.write_all(request.as_bytes())?;
        let mut answer = String::new();
        BufReader::new(output.take(MOST_BYTES)).read_line(&mut answer)?;
        if !answer.is_empty() {
            return Ok(input);
        }
        let mut said = String::new();
        errors.take(MOST_BYTES).read_to_string(&mut said)?;
        Err(io::Error::other(said.trim().trim_start_matches("stockade-guest: ").to_owned()))
    };
    let (sender, answer) = mpsc::channel();
    // It ends with the process, whose pipes then close.
    std::thread::spawn(move || sender.send(talk()));
    answer.recv_timeout(limit).unwrap_or_else(|_| {
        child.kill()?;
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {limit:?}")))
    })
}

impl Drop for Lent {
    fn drop(&mut self) {
        // The process removes the mounts at the end of its input.
        self.input = None;
        if let Some(mut child) = self.child.take() {
            std::thread::spawn(move || child.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn shell(script: &str) -> Child {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        shell.stderr(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn engine_of_another_user_or_out_of_sight_is_refused() {
        assert_eq!(of_root(0, Some(7)).unwrap(), 7);
        for (user, process) in [(1000, Some(7)), (65534, Some(1)), (0, Some(0)), (0, None)] {
            of_root(user, process).unwrap_err();
        }
    }

    #[tokio::test]
    async fn engine_is_the_process_that_listens() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let found = tokio::task::spawn_blocking(move || engine(&socket)).await.unwrap();
        drop(listener);
        match rustix::process::geteuid().is_root() {
            true => assert_eq!(found.unwrap(), std::process::id()),
            false => assert!(found.unwrap_err().to_string().contains("belongs to user")),
        }
    }

    #[test]
    fn process_that_does_not_answer_is_killed_at_the_deadline() {
        // `exec`, so that the process has no child that keeps its pipes.
        let mut child = shell("exec sleep 600");
        let error = ask(&mut child, String::new(), Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn process_keeps_mounts_until_its_input_ends_or_says_why_not() {
        let mut child = shell("read request; echo $request; cat");
        let input = ask(&mut child, "ready\n".to_owned(), MOST_START).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        drop(input);
        assert!(child.wait().unwrap().success());
        let mut child = shell("read request; echo stockade-guest: no >&2; exit 1");
        let error = ask(&mut child, "x\n".to_owned(), MOST_START).unwrap_err();
        assert_eq!(error.to_string(), "no");
        child.wait().unwrap();
    }
}
