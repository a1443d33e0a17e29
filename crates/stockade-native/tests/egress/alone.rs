//! Destinations that are unreachable, and what each sandbox has to itself.

use std::sync::Arc;
use stockade_provider::Destination;

use crate::gateway::{ADDRESS, ECHO, TestGateway};
use crate::support::{egress_can_be_built, finish, run, runtime, sandbox, start};

const PING: &str = "\
def ping():
    connection = dial('127.64.0.1', 443)
    connection.sendall(b'ping')
    return connection.recv(4).decode()
";

#[test]
fn nothing_but_the_gateway_can_be_reached() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run(&format!(
        "{PING}\
print(ping())
print(refused(lambda: dial('93.184.216.34', 443)))
print(refused(lambda: dial('10.0.0.1', 443)))
print(refused(lambda: dial('169.254.169.254', 80)))
print(refused(lambda: dial('2606:2800:220:1::1', 443, socket.AF_INET6)))
datagrams = socket.socket(type=socket.SOCK_DGRAM)
print(refused(lambda: datagrams.sendto(b'x', ('8.8.8.8', 53))))
print(refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)))
print(refused(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)))
print(open('/proc/net/dev').read().count(':'), os.path.exists('/sys/class/net'))
print(len(open('/proc/net/route').read().splitlines()))
"
    ));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[..6],
        ["ping", "ENETUNREACH", "ENETUNREACH", "ENETUNREACH", "ENETUNREACH", "ENETUNREACH"]
    );
    assert!(lines[6..8].iter().all(|errno| *errno != "done"), "{said}");
    assert_eq!(lines[8..], ["1 False", "1"], "one interface and no route");
    assert_eq!(gateway.opened(), [Destination::Address { address: ADDRESS, port: ECHO }]);
}

#[test]
fn udp_to_synthetic_addresses_is_refused() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run(&format!(
        "{PING}\
print(ping())
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.connect(('127.64.0.1', 443))
datagrams.send(b'quic')
print(refused(lambda: datagrams.recv(1)))
"
    ));
    assert_eq!(said, "ping\nECONNREFUSED\n");
    assert_eq!(gateway.opened().len(), 1);
}

#[test]
fn program_can_bind_every_port_while_egress_works() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run(&format!(
        "{PING}\
servers = []
for port in (53, 80, 443, 3128, 8080):
    server = socket.socket()
    server.bind(('0.0.0.0', port))
    server.listen()
    servers.append(server)
    datagrams = socket.socket(type=socket.SOCK_DGRAM)
    datagrams.bind(('0.0.0.0', port))
    servers.append(datagrams)
six = socket.socket(socket.AF_INET6)
six.bind(('::1', 443))
six.listen()
print(ping(), socket.gethostbyname('echo.test'))
for address, family in (('127.0.0.1', socket.AF_INET), ('localhost', socket.AF_INET), ('::1', socket.AF_INET6)):
    client = dial(address, 443, family)
    server = six if family == socket.AF_INET6 else servers[4]
    accepted, peer = server.accept()
    accepted.sendall(b'own')
    print(client.recv(3).decode())
proxy = dial('127.0.0.54', 3128)
proxy.sendall(b'x')
print(exactly(proxy, 7).decode())
"
    ));
    assert_eq!(said, "ping 127.64.0.1\nown\nown\nown\nproxy x\n");
    let opened = gateway.opened();
    assert!(
        opened.contains(&Destination::Proxy) && opened.contains(&Destination::Names),
        "{opened:?}"
    );
    assert_eq!(opened.len(), 3);
}

#[test]
fn guests_sockets_cannot_be_shared_or_taken() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!(
        "{PING}\
print(ping())
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for address in ('127.0.0.53', '0.0.0.0'):
        thief = socket.socket(type=kind)
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        print(refused(lambda: thief.bind((address, 1))))
"
    ));
    assert_eq!(said, format!("ping\n{}", "EADDRINUSE\n".repeat(4)));
}

#[test]
fn one_source_port_reaches_two_names_at_once() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run("\
connections = []
for address in ('127.64.0.1', '127.64.0.2', '127.64.0.3'):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    connection.bind(('127.0.0.1', 40000))
    connection.settimeout(20)
    connection.connect((address, 443))
    connections.append((address, connection))
for address, connection in connections:
    connection.sendall(address.encode())
    print(connection.recv(100).decode())
");
    assert_eq!(said, "127.64.0.1\n127.64.0.2\n127.64.0.3\n");
}

#[test]
fn redirection_cannot_be_changed_from_inside() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!(
        "{PING}\
print(ping())
print(refused(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)))
print(refused(lambda: open('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'w')))
print(open('/proc/sys/net/ipv4/ip_unprivileged_port_start').read().strip())
"
    ));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines[0], lines[2], lines[3]), ("ping", "EROFS", "0"));
}

#[test]
fn without_a_gateway_there_is_no_listener_and_no_proxy_variable() {
    if !egress_can_be_built() {
        return;
    }
    let script = "\
print(refused(lambda: dial('127.64.0.1', 443)), refused(lambda: dial('127.0.0.54', 3128)))
print([name for name in os.environ if name.lower().endswith('_proxy')])
low = socket.socket()
print(refused(lambda: low.bind(('127.0.0.1', 443))))
";
    let (with, _) = run(script);
    assert!(with.starts_with("done done\n") && with.ends_with("done\n"), "{with}");
    let without = runtime().block_on(async {
        let mut sandbox = sandbox("{}", None).await.unwrap();
        let running = start(&mut sandbox, script).await;
        finish(running).await
    });
    assert_eq!(without, "ECONNREFUSED ECONNREFUSED\n[]\nEACCES\n");
}

#[test]
fn each_sandbox_has_its_own_gateway() {
    if !egress_can_be_built() {
        return;
    }
    let (one, other) = (TestGateway::default(), TestGateway::default());
    runtime().block_on(async {
        let mut first = sandbox("{}", Some(Arc::new(one.clone()))).await.unwrap();
        let mut second = sandbox("{}", Some(Arc::new(other.clone()))).await.unwrap();
        let script = format!("{PING}print(ping())\n");
        let (first, second) = (start(&mut first, &script).await, start(&mut second, &script).await);
        assert_eq!((finish(first).await, finish(second).await), ("ping\n".into(), "ping\n".into()));
    });
    assert_eq!((one.opened().len(), other.opened().len()), (1, 1));
}
