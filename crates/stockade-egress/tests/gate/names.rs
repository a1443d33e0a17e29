//! The name server inside.

use std::net::Ipv4Addr;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{RData, RecordType};
use stockade_egress::FixedNames;
use stockade_record::Via;

use crate::world::World;

fn world(text: &str) -> World {
    World::new(text, FixedNames::default())
}

#[tokio::test]
async fn allowed_names_get_one_address_each_and_nothing_else() {
    let world = world("network_allowlist: [a.example.org, '*.example.net']");
    assert_eq!(world.address("a.example.org").await, Ipv4Addr::new(127, 64, 0, 1));
    assert_eq!(world.address("x.example.net").await, Ipv4Addr::new(127, 64, 0, 2));
    assert_eq!(world.address("A.Example.ORG").await, Ipv4Addr::new(127, 64, 0, 1));
    for kind in [RecordType::AAAA, RecordType::HTTPS, RecordType::SVCB, RecordType::TXT] {
        let answer = world.ask("a.example.org", kind).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::NoError, "{kind}");
        assert!(answer.answers.is_empty(), "{kind}");
    }
    let service = world.ask("_https._tcp.a.example.org", RecordType::SRV).await;
    assert_eq!(service.metadata.response_code, ResponseCode::NoError);
    assert!(world.gate.observed().denials.is_empty());
}

#[tokio::test]
async fn other_names_do_not_exist_and_the_answer_gives_the_reason() {
    let world = world("{network_allowlist: [a.example.org], network_blocklist: [b.example.org]}");
    assert_eq!(world.code("a.example.org").await, ResponseCode::NoError);
    let answer = world.ask("token.evil.example.net", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    let explained = |answer: &hickory_proto::op::Message| {
        let options = answer.edns.as_ref().unwrap().options().clone();
        let (_, option) = options.options.into_iter().next().unwrap();
        match option {
            hickory_proto::rr::rdata::opt::EdnsOption::Unknown(15, bytes) => {
                let (code, words) = bytes.split_at(2);
                (code[1], String::from_utf8(words.to_vec()).unwrap())
            }
            other => panic!("{other:?}"),
        }
    };
    let (code, words) = explained(&answer);
    assert_eq!(code, 18);
    assert_eq!(
        words,
        "network_allowlist does not name token.evil.example.net; \
         add `token.evil.example.net` to network_allowlist"
    );
    assert_eq!(explained(&world.ask("b.example.org", RecordType::A).await).0, 15);
    let events = world.events(2).await;
    assert_eq!((events[0].via, events[0].host.as_str()), (Via::Dns, "token.evil.example.net"));
    assert_eq!(world.gate.observed().denials.len(), 2);
}

#[tokio::test]
async fn localhost_is_the_sandbox_itself_and_addresses_have_no_names() {
    let world = world("defaults: {network_default: allow}");
    let v4 = world.ask("localhost", RecordType::A).await;
    assert_eq!(v4.answers[0].data, RData::from(Ipv4Addr::LOCALHOST));
    let v6 = world.ask("x.localhost", RecordType::AAAA).await;
    assert_eq!(v6.answers[0].data, RData::from(std::net::Ipv6Addr::LOCALHOST));
    let reverse = world.ask("1.0.64.127.in-addr.arpa", RecordType::PTR).await;
    assert_eq!(reverse.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(world.code("metadata.google.internal").await, ResponseCode::NXDomain);
    assert_eq!(world.code("anything.example.org").await, ResponseCode::NoError);
}

#[tokio::test]
async fn name_after_the_last_free_address_is_refused_and_the_others_stay() {
    let world = world("network_allowlist: ['*.example.org']");
    for number in 0..1024 {
        assert_eq!(world.code(&format!("n{number}.example.org")).await, ResponseCode::NoError);
    }
    assert_eq!(world.code("one-more.example.org").await, ResponseCode::NXDomain);
    assert_eq!(world.address("n0.example.org").await, Ipv4Addr::new(127, 64, 0, 1));
}

#[tokio::test]
async fn malformed_question_gets_exactly_one_answer() {
    let world = world("network_allowlist: [a.example.org]");
    for bytes in [&b""[..], b"x", b"xyz", &[0xff; 12], &[0; 12], &[0x12; 600]] {
        let answer = world.ask_bytes(bytes).await;
        assert!(answer.len() >= 12, "{bytes:?}");
        assert_ne!(answer[3] & 15, 0, "an error code for {bytes:?}");
        let id = bytes.get(..2).unwrap_or(&[0, 0]);
        assert_eq!(&answer[..2], id);
    }
}
