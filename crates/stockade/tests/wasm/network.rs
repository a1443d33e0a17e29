//! Requests through the gate.

use crate::support::{directory, internet, named, report, run_with};

named![
    listed_host_answers_over_http_and_https,
    unlisted_host_is_denied_with_a_reason,
    private_address_behind_an_allowed_name_is_denied,
    method_and_path_of_https_are_judged,
    request_that_is_not_valid_is_a_value_error,
    body_and_headers_reach_the_server,
];

fn listed_host_answers_over_http_and_https() {
    if internet().is_none() {
        return;
    }
    let code = "for scheme in ('http', 'https'):\n    answer = http_get(scheme + '://files.test/')\n    \
                print(answer.status, 'files.test' in answer.text)";
    let run = run_with(&["--allow-host", "files.test"], code);
    assert_eq!(run.text(), "200 True\n200 True\n");
}

fn unlisted_host_is_denied_with_a_reason() {
    if internet().is_none() {
        return;
    }
    let code = "for scheme in ('http', 'https'):\n    try:\n        http_get(scheme + '://other.test/')\n        \
                print('allowed')\n    except HTTPDenied as error:\n        print(error)";
    let report_of = report(&["--allow-host", "files.test"], code);
    let text = report_of["stdout"].as_str().expect("text");
    assert_eq!(text.matches("network_allowlist does not name other.test").count(), 2, "{text}");
    assert!(report_of["denials"].to_string().contains("other.test"), "{report_of:#}");
    // Without any allowed host there is no gate at all, and the reason is the same.
    let alone = run_with(&[], code);
    assert!(alone.text().contains("network_allowlist does not name other.test"), "{alone:?}");
    // It works when it is allowed.
    assert_eq!(run_with(&["--allow-host", "other.test"], code).text(), "allowed\nallowed\n");
}

fn private_address_behind_an_allowed_name_is_denied() {
    if internet().is_none() {
        return;
    }
    let code = "try:\n    http_get('https://private.test/')\n    print('allowed')\n\
                except HTTPDenied:\n    print('denied')";
    assert_eq!(run_with(&["--allow-host", "private.test"], code).text(), "denied\n");
}

fn method_and_path_of_https_are_judged() {
    if internet().is_none() {
        return;
    }
    let policy = "network_allowlist:\n- {host: files.test, methods: [GET], paths: ['/large*']}\n";
    let (_scratch, path) = directory(&[("p.yaml", policy)]);
    let policy = path.join("p.yaml");
    let code = r#"
print(http_get("https://files.test/large?bytes=5").status)
for method, path in [("GET", "/"), ("POST", "/large?bytes=5")]:
    try:
        print(http_request(method, "https://files.test" + path).status)
    except HTTPDenied as error:
        print("denied:", error)
"#;
    let run = run_with(&["--policy", policy.to_str().expect("text")], code);
    let lines: Vec<&str> = run.text().lines().collect();
    assert_eq!(lines[0], "200", "{run:?}");
    assert!(lines[1].starts_with("denied: the policy refuses GET files.test"), "{run:?}");
    assert!(lines[2].starts_with("denied: the policy refuses POST files.test"), "{run:?}");
}

fn request_that_is_not_valid_is_a_value_error() {
    let code = r#"
for arguments in [("GET", "ftp://files.test/"), ("GET", "nothing"), ("CONNECT", "http://files.test/"),
                  ("GET", "http://user@files.test/"), ("BAD METHOD", "http://files.test/")]:
    try:
        http_request(*arguments)
    except ValueError:
        print("refused")
for headers in [{"Host": "x"}, {"Content-Length": "1"}, {"A\nB": "1"}, {"A": "1\r\nB: 2"}]:
    try:
        http_get("http://files.test/", headers=headers)
    except ValueError:
        print("refused")
"#;
    assert_eq!(run_with(&["--allow-host", "files.test"], code).text(), "refused\n".repeat(9));
}

fn body_and_headers_reach_the_server() {
    if internet().is_none() {
        return;
    }
    let code = "answer = http_request('POST', 'https://files.test/upload', body=b'12345')\n\
                print(answer.text.strip())\n\
                print('x-colour: blue' in http_get('https://files.test/echo', \
                headers={'X-Colour': 'blue'}).text.lower())";
    let run = run_with(&["--allow-host", "files.test"], code);
    assert!(run.text().contains('5') && run.stdout.ends_with("True\n"), "{run:?}");
}
