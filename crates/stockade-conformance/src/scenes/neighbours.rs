//! Two concurrent sandboxes.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::faults::REFUSED;
use super::{Running, error_text, existing, must};
use crate::bench::Bench;
use crate::wall::Wall;

/// A sandbox with a canary in each of its writable places and queues, until it is dropped.
fn neighbour(bench: &Bench, wall: &Wall) -> Result<Running, String> {
    let token = bench.canaries.token.clone();
    let words = ["plant", "{label}", "{key}", token.as_str()];
    let mut running = Running::start(wall.live(bench, &words))?;
    let mut line = [0; 8];
    let out = running.0.stdout.as_mut().ok_or("no output")?;
    out.read_exact(&mut line).map_err(error_text)?;
    must(&line == b"planted\n", "the neighbour planted nothing")?;
    Ok(running)
}

/// The search finds what is planted on the host.
pub(crate) fn control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let seen = bench.on_host(&["search", "{home}"])?;
    must(bench.canaries.seen_in(&seen.text), "the search finds nothing on the host")?;
    Ok("the search finds the canaries of a home".to_owned())
}

/// The search finds nothing of the neighbour in any place that both have.
pub(crate) fn files(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let _neighbour = neighbour(bench, wall)?;
    let places = ["search", "/workspace", "/tmp", "/var/tmp", "/run", "/dev/shm"];
    let seen = wall.act(bench, &[], &places)?;
    must(seen.answer.is_some(), seen.summary())?;
    must(!bench.canaries.seen_in(&seen.text), "a canary of the neighbour came back")
}

/// On the host the names lead to the planted queues.
pub(crate) fn queues_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let seen = bench.on_host(&["find", "{label}", "{key}"])?;
    must(seen.ret() == Some(5), seen.summary())?;
    Ok("queues, semaphores and memory are found by the same names".to_owned())
}

/// Inside they lead to nothing.
pub(crate) fn queues(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let _neighbour = neighbour(bench, wall)?;
    let seen = wall.act(bench, &[], &["find", "{label}", "{key}"])?;
    must(seen.ret().is_some_and(|ret| ret < 0), seen.summary())
}

/// A directory of the wall's user with a socket behind which a thread answers until it is dropped.
struct Served {
    directory: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start(wall: &Wall) -> Result<Served, String> {
        let directory = existing(&Path::new(&wall.names["own"]).join("served"), wall.user)?;
        let path = directory.join("socket");
        let listener = UnixListener::bind(&path).map_err(error_text)?;
        fs::set_permissions(&path, Permissions::from_mode(0o666)).map_err(error_text)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = std::thread::spawn(move || {
            for peer in listener.incoming().take_while(|_| !ends.load(Ordering::Acquire)) {
                // A peer may be gone already.
                let _ = peer.and_then(|mut peer| peer.write_all(b"reached"));
            }
        });
        Ok(Served { directory, is_over, thread: Some(thread) })
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // One more peer wakes the thread, which then ends.
        if UnixStream::connect(self.socket()).is_ok() {
            let _ = self.thread.take().map(JoinHandle::join);
        }
        let _ = fs::remove_file(self.socket());
    }
}

/// On the host the socket answers.
pub(crate) fn socket_control(bench: &Bench, wall: &Wall) -> Result<String, String> {
    let served = Served::start(wall)?;
    let path = served.socket().display().to_string();
    let seen = bench.on_host(&["socket-files", &path])?;
    must(seen.text.contains("reached"), seen.summary())?;
    Ok("the socket answers on the host".to_owned())
}

/// Behind the wall it is refused, or the directory is.
pub(crate) fn socket(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let served = Served::start(wall)?;
    let mount = format!("{}:/out:rw", served.directory.display());
    let seen = wall.act(bench, &["--mount", &mount], &["socket-files", "/out/socket"])?;
    let is_refused = seen.code == Some(REFUSED) && seen.answer.is_none();
    must(is_refused || seen.ret().is_some_and(|ret| ret < 0), seen.summary())?;
    must(!seen.text.contains("reached"), "the socket answered")
}
