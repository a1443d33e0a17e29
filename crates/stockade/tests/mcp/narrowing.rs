//! A call cannot widen the policy that the server was started with.

use serde_json::{Value, json};

use crate::support::{Client, Place};

const MOST: &str = "\
name: most
defaults: { max_memory_mb: 200, timeout_seconds: 20 }
limits: { max_pids: 30 }
filesystem: { read: [ { host: ./data, guest: /data } ] }
network_allowlist: [ a.test, b.test ]
rules:
  - { name: no-secrets, condition: { field: code, operator: contains, value: hunter2 }, action: deny }
  - { name: rest, condition: { field: code, operator: matches, value: '(?s).*' }, action: allow }
  - { name: commands, condition: { field: command, operator: matches, value: '(?s).*' }, action: allow }
";

fn start(place: &Place) -> Client {
    place.scratch.file("most.yaml", MOST);
    place.scratch.directory("data");
    place.scratch.directory("out");
    place.scratch.file("data/x", "host data\n");
    place.client(&["--policy", "most.yaml"])
}

/// Whether a sandbox may reach a host, and whether the server allows it.
fn host(client: &mut Client, sandbox: &str, host: &str) -> (Value, Value) {
    let asked = json!({ "sandbox_id": sandbox, "host": host });
    let verdict = client.call("explain_denial", asked)["verdict"].clone();
    (verdict["effect"].clone(), verdict["server_allows"].clone())
}

#[test]
fn policy_and_limits_of_a_call_only_narrow() {
    let Some(place) = Place::new() else { return };
    let mut client = start(&place);
    let wide = "{isolation: process, defaults: {max_memory_mb: 4000, timeout_seconds: 800, \
                network_default: allow}, network_allowlist: [c.test, b.test], \
                filesystem: {read: [/usr/share, {host: ./data, guest: /data}], write: [{host: ./out, guest: /out}]}}";
    let arguments = json!({ "name": "wide", "policy": wide, "memory_mb": 5000, "cpus": 64, "timeout_seconds": 900 });
    let view = client.call("create_sandbox", arguments);
    let policy = view["policy"].as_str().unwrap();
    for part in ["max_memory_mb: 200", "timeout_seconds: 20", "max_pids: 30", "max_cpu: 1.0"] {
        assert!(policy.contains(part), "{part}\n{policy}");
    }
    let open = client.create(json!({}));
    // Both have what both policies allow; the wide one lost what its own policy does not name.
    for (sandbox, name, expected) in [
        (open.as_str(), "a.test", ("allow", true)),
        (&open, "c.test", ("deny", false)),
        ("wide", "b.test", ("allow", true)),
        ("wide", "a.test", ("allow", true)),
        ("wide", "c.test", ("deny", false)),
    ] {
        let (effect, expected_effect) = (host(&mut client, sandbox, name), expected);
        assert_eq!(
            effect,
            (json!(expected_effect.0), json!(expected_effect.1)),
            "{sandbox} {name}"
        );
    }
    // The kernel holds it, and not only the answer.
    let look = "import os\nprint(open('/data/x').read(), os.path.exists('/out'))\n\
                try: open('/out/x', 'w')\nexcept OSError as error: print(type(error).__name__)";
    for sandbox in ["wide", &open] {
        let run = client.python(sandbox, look);
        let out = run["stdout"].as_str().unwrap();
        assert!(out.starts_with("host data\n False"), "{run}");
        assert!(out.ends_with("Error\n"), "{run}");
    }
    // Without a cgroup a watchdog samples, and ends the program soon after.
    let grow = "import time\nb = bytearray(300 << 20)\ntime.sleep(10)\nprint('grown')";
    assert_ne!(client.python("wide", grow)["stdout"], "grown\n");
}

#[test]
fn narrower_policy_of_a_call_denies_what_the_server_allows() {
    let Some(place) = Place::new() else { return };
    let mut client = start(&place);
    let narrow = json!({ "policy": "{network_allowlist: [a.test]}", "memory_mb": 64 });
    let sandbox = client.create(narrow);
    assert_eq!(host(&mut client, &sandbox, "a.test"), (json!("allow"), json!(true)));
    assert_eq!(host(&mut client, &sandbox, "b.test"), (json!("deny"), json!(true)));
    let run = client.python(&sandbox, "import os\nprint(os.path.exists('/data'))");
    assert_eq!(run["stdout"], "False\n");
}

#[test]
fn rules_of_the_server_judge_code_of_every_sandbox_and_the_denial_says_how_to_allow_it() {
    let Some(place) = Place::new() else { return };
    let mut client = start(&place);
    let loose = json!({ "policy": "{defaults: {action: allow}}" });
    for arguments in [json!({}), loose] {
        let sandbox = client.create(arguments);
        // Without the word it runs.
        assert_eq!(client.python(&sandbox, "print('fine')")["stdout"], "fine\n");
        let run = client.python(&sandbox, "print('hunter2')");
        assert_eq!((&run["outcome"], &run["stdout"]), (&json!("denied"), &json!("")));
        let denial = &run["denials"][0];
        assert!(denial["rule"].as_str().unwrap().starts_with("most.yaml:7:"), "{denial}");
        assert!(!denial["how_to_allow"].as_str().unwrap().is_empty(), "{denial}");
        let listed = client.call("explain_denial", json!({ "sandbox_id": sandbox }));
        assert_eq!((&listed["denied"], &listed["denials"][0]), (&json!(1), denial));
    }
}

#[test]
fn policy_file_counts_as_it_was_when_the_server_started() {
    let Some(place) = Place::new() else { return };
    let mut client = start(&place);
    place.scratch.file("most.yaml", "name: other\nnetwork_allowlist: [c.test]\n");
    let sandbox = client.create(json!({}));
    assert_eq!(host(&mut client, &sandbox, "c.test"), (json!("deny"), json!(false)));
    assert_eq!(host(&mut client, &sandbox, "a.test"), (json!("allow"), json!(true)));
}

#[test]
fn sessions_of_the_same_user_that_the_server_did_not_create_cannot_be_used() {
    let Some(place) = Place::new() else { return };
    let mut client = start(&place);
    let other = place.command(&["create", "--name", "other", "--allow-host", "c.test"]);
    assert_eq!(crate::support::finish(other).code, 0);
    assert_eq!(place.sessions(), ["other"]);
    assert_eq!(client.call("list_sandboxes", json!({}))["sandboxes"], json!([]));
    for tool in ["list_files", "close_sandbox", "explain_denial"] {
        let (message, _) = client.refused(tool, json!({ "sandbox_id": "other" }));
        assert!(message.contains("no sandbox"), "{message}");
    }
    let run = json!({ "sandbox_id": "other", "code": "print(1)" });
    assert!(client.refused("run_code", run).0.contains("no sandbox"));
    assert_eq!(place.sessions(), ["other"]);
}
