//! `stockade policy why` over the example with every clause.

use crate::support::{Scratch, root, stockade};

const POLICY: &str = "examples/policies/research-agent.yaml";

/// A question, its answer, the control, and the deciding line of the example; line 0 is a built-in
/// rule.
type Row = (&'static [&'static str], &'static str, &'static str, u64);

#[rustfmt::skip]
const QUESTIONS: [Row; 32] = [
    (&["--path", "/data/train.csv"], "allow", "read_paths", 16),
    (&["--path", "/data/train.csv", "--write"], "deny", "read_paths", 16),
    (&["--path", "/corpus"], "allow", "read_paths", 16),
    (&["--path", "/output/result.json", "--write"], "allow", "write_paths", 17),
    (&["--path", "/input/a", "--write"], "deny", "read_paths", 32),
    (&["--path", "notes.md", "--write"], "allow", "workspace", 18),
    (&["--path", "/etc/shadow"], "deny", "hidden_host", 0),
    (&["--path", "/data/../root/.ssh/id_rsa"], "deny", "hidden_host", 0),
    (&["--path", "/database"], "deny", "hidden_host", 0),
    (&["--path", "/tmp/x", "--write"], "allow", "hidden_host", 0),
    (&["--host", "api.openai.com"], "allow", "network_hosts", 20),
    (&["--host", "API.OpenAI.com.:80"], "allow", "network_hosts", 20),
    (&["--host", "api.openai.com:22"], "deny", "network_hosts", 20),
    (&["--host", "openai.com"], "deny", "network_hosts", 10),
    (&["--host", "a.b.github.com"], "allow", "network_hosts", 21),
    (&["--host", "github.com"], "deny", "network_hosts", 10),
    (&["--host", "evilgithub.com"], "deny", "network_hosts", 10),
    (&["--host", "gist.github.com"], "deny", "network_block", 25),
    (&["--host", "files.example.org:80"], "deny", "network_hosts", 22),
    (&["--host", "203.0.113.9"], "deny", "network_block", 25),
    (&["--host", "api.openai.com", "--address", "203.0.113.9"], "deny", "network_block", 25),
    (&["--host", "api.openai.com", "--address", "10.0.0.1"], "deny", "network_hosts", 0),
    (&["--host", "169.254.169.254:80"], "deny", "network_hosts", 0),
    (&["--host", "0x7f.1"], "deny", "network_hosts", 0),
    (&["--host", "api.github.com", "--method", "GET", "--url-path", "/repos/a/b"], "allow", "network_hosts", 23),
    (&["--host", "api.github.com", "--method", "POST", "--url-path", "/repos/a/b"], "deny", "network_requests", 23),
    (&["--host", "api.github.com", "--method", "GET", "--url-path", "/user"], "deny", "network_requests", 23),
    (&["--host", "api.github.com", "--method", "GET", "--url-path", "/repos/%2e%2e/user"], "deny", "network_requests", 23),
    (&["--tool", "fetch_arxiv"], "allow", "tools", 28),
    (&["--tool", "delete_everything"], "deny", "tools", 28),
    (&["--command", "python3", "-c", "print(1)"], "allow", "commands", 29),
    (&["--command", "/tmp/python3"], "deny", "commands", 29),
];

#[test]
fn why_answers_thirty_two_questions_with_the_deciding_line() {
    for (question, verdict, control, line) in QUESTIONS {
        let mut args = vec!["policy", "why", POLICY, "--json"];
        args.extend(question);
        let run = stockade(&args);
        assert_eq!(run.code, 0, "{question:?}: {}", run.stderr);
        let answer = run.json();
        let decided = &answer["decided_by"];
        let got = (
            answer["verdict"].as_str().unwrap(),
            answer["control"].as_str().unwrap(),
            decided["line"].as_u64().unwrap_or(0),
        );
        assert_eq!(got, (verdict, control, line), "{question:?}: {answer}");
        assert_eq!(answer["allowed"], verdict == "allow", "{question:?}");
        assert!(!answer["why"].as_str().unwrap().is_empty(), "{question:?}");
        assert!(!answer["change"].as_str().unwrap().is_empty(), "{question:?}");
        if line == 0 {
            assert!(!decided["rule"].as_str().unwrap().is_empty(), "{question:?}");
        } else {
            assert_eq!(decided["file"], POLICY, "{question:?}");
        }
    }
}

#[rustfmt::skip]
const URLS: [Row; 9] = [
    (&["--url", "https://api.github.com/repos/a?x=1"], "allow", "network_hosts", 23),
    (&["--url", "https://api.github.com/repos/a", "--method", "POST"], "deny", "network_requests", 23),
    (&["--url", "https://api.github.com/repos/../user", "--method", "GET"], "deny", "network_requests", 23),
    (&["--url", "https://api.github.com"], "deny", "network_requests", 23),
    (&["--url", "https://api.openai.com/anything", "--method", "DELETE"], "allow", "network_hosts", 20),
    (&["--url", "https://api.openai.com:22/"], "deny", "network_hosts", 20),
    (&["--url", "https://evil.example.net/"], "deny", "network_hosts", 10),
    (&["--url", "ftp://api.openai.com/"], "deny", "network_requests", 0),
    (&["--url", "https://api.github.com/repos/a", "--method", "get it"], "deny", "network_requests", 0),
];

#[test]
fn why_answers_for_a_url_with_its_method_as_the_gate_judges_the_request() {
    for (question, verdict, control, line) in URLS {
        let run = stockade(&[&["policy", "why", POLICY, "--json"], question].concat());
        assert_eq!(run.code, 0, "{question:?}: {}", run.stderr);
        let answer = run.json();
        let got = (
            answer["verdict"].as_str().unwrap(),
            answer["control"].as_str().unwrap(),
            answer["decided_by"]["line"].as_u64().unwrap_or(0),
        );
        assert_eq!(got, (verdict, control, line), "{question:?}: {answer}");
    }
    let lonely = stockade(&["policy", "why", POLICY, "--path", "/data", "--method", "GET"]);
    assert_eq!(lonely.code, 125, "{lonely:?}");
    assert!(lonely.stderr.contains("--method belongs to --host or --url"), "{}", lonely.stderr);
}

#[test]
fn code_is_judged_by_the_rules_and_the_text_names_line_and_remedy() {
    let scratch = Scratch::new();
    let harmful = scratch.file("a.py", "import subprocess\n");
    let harmless = scratch.file("b.py", "print(1)\n");
    let run = stockade(&["policy", "why", POLICY, "--code", &harmful]);
    let expected = "deny: python code of 18 bytes\n  \
        because    rule `deny-shell-out` (deny) matches: shell-out blocked by research-agent policy\n  \
        decided by examples/policies/research-agent.yaml:34:5: - name: deny-shell-out\n  \
        control    code_rules\n  \
        to change  remove rule `deny-shell-out`, or change what it looks at: `code` contains \"subprocess\"\n";
    assert_eq!((run.code, run.stdout.as_str()), (0, expected));
    let run = stockade(&["policy", "why", POLICY, "--code", &harmless, "--exit-code"]);
    assert_eq!(run.code, 0);
    let run = stockade(&["policy", "why", POLICY, "--code", &harmful, "--exit-code"]);
    assert_eq!(run.code, 126);
}

#[test]
fn callers_context_adds_fields_and_never_replaces_the_code() {
    let scratch = Scratch::new();
    let code = scratch.file("a.py", "import subprocess\n");
    let run = stockade(&["policy", "why", POLICY, "--code", &code, "--context", "code=harmless"]);
    assert_eq!(run.code, 125);
    assert!(run.stderr.contains("`code` is set by Stockade"), "{}", run.stderr);
    let policy = scratch.file(
        "p.yaml",
        "rules: [{name: big, condition: {field: size, operator: gt, value: 10}, action: allow}]",
    );
    let ask = |context: &str| {
        stockade(&["policy", "why", &policy, "--code", &code, "--context", context, "--json"])
            .json()
    };
    assert_eq!(ask("size=11")["verdict"], "allow");
    assert_eq!(ask("size=10")["verdict"], "deny");
    let confused = ask("size=big");
    assert_eq!(confused["verdict"], "deny");
    assert!(confused["why"].as_str().unwrap().contains("could not be judged"), "{confused}");
}

#[test]
fn a_tool_is_judged_with_the_arguments_that_were_given() {
    let scratch = Scratch::new();
    let policy = scratch.file(
        "p.yaml",
        "tool_allowlist: [search]\nrules: [{name: private, action: deny, \
         condition: {field: arguments.query, operator: contains, value: salary}}]",
    );
    let ask =
        |more: &[&str]| stockade(&[&["policy", "why", &policy, "--tool", "search"], more].concat());
    assert_eq!(ask(&["--json"]).json()["verdict"], "allow");
    let harmless = ask(&["--json", "--arguments", r#"{"query":"weather"}"#]).json();
    assert_eq!(harmless["verdict"], "allow");
    let denied = ask(&["--json", "--arguments", r#"{"query":"his salary"}"#]).json();
    assert_eq!((&denied["verdict"], &denied["control"]), (&"deny".into(), &"code_rules".into()));
    for wrong in ["[1]", "{", ""] {
        let run = ask(&["--arguments", wrong]);
        assert_eq!(run.code, 125, "{wrong}");
        assert!(run.stderr.contains("no JSON object"), "{}", run.stderr);
    }
    let run = stockade(&["policy", "why", &policy, "--path", "/x", "--arguments", "{}"]);
    assert!(run.stderr.contains("--tool"), "{}", run.stderr);
    let run = ask(&["--context", "arguments.query=x"]);
    assert!(run.stderr.contains("cannot be replaced"), "{}", run.stderr);
}

#[test]
fn rules_with_a_time_use_the_given_clock() {
    let scratch = Scratch::new();
    let policy = scratch.file(
        "p.yaml",
        "rules:\n  - name: office\n    condition: {field: action, operator: eq, value: execute_code}\n    \
         action: allow\n    dynamic_condition: {type: time_window, timezone: Europe/Berlin, \
         start_time: \"09:00\", end_time: \"17:00\", days_of_week: [1, 2, 3, 4, 5]}\n",
    );
    let code = scratch.file("a.py", "print(1)\n");
    let ask = |at: &str| {
        stockade(&["policy", "why", &policy, "--code", &code, "--at", at, "--json"]).json()["verdict"]
            .clone()
    };
    assert_eq!(ask("2026-11-16T08:30:00Z"), "allow", "Monday 09:30 in Berlin");
    assert_eq!(ask("2026-11-16T16:30:00Z"), "deny", "Monday 17:30 in Berlin");
    assert_eq!(ask("2026-11-15T10:00:00Z"), "deny", "Sunday");
}

#[test]
fn json_flag_after_command_is_ours_unless_double_dash_follows() {
    let run = stockade(&["policy", "why", POLICY, "--command", "ls", "-l", "--json"]);
    assert_eq!(run.json()["target"], "ls -l");
    let run = stockade(&["policy", "why", POLICY, "--json", "--command", "ls", "--json", "--"]);
    assert_eq!(run.json()["target"], "ls --json");
}

#[test]
fn exit_code_flag_after_command_is_ours() {
    assert_eq!(stockade(&["policy", "why", POLICY, "--command", "rm", "--exit-code"]).code, 126);
    let run =
        stockade(&["policy", "why", POLICY, "--command", "rm", "-r", "--json", "--exit-code"]);
    assert_eq!((run.code, run.json()["target"].as_str()), (126, Some("rm -r")));
    for words in [&["--json"][..], &["--exit-code"], &["--"], &[""]] {
        let run = stockade(&[&["policy", "why", POLICY, "--command"], words].concat());
        assert_eq!(run.code, 125, "{words:?}: {}", run.stdout);
    }
}

#[test]
fn code_with_unknown_language_or_invalid_text_is_not_evaluated() {
    let scratch = Scratch::new();
    let ruby = scratch.file("a.rb", "puts 1\n");
    let run = stockade(&["policy", "why", POLICY, "--code", &ruby]);
    assert_eq!(run.code, 125);
    assert!(run.stderr.contains("--language"), "{}", run.stderr);
    assert_eq!(stockade(&["policy", "why", POLICY, "--code", &ruby, "--language", "ruby"]).code, 0);
    let binary = scratch.file("b.py", [b'#', 0xff, b'\n']);
    let run = stockade(&["policy", "why", POLICY, "--code", &binary]);
    assert_eq!(run.code, 125);
    assert!(run.stderr.contains("not UTF-8"), "{}", run.stderr);
}

#[test]
fn advice_about_a_path_works_as_written() {
    for path in ["/proc/1/root/etc", "/sys/x", "/dev/kmsg", "/", "/etc", "/var", "/usr"] {
        let run = stockade(&["policy", "why", POLICY, "--path", path, "--write", "--json"]);
        let change = run.json()["change"].as_str().unwrap().to_owned();
        assert!(change.starts_with("nothing: "), "{path}: {change}");
    }
    let answer =
        stockade(&["policy", "why", POLICY, "--path", "/input/x", "--write", "--json"]).json();
    assert!(answer["change"].as_str().unwrap().contains("sandbox_mounts.input_dir"), "{answer}");
}

#[test]
fn the_readme_shows_what_is_printed() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, example) = readme.split_once("$ stockade ").unwrap();
    let (command, rest) = example.split_once('\n').unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    let args: Vec<&str> = command.split(' ').collect();
    assert_eq!(stockade(&args).stdout, shown);
}

#[test]
fn combined_policies_name_the_part_that_denies() {
    let scratch = Scratch::new();
    let narrow = scratch.file("narrow.yaml", "network_allowlist: [files.example.org]\n");
    let ask =
        |host: &str| stockade(&["policy", "why", POLICY, &narrow, "--host", host, "--json"]).json();
    assert_eq!(ask("files.example.org")["verdict"], "allow");
    let answer = ask("api.openai.com");
    assert_eq!(answer["verdict"], "deny");
    assert_eq!(answer["why"], "network_allowlist does not name api.openai.com");
}

#[test]
fn exactly_one_question_is_asked() {
    for args in [
        &["policy", "why", POLICY][..],
        &["policy", "why", POLICY, "--tool", "a", "--path", "/b"],
        &["policy", "why", POLICY, "--tool", "a", "--write"],
        &["policy", "why", POLICY, "--host", "a.b", "--method", "GET"],
    ] {
        let run = stockade(args);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{args:?}");
        let told = run.stderr.contains("Usage") || run.stderr.contains(" belongs to --");
        assert!(told, "{args:?}: {}", run.stderr);
    }
}
