//! Engines that answer late, in part or not at all: a socket in front of the real engine.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use stockade_testing::{ended, start, wait_for};

use crate::life::running;
use crate::support::{Run, directory, docker, named, stockade};

/// Tests that do not depend on a runtime.
pub(crate) fn tests() -> Vec<Trial> {
    named![
        engine_that_answers_late_is_waited_for,
        engine_that_never_answers_is_an_error_within_its_deadline,
        half_an_answer_to_any_request_is_an_error_and_leaves_no_container,
        container_that_never_starts_is_removed_after_its_deadline,
        cut_stream_ends_the_run_as_engine_lost_and_removes_the_container,
    ]
}

/// What happens to the answers to requests whose first line contains a text.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// They never arrive.
    Silence,
    /// Only these bytes arrive, and then the connection closes.
    Half(usize),
    /// They arrive late.
    Delay(Duration),
}

/// A socket that passes requests to the engine and its answers back, with one kind of trouble.
struct Proxy {
    folder: tempfile::TempDir,
    clients: Arc<Mutex<Vec<UnixStream>>>,
}

impl Proxy {
    fn start(request: &'static str, trouble: Trouble) -> Proxy {
        let folder = tempfile::tempdir().expect("there is room for a socket");
        let listener = UnixListener::bind(folder.path().join("s")).expect("a socket can be bound");
        let clients: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
        let accepted = Arc::clone(&clients);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let engine = UnixStream::connect(directory().join("docker.sock"));
                let engine = engine.expect("the engine listens");
                let copy = |stream: &UnixStream| stream.try_clone().expect("a socket is copied");
                accepted.lock().unwrap_or_else(PoisonError::into_inner).push(copy(&client));
                let is_meant = Arc::new(AtomicBool::new(false));
                let (from, to, mark) = (copy(&client), copy(&engine), Arc::clone(&is_meant));
                thread::spawn(move || requests(from, to, request, &mark));
                thread::spawn(move || answers(engine, client, trouble, &is_meant));
            }
        });
        Proxy { folder, clients }
    }

    /// A `stockade run` command with the engine behind this socket.
    fn command(&self, flags: &[&str], words: &[&str]) -> Command {
        let mut command = stockade();
        command.arg("run").args(flags).args(["--runtime", "runc", "--docker-url"]);
        command.arg(format!("unix://{}/s", self.folder.path().display())).arg("--").args(words);
        command
    }

    /// Runs a program, and checks that its process has left no container.
    #[track_caller]
    fn run(&self, words: &[&str]) -> Run {
        let began = Instant::now();
        let child = start(&mut self.command(&[], words));
        let owner = child.id();
        let run = ended(child);
        let run = Run { elapsed: began.elapsed(), ..run };
        wait_for("no container is left", || owned_by(owner).is_empty().then_some(()));
        run
    }

    /// Closes every connection.
    fn cut(&self) {
        for client in &*self.clients.lock().unwrap_or_else(PoisonError::into_inner) {
            // It may be closed already.
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

/// Passes requests on, and marks the connection at the first that is meant.
fn requests(mut from: UnixStream, mut to: UnixStream, request: &str, mark: &AtomicBool) {
    let mut bytes = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let line = bytes[..count].split(|byte| *byte == b'\r').next().unwrap_or_default();
        if String::from_utf8_lossy(line).contains(request) {
            mark.store(true, Ordering::SeqCst);
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Passes answers back, on a marked connection with trouble.
fn answers(mut from: UnixStream, mut to: UnixStream, trouble: Trouble, mark: &AtomicBool) {
    let mut bytes = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mut rest = &bytes[..count];
        if mark.load(Ordering::SeqCst) {
            match trouble {
                Trouble::Silence => rest = &[],
                Trouble::Half(most) => {
                    let _ = to.write_all(&rest[..most.min(count)]);
                    break;
                }
                Trouble::Delay(time) => thread::sleep(time),
            }
        }
        if to.write_all(rest).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// The owners of containers that a process made.
fn owned_by(process: u32) -> Vec<String> {
    let format = "{{.Label \"stockade.owner\"}}";
    let mut owners = docker(&["ps", "--all", "--format", format]);
    owners.retain(|owner| owner.starts_with(&format!("{process}.")));
    owners
}

fn engine_that_answers_late_is_waited_for() {
    let proxy = Proxy::start("/", Trouble::Delay(Duration::from_millis(200)));
    assert_eq!(proxy.run(&["echo", "x"]).text(), "x\n");
}

fn engine_that_never_answers_is_an_error_within_its_deadline() {
    let run = Proxy::start("/", Trouble::Silence).run(&["true"]);
    assert_eq!(run.code, 125, "{run:?}");
    assert!(run.stderr.contains("engine took longer than 10 s to answer"), "{run:?}");
    assert!(run.elapsed.as_secs() < 20, "{run:?}");
}

fn half_an_answer_to_any_request_is_an_error_and_leaves_no_container() {
    for request in ["/version", "/info", "/images/", "/create", "/archive", "/attach", "/start"] {
        let run = Proxy::start(request, Trouble::Half(20)).run(&["true"]);
        assert_eq!(run.code, 125, "{request}: {run:?}");
        assert!(run.stderr.contains("Docker engine"), "{request}: {run:?}");
        assert!(run.elapsed.as_secs() < 30, "{request}: {run:?}");
    }
}

fn container_that_never_starts_is_removed_after_its_deadline() {
    let run = Proxy::start("/start", Trouble::Silence).run(&["true"]);
    assert_eq!(run.code, 125, "{run:?}");
    assert!(run.stderr.contains("took longer than 20 s to start a container"), "{run:?}");
    assert!(run.elapsed.as_secs() < 40, "{run:?}");
}

fn cut_stream_ends_the_run_as_engine_lost_and_removes_the_container() {
    let proxy = Proxy::start("nothing", Trouble::Silence);
    let child = start(&mut proxy.command(&["--json"], &["sleep", "86406"]));
    let owner = child.id();
    wait_for("the program runs", || running("86406"));
    proxy.cut();
    let run = ended(child);
    assert_eq!(run.json()["outcome"], "engine_lost", "{run:?}");
    wait_for("no container is left", || owned_by(owner).is_empty().then_some(()));
}
