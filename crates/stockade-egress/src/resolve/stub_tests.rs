use std::net::SocketAddr;

use hickory_proto::rr::Record;
use hickory_proto::rr::rdata::{A, AAAA, CNAME};
use tokio::net::TcpListener;

use super::*;
use crate::resolve::{Resolve, Resolved, SystemResolver};

/// A name server with computed answers, over UDP and TCP on one port.
async fn server(answers: fn(&Message, bool) -> Message) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let answer = answers(&question, false).to_vec().unwrap();
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let length = stream.read_u16().await.unwrap();
            let mut buffer = vec![0; usize::from(length)];
            stream.read_exact(&mut buffer).await.unwrap();
            let answer = answers(&Message::from_vec(&buffer).unwrap(), true).to_vec().unwrap();
            let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
            stream.write_all(&[&length, answer.as_slice()].concat()).await.unwrap();
        }
    });
    address
}

fn reply(question: &Message) -> Message {
    let mut message = Message::response(question.metadata.id, question.metadata.op_code);
    message.metadata.recursion_available = true;
    message.add_query(question.queries[0].clone());
    message
}

fn record(owner: &str, data: RData) -> Record {
    Record::from_rdata(Name::from_ascii(owner).unwrap(), 0, data)
}

fn alias(owner: &str, target: &str) -> Record {
    record(owner, RData::CNAME(CNAME(Name::from_ascii(target).unwrap())))
}

fn name(text: &str) -> HostName {
    match Host::parse(text).unwrap() {
        Host::Name(name) => name,
        Host::Address(_) => unreachable!("it is a name"),
    }
}

async fn step(address: SocketAddr, kind: RecordType) -> Result<Step, ResolveError> {
    let timeout = std::time::Duration::from_secs(5);
    let servers = Servers { addresses: vec![address], timeout, attempts: 1 };
    let asked = name("a.example.org");
    ask(&servers, &asked, &asked, kind).await
}

#[tokio::test]
async fn aliases_are_followed_and_unrelated_records_are_ignored() {
    let server = server(|question, _| {
        let mut message = reply(question);
        message.add_answer(alias("a.example.org.", "b.example.net."));
        message.add_answer(alias("b.example.net.", "c.example.com."));
        message.add_answer(record("c.example.com.", RData::A(A([192, 0, 2, 7].into()))));
        message.add_answer(record("evil.example.", RData::A(A([10, 0, 0, 1].into()))));
        message
    })
    .await;
    let expected = Step {
        aliases: vec![name("b.example.net"), name("c.example.com")],
        addresses: vec!["192.0.2.7".parse().unwrap()],
        is_end: true,
    };
    assert_eq!(step(server, RecordType::A).await, Ok(expected));
}

#[tokio::test]
async fn truncated_answer_is_queried_again_over_tcp() {
    let server = server(|question, over_tcp| {
        let mut message = reply(question);
        message.metadata.truncation = !over_tcp;
        if over_tcp {
            message.add_answer(record("a.example.org.", RData::AAAA(AAAA(Ipv6Addr::LOCALHOST))));
        }
        message
    })
    .await;
    let found = step(server, RecordType::AAAA).await.unwrap();
    assert_eq!(found.addresses, [IpAddr::from(Ipv6Addr::LOCALHOST)]);
}

#[tokio::test]
async fn invalid_and_circular_aliases_are_refused() {
    let odd = server(|question, _| {
        let mut message = reply(question);
        message.add_answer(alias("a.example.org.", "a_b.example.net."));
        message
    })
    .await;
    let circle = server(|question, _| {
        let mut message = reply(question);
        message.add_answer(alias("a.example.org.", "b.example.org."));
        message.add_answer(alias("b.example.org.", "a.example.org."));
        message
    })
    .await;
    for server in [odd, circle] {
        let error = ResolveError::BadAlias { name: name("a.example.org") };
        assert_eq!(step(server, RecordType::A).await, Err(error));
    }
}

#[tokio::test]
async fn missing_names_are_distinguished_from_silent_servers() {
    let server = server(|question, _| {
        let mut message = reply(question);
        message.metadata.response_code = ResponseCode::NXDomain;
        message
    })
    .await;
    let unknown = ResolveError::Unknown { name: name("a.example.org") };
    assert_eq!(step(server, RecordType::A).await, Err(unknown));
    let unbound = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = ResolveError::NoAnswer { name: name("a.example.org") };
    assert_eq!(step(unbound, RecordType::A).await, Err(silent));
}

#[tokio::test]
async fn hosts_file_comes_first() {
    let resolver = SystemResolver::from_texts("nameserver 192.0.2.1", "192.0.2.7 a.example.org");
    let found = resolver.resolve(&name("a.example.org")).await;
    let addresses = vec!["192.0.2.7".parse().unwrap()];
    assert_eq!(found, Ok(Resolved { addresses, aliases: Vec::new() }));
}
