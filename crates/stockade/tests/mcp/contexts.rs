//! Calls of contexts: variables that stay, values, pictures and errors.

use serde_json::{Value, json};

use crate::support::{Client, Place};

/// The bytes of a PNG picture of one red dot, as Python code.
const DOT: &str = "import struct, zlib\n\
    def chunk(k, d): return struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))\n\
    dot = (b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 2, 0, 0, 0))\n    \
    + chunk(b'IDAT', zlib.compress(b'\\0\\xff\\0\\0')) + chunk(b'IEND', b''))\n";

/// Runs code in a context and returns the whole result.
#[track_caller]
fn whole(client: &mut Client, arguments: Value) -> Value {
    let answer = client.ask("tools/call", json!({ "name": "run_code", "arguments": arguments }));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    answer["result"].clone()
}

#[track_caller]
fn cell(client: &mut Client, sandbox: &str, context: &str, code: &str) -> Value {
    let arguments = json!({ "sandbox_id": sandbox, "context": context, "code": code });
    client.call("run_code", arguments)
}

#[test]
fn variables_stay_in_a_context_and_the_last_value_is_a_result() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let first = cell(&mut client, &sandbox, "a", "x = 20\nprint('printed')");
    assert_eq!((&first["stdout"], &first["context"]["results"]), (&json!("printed\n"), &json!([])));
    let second = cell(&mut client, &sandbox, "a", "x += 1\n{'x': x * 2}");
    let call = &second["context"];
    assert_eq!((&call["name"], &call["execution_count"]), (&json!("a"), &json!(2)));
    let expected =
        json!([{ "is_main_result": true, "text": "{'x': 42}", "images": [], "left_out": [] }]);
    assert_eq!(call["results"], expected, "{second}");
    // Neither another context nor a whole program has the variable.
    let other = cell(&mut client, &sandbox, "b", "x");
    assert_eq!(other["context"]["error"]["name"], "NameError", "{other}");
    assert_eq!(other["context"]["is_alive"], true);
    let alone = client.python(&sandbox, "print('x' in globals())");
    assert_eq!((&alone["stdout"], &alone["context"]), (&json!("False\n"), &Value::Null));
}

#[test]
fn exception_has_name_value_and_traceback_and_a_dead_context_starts_anew() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let failed = cell(&mut client, &sandbox, "a", "x = 1\nraise ValueError('no')");
    let error = &failed["context"]["error"];
    assert_eq!((&error["name"], &error["value"]), (&json!("ValueError"), &json!("no")));
    assert!(error["traceback"].as_str().unwrap().contains("Traceback"), "{error}");
    let died = cell(&mut client, &sandbox, "a", "import os; os._exit(3)");
    assert_eq!(died["context"]["is_alive"], false, "{died}");
    let again = json!({ "sandbox_id": sandbox, "context": "a", "code": "x" });
    let (message, _) = client.refused("run_code", again);
    assert!(message.contains("ended"), "{message}");
    let anew = json!({
        "sandbox_id": sandbox, "context": "a", "code": "'x' in globals()", "restart_context": true,
    });
    let anew = client.call("run_code", anew);
    assert_eq!(anew["context"]["results"][0]["text"], "False", "{anew}");
    assert_eq!(anew["context"]["execution_count"], 1);
}

#[test]
fn picture_of_a_value_is_image_content() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let code = format!(
        "{DOT}class Dot:\n    def _repr_png_(self): return dot\n    \
         def _repr_html_(self): return '<b>dot</b>'\n    def __repr__(self): return 'a dot'\n\
         open('dot.png', 'wb').write(dot)\nDot()"
    );
    let arguments = json!({ "sandbox_id": sandbox, "context": "a", "code": code });
    let result = whole(&mut client, arguments);
    let expected = json!([{
        "is_main_result": true, "text": "a dot", "html": "<b>dot</b>", "images": ["image/png"],
        "left_out": [],
    }]);
    assert_eq!(result["structuredContent"]["context"]["results"], expected, "{result}");
    let content = result["content"].as_array().unwrap();
    assert_eq!(content.len(), 2, "{result}");
    assert_eq!(
        (&content[1]["type"], &content[1]["mimeType"]),
        (&json!("image"), &json!("image/png"))
    );
    // The bytes are those of the picture.
    let read = json!({ "sandbox_id": sandbox, "path": "dot.png", "encoding": "base64" });
    assert_eq!(content[1]["data"], client.call("read_file", read)["content"]);
}

#[test]
fn figure_of_matplotlib_is_image_content_without_show() {
    let Some(place) = Place::new() else { return };
    let Some(python) = crate::packages::python() else { return };
    let mut client = place.client(&["--python", &python]);
    let sandbox = client.create(json!({}));
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [4, 5, 6])\n\
                plt.title('T')\nNone";
    let arguments = json!({ "sandbox_id": sandbox, "context": "a", "code": code });
    let result = whole(&mut client, arguments);
    let image = &result["content"][1];
    assert_eq!(image["mimeType"], "image/png", "{}", result["structuredContent"]);
    // The eight bytes at the start of every PNG file.
    assert!(image["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));
    let figure = &result["structuredContent"]["context"]["results"][0];
    assert_eq!(
        (&figure["images"], &figure["chart"]["title"]),
        (&json!(["image/png"]), &json!("T"))
    );
}

#[test]
fn what_does_not_apply_to_a_context_is_refused() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    for (key, value, part) in [
        ("arguments", json!(["a"]), "no arguments"),
        ("input", json!("a"), "input"),
        ("working_directory", json!("/tmp"), "working_directory"),
        ("language", json!("bash"), "bash"),
        ("context", json!("../a"), "name"),
        ("timeout_seconds", json!(0), "0"),
    ] {
        let mut arguments = json!({ "sandbox_id": sandbox, "context": "a", "code": "1" });
        arguments[key] = value;
        let (message, _) = client.refused("run_code", arguments);
        assert!(message.contains(part), "{key}: {message}");
    }
    let alone = json!({ "sandbox_id": sandbox, "code": "1", "restart_context": true });
    assert!(client.refused("run_code", alone).0.contains("needs a context"));
    let foreign = json!({ "sandbox_id": "nowhere", "context": "a", "code": "1" });
    assert!(client.refused("run_code", foreign).0.contains("no sandbox"));
}

#[test]
fn values_of_a_call_are_bounded() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let shown = cell(&mut client, &sandbox, "a", "for i in range(50): display(i)\n'last'");
    let call = &shown["context"];
    assert_eq!(call["error"], Value::Null, "{call}");
    assert_eq!(call["results"].as_array().unwrap().len(), 32, "{call}");
    assert_eq!(call["results_left_out"], 19, "{call}");
    let long = cell(&mut client, &sandbox, "a", "'x' * 2_000_000");
    assert_eq!(long["context"]["results"][0]["left_out"], json!(["text"]));
}

#[test]
fn cancelled_call_interrupts_the_context_and_keeps_its_variables() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    cell(&mut client, &sandbox, "a", "x = 1");
    let code = "open('runs', 'w').close()\nimport time\ntime.sleep(60)";
    let arguments = json!({ "sandbox_id": sandbox, "context": "a", "code": code });
    let id = client.send("tools/call", json!({ "name": "run_code", "arguments": arguments }));
    client.python(&sandbox, "import os, time\nwhile not os.path.exists('runs'): time.sleep(0.01)");
    client.tell("notifications/cancelled", json!({ "requestId": id }));
    let after = cell(&mut client, &sandbox, "a", "x");
    assert_eq!(after["context"]["results"][0]["text"], "1", "{after}");
}
