//! Parsing requests: leniently, because this server is not under test.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufStream};

use super::Connection;

/// The longest accepted head and body.
const MOST_HEAD_BYTES: usize = 256 << 10;
const MOST_BODY_BYTES: usize = 64 << 20;

/// One request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// The request line.
    pub(super) line: String,
    /// The method.
    pub(super) method: String,
    /// The target up to a question mark.
    pub(super) path: String,
    /// The query after the question mark.
    pub(super) query: String,
    /// Header names in lower case, and values.
    pub(super) headers: Vec<(String, String)>,
    /// The raw bytes of the head.
    pub(super) head: Vec<u8>,
    /// The decoded body.
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Reads the next request; `None` if the client has disconnected.
    pub(super) async fn read<C: Connection>(
        stream: &mut BufStream<C>,
    ) -> io::Result<Option<Request>> {
        let mut head = Vec::new();
        loop {
            let before = head.len();
            if stream.read_until(b'\n', &mut head).await? == 0 || head.len() > MOST_HEAD_BYTES {
                return Ok(None);
            }
            if matches!(&head[before..], b"\r\n" | b"\n") {
                break;
            }
        }
        let mut request = Request::parse(head);
        request.body = request.read_body(stream).await?;
        Ok(Some(request))
    }

    fn parse(head: Vec<u8>) -> Request {
        let text = String::from_utf8_lossy(&head).into_owned();
        let mut lines = text.lines();
        let line = lines.next().unwrap_or_default().to_owned();
        let mut words = line.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, query) = (path.to_owned(), query.to_owned());
        let split = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers = lines.filter_map(split).collect();
        Request { line, method, path, query, headers, head, body: Vec::new() }
    }

    async fn read_body<C: Connection>(&self, stream: &mut BufStream<C>) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if self.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            loop {
                let mut size = String::new();
                stream.read_line(&mut size).await?;
                let digits = size.trim().split(';').next().unwrap_or_default();
                let size = u64::from_str_radix(digits, 16).map_err(io::Error::other)?;
                bounded(body.len() as u64 + size)?;
                stream.take(size).read_to_end(&mut body).await?;
                stream.read_line(&mut String::new()).await?;
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        let length = self.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        bounded(length)?;
        stream.take(length).read_to_end(&mut body).await?;
        Ok(body)
    }

    /// The first header with this name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The decoded value of one key of the query.
    pub(super) fn parameter(&self, key: &str) -> Option<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(known, _)| *known == key).map(|(_, value)| unescape(value))
    }
}

fn bounded(length: u64) -> io::Result<()> {
    match length > MOST_BODY_BYTES as u64 {
        true => Err(io::Error::other("the body is too long for a test")),
        false => Ok(()),
    }
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).filter(|_| first == b'%');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn chunked_and_plain_requests_are_read_in_sequence() {
        let (client, server) = tokio::io::duplex(4096);
        let mut client = BufStream::new(client);
        let text = "POST /a?to=x%3Ay HTTP/1.1\r\nHost: files.test\r\nContent-Length: 2\r\n\r\nhi\
                    POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyou\r\n0\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut client, text.as_bytes()).await.unwrap();
        tokio::io::AsyncWriteExt::flush(&mut client).await.unwrap();
        let mut server = BufStream::new(server);
        let first = Request::read(&mut server).await.unwrap().unwrap();
        assert_eq!(first.parameter("to").as_deref(), Some("x:y"));
        assert_eq!((first.path.as_str(), first.body.as_slice()), ("/a", &b"hi"[..]));
        let second = Request::read(&mut server).await.unwrap().unwrap();
        assert_eq!((second.path.as_str(), second.body.as_slice()), ("/b", &b"you"[..]));
        drop(client);
        assert_eq!(Request::read(&mut server).await.unwrap(), None);
    }
}
