//! Broken policies, each compared with its complete error message.
//!
//! A new file in `tests/broken` needs a snapshot of its message next to it: run the test, read the
//! message as the author of the policy would, and accept it with `INSTA_UPDATE=always`.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the broken policies are files of this test"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stockade_policy::{Policy, PolicyErrors, PolicyText};

#[test]
fn every_broken_policy_gets_the_message_in_its_snapshot() {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("broken");
    settings.set_omit_expression(true);
    settings.bind(|| {
        for (name, errors) in refusals() {
            insta::assert_snapshot!(name, errors.to_string());
        }
    });
}

#[test]
fn every_message_has_a_position_and_a_remedy() {
    for (name, errors) in refusals() {
        let rendered = errors.to_string();
        assert!(!errors.diagnostics().is_empty(), "{name}");
        for found in errors.diagnostics() {
            assert!(found.line >= 1 && found.column >= 1, "{name}: {found:?}");
            assert!(found.marker.contains('^'), "{name}: {found:?}");
            let place = format!("{}:{}:{}: ", found.file, found.line, found.column);
            assert!(rendered.contains(&place), "{name}: {place}");
            for part in [&found.message, &found.remedy] {
                assert!(!part.is_empty() && !part.ends_with('.'), "{name}: {part}");
                assert!(
                    !part.starts_with(char::is_uppercase) || part.starts_with("YAML"),
                    "{name}: {part}"
                );
            }
        }
    }
}

/// The caret of a mistake points into the wrong line, not past its end or to another line.
#[test]
fn every_caret_points_at_a_character() {
    for (name, errors) in refusals() {
        for found in errors.diagnostics() {
            let column = found.marker.find('^').unwrap();
            let under = found.source.chars().nth(column);
            let is_empty_text = found.message == "the policy is empty";
            assert!(is_empty_text || under.is_some_and(|c| c != ' '), "{name}: {found}");
        }
    }
}

#[test]
fn error_for_bytes_that_are_not_utf8_has_their_position() {
    let refused = |bytes: &[u8]| {
        let (name, base) = ("p".to_owned(), PathBuf::from("/srv"));
        Policy::parse(&PolicyText { name, bytes: bytes.to_vec(), base }).unwrap_err().to_string()
    };
    assert_eq!(
        refused(b"name: x\nd\xc3\xa4: \xff\n"),
        "p:2:5: the policy is not UTF-8 text\n  |\n2 | dä: \u{fffd}\n  |     ^\n  = save it as UTF-8"
    );
    let lone = refused(b"name: x\rversion: 2\n");
    assert!(lone.starts_with("p:1:8: a carriage return without a line feed\n"), "{lone}");
    let large = refused(&vec![b'#'; (1 << 20) + 1]);
    assert!(large.starts_with("p:1:1: the policy is larger than 1048576 bytes\n"), "{large}");
}

#[test]
fn every_snapshot_belongs_to_a_policy() {
    let names = |ending: &str| -> Vec<String> {
        let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = files.filter_map(|name| Some(name.to_str()?.strip_suffix(ending)?.to_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    assert_eq!(names(".snap"), names(".yaml"));
    assert!(names(".yaml").len() >= 100);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken")
}

fn refusals() -> BTreeMap<String, PolicyErrors> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = PolicyText {
            name: format!("{name}.yaml"),
            bytes: std::fs::read(&path).unwrap(),
            base: PathBuf::from("/srv/project"),
        };
        let errors = Policy::parse(&text).err().unwrap_or_else(|| panic!("{name} is accepted"));
        found.insert(name, errors);
    }
    found
}

#[test]
fn value_in_place_of_a_source_is_in_no_message_and_no_quoted_line() {
    let mut seen = 0;
    for (name, errors) in refusals() {
        if name.starts_with("secret_value") {
            let whole = format!("{errors} {:?}", errors.diagnostics());
            assert!(!whole.contains("Zq8") && !whole.contains("123456789"), "{name}: {whole}");
            assert!(whole.contains('…'), "{name}: {whole}");
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
}
