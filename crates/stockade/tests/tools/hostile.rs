//! Hostile input on the tool socket: each request gets an error with a message, and the run
//! continues.

use serde_json::Value;

use crate::shop::Shop;
use crate::support::walls_can_be_built;

const POLICY: &str =
    "tool_allowlist: [do]\ndefaults: {max_tool_calls: 1000, max_memory_mb: 1024}\n";

/// Sends each piece on the raw socket and makes a valid call after it. Returns the error codes;
/// each error must have a message.
#[track_caller]
fn codes(pieces: &str) -> Vec<String> {
    let shop = Shop::new().policy(POLICY);
    let code = format!(
        r#"
DEEP = 10_000
for pieces in ({pieces}):
    answers = exchange(*(pieces if isinstance(pieces, tuple) else (pieces,)))
    print(json.dumps(answers), flush=True)
    goes_on()
"#
    );
    let run = shop.raw(&code);
    run.lines().iter().map(code_of).collect()
}

#[track_caller]
fn code_of(answers: &Value) -> String {
    let error = &answers[0]["error"];
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.split_whitespace().count() > 3, "{answers}");
    assert!(message.chars().all(|c| !c.is_control()), "{answers}");
    error["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn ten_megabytes_of_arguments_are_too_large() {
    if walls_can_be_built() {
        let large = r#"request(b'{"what":"return","value":"' + b'x' * 10_000_000 + b'"}'),"#;
        assert_eq!(codes(large), ["too_large"]);
    }
}

#[test]
fn ten_thousand_levels_of_arguments_are_too_deep() {
    if walls_can_be_built() {
        let deep = r#"request(b'{"what":"return","value":' + b'[' * DEEP + b']' * DEEP + b'}'),
            request(b'{"what":"return","value":' + b'{"a":' * DEEP + b'1' + b'}' * DEEP + b'}'),
            b'[' * DEEP + b'\n',"#;
        assert_eq!(codes(deep)[..2], ["too_deep", "too_deep"]);
    }
}

#[test]
fn nan_lone_surrogates_duplicate_keys_and_unknown_fields_are_refused() {
    if !walls_can_be_built() {
        return;
    }
    let pieces = r#"
    request(b'{"what":"return","value":NaN}'),
    request(b'{"what":"return","value":Infinity}'),
    request(b'{"what":"return","value":-Infinity}'),
    request(b'{"what":"return","value":1e999}'),
    request(b'{"what":"return","value":"\\ud800"}'),
    request(b'{"what":"return","value":"\\udc00\\ud800"}'),
    request(b'{"what":"return","\\ud800":1}'),
    request(b'{"what":"return","what":"crash"}'),
    request(b'{"what":"return","value":{"a":1,"a":2}}'),
    b'{"id":1,"id":2,"call":"do","arguments":{"what":"return"}}\n',
    b'{"id":1,"call":"do","arguments":{"what":"return"},"more":1}\n',
    b'{"id":1,"call":"do","list":true}\n',
    "#;
    let codes = codes(pieces);
    assert_eq!(codes, ["invalid_request"; 12]);
}

#[test]
fn binary_empty_and_wrong_requests_are_refused() {
    if !walls_can_be_built() {
        return;
    }
    let pieces = r#"
    b'\x00\x01\x02\xff\xfe\n',
    bytes(range(256)) + b'\n',
    request(b'{"what":"\xff\xfe"}'),
    b'\n',
    b'null\n',
    b'"call"\n',
    b'[1]\n',
    b'{}\n',
    b'{"id":1}\n',
    b'{"id":-1,"call":"do","arguments":{"what":"return"}}\n',
    b'{"id":"' + b'x' * 65 + b'","call":"do","arguments":{"what":"return"}}\n',
    request(b'[1]'),
    request(b'null'),
    b'{"id":1,"call":7,"arguments":{}}\n',
    b'GET / HTTP/1.1\r\n',
    "#;
    assert_eq!(codes(pieces), ["invalid_request"; 15]);
}

#[test]
fn strange_tool_names_are_denied_and_escaped_in_messages() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy(POLICY);
    let code = r#"
names = ['\x1b[2Jdo', '../do', 'do\n', 'DO', ' do', 'x' * 100000, '', '__class__', 'do\x00', '\u202e']
for name in names:
    line = json.dumps({'id': 1, 'call': name, 'arguments': {'what': 'return'}}).encode() + b'\n'
    print(json.dumps(exchange(line)), flush=True)
goes_on()
"#;
    let run = shop.raw(code);
    let lines = run.lines();
    assert_eq!(lines.iter().map(code_of).collect::<Vec<_>>(), ["denied"; 10]);
    for byte in ['\u{1b}', '\u{0}', '\u{202e}'] {
        assert!(!run.stderr.contains(byte), "{:?}", run.stderr);
    }
    for event in shop.recorded() {
        assert!(event.to_string().len() < 4000, "{event}");
    }
}

#[test]
fn incomplete_line_does_not_block_other_calls() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy(POLICY);
    let code = r#"
held = []
for piece in (b'{"id":1,"call":"do","argu', b'{"id":2,"call":"do","arguments":{"value":"' + b'x' * 900_000, b'\xff', b''):
    for _ in range(8):
        talk = socket.socket(socket.AF_UNIX)
        talk.connect(os.environ["STOCKADE_TOOLS_SOCKET"])
        talk.sendall(piece)
        held.append(talk)
        goes_on()
print(json.dumps(exchange(GOOD[:-1], half=True)))
"#;
    let run = shop.raw(code);
    // An incomplete line is not a call, even if only its line end is missing.
    assert_eq!(run.lines().iter().map(code_of).collect::<Vec<_>>(), ["invalid_request"]);
    let answered = shop.recorded().iter().filter(|event| event["outcome"] == "answered").count();
    assert_eq!(answered, 32);
}

#[test]
fn python_refuses_values_that_are_not_json_before_sending() {
    if !walls_can_be_built() {
        return;
    }
    let code = "
deep = []
for _ in range(100000):
    deep = [deep]
ring = []
ring.append(ring)
for value in (float('nan'), float('inf'), '\\ud800', b'x', {1}, {1: 2}, object(), ring, deep):
    try:
        do('return', value)
    except (TypeError, ValueError) as error:
        print(type(error).__name__, str(error)[:60])
print(do('return', 'good'))
";
    let shop = Shop::new().policy(POLICY);
    let run = shop.python(code);
    assert_eq!(run.text().lines().count(), 10, "{run:?}");
    assert!(run.stdout.ends_with("good\n"), "{run:?}");
    assert_eq!(shop.recorded().len(), 1);
}

#[test]
fn tool_socket_and_files_cannot_be_replaced_or_bound() {
    if !walls_can_be_built() {
        return;
    }
    // The wall's own tests show that each of these works on an ordinary socket.
    let code = r#"
import shutil
acts = {
    'unlink': lambda: os.unlink('/run/stockade/tools.sock'),
    'rename': lambda: os.rename('/run/stockade/tools.sock', '/run/stockade/old'),
    'replace': lambda: os.rename('/tmp/mine.sock', '/run/stockade/tools.sock'),
    'bind': lambda: socket.socket(socket.AF_UNIX).bind('/run/stockade/tools.sock'),
    'chmod': lambda: os.chmod('/run/stockade/tools.sock', 0o777),
    'write': lambda: open('/run/stockade/python/stockade_tools.py', 'a'),
    'new': lambda: open('/run/stockade/new', 'w'),
    'tree': lambda: shutil.move('/run/stockade', '/tmp/stockade'),
}
mine = socket.socket(socket.AF_UNIX)
mine.bind('/tmp/mine.sock')
for name, act in acts.items():
    try:
        act()
        print(name, 'worked')
    except OSError:
        pass
goes_on()
print('held')
"#;
    assert_eq!(Shop::new().raw(code).text(), "held\n");
}
