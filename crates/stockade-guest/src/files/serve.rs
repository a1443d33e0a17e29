//! The child process: reads one request, carries it out, and answers.

use std::fs::File;
use std::io::{BufReader, Write};

use futures_util::FutureExt;
use futures_util::io::AllowStdIo;
use stockade_wire::{
    FileDone, FileReply, FileRequest, MAX_CHUNK_BYTES, MAX_FILE_MESSAGE_BYTES, PathBytes, encode,
    read_message_within,
};

use super::chunks::{ChunkReader, ChunkWriter};
use super::fault::Failed;
use super::root::{Last, Root};
use super::state::CaptureScope;
use super::{change, list, read, stat, state, transfer, watch, write};

/// Serves one operation on two pipes.
pub(super) fn serve(input: File, output: File, surroundings: &CaptureScope) {
    let mut input = AllowStdIo::new(input);
    let request = read_message_within::<FileRequest, _>(&mut input, MAX_FILE_MESSAGE_BYTES);
    // A pipe that blocks is always ready. A host that sends no request gets no answer.
    let Some(Ok(request)) = request.now_or_never() else { return };
    let mut output = ChunkWriter::new(output);
    let root = Root::of_this_process();
    let done = root.map_err(Failed::from);
    let done = done.and_then(|root| {
        carry_out(&request, (&root, surroundings), input.into_inner(), &mut output)
    });
    let reply = match done {
        Ok(done) => FileReply::Done(done),
        Err(failed) => FileReply::Failed(failed.about(&path_of(&request))),
    };
    if let Ok(frame) = encode(&reply) {
        // Fails if the host is gone.
        let _ = output.finish(&frame);
    }
}

/// Carries out a request below a root.
fn carry_out(
    request: &FileRequest,
    (root, surroundings): (&Root, &CaptureScope),
    input: File,
    output: &mut impl Write,
) -> Result<FileDone, Failed> {
    let done = match request {
        FileRequest::Read { path, offset, length } => {
            read::read(root, path, *offset, *length, output)
        }
        FileRequest::Write { path, mode, executable } => {
            write::write(root, path, *mode, *executable, &mut ChunkReader::new(input))
        }
        FileRequest::List { path, depth, most } => list::list(root, path, *depth, *most, output),
        FileRequest::Stat { path, follow } => stat::stat(root, path, last(*follow)),
        FileRequest::MakeDirectory { path, parents } => change::make(root, path, *parents),
        FileRequest::Move { from, to, replace } => change::rename(root, from, to, *replace),
        FileRequest::Remove { path, recursive } => change::remove(root, path, *recursive),
        FileRequest::Watch { path, recursive } => {
            watch::watch(root, path, *recursive, &input, output)
        }
        FileRequest::Upload { path } => {
            return transfer::upload(root, path, &mut ChunkReader::new(buffered(input)));
        }
        FileRequest::Download { path, follow } => {
            return transfer::download(root, path, last(*follow), output);
        }
        FileRequest::Capture { places } => {
            return state::capture(root, surroundings, places, output);
        }
        FileRequest::Digest { places } => {
            return state::digest(root, surroundings, places, output);
        }
        FileRequest::Fill { places } => {
            return state::fill(root, places, &mut ChunkReader::new(buffered(input)));
        }
    };
    Ok(done?)
}

/// Records have many short parts, which would each be a system call.
fn buffered(input: File) -> BufReader<File> {
    BufReader::with_capacity(MAX_CHUNK_BYTES, input)
}

fn last(follow: bool) -> Last {
    if follow { Last::Follow } else { Last::Keep }
}

fn path_of(request: &FileRequest) -> PathBytes {
    match request {
        FileRequest::Read { path, .. }
        | FileRequest::Write { path, .. }
        | FileRequest::List { path, .. }
        | FileRequest::Stat { path, .. }
        | FileRequest::MakeDirectory { path, .. }
        | FileRequest::Move { from: path, .. }
        | FileRequest::Remove { path, .. }
        | FileRequest::Watch { path, .. }
        | FileRequest::Upload { path }
        | FileRequest::Download { path, .. } => path.clone(),
        // The failure names the entry.
        FileRequest::Capture { .. } | FileRequest::Digest { .. } | FileRequest::Fill { .. } => {
            PathBytes::try_from(b"/".to_vec()).expect("the root is a path")
        }
    }
}
