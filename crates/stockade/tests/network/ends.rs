//! What other processes can reach, and what remains when a part dies.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use stockade_testing::{processes, within};

use crate::support::{Place, Watch, command, internet, start, tests};

tests![
    h27_h28_nothing_listens_on_the_machine_for_a_sandbox,
    h33_servers_inside_are_not_reached_from_the_machine,
    h36_killed_stockade_ends_all_egress,
];

const FILES: [&str; 2] = ["--allow-host", "files.test"];

fn h27_h28_nothing_listens_on_the_machine_for_a_sandbox() {
    let script = "import sys, urllib.request\n\
                  print(urllib.request.urlopen('https://files.test/').read().decode(), flush=True)\n\
                  sys.stdin.readline()";
    let mut sandbox = start(command(&FILES, &["python3", "-c", script]));
    assert_eq!(sandbox.hear(), format!("{} files.test", internet().token()));
    let sockets = sockets_of(sandbox.0.id());
    assert_eq!(sockets, BTreeSet::new());
    sandbox.say("");
}

/// Listening sockets of a process and its descendants in the machine's network namespace.
fn sockets_of(process: u32) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut inodes = BTreeSet::new();
    let mut waiting = vec![process];
    while let Some(id) = waiting.pop() {
        for entry in std::fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten() {
            let link = std::fs::read_link(entry.path()).unwrap_or_default();
            inodes.extend(
                link.to_str()
                    .and_then(|link| link.strip_prefix("socket:["))
                    .map(|rest| rest.trim_end_matches(']').to_owned()),
            );
        }
        let tasks = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children =
                std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            waiting
                .extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    for (table, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[3] == state && fields.get(9).is_some_and(|inode| inodes.contains(*inode)) {
                found.insert(format!("{table} {}", fields[1]));
            }
        }
    }
    found
}

fn h33_servers_inside_are_not_reached_from_the_machine() {
    let script = "import socket, sys\n\
                  for port in (443, 8080, 34567):\n \
                  listener = socket.socket(); listener.bind(('0.0.0.0', port)); listener.listen()\n \
                  sys.modules[str(port)] = listener\n\
                  print('listening', flush=True)\n\
                  sys.stdin.readline()";
    let refused = |port: u16| {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err()
    };
    let mut outside = {
        let mut command = std::process::Command::new("python3");
        command.args(["-c", script]);
        start(command)
    };
    assert_eq!(outside.hear(), "listening");
    assert!(!refused(34_567), "without the wall it is reached");
    drop(outside);
    let mut sandbox = start(command(&FILES, &["python3", "-c", script]));
    assert_eq!(sandbox.hear(), "listening");
    for port in [8080, 34_567] {
        assert!(refused(port), "port {port} inside is reached from the machine");
    }
    sandbox.say("");
}

fn h36_killed_stockade_ends_all_egress() {
    let place = Place::new();
    let script = "
import socket, sys
while True:
    try:
        talk = socket.create_connection((sys.argv[1], 80), 1)
        talk.sendall(b'GET / HTTP/1.1\\r\\nHost: ' + sys.argv[1].encode() + b'\\r\\nConnection: close\\r\\n\\r\\n')
        print(talk.recv(100)[:12], flush=True)
    except OSError as error:
        print(error, flush=True)
";
    let flags = ["--allow-host", place.name.as_str()];
    let mut sandbox = start(command(&flags, &["python3", "-c", script, &place.name]));
    assert_eq!(sandbox.hear(), "b'HTTP/1.1 200'");
    sandbox.0.kill().expect("Stockade runs");
    sandbox.0.wait().expect("Stockade ends");
    let watch = Watch::start();
    let goes_on = || processes().iter().any(|line| line.contains(&place.name));
    let ended = within(Duration::from_secs(10), || !goes_on());
    assert!(ended, "the program goes on without Stockade");
    assert_eq!(watch.to(&place), []);
}
