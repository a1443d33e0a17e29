//! A full disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use stockade_policy::Effect;
use stockade_record::{Body, Sink, Tail, Verdict, WriteError, verify};

use crate::support::{egress, recorder, started};

/// Passes the path of the small disk to this executable, which runs again in its own mount
/// namespace.
const DISK: &str = "STOCKADE_SMALL_DISK";

#[test]
fn full_disk_ends_the_record_at_its_last_whole_event_and_is_told() {
    if let Some(disk) = std::env::var_os(DISK) {
        return on_a_small_disk(&PathBuf::from(disk));
    }
    let scratch = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=20k none \"$1\" && exec env {DISK}=\"$1\" \"$2\" --exact \
         full::full_disk_ends_the_record_at_its_last_whole_event_and_is_told"
    );
    let this = std::env::current_exe().unwrap();
    let ran = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .args([scratch.path(), &this])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    if said.contains("unshare failed") {
        return stockade_testing::skipped("namespaces", &said);
    }
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

fn on_a_small_disk(disk: &Path) {
    let recorder = recorder(disk);
    recorder.begin(started(&["ls"])).expect("the small disk is there");
    let mut kept = 1;
    while recorder.egress(egress("example.org", Some(200), Effect::Allow)).is_ok() {
        kept += 1;
        assert!(kept < 100, "a disk of 20 KiB takes no end of events");
    }
    let failure = recorder.failure().expect("the small disk is there");
    let WriteError::Write { source, .. } = &*failure else { panic!("{failure}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert!(failure.remedy().contains("prune"), "{}", failure.remedy());
    // With space again, the record must still show that entries are missing.
    for left in std::fs::read_dir(disk).expect("the small disk is there") {
        let left = left.expect("the small disk is there").path();
        assert!(left.ends_with("records"), "{left:?}");
    }
    assert!(recorder.egress(egress("example.org", Some(200), Effect::Allow)).is_err());
    assert!(recorder.end("exited").is_err());
    let found = std::fs::read_dir(disk.join("records"))
        .expect("the small disk is there")
        .next()
        .expect("the small disk is there")
        .expect("the small disk is there")
        .path();
    let verified = verify(&found).expect("the small disk is there");
    assert_eq!(verified.events, kept);
    assert!(
        matches!(verified.verdict, Verdict::Unfinished { tail: Tail::Clean, .. }),
        "{:?}",
        verified.verdict
    );
}

#[test]
fn record_grows_to_its_limit_and_then_gets_its_end() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path()).with_limit(1 << 20);
    recorder.begin(started(&["ls"])).unwrap();
    let mut kept = 1_u64;
    while recorder.egress(egress("example.org", Some(200), Effect::Allow)).is_ok() {
        kept += 1;
    }
    assert!(kept > 1000, "{kept}");
    let failure = recorder.failure().unwrap();
    assert!(matches!(&*failure, WriteError::Full { .. }), "{failure}");
    assert!(recorder.record(Body::Egress(egress("a", None, Effect::Allow))).is_err());
    recorder.end("error").unwrap();
    let path = recorder.path().unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() <= (1 << 20) + (64 << 10));
    let verified = verify(&path).unwrap();
    assert_eq!(verified.events, kept + 1);
    assert!(verified.verdict.is_complete());
}
