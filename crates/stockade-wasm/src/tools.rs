//! The connection of a program to the tool broker.

use stockade_provider::Destination;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};

use crate::guest::HostCalls;

/// The longest request and the longest answer: the largest `max_tool_bytes` with its envelope. The
/// broker refuses less by the policy.
const MAX_LINE: usize = (64 << 20) + (64 << 10);

/// One connection, used for one call at a time.
pub(crate) struct ToolConnection {
    stream: BufReader<DuplexStream>,
}

impl ToolConnection {
    pub(crate) fn open(calls: &HostCalls) -> Result<ToolConnection, &'static str> {
        if !calls.carries().tools {
            return Err("no tool can be called: this sandbox has none");
        }
        let stream = calls.open(Destination::Tools);
        let stream = stream.ok_or("no tool can be called: too many connections are open")?;
        Ok(ToolConnection { stream: BufReader::new(stream) })
    }

    /// Sends one line and returns the answer without its line feed.
    pub(crate) async fn ask(&mut self, mut line: Vec<u8>) -> Result<Vec<u8>, String> {
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if line.contains(&b'\n') {
            return Err("a request is one line".to_owned());
        }
        if line.len() > MAX_LINE {
            return Err(format!("a request has at most {MAX_LINE} bytes"));
        }
        line.push(b'\n');
        // The broker may have answered and closed before it read everything.
        let _ = self.stream.get_mut().write_all(&line).await;
        let mut answer = Vec::new();
        let most = u64::try_from(MAX_LINE).expect("usize has at most 64 bits");
        let read = (&mut self.stream).take(most).read_until(b'\n', &mut answer).await;
        match (read, answer.pop()) {
            (Ok(_), Some(b'\n')) => Ok(answer),
            _ => Err("the tool broker closed the connection".to_owned()),
        }
    }
}
