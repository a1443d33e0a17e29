//! The policy commands, end to end.

use std::fs;

use crate::support::{Scratch, root, stockade, stockade_with_input};

const POLICY: &str = "examples/policies/research-agent.yaml";

fn examples() -> Vec<String> {
    let directory = root().join("examples/policies");
    let entries = fs::read_dir(directory).expect("the examples are there");
    let files = entries.map(|entry| entry.expect("the directory can be read").path());
    let yaml = files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    let mut found: Vec<String> = yaml.map(|path| path.display().to_string()).collect();
    found.sort();
    found
}

#[test]
fn every_example_policy_checks() {
    let files = examples();
    assert!(!files.is_empty());
    let mut args = vec!["policy", "check"];
    args.extend(files.iter().map(String::as_str));
    let run = stockade(&args);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(run.stdout.lines().count(), files.len());
    assert!(run.stdout.lines().all(|line| line.contains(": ok, ")), "{}", run.stdout);
}

#[test]
fn typo_error_has_file_line_column_caret_and_the_likely_key() {
    let scratch = Scratch::new();
    let file = scratch.file("p.yaml", "version: \"2\"\nnetwork_allow_list: [example.org]\n");
    let run = stockade(&["policy", "check", &file]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""));
    let expected = format!(
        "{file}:2:1: a policy has no key `network_allow_list`\n  |\n\
         2 | network_allow_list: [example.org]\n  | ^^^^^^^^^^^^^^^^^^\n  \
         = did you mean `network_allowlist`?\n"
    );
    assert!(run.stderr.starts_with(&expected), "{}", run.stderr);
    let run = stockade(&["policy", "check", "--json", &file]);
    let error = &run.json()[0]["errors"][0];
    assert_eq!(run.code, 125);
    assert_eq!((error["line"].as_u64(), error["column"].as_u64()), (Some(2), Some(1)));
    assert_eq!(error["remedy"], "did you mean `network_allowlist`?");
}

#[test]
fn one_refused_file_does_not_hide_the_others() {
    let scratch = Scratch::new();
    let bad = scratch.file("bad.yaml", "nonsense: 1\n");
    let run = stockade(&["policy", "check", &bad, POLICY, "/nonexistent.yaml"]);
    assert_eq!(run.code, 125);
    assert!(run.stdout.contains("research-agent.yaml: ok"), "{}", run.stdout);
    assert!(run.stderr.contains("cannot read the policy from /nonexistent.yaml"));
    assert!(run.stderr.contains("2 of 3 policies refused"), "{}", run.stderr);
    let all = stockade(&["policy", "check", "--json", &bad, POLICY]).json();
    assert_eq!((&all[0]["ok"], &all[1]["ok"]), (&false.into(), &true.into()));
}

#[test]
fn hostile_files_fail_quickly_with_a_message_and_a_remedy() {
    let scratch = Scratch::new();
    let huge = scratch.path().join("huge.yaml");
    fs::File::create(&huge).unwrap().set_len(100 << 20).unwrap();
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned()
        + &('b'..='i')
            .zip('a'..)
            .map(|(name, before)| {
                let aliases = vec![format!("*{before}"); 9].join(", ");
                format!("{name}: &{name} [{aliases}]\n")
            })
            .collect::<String>();
    let files = [
        huge.to_str().unwrap().to_owned(),
        scratch.file("bomb.yaml", bomb),
        scratch.file("deep.yaml", "[".repeat(100_000)),
        scratch.file("binary.yaml", [0xff, 0xfe, 0x00]),
        scratch.path().to_str().unwrap().to_owned(),
        "/dev/zero".to_owned(),
    ];
    for file in files {
        let start = std::time::Instant::now();
        let run = stockade(&["policy", "check", &file]);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{file}");
        assert!(run.stderr.contains("  = "), "{file}: {}", run.stderr);
        assert!(start.elapsed().as_secs() < 5, "{file} took {:?}", start.elapsed());
    }
}

#[test]
fn standard_input_is_a_policy_file_too() {
    let run = stockade_with_input(&["policy", "check", "-"], "name: piped\n");
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "-: ok, `piped`, 0 mounts, 0 hosts, 0 tools, 0 rules\n")
    );
    let run = stockade_with_input(&["policy", "check", "-"], "nam: piped\n");
    assert!(run.stderr.starts_with("standard input:1:1: "), "{}", run.stderr);
}

#[test]
fn every_preset_is_written_commented_and_checks() {
    let scratch = Scratch::new();
    for preset in ["strict", "default", "data", "web", "coding-agent"] {
        let run = stockade(&["policy", "init", preset]);
        assert_eq!(run.code, 0, "{preset}");
        assert!(run.stdout.matches('#').count() >= 3, "{preset} has comments");
        let checked = stockade_with_input(&["policy", "check", "-"], &run.stdout);
        assert_eq!(checked.code, 0, "{preset}: {}", checked.stderr);
        let file = scratch.path().join(format!("{preset}.yaml"));
        let file = file.to_str().unwrap();
        assert_eq!(stockade(&["policy", "init", preset, "--output", file]).code, 0);
        assert_eq!(fs::read_to_string(file).unwrap(), run.stdout);
    }
    assert_eq!(
        stockade(&["policy", "init"]).stdout,
        stockade(&["policy", "init", "default"]).stdout
    );
}

#[test]
fn init_replaces_a_file_only_with_force() {
    let scratch = Scratch::new();
    let file = scratch.file("p.yaml", "mine");
    let run = stockade(&["policy", "init", "strict", "--output", &file]);
    assert_eq!(run.code, 125);
    assert!(run.stderr.contains("--force"), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(stockade(&["policy", "init", "strict", "--output", &file, "--force"]).code, 0);
    assert!(fs::read_to_string(&file).unwrap().contains("name: strict"));
}

#[test]
fn output_of_show_parses_to_the_same_policy() {
    let shown = stockade(&["policy", "show", POLICY]);
    assert_eq!(shown.code, 0);
    let again = stockade_with_input(&["policy", "show", "-"], &shown.stdout);
    assert_eq!(again.stdout, shown.stdout);
    let json = stockade(&["policy", "show", "--json", POLICY]);
    let from_json = stockade_with_input(&["policy", "show", "-"], &json.stdout);
    assert_eq!(from_json.stdout, shown.stdout);
    assert!(shown.stdout.contains("max_tool_calls: 10"), "defaults are filled in");
}

#[test]
fn showing_two_policies_shows_the_narrower_of_each_clause() {
    let scratch = Scratch::new();
    let narrow = scratch
        .file("n.yaml", "isolation: vm\ndefaults: {max_memory_mb: 64}\ntool_allowlist: [other]\n");
    let shown = stockade(&["policy", "show", "--json", POLICY, &narrow]).json();
    assert_eq!(shown["isolation"], "vm");
    assert_eq!(shown["defaults"]["max_memory_mb"], 64);
    assert_eq!(shown["defaults"]["timeout_seconds"], 60);
    assert_eq!(shown["tool_allowlist"].as_array().unwrap().len(), 0);
    assert_eq!(shown["command_allowlist"].as_array().unwrap().len(), 3);
    assert_eq!(shown["filesystem"]["read"].as_array().unwrap().len(), 0);
    assert_eq!(shown["also"].as_array().unwrap().len(), 1);
}

#[test]
fn plan_lists_for_each_wall_the_mechanism_or_the_reason_per_control() {
    let run = stockade(&["policy", "plan", POLICY, "--json"]);
    assert_eq!(run.code, 125);
    let plan = run.json();
    assert_eq!(
        (&plan["enforceable"], &plan["provider"]),
        (&false.into(), &serde_json::Value::Null)
    );
    let walls = plan["walls"].as_array().unwrap();
    assert_eq!(walls.len(), 8);
    for wall in walls {
        let controls = wall["controls"].as_array().unwrap();
        assert!(controls.len() >= 35);
        for control in controls {
            let keys: &[&str] = match control["status"].as_str().unwrap() {
                "refused" => &["control", "clause", "asks", "reason", "remedy"],
                _ => &["control", "clause", "asks", "mechanism", "precision"],
            };
            for key in keys {
                assert!(!control[key].as_str().unwrap().is_empty(), "{key}: {control}");
            }
        }
        let refused = controls.iter().filter(|control| control["status"] == "refused").count();
        let is_built_in = wall["provider"] == "native" || wall["provider"] == "reduced";
        assert!(is_built_in || refused == controls.len(), "{wall}");
    }
    let scratch = Scratch::new();
    let policy = scratch.file("p.yaml", "isolation: vm\n");
    let text = stockade(&["policy", "plan", "--provider", "native", &policy]);
    assert_eq!(text.code, 125);
    assert!(text.stdout.contains("refused  isolation"), "{}", text.stdout);
}

#[test]
fn plan_enforces_tool_clauses_only_behind_the_native_wall() {
    let scratch = Scratch::new();
    let policy = scratch.file(
        "p.yaml",
        "tool_allowlist: [search]\ndefaults: {max_tool_calls: 3}\nlimits: {max_tool_seconds: 5}\n",
    );
    let plan = stockade(&["policy", "plan", &policy, "--json"]).json();
    for wall in plan["walls"].as_array().unwrap() {
        let controls = wall["controls"].as_array().unwrap();
        let control = |name: &str| controls.iter().find(|it| it["control"] == name).unwrap();
        if wall["provider"] == "native" && control("isolation")["status"] != "refused" {
            assert!(control("tools")["mechanism"].as_str().unwrap().contains("socket"), "{wall}");
            for name in ["tools", "max_tool_calls", "max_tool_seconds"] {
                assert_eq!(control(name)["precision"], "exact", "{wall}");
            }
        } else {
            assert_eq!(control("tools")["status"], "refused", "{wall}");
        }
    }
}

#[test]
fn plan_enforces_a_policy_without_network_or_tools_behind_the_native_wall() {
    let scratch = Scratch::new();
    let plain = scratch.file("p.yaml", "limits: {max_pids: 16}\ncommand_allowlist: [sh]\n");
    let run = stockade(&["policy", "plan", &plain, "--provider", "native", "--json"]);
    let plan = run.json();
    if plan["walls"][0]["enforceable"] == false {
        // Without a usable wall, each control has a reason.
        assert_eq!(run.code, 125);
        return;
    }
    assert_eq!((run.code, &plan["provider"]), (0, &"native".into()));
    let controls = plan["walls"][0]["controls"].as_array().unwrap();
    let pids = controls.iter().find(|control| control["control"] == "max_pids").unwrap();
    assert_eq!(pids["asks"], "at most 16");
}

#[test]
fn plan_checks_only_the_named_wall_and_lists_known_walls() {
    let plan = stockade(&["policy", "plan", POLICY, "--provider", "qemu", "--json"]).json();
    assert_eq!(plan["walls"].as_array().unwrap().len(), 1);
    assert_eq!(plan["walls"][0]["provider"], "qemu");
    let run = stockade(&["policy", "plan", POLICY, "--provider", "magic"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""));
    assert!(run.stderr.contains("magic") && run.stderr.contains("native"), "{}", run.stderr);
    let run = stockade(&["policy", "plan", POLICY, "--provider", "qemu"]);
    assert!(run.stdout.contains("the qemu wall cannot enforce all of it"), "{}", run.stdout);
}

#[test]
fn diff_names_what_the_second_allows_and_the_first_does_not() {
    let scratch = Scratch::new();
    let wide = scratch
        .file("wide.yaml", "defaults: {max_memory_mb: 4096}\nnetwork_allowlist: [example.org]\n");
    let run = stockade(&["policy", "diff", POLICY, POLICY, "--exit-code"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "B allows nothing that A does not\n"));
    let run = stockade(&["policy", "diff", POLICY, &wide, "--json"]);
    assert_eq!(run.code, 0);
    let allows = run.json()["allows"].as_array().unwrap().clone();
    let found = |control: &str, text: &str| {
        allows
            .iter()
            .any(|one| one["control"] == control && one["allows"].as_str().unwrap().contains(text))
    };
    assert!(found("max_memory_mb", "4096 MiB, up from 2048 MiB"), "{allows:?}");
    assert!(found("network_hosts", "example.org on port 80, 443"), "{allows:?}");
    assert_eq!(stockade(&["policy", "diff", POLICY, &wide, "--exit-code"]).code, 1);
}

#[test]
fn completions_and_manual_pages_include_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = stockade(&["completions", shell]);
        assert_eq!(run.code, 0, "{shell}");
        assert!(run.stdout.contains("policy"), "{shell}");
        let json = stockade(&["completions", shell, "--json"]).json();
        assert_eq!(json["script"], run.stdout, "{shell}");
    }
    let scratch = Scratch::new();
    let directory = scratch.path().join("pages");
    let run = stockade(&["man", "--dir", directory.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for page in
        ["stockade.1", "stockade-policy.1", "stockade-policy-why.1", "stockade-policy-diff.1"]
    {
        let text = fs::read_to_string(directory.join(page)).unwrap();
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(stockade(&["man"]).stdout.contains(".SH NAME"));
}

#[test]
fn embedded_guest_responds() {
    let version = stockade(&["version", "--json"]).json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["guest"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["guest"]["static"], true);
    assert!(version["guest"]["bytes"].as_u64().unwrap() > 100_000);
}

#[test]
fn standard_input_is_read_once_only() {
    for args in [
        &["policy", "check", "-", "-"][..],
        &["policy", "show", "-", "-"],
        &["policy", "diff", "-", "-"],
        &["policy", "why", "-", "--code", "-", "--language", "python"],
    ] {
        let run = stockade_with_input(args, "name: a\n");
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{args:?}");
        assert!(run.stderr.contains("standard input is named more than once"), "{}", run.stderr);
    }
}

#[test]
fn bad_usage_is_json_with_the_json_flag() {
    let run = stockade(&["policy", "nonsense", "--json"]);
    assert_eq!(run.code, 125);
    assert!(run.json()["error"]["message"].as_str().unwrap().contains("nonsense"));
}

#[test]
fn errors_are_json_with_the_json_flag() {
    let run = stockade(&["policy", "show", "--json", "/nonexistent.yaml"]);
    assert_eq!(run.code, 125);
    let error = run.json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("/nonexistent.yaml"));
    assert!(!error["remedy"].as_str().unwrap().is_empty());
}

#[test]
fn bad_usage_exits_with_125_and_help_with_0() {
    for args in
        [&["policy"][..], &["nonsense"], &["policy", "init", "nonsense"], &["policy", "check"]]
    {
        let run = stockade(args);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{args:?}");
        assert!(!run.stderr.is_empty());
    }
    let run = stockade(&["policy", "why", "--help"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.contains("--url-path"));
    assert!(stockade(&["--version"]).stdout.starts_with("stockade "));
}

#[test]
fn a_closed_reader_is_not_an_error() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_stockade"))
        .args(["policy", "schema"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()),
        (Some(0), "")
    );
}

#[test]
fn text_output_escapes_control_characters_from_a_file() {
    let scratch = Scratch::new();
    let file = scratch.file("p.yaml", "name: \"x\\e]0;title\\a\"\nrules: [{name: \"\\e[2J\", condition: {field: code, operator: contains, value: a}, action: deny, message: \"\\e[31m\"}]\n");
    let code = scratch.file("a.py", "a\n");
    let odd = scratch.file("\u{1b}[2J\u{202e}.yaml", "name: \"\\u202e\\x7f\"\n");
    for args in [
        &["policy", "check", &file][..],
        &["policy", "why", &file, "--code", &code],
        &["policy", "show", &file],
        &["policy", "plan", &file],
        &["policy", "diff", POLICY, &file],
        &["policy", "diff", &file, POLICY],
        &["policy", "why", &file, "--tool", "\u{1b}[2J"],
        &["policy", "why", &file, "--host", "\u{1b}[2J"],
        &["policy", "why", &file, "--path", "/a\u{202e}b"],
        &["policy", "why", &file, "--command", "\u{1b}[2J"],
        &["policy", "why", &file, "--code", &code, "--language", "\u{1b}[2J"],
        &["policy", "check", &odd],
        &["policy", "check", "/nonexistent\u{1b}[2J"],
        &["policy", "show", "--json", &odd],
    ] {
        let run = stockade(args);
        let text = format!("{}{}", run.stdout, run.stderr);
        let foul = ['\u{1b}', '\u{7}', '\u{202e}', '\u{7f}'];
        assert!(!text.contains(foul), "{args:?}: {text:?}");
    }
}
