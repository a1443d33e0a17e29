//! Many concurrent connections, and their effect on everything else.

use crate::broker::TestBroker;
use crate::support::{python, request, run, run_in, walls_can_be_built};
use stockade_provider::Destination;

const MANY: &str = "\
connections = [dial() for _ in range(1000)]
for number, connection in enumerate(connections):
    ask(connection, {'id': number, 'call': 'echo', 'arguments': {'n': number}})
good = 0
for number, connection in enumerate(connections):
    good += hear(connection) == {'result': {'n': number}, 'id': number}
print(good)
";

#[test]
fn thousand_connections_at_once_get_their_own_answers() {
    if !walls_can_be_built() {
        return;
    }
    let (said, broker) = run(python(MANY));
    assert_eq!(said, "1000\n");
    assert_eq!(broker.opened(), vec![Destination::Tools; 1000]);
}

#[test]
fn network_connections_do_not_use_up_tool_connections() {
    if !walls_can_be_built() {
        return;
    }
    let broker = TestBroker::with_network();
    let policy = "limits: {max_open_files: 1600}";
    let script = format!(
        "\
taken = [socket.create_connection(('127.64.0.1', 443), 50) for _ in range(500)]
{MANY}taken[0].sendall(b'ping')
print(taken[0].recv(4))
"
    );
    assert_eq!(run_in(&request(policy, &broker), python(&script)), "1000\nb'ping'\n");
}

#[test]
fn connections_over_the_limit_wait_for_their_turn() {
    if !walls_can_be_built() {
        return;
    }
    let broker = TestBroker::default();
    let script = "\
kept = [dial() for _ in range(1024)]
for connection in kept:
    ask(connection, {'id': 1, 'call': 'echo', 'arguments': {}})
print(sum(hear(connection) is not None for connection in kept))
late = dial()
ask(late, {'id': 2, 'call': 'echo', 'arguments': {}})
late.settimeout(0.2)
try:
    print(hear(late))
except TimeoutError:
    print('waits')
kept.pop().close()
late.settimeout(50)
print(hear(late))
";
    let said = run_in(&request("limits: {max_open_files: 2000}", &broker), python(script));
    assert_eq!(said, "1024\nwaits\n{'result': {}, 'id': 2}\n");
}

#[test]
fn programs_get_only_the_descriptors_of_the_policy() {
    if !walls_can_be_built() {
        return;
    }
    let script = "\
import resource, subprocess
print(resource.getrlimit(resource.RLIMIT_NOFILE))
print(refused(lambda: [os.dup(0) for _ in range(100)]))
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
except (ValueError, OSError) as error:
    print('kept')
";
    let said =
        run_in(&request("limits: {max_open_files: 40}", &TestBroker::default()), python(script));
    assert_eq!(said, "(40, 40)\nEMFILE\nkept\n");
    let said =
        run_in(&request("limits: {max_open_files: 200}", &TestBroker::default()), python(script));
    assert_eq!(said, "(200, 200)\ndone\n", "it is the limit that refuses");
}

#[test]
fn tool_connection_flood_starves_neither_output_nor_exit_nor_other_calls() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(python(
        "\
import threading
def flood():
    while True:
        try:
            connection = dial()
            connection.send(b'{' * 100)
            connection.close()
        except OSError:
            pass
for _ in range(4):
    threading.Thread(target=flood, daemon=True).start()
for line in range(20000):
    print(line)
for _ in range(20):
    print(call('echo')['result'])
sys.stdout.flush()
os._exit(0)
",
    ));
    assert_eq!(said.lines().count(), 20020);
}

#[test]
fn unread_connection_does_not_block_others() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(python(
        "\
deaf = [dial() for _ in range(50)]
for connection in deaf:
    ask(connection, {'id': 1, 'call': 'long', 'arguments': {'bytes': 5_000_000}})
print(call('echo', a=1)['result'])
print('x' * 1_000_000)
print(len(hear(deaf[0])['result']))
",
    ));
    assert_eq!(said.len(), "{'a': 1}\n".len() + 1_000_001 + "5000000\n".len());
}
