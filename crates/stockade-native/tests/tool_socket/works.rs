//! Tools as a program sees them.

use stockade_provider::Destination;
use stockade_provider::SandboxRequest;
use tokio::time::timeout;

use crate::broker::TestBroker;
use crate::support::{
    LIMIT, finish, python, request, run, run_in, runtime, sandbox, shell, start, walls_can_be_built,
};

#[test]
fn connection_to_the_socket_reaches_the_broker_and_gets_answers() {
    if !walls_can_be_built() {
        return;
    }
    let (said, broker) = run(python(
        "\
print(call('echo', query='x'))
connection = dial()
for number in range(3):
    ask(connection, {'id': number, 'call': 'echo', 'arguments': {'n': number}})
print([hear(connection)['id'] for _ in range(3)])
print(connection.getpeername())
",
    ));
    assert_eq!(said, "{'result': {'query': 'x'}, 'id': 7}\n[0, 1, 2]\n/run/stockade/tools.sock\n");
    assert_eq!(broker.opened(), [Destination::Tools, Destination::Tools]);
}

#[test]
fn tool_files_and_variables_exist_and_the_walls_variables_stay() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(shell(
        "cd /run/stockade; cat tools.json python/deep/er.py; echo; \
         stat -c '%A %n' . bin bin/stockade-tool tools.json tools.sock python/deep; \
         echo $STOCKADE_TEST_OF_TOOLS $HOME ${PATH##*:}; command -v stockade-tool",
    ));
    let expected = "[\"echo\"]answer = 42\n\ndrwxr-xr-x .\ndrwxr-xr-x bin\n\
                    -r-xr-xr-x bin/stockade-tool\n-r--r--r-- tools.json\nsrw-rw-rw- tools.sock\n\
                    drwxr-xr-x python/deep\ntold /tmp /run/stockade/bin\n\
                    /run/stockade/bin/stockade-tool\n";
    assert_eq!(said, expected);
}

#[test]
fn without_tools_the_tool_directory_is_missing() {
    if !walls_can_be_built() {
        return;
    }
    let script = "test -e /run/stockade && echo there; command -v stockade-tool; echo ${PATH##*:} \
                  $STOCKADE_TEST_OF_TOOLS; grep -c ' /run/stockade ' /proc/self/mountinfo; true";
    let with = request("{}", &TestBroker::default());
    let there = "there\n/run/stockade/bin/stockade-tool\n/run/stockade/bin told\n1\n";
    assert_eq!(run_in(&with, shell(script)), there);
    for gateway in [None, with.gateway.clone()] {
        let without = SandboxRequest { tools: None, gateway, ..with.clone() };
        assert_eq!(run_in(&without, shell(script)), "/bin\n0\n");
    }
}

#[test]
fn tools_alone_give_no_network_access() {
    if !walls_can_be_built() {
        return;
    }
    let script = "\
def connect(address, port):
    connection = socket.socket()
    connection.settimeout(20)
    connection.connect((address, port))
print([name for name in os.environ if name.lower().endswith('_proxy')])
print(refused(connect, '127.64.0.1', 443), refused(connect, '127.0.0.54', 3128))
print(call('echo')['result'])
";
    let (said, broker) = run(python(script));
    assert_eq!(said, "[]\nECONNREFUSED ECONNREFUSED\n{}\n");
    assert_eq!(broker.opened(), [Destination::Tools]);
}

#[test]
fn tools_and_network_work_together() {
    if !walls_can_be_built() {
        return;
    }
    let script = "\
connection = socket.create_connection(('127.64.0.1', 443), 20)
connection.sendall(b'ping')
print(connection.recv(4), 'https_proxy' in os.environ)
print(call('echo', a=1)['result'])
connection.sendall(b'pong')
print(connection.recv(4))
";
    let broker = TestBroker::with_network();
    let said = run_in(&request("{}", &broker), python(script));
    assert_eq!(said, "b'ping' True\n{'a': 1}\nb'pong'\n");
    let address = [127, 64, 0, 1].into();
    assert_eq!(broker.opened(), [Destination::Address { address, port: 443 }, Destination::Tools]);
}

#[test]
fn large_arguments_and_results_arrive_complete() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(python(
        "\
print(len(call('long', bytes=20_000_000)['result']))
print(len(call('echo', text='y' * 20_000_000)['result']['text']))
",
    ));
    assert_eq!(said, "20000000\n20000000\n");
}

#[test]
fn each_side_can_end_before_the_other() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(python(
        "\
talks = dial()
ask(talks, {'id': 1, 'call': 'echo', 'arguments': {}})
talks.shutdown(socket.SHUT_WR)
print(hear(talks), talks.recv(1))
wrong = dial()
wrong.sendall(b'no JSON\\n')
print(hear(wrong)['error']['code'], wrong.recv(1))
",
    ));
    assert_eq!(said, "{'result': {}, 'id': 1} b''\ninvalid_request b''\n");
}

#[test]
fn exiting_program_closes_its_connection_to_the_broker() {
    if !walls_can_be_built() {
        return;
    }
    let broker = TestBroker::default();
    runtime().block_on(async {
        let mut sandbox = sandbox(&request("{}", &broker)).await.unwrap();
        let script = "\
for number in range(5):
    ask(dial(), {'id': 1, 'call': 'echo', 'arguments': {}})
";
        let running = start(&mut sandbox, python(script)).await;
        finish(running).await;
        // The sandbox continues; only the program that owned the connections has ended.
        timeout(LIMIT, broker.ended(5)).await.expect("its connections have ended");
    });
}

#[test]
fn connections_end_with_the_sandbox() {
    if !walls_can_be_built() {
        return;
    }
    let broker = TestBroker::default();
    runtime().block_on(async {
        let mut sandbox = sandbox(&request("{}", &broker)).await.unwrap();
        let script = "\
connection = dial()
ask(connection, {'id': 1, 'call': 'echo', 'arguments': {}})
hear(connection)
ask(connection, {'id': 2, 'call': 'never', 'arguments': {}})
print('asked', flush=True)
hear(connection)
";
        let mut running = start(&mut sandbox, python(script)).await;
        let mut said = [0; 6];
        tokio::io::AsyncReadExt::read_exact(&mut running.stdout, &mut said).await.unwrap();
        assert_eq!(&said, b"asked\n");
        drop(sandbox);
        timeout(LIMIT, broker.ended(1)).await.expect("the connection has ended");
        let end = timeout(LIMIT, running.end).await.expect("everything inside has ended");
        assert!(!matches!(end, Ok(stockade_provider::ProcessEnd::Exited { code: 0 })), "{end:?}");
    });
}

#[test]
fn each_sandbox_has_its_own_tool_broker() {
    if !walls_can_be_built() {
        return;
    }
    let (one, other) = (TestBroker::default(), TestBroker::default());
    runtime().block_on(async {
        let mut first = sandbox(&request("{}", &one)).await.unwrap();
        let mut second = sandbox(&request("{}", &other)).await.unwrap();
        let script = "print(call('echo', x=[1])['result'])\n";
        let (first, second) =
            (start(&mut first, python(script)).await, start(&mut second, python(script)).await);
        let (first, second) = (finish(first).await, finish(second).await);
        assert_eq!((first.as_str(), second.as_str()), ("{'x': [1]}\n", "{'x': [1]}\n"));
    });
    assert_eq!((one.opened().len(), other.opened().len()), (1, 1));
}

#[test]
fn request_with_tools_but_no_broker_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let alone = SandboxRequest { gateway: None, ..request("{}", &TestBroker::default()) };
    let refused = runtime().block_on(async { sandbox(&alone).await.err() });
    assert!(refused.is_some_and(|said| said.contains("no tool broker answers")));
}
