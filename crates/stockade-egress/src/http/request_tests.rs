use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<RequestHead, HeadError> {
    parse_request(text.as_bytes())
}

fn with(fields: &str) -> Result<RequestHead, HeadError> {
    read(&format!("POST /x HTTP/1.1\r\nHost: a.example.org\r\n{fields}\r\n"))
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

#[test]
fn plain_requests_are_parsed() {
    let head = read("GET /a?b HTTP/1.1\r\nHost: A.example.org.:8080\r\nX: y\r\n\r\n").unwrap();
    let aim = RequestTarget::Origin {
        host: host("a.example.org"),
        port: Some(8080),
        path: "/a?b".to_owned(),
    };
    assert_eq!((head.method.as_str(), head.aim, head.length), ("GET", aim, Length::Nothing));
    assert!(!head.is_last && !head.wants_websocket);
    assert_eq!(head.fields.0.len(), 1);
    assert_eq!(with("Content-Length: 5\r\n").unwrap().length, Length::Bytes(5));
    assert_eq!(with("Transfer-Encoding: Chunked\r\n").unwrap().length, Length::Chunks);
    assert!(with("Connection: close\r\n").unwrap().is_last);
}

#[test]
fn ambiguous_lengths_are_refused() {
    for (fields, error) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", HeadError::TwoLengths),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", HeadError::ContentLength),
        ("Content-Length: 5, 5\r\n", HeadError::ContentLength),
        ("Content-Length: +5\r\n", HeadError::ContentLength),
        ("Content-Length: -5\r\n", HeadError::ContentLength),
        ("Content-Length: 0x5\r\n", HeadError::ContentLength),
        ("Content-Length:\r\n", HeadError::ContentLength),
        ("Content-Length: 99999999999999999999\r\n", HeadError::ContentLength),
        ("Transfer-Encoding: gzip, chunked\r\n", HeadError::TransferEncoding),
        ("Transfer-Encoding: xchunked\r\n", HeadError::TransferEncoding),
        ("Transfer-Encoding: \"chunked\"\r\n", HeadError::TransferEncoding),
        ("Transfer-Encoding: identity\r\n", HeadError::TransferEncoding),
        ("Transfer-Encoding: chunked, identity\r\n", HeadError::TransferEncoding),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            HeadError::TransferEncoding,
        ),
        ("Transfer-Encoding : chunked\r\n", HeadError::Malformed),
        ("A: b\r\n c\r\n", HeadError::Malformed),
        (": b\r\n", HeadError::Malformed),
        ("Connection: content-length\r\n", HeadError::Connection),
        ("Connection: Transfer-Encoding\r\n", HeadError::Connection),
    ] {
        assert_eq!(with(fields), Err(error), "{fields}");
    }
    let old = "POST / HTTP/1.0\r\nHost: a.example.org\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(read(old), Err(HeadError::TransferEncoding));
}

#[test]
fn hosts_and_targets_that_disagree_are_refused() {
    for (text, error) in [
        ("GET / HTTP/1.1\r\n\r\n", HeadError::Host),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", HeadError::Host),
        ("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", HeadError::OtherHost),
        ("GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::OtherHost),
        ("GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Scheme),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Target),
        ("get / HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Method),
        ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Method),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", HeadError::Version),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Malformed),
        ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::Malformed),
    ] {
        assert_eq!(read(text), Err(error), "{text}");
    }
    for bad in ["a@b", "a/b", "a%00", "a b", "127.1", "a:080", "[::1"] {
        let error = read(&format!("GET / HTTP/1.1\r\nHost: {bad}\r\n\r\n")).unwrap_err();
        assert!(matches!(error, HeadError::Authority(_)), "{bad}: {error:?}");
    }
}

#[test]
fn hop_by_hop_fields_are_not_forwarded() {
    let fields = "Connection: close, X-Private\r\nX-Private: 1\r\nProxy-Authorization: s\r\n\
                  Proxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nTE: trailers\r\nTrailer: X\r\n\
                  Upgrade: h2c\r\nHTTP2-Settings: x\r\nX-Public: 2\r\n";
    let head = with(fields).unwrap();
    let passed: Vec<&str> = head.fields.0.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(passed, ["X-Public"]);
    assert!(!head.wants_websocket);
}

#[test]
fn upgrades_to_a_websocket_are_plain_or_refused() {
    let ask = |line: &str, fields: &str| read(&format!("{line}\r\nHost: a\r\n{fields}\r\n"));
    let plain = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    assert!(ask("GET / HTTP/1.1", plain).unwrap().wants_websocket);
    for (line, fields) in [
        ("POST / HTTP/1.1", plain),
        ("GET / HTTP/1.0", plain),
        ("GET / HTTP/1.1", "Upgrade: websocket\r\n"),
        ("GET / HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n"),
        ("GET / HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n"),
    ] {
        assert_eq!(ask(line, fields), Err(HeadError::Upgrade), "{line} {fields}");
    }
}

#[test]
fn number_of_fields_is_bounded() {
    assert!(with(&"A: b\r\n".repeat(99)).is_ok());
    assert_eq!(with(&"A: b\r\n".repeat(100)), Err(HeadError::TooManyFields));
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::http(&bytes);
    }

    #[test]
    fn accepted_requests_have_one_host_and_one_length(
        lines in proptest::collection::vec(
            prop_oneof![
                Just("Host: a"), Just("Host: b"), Just("Content-Length: 1"),
                Just("content-length: 2"), Just("Transfer-Encoding: chunked"),
                Just("Connection: close"), Just("X: y"),
            ],
            0..6,
        ),
    ) {
        let count = |name: &str| {
            lines.iter().filter(|line| line.to_ascii_lowercase().starts_with(name)).count()
        };
        let text = format!("POST / HTTP/1.1\r\n{}\r\n\r\n", lines.join("\r\n"));
        let text = text.replace("1.1\r\n\r\n\r\n", "1.1\r\n\r\n");
        let plain = count("host") == 1 && count("content-length") + count("transfer") <= 1;
        prop_assert_eq!(parse_request(text.as_bytes()).is_ok(), plain);
    }
}
