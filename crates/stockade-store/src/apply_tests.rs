use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use stockade_archive::tree::{FileHead, Metadata, Node, Record, Time, end_content, write_extent};

use rustix::fs::FileType;

use super::*;
use crate::{Checkpoint, Contents, Limits, Store, StoredPlace, changes};

/// A store, a directory of the host, and a canary outside of it.
struct Scene {
    place: tempfile::TempDir,
    store: Store,
}

const LATE: u64 = u64::MAX >> 1;

fn metadata(mode: u32) -> Metadata {
    Metadata { mode, modified: Time { seconds: 1, nanoseconds: 0 }, attributes: Vec::new() }
}

fn put(records: &[(Record, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Record::Place { number: 0, changes: true, metadata: metadata(0o755) }.encode(&mut bytes);
    for (record, content) in records {
        record.encode(&mut bytes);
        if let Record::File(_) = record {
            if !content.is_empty() {
                write_extent(0, content, &mut bytes).unwrap();
            }
            end_content(&mut bytes).unwrap();
        }
    }
    Record::End.encode(&mut bytes);
    bytes
}

fn file_of<'c>(name: &str, content: &'c str) -> (Record, &'c [u8]) {
    let size = content.len() as u64;
    let head = FileHead { name: name.into(), metadata: metadata(0o644), size, link: None };
    (Record::File(head), content.as_bytes())
}

fn link_of(name: &str, target: &str) -> (Record, &'static [u8]) {
    let (name, target) = (name.into(), target.into());
    (Record::Link { name, target, modified: Time::default() }, b"")
}

fn enter(name: &str) -> (Record, &'static [u8]) {
    (Record::Enter { name: name.into(), metadata: metadata(0o755), replaces: false }, b"")
}

const LEAVE: (Record, &[u8]) = (Record::Leave, b"");

impl Scene {
    fn new() -> Scene {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("host")).unwrap();
        fs::write(place.path().join("canary"), "untouched").unwrap();
        let store = Store::open(&place.path().join("store")).unwrap();
        Scene { place, store }
    }

    fn host(&self, path: &str) -> PathBuf {
        self.place.path().join("host").join(path)
    }

    fn kept(&self, records: &[(Record, &[u8])]) -> Contents {
        let mut builder = self.store.build().unwrap();
        let summary = builder.add(&mut put(records).as_slice(), Limits::MOST).unwrap();
        let count = self.store.checkpoints(None).unwrap().len();
        let checkpoint = Checkpoint {
            version: Checkpoint::VERSION,
            session: "s".into(),
            name: format!("c{count}"),
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
        };
        let checkpoint = builder.publish(checkpoint).unwrap();
        self.store.contents(&checkpoint).unwrap()
    }

    /// Applies everything; `accepted` has consent.
    fn apply(&self, records: &[(Record, &[u8])], accepted: &[&str]) -> Vec<(String, Verdict)> {
        self.apply_since(records, accepted, LATE)
    }

    fn apply_since(
        &self,
        records: &[(Record, &[u8])],
        accepted: &[&str],
        started_ms: u64,
    ) -> Vec<(String, Verdict)> {
        self.apply_again(records, accepted, started_ms, &mut BTreeMap::new())
    }

    /// Applies after earlier calls, which applied these files.
    fn apply_again(
        &self,
        records: &[(Record, &[u8])],
        accepted: &[&str],
        started_ms: u64,
        before: &mut BTreeMap<String, Hash>,
    ) -> Vec<(String, Verdict)> {
        let contents = self.kept(records);
        let target = HostBase::open(&self.host("")).unwrap();
        let (old, new) =
            (View::empty(Some(&target)), View::of(&contents, 0, Some(&target)).unwrap());
        let accepted: Vec<Vec<u8>> = accepted.iter().map(|path| path.as_bytes().to_vec()).collect();
        let request = ApplyRequest {
            target: &target,
            is_base: true,
            started_ms,
            only: &[],
            accepted: &accepted,
            applied: &before.clone(),
            dry_run: false,
        };
        let found = changes(&old, &new).unwrap();
        let applied = apply(&old, &new, found, &request).unwrap();
        let canary = fs::read_to_string(self.place.path().join("canary")).unwrap();
        assert_eq!(canary, "untouched");
        let name = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        *before = applied.applied;
        applied.proposals.iter().map(|it| (name(&it.change.path), it.verdict.clone())).collect()
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn changes_reach_the_host_and_nothing_else_does() {
    let scene = Scene::new();
    for name in ["changed", "deleted", "kept", "turned"] {
        fs::write(scene.host(name), "old").unwrap();
    }
    fs::create_dir_all(scene.host("gone/deep")).unwrap();
    fs::write(scene.host("gone/deep/file"), "old").unwrap();
    let verdicts = scene.apply(
        &[
            file_of("changed", "new"),
            (Record::Deleted { name: b"deleted".to_vec() }, b""),
            enter("dir"),
            file_of("inner", "text"),
            link_of("link", "../kept"),
            LEAVE,
            (Record::Deleted { name: b"gone".to_vec() }, b""),
            enter("turned"),
            file_of("inside", "x"),
            LEAVE,
        ],
        &[],
    );
    assert!(verdicts.iter().all(|(_, verdict)| *verdict == Verdict::Apply), "{verdicts:?}");
    assert_eq!(read(&scene.host("changed")), "new");
    assert_eq!(read(&scene.host("dir/inner")), "text");
    assert_eq!(read(&scene.host("dir/link")), "old");
    assert_eq!(read(&scene.host("kept")), "old");
    assert_eq!(read(&scene.host("turned/inside")), "x");
    assert!(!scene.host("deleted").exists() && !scene.host("gone").exists());
    let left: Vec<_> = fs::read_dir(scene.host("")).unwrap().collect();
    assert_eq!(left.len(), 4, "no temporary file is left: {left:?}");
}

#[test]
fn links_swapped_during_the_run_are_not_followed() {
    let scene = Scene::new();
    let outside = scene.place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "untouched").unwrap();
    let (directory, aside) = (scene.host("dir"), scene.host("aside"));
    fs::create_dir(&directory).unwrap();
    let records = [enter("dir"), file_of("file", "written through"), LEAVE];
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // A directory, then a link in its place, as quickly as possible.
                let _ = fs::rename(&directory, &aside);
                let _ = symlink(&outside, &directory);
                let _ = fs::remove_file(&directory);
                let _ = fs::rename(&aside, &directory);
            }
        });
        let applied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..60 {
                let _ = scene.apply(&records, &[]);
            }
        }));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        // Only now: the other thread would run for ever.
        applied.unwrap();
    });
    assert_eq!(read(&outside.join("file")), "untouched");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // The same write through the link works without the wall.
    fs::remove_dir_all(&directory).unwrap();
    symlink(&outside, &directory).unwrap();
    fs::write(directory.join("file"), "followed").unwrap();
    assert_eq!(read(&outside.join("file")), "followed");
    let verdicts = scene.apply_since(&records, &[], 1);
    assert!(
        verdicts.iter().any(|(_, it)| *it == Verdict::Refused(Refused::Through)),
        "{verdicts:?}"
    );
    assert!(verdicts.iter().all(|(_, it)| *it != Verdict::Apply), "{verdicts:?}");
    assert_eq!(read(&outside.join("file")), "followed");
}

#[test]
fn names_with_dots_never_leave_the_directory() {
    for name in ["..", ".", "../canary", "a/../../canary", "/etc/x"] {
        let scene = Scene::new();
        let mut builder = scene.store.build().unwrap();
        let refused = builder.add(&mut put(&[file_of(name, "x")]).as_slice(), Limits::MOST);
        assert!(refused.is_err(), "{name}");
    }
    let scene = Scene::new();
    let target = HostBase::open(&scene.host("")).unwrap();
    assert!(target.parent(b"..").is_err() && target.parent(b"a/../..").is_err());
}

#[test]
fn links_that_leave_the_directory_are_refused() {
    let scene = Scene::new();
    let verdicts = scene.apply(
        &[
            link_of("absolute", "/etc/passwd"),
            link_of("inside", "other"),
            link_of("up", "../canary"),
            link_of("winding", "a/../../canary"),
        ],
        &[],
    );
    let refused = Verdict::Refused(Refused::Link);
    let of = |name: &str| verdicts.iter().find(|(path, _)| path == name).unwrap().1.clone();
    assert_eq!(
        [of("absolute"), of("up"), of("winding")],
        [refused.clone(), refused.clone(), refused]
    );
    assert_eq!(of("inside"), Verdict::Apply);
    assert!(scene.host("absolute").symlink_metadata().is_err());
}

#[test]
fn hard_links_of_the_host_keep_their_other_name() {
    let scene = Scene::new();
    let canary = scene.place.path().join("canary");
    fs::hard_link(&canary, scene.host("file")).unwrap();
    let verdicts = scene.apply(&[file_of("file", "new")], &[]);
    assert_eq!(verdicts, [("file".to_owned(), Verdict::Apply)]);
    assert_eq!((read(&scene.host("file")), read(&canary)), ("new".into(), "untouched".into()));
    assert_eq!(fs::metadata(canary).unwrap().nlink(), 1);
}

#[test]
fn twins_by_case_and_unicode_form_are_refused() {
    let scene = Scene::new();
    fs::write(scene.host("README"), "old").unwrap();
    let records =
        [file_of("Readme", "new"), file_of("cafe\u{301}", "2"), file_of("caf\u{e9}", "1")];
    let verdicts = scene.apply(&records, &[]);
    let twins = verdicts.iter().filter(|(_, it)| matches!(it, Verdict::Refused(Refused::Twin(_))));
    assert_eq!(twins.count(), 2, "{verdicts:?}");
    assert_eq!(read(&scene.host("README")), "old");
}

#[test]
fn special_files_are_refused() {
    let scene = Scene::new();
    let node = |name: &str, kind| {
        (Record::Node { name: name.into(), kind, metadata: metadata(0o666) }, &b""[..])
    };
    let verdicts = scene.apply(&[node("fifo", Node::Fifo), node("socket", Node::Socket)], &[]);
    assert!(
        verdicts.iter().all(|(_, it)| *it == Verdict::Refused(Refused::Special)),
        "{verdicts:?}"
    );
    // A device has no record at all, and a FIFO of the host is neither opened nor replaced.
    let mut device = put(&[]);
    device.insert(device.len() - 1, 10);
    let mut builder = scene.store.build().unwrap();
    assert!(builder.add(&mut device.as_slice(), Limits::MOST).is_err());
    drop(builder);
    let path = scene.host("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, 0o600.into(), 0).unwrap();
    let before = fs::symlink_metadata(&path).unwrap();
    let verdicts = scene.apply(&[file_of("pipe", "x")], &[]);
    assert!(matches!(&verdicts[0].1, Verdict::Conflict(_)), "{verdicts:?}");
    let after = fs::symlink_metadata(&path).unwrap();
    assert!(FileType::from_raw_mode(after.mode()) == FileType::Fifo, "{after:?}");
    assert_eq!((after.ino(), after.ctime_nsec()), (before.ino(), before.ctime_nsec()));
}

#[test]
fn file_turned_directory_is_a_conflict_if_the_host_turned_it() {
    let scene = Scene::new();
    fs::write(scene.host("thing"), "old").unwrap();
    let verdicts = scene.apply(&[enter("thing"), file_of("inner", "x"), LEAVE], &[]);
    assert!(verdicts.iter().all(|(_, it)| *it == Verdict::Apply), "{verdicts:?}");
    assert_eq!(read(&scene.host("thing/inner")), "x");
    // The other way round the directory is not empty, and stays.
    fs::write(scene.host("thing/more"), "of the host").unwrap();
    let mut turned = file_of("thing", "a file again");
    if let Record::File(head) = &mut turned.0 {
        head.metadata.mode = 0o600;
    }
    let verdicts = scene.apply_since(&[turned], &[], 0);
    assert!(verdicts.iter().any(|(_, it)| *it != Verdict::Apply), "{verdicts:?}");
    assert_eq!(read(&scene.host("thing/more")), "of the host");
}

#[test]
fn sparse_file_of_an_exabyte_is_refused() {
    let scene = Scene::new();
    let (mut record, content) = file_of("huge", "x");
    if let Record::File(head) = &mut record {
        head.size = 1 << 60;
    }
    let verdicts = scene.apply(&[(record, content)], &[]);
    assert_eq!(verdicts, [("huge".to_owned(), Verdict::Refused(Refused::TooLarge))]);
    assert!(!scene.host("huge").exists());
}

#[test]
fn name_with_newlines_needs_consent() {
    let scene = Scene::new();
    let name = "a\nREADME.md\nb";
    let verdicts = scene.apply(&[file_of(name, "x")], &[]);
    assert!(matches!(&verdicts[0].1, Verdict::Flagged(_)), "{verdicts:?}");
    assert!(!scene.host(name).exists());
    assert_eq!(scene.apply(&[file_of(name, "x")], &[name])[0].1, Verdict::Apply);
    assert_eq!(read(&scene.host(name)), "x");
}

#[test]
fn set_id_bits_are_refused_also_with_consent() {
    let scene = Scene::new();
    for mode in [0o4755, 0o2755, 0o6755] {
        let (mut record, content) = file_of("program", "x");
        if let Record::File(head) = &mut record {
            head.metadata.mode = mode;
        }
        let verdicts = scene.apply(&[(record, content)], &["program"]);
        let refused = Verdict::Refused(Refused::SetId);
        assert_eq!(verdicts, [("program".to_owned(), refused)], "{mode:o}");
        assert!(!scene.host("program").exists());
    }
    let directory =
        Record::Enter { name: b"d".to_vec(), metadata: metadata(0o2755), replaces: false };
    let verdicts = scene.apply(&[(directory, b""), LEAVE], &[]);
    assert_eq!(verdicts, [("d".to_owned(), Verdict::Refused(Refused::SetId))]);
    // The same file without the bits is applied.
    let verdicts = scene.apply(&[file_of("program", "x")], &[]);
    assert_eq!(verdicts, [("program".to_owned(), Verdict::Apply)]);
    assert_eq!(fs::metadata(scene.host("program")).unwrap().mode() & 0o7777, 0o644);
}

#[test]
fn directory_of_the_host_keeps_the_bits_that_it_has() {
    let scene = Scene::new();
    fs::create_dir(scene.host("shared")).unwrap();
    fs::set_permissions(scene.host("shared"), fs::Permissions::from_mode(0o2775)).unwrap();
    let shared =
        Record::Enter { name: b"shared".to_vec(), metadata: metadata(0o2755), replaces: false };
    let records = [(shared, &b""[..]), file_of("inner", "x"), LEAVE];
    let verdicts = scene.apply(&records, &[]);
    assert!(verdicts.iter().all(|(_, it)| *it == Verdict::Apply), "{verdicts:?}");
    assert_eq!(fs::metadata(scene.host("shared")).unwrap().mode() & 0o7777, 0o2755);
    assert_eq!(read(&scene.host("shared/inner")), "x");
}

#[test]
fn what_tools_execute_needs_consent_also_through_a_link() {
    let scene = Scene::new();
    fs::create_dir_all(scene.host(".git/hooks")).unwrap();
    let records = [
        enter(".git"),
        enter("hooks"),
        file_of("pre-commit", "evil"),
        LEAVE,
        LEAVE,
        file_of("Makefile", "all:"),
        link_of("way", ".git/hooks"),
    ];
    let verdicts = scene.apply(&records, &["Makefile"]);
    let flagged = verdicts.iter().filter(|(_, it)| matches!(it, Verdict::Flagged(_)));
    assert_eq!(flagged.count(), 2, "{verdicts:?}");
    assert!(!scene.host(".git/hooks/pre-commit").exists());
    assert!(scene.host("way").symlink_metadata().is_err());
    assert_eq!(read(&scene.host("Makefile")), "all:");
}

#[test]
fn removal_of_what_tools_execute_needs_consent() {
    let scene = Scene::new();
    fs::create_dir_all(scene.host(".git/hooks")).unwrap();
    for name in [".git/hooks/pre-commit", ".git/config", "Makefile", "notes"] {
        fs::write(scene.host(name), "of the person").unwrap();
    }
    let deleted = |name: &str| (Record::Deleted { name: name.into() }, &b""[..]);
    let records = || [deleted(".git"), deleted("Makefile"), deleted("notes")];
    let verdicts = scene.apply(&records(), &[]);
    let flagged = verdicts.iter().filter(|(_, it)| matches!(it, Verdict::Flagged(_)));
    let flagged: Vec<&str> = flagged.map(|(name, _)| name.as_str()).collect();
    assert!(flagged.contains(&".git/config") && flagged.contains(&"Makefile"), "{verdicts:?}");
    assert_eq!(read(&scene.host(".git/config")), "of the person");
    assert_eq!(read(&scene.host(".git/hooks/pre-commit")), "of the person");
    assert_eq!(read(&scene.host("Makefile")), "of the person");
    assert!(!scene.host("notes").exists());
    // Neither does a directory take their place.
    let turned = [enter("Makefile"), file_of("inner", "x"), LEAVE];
    let verdicts = scene.apply(&turned, &[]);
    assert!(matches!(verdicts[0].1, Verdict::Flagged(_)), "{verdicts:?}");
    assert_eq!(read(&scene.host("Makefile")), "of the person");
    // With consent they go.
    let verdicts = scene.apply(&records(), &[".git", "Makefile"]);
    assert!(verdicts.iter().all(|(_, it)| *it == Verdict::Apply), "{verdicts:?}");
    assert!(!scene.host(".git").exists() && !scene.host("Makefile").exists());
}

#[test]
fn what_the_host_changed_meanwhile_is_a_conflict_and_stays() {
    let scene = Scene::new();
    fs::write(scene.host("file"), "by the person").unwrap();
    fs::write(scene.host("gone"), "by the person").unwrap();
    let records =
        [file_of("file", "by the agent"), (Record::Deleted { name: b"gone".to_vec() }, &b""[..])];
    let verdicts = scene.apply_since(&records, &[], 1);
    assert!(verdicts.iter().all(|(_, it)| matches!(it, Verdict::Conflict(_))), "{verdicts:?}");
    assert_eq!(read(&scene.host("file")), "by the person");
    assert_eq!(read(&scene.host("gone")), "by the person");
}

#[test]
fn what_the_host_removed_after_it_was_applied_is_a_conflict_and_stays_away() {
    let scene = Scene::new();
    fs::write(scene.host("edited"), "old").unwrap();
    let mut before = BTreeMap::new();
    let mut apply = |records: &[(Record, &[u8])]| -> Vec<String> {
        let verdicts = scene.apply_again(records, &[], LATE, &mut before);
        verdicts.into_iter().map(|(path, verdict)| format!("{path} {verdict:?}")).collect()
    };
    let files = [file_of("edited", "new"), file_of("fresh", "new")];
    assert_eq!(apply(&files), ["edited Apply", "fresh Apply"]);
    assert_eq!(apply(&files), Vec::<String>::new());
    fs::remove_file(scene.host("edited")).unwrap();
    fs::remove_file(scene.host("fresh")).unwrap();
    let more = [file_of("edited", "newer"), file_of("fresh", "new")];
    let reason = "Conflict(\"the host removed it after it was applied\")";
    assert_eq!(apply(&more), [format!("edited {reason}"), format!("fresh {reason}")]);
    assert!(!scene.host("edited").exists() && !scene.host("fresh").exists());
    // What was removed inside, and is there again, is as new as before.
    fs::write(scene.host("edited"), "old").unwrap();
    let removed = (Record::Deleted { name: b"edited".to_vec() }, b"".as_slice());
    assert_eq!(apply(&[removed]), ["edited Apply"]);
    assert_eq!(apply(&[file_of("edited", "again")]), ["edited Apply"]);
    assert_eq!(read(&scene.host("edited")), "again");
}
