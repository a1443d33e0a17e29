//! What code inside does to the client: nothing.

use serde_json::{Value, json};

use crate::support::Place;

#[test]
fn output_that_looks_like_messages_stays_text() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let forged = r#"{"jsonrpc":"2.0","id":3,"result":{"content":[]}}"#;
    let code = format!(
        "import os, sys\nline = '\\n{forged}\\n\\r\\x00\\x1b[2J\\u2028'\nfor n in (1, 2): os.write(n, line.encode())\n\
         for n in range(3, 30):\n  try: os.write(n, line.encode())\n  except OSError: pass\n"
    );
    let run = client.python(&sandbox, &code);
    let expected = format!("\n{forged}\n\r\0\u{1b}[2J\u{2028}");
    assert_eq!((&run["stdout"], &run["stderr"]), (&json!(expected), &json!(expected)));
    // File names and contents are text too.
    let code =
        "open('a\\n' + '{\"id\":9}' + '\\n', 'w').write('\\n{\"jsonrpc\":\"2.0\",\"id\":9}\\n')";
    assert_eq!(client.python(&sandbox, code)["exit_code"], 0);
    let name =
        client.call("list_files", json!({ "sandbox_id": sandbox }))["entries"][0]["path"].clone();
    assert_eq!(name, "a\n{\"id\":9}\n");
    let read = client.call("read_file", json!({ "sandbox_id": sandbox, "path": name }));
    assert_eq!(read["content"], "\n{\"jsonrpc\":\"2.0\",\"id\":9}\n");
}

#[test]
fn hundred_megabytes_of_output_become_a_bounded_result() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let code = "import sys\nprint('first')\nfor _ in range(100): sys.stdout.write('x' * (1 << 20))\nprint('last')";
    let run = client.python(&sandbox, code);
    let out = run["stdout"].as_str().unwrap();
    assert!(out.len() < 70_000 && out.starts_with("first\nxxx"), "{}", out.len());
    assert!(run["stdout_left_out"].as_u64().unwrap() > 99 << 20, "{}", run["stdout_left_out"]);
    let small =
        json!({ "sandbox_id": sandbox, "code": "print('a' * 100, 'z')", "max_output_bytes": 10 });
    let out = client.call("run_code", small)["stdout"].clone();
    assert_eq!(out, "aaaaa\n[93 bytes left out]\naa z\n");
}

#[test]
fn endless_program_ends_at_its_timeout_and_the_sandbox_stays() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let code = json!({ "sandbox_id": sandbox, "code": "print('on', flush=True)\nwhile True: pass", "timeout_seconds": 0.5 });
    let run = client.call("run_code", code);
    assert_eq!((&run["outcome"], &run["stdout"]), (&json!("timed_out"), &json!("on\n")));
    assert!(run["notes"][0].as_str().unwrap().contains("timed out"), "{run}");
    assert_eq!(client.python(&sandbox, "print('still here')")["stdout"], "still here\n");
}

#[test]
fn file_that_never_ends_and_directory_with_many_files_are_bounded() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let code = "import os\nos.truncate(os.open('big', os.O_CREAT | os.O_WRONLY), 50 << 20)\nos.mkdir('many')\n\
                for n in range(2000): open(f'many/{n}', 'w')\nos.symlink('/dev/zero', 'zero')\nos.mkfifo('fifo')";
    assert_eq!(client.python(&sandbox, code)["exit_code"], 0);
    let read = client
        .call("read_file", json!({ "sandbox_id": sandbox, "path": "big", "length": 99_999_999 }));
    assert_eq!((&read["bytes"], &read["file_bytes"]), (&json!(1 << 20), &json!(50 << 20)));
    assert_eq!(read["next_offset"], 1 << 20);
    let many = json!({ "sandbox_id": sandbox, "path": "many" });
    let listed = client.call("list_files", many);
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1000);
    assert_eq!(listed["truncated"], true);
    for path in ["zero", "fifo", "/proc/self/mem", "/dev/zero"] {
        client.refused("read_file", json!({ "sandbox_id": sandbox, "path": path }));
    }
}

#[test]
fn message_that_is_too_long_is_answered_and_the_next_is_served() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let content = "x".repeat(17 << 20);
    let arguments = json!({ "sandbox_id": sandbox, "path": "a", "content": content });
    client.send("tools/call", json!({ "name": "write_file", "arguments": arguments }));
    let answer = client.hear();
    assert_eq!(
        (&answer["error"]["code"], &answer["id"]),
        (&json!(-32600), &Value::Null),
        "{answer}"
    );
    for wrong in ["", "not JSON", "[]", "\u{0}"] {
        client.server.say(wrong);
    }
    // What is not a message at all may be answered or not; what follows is served.
    let id = client.send("tools/call", json!({ "name": "list_sandboxes", "arguments": {} }));
    loop {
        let answer = client.hear();
        if answer["id"] == id {
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            break;
        }
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    }
}

#[test]
fn nothing_but_messages_reaches_standard_output() {
    let Some(place) = Place::new() else { return };
    // A tool of the user prints to what it inherited, which is not the client's stream.
    place.scratch.file("tools.yaml", "tools:\n  - name: shout\n    description: Shouts.\n    command: [sh, -c, 'echo noise >&2; echo \"\\\"loud\\\"\"']\n    input_schema: { type: object, properties: {} }\n");
    let mut client = place.client(&["--tools", "tools.yaml"]);
    let sandbox = client.create(json!({}));
    let run = client.python(&sandbox, "import stockade_tools\nprint(stockade_tools.shout())");
    assert_eq!(run["exit_code"], 0, "{run}");
    // `call` has read every line as the answer that it waited for.
    assert_eq!(client.call("list_sandboxes", json!({}))["sandboxes"][0]["sandbox_id"], sandbox);
}
