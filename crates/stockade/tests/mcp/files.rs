//! Files of a sandbox.

use serde_json::json;

use crate::support::Place;

/// A picture of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[test]
fn file_written_in_one_call_is_read_in_parts_of_whole_characters() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let write = json!({ "sandbox_id": sandbox, "path": "new/dir/text", "content": "aüb" });
    assert_eq!(client.call("write_file", write)["bytes"], 4);
    let append =
        json!({ "sandbox_id": sandbox, "path": "new/dir/text", "content": "c", "mode": "append" });
    assert_eq!(client.call("write_file", append)["bytes"], 1);
    let create =
        json!({ "sandbox_id": sandbox, "path": "new/dir/text", "content": "", "mode": "create" });
    client.refused("write_file", create);
    let mut part = |offset: u64, length: u64| {
        let read = json!({ "sandbox_id": sandbox, "path": "new/dir/text", "offset": offset, "length": length });
        let read = client.call("read_file", read);
        (read["content"].clone(), read["next_offset"].clone())
    };
    assert_eq!(part(0, 2), (json!("a"), json!(1)));
    assert_eq!(part(1, 2), (json!("ü"), json!(3)));
    assert_eq!(part(3, 99), (json!("bc"), json!(null)));
    let script = json!({ "sandbox_id": sandbox, "path": "/workspace/run.sh", "content": "#!/bin/sh\necho ran\n", "executable": true });
    client.call("write_file", script);
    let run = json!({ "sandbox_id": sandbox, "command": ["./run.sh"] });
    assert_eq!(client.call("run_command", run)["stdout"], "ran\n");
}

#[test]
fn picture_is_image_content_and_other_bytes_are_base64() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let write =
        json!({ "sandbox_id": sandbox, "path": "dot.png", "content": PNG, "encoding": "base64" });
    client.call("write_file", write);
    let arguments = json!({ "sandbox_id": sandbox, "path": "dot.png" });
    let answer = client.ask("tools/call", json!({ "name": "read_file", "arguments": arguments }));
    let content = &answer["result"]["content"];
    assert_eq!(content[1], json!({ "type": "image", "data": PNG, "mimeType": "image/png" }));
    let view = &answer["result"]["structuredContent"];
    assert_eq!((&view["encoding"], &view["content"]), (&json!("image"), &json!(null)));
    let raw = json!({ "sandbox_id": sandbox, "path": "dot.png", "encoding": "base64" });
    assert_eq!(client.call("read_file", raw)["content"], PNG);
    let bytes =
        json!({ "sandbox_id": sandbox, "path": "bytes", "content": "/wA=", "encoding": "base64" });
    client.call("write_file", bytes);
    let read = client.call("read_file", json!({ "sandbox_id": sandbox, "path": "bytes" }));
    assert_eq!((&read["encoding"], &read["content"]), (&json!("base64"), &json!("/wA=")));
    let text = json!({ "sandbox_id": sandbox, "path": "bytes", "encoding": "utf-8" });
    assert!(client.refused("read_file", text).1.contains("base64"));
}

#[test]
fn links_and_names_of_any_bytes_stay_inside() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    place.scratch.file("secret", "of the host");
    let secret = place.scratch.path().join("secret");
    let sandbox = client.create(json!({}));
    let code = format!(
        "import os\nos.symlink({:?}, 'link')\nos.mkdir(b'd\\xff')\nopen(b'd\\xff/f', 'w')",
        secret.display().to_string()
    );
    assert_eq!(client.python(&sandbox, &code)["exit_code"], 0);
    client.refused("read_file", json!({ "sandbox_id": sandbox, "path": "link" }));
    client.refused("read_file", json!({ "sandbox_id": sandbox, "path": secret }));
    client.refused("read_file", json!({ "sandbox_id": sandbox, "path": "../../etc/hostname" }));
    let listed = client.call("list_files", json!({ "sandbox_id": sandbox, "depth": 2 }));
    let mut paths: Vec<&str> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].as_str().unwrap())
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, ["d\u{fffd}", "d\u{fffd}/f", "link"]);
}
