//! A broker whose answers depend on the request, and which records what it receives.

use std::sync::{Arc, Mutex};

use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use stockade_provider::{Carried, Destination, Duplex, Gateway};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, split};
use tokio::sync::Notify;

/// The test's own gateway.
#[derive(Clone, Debug)]
pub(crate) struct TestBroker {
    network: bool,
    most: usize,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    opened: Mutex<Vec<Destination>>,
    /// How many connections have ended, and a notification for waiting tests.
    ended: Mutex<usize>,
    one_ended: Notify,
}

impl Default for TestBroker {
    fn default() -> TestBroker {
        TestBroker { network: false, most: 2000, seen: Arc::default() }
    }
}

impl TestBroker {
    /// A broker that also forwards network connections, and echoes their bytes.
    pub(crate) fn with_network() -> TestBroker {
        TestBroker { network: true, ..TestBroker::default() }
    }

    /// The destinations opened so far.
    pub(crate) fn opened(&self) -> Vec<Destination> {
        self.seen.opened.lock().unwrap().clone()
    }

    /// Returns when this many connections have ended.
    pub(crate) async fn ended(&self, count: usize) {
        loop {
            let one_ended = self.seen.one_ended.notified();
            if *self.seen.ended.lock().unwrap() >= count {
                return;
            }
            one_ended.await;
        }
    }
}

/// Counts a connection when it is dropped, for whatever reason.
struct Ends(Arc<Seen>);

impl Drop for Ends {
    fn drop(&mut self) {
        *self.0.ended.lock().unwrap() += 1;
        self.0.one_ended.notify_one();
    }
}

impl Gateway for TestBroker {
    fn serve(&self, opening: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        self.seen.opened.lock().unwrap().push(opening.clone());
        let ends = Ends(Arc::clone(&self.seen));
        Box::pin(async move {
            let _ends = ends;
            // A program may close its connection before the answer; that is not a failure of the
            // test.
            let _ = match opening {
                Destination::Tools => answer_all(stream).await,
                _ => echo(stream).await,
            };
        })
    }

    fn carries(&self) -> Carried {
        Carried { network: self.network, tools: true }
    }

    fn most_streams(&self) -> usize {
        self.most
    }
}

async fn echo(mut stream: Box<dyn Duplex>) -> std::io::Result<()> {
    let mut piece = [0; 1024];
    loop {
        match stream.read(&mut piece).await? {
            0 => return stream.shutdown().await,
            read => stream.write_all(&piece[..read]).await?,
        }
    }
}

/// Answers requests in order, one per line.
async fn answer_all(stream: Box<dyn Duplex>) -> std::io::Result<()> {
    let (reader, mut writer) = split(stream);
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let Ok(request) = serde_json::from_str::<Value>(&line) else {
            writer.write_all(b"{\"id\":null,\"error\":{\"code\":\"invalid_request\",\"message\":\"no JSON\"}}\n").await?;
            return writer.shutdown().await;
        };
        let mut answer = match request["call"].as_str() {
            None => {
                json!({"result": LISTING.map(|(name, text)| json!({"name": name, "description": text, "input_schema": {}}))})
            }
            Some("never") => std::future::pending().await,
            Some("long") => {
                json!({"result": "x".repeat(request["arguments"]["bytes"].as_u64().unwrap_or(0) as usize)})
            }
            Some("word") => json!({"result": "a \"word\"\nand more"}),
            Some("echo") => json!({"result": request["arguments"]}),
            Some("fails") => json!({"error": {"code": "failed", "message": "it has failed"}}),
            Some(_) => {
                json!({"error": {"code": "denied", "message": "tool_allowlist does not name it"}})
            }
        };
        answer["id"] = request["id"].clone();
        writer.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    writer.shutdown().await
}

/// The tools that the broker lists.
const LISTING: [(&str, &str); 2] =
    [("echo", "Says what it was told.\nMore of it."), ("longer_name", "")];
