//! A hostile guest answers operations on files: too much, the wrong thing, without end, or never.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::poll_fn;
use futures_util::io::AsyncWriteExt;
use serde_json::json;
use stockade_carrier::Link;
use stockade_provider::{
    FileError, FileErrorKind, FilePart, FilePath, FileWriteMode, FileWriting, Files, FinalLink,
    chain,
};
use tokio::time::timeout;
use tokio_util::compat::TokioAsyncReadCompatExt;
use yamux::{Config, Connection, Mode, Stream};

use crate::memory::{alone, resident_bytes};
use crate::support::{LIMIT, Transport};

type Answering = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The files behind a guest that answers the request of each operation as `answer` does.
fn files(answer: impl Fn(Stream) -> Answering + Send + 'static) -> (Link, Arc<dyn Files>) {
    let (link, guest) = Transport::Socket.raw(None);
    guest.set_nonblocking(true).unwrap();
    let guest = tokio::net::UnixStream::from_std(guest).unwrap().compat();
    tokio::spawn(async move {
        let mut connection = Connection::new(guest, Config::default(), Mode::Server);
        let mut control = None;
        // Ends when the host closes the link.
        while let Some(Ok(stream)) = poll_fn(|context| connection.poll_next_inbound(context)).await
        {
            match control {
                None => control = Some(stream),
                // It does not even read the request.
                Some(_) => _ = tokio::spawn(answer(stream)),
            }
        }
    });
    let files = link.files("/workspace", Vec::new());
    (link, files)
}

/// The same with fixed bytes as the answer; the guest then keeps the stream open.
fn saying(bytes: Vec<u8>) -> (Link, Arc<dyn Files>) {
    files(move |stream| Box::pin(say(stream, bytes.clone())))
}

async fn say(mut stream: Stream, bytes: Vec<u8>) {
    // Fails once the host has seen enough.
    let _ = stream.write_all(&bytes).await;
    let _ = stream.flush().await;
    std::future::pending::<()>().await;
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

/// A message frame: its length and its JSON.
fn message(value: &serde_json::Value) -> Vec<u8> {
    chunk(value.to_string().as_bytes())
}

const END: [u8; 4] = [0; 4];

fn done() -> serde_json::Value {
    json!({ "done": { "changed": true, "bytes": 0, "left_out": 0, "stat": null } })
}

fn entry(name: &str) -> Vec<u8> {
    let stat = json!({ "kind": "file", "bytes": 1, "mode": 420, "modified": 0, "target": null });
    message(&json!({ "path": name, "stat": stat }))
}

fn path(text: &str) -> FilePath {
    FilePath::new(text).unwrap()
}

async fn soon<T>(operation: impl Future<Output = T>) -> T {
    timeout(LIMIT, operation).await.expect("the operation ends")
}

#[track_caller]
fn lost<T>(result: Result<T, FileError>, why: &str) {
    let error = result.err().expect("the answer is refused");
    let said = chain(&error);
    assert!(error.kind == FileErrorKind::Lost && said.contains(why), "{said}");
}

async fn read(files: &Arc<dyn Files>, length: Option<u64>) -> Result<Vec<u8>, FileError> {
    let part = FilePart { offset: 0, length };
    let mut stream = soon(files.read(&path("file"), part)).await?;
    let mut content = Vec::new();
    let read = soon(tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut content)).await;
    read.map_err(|error| error.downcast::<FileError>().unwrap())?;
    Ok(content)
}

#[tokio::test]
async fn honest_answers_are_accepted() {
    let content = [chunk(b"hello"), END.to_vec(), message(&done())].concat();
    let (_link, files) = saying(content);
    assert_eq!(read(&files, Some(5)).await.unwrap(), b"hello");
    let listed = [chunk(&[entry("a"), entry("b/c")].concat()), END.to_vec(), message(&done())];
    let (_link, files) = saying(listed.concat());
    let entries = soon(files.list(&path("."), 2, 2)).await.unwrap();
    assert_eq!(entries.iter().map(|it| it.path.to_string()).collect::<Vec<_>>(), ["a", "b/c"]);
}

#[tokio::test]
async fn more_bytes_than_were_asked_for_are_refused() {
    let (_link, files) = saying([chunk(b"hello!"), END.to_vec(), message(&done())].concat());
    lost(read(&files, Some(5)).await, "more bytes than were asked for");
    let (_link, files) = saying((65_537_u32).to_le_bytes().to_vec());
    lost(read(&files, None).await, "chunk that is too long");
    let (_link, files) = saying(u32::MAX.to_le_bytes().to_vec());
    lost(read(&files, None).await, "chunk that is too long");
    let (_link, files) = saying([&END[..], &u32::MAX.to_le_bytes()].concat());
    lost(read(&files, None).await, "over the limit");
}

#[tokio::test]
async fn answers_to_another_question_are_refused() {
    let (_link, files) = saying([&END[..], &message(&done())].concat());
    lost(soon(files.stat(&path("file"), FinalLink::Keep)).await, "it described nothing");
    let (_link, files) = saying([chunk(b"x"), END.to_vec(), message(&done())].concat());
    lost(soon(files.make_directory(&path("new"), true)).await, "bytes where none belong");
    let how = FileWriting { mode: FileWriteMode::Replace, executable: false };
    let content =
        || Box::new(std::io::Cursor::new(vec![7_u8; 1 << 20])) as stockade_provider::FileBytes;
    lost(soon(files.write(&path("file"), how, content())).await, "bytes where none belong");
    for garbage in [&b"{}"[..], b"null", b"{\"done\":{}}", b"\xff\xff", b"{\"failed\":7}"] {
        let (_link, files) = saying([END.to_vec(), chunk(garbage)].concat());
        lost(soon(files.remove(&path("file"), true)).await, "");
    }
    let change = message(&json!({ "kind": "created", "path": "x" }));
    let (_link, files) = saying(chunk(&change));
    lost(soon(files.watch(&path("."), false)).await, "before it watched");
}

#[tokio::test]
async fn listed_and_changed_names_stay_below_their_directory() {
    for name in ["..", "../x", "/etc/passwd", "a/../../x", "", ".", "a//b/../.."] {
        let (_link, files) = saying([chunk(&entry(name)), END.to_vec(), message(&done())].concat());
        let listed = soon(files.list(&path("."), 9, 100)).await;
        lost(listed, "a name that no directory has");
    }
    let ready = message(&json!({ "kind": "ready", "path": "" }));
    let outside = message(&json!({ "kind": "created", "path": "../x" }));
    let (_link, files) = saying([chunk(&ready), chunk(&outside)].concat());
    let mut watch = soon(files.watch(&path("."), false)).await.unwrap();
    lost(soon(watch.next()).await, "a name that cannot be");
    let (_link, files) = saying([chunk(&ready), chunk(&ready)].concat());
    let mut watch = soon(files.watch(&path("."), false)).await.unwrap();
    lost(soon(watch.next()).await, "twice");
}

#[tokio::test]
async fn endless_list_ends_at_the_number_of_entries_that_was_asked_for() {
    let (_link, files) = files(|mut stream| {
        Box::pin(async move {
            let next = chunk(&entry("name").repeat(100));
            while stream.write_all(&next).await.is_ok() {}
        })
    });
    let error = soon(files.list(&path("."), 1, 1000)).await.unwrap_err();
    assert_eq!(error.kind, FileErrorKind::TooLarge);
}

#[tokio::test]
async fn endless_list_of_long_names_is_bounded_in_memory() {
    if alone("hostile_files::endless_list_of_long_names_is_bounded_in_memory") {
        return;
    }
    let before = resident_bytes();
    let (_link, files) = files(|mut stream| {
        Box::pin(async move {
            let next = chunk(&entry(&"n".repeat(4000)).repeat(8));
            while stream.write_all(&next).await.is_ok() {}
        })
    });
    // Reading 64 MiB takes a while in a build for tests.
    let place = path(".");
    let listed = timeout(4 * LIMIT, files.list(&place, 1, usize::MAX)).await;
    let error = listed.expect("the list ends").unwrap_err();
    assert_eq!(error.kind, FileErrorKind::TooLarge);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 128 << 20, "{grown} bytes");
}

#[tokio::test]
async fn guest_that_ends_its_stream_early_is_an_error_and_not_an_end() {
    let (_link, files) = files(|mut stream| {
        Box::pin(async move {
            let _ = stream.write_all(&chunk(b"half")).await;
            let _ = stream.close().await;
        })
    });
    lost(read(&files, None).await, "");
    lost(soon(files.list(&path("."), 1, 10)).await, "");
    lost(soon(files.stat(&path("file"), FinalLink::Follow)).await, "");
}

#[tokio::test]
async fn guest_that_never_answers_blocks_no_other_operation() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    // More than can run at once.
    const SILENT: usize = 100;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let (_link, files) = files(move |stream| match count.fetch_add(1, Ordering::Relaxed) {
        number if number < SILENT => Box::pin(async move {
            let _open = stream;
            std::future::pending::<()>().await;
        }),
        _ => Box::pin(say(stream, [&END[..], &message(&done())].concat())),
    });
    for _ in 0..SILENT {
        let (asked_before, place) = (asked.load(Ordering::Relaxed), path("file"));
        let removing = files.remove(&place, false);
        // The caller gives up once the guest has the request.
        let heard = async {
            while asked.load(Ordering::Relaxed) == asked_before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            answer = removing => panic!("{answer:?}"),
            () = heard => {}
        }
    }
    assert!(soon(files.remove(&path("file"), false)).await.unwrap());
}
