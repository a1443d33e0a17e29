//! A gate with a policy, names and a record, and programs that open streams to it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use hickory_proto::op::{Edns, Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use serde_json::Value;
use stockade_egress::{
    Dial, FixedNames, Gate, Learns, Secrets, Settings, SystemDial, Times, Trust,
};
use stockade_policy::Policy;
use stockade_provider::{Destination, Gateway};
use stockade_record::{Egress, Sink, ToolCall, Unrecorded};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};

use crate::certificate;

/// Longer than anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
pub(crate) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) fn policy(text: &str) -> Arc<Policy> {
    Arc::new(Policy::parse_str("p.yaml", text, Path::new("/srv")).unwrap())
}

/// A policy that opens names on a port of this machine, with further lines.
pub(crate) fn opens(port: u16, names: &[&str], more: &str) -> String {
    let mut text = "network_allowlist:\n".to_owned();
    for name in names.iter().chain(&["127.0.0.1"]) {
        text.push_str(&format!("  - {{host: '{name}', ports: [{port}]}}\n"));
    }
    text + more
}

/// Names that resolve to this machine.
pub(crate) fn here(names: &[&str]) -> FixedNames {
    names.iter().fold(FixedNames::default(), |fixed, name| fixed.answer(name, &[HERE], &[]))
}

/// Timeouts short enough for a test.
pub(crate) fn short_times() -> Times {
    Times {
        head: Duration::from_millis(300),
        first_bytes: Duration::from_millis(300),
        brief: Duration::from_millis(50),
        linger: Duration::from_millis(200),
        ..Times::default()
    }
}

/// Connects every dialled address to a server of the test, and remembers the addresses.
#[derive(Debug, Default)]
pub(crate) struct FakeInternet {
    dialled: Mutex<Vec<SocketAddr>>,
}

impl Dial for FakeInternet {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        self.dialled.lock().unwrap().push(address);
        Box::pin(TcpStream::connect(SocketAddr::new(HERE, address.port())))
    }
}

/// Keeps events, and can be set to fail.
#[derive(Debug)]
pub(crate) struct Recorder {
    events: watch::Sender<Vec<Egress>>,
    fails: Mutex<bool>,
}

impl Sink for Recorder {
    fn egress(&self, event: Egress) -> Result<(), Unrecorded> {
        if *self.fails.lock().unwrap() {
            return Err(Unrecorded);
        }
        self.events.send_modify(|events| events.push(event));
        Ok(())
    }

    fn tool_call(&self, event: ToolCall) -> Result<(), Unrecorded> {
        panic!("a gate calls no tools: {event:?}")
    }
}

pub(crate) struct World {
    pub(crate) gate: Gate,
    pub(crate) recorder: Arc<Recorder>,
    internet: Arc<FakeInternet>,
    settings: Settings,
}

impl World {
    pub(crate) fn new(text: &str, names: FixedNames) -> World {
        World::with_times(
            text,
            names,
            Times { linger: Duration::from_millis(200), ..Times::default() },
        )
    }

    pub(crate) fn with_times(text: &str, names: FixedNames, times: Times) -> World {
        let recorder = World::recorder();
        let internet = Arc::new(FakeInternet::default());
        let settings = Settings {
            resolver: Arc::new(names),
            dialer: internet.clone(),
            times,
            trust: Trust::default(),
            secrets: Secrets::default(),
        };
        let gate = Gate::with_settings(policy(text), recorder.clone(), settings.clone()).unwrap();
        World { gate, recorder, internet, settings }
    }

    /// With the dialer of a real gate.
    pub(crate) fn dialling(text: &str, names: FixedNames) -> World {
        let world = World::new(text, names);
        let settings = Settings { dialer: Arc::new(SystemDial), ..world.settings.clone() };
        let gate = Gate::with_settings(policy(text), world.recorder.clone(), settings).unwrap();
        World { gate, ..world }
    }

    /// With servers that this certificate authenticates, and with secrets.
    pub(crate) fn opening(
        text: &str,
        names: FixedNames,
        certificate: CertificateDer<'static>,
    ) -> World {
        let recorder = World::recorder();
        let internet = Arc::new(FakeInternet::default());
        let policy = policy(text);
        let settings = Settings {
            resolver: Arc::new(names),
            dialer: internet.clone(),
            times: Times { linger: Duration::from_millis(200), ..Times::default() },
            trust: Trust::Only(vec![certificate]),
            secrets: Secrets::load(&policy).unwrap(),
        };
        let gate = Gate::with_settings(policy, recorder.clone(), settings.clone()).unwrap();
        World { gate, recorder, internet, settings }
    }

    /// The placeholder of a secret.
    pub(crate) fn placeholder(&self, name: &str) -> String {
        let mut all = self.settings.secrets.placeholders().into_iter();
        all.find(|(own, _)| own == name).unwrap().1
    }

    /// A connection to a name in TLS that ends at the gate.
    pub(crate) async fn dial_tls(&self, name: &str, port: u16) -> TlsStream<DuplexStream> {
        let program = self.dial(name, port).await;
        within(self.tls(program, name)).await.unwrap()
    }

    /// The same for HTTP/2.
    pub(crate) async fn dial_two(&self, name: &str, port: u16) -> TlsStream<DuplexStream> {
        let program = self.dial(name, port).await;
        within(self.tls_with(program, name, &[b"h2"])).await.unwrap()
    }

    /// TLS as a program that trusts the session's authority alone starts it.
    pub(crate) async fn tls(
        &self,
        program: Program,
        name: &str,
    ) -> io::Result<TlsStream<DuplexStream>> {
        self.tls_with(program, name, &[]).await
    }

    async fn tls_with(
        &self,
        program: Program,
        name: &str,
        protocols: &[&[u8]],
    ) -> io::Result<TlsStream<DuplexStream>> {
        let pem = self.gate.authorities().unwrap();
        let own = pem.split_inclusive("-----END CERTIFICATE-----").next().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(own.as_bytes()).unwrap()).unwrap();
        let mut client = certificate::client(roots);
        client.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let connector = TlsConnector::from(Arc::new(client));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        connector.connect(name, program.stream).await
    }

    /// What a request on a new opened connection is answered.
    pub(crate) async fn ask_tls(&self, name: &str, port: u16, request: &str) -> String {
        let mut stream = self.dial_tls(name, port).await;
        let _ = within(stream.write_all(request.as_bytes())).await;
        let _ = within(stream.flush()).await;
        let mut bytes = Vec::new();
        let _ = within(stream.read_to_end(&mut bytes)).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn learning(text: &str, names: FixedNames) -> World {
        let recorder = World::recorder();
        let internet = Arc::new(FakeInternet::default());
        let (resolver, times) = (Arc::new(names), short_times());
        let settings = Settings {
            resolver,
            dialer: internet.clone(),
            times,
            trust: Trust::default(),
            secrets: Secrets::default(),
        };
        let gate = Gate::learning(policy(text), Learns::Hosts, recorder.clone(), settings.clone());
        let gate = gate.unwrap();
        World { gate, recorder, internet, settings }
    }

    /// Learns methods and paths of servers that this certificate authenticates.
    pub(crate) fn learning_requests(
        names: FixedNames,
        certificate: CertificateDer<'static>,
    ) -> World {
        World::learning_beyond("{}", Learns::Requests, names, certificate)
    }

    /// The same with a policy whose entries with conditions hold.
    pub(crate) fn learning_beyond(
        text: &str,
        learns: Learns,
        names: FixedNames,
        certificate: CertificateDer<'static>,
    ) -> World {
        let world = World::opening(text, names, certificate);
        let (sink, settings) = (world.recorder.clone(), world.settings.clone());
        let gate = Gate::learning(policy(text), learns, sink, settings).unwrap();
        World { gate, ..world }
    }

    fn recorder() -> Arc<Recorder> {
        Arc::new(Recorder { events: watch::Sender::new(Vec::new()), fails: Mutex::new(false) })
    }

    /// The addresses that were dialled, in order.
    pub(crate) fn dialled(&self) -> Vec<SocketAddr> {
        self.internet.dialled.lock().unwrap().clone()
    }

    pub(crate) fn break_record(&self) {
        *self.recorder.fails.lock().unwrap() = true;
    }

    /// A stream as the guest opens it.
    pub(crate) fn open(&self, destination: Destination) -> Program {
        let (inside, outside) = tokio::io::duplex(64 * 1024);
        tokio::spawn(self.gate.serve(destination, Box::new(outside)));
        Program { stream: inside }
    }

    pub(crate) fn proxy(&self) -> Program {
        self.open(Destination::Proxy)
    }

    /// A connection to a name, resolved as programs do.
    pub(crate) async fn dial(&self, name: &str, port: u16) -> Program {
        let address = self.address(name).await;
        self.open(Destination::Address { address, port })
    }

    /// The synthetic address of a name.
    pub(crate) async fn address(&self, name: &str) -> Ipv4Addr {
        let answer = self.ask(name, RecordType::A).await;
        match answer.answers.first().map(|record| &record.data) {
            Some(RData::A(address)) => address.0,
            other => panic!("{name} has no address: {other:?}"),
        }
    }

    /// One question to the name server inside, with EDNS.
    pub(crate) async fn ask(&self, name: &str, kind: RecordType) -> Message {
        let mut message = Message::query();
        message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        message.set_edns(Edns::new());
        let answer = self.ask_bytes(&message.to_vec().unwrap()).await;
        Message::from_vec(&answer).unwrap()
    }

    pub(crate) async fn code(&self, name: &str) -> ResponseCode {
        self.ask(name, RecordType::A).await.metadata.response_code
    }

    pub(crate) async fn ask_bytes(&self, question: &[u8]) -> Vec<u8> {
        let mut program = self.open(Destination::Names);
        let length = u16::try_from(question.len()).unwrap().to_be_bytes();
        program.send(&[&length, question].concat()).await;
        let length = within(program.stream.read_u16()).await.unwrap();
        let mut answer = vec![0; usize::from(length)];
        within(program.stream.read_exact(&mut answer)).await.unwrap();
        answer
    }

    /// The events, once there are so many.
    pub(crate) async fn events(&self, count: usize) -> Vec<Egress> {
        let mut receiver = self.recorder.events.subscribe();
        let events = within(receiver.wait_for(|events| events.len() >= count)).await;
        events.unwrap().clone()
    }

    /// The only event.
    pub(crate) async fn event(&self) -> Egress {
        let events = self.events(1).await;
        assert_eq!(events.len(), 1, "{events:#?}");
        events[0].clone()
    }
}

/// A program inside, as seen from its socket.
pub(crate) struct Program {
    pub(crate) stream: DuplexStream,
}

impl Program {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within(self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Sends although the gate may have closed the connection.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = timeout(DEADLINE, self.stream.write_all(bytes.as_ref())).await;
    }

    /// Everything up to the end.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = within(self.stream.read_to_end(&mut bytes)).await;
        bytes
    }

    pub(crate) async fn exactly(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        within(self.stream.read_exact(&mut bytes)).await.unwrap();
        bytes
    }

    /// A head, including its empty line.
    pub(crate) async fn head(&mut self) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            bytes.push(within(self.stream.read_u8()).await.unwrap());
        }
        String::from_utf8(bytes).unwrap()
    }

    /// An answer with a body of known length.
    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.head().await;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
        });
        let body = self.exactly(length.unwrap_or(0)).await;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body }
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.expect("it happens before the deadline")
}
