//! Reads the value of a secret on the host.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use stockade_policy::SecretSource;
use zeroize::Zeroizing;

use super::{MAX_BYTES, SecretError};

/// How long a program may take to print a value; a password manager may ask its user.
const MOST_TIME: Duration = Duration::from_secs(60);

/// The longest line end after a value.
const LINE_END: usize = 2;

/// Reads a value. One line end after it does not belong to it.
pub(super) fn read(name: &str, from: &SecretSource) -> Result<Zeroizing<String>, SecretError> {
    let (shown, result) = match from {
        SecretSource::Environment(variable) => {
            (format!("the variable {variable}"), of_variable(variable))
        }
        SecretSource::File(path) => {
            (format!("the file {}", path.display()), open(path).and_then(bounded))
        }
        SecretSource::Command(words) => {
            let program = words.first().cloned().unwrap_or_default();
            (format!("the program {program}"), of_program(words, MOST_TIME))
        }
    };
    let failed = |why| SecretError::Source { name: name.to_owned(), from: shown, why };
    let bytes = result.map_err(failed)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| SecretError::Value {
        name: name.to_owned(),
        why: "it is not UTF-8 text".to_owned(),
    })?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    Ok(Zeroizing::new(text.strip_suffix('\r').unwrap_or(text).to_owned()))
}

fn of_variable(variable: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let value = std::env::var_os(variable).ok_or("it is not set; export it first")?;
    Ok(Zeroizing::new(std::os::unix::ffi::OsStringExt::into_vec(value)))
}

/// Opens a file that no other user can replace the value in. Does not wait for a FIFO.
fn open(path: &Path) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|error| io::Error::from(error).to_string())?);
    let about = file.metadata().map_err(|error| error.to_string())?;
    let own = rustix::process::geteuid().as_raw();
    if !about.is_file() {
        Err("it is not a regular file".to_owned())
    } else if about.uid() != own && about.uid() != 0 {
        Err(format!("user {} owns it; it must be yours or root's", about.uid()))
    } else if about.mode() & 0o022 != 0 {
        Err("other users may write it; run chmod go-w on it".to_owned())
    } else {
        Ok(file)
    }
}

/// Reads no more than any value may have.
fn bounded(source: impl Read) -> Result<Zeroizing<Vec<u8>>, String> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES + LINE_END + 1));
    let most = u64::try_from(MAX_BYTES + LINE_END + 1).unwrap_or(u64::MAX);
    source.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Runs a program without a shell and without input; its errors go to those of Stockade.
fn of_program(words: &[String], most: Duration) -> Result<Zeroizing<Vec<u8>>, String> {
    let (program, arguments) = words.split_first().ok_or("it names no program")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("it has no output")?;
    // A reader of its own, so that a program that never ends is ended.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(bounded(output));
    });
    let deadline = Instant::now() + most;
    let read = match receiver.recv_timeout(most) {
        Ok(read) => read.map_err(|error| ended(&mut child, error))?,
        Err(_) => {
            let why = format!("it did not end its output within {} seconds", most.as_secs_f32());
            return Err(ended(&mut child, why));
        }
    };
    if read.len() > MAX_BYTES + LINE_END {
        return Err(ended(&mut child, format!("it printed more than {MAX_BYTES} bytes")));
    }
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(read),
            Some(status) => return Err(format!("it failed with {status}")),
            None if Instant::now() >= deadline => {
                return Err(ended(&mut child, "it did not end".to_owned()));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Ends a program that failed, and returns why.
fn ended(child: &mut Child, why: String) -> String {
    // Neither call fails for an unreaped child.
    let _ = child.kill();
    let _ = child.wait();
    why
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
