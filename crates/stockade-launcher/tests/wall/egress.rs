//! The redirection in the kernel, without a guest: the program itself listens in its place.

use stockade_launcher::{Plan, Redirected, Step, Transport};

use crate::support::{Ended, carry_out, plan, walls_can_be_built};

const LISTEN: &str = "127.0.0.53:1";

/// A wall around Python code, with or without the redirection.
fn wall(code: &str, redirect: bool) -> Plan {
    let mut plan = plan("");
    let at = |plan: &Plan, name: &str| {
        plan.inside.iter().position(|step| step.name() == name).expect("the step is there")
    };
    let after = at(&plan, "forbid_user_namespaces") + 1;
    plan.inside.insert(after, Step::OpenPorts);
    let mut redirected = Vec::new();
    if redirect {
        let place = |transport, network: [u8; 4], prefix, port| Redirected {
            transport,
            network: network.into(),
            prefix,
            port,
        };
        redirected = vec![
            place(Transport::Tcp, [127, 64, 0, 0], 10, None),
            place(Transport::Tcp, [127, 0, 0, 54], 32, Some(3128)),
            place(Transport::Udp, [127, 0, 0, 53], 32, Some(53)),
        ];
    }
    let after = at(&plan, "loopback") + 1;
    plan.inside
        .insert(after, Step::Egress { listen: LISTEN.parse().expect("an address"), redirected });
    let last = plan.inside.len() - 1;
    plan.inside[last] = Step::Execute {
        program: "/usr/bin/python3".into(),
        arguments: ["python3", "-c", code].map(str::to_owned).to_vec(),
        environment: Vec::new(),
    };
    plan
}

fn said(plan: &Plan) -> String {
    match carry_out(plan) {
        Ended::Ran(0, text) => text,
        other => panic!("{other:?}"),
    }
}

/// The wall's own listeners closed when the program was executed, so their address is free.
const CODE: &str = "\
import socket, struct
listener = socket.socket()
listener.bind(('127.0.0.53', 1))
listener.listen()
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.bind(('127.0.0.53', 1))
datagrams.settimeout(0.5)
def original(connection):
    family, port, address = struct.unpack('!HH4s8x', connection.getsockopt(socket.SOL_IP, 80, 16))
    return (socket.inet_ntoa(address), port)
for place in (('127.64.0.1', 443), ('127.127.255.255', 65535), ('127.0.0.54', 3128),
              ('127.0.0.54', 3129), ('127.63.0.1', 443), ('127.128.0.1', 443)):
    client = socket.socket()
    try:
        client.connect(place)
        print(original(listener.accept()[0]) == place)
    except ConnectionRefusedError:
        print('refused')
asker = socket.socket(type=socket.SOCK_DGRAM)
asker.sendto(b'?', ('127.0.0.53', 53))
try:
    question, who = datagrams.recvfrom(10)
    datagrams.sendto(b'!', who)
    print(asker.recvfrom(10))
except TimeoutError:
    print('nothing')
";

#[test]
fn redirected_connection_arrives_with_its_original_destination() {
    if !walls_can_be_built() {
        return;
    }
    let redirected = "True\nTrue\nTrue\nrefused\nrefused\nrefused\n(b'!', ('127.0.0.53', 53))\n";
    assert_eq!(said(&wall(CODE, true)), redirected);
    let alone = format!("{}nothing\n", "refused\n".repeat(6));
    assert_eq!(said(&wall(CODE, false)), alone, "it is the redirection that does it");
}
