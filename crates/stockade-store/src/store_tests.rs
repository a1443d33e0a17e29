use std::os::unix::fs::{FileExt, PermissionsExt};

use stockade_archive::tree::{FileHead, Metadata, Record, end_content, write_extent};

use super::*;
use crate::{Limits, StoredPlace};

pub(crate) fn store() -> (tempfile::TempDir, Store) {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&place.path().join("store")).unwrap();
    (place, store)
}

/// Bytes that cannot be compressed, different for each number.
pub(crate) fn noise(number: u64, length: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    let mut bytes = vec![0; length];
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// A tree with these files.
pub(crate) fn tree(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Record::Place { number: 0, changes: false, metadata: Metadata::default() }.encode(&mut bytes);
    for (name, content) in files {
        let size = content.len() as u64;
        let head = FileHead { name: name.as_bytes().to_vec(), size, ..FileHead::default() };
        Record::File(head).encode(&mut bytes);
        for (at, part) in content.chunks(100_000).enumerate() {
            write_extent(at as u64 * 100_000, part, &mut bytes).unwrap();
        }
        end_content(&mut bytes).unwrap();
    }
    Record::End.encode(&mut bytes);
    bytes
}

pub(crate) fn keep(store: &Store, name: &str, tree: &[u8]) -> Result<Checkpoint, StoreError> {
    let mut builder = store.build()?;
    let summary = builder.add(&mut &*tree, Limits::MOST)?;
    builder.publish(Checkpoint {
        version: Checkpoint::VERSION,
        session: "s".into(),
        name: name.into(),
        created_ms: 0,
        started_ms: 0,
        provider: "native".into(),
        policy: String::new(),
        places: vec![StoredPlace { path: "/workspace".into(), base: None }],
        shared: vec![],
        entries: summary.entries,
        bytes: summary.bytes,
        stored_bytes: 0,
        left_out: 0,
        paused_us: 0,
        tree: summary.tree,
        imported: false,
        ancestors: vec![],
        origin: serde_json::Value::Null,
    })
}

/// The tree that a sandbox would receive.
pub(crate) fn sent(store: &Store, checkpoint: &Checkpoint) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    store.contents(checkpoint)?.send(&[0], &mut bytes)?;
    Ok(bytes)
}

#[test]
fn same_content_is_stored_once_and_comes_back_as_it_was() {
    let (_place, store) = store();
    let (one, other) = (noise(1, 2_500_000), noise(2, 700_000));
    let first = keep(&store, "a", &tree(&[("x", &one), ("y", &one)])).unwrap();
    assert!((2_500_000..2_600_000).contains(&first.stored_bytes), "{}", first.stored_bytes);
    let second = keep(&store, "b", &tree(&[("x", &one), ("z", &other)])).unwrap();
    assert!(second.stored_bytes < 800_000, "{}", second.stored_bytes);
    let again = keep(&store, "c", &tree(&[("x", &one), ("z", &other)])).unwrap();
    assert_eq!(again.stored_bytes, 0);
    let files = [("x", one.as_slice()), ("z", &other)];
    let back = sent(&store, &second).unwrap();
    // Extents may be cut elsewhere; the store itself cuts them alike.
    let kept = keep(&store, "d", &back).unwrap();
    assert_eq!(kept.tree, second.tree, "{} bytes", tree(&files).len());
    assert_eq!(store.verify().unwrap().problems, Vec::<String>::new());
}

#[test]
fn collection_frees_what_no_checkpoint_has_and_keeps_the_rest() {
    let (_place, store) = store();
    let (shared, own) = (noise(1, 300_000), noise(2, 3_000_000));
    keep(&store, "a", &tree(&[("own", &own), ("shared", &shared)])).unwrap();
    let kept = keep(&store, "b", &tree(&[("shared", &shared)])).unwrap();
    let before = sent(&store, &kept).unwrap();
    store.remove(&"s/a".parse().unwrap()).unwrap();
    std::fs::write(store.directory().join("new/left"), "by a crash").unwrap();
    let collected = store.collect().unwrap();
    assert!(collected.bytes > 2_900_000 && collected.unfinished == 1, "{collected:?}");
    assert!(sent(&store, &kept).unwrap() == before);
    assert!(store.usage().unwrap().bytes < 400_000);
    assert_eq!(store.verify().unwrap().problems, Vec::<String>::new());
    store.remove(&"s/b".parse().unwrap()).unwrap();
    store.collect().unwrap();
    assert_eq!((store.usage().unwrap().bytes, store.usage().unwrap().blobs), (0, 0));
}

#[test]
fn every_damaged_byte_of_a_pack_is_found() {
    let (_place, store) = store();
    let checkpoint = keep(&store, "a", &tree(&[("x", &noise(1, 5000)), ("y", b"short")])).unwrap();
    let pack = store.packs().unwrap().pop().unwrap();
    let length = std::fs::metadata(&pack).unwrap().len();
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(&pack).unwrap();
    for at in (16..length).step_by(97).chain([length - 1]) {
        let mut byte = [0];
        opened.read_exact_at(&mut byte, at).unwrap();
        opened.write_all_at(&[byte[0] ^ 1], at).unwrap();
        assert_ne!(store.verify().unwrap().problems, Vec::<String>::new(), "byte {at} of {length}");
        opened.write_all_at(&byte, at).unwrap();
    }
    assert_eq!(store.verify().unwrap().problems, Vec::<String>::new());
    std::fs::remove_file(&pack).unwrap();
    assert!(sent(&store, &checkpoint).is_err());
    assert_eq!(store.verify().unwrap().problems.len(), 1);
}

#[test]
fn quota_bounds_the_store_and_a_refused_checkpoint_leaves_nothing() {
    let (_place, store) = store();
    let store = store.with_quota(1 << 20);
    keep(&store, "a", &tree(&[("x", &noise(1, 600_000))])).unwrap();
    let refused = keep(&store, "b", &tree(&[("y", &noise(2, 600_000))]));
    assert!(matches!(refused, Err(StoreError::Full { quota: 0x10_0000 })), "{refused:?}");
    assert_eq!(store.checkpoints(None).unwrap().len(), 1);
    assert_eq!(std::fs::read_dir(store.directory().join("new")).unwrap().count(), 0);
    let many = Limits { entries: 1, ..Limits::MOST };
    let mut builder = store.build().unwrap();
    let two = tree(&[("a", b""), ("b", b"")]);
    let refused = builder.add(&mut two.as_slice(), many);
    assert!(matches!(refused, Err(StoreError::TooManyEntries { most: 1 })), "{refused:?}");
    // A stream of zeros costs nothing to store, and is bounded all the same.
    let mut builder = store.build().unwrap();
    let zeros = tree(&[("zeros", &[0; 900_000])]);
    let few = Limits { bytes: 500_000, ..Limits::MOST };
    let refused = builder.add(&mut zeros.as_slice(), few);
    assert!(matches!(refused, Err(StoreError::TooManyBytes)), "{refused:?}");
}

#[test]
fn several_threads_use_one_store() {
    let (_place, store) = store();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..6 {
                    let content = noise(thread * 100 + round, 60_000);
                    let name = format!("c{thread}-{round}");
                    let kept = keep(store, &name, &tree(&[("x", &content)])).unwrap();
                    assert!(sent(store, &kept).is_ok());
                    if round % 2 == 0 {
                        store.remove(&kept.reference().unwrap()).unwrap();
                        store.collect().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(store.checkpoints(Some("s")).unwrap().len(), 12);
    assert_eq!(store.verify().unwrap().problems, Vec::<String>::new());
}

#[test]
fn store_that_another_user_could_change_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("store");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(Store::open(&directory), Err(StoreError::Unsafe { .. })));
    let link = place.path().join("link");
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    assert!(matches!(Store::open(&link), Err(StoreError::Unsafe { .. })));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]
    #[test]
    fn any_bytes_are_a_tree_or_refused(bytes in proptest::collection::vec(0_u8..12, 0..300)) {
        let (_place, store) = store();
        let _ = keep(&store, "a", &bytes);
        proptest::prop_assert_eq!(store.verify().unwrap().problems, Vec::<String>::new());
    }
}
