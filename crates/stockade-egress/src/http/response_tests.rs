use super::*;

const PLAIN: Asked = Asked { head_only: false, websocket: false };

fn read(text: &str, asked: Asked) -> Result<ResponseHead, HeadError> {
    parse_response(text.as_bytes(), asked)
}

#[test]
fn end_of_a_response_is_known_from_its_head() {
    let length = |text: &str, asked| {
        let head = read(text, asked).unwrap();
        (head.length, head.is_last)
    };
    let counted = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(length(counted, PLAIN), (Length::Bytes(5), false));
    let head_only = Asked { head_only: true, ..PLAIN };
    assert_eq!(length(counted, head_only), (Length::Nothing, false));
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(length(chunks, PLAIN), (Length::Chunks, false));
    assert_eq!(length("HTTP/1.1 200 OK\r\n\r\n", PLAIN), (Length::UntilClose, true));
    for status in [100, 103, 204, 304] {
        let text = format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(length(&text, PLAIN), (Length::Nothing, false), "{status}");
    }
    let closing = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
    assert_eq!(length(closing, PLAIN), (Length::Bytes(5), true));
    let old = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(length(old, PLAIN), (Length::Bytes(5), true));
}

#[test]
fn ambiguous_responses_are_refused() {
    for (text, error) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            HeadError::TwoLengths,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            HeadError::ContentLength,
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", HeadError::TransferEncoding),
        ("HTTP/1.1 600 X\r\n\r\n", HeadError::Malformed),
        ("HTTP/2.0 200 OK\r\n\r\n", HeadError::Version),
    ] {
        assert_eq!(read(text, PLAIN), Err(error), "{text}");
    }
}

#[test]
fn unrequested_upgrade_is_refused() {
    let switching = "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let asked = Asked { websocket: true, ..PLAIN };
    assert!(read(switching, asked).unwrap().is_websocket);
    assert_eq!(read(switching, PLAIN), Err(HeadError::UnaskedUpgrade));
    let other = "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
    assert_eq!(read(other, asked), Err(HeadError::UnaskedUpgrade));
}
