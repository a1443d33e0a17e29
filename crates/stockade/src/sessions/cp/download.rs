//! From a session to this host.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use stockade_api::{FileParams, Frame, Reply, Request, read_frame};
use stockade_archive::{Limits, Links, Rename, Unpacked, unpack};
use stockade_provider::chain;
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;

use super::bridge::{PieceReader, pieces};
use super::endpoint::{Kind, Mismatch, Target, decide};
use super::{Copied, bytes, stat};
use crate::Problem;
use crate::sessions::client;

/// More is a mistake or an attack, and would fill the disk.
const LIMITS: Limits = Limits { entries: 1_000_000, bytes: 64 << 30 };

/// Writes the archive to standard output.
pub(super) async fn to_stream(name: &str, path: &[u8], follow: bool) -> anyhow::Result<Copied> {
    if io::stdout().is_terminal() {
        let message = "cannot write an archive to a terminal";
        return Err(Problem::new(message, "redirect standard output to a file").into());
    }
    let mut stream = start(name, path, follow).await?;
    let mut sent = 0;
    while let Some(piece) = next(&mut stream, name).await? {
        sent += piece.len() as u64;
        io::stdout().write_all(&piece).map_err(|error| unwritable(&error))?;
    }
    io::stdout().flush().map_err(|error| unwritable(&error))?;
    Ok(Copied { bytes: sent, left_out: 0, examples: Vec::new() })
}

fn unwritable(error: &io::Error) -> Problem {
    Problem::new(format!("cannot write the archive: {error}"), "check that its reader continues")
}

/// Unpacks the archive. Everything in it is hostile.
pub(super) async fn to_host(
    name: &str,
    path: &[u8],
    host: &OsStr,
    follow: bool,
) -> anyhow::Result<Copied> {
    let shown = path.escape_ascii();
    let Some(source) = stat(name, path, follow || path.ends_with(b"/.")).await? else {
        let message = format!("cannot copy {name}:{shown}: no such file or directory");
        return Err(Problem::new(message, format!("see `stockade exec {name} -- ls`")).into());
    };
    let kind = if source.kind == "directory" { Kind::Directory } else { Kind::Other };
    let target = decide((path, kind), (host.as_bytes(), kind_of(Path::new(host))));
    let target = target.map_err(|mismatch| mismatched(mismatch, host))?;
    let (directory, rename) = match target {
        // An archive with one file or tree; its name inside does not matter here.
        Target::Named { directory, name } => (directory, Rename::To(name)),
        Target::Contents { directory } => (directory, Rename::Strip),
    };
    let directory = OsStr::from_bytes(&directory).to_owned();
    let root = File::open(&directory).map_err(|error| {
        let message = format!("cannot open the directory {}: {error}", directory.display());
        Problem::new(message, "make the directory first")
    })?;
    let mut stream = start(name, path, follow).await?;
    let (sender, receiver) = pieces();
    let unpacking = spawn_blocking(move || {
        let archive = PieceReader::new(receiver);
        unpack(archive, root.as_fd(), rename, Links::Below, LIMITS)
    });
    let received = async {
        while let Some(piece) = next(&mut stream, name).await? {
            // The thread stops reading only when it fails.
            if sender.send(Ok(piece)).await.is_err() {
                break;
            }
        }
        let _ = sender.send(Ok(Vec::new())).await;
        anyhow::Ok(())
    };
    let received = received.await;
    drop(sender);
    let unpacked = unpacking.await;
    // The reason of the session is the better one: without all bytes the archive is damaged.
    received?;
    let Unpacked { bytes, left_out, examples, .. } = unpacked?.map_err(|error| {
        let message = format!("cannot copy {name}:{shown}: {}", chain(&error));
        Problem::new(message, "check the space and the permissions of the target")
    })?;
    let shown = |(name, why): &(Vec<u8>, _)| format!("{}: {why}", name.escape_ascii());
    Ok(Copied { bytes, left_out, examples: examples.iter().map(shown).collect() })
}

async fn start(name: &str, path: &[u8], follow: bool) -> anyhow::Result<UnixStream> {
    let follow = follow || path.ends_with(b"/.");
    let params = FileParams::Download { path: bytes(path)?, follow };
    client::open(name, Request::File(params)).await
}

/// The next bytes of the archive; `None` at its end.
async fn next(stream: &mut UnixStream, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
    match read_frame(stream).await {
        Ok(Frame::Output(bytes)) => Ok(Some(bytes)),
        Ok(Frame::Reply(Reply::File(_))) => Ok(None),
        Ok(Frame::Reply(Reply::FileFailed { failure, .. } | Reply::Failed(failure))) => {
            Err(client::failed(failure).into())
        }
        Ok(_) => Err(client::confused(name).into()),
        Err(error) => Err(client::lost(name, &error).into()),
    }
}

/// What is on the host; links are followed, because the user wrote the path.
fn kind_of(path: &Path) -> Option<Kind> {
    let found = fs::metadata(path).ok()?;
    Some(if found.is_dir() { Kind::Directory } else { Kind::Other })
}

fn mismatched(mismatch: Mismatch, target: &OsStr) -> Problem {
    let target = target.display();
    match mismatch {
        Mismatch::DirectoryToFile => Problem::new(
            format!("cannot copy a directory to the file {target}"),
            "name a directory, or a path that does not exist",
        ),
        Mismatch::NoDirectory => Problem::new(
            format!("cannot copy a file to {target}: no such directory"),
            "make the directory first, or remove the slash at the end",
        ),
    }
}
