//! Detects changes in a real record.

use crate::support::{Records, walls_can_be_built};

#[test]
fn run_writes_a_valid_record_and_its_result_has_the_path() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let run = records.stockade(&["run", "--json", "--", "sh", "-c", "echo hi; exit 3"]);
    assert_eq!(run.code, 3, "{run:?}");
    let [file] = records.files().try_into().unwrap();
    let report = run.json();
    assert_eq!(report["record"], file.to_str().unwrap());
    let verified = records.audit(&["verify", "--json"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let told = verified.json();
    assert_eq!(told["session"], report["session"]);
    assert_eq!((&told["complete"], &told["events"]), (&true.into(), &5.into()));
    let shown = records.audit(&["show", "--json"]).json();
    let kinds: Vec<&str> =
        shown.as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["session_started", "verdict", "execution_started", "execution_ended", "session_ended"]
    );
    assert_eq!(shown[3]["body"]["exit_code"], 3);
    assert_eq!(shown[3]["body"]["stdout"]["kept_bytes"], 3);
}

#[test]
fn every_changed_byte_of_a_record_is_detected() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    assert_eq!(records.stockade(&["run", "--", "true"]).code, 0);
    let [file] = records.files().try_into().unwrap();
    let original = std::fs::read(&file).unwrap();
    for at in 0..original.len() {
        let mut bytes = original.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&file, &bytes).unwrap();
        let found = stockade_record::verify(&file).unwrap();
        assert!(!found.verdict.holds(), "byte {at}: {:?}", found.verdict);
    }
    // The command gives the same verdict for some of them, including the last byte.
    for at in [0, 1, original.len() / 2, original.len() - 2, original.len() - 1] {
        let mut bytes = original.clone();
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let run = records.audit(&["verify"]);
        assert_eq!(run.code, 1, "byte {at}: {run:?}");
        assert!(run.stdout.contains("BROKEN"), "{run:?}");
    }
    for length in [0, original.len() / 2, original.len() - 1] {
        std::fs::write(&file, &original[..length]).unwrap();
        assert_eq!(records.audit(&["verify"]).code, 1, "cut to {length}");
    }
    std::fs::write(&file, &original).unwrap();
    assert_eq!(records.audit(&["verify", "--all"]).code, 0);
}

#[test]
fn chain_can_be_verified_with_shell_tools() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    assert_eq!(records.stockade(&["run", "--", "true"]).code, 0);
    let [file] = records.files().try_into().unwrap();
    // The commands of docs/audit.md.
    let script = r#"
before=$(printf '0%.0s' $(seq 64))
while IFS= read -r line; do
    content=${line%,\"hash\":*}
    said=$(printf '%s' "$line" | sed 's/.*,"hash":"\([0-9a-f]*\)"}$/\1/')
    hash=$(printf '%s' "$content" | sha256sum | cut -d' ' -f1)
    case $content in *"\"previous\":\"$before\"") ;; *) echo "chain broken"; exit 1 ;; esac
    [ "$hash" = "$said" ] || { echo "changed"; exit 1; }
    before=$hash
done < "$1"
echo "holds""#;
    let run = |file: &std::path::Path| {
        let output =
            std::process::Command::new("bash").args(["-c", script, "bash"]).arg(file).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!(run(&file), "holds\n");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("\"exited\"", "\"exited!\"", 1)).unwrap();
    assert_eq!(run(&file), "changed\n");
}
