//! Many concurrent connections, and their effect on everything else.

use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::gateway::{DEAF, SENDS, TestGateway};
use crate::support::{LIMIT, egress_can_be_built, finish, run, runtime, sandbox, start};

#[test]
fn two_hundred_connections_at_once_carry_their_own_bytes() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run("\
connections = [dial(f'127.64.0.{number % 7 + 1}', 443) for number in range(200)]
good = 0
for round in range(3):
    for number, connection in enumerate(connections):
        connection.sendall(f'{round}-{number:04}'.encode() * 1000)
    for number, connection in enumerate(connections):
        want = f'{round}-{number:04}'.encode() * 1000
        good += exactly(connection, len(want)) == want
print(good)
");
    assert_eq!(said, "600\n");
    assert_eq!(gateway.opened().len(), 200);
}

#[test]
fn connections_over_the_gateways_limit_are_reset_until_others_close() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run("\
def ping(connection):
    connection.sendall(b'ping')
    return connection.recv(4)
kept = [dial('127.64.0.1', 443) for _ in range(256)]
print(sum(ping(connection) == b'ping' for connection in kept))
print(refused(lambda: ping(dial('127.64.0.1', 443))))
for connection in kept:
    connection.close()
for attempt in range(1000):
    if refused(lambda: ping(dial('127.64.0.1', 443))) == 'done':
        print('again')
        break
");
    let refusal = ["256\nECONNRESET\nagain\n", "256\nEPIPE\nagain\n"];
    assert!(refusal.contains(&said.as_str()), "{said}");
    assert!(gateway.opened().len() >= 257);
}

#[test]
fn connection_flood_starves_neither_output_nor_exit() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!(
        "\
import struct
def flood():
    while True:
        try:
            connection = dial('127.64.0.1', {DEAF})
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            connection.send(b'x' * 100)
            connection.close()
        except OSError:
            pass
for _ in range(4):
    threading.Thread(target=flood, daemon=True).start()
for line in range(20000):
    print(line)
sys.stdout.flush()
os._exit(0)
"
    ));
    assert_eq!(said.lines().count(), 20000);
}

#[test]
fn unread_connection_does_not_block_output() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!(
        "\
connection = dial('127.64.0.1', {DEAF})
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
connection.setblocking(False)
sent = 0
try:
    for _ in range(60000):
        sent += connection.send(b'x')
except OSError:
    pass
deaf = [dial('127.64.0.1', {DEAF}) for _ in range(20)]
for connection in deaf:
    connection.setblocking(False)
    try:
        while True:
            connection.send(b'x' * 65536)
    except OSError:
        pass
print('x' * 1_000_000)
"
    ));
    assert_eq!(said.len(), 1_000_001);
}

#[test]
fn large_download_completes_while_output_flows() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!(
        "\
connection = dial('127.64.0.1', {SENDS})
connection.sendall((200 << 20).to_bytes(8, 'big'))
total = 0
while piece := connection.recv(1 << 20):
    total += len(piece)
    if total % 64 == 0:
        print('.' * 100)
print(total)
"
    ));
    assert!(said.ends_with("\n209715200\n") || said == "209715200\n", "{}", said.len());
}

#[test]
fn lost_gateway_ends_everything_inside() {
    if !egress_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let gateway = TestGateway::default();
        let mut sandbox = sandbox("{}", Some(Arc::new(gateway.clone()))).await.unwrap();
        let script = "\
connection = dial('127.64.0.1', 443)
connection.sendall(b'ping')
print(connection.recv(4).decode(), flush=True)
connection.recv(1)
while True:
    print(refused(lambda: dial('127.64.0.1', 443)), flush=True)
";
        let mut running = start(&mut sandbox, script).await;
        let mut said = [0; 5];
        timeout(LIMIT, running.stdout.read_exact(&mut said)).await.unwrap().unwrap();
        assert_eq!(&said, b"ping\n");
        // Dropping the sandbox closes the link, which ends the guest and everything inside.
        drop(sandbox);
        let end = timeout(LIMIT, running.end).await.expect("everything inside has ended");
        assert!(!matches!(end, Ok(stockade_provider::ProcessEnd::Exited { code: 0 })), "{end:?}");
        let mut rest = Vec::new();
        let _ = timeout(LIMIT, running.stdout.read_to_end(&mut rest)).await.unwrap();
        assert!(!String::from_utf8_lossy(&rest).contains("done"), "nothing was reached any more");
        assert_eq!(gateway.opened().len(), 1);
    });
}

#[test]
fn connections_of_an_ended_program_do_not_count_for_the_next() {
    if !egress_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let gateway = Arc::new(TestGateway::default());
        let mut sandbox = sandbox("{}", Some(gateway)).await.unwrap();
        for _ in 0..4 {
            let script = "\
kept = [dial('127.64.0.1', 443) for _ in range(200)]
for connection in kept:
    connection.sendall(b'ping')
print(sum(connection.recv(4) == b'ping' for connection in kept), flush=True)
os._exit(0)
";
            let running = start(&mut sandbox, script).await;
            assert_eq!(finish(running).await, "200\n");
        }
    });
}
