use proptest::prelude::*;

use super::*;

fn question(name: &str, kind: RecordType, edns: bool) -> Vec<u8> {
    let mut message = Message::new(0x1234, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    if edns {
        message.set_edns(Edns::new());
    }
    message.to_vec().unwrap()
}

fn asked_for(name: &str) -> Asked {
    read_question(&question(name, RecordType::A, false)).unwrap().asked
}

fn name(text: &str) -> HostName {
    match Host::parse(text).unwrap() {
        Host::Name(name) => name,
        Host::Address(_) => unreachable!("it is a name"),
    }
}

#[test]
fn questions_use_the_single_parser_of_host_names() {
    assert_eq!(asked_for("WWW.Example.org."), Asked::Name(name("www.example.org")));
    assert_eq!(asked_for("_a._tcp.example.org"), Asked::Service(name("example.org")));
    assert_eq!(asked_for("LOCALHOST."), Asked::Localhost);
    assert_eq!(asked_for("4.3.2.1.IN-ADDR.arpa"), Asked::Reverse);
    for none in ["127.0.0.1", "2130706433", "0x7f.1", "a_b.example.org", "xn--example-.org", "."] {
        assert!(matches!(asked_for(none), Asked::NoHost(_)), "{none}");
    }
}

#[test]
fn labels_with_hidden_bytes_are_not_names() {
    for label in [&b"a.b"[..], b"a\0b", b"a b", b"\xff", b"a\n"] {
        let labels: Vec<&[u8]> = vec![label, b"example", b"org"];
        let mut bytes = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend_from_slice(label);
        }
        bytes.extend_from_slice(&[0, 0, 1, 0, 1]);
        let question = read_question(&bytes).unwrap();
        assert!(matches!(question.asked, Asked::NoHost(_)), "{label:?}");
    }
}

#[test]
fn answers_repeat_the_question_and_explain_only_with_edns() {
    let plain = read_question(&question("a.example.org", RecordType::A, false)).unwrap();
    let refused = Reply::Refused(18, "because".to_owned());
    let message = Message::from_vec(&answer(&plain, &refused)).unwrap();
    assert_eq!(message.metadata.id, 0x1234);
    assert_eq!(message.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!((message.queries.len(), message.edns), (1, None));
    let with_edns = read_question(&question("a.example.org", RecordType::A, true)).unwrap();
    let message = Message::from_vec(&answer(&with_edns, &refused)).unwrap();
    let options = message.edns.unwrap().options().options.clone();
    let expected = EdnsOption::Unknown(15, b"\0\x12because".to_vec());
    assert_eq!(options.into_iter().map(|(_, option)| option).collect::<Vec<_>>(), [expected]);
}

#[test]
fn two_questions_other_classes_and_updates_are_refused_with_their_codes() {
    let code = |bytes: &[u8]| read_question(bytes).unwrap_err()[3] & 15;
    let plain = question("a.example.org", RecordType::A, false);
    let mut two = Message::from_vec(&plain).unwrap();
    two.add_query(two.queries[0].clone());
    assert_eq!(code(&two.to_vec().unwrap()), ResponseCode::FormErr.low());
    let mut chaos = Message::from_vec(&plain).unwrap();
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(code(&chaos.to_vec().unwrap()), ResponseCode::Refused.low());
    let mut notify = Message::from_vec(&plain).unwrap();
    notify.metadata.op_code = OpCode::Notify;
    assert_eq!(code(&notify.to_vec().unwrap()), ResponseCode::NotImp.low());
    let mut response = Message::from_vec(&plain).unwrap();
    response.metadata.message_type = MessageType::Response;
    assert_eq!(code(&response.to_vec().unwrap()), ResponseCode::FormErr.low());
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer_that_fits_a_datagram(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        crate::fuzzing::dns(&bytes);
    }

    #[test]
    fn any_name_gets_an_answer_that_fits_a_datagram(
        labels in proptest::collection::vec("[a-zA-Z0-9]([a-zA-Z0-9_-]{0,61}[a-z])?", 1..4),
        edns in any::<bool>(),
    ) {
        crate::fuzzing::dns(&question(&labels.join("."), RecordType::A, edns));
    }
}
