//! A tool broker for the tests of the glue, and programs that run against it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::files;
use crate::listed::Listed;

/// How long a program may take; a program that hangs fails its test.
const DEADLINE: Duration = Duration::from_secs(120);

/// The files in a directory, and a tool broker on a socket in the same directory.
pub(crate) struct TestBroker {
    directory: tempfile::TempDir,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    listing: Value,
    /// Every request, in order of arrival.
    requests: Mutex<Vec<Value>>,
    /// Calls of `gather` that wait for the others.
    gathered: Mutex<Vec<(Value, Arc<Mutex<UnixStream>>)>>,
    connections: AtomicUsize,
    open: AtomicUsize,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

impl TestBroker {
    pub(crate) fn new(tools: &[Listed]) -> TestBroker {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        for (path, bytes) in files(tools) {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let listener = UnixListener::bind(directory.path().join("tools.sock")).unwrap();
        let listing = serde_json::to_value(tools).unwrap();
        let shared = Arc::new(Shared { listing, ..Shared::default() });
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), Arc::clone(&served));
                shared.connections.fetch_add(1, Ordering::SeqCst);
                shared.open.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    serve(stream, &shared);
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        TestBroker { directory, shared }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file next to those of the glue.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The arguments of all calls so far.
    pub(crate) fn arguments(&self) -> Vec<Value> {
        self.requests().iter().map(|request| request["arguments"].clone()).collect()
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// A program with the variables of a sandbox and nothing else.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (name, value) in super::super::environment() {
            command.env(name, value.replace("/run/stockade", self.path().to_str().unwrap()));
        }
        command
    }

    /// Runs Python code that must succeed, and returns what it printed.
    pub(crate) fn python(&self, code: &str) -> String {
        let run = ended(self.command(&interpreter("python3")).args(["-W", "error", "-c", code]));
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{code}\n{}", run.stdout);
        run.stdout
    }

    /// Runs JavaScript that must succeed, and returns what it printed. `None` if Node is missing,
    /// unless the tests require it.
    pub(crate) fn node(&self, file: &str, code: &str) -> Option<String> {
        if !node_runs() {
            return None;
        }
        let file = self.file(file, code);
        let run = ended(self.command(Path::new("node")).arg(file));
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{code}\n{}", run.stdout);
        Some(run.stdout)
    }
}

/// The interpreter itself, not a script that selects one.
pub(crate) fn interpreter(name: &str) -> PathBuf {
    let run = ended(Command::new(name).args(["-c", "import sys; print(sys.executable)"]));
    PathBuf::from(run.stdout.trim_end())
}

/// Runs a program until it exits.
pub(crate) fn ended(command: &mut Command) -> Ended {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the program starts");
    let mut streams = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let out = thread::spawn(move || text_of(&mut streams.0));
    let errors = thread::spawn(move || text_of(&mut streams.1));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > DEADLINE {
            child.kill().unwrap();
            panic!("{command:?} hangs: {}", errors.join().unwrap());
        }
        thread::sleep(Duration::from_millis(5));
    };
    let (stdout, stderr) = (out.join().unwrap(), errors.join().unwrap());
    Ended { stdout, stderr, code: status.code() }
}

fn text_of(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether Node is installed. If it is missing and the tests require it, they fail.
pub(crate) fn node_runs() -> bool {
    if Command::new("node").arg("--version").output().is_ok_and(|run| run.status.success()) {
        return true;
    }
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| matches!(name.trim(), "node" | "all"));
    assert!(!is_required, "STOCKADE_REQUIRE asks for node, and it does not run");
    writeln!(std::io::stderr(), "not tried: node does not run here").unwrap();
    false
}

fn serve(stream: UnixStream, shared: &Shared) {
    let writer = Arc::new(Mutex::new(stream.try_clone().unwrap()));
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let request: Value = serde_json::from_str(&line).expect("a request is JSON");
        shared.requests.lock().unwrap().push(request.clone());
        let id = request["id"].clone();
        let arguments = request["arguments"].clone();
        let error = |id: Value, code: &str, message: &str| json!({ "id": id, "error": { "code": code, "message": message } });
        let answer = match request["call"].as_str() {
            None => json!({ "id": id, "result": shared.listing }),
            Some("fail") => error(id, "failed", "the tool says “no”"),
            Some("limit") => error(id, "limit", "no call is left"),
            Some("forbidden") => error(id, "denied", "tool_allowlist does not name `forbidden`"),
            Some("gather") => {
                gather(id, &arguments, &writer, shared);
                continue;
            }
            Some("sleep") => continue,
            Some("die") => {
                // The reader holds the other half of the stream, and ends with the loop.
                writer.lock().unwrap().shutdown(std::net::Shutdown::Both).unwrap();
                return;
            }
            Some("half") => {
                writer.lock().unwrap().write_all(b"{\"id\":1,\"resu").unwrap();
                writer.lock().unwrap().shutdown(std::net::Shutdown::Both).unwrap();
                return;
            }
            Some("garbage") => json!("an answer to nothing"),
            Some("confused") => error(Value::Null, "invalid_request", "this is no request"),
            Some(_) => json!({ "id": id, "result": arguments }),
        };
        send(&writer, &answer);
    }
}

/// Answers once as many calls have arrived as the argument states, the last one first.
fn gather(id: Value, arguments: &Value, writer: &Arc<Mutex<UnixStream>>, shared: &Shared) {
    let mut gathered = shared.gathered.lock().unwrap();
    gathered.push((json!({ "id": id, "result": arguments["number"] }), Arc::clone(writer)));
    if Some(gathered.len() as u64) == arguments["of"].as_u64() {
        for (answer, writer) in gathered.drain(..).rev() {
            send(&writer, &answer);
        }
    }
}

fn send(writer: &Mutex<UnixStream>, answer: &Value) {
    // A program that has closed its connection needs no answer.
    let _ = writer.lock().unwrap().write_all(format!("{answer}\n").as_bytes());
}
