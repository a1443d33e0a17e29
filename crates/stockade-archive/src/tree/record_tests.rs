use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use rustix::fs::{FileType, XattrFlags};

use super::*;
use crate::tree::{CapturedPlace, Order, capture, fill_tree};

fn open(path: &Path) -> OwnedFd {
    fs::File::open(path).unwrap().into()
}

fn captured(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let place = CapturedPlace { number: 0, directory: open(path), overlay: None, skip: vec![] };
    capture(&[place], &mut bytes).unwrap();
    bytes
}

#[test]
fn set_id_bits_are_recorded_and_never_written() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for directory in [&from, &to, &from.join("d")] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(from.join("program"), b"x").unwrap();
    for (name, bits) in [("program", 0o6755), ("d", 0o3755)] {
        fs::set_permissions(from.join(name), fs::Permissions::from_mode(bits)).unwrap();
        assert_eq!(mode(&from.join(name)), bits, "this file system has the bits");
    }
    fill_tree(&[open(&to)], &mut captured(&from).as_slice()).unwrap();
    assert_eq!((mode(&to.join("program")), mode(&to.join("d"))), (0o755, 0o1755));
}

#[test]
fn tree_with_every_kind_of_entry_is_written_as_it_was_read() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    for directory in [&from, &to, &from.join("empty"), &from.join("deep/er")] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(from.join("file"), b"content").unwrap();
    fs::hard_link(from.join("file"), from.join("deep/same")).unwrap();
    symlink("/etc/passwd", from.join("link")).unwrap();
    fs::write(from.join(OsStr::from_bytes(b"a\nb\xff")), b"").unwrap();
    let sparse = OpenOptions::new().write(true).create_new(true).open(from.join("sparse")).unwrap();
    sparse.set_len(10 << 30).unwrap();
    sparse.write_all_at(b"middle", 5 << 30).unwrap();
    let fifo = FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, from.join("fifo"), fifo, 0o640.into(), 0).unwrap();
    fs::write(from.join("locked"), b"secret").unwrap();
    fs::set_permissions(from.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    let note = rustix::fs::setxattr(from.join("file"), c"user.note", b"value", XattrFlags::empty());
    fs::set_permissions(from.join("deep/er"), fs::Permissions::from_mode(0o555)).unwrap();
    let first = captured(&from);
    assert!(first.len() < 4 << 20, "holes are not read: {}", first.len());
    // What is in the way is replaced.
    fs::create_dir_all(to.join("file/in/the/way")).unwrap();
    fs::write(to.join("deep"), b"in the way").unwrap();
    fill_tree(&[open(&to)], &mut first.as_slice()).unwrap();
    assert!(captured(&to) == first);
    let mut value = [0; 8];
    let kept = rustix::fs::getxattr(to.join("deep/same"), c"user.note", &mut value[..]);
    assert_eq!(kept.is_ok_and(|length| value[..length] == *b"value"), note.is_ok());
    let inode = |path: &str| fs::metadata(to.join(path)).unwrap().ino();
    assert_eq!(inode("file"), inode("deep/same"));
    assert!(fs::metadata(to.join("sparse")).unwrap().blocks() < 64);
}

#[test]
fn sequences_that_no_tree_has_are_refused() {
    let place = |number| Record::Place { number, changes: false, metadata: Metadata::default() };
    let link = |name: &str| {
        let (name, target) = (name.as_bytes().to_vec(), b"x".to_vec());
        Record::Link { name, target, modified: Time::default() }
    };
    let file = |name: &str, link| {
        Record::File(FileHead { name: name.into(), link, ..FileHead::default() })
    };
    let enter =
        |replaces| Record::Enter { name: b"d".into(), metadata: Metadata::default(), replaces };
    let hard = |link| Record::HardLink { name: b"z".into(), link };
    let check = |records: &[Record]| {
        let mut order = Order::default();
        records.iter().try_for_each(|record| order.check(record, 3))
    };
    assert!(
        check(&[place(0), link("a"), enter(false), Record::Leave, place(1), Record::End]).is_ok()
    );
    assert!(check(&[place(0), file("a", Some(1)), hard(1), Record::End]).is_ok());
    for wrong in [
        &[link("a")][..],
        &[place(1), place(1)],
        &[place(0), Record::Leave],
        &[place(0), enter(false), Record::End],
        &[place(0), enter(true)],
        &[place(0), Record::Deleted { name: b"a".into() }],
        &[place(0), link("a"), link("a")],
        &[place(0), link("b"), link("a")],
        &[place(0), hard(1)],
        &[place(0), file("a", Some(1)), file("b", Some(1))],
        &[place(0), link("a"), link("b"), link("c"), link("d")],
        &[Record::End, place(0)],
    ] {
        assert!(check(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn names_targets_and_attributes_that_lead_elsewhere_are_refused() {
    for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0"] {
        let mut bytes = Vec::new();
        Record::Deleted { name: name.to_vec() }.encode(&mut bytes);
        assert!(Record::decode(&mut bytes.as_slice()).is_err(), "{name:?}");
    }
    for attribute in ["security.capability", "trusted.x", "user.overlay.opaque"] {
        let attributes = vec![(attribute.into(), b"y".to_vec())];
        let metadata = Metadata { attributes, ..Metadata::default() };
        let mut bytes = Vec::new();
        Record::Node { name: b"a".into(), kind: Node::Fifo, metadata }.encode(&mut bytes);
        assert!(Record::decode(&mut bytes.as_slice()).is_err(), "{attribute}");
    }
    let metadata = Metadata { mode: 0o176_755, ..Metadata::default() };
    let mut bytes = Vec::new();
    Record::Node { name: b"a".into(), kind: Node::Fifo, metadata }.encode(&mut bytes);
    let Ok(Record::Node { metadata, .. }) = Record::decode(&mut bytes.as_slice()) else { panic!() };
    assert_eq!(metadata.mode, 0o6755, "only bits of a mode are kept");
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(0_u8.., 0..400)) {
        let place = tempfile::tempdir().unwrap();
        let _ = fill_tree(&[open(place.path())], &mut bytes.as_slice());
    }
}
