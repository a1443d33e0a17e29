//! Calling tools of the host, and tampering with the tool socket.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use stockade_conformance::Tried;

use crate::{Act, errno, word};

pub(crate) const ACTS: &[(&str, Act)] =
    &[("tool-place", tool_place), ("tool-call", tool_call), ("tool-lines", tool_lines)];

/// The tool socket.
const SOCKET: &str = "/run/stockade/tools.sock";

const PATIENCE: Duration = Duration::from_secs(10);

/// Tries every way to replace the socket, the command or their directory. With a second word it
/// first creates an ordinary directory there, for the control.
fn tool_place(words: &[&str]) -> Tried {
    let directory = Path::new(word(words, 0));
    let made = match word(words, 1) {
        "make" => make(directory),
        _ => Ok(()),
    };
    if let Err(error) = made {
        return Tried::one(Err::<String, _>(error));
    }
    let at = |name: &str| directory.join(name);
    let (socket, command) = (at("tools.sock"), at("bin/stockade-tool"));
    let mode = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755));
    let mut tried = Tried::default();
    let mut add = |name: &str, result: io::Result<()>| tried.add(name, result.map(|()| "done"));
    add("chmod", mode(&socket));
    add("link", fs::hard_link(&socket, at("linked")));
    add("symlink", symlink("/tmp", at("symlink")));
    add("bind", UnixListener::bind(at("another.sock")).map(drop));
    add("create", fs::write(at("new"), "x"));
    add("append", OpenOptions::new().append(true).open(&command).map(drop));
    add("chmod the command", mode(&command));
    add("rename the command", fs::rename(&command, at("moved")));
    add("rename over", another(directory).and_then(|other| fs::rename(other, &socket)));
    add("unlink", fs::remove_file(&socket));
    add("bind again", UnixListener::bind(&socket).map(drop).map_err(taken));
    add("chmod the directory", mode(directory));
    add("rename the directory", fs::rename(directory, away(directory)));
    add(
        "remove the directory",
        fs::remove_dir_all(away(directory)).or_else(|_| fs::remove_dir(directory)),
    );
    tried
}

/// EEXIST proves only that the name exists, so it does not count as a refusal.
fn taken(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::AddrInUse => errno(libc::EROFS),
        _ => error,
    }
}

fn make(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory.join("bin"))?;
    fs::write(directory.join("bin/stockade-tool"), "")?;
    UnixListener::bind(directory.join("tools.sock")).map(drop)
}

fn away(directory: &Path) -> PathBuf {
    directory.with_extension("away")
}

/// Creates a socket next to the directory.
fn another(directory: &Path) -> io::Result<PathBuf> {
    let path = directory.with_extension("sock");
    UnixListener::bind(&path)?;
    Ok(path)
}

/// Sends one line and reads the answer.
fn say(line: &[u8]) -> io::Result<Value> {
    let mut socket = UnixStream::connect(SOCKET)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    // The broker may refuse a line before reading all of it; its answer has the reason.
    let sent = socket.write_all(line).and_then(|()| socket.write_all(b"\n"));
    let mut answer = String::new();
    BufReader::new(socket).read_line(&mut answer)?;
    match serde_json::from_str(&answer) {
        Ok(answer) => Ok(answer),
        Err(_) => Err(sent.err().unwrap_or_else(|| errno(libc::EPROTO))),
    }
}

/// `result`, or the code of the error.
fn kind(answer: &Value) -> String {
    match answer["error"]["code"].as_str() {
        Some(code) => code.to_owned(),
        None if answer.get("result").is_some() => "result".to_owned(),
        None => "nothing".to_owned(),
    }
}

/// Calls a tool by name with arguments.
fn tool_call(words: &[&str]) -> Tried {
    let (name, arguments) = (word(words, 0), word(words, 1));
    let line = format!("{{\"id\":1,\"call\":\"{name}\",\"arguments\":{arguments}}}");
    Tried::one(say(line.as_bytes()).map(|answer| kind(&answer)))
}

/// Sends lines that are not valid calls, each on its own connection, and then a valid call.
fn tool_lines(words: &[&str]) -> Tried {
    let name = word(words, 0);
    let call = |arguments: &str| {
        format!("{{\"id\":1,\"call\":\"{name}\",\"arguments\":{arguments}}}").into_bytes()
    };
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(10 << 20));
    let mut foreign = call("{\"a\":\"?\"}");
    if let Some(byte) = foreign.iter_mut().find(|byte| **byte == b'?') {
        *byte = 0xff;
    }
    let lines = [
        ("no JSON", b"call".to_vec()),
        ("a list", b"[1]".to_vec()),
        ("an unknown field", b"{\"id\":1,\"list\":true,\"as\":\"root\"}".to_vec()),
        (
            "a field twice",
            format!("{{\"id\":1,\"call\":\"{name}\",\"call\":\"{name}\",\"arguments\":{{}}}}")
                .into_bytes(),
        ),
        ("an argument twice", call("{\"a\":1,\"a\":2}")),
        ("no number", call("{\"a\":NaN}")),
        ("too large a number", call("{\"a\":1e999}")),
        ("half a character", call("{\"a\":\"\\ud800\"}")),
        ("no UTF-8", foreign),
        ("ten thousand levels", call(&deep)),
        ("ten megabytes", call(&large)),
        ("a call", call("{}")),
    ];
    let mut tried = Tried::default();
    for (name, line) in lines {
        tried.add(name, say(&line).map(|answer| kind(&answer)));
    }
    tried
}
