use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::store::tests::{keep, noise, sent, store, tree};

/// How many checkpoints one process removes while another collects.
const MANY: usize = 400;

/// Adds checkpoints of the same files, without the cost of making them.
fn add_copies(store: &Store, checkpoint: &Checkpoint) -> Vec<Reference> {
    let directory = store.directory().join("checkpoints/copies");
    fs::create_dir_all(&directory).unwrap();
    let copy = |number: usize| {
        let name = format!("c{number}");
        let copy = Checkpoint { session: "copies".into(), name, ..checkpoint.clone() };
        let text = serde_json::to_vec(&copy).unwrap();
        fs::write(directory.join(&copy.name), text).unwrap();
        copy.reference().unwrap()
    };
    (0..MANY).map(copy).collect()
}

#[test]
fn checkpoint_removed_after_a_collection_listed_it_needs_no_blobs() {
    let (_place, store) = store();
    let gone = keep(&store, "a", &tree(&[("own", &noise(1, 5000))])).unwrap();
    let kept = keep(&store, "b", &tree(&[("own", &noise(2, 5000))])).unwrap();
    let listed = store.references().unwrap();
    assert_eq!(listed.len(), 2);
    store.remove(&gone.reference().unwrap()).unwrap();
    let live = store.live(&listed).unwrap();
    assert_eq!(live, store.live(&[kept.reference().unwrap()]).unwrap());
    assert!(!live.is_empty());
}

/// Repeats `during` in a thread of its own until `act` has ended, however it ends.
fn while_another(during: impl Fn() + Sync, act: impl FnOnce()) {
    struct Done<'d>(&'d AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = Done(&is_done);
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                during();
            }
        });
        act();
    });
}

#[test]
fn collections_listings_and_checks_succeed_while_checkpoints_are_removed() {
    let (_place, store) = store();
    let kept = keep(&store, "kept", &tree(&[("x", &noise(1, 5000))])).unwrap();
    let before = sent(&store, &kept).unwrap();
    let copies = add_copies(&store, &kept);
    let read = || {
        assert_eq!(store.collect().unwrap(), Collected::default());
        assert_eq!(store.verify().unwrap().problems, Vec::<String>::new());
        assert!(!store.checkpoints(None).unwrap().is_empty());
    };
    while_another(read, || copies.iter().for_each(|copy| store.remove(copy).unwrap()));
    assert!(sent(&store, &kept).unwrap() == before);
    assert_eq!(store.checkpoints(None).unwrap(), [kept]);
}

#[test]
fn checkpoint_is_made_while_the_empty_directory_of_its_session_is_removed() {
    let (_place, store) = store();
    let kept = keep(&store, "kept", &tree(&[("x", b"content")])).unwrap();
    let directory = store.directory().join("checkpoints/one");
    // What removing the last checkpoint of the session does.
    let remove = || {
        _ = fs::remove_dir(&directory);
        // No process removes checkpoints without a pause.
        std::thread::sleep(std::time::Duration::from_micros(100));
    };
    while_another(remove, || {
        for round in 0..200 {
            let name = format!("c{round}");
            let copy = Checkpoint { session: "one".into(), name, ..kept.clone() };
            store.publish(&copy).unwrap();
            store.remove(&copy.reference().unwrap()).unwrap();
        }
    });
    assert_eq!(store.checkpoints(None).unwrap(), [kept]);
}

#[test]
fn removed_and_collected_checkpoint_is_missing_and_the_store_is_not_damaged() {
    let (_place, store) = store();
    let read = keep(&store, "a", &tree(&[("x", &noise(1, 5000))])).unwrap();
    store.remove(&read.reference().unwrap()).unwrap();
    store.collect().unwrap();
    let opened = store.contents(&read).map(|_| ());
    assert!(matches!(opened, Err(StoreError::Missing { .. })), "{opened:?}");
}

#[test]
fn collection_waits_for_a_note_of_what_was_applied() {
    let (place, store) = store();
    let kept = keep(&store, "a", &tree(&[("x", b"content")])).unwrap();
    let mut applied = BTreeMap::new();
    while_another(
        || _ = store.collect().unwrap(),
        || {
            for round in 0..200_u32 {
                applied.insert(round.to_string(), Hash::of(&round.to_le_bytes()));
                store.keep_applied(&kept, place.path(), &applied).unwrap();
            }
        },
    );
    assert_eq!(store.applied(&kept, place.path()).unwrap(), applied);
}
