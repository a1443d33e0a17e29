//! `stockade logs`.

use serde_json::json;
use stockade_api::{Frame, Reply, Request, read_frame};
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::client;
use super::conversation::Sink;
use crate::args::LogsArgs;
use crate::render::live::Escapes;
use crate::render::{self, Output};

pub(crate) fn logs(args: &LogsArgs, output: Output) -> anyhow::Result<u8> {
    let LogsArgs { follow, execution, session, .. } = args;
    let request = Request::Logs { execution: *execution, follow: *follow };
    client::runtime()?.block_on(async {
        let stream = client::open(session, request).await?;
        receive(stream, args, output).await
    })
}

/// Prints output until the supervisor has no more, or we are interrupted.
async fn receive(mut stream: UnixStream, args: &LogsArgs, output: Output) -> anyhow::Result<u8> {
    let escapes = if args.raw { Escapes::Raw } else { Escapes::Shown };
    let mut sink = Sink::live(escapes);
    let (_keep, mut discarded) = watch::channel(false);
    loop {
        let (is_error, bytes) = match read_frame(&mut stream).await {
            Ok(Frame::Output(bytes)) => (false, bytes),
            Ok(Frame::Error(bytes)) => (true, bytes),
            Ok(Frame::Reply(Reply::Failed(failure))) => return Err(client::failed(failure).into()),
            Ok(Frame::Reply(_)) => break,
            Ok(_) => return Err(client::confused(&args.session).into()),
            // A session that ends while it is followed ends its log.
            Err(_) if args.follow => break,
            Err(error) => return Err(client::lost(&args.session, &error).into()),
        };
        if output == Output::Json {
            let stream = if is_error { "stderr" } else { "stdout" };
            let text = String::from_utf8_lossy(&bytes);
            render::json_line(&json!({ "stream": stream, "text": text }))?;
        } else if sink.write(is_error, &bytes, &mut discarded).await.is_err() {
            // The reader has left.
            return Ok(0);
        }
    }
    sink.finish(&mut discarded).await?;
    Ok(0)
}
