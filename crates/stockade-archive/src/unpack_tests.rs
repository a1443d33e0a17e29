use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tar::{EntryType, Header};

use super::*;
use crate::pack;

const LIMITS: Limits = Limits { entries: 100, bytes: 10 << 20 };

/// An archive of entries: name, kind, target and content.
fn archive(entries: &[(&str, EntryType, &str, &str)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, kind, target, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o6755);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(content.as_bytes());
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive
}

fn into(folder: &Path, archive: &[u8]) -> Result<Unpacked, ArchiveError> {
    renamed(folder, archive, Rename::Keep)
}

fn renamed(folder: &Path, archive: &[u8], rename: Rename) -> Result<Unpacked, ArchiveError> {
    let root = fs::File::open(folder).unwrap();
    unpack(archive, root.as_fd(), rename, Links::Below, LIMITS)
}

fn refusal(result: Result<Unpacked, ArchiveError>) -> Refusal {
    match result {
        Err(ArchiveError::Refused { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    }
}

use EntryType::{Directory, Fifo, Link, Regular, Symlink};

#[test]
fn tree_is_packed_and_unpacked_with_its_links_and_execute_bits() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir_all(from.join("a/b")).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("a/plain"), "text").unwrap();
    fs::write(from.join("a/run"), "#!/bin/sh").unwrap();
    fs::set_permissions(from.join("a/run"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink("../plain", from.join("a/b/link")).unwrap();
    let name = "n".repeat(200);
    fs::write(from.join(&name), "long").unwrap();
    let sparse = fs::File::create(from.join("sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    let mut packed = Vec::new();
    let parent = fs::File::open(folder.path()).unwrap();
    let done = pack(parent.as_fd(), b"from", b"from", &mut packed).unwrap();
    assert_eq!((done.left_out, done.bytes), (0, 4 + 9 + 4 + (5 << 20)));
    let unpacked = renamed(&to, &packed, Rename::To(b"copy".to_vec())).unwrap();
    assert_eq!((unpacked.bytes, unpacked.left_out), (done.bytes, 0));
    let copy = to.join("copy");
    assert_eq!(fs::read(copy.join("a/plain")).unwrap(), b"text");
    assert_eq!(fs::read(copy.join(&name)).unwrap(), b"long");
    assert_eq!(fs::read_link(copy.join("a/b/link")).unwrap(), Path::new("../plain"));
    let mode = |name| fs::metadata(copy.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("a/plain"), mode("a/run")), (0o644, 0o755));
    let sparse = fs::metadata(copy.join("sparse")).unwrap();
    assert_eq!(sparse.len(), 5 << 20);
    assert!(std::os::unix::fs::MetadataExt::blocks(&sparse) < 100);
    renamed(&to, &packed, Rename::Strip).unwrap();
    assert!(to.join("a/b").is_dir());
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    fs::create_dir(&target).unwrap();
    for name in ["../x", "/x", "a/../../x", "..", "a/..", ""] {
        let result = into(&target, &archive(&[(name, Regular, "", "bad")]));
        assert_eq!(refusal(result), Refusal::Name, "{name:?}");
    }
    let itself = into(&target, &archive(&[(".", Regular, "", "bad")]));
    assert_eq!(refusal(itself), Refusal::Name);
    assert!(!folder.path().join("x").exists());
    into(&target, &archive(&[("./", Directory, "", ""), ("./x", Regular, "", "good")])).unwrap();
    assert_eq!(fs::read(target.join("x")).unwrap(), b"good");
}

#[test]
fn nothing_is_written_through_a_link_of_the_archive_or_of_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (target, outside) = (folder.path().join("target"), folder.path().join("outside"));
    fs::create_dir(&target).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("canary"), "safe").unwrap();
    // Without the check the first of these would write outside.
    symlink(&outside, target.join("old")).unwrap();
    fs::write(target.join("old/works"), "").unwrap();
    assert!(outside.join("works").exists());
    let through = archive(&[("old/canary", Regular, "", "bad")]);
    assert_eq!(refusal(into(&target, &through)), Refusal::Name);
    let own = archive(&[
        ("dir", Directory, "", ""),
        ("l", Symlink, "dir", ""),
        ("l/x", Regular, "", "bad"),
    ]);
    assert_eq!(refusal(into(&target, &own)), Refusal::Name);
    assert!(!target.join("dir/x").exists());
    // A link at the end of a name is replaced.
    symlink(outside.join("canary"), target.join("file")).unwrap();
    into(&target, &archive(&[("file", Regular, "", "new")])).unwrap();
    assert_eq!(fs::read(target.join("file")).unwrap(), b"new");
    assert!(!target.join("file").is_symlink());
    assert_eq!(fs::read(outside.join("canary")).unwrap(), b"safe");
}

#[test]
fn links_that_leave_the_directory_and_special_files_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let done = into(
        folder.path(),
        &archive(&[
            ("abs", Symlink, "/etc/passwd", ""),
            ("up", Symlink, "../x", ""),
            ("chain", Symlink, "a/b/../../..", ""),
            ("a/up", Symlink, "../ok", ""),
            ("fifo", Fifo, "", ""),
            ("char", EntryType::Char, "", ""),
            ("ok", Regular, "", "kept"),
        ]),
    )
    .unwrap();
    assert_eq!((done.entries, done.left_out), (2, 5));
    assert_eq!(done.examples[0], (b"abs".to_vec(), Refusal::Link));
    assert_eq!(fs::read(folder.path().join("a/up")).unwrap(), b"kept");
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "ok"]);
}

#[test]
fn modes_lose_set_id_bits_and_hard_links_only_reach_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("before"), "secret").unwrap();
    into(folder.path(), &archive(&[("one", Regular, "", "1"), ("two", Link, "one", "")])).unwrap();
    assert_eq!(fs::read(folder.path().join("two")).unwrap(), b"1");
    let mode = fs::metadata(folder.path().join("one")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    let before = archive(&[("three", Link, "before", "")]);
    assert_eq!(refusal(into(folder.path(), &before)), Refusal::HardLink);
    let outside = archive(&[("three", Link, "../before", "")]);
    assert_eq!(refusal(into(folder.path(), &outside)), Refusal::Name);
}

#[test]
fn duplicates_and_second_roots_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let twice = archive(&[("x", Regular, "", "1"), ("./x", Regular, "", "2")]);
    assert_eq!(refusal(into(folder.path(), &twice)), Refusal::Duplicate);
    let link = archive(&[("y", Symlink, "x", ""), ("y", Regular, "", "2")]);
    assert_eq!(refusal(into(folder.path(), &link)), Refusal::Duplicate);
    let roots = archive(&[("a/x", Regular, "", "1"), ("b", Regular, "", "2")]);
    let result = renamed(folder.path(), &roots, Rename::To(b"new".to_vec()));
    assert_eq!(refusal(result), Refusal::Roots);
    assert!(!folder.path().join("b").exists());
}

#[test]
fn entries_and_bytes_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..101).map(|number| format!("f{number}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), Regular, "", "")).collect();
    assert_eq!(into(folder.path(), &archive(&many[..100])).unwrap().entries, 100);
    assert_eq!(refusal(into(folder.path(), &archive(&many))), Refusal::TooLarge);
    let large = "x".repeat(6 << 20);
    let large = archive(&[("a", Regular, "", &large), ("b", Regular, "", &large)]);
    assert_eq!(refusal(into(folder.path(), &large)), Refusal::TooLarge);
    assert!(!folder.path().join("b").exists());
}

#[test]
fn directory_that_is_swapped_for_a_link_never_leads_out() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let folder = tempfile::tempdir().unwrap();
    let (target, outside) = (folder.path().join("target"), folder.path().join("outside"));
    fs::create_dir_all(target.join("d")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("canary"), "safe").unwrap();
    let link = folder.path().join("link");
    symlink(&outside, &link).unwrap();
    let names: Vec<String> = (0..40).map(|number| format!("d/f{number}")).collect();
    let mut entries: Vec<_> =
        names.iter().map(|name| (name.as_str(), Regular, "", "bad")).collect();
    entries.push(("d/canary", Regular, "", "bad"));
    let archive = archive(&entries);
    let stop = AtomicBool::new(false);
    let (mut whole, mut refused) = (0, 0);
    let swapped = target.join("d");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &link, CWD, &swapped, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let until = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < until {
            match into(&target, &archive) {
                Ok(_) => whole += 1,
                Err(ArchiveError::Refused { refusal: Refusal::Name, .. }) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let report = format!("{whole} archives unpacked, {refused} met the link\n");
    std::io::Write::write_all(&mut std::io::stderr(), report.as_bytes()).unwrap();
    assert!(refused > 0);
    assert_eq!(fs::read(outside.join("canary")).unwrap(), b"safe");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn link_in_a_renamed_tree_does_not_lead_next_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir_all(from.join("deep")).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("inside"), "inside").unwrap();
    for (name, target) in [
        ("next", "../secret"),
        ("above", ".."),
        ("deep/next", "../../secret"),
        ("deep/inside", "../inside"),
    ] {
        symlink(target, from.join(name)).unwrap();
    }
    let mut packed = Vec::new();
    let parent = fs::File::open(folder.path()).unwrap();
    pack(parent.as_fd(), b"from", b"from", &mut packed).unwrap();
    fs::write(to.join("secret"), "of the host").unwrap();
    let unpacked = renamed(&to, &packed, Rename::To(b"copy".to_vec())).unwrap();
    assert_eq!(unpacked.left_out, 3, "{unpacked:?}");
    assert_eq!(fs::read(to.join("copy/deep/inside")).unwrap(), b"inside");
    assert!(fs::symlink_metadata(to.join("copy/next")).is_err());
}
