//! From this host to a session.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use stockade_api::{FileParams, Frame, Reply, Request, read_frame, write_frame};
use stockade_archive::pack;
use stockade_provider::chain;
use tokio::net::UnixStream;
use tokio::sync::mpsc::Receiver;
use tokio::task::spawn_blocking;

use super::bridge::{Piece, PieceWriter, pieces};
use super::endpoint::{Kind, Mismatch, Target, decide, split};
use super::{Copied, bytes, stat};
use crate::Problem;
use crate::sessions::client;

/// Sends the archive on standard input.
pub(super) async fn from_stream(name: &str, path: &[u8]) -> anyhow::Result<Copied> {
    let (sender, receiver) = pieces();
    // Not awaited when the session answers early: it may block in a read.
    std::thread::spawn(move || {
        let mut writer = PieceWriter::new(sender.clone());
        match io::copy(&mut io::stdin().lock(), &mut writer) {
            Ok(_) => drop(writer.finish()),
            Err(error) => drop(sender.blocking_send(Err(error))),
        }
    });
    send(name, path, receiver).await
}

/// Sends a file or a tree of this host.
pub(super) async fn from_host(
    host: &OsStr,
    name: &str,
    path: &[u8],
    follow: bool,
) -> anyhow::Result<Copied> {
    let unusable = |error: io::Error| {
        let message = format!("cannot copy {}: {error}", host.display());
        Problem::new(message, "name a file or a directory that exists")
    };
    let follow = follow || host.as_bytes().ends_with(b"/.");
    let source = match follow {
        true => fs::canonicalize(host).map_err(unusable)?.into_os_string(),
        false => host.to_owned(),
    };
    let found = fs::symlink_metadata(&source).map_err(unusable)?;
    let kind = if found.is_dir() { Kind::Directory } else { Kind::Other };
    let target = stat(name, path, true).await?;
    let target_kind = target.map(|view| match view.kind.as_str() {
        "directory" => Kind::Directory,
        _ => Kind::Other,
    });
    let target = decide((host.as_bytes(), kind), (path, target_kind));
    let target = target.map_err(|mismatch| mismatched(mismatch, name, path))?;
    let (directory, packed_name) = match target {
        Target::Named { directory, name } => (directory, name),
        Target::Contents { directory } => (directory, b".".to_vec()),
    };
    if stat(name, &directory, true).await?.is_none() {
        let message =
            format!("cannot copy to {name}:{}: no such directory", directory.escape_ascii());
        return Err(Problem::new(message, "make the directory first").into());
    }
    let (parent, own) = split(source.as_bytes());
    let parent = File::open(Path::new(OsStr::from_bytes(&parent))).map_err(unusable)?;
    let (sender, receiver) = pieces();
    let packing = spawn_blocking(move || {
        let mut writer = PieceWriter::new(sender);
        let packed = pack(parent.as_fd(), &own, &packed_name, &mut writer)?;
        // Fails only if the session has answered already.
        let _ = writer.finish();
        Ok::<_, stockade_archive::ArchiveError>(packed)
    });
    let sent = send(name, &directory, receiver).await;
    match (packing.await?, sent) {
        (Ok(packed), Ok(copied)) => {
            let left_out = copied.left_out + packed.left_out;
            let what = "devices, FIFOs and sockets are not copied".to_owned();
            let examples = if packed.left_out > 0 { vec![what] } else { copied.examples };
            Ok(Copied { left_out, examples, ..copied })
        }
        // If the session refused it, the thread only saw a broken pipe.
        (Err(stockade_archive::ArchiveError::Stream { .. }) | Ok(_), Err(error)) => Err(error),
        (Err(error), _) => {
            let message = format!("cannot copy {}: {}", host.display(), chain(&error));
            Err(Problem::new(message, "check the files and their permissions").into())
        }
    }
}

/// Sends pieces of an archive and receives the result, which may come early.
async fn send(name: &str, path: &[u8], mut pieces: Receiver<Piece>) -> anyhow::Result<Copied> {
    let params = FileParams::Upload { path: bytes(path)? };
    let stream: UnixStream = client::open(name, Request::File(params)).await?;
    let (mut reader, mut writer) = stream.into_split();
    let sending = async {
        while let Some(piece) = pieces.recv().await {
            let frame = match piece {
                Ok(piece) if piece.is_empty() => Frame::InputEnd,
                Ok(piece) => Frame::Input(piece),
                Err(error) => return Err(error),
            };
            // If the session has answered, it does not read the rest.
            if write_frame(&mut writer, &frame).await.is_err() || frame == Frame::InputEnd {
                return Ok(());
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    };
    let mut receiving = std::pin::pin!(read_frame(&mut reader));
    let reply = tokio::select! {
        reply = &mut receiving => reply,
        sent = sending => match sent {
            Ok(()) => receiving.await,
            Err(error) => {
                let message = format!("cannot read what to copy: {error}");
                return Err(Problem::new(message, "try again").into());
            }
        },
    };
    match reply {
        Ok(Frame::Reply(Reply::File(done))) => {
            let examples = Vec::new();
            Ok(Copied { bytes: done.bytes, left_out: done.left_out, examples })
        }
        Ok(Frame::Reply(Reply::FileFailed { failure, .. } | Reply::Failed(failure))) => {
            Err(client::failed(failure).into())
        }
        Ok(_) => Err(client::confused(name).into()),
        Err(error) => Err(client::lost(name, &error).into()),
    }
}

fn mismatched(mismatch: Mismatch, name: &str, path: &[u8]) -> Problem {
    let target = format!("{name}:{}", path.escape_ascii());
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
