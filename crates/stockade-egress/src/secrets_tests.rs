use std::path::Path;

use super::*;
use crate::dial::Target;
use crate::http::Fields;

const VALUE: &str = "sk-4f9A7c2E8b1D6a3F5c9E";

/// Secrets whose values come from a file.
fn secrets(place: &str) -> Secrets {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), format!("{VALUE}\n")).unwrap();
    let text = format!(
        "{{secrets: [{{name: API_KEY, from: 'file:key', hosts: [api.example.org]{place}}}]}}"
    );
    Secrets::load(&Policy::parse_str("p", &text, folder.path()).unwrap()).unwrap()
}

fn fields(all: &[(&str, &str)]) -> Fields {
    let headers: Vec<_> = all
        .iter()
        .map(|(name, value)| httparse::Header { name, value: value.as_bytes() })
        .collect();
    Fields::read(&headers)
}

/// The fields and the path that are sent, or what the denial says.
fn placed(
    secrets: &Secrets,
    host: &str,
    all: &[(&str, &str)],
    path: &str,
) -> Result<String, String> {
    let target = Target { host: Host::parse(host).unwrap(), port: 443 };
    match place_all(secrets, &target, &fields(all), path, true) {
        Ok(placed) => {
            let mut written = format!("{} {}\n", placed.sent.join(","), placed.path).into_bytes();
            placed.fields.write(&mut written);
            Ok(String::from_utf8(written).unwrap())
        }
        Err(alarm) => Err(alarm.denial.why),
    }
}

#[test]
fn placeholder_is_replaced_in_its_header_and_nowhere_else() {
    let secrets = secrets(", header: Authorization, format: 'Bearer {}'");
    let held = secrets.placeholders().remove(0).1;
    let bearer = format!("Bearer {held}");
    let sent = placed(&secrets, "api.example.org", &[("authorization", &bearer)], "/a").unwrap();
    assert_eq!(sent, format!("API_KEY /a\nauthorization: Bearer {VALUE}\r\n"));
    let twice = format!("Bearer {held}{held}");
    let query = format!("/a?key={held}");
    let escaped: String = held.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for (host, all, path) in [
        ("other.example.org", ("authorization", bearer.as_str()), "/"),
        ("api.example.org", ("x-other", bearer.as_str()), "/"),
        ("api.example.org", ("authorization", held.as_str()), "/"),
        ("api.example.org", ("authorization", twice.as_str()), "/"),
        ("api.example.org", ("cookie", held.as_str()), "/"),
        ("api.example.org", (held.as_str(), "x"), "/"),
        ("api.example.org", ("accept", "*/*"), query.as_str()),
        ("api.example.org", ("accept", "*/*"), &format!("/{escaped}")),
    ] {
        let why = placed(&secrets, host, &[all], path).unwrap_err();
        assert!(why.starts_with("the placeholder of the secret API_KEY was in "), "{why}");
    }
}

#[test]
fn placeholder_in_the_name_of_a_host_is_found_in_any_case() {
    let secrets = secrets("");
    let held = secrets.placeholders().remove(0).1;
    assert_ne!(held, held.to_lowercase());
    for text in [held.clone(), held.to_lowercase(), held.to_uppercase()] {
        let host = format!("{text}.example.org");
        let (name, denial) = secrets.in_host_name(&host, &host).unwrap();
        assert_eq!((name, &*denial.control), ("API_KEY", "secrets"));
        assert!(denial.why.ends_with("was in the name of the host"), "{}", denial.why);
    }
    assert!(secrets.in_host_name("a.example.org", "").is_none());
    // A request to such a host is not written either.
    let host = format!("{}.example.org", held.to_lowercase());
    assert!(placed(&secrets, &host, &[], "/").unwrap_err().contains("the name of the host"));
    assert!(placed(&secrets, "a.example.org", &[], "/").is_ok());
}

#[test]
fn h32_credential_of_the_program_is_dropped_where_a_secret_belongs() {
    let own = ("Authorization", "Bearer of-the-program");
    for place in [", header: Authorization, format: 'Bearer {}'", ", basic: true"] {
        let secrets = secrets(place);
        for name in ["Authorization", "authorization"] {
            let sent = placed(&secrets, "api.example.org", &[(name, own.1), ("a", "b")], "/");
            assert_eq!(sent.unwrap(), " /\na: b\r\n", "{place}");
        }
        // Where no secret belongs it passes.
        let elsewhere = placed(&secrets, "other.example.org", &[own], "/").unwrap();
        assert_eq!(elsewhere, " /\nAuthorization: Bearer of-the-program\r\n");
    }
    let of_key = secrets(", header: X-Api-Key");
    let held = of_key.placeholders().remove(0).1;
    let all = [("X-Api-Key", held.as_str()), ("x_api_key", "own"), ("X-API-KEY", "own"), own];
    let sent = placed(&of_key, "api.example.org", &all, "/").unwrap();
    let expected = format!("API_KEY /\nX-Api-Key: {VALUE}\r\n{}: {}\r\n", own.0, own.1);
    assert_eq!(sent, expected);
    // Plain HTTP to the host carries neither.
    let target = Target { host: Host::parse("api.example.org").unwrap(), port: 80 };
    let held = place_all(&of_key, &target, &fields(&[("X-Api-Key", "own")]), "/", false).unwrap();
    assert_eq!((held.fields.0.len(), held.dropped), (0, vec!["API_KEY".to_owned()]));
}

#[test]
fn basic_authentication_and_queries_carry_a_secret_too() {
    use base64::Engine;
    let encode = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
    let secrets_of_basic = secrets(", basic: true");
    let held = secrets_of_basic.placeholders().remove(0).1;
    for (user, password, real) in
        [("git", held.as_str(), format!("git:{VALUE}")), (held.as_str(), "", format!("{VALUE}:"))]
    {
        let value = format!("Basic {}", encode(format!("{user}:{password}")));
        let all = [("Authorization", value.as_str())];
        let sent = placed(&secrets_of_basic, "api.example.org", &all, "/").unwrap();
        assert_eq!(sent, format!("API_KEY /\nAuthorization: Basic {}\r\n", encode(real)));
        placed(&secrets_of_basic, "other.example.org", &all, "/").unwrap_err();
    }
    let partly = format!("Basic {}", encode(format!("a:x{held}")));
    placed(&secrets_of_basic, "api.example.org", &[("Authorization", &partly)], "/").unwrap_err();
    let in_query = secrets(", query: key");
    let held = in_query.placeholders().remove(0).1;
    let path = format!("/maps?q=1&key={held}&z=2");
    let sent = placed(&in_query, "api.example.org", &[], &path).unwrap();
    assert_eq!(sent, format!("API_KEY /maps?q=1&key={VALUE}&z=2\n"));
    for path in [format!("/maps?other={held}"), format!("/{held}?key={held}")] {
        placed(&in_query, "api.example.org", &[], &path).unwrap_err();
    }
}

#[test]
fn without_verified_tls_no_value_is_sent() {
    let secrets = secrets("");
    let held = secrets.placeholders().remove(0).1;
    let target = Target { host: Host::parse("api.example.org").unwrap(), port: 80 };
    let all = fields(&[("Authorization", &held)]);
    assert!(place_all(&secrets, &target, &all, "/", false).is_err());
    assert!(place_all(&secrets, &target, &all, "/", true).is_ok());
}

#[test]
fn every_form_of_a_value_is_redacted_in_any_segmentation_and_keeps_its_length() {
    use base64::Engine;
    let secrets = secrets("");
    let host = Host::parse("api.example.org").unwrap();
    let encode = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
    for text in [
        format!("key={VALUE};"),
        format!("{{\"authorization\": \"Bearer {VALUE}\"}}"),
        VALUE.bytes().map(|byte| format!("{byte:02x}")).collect(),
        format!("{VALUE}{VALUE}"),
    ] {
        for size in [1, 2, 7, 1000] {
            let mut redactor = secrets.redactor(&host);
            let mut seen = Vec::new();
            for part in text.as_bytes().chunks(size) {
                seen.extend(redactor.pass(part).unwrap());
            }
            seen.extend(redactor.finish());
            assert_eq!(seen.len(), text.len());
            let seen = String::from_utf8(seen).unwrap();
            assert!(!seen.contains(VALUE) && seen.contains("****"), "{seen}");
            assert_eq!(redactor.echoed().collect::<Vec<_>>(), [0]);
        }
    }
    for before in ["", "a", "ab", "user:"] {
        let text = encode(format!("{before}{VALUE}and more"));
        let mut redactor = secrets.redactor(&host);
        let mut whole = text.clone().into_bytes();
        redactor.whole(&mut whole).unwrap();
        let seen = String::from_utf8(whole).unwrap();
        assert!(seen.matches('*').count() >= VALUE.len(), "{before}: {text} {seen}");
    }
    let mut other = secrets.redactor(&Host::parse("other.example.org").unwrap());
    assert!(other.is_off());
    assert_eq!(other.pass(VALUE.as_bytes()).unwrap(), VALUE.as_bytes());
}

#[test]
fn placeholder_in_a_body_is_found_across_pieces() {
    let secrets = secrets("");
    let held = secrets.placeholders().remove(0).1;
    let text = format!("{{\"copy\": \"{held}\"}}");
    for size in [1, 3, 1000] {
        let mut detector = secrets.detector();
        let mut passed = Vec::new();
        let found = text.as_bytes().chunks(size).find_map(|part| match detector.pass(part) {
            Ok(bytes) => {
                passed.extend(bytes);
                None
            }
            Err(misplaced) => Some(misplaced),
        });
        assert_eq!(found, Some(Misplaced(0)));
        let passed = String::from_utf8(passed).unwrap();
        assert!(!passed.contains(&held[..8]), "no part of it has passed: {passed}");
    }
}

#[test]
fn replaced_value_is_sent_from_then_on_and_the_old_one_is_still_redacted() {
    let secrets = secrets("");
    let held = secrets.placeholders().remove(0).1;
    let new = "sk-another-value-0123456789";
    secrets.set("API_KEY", new.to_owned()).unwrap();
    assert_eq!(secrets.placeholders()[0].1, held, "the placeholder stays");
    let sent = placed(&secrets, "api.example.org", &[("Authorization", &held)], "/").unwrap();
    assert!(sent.contains(new) && !sent.contains(VALUE));
    let mut redactor = secrets.redactor(&Host::parse("api.example.org").unwrap());
    let mut echo = format!("{VALUE} {new}").into_bytes();
    redactor.whole(&mut echo).unwrap();
    assert_eq!(String::from_utf8(echo).unwrap(), format!("{} {}", "*".repeat(23), "*".repeat(27)));
    let error = secrets.set("OTHER", new.to_owned()).unwrap_err().to_string();
    assert!(error.contains("defines: API_KEY"), "{error}");
    for bad in ["zyxw", "with\nline", "naïve-naïve"] {
        let error = secrets.set("API_KEY", bad.to_owned()).unwrap_err().to_string();
        assert!(!error.contains(bad), "{error}");
    }
}

#[test]
fn sources_are_a_variable_a_file_and_a_program_and_errors_show_no_value() {
    let text = |from: &str| format!("{{secrets: [{{name: K, from: '{from}', hosts: [a.org]}}]}}");
    let load = |from: &str| {
        Secrets::load(&Policy::parse_str("p", &text(from), Path::new("/nowhere")).unwrap())
    };
    let of_program = load("command:/bin/echo a-value-of-a-program").unwrap();
    assert_eq!(of_program.value(0).unwrap().as_str(), "a-value-of-a-program");
    let program = "command:/bin/echo $HOME; echo x";
    let literal = load(program).unwrap();
    assert_eq!(literal.value(0).unwrap().as_str(), "$HOME; echo x", "no shell reads it");
    for (from, part) in [
        ("env:STOCKADE_TEST_NOT_SET", "the variable STOCKADE_TEST_NOT_SET: it is not set"),
        ("file:missing", "the file /nowhere/missing"),
        ("command:/bin/false", "the program /bin/false: it failed with exit status: 1"),
        ("command:/bin/echo short", "shorter than 8"),
    ] {
        let error = load(from).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn debug_output_has_names_only() {
    let secrets = secrets("");
    assert_eq!(format!("{secrets:?}"), "[\"API_KEY\"]");
}
