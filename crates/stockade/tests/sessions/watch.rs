//! Changes of files over the socket of a session.

use std::path::Path;
use std::time::Duration;

use stockade_api::{
    FileParams, FileResult, Frame, PathBytes, Reply, Request, read_frame, write_frame,
};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::support::Sessions;

async fn watching(socket: &Path, path: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).await.expect("the session listens");
    let path = PathBytes::try_from(path.as_bytes().to_vec()).expect("a short path");
    let request = Request::File(FileParams::Watch { path, recursive: true });
    write_frame(&mut stream, &Frame::Request(request)).await.expect("it is sent");
    stream
}

async fn reply(stream: &mut UnixStream) -> Reply {
    let frame = timeout(Duration::from_secs(30), read_frame(stream)).await;
    match frame.expect("an answer comes").expect("the session goes on") {
        Frame::Reply(reply) => reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn changes_are_reported_over_the_socket_of_a_session() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.sh("one", "mkdir -p watched/below").text();
    let socket = sessions.state().join("sessions/one/socket");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut stream = watching(&socket, "watched").await;
        let holds = FileResult { more: true, ..FileResult::default() };
        assert_eq!(reply(&mut stream).await, Reply::File(holds));
        sessions.sh("one", "echo 1 > watched/below/new; rm -r watched").text();
        let mut seen = Vec::new();
        loop {
            match reply(&mut stream).await {
                Reply::FileChange(change) => {
                    let path = change.path.map(|path| path.as_bytes().to_vec());
                    let path = path.map(|path| String::from_utf8(path).expect("a text"));
                    seen.push((change.kind, path.unwrap_or_default()));
                }
                last => {
                    assert_eq!(last, Reply::File(FileResult::default()));
                    break;
                }
            }
        }
        let new = |kind: &str| (kind.to_owned(), "below/new".to_owned());
        for expected in ["created", "modified", "removed"].map(new) {
            assert!(seen.contains(&expected), "{expected:?}: {seen:?}");
        }
        let mut missing = watching(&socket, "nowhere").await;
        let Reply::FileFailed { kind, .. } = reply(&mut missing).await else { panic!("no error") };
        assert_eq!(kind, "not_found");
        let mut outside = watching(&socket, "../..").await;
        let Reply::FileFailed { kind, .. } = reply(&mut outside).await else { panic!("no error") };
        assert_eq!(kind, "traversal");
    });
}
