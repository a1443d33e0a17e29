//! Tool calls that travel as files.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_aca::AcaProvider;
use stockade_azure_double::Double;
use stockade_provider::{
    Carried, Destination, Duplex, Gateway, Provider, SandboxRequest, ToolAccess,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{can_run, code, options, request, run};

/// Answers each line with itself in upper case.
#[derive(Debug)]
struct Upper;

impl Gateway for Upper {
    fn serve(&self, to: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        assert_eq!(to, Destination::Tools);
        Box::pin(async move {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
                if stream.write_all(line.to_uppercase().as_bytes()).await.is_err() {
                    return;
                }
                line.clear();
            }
        })
    }

    fn carries(&self) -> Carried {
        Carried { network: false, tools: true }
    }

    fn most_streams(&self) -> usize {
        16
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_calls_reach_the_broker_without_a_connection_to_this_host() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let access = ToolAccess {
        files: vec![("python/greeting.py".to_owned(), b"WORD = 'hello'".to_vec())],
        environment: vec![("PYTHONPATH".to_owned(), "/run/stockade/python".to_owned())],
    };
    let wanted =
        SandboxRequest { gateway: Some(Arc::new(Upper)), tools: Some(access), ..request("{}") };
    let sandbox = AcaProvider::new(options(&double)).create(&wanted).await.unwrap();
    let text = "import socket, greeting\n\
                def call(text):\n    \
                s = socket.socket(socket.AF_UNIX); s.connect('/run/stockade/tools.sock')\n    \
                s.sendall(text.encode() + b'\\n'); s.shutdown(socket.SHUT_WR)\n    \
                print(s.makefile().read().strip())\n\
                call(greeting.WORD); call('again'); call('x' * 100000)";
    let ran = run(sandbox.as_ref(), code(text)).await;
    assert_eq!(ran.output(), format!("HELLO\nAGAIN\n{}\n", "X".repeat(100_000)), "{}", ran.stderr);
    // The files of tools cannot be changed by programs.
    let ran = run(sandbox.as_ref(), code("open('/run/stockade/python/greeting.py', 'w')")).await;
    assert!(ran.stderr.contains("PermissionError"), "{}", ran.stderr);
}
