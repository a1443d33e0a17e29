use std::fs::{self, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{
    CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, mknodat, setxattr, utimensat,
};
use stockade_archive::tree::{CapturedPlace, capture, digest, fill_tree};

use super::*;
use crate::store::tests::{keep, noise, store};
use crate::{Checkpoint, Hash, Store};

fn open(directory: &Path) -> OwnedFd {
    File::open(directory).unwrap().into()
}

fn places(directory: &Path) -> [CapturedPlace; 1] {
    [CapturedPlace { number: 0, directory: open(directory), overlay: None, skip: vec![] }]
}

fn captured(directory: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    capture(&places(directory), &mut bytes).unwrap();
    bytes
}

fn digested(directory: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    digest(&places(directory), &mut bytes, |bytes| Hash::of(bytes).0).unwrap();
    bytes
}

/// What brings a directory back to a checkpoint, and how long it is when it is sent.
fn delta(store: &Store, checkpoint: &Checkpoint, directory: &Path) -> Option<(Delta, usize)> {
    let contents = store.contents(checkpoint).unwrap();
    let delta = contents.delta(&[0], &mut digested(directory).as_slice()).unwrap()?;
    contents.check_delta(&delta).unwrap();
    let mut sent = Vec::new();
    contents.send_delta(&delta, &mut sent).unwrap();
    let length = sent.len();
    fill_tree(&[open(directory)], &mut sent.as_slice()).unwrap();
    Some((delta, length))
}

fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 5 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Entries of every kind.
fn entries(root: &Path) {
    fs::create_dir_all(root.join("a/deep/er")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for (name, length) in [("a/one", 10), ("a/deep/two", 70_000), ("a/deep/er/x", 1), ("z", 0)] {
        fs::write(root.join(name), noise(length, length as usize)).unwrap();
    }
    fs::write(root.join("large"), noise(9, 2_500_000)).unwrap();
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 40_000_000).unwrap();
    fs::write(root.join("first"), "shared").unwrap();
    fs::hard_link(root.join("first"), root.join("a/second")).unwrap();
    symlink("a/one", root.join("link")).unwrap();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::set_permissions(root.join("a/one"), Permissions::from_mode(0o640)).unwrap();
    setxattr(root.join("z"), "user.note", b"kept", XattrFlags::empty()).unwrap();
    fs::create_dir(root.join("closed")).unwrap();
    fs::write(root.join("closed/inner"), "inner").unwrap();
    fs::set_permissions(root.join("closed"), Permissions::from_mode(0o500)).unwrap();
    set_time(&root.join("a/one"), 1000);
}

#[test]
fn delta_of_one_changed_file_among_many_has_only_that_file() {
    let (place, store) = store();
    let root = place.path().join("root");
    fs::create_dir(&root).unwrap();
    for number in 0..1000 {
        let folder = root.join(format!("d{}", number % 10));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("f{number}")), noise(number, 5000)).unwrap();
    }
    let tree = captured(&root);
    assert!(tree.len() > 5_000_000);
    let checkpoint = keep(&store, "a", &tree).unwrap();
    let (unchanged, _) = delta(&store, &checkpoint, &root).unwrap();
    assert!(unchanged.is_empty(), "{} entries", unchanged.entries());
    fs::write(root.join("d3/f13"), noise(7777, 5000)).unwrap();
    let (changed, length) = delta(&store, &checkpoint, &root).unwrap();
    // The file, and the directory above it.
    assert_eq!((changed.entries(), changed.bytes()), (2, 5000));
    assert!(length < 5500, "{length}");
    assert!(captured(&root) == tree);
}

type Edit = (&'static str, fn(&Path));

/// Every kind of difference.
const EDITS: [Edit; 20] = [
    ("content of the same length and time", |root| {
        fs::write(root.join("a/one"), [7; 10]).unwrap();
        set_time(&root.join("a/one"), 1000);
    }),
    ("a byte in the second chunk", |root| {
        let large = File::options().write(true).open(root.join("large")).unwrap();
        large.write_all_at(b"!", 1_500_000).unwrap();
    }),
    ("a shorter file", |root| {
        File::options().write(true).open(root.join("large")).unwrap().set_len(5).unwrap()
    }),
    ("data in a hole", |root| {
        let sparse = File::options().write(true).open(root.join("sparse")).unwrap();
        sparse.write_all_at(b"data", 9_000_000).unwrap();
    }),
    ("a removed file", |root| fs::remove_file(root.join("a/deep/two")).unwrap()),
    ("a removed tree", |root| fs::remove_dir_all(root.join("a")).unwrap()),
    ("a removed empty directory", |root| fs::remove_dir(root.join("empty")).unwrap()),
    ("a new file", |root| fs::write(root.join("a/new"), "new").unwrap()),
    ("a new tree", |root| {
        fs::create_dir_all(root.join("empty/b/c")).unwrap();
        fs::write(root.join("empty/b/c/d"), "new").unwrap();
    }),
    ("a renamed file", |root| fs::rename(root.join("large"), root.join("a/large")).unwrap()),
    ("a renamed directory", |root| fs::rename(root.join("a/deep"), root.join("deep")).unwrap()),
    ("another mode", |root| {
        fs::set_permissions(root.join("a/one"), Permissions::from_mode(0o777)).unwrap()
    }),
    ("another mode of a directory", |root| {
        fs::set_permissions(root.join("a/deep"), Permissions::from_mode(0o700)).unwrap()
    }),
    ("another time", |root| set_time(&root.join("z"), 99)),
    ("another target", |root| {
        fs::remove_file(root.join("link")).unwrap();
        symlink("elsewhere", root.join("link")).unwrap();
    }),
    ("a file in place of a directory", |root| {
        fs::remove_dir_all(root.join("a/deep")).unwrap();
        fs::write(root.join("a/deep"), "file").unwrap();
    }),
    ("a directory in place of a file, and a link in place of a FIFO", |root| {
        fs::remove_file(root.join("large")).unwrap();
        fs::create_dir_all(root.join("large/inner")).unwrap();
        fs::remove_file(root.join("fifo")).unwrap();
        symlink("/", root.join("fifo")).unwrap();
    }),
    ("content behind two names, and a name that has its own content", |root| {
        fs::write(root.join("a/second"), "changed").unwrap();
        fs::hard_link(root.join("first"), root.join("third")).unwrap();
        fs::hard_link(root.join("z"), root.join("zz")).unwrap();
    }),
    ("a copy in place of a second name", |root| {
        fs::remove_file(root.join("a/second")).unwrap();
        fs::write(root.join("a/second"), "shared").unwrap();
    }),
    ("an attribute, and a closed directory", |root| {
        setxattr(root.join("z"), "user.note", b"other", XattrFlags::empty()).unwrap();
        setxattr(root.join("large"), "user.more", b"more", XattrFlags::empty()).unwrap();
        fs::set_permissions(root.join("closed"), Permissions::from_mode(0o700)).unwrap();
        fs::write(root.join("closed/inner"), "other").unwrap();
        fs::set_permissions(root.join("closed"), Permissions::from_mode(0o000)).unwrap();
    }),
];

/// The stack that tokio gives its blocking threads.
const STACK_BYTES: usize = 2 << 20;

#[test]
fn deep_trees_are_compared_on_a_small_stack_and_deeper_ones_need_a_fresh_sandbox() {
    for (depth, is_compared) in [(MAX_COMPARED_DEPTH, true), (MAX_COMPARED_DEPTH + 1, false)] {
        let (_place, store) = store();
        let deep = |content: &str| {
            let root = tempfile::tempdir().unwrap();
            let mut path = root.path().to_owned();
            (0..depth).for_each(|_| path.push("d"));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("leaf"), content).unwrap();
            root
        };
        let (old, new) = (deep("old"), deep("new"));
        let kept = keep(&store, "deep", &captured(old.path())).unwrap();
        let digest = digested(new.path());
        let compared = move || {
            let contents = store.contents(&kept).unwrap();
            contents.delta(&[0], &mut digest.as_slice()).unwrap().map(|delta| delta.entries())
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(compared).unwrap();
        assert_eq!(thread.join().unwrap(), is_compared.then_some(depth + 1), "{depth}");
    }
}

#[test]
fn every_kind_of_difference_is_undone_by_a_delta() {
    let (place, store) = store();
    let root = place.path().join("root");
    fs::create_dir(&root).unwrap();
    entries(&root);
    let tree = captured(&root);
    let checkpoint = keep(&store, "a", &tree).unwrap();
    for (name, edit) in EDITS {
        edit(&root);
        assert!(captured(&root) != tree, "{name}: the comparison sees it");
        let (delta, _) = delta(&store, &checkpoint, &root).unwrap();
        assert!(!delta.is_empty(), "{name}");
        assert!(captured(&root) == tree, "{name}");
    }
    // All differences at once: of each entry that several edits need, the first has it.
    for number in [0, 2, 3, 7, 8, 13, 14, 17, 19] {
        EDITS[number].1(&root);
    }
    delta(&store, &checkpoint, &root).unwrap();
    assert!(captured(&root) == tree);
    fs::set_permissions(root.join("closed"), Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn directory_with_other_attributes_needs_a_fresh_sandbox() {
    let (place, store) = store();
    let root = place.path().join("root");
    fs::create_dir_all(root.join("noted")).unwrap();
    let checkpoint = keep(&store, "a", &captured(&root)).unwrap();
    setxattr(root.join("noted"), "user.note", b"new", XattrFlags::empty()).unwrap();
    assert!(delta(&store, &checkpoint, &root).is_none());
}

/// A tree of changes over a directory of the host.
fn overlay(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Record::Place { number: 0, changes: true, metadata: Metadata::default() }.encode(&mut bytes);
    for record in records {
        record.encode(&mut bytes);
        // Empty content and no hash are the same bytes.
        if let Record::File(_) = record {
            bytes.extend([0; 4]);
        }
    }
    Record::End.encode(&mut bytes);
    bytes
}

#[test]
fn change_of_a_host_directory_that_cannot_be_undone_needs_a_fresh_sandbox() {
    let (_place, store) = store();
    let file = |name: &str| {
        Record::File(FileHead { name: name.as_bytes().to_vec(), ..FileHead::default() })
    };
    let deleted = |name: &str| Record::Deleted { name: name.as_bytes().to_vec() };
    let enter = |name: &str, replaces| {
        let metadata = Metadata::default();
        Record::Enter { name: name.as_bytes().to_vec(), metadata, replaces }
    };
    let kept = [enter("d", false), Record::Leave, file("f"), deleted("g")];
    let checkpoint = keep(&store, "a", &overlay(&kept)).unwrap();
    let contents = store.contents(&checkpoint).unwrap();
    let delta = |records: &[Record]| {
        let found = contents.delta(&[0], &mut overlay(records).as_slice()).unwrap();
        found.map(|delta| delta.records.into_iter().map(|(record, _)| record).collect::<Vec<_>>())
    };
    assert_eq!(delta(&kept), Some(vec![Record::End]));
    // What is missing is made again.
    let place = Record::Place { number: 0, changes: true, metadata: Metadata::default() };
    let made = vec![place, file("f"), deleted("g"), Record::End];
    assert_eq!(delta(&[enter("d", false), Record::Leave]), Some(made));
    // A deletion, and anything more, may hide an entry of the host.
    for more in [deleted("h"), file("h")] {
        assert_eq!(delta(&[&kept[..], &[more]].concat()), None);
    }
    let replaced = [enter("d", true), Record::Leave, file("f"), deleted("g")];
    assert_eq!(delta(&replaced), None);
    assert_eq!(delta(&[deleted("d"), file("f"), deleted("g")]), None);
    assert_eq!(delta(&[file("d"), file("f"), deleted("g")]), None);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]
    #[test]
    fn any_bytes_are_a_digest_or_refused(bytes in proptest::collection::vec(0_u8..12, 0..300)) {
        let (_place, store) = store();
        let kept = keep(&store, "a", &crate::store::tests::tree(&[("x", b"content")])).unwrap();
        let _ = store.contents(&kept).unwrap().delta(&[0], &mut bytes.as_slice());
    }
}
