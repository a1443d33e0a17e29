use super::*;

const NONCE: Nonce = Nonce([7; 16]);

fn version() -> GuestVersion {
    GuestVersion::try_from("0.1.0".to_owned()).unwrap()
}

fn reply() -> HelloReply {
    HelloReply { version: PROTOCOL_VERSION, nonce: NONCE, guest_version: version(), pid: 1 }
}

#[test]
fn valid_handshake_succeeds() {
    let said = answer(&greet(NONCE), version(), 1).unwrap();
    assert_eq!(check_reply(said, NONCE).unwrap(), reply());
}

#[test]
fn reply_with_another_nonce_is_refused() {
    let other = GuestMessage::HelloReply(HelloReply { nonce: Nonce([8; 16]), ..reply() });
    assert!(matches!(check_reply(other, NONCE), Err(HandshakeError::Nonce)));
}

#[test]
fn host_refuses_a_guest_of_another_version() {
    let old = GuestMessage::HelloReply(HelloReply { version: 1, ..reply() });
    let refused = check_reply(old, NONCE);
    let version = |error: &HandshakeError| {
        matches!(error, HandshakeError::Version { ours: PROTOCOL_VERSION, theirs: 1 })
    };
    assert!(refused.as_ref().is_err_and(version), "{refused:?}");
}

#[test]
fn guest_refuses_a_host_of_another_version() {
    let old = HostMessage::Hello(Hello { version: 0, nonce: NONCE });
    let refused = answer(&old, version(), 1);
    let version = |error: &HandshakeError| {
        matches!(error, HandshakeError::Version { ours: PROTOCOL_VERSION, theirs: 0 })
    };
    assert!(refused.as_ref().is_err_and(version), "{refused:?}");
}

#[test]
fn handshake_refuses_any_other_message() {
    let early = answer(&HostMessage::Pause, version(), 1);
    assert!(matches!(early, Err(HandshakeError::OutOfPlace { expected: "hello" })));
    let started = GuestMessage::Started(crate::ExecutionStarted { execution: 1 });
    let early = check_reply(started, NONCE);
    assert!(matches!(early, Err(HandshakeError::OutOfPlace { expected: "hello_reply" })));
}
