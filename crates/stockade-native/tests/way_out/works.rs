//! What a program finds that asks for a name and dials.

use stockade_wire::Opening;

use crate::gateway::{ADDRESS, ECHO};
use crate::support::{run, way_out_can_be_made};

#[test]
fn dialled_address_reaches_the_gateway_with_its_port() {
    if !way_out_can_be_made() {
        return;
    }
    let (said, gateway) = run("\
connection = dial('127.64.0.1', 443)
connection.sendall(b'ping')
print(connection.recv(4).decode(), connection.getpeername())
");
    assert_eq!(said, "ping ('127.64.0.1', 443)\n");
    assert_eq!(gateway.opened(), [Opening::Connection { address: ADDRESS, port: ECHO }]);
}
