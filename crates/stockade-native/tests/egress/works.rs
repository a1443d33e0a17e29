//! DNS and connections as a program sees them.

use std::io::ErrorKind;
use std::sync::Arc;
use stockade_provider::Destination;

use tokio::time::timeout;

use crate::gateway::{ADDRESS, BREAKS, COUNTS, DENIES, ECHO, GREETS, RESETS, SENDS, TestGateway};
use crate::support::{LIMIT, egress_can_be_built, finish, run, runtime, sandbox, start};

fn connection(port: u16) -> Destination {
    Destination::Address { address: ADDRESS, port }
}

#[test]
fn dialled_address_reaches_the_gateway_with_its_port() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run("\
connection = dial('127.64.0.1', 443)
connection.sendall(b'ping')
print(connection.recv(4).decode(), connection.getpeername())
");
    assert_eq!(said, "ping ('127.64.0.1', 443)\n");
    assert_eq!(gateway.opened(), [connection(ECHO)]);
}

#[test]
fn whole_synthetic_range_is_forwarded_and_its_neighbours_are_not() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run("\
for address, port in [('127.64.0.0', 1), ('127.127.255.255', 65535), ('127.100.7.9', 22)]:
    connection = dial(address, port)
    connection.sendall(b'ping')
    print(connection.recv(4).decode())
for address in ['127.63.255.255', '127.128.0.0', '127.0.0.1', '127.0.0.53', '127.0.0.54']:
    print(refused(lambda: dial(address, 443)))
");
    assert_eq!(said, format!("{}{}", "ping\n".repeat(3), "ECONNREFUSED\n".repeat(5)));
    let at = |address: [u8; 4], port| Destination::Address { address: address.into(), port };
    let expected =
        [at([127, 64, 0, 0], 1), at([127, 127, 255, 255], 65535), at([127, 100, 7, 9], 22)];
    assert_eq!(gateway.opened(), expected);
}

#[test]
fn guest_port_rejects_connections_that_were_not_redirected() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run("\
echo = dial('127.64.0.1', 443)
echo.sendall(b'ping')
print(echo.recv(4).decode())
direct = dial('127.0.0.53', 1)
try:
    direct.sendall(b'ping')
    print(direct.recv(4))
except OSError as error:
    print('reset')
");
    assert!(["ping\nb''\n", "ping\nreset\n"].contains(&said.as_str()), "{said}");
    assert_eq!(gateway.opened(), [connection(ECHO)]);
}

#[test]
fn known_name_resolves_by_every_resolver_and_reaches_the_gateway() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run("\
flags = socket.AI_ADDRCONFIG
print([entry[4] for entry in socket.getaddrinfo('echo.test', 443, type=socket.SOCK_STREAM)])
print([entry[4] for entry in socket.getaddrinfo('echo.test', 443, type=socket.SOCK_STREAM, flags=flags)])
print(socket.gethostbyname('ECHO.test.'))
connection = socket.create_connection(('echo.test', 443))
connection.sendall(b'ping')
print(connection.recv(4).decode())
try:
    socket.getaddrinfo('other.test', 443)
except socket.gaierror as error:
    print(error.errno == socket.EAI_NONAME)
");
    let address = "[('127.64.0.1', 443)]\n";
    assert_eq!(said, format!("{address}{address}127.64.0.1\nping\nTrue\n"));
    let opened = gateway.opened();
    assert_eq!(opened.iter().filter(|one| **one == Destination::Names).count(), 1, "{opened:?}");
    assert_eq!(opened.last(), Some(&connection(ECHO)));
}

const QUESTION: &str = "\
question = bytes.fromhex('1234 0100 0001 0000 0000 0000 04 6563686f 04 74657374 00 0001 0001')
def address(answer):
    return (answer[:2].hex(), '.'.join(str(byte) for byte in answer[-4:]))
";

#[test]
fn dns_answers_over_udp_and_tcp_from_the_queried_address() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run(&format!(
        "{QUESTION}\
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.settimeout(20)
datagrams.sendto(question, ('127.0.0.53', 53))
answer, sender = datagrams.recvfrom(4096)
print(address(answer), sender)
connection = dial('127.0.0.53', 53)
for _ in range(2):
    connection.sendall(len(question).to_bytes(2, 'big') + question)
    length = int.from_bytes(exactly(connection, 2), 'big')
    print(address(exactly(connection, length)))
"
    ));
    let answer = "('1234', '127.64.0.1')";
    assert_eq!(said, format!("{answer} ('127.0.0.53', 53)\n{answer}\n{answer}\n"));
    assert_eq!(gateway.opened(), [Destination::Names, Destination::Names]);
}

#[test]
fn query_flood_is_answered_and_each_answer_reaches_its_client() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run(&format!(
        "{QUESTION}\
askers = []
for number in range(200):
    asker = socket.socket(type=socket.SOCK_DGRAM)
    asker.settimeout(20)
    asker.connect(('127.0.0.53', 53))
    askers.append(asker)
for number, asker in enumerate(askers):
    asker.send(number.to_bytes(2, 'big') + question[2:])
good = sum(address(asker.recv(4096)) == (number.to_bytes(2, 'big').hex(), '127.64.0.1')
           for number, asker in enumerate(askers))
print(good)
askers[0].send(b'x' * 5000)
askers[0].send(question)
print(address(askers[0].recv(4096)))
"
    ));
    assert_eq!(said, "200\n('1234', '127.64.0.1')\n", "one that is too long is dropped");
    assert_eq!(gateway.opened(), [Destination::Names]);
}

#[test]
fn proxy_variables_are_set_and_lead_to_the_gateway() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run("\
print(sorted(name for name in os.environ if name.lower().endswith('_proxy')))
host, port = os.environ['https_proxy'].removeprefix('http://').split(':')
connection = dial(host, int(port))
connection.sendall(b'CONNECT')
connection.shutdown(socket.SHUT_WR)
print(everything(connection).decode())
");
    let names = "['ALL_PROXY', 'HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY', 'all_proxy', \
                 'http_proxy', 'https_proxy', 'no_proxy']";
    assert_eq!(said, format!("{names}\nproxy CONNECT\n"));
    assert_eq!(gateway.opened(), [Destination::Proxy]);
}

#[test]
fn each_side_can_end_before_the_other() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!(
        "\
talks = dial('127.64.0.1', {COUNTS})
talks.sendall(b'x' * 3_000_000)
talks.shutdown(socket.SHUT_WR)
print(everything(talks).decode())
listens = dial('127.64.0.1', {GREETS})
print(everything(listens).decode())
listens.sendall(b'more, after its end')
listens.close()
"
    ));
    assert_eq!(said, "3000000\nhello\n");
}

#[test]
fn reset_on_either_side_is_a_reset_on_the_other() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!(
        "\
connection = dial('127.64.0.1', {RESETS})
connection.sendall(b'x')
print(refused(lambda: connection.recv(1)))
ended = dial('127.64.0.1', {BREAKS})
ended.sendall(b'x')
ended.shutdown(socket.SHUT_WR)
print(refused(lambda: ended.recv(1)))
"
    ));
    assert_eq!(said, "ECONNRESET\nECONNRESET\n");
}

#[test]
fn gateway_distinguishes_a_reset_from_a_close() {
    if !egress_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let gateway = TestGateway::default();
        let mut sandbox = sandbox("{}", Some(Arc::new(gateway.clone()))).await.unwrap();
        let script = "\
import struct
for linger in ((0, 0), (1, 0)):
    connection = dial('127.64.0.1', 443)
    connection.sendall(b'ping')
    print(connection.recv(4).decode())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', *linger))
    connection.close()
";
        let running = start(&mut sandbox, script).await;
        assert_eq!(finish(running).await, "ping\nping\n");
        let ended = timeout(LIMIT, gateway.ended(2)).await.expect("both were served to the end");
        assert_eq!(ended, [None, Some(ErrorKind::ConnectionReset)]);
    });
}

#[test]
fn early_answer_reaches_a_program_that_is_still_sending() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!(
        "\
connection = dial('127.64.0.1', {DENIES})
connection.sendall(b'x' * 30_000_000)
print(everything(connection).decode())
"
    ));
    assert_eq!(said, "denied\n");
}

#[test]
fn abandoned_download_ends_and_others_continue() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!(
        "\
for _ in range(300):
    unwanted = dial('127.64.0.1', {SENDS})
    unwanted.sendall((1 << 40).to_bytes(8, 'big'))
    unwanted.shutdown(socket.SHUT_WR)
    unwanted.recv(1)
    unwanted.close()
connection = dial('127.64.0.1', 443)
connection.sendall(b'ping')
print(connection.recv(4).decode())
"
    ));
    assert_eq!(said, "ping\n", "of 256 streams none is left to an unwanted one");
}
