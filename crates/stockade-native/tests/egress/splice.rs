//! Downloads through a splice pipe.

use crate::gateway::{FIRST_BYTES, SENDS_BY_SPLICE};
use crate::support::{egress_can_be_built, run};

/// Requests this many bytes, half-closes, and reads.
fn download(bytes: usize) -> String {
    format!(
        "
connection = dial('127.64.0.1', {SENDS_BY_SPLICE})
connection.sendall(({bytes}).to_bytes(8, 'big'))
said = bytearray()
try:
    connection.shutdown(socket.SHUT_WR)
except OSError as error:
    # What breaks off may have done so already.
    if error.errno != errno.ENOTCONN:
        raise
try:
    while piece := connection.recv(1 << 16):
        said += piece
    end = 'end'
except ConnectionResetError:
    end = 'reset'
"
    )
}

#[test]
fn spliced_bytes_follow_the_streams_bytes_and_precede_its_end() {
    if !egress_can_be_built() {
        return;
    }
    for bytes in [0, 10, 5_000_000] {
        let (said, _) = run(&format!(
            "{}piece = bytes(at % 251 for at in range(100003))
whole = (piece * ({bytes} // len(piece) + 1))[:{bytes}]
print(end, len(said), bytes(said) == b'f' * {FIRST_BYTES} + whole)
",
            download(bytes)
        ));
        assert_eq!(said, format!("end {} True\n", bytes + FIRST_BYTES));
    }
}

#[test]
fn connection_aborted_after_its_splice_pipe_is_reset() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!("{}print(end)\n", download(1_000_001)));
    assert_eq!(said, "reset\n");
}

#[test]
fn exiting_program_closes_its_splice_pipe() {
    if !egress_can_be_built() {
        return;
    }
    let (said, gateway) = run(&format!(
        "
connection = dial('127.64.0.1', {SENDS_BY_SPLICE})
connection.sendall((1 << 40).to_bytes(8, 'big'))
print(exactly(connection, 1 << 20)[:6])
connection.close()
connection = dial('127.64.0.1', 443)
connection.sendall(b'x')
print(exactly(connection, 1))
"
    ));
    assert_eq!(said, "b'ffffff'\nb'x'\n");
    assert_eq!(gateway.opened().len(), 2);
}

/// A program that does not read its connections gets a bounded number of pipes, and further
/// connections are reset; after it closes them, pipes are available again.
#[test]
fn unread_splice_pipes_are_bounded() {
    if !egress_can_be_built() {
        return;
    }
    let (said, _) = run(&format!(
        "
def begin():
    connection = dial('127.64.0.1', {SENDS_BY_SPLICE})
    # More than the sockets hold, so that it stays in the pipe.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    connection.sendall((16 << 20).to_bytes(8, 'big'))
    try:
        # One more than comes by the stream.
        return connection if len(exactly(connection, {FIRST_BYTES} + 1)) > {FIRST_BYTES} else None
    except OSError:
        return None
kept = [connection for connection in [begin() for _ in range(40)] if connection]
print(len(kept))
for connection in kept: connection.close()
del kept
import time
for _ in range(100):
    if begin(): break
    time.sleep(0.05)
else: print('none is free again')
"
    ));
    assert_eq!(said, "32\n");
}
