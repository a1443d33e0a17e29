use std::io::{self, Cursor};
use std::os::unix::net::UnixStream;
use std::thread;

use super::*;

const NONCE: Nonce = Nonce([7; 16]);

/// A stream that hands out prepared bytes and keeps what is written to it.
struct Scripted {
    incoming: Cursor<Vec<u8>>,
    outgoing: Vec<u8>,
}

impl Scripted {
    fn saying(message: &Message) -> Scripted {
        let mut bytes = Vec::new();
        write_message(&mut bytes, message).unwrap();
        Scripted { incoming: Cursor::new(bytes), outgoing: Vec::new() }
    }
}

impl Read for Scripted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.incoming.read(buffer)
    }
}

impl Write for Scripted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn version() -> GuestVersion {
    GuestVersion::try_from("0.1.0".to_owned()).unwrap()
}

fn reply() -> HelloReply {
    HelloReply { version: PROTOCOL_VERSION, nonce: NONCE, guest_version: version(), pid: 1 }
}

#[test]
fn both_ends_agree_over_a_real_socket() {
    let (mut host, mut guest) = UnixStream::pair().unwrap();
    let inside = thread::spawn(move || answer(&mut guest, version(), 1));
    assert_eq!(greet(&mut host, NONCE).unwrap(), reply());
    inside.join().unwrap().unwrap();
}

#[test]
fn reply_with_another_nonce_is_refused() {
    let mut stream =
        Scripted::saying(&Message::HelloReply(HelloReply { nonce: Nonce([8; 16]), ..reply() }));
    assert!(matches!(greet(&mut stream, NONCE), Err(HandshakeError::Nonce)));
}

#[test]
fn host_refuses_a_guest_of_another_version() {
    let mut stream = Scripted::saying(&Message::HelloReply(HelloReply { version: 2, ..reply() }));
    let refused = greet(&mut stream, NONCE);
    assert!(matches!(refused, Err(HandshakeError::Version { ours: 1, theirs: 2 })), "{refused:?}");
}

#[test]
fn guest_refuses_a_host_of_another_version_and_stays_silent() {
    let mut stream = Scripted::saying(&Message::Hello(Hello { version: 0, nonce: NONCE }));
    let refused = answer(&mut stream, version(), 1);
    assert!(matches!(refused, Err(HandshakeError::Version { ours: 1, theirs: 0 })), "{refused:?}");
    assert!(stream.outgoing.is_empty());
}

#[test]
fn hello_is_not_an_answer_and_a_reply_is_not_a_question() {
    let hello = Message::Hello(Hello { version: PROTOCOL_VERSION, nonce: NONCE });
    let echoed = greet(&mut Scripted::saying(&hello), NONCE);
    assert!(matches!(echoed, Err(HandshakeError::OutOfPlace { expected: "hello_reply" })));
    let reversed = answer(&mut Scripted::saying(&Message::HelloReply(reply())), version(), 1);
    assert!(matches!(reversed, Err(HandshakeError::OutOfPlace { expected: "hello" })));
}
