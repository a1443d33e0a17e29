use proptest::prelude::*;
use tar::{EntryType, Header};

use super::*;

/// One entry as it is in an archive.
fn raw(name: &[u8], kind: EntryType, target: &[u8], content: &[u8]) -> Vec<u8> {
    raw_sized(name, kind, target, content.len() as u64, content)
}

fn raw_sized(name: &[u8], kind: EntryType, target: &[u8], bytes: u64, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(0o644);
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
    header.set_cksum();
    let padding = vec![0; content.len().wrapping_neg() % BLOCK_BYTES];
    [header.as_bytes().as_slice(), content, &padding].concat()
}

/// The entries with their content, or the refusal.
fn read(archive: &[u8]) -> Result<Vec<(ArchiveEntry, Vec<u8>)>, Refusal> {
    let mut entries = Entries::new(archive);
    let mut all = Vec::new();
    loop {
        match entries.next_entry() {
            Ok(None) => return Ok(all),
            Ok(Some(entry)) => {
                let mut content = Vec::new();
                if entries.read_to_end(&mut content).is_err() {
                    return Err(Refusal::Truncated);
                }
                all.push((entry, content));
            }
            Err(ArchiveError::Refused { refusal, .. }) => return Err(refusal),
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn file(name: &[u8], content: &[u8]) -> (ArchiveEntry, Vec<u8>) {
    let kind = EntryKind::File { bytes: content.len() as u64, executable: false };
    let attributes = Attributes { mode: Some(0o644), modified: Some(0), ..Attributes::default() };
    (ArchiveEntry { name: name.to_vec(), kind, attributes }, content.to_vec())
}

#[test]
fn names_come_from_headers_extended_headers_and_long_names() {
    let long = [b"x".repeat(300).as_slice(), b"\0"].concat();
    let archive = [
        raw(b"plain", EntryType::Regular, b"", b"one"),
        raw(b"pax", EntryType::XHeader, b"", b"15 path=bet\xffer\n"),
        raw(b"short", EntryType::Regular, b"", b"two"),
        raw(b"././@LongLink", EntryType::GNULongName, b"", &long),
        raw(b"xxx", EntryType::Regular, b"", b""),
        vec![0; 1024],
        b"whatever follows is ignored".to_vec(),
    ]
    .concat();
    let name = b"x".repeat(300);
    let expected = vec![file(b"plain", b"one"), file(b"bet\xffer", b"two"), file(&name, b"")];
    assert_eq!(read(&archive), Ok(expected));
}

#[test]
fn owner_mode_and_time_come_from_the_header_or_the_extended_header() {
    let mut header = Header::new_gnu();
    header.set_mode(0o4755);
    header.set_uid(7);
    header.set_gid(8);
    header.set_mtime(9);
    header.set_size(0);
    header.set_entry_type(EntryType::Directory);
    header.as_old_mut().name[..1].copy_from_slice(b"d");
    header.set_cksum();
    let plain = header.as_bytes().to_vec();
    let own = Attributes { mode: Some(0o4755), user: Some(7), group: Some(8), modified: Some(9) };
    let large = raw(b"pax", EntryType::XHeader, b"", b"15 uid=3000000\n");
    let read = read(&[plain.clone(), large, plain].concat()).unwrap();
    let found: Vec<Attributes> = read.iter().map(|(entry, _)| entry.attributes).collect();
    assert_eq!(found, [own, Attributes { user: Some(3_000_000), ..own }]);
}

#[test]
fn two_sizes_of_one_entry_are_refused() {
    let sized = |size: &[u8], stated: u64, content: &[u8]| {
        let record = [b"10 size=".as_slice(), size, b"\n"].concat();
        [
            raw(b"pax", EntryType::XHeader, b"", &record),
            raw_sized(b"file", EntryType::Regular, b"", stated, content),
        ]
        .concat()
    };
    assert_eq!(read(&sized(b"4", 4, b"four")), Ok(vec![file(b"file", b"four")]));
    assert_eq!(read(&sized(b"4", 0, b"four")), Ok(vec![file(b"file", b"four")]));
    assert_eq!(read(&sized(b"0", 4, b"four")), Err(Refusal::Size));
    let link = raw_sized(b"link", EntryType::Symlink, b"a", 512, &[1; 512]);
    assert_eq!(read(&link), Err(Refusal::Size));
}

#[test]
fn kinds_that_readers_disagree_on_are_refused() {
    let global = raw(b"g", EntryType::XGlobalHeader, b"", b"10 path=a\n");
    assert_eq!(read(&global), Err(Refusal::Kind));
    let comment = raw(b"g", EntryType::XGlobalHeader, b"", b"13 comment=a\n");
    assert_eq!(read(&comment), Ok(vec![]));
    assert_eq!(read(&raw(b"s", EntryType::GNUSparse, b"", b"")), Err(Refusal::Kind));
    assert_eq!(read(&raw(b"s", EntryType::new(b'Z'), b"", b"")), Err(Refusal::Kind));
}

#[test]
fn long_extensions_and_early_ends_are_refused() {
    let bomb = raw_sized(b"L", EntryType::GNULongName, b"", 1 << 33, b"");
    assert_eq!(read(&bomb), Err(Refusal::LongName));
    let huge = raw_sized(b"f", EntryType::Regular, b"", u64::MAX, b"x");
    assert_eq!(read(&huge), Err(Refusal::Truncated));
    let whole = raw(b"f", EntryType::Regular, b"", b"content");
    for end in 1..whole.len() {
        assert!(read(&whole[..end]).is_err(), "after {end} bytes");
    }
    let dangling = raw(b"x", EntryType::XHeader, b"", b"10 path=a\n");
    assert_eq!(read(&dangling), Err(Refusal::Truncated));
    let mut damaged = whole;
    damaged[0] ^= 1;
    assert_eq!(read(&damaged), Err(Refusal::Damaged));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(0_u8.., 0..2000)) {
        let _ = read(&bytes);
    }

    #[test]
    fn changed_archives_are_read_or_refused(at in 0..3000_usize, byte in 0_u8..) {
        let mut archive = [
            raw(b"pax", EntryType::XHeader, b"", b"15 path=better\n"),
            raw(b"short", EntryType::Regular, b"", b"two"),
            raw(b"link", EntryType::Symlink, b"a", b""),
        ]
        .concat();
        let at = at % archive.len();
        archive[at] = byte;
        let _ = read(&archive);
    }
}
