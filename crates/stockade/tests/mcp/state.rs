//! Checkpoints of a client's sandboxes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Client, Place, finish};

fn sh(client: &mut Client, sandbox: &str, line: &str) -> String {
    let arguments = json!({ "sandbox_id": sandbox, "command": ["sh", "-c", line] });
    let run = client.call("run_command", arguments);
    assert_eq!(run["exit_code"], 0, "{run}");
    run["stdout"].as_str().expect("it has output").to_owned()
}

/// The references in the store.
fn kept(place: &Place) -> BTreeSet<String> {
    let run = finish(place.command(&["checkpoints", "-q"]));
    assert_eq!(run.code, 0, "{run:?}");
    run.text().lines().map(str::to_owned).collect()
}

fn paths(diff: &Value) -> Vec<&str> {
    let changes = diff["changes"].as_array().expect("it has changes");
    changes.iter().map(|change| change["path"].as_str().expect("it has a path")).collect()
}

#[test]
fn files_come_back_to_a_checkpoint_and_the_difference_is_shown() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({ "name": "box" }));
    sh(&mut client, &sandbox, "echo one > file; mkdir deep; echo x > deep/x");
    let named = json!({ "sandbox_id": sandbox, "name": "first" });
    let made = client.call("checkpoint", named.clone());
    assert_eq!((&made["sandbox_id"], &made["name"]), (&json!("box"), &json!("first")));
    assert!(made["entries"].as_u64() >= Some(3) && made["paused_ms"].as_f64() > Some(0.0));
    assert_eq!(made["not_kept"], json!([]));
    sh(&mut client, &sandbox, "echo two > file; rm -r deep; echo '{}' > package.json");
    let from = json!({ "sandbox_id": sandbox, "from": "first" });
    let diff = client.call("diff", from);
    assert_eq!(paths(&diff), ["deep", "deep/x", "file", "package.json"], "{diff}");
    let change = &diff["changes"][2];
    assert_eq!((&change["change"], &change["flag"]), (&json!("modified"), &Value::Null));
    assert!(change["patch"].as_str().unwrap().contains("-one\n+two\n"), "{change}");
    assert!(diff["changes"][3]["flag"].is_string(), "{diff}");
    assert_eq!(client.call("restore", named)["name"], "first");
    assert_eq!(sh(&mut client, &sandbox, "ls; cat file deep/x"), "deep\nfile\none\nx\n");
    // Without `from`: since the start.
    let diff = client.call("diff", json!({ "sandbox_id": sandbox }));
    assert_eq!(paths(&diff), ["deep", "deep/x", "file"], "{diff}");
    // Only the named one stays while the sandbox is there, and nothing after it.
    assert_eq!(kept(&place), BTreeSet::from(["box/first".to_owned()]));
    client.call("close_sandbox", json!({ "sandbox_id": sandbox }));
    assert_eq!(kept(&place), BTreeSet::new());
}

#[test]
fn checkpoints_of_other_sessions_of_the_user_cannot_be_reached() {
    let Some(place) = Place::new() else { return };
    // A session of the user with the same name, policy and files that the client must not see.
    let run = finish(place.command(&["create", "--name", "box"]));
    assert_eq!(run.code, 0, "{run:?}");
    for words in [
        &["exec", "box", "--", "sh", "-c", "echo secret > secret"][..],
        &["checkpoint", "box", "mine"],
        &["rm", "-f", "box"],
    ] {
        let run = finish(place.command(words));
        assert_eq!(run.code, 0, "{words:?}: {run:?}");
    }
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({ "name": "box" }));
    let other = client.create(json!({}));
    client.call("checkpoint", json!({ "sandbox_id": other, "name": "other" }));
    for name in ["mine", "box/mine", "other", &format!("{other}/other")] {
        let (message, _) =
            client.refused("restore", json!({ "sandbox_id": sandbox, "name": name }));
        assert!(message.contains("no checkpoint"), "{name}: {message}");
        let (message, _) = client.refused("diff", json!({ "sandbox_id": sandbox, "from": name }));
        assert!(message.contains("no checkpoint"), "{name}: {message}");
    }
    assert_eq!(sh(&mut client, &sandbox, "ls"), "");
    // The command of the user reaches it: the session has the same name and policy.
    let run = finish(place.command(&["restore", "box", "mine"]));
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(sh(&mut client, &sandbox, "cat secret"), "secret\n");
    assert_eq!(client.leave(), 0);
    // The client's checkpoints went with it, and that of the user did not.
    assert_eq!(kept(&place), BTreeSet::from(["box/mine".to_owned()]));
}

#[test]
fn checkpoints_and_differences_are_bounded_and_mistakes_are_named() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    sh(&mut client, &sandbox, "for i in 1 2 3 4 5; do seq 1000 > f$i; done");
    let arguments = json!({ "sandbox_id": sandbox, "limit": 3, "max_patch_bytes": 5000 });
    let diff = client.call("diff", arguments);
    assert_eq!((paths(&diff), &diff["truncated"]), (vec!["f1", "f2", "f3"], &json!(true)));
    let patches = diff["changes"].as_array().unwrap().iter().map(|it| it["patch"].is_string());
    assert_eq!(patches.collect::<Vec<_>>(), [true, false, false], "{diff}");
    for number in 0..32 {
        client.call("checkpoint", json!({ "sandbox_id": sandbox, "name": format!("c{number}") }));
    }
    for (tool, arguments, part) in [
        ("checkpoint", json!({ "sandbox_id": sandbox, "name": "more" }), "32 checkpoints"),
        ("checkpoint", json!({ "sandbox_id": sandbox, "name": "c1" }), "already"),
        ("checkpoint", json!({ "sandbox_id": sandbox, "name": "../up" }), "not a valid name"),
        ("checkpoint", json!({ "sandbox_id": "nowhere", "name": "a" }), "no sandbox"),
        ("restore", json!({ "sandbox_id": "nowhere", "name": "a" }), "no sandbox"),
        ("diff", json!({ "sandbox_id": "nowhere" }), "no sandbox"),
        ("restore", json!({ "sandbox_id": sandbox, "name": "c40" }), "no checkpoint"),
    ] {
        let (message, _) = client.refused(tool, arguments);
        assert!(message.contains(part), "{tool}: {message}");
    }
}

#[test]
fn running_programs_prevent_a_restore_unless_it_is_forced() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let named = json!({ "sandbox_id": sandbox, "name": "first" });
    client.call("checkpoint", named.clone());
    let waits = json!({ "sandbox_id": sandbox, "command": ["sh", "-c", "echo > runs; sleep 60"] });
    let running = client.send("tools/call", json!({ "name": "run_command", "arguments": waits }));
    sh(&mut client, &sandbox, "until test -e runs; do sleep 0.01; done");
    let (message, _) = client.refused("restore", named);
    assert!(message.contains("programs run"), "{message}");
    let forced = json!({ "sandbox_id": sandbox, "name": "first", "force": true });
    let restoring = client.send("tools/call", json!({ "name": "restore", "arguments": forced }));
    let answers = [client.hear(), client.hear()];
    let of = |id: u64| {
        let answer = answers.iter().find(|answer| answer["id"] == id).expect("it was answered");
        answer["result"]["structuredContent"].clone()
    };
    assert_eq!(of(running)["outcome"], "signaled", "{answers:?}");
    assert_eq!(of(restoring)["name"], "first", "{answers:?}");
    assert_eq!(sh(&mut client, &sandbox, "ls"), "");
}
