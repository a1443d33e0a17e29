//! `stockade logs`.

use std::collections::BTreeMap;

use serde_json::json;
use stockade_api::{Frame, LogChunk, Reply, Request, read_frame};
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::client;
use super::conversation::Sink;
use crate::args::LogsArgs;
use crate::render::lines::Pieces;
use crate::render::live::Escapes;
use crate::render::{self, Output};

pub(crate) fn logs(args: &LogsArgs, output: Output) -> anyhow::Result<u8> {
    let LogsArgs { follow, execution, session, .. } = args;
    let request = Request::Logs { execution: *execution, follow: *follow };
    client::runtime()?.block_on(async {
        let stream = client::open(session, request).await?;
        match output {
            Output::Json => print_lines(stream, args).await,
            Output::Text => print(stream, args).await,
        }
    })
}

/// Prints output until the supervisor has no more, or we are interrupted.
async fn print(mut stream: UnixStream, args: &LogsArgs) -> anyhow::Result<u8> {
    let escapes = if args.raw { Escapes::Raw } else { Escapes::Shown };
    let mut sink = Sink::live(escapes);
    let (_keep, mut discarded) = watch::channel(false);
    while let Some(chunk) = next(&mut stream, args).await? {
        if sink.write(chunk.is_error, &chunk.bytes, &mut discarded).await.is_err() {
            // The reader has left.
            return Ok(0);
        }
    }
    sink.finish(&mut discarded).await?;
    Ok(0)
}

/// Prints one object per chunk, which names its program and stream.
async fn print_lines(mut stream: UnixStream, args: &LogsArgs) -> anyhow::Result<u8> {
    let mut open: BTreeMap<(u64, &str), Pieces> = BTreeMap::new();
    let print = |(execution, stream): (u64, &str), (key, value): (&str, String)| {
        render::json_line(&json!({ "execution": execution, "stream": stream, key: value }))
    };
    while let Some(LogChunk { execution, is_error, bytes }) = next(&mut stream, args).await? {
        let of = (execution, if is_error { "stderr" } else { "stdout" });
        if let Some(piece) = open.entry(of).or_default().next(&bytes) {
            print(of, piece)?;
        }
    }
    for (of, mut pieces) in open {
        if let Some(rest) = pieces.rest() {
            print(of, rest)?;
        }
    }
    Ok(0)
}

/// The next output; `None` at the end of the log.
async fn next(stream: &mut UnixStream, args: &LogsArgs) -> anyhow::Result<Option<LogChunk>> {
    match read_frame(stream).await {
        Ok(Frame::Log(chunk)) => Ok(Some(chunk)),
        Ok(Frame::Reply(Reply::Failed(failure))) => Err(client::failed(failure).into()),
        Ok(Frame::Reply(_)) => Ok(None),
        Ok(_) => Err(client::confused(&args.session).into()),
        // A session that ends while it is followed ends its log.
        Err(_) if args.follow => Ok(None),
        Err(error) => Err(client::lost(&args.session, &error).into()),
    }
}
