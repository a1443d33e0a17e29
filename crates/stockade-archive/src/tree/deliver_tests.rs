use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::tree::{CapturedPlace, MAX_NAME_BYTES, Node, capture};

const LIMITS: Limits = Limits { entries: 1000, bytes: 1 << 20 };

fn open(path: &Path) -> OwnedFd {
    fs::File::open(path).unwrap().into()
}

/// A directory of a sandbox, which has only changes, and one of the host.
struct Both {
    _place: tempfile::TempDir,
    inside: std::path::PathBuf,
    host: std::path::PathBuf,
    targets: Vec<Target>,
}

impl Both {
    fn new(copied: &[&str]) -> Both {
        let place = tempfile::tempdir().unwrap();
        let (inside, host) = (place.path().join("inside"), place.path().join("host"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&host).unwrap();
        let copied = copied.iter().map(|path| path.as_bytes().to_vec()).collect::<HashSet<_>>();
        let targets = vec![Target::new(open(&host), copied)];
        Both { _place: place, inside, host, targets }
    }

    fn deliver(&mut self) -> Vec<(String, String)> {
        let mut records = Vec::new();
        let place =
            CapturedPlace { number: 0, directory: open(&self.inside), overlay: None, skip: vec![] };
        capture(&[place], &mut records).unwrap();
        let undelivered = deliver(&mut self.targets, &mut records.as_slice(), LIMITS).unwrap();
        assert_eq!(undelivered.count, undelivered.examples.len() as u64);
        let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
        undelivered.examples.into_iter().map(|it| (text(it.path), it.why)).collect()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.host.join(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.host).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Records as a hostile sandbox would send them.
fn records(all: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let metadata = Metadata::new(0o755, Time { seconds: 0, nanoseconds: 0 });
    Record::Place { number: 0, changes: true, metadata }.encode(&mut bytes);
    for record in all {
        record.encode(&mut bytes);
        if let Record::File(_) = record {
            bytes.extend([0; 4]);
        }
    }
    Record::End.encode(&mut bytes);
    bytes
}

fn metadata(mode: u32) -> Metadata {
    Metadata::new(mode, Time { seconds: 1, nanoseconds: 0 })
}

#[test]
fn changes_reach_the_host_and_what_is_gone_inside_goes_there_too() {
    let mut both = Both::new(&[]);
    fs::create_dir(both.inside.join("deep")).unwrap();
    fs::write(both.inside.join("deep/file"), "one").unwrap();
    fs::hard_link(both.inside.join("deep/file"), both.inside.join("same")).unwrap();
    symlink("deep/file", both.inside.join("way")).unwrap();
    assert_eq!(both.deliver(), []);
    assert_eq!((both.read("deep/file"), both.read("way")), ("one".into(), "one".into()));
    let inode = |name: &str| fs::metadata(both.host.join(name)).unwrap().ino();
    assert_eq!(inode("deep/file"), inode("same"));
    fs::remove_file(both.inside.join("same")).unwrap();
    fs::remove_file(both.inside.join("way")).unwrap();
    fs::write(both.inside.join("deep/file"), "another").unwrap();
    assert_eq!(both.deliver(), []);
    assert_eq!(both.read("deep/file"), "another");
    assert_eq!(both.names(), ["deep"]);
}

#[test]
fn what_the_host_changed_since_stays_unless_it_changes_inside_too() {
    let mut both = Both::new(&[]);
    fs::write(both.inside.join("a"), "inside").unwrap();
    fs::create_dir(both.inside.join("d")).unwrap();
    fs::write(both.inside.join("d/x"), "inside").unwrap();
    assert_eq!(both.deliver(), []);
    fs::write(both.host.join("a"), "host").unwrap();
    fs::write(both.host.join("d/own"), "host").unwrap();
    fs::remove_dir_all(both.inside.join("d")).unwrap();
    assert_eq!(both.deliver(), []);
    assert_eq!((both.read("a"), both.read("d/own")), ("host".into(), "host".into()));
    assert!(!both.host.join("d/x").exists());
    fs::write(both.inside.join("a"), "once more").unwrap();
    assert_eq!(both.deliver(), []);
    assert_eq!(both.read("a"), "once more");
}

#[test]
fn links_and_files_of_the_host_are_never_followed_or_written_through() {
    let mut both = Both::new(&[]);
    let outside = both.host.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "outside").unwrap();
    symlink(&outside, both.host.join("dir")).unwrap();
    symlink(outside.join("file"), both.host.join("file")).unwrap();
    fs::hard_link(outside.join("file"), both.host.join("hard")).unwrap();
    fs::create_dir(both.inside.join("dir")).unwrap();
    for name in ["dir/new", "file", "hard"] {
        fs::write(both.inside.join(name), "inside").unwrap();
    }
    let refused = both.deliver();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].0, "dir");
    assert_eq!((both.read("file"), both.read("hard")), ("inside".into(), "inside".into()));
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "outside");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn special_files_and_links_that_lead_out_are_refused_by_name_and_the_rest_arrives() {
    let mut both = Both::new(&[]);
    let text = |text: &str| text.as_bytes().to_vec();
    let time = Time { seconds: 1, nanoseconds: 0 };
    let file = FileHead { name: text("z"), metadata: metadata(0o6755), size: 0, link: None };
    let all = [
        Record::Link { name: text("above"), target: text("../x"), modified: time },
        Record::Node { name: text("fifo"), kind: Node::Fifo, metadata: metadata(0o644) },
        Record::Link { name: text("root"), target: text("/etc/passwd"), modified: time },
        Record::Node { name: text("socket"), kind: Node::Socket, metadata: metadata(0o644) },
        Record::File(file),
    ];
    let undelivered = deliver(&mut both.targets, &mut records(&all).as_slice(), LIMITS).unwrap();
    let names: Vec<_> = undelivered.examples.iter().map(|it| it.path.as_slice()).collect();
    assert_eq!(names, [&b"above"[..], b"fifo", b"root", b"socket"]);
    assert_eq!(both.names(), ["z"]);
    let mode = fs::metadata(both.host.join("z")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "no bit that runs it as another user");
}

#[test]
fn stream_that_ends_early_or_is_too_large_leaves_no_half_file() {
    for (size, content) in [(10, &b"half"[..]), (LIMITS.bytes + 1, b"")] {
        let mut both = Both::new(&[]);
        let head = FileHead { name: b"file".to_vec(), metadata: metadata(0o644), size, link: None };
        let mut bytes = records(&[Record::File(head)]);
        let mut end = Vec::new();
        Record::End.encode(&mut end);
        // Without the end of the content either.
        bytes.truncate(bytes.len() - end.len() - 4);
        bytes.extend(content);
        deliver(&mut both.targets, &mut bytes.as_slice(), LIMITS).unwrap_err();
        assert_eq!(both.names(), [] as [String; 0]);
    }
}

#[test]
fn directory_of_the_copy_is_replaced_and_one_of_the_host_alone_is_merged() {
    let mut both = Both::new(&["copied", "file-now"]);
    for name in ["copied", "own", "file-now", "own-file"] {
        fs::create_dir(both.host.join(name)).unwrap();
        fs::write(both.host.join(name).join("old"), "host").unwrap();
    }
    let text = |text: &str| text.as_bytes().to_vec();
    let enter =
        |name| Record::Enter { name: text(name), metadata: metadata(0o755), replaces: true };
    let file = |name| {
        Record::File(FileHead { name: text(name), metadata: metadata(0o644), size: 0, link: None })
    };
    let all = [
        enter("copied"),
        Record::Leave,
        file("file-now"),
        enter("own"),
        file("new"),
        Record::Leave,
        file("own-file"),
    ];
    for _ in 0..2 {
        let undelivered =
            deliver(&mut both.targets, &mut records(&all).as_slice(), LIMITS).unwrap();
        let names: Vec<_> = undelivered.examples.iter().map(|it| it.path.as_slice()).collect();
        assert_eq!(names, [b"own-file"]);
        assert!(both.host.join("file-now").is_file() && both.host.join("own/new").is_file());
        assert_eq!(both.read("own/old"), "host");
        assert!(!both.host.join("copied/old").exists());
    }
    // What the host adds later is not removed by the same record.
    fs::write(both.host.join("copied/later"), "host").unwrap();
    deliver(&mut both.targets, &mut records(&all).as_slice(), LIMITS).unwrap();
    assert_eq!(both.read("copied/later"), "host");
}

#[test]
fn changed_file_keeps_the_permissions_of_the_host() {
    let mut both = Both::new(&[]);
    fs::write(both.host.join("private"), "old").unwrap();
    fs::set_permissions(both.host.join("private"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(both.inside.join("private"), "new").unwrap();
    assert_eq!(both.deliver(), []);
    let mode = fs::metadata(both.host.join("private")).unwrap().permissions().mode();
    assert_eq!((both.read("private").as_str(), mode & 0o7777), ("new", 0o600));
}

/// Opens directories, then has the records, and closes them.
fn within(directories: &[&str], inner: Vec<Record>) -> Vec<Record> {
    let enter = |name: &&str| Record::Enter {
        name: name.as_bytes().to_vec(),
        metadata: metadata(0o755),
        replaces: false,
    };
    let leave = directories.iter().map(|_| Record::Leave);
    directories.iter().map(enter).chain(inner).chain(leave.collect::<Vec<_>>()).collect()
}

fn file(name: &str, link: Option<u64>) -> Record {
    let name = name.as_bytes().to_vec();
    Record::File(FileHead { name, metadata: metadata(0o644), size: 0, link })
}

#[test]
fn link_of_a_broken_stream_gets_no_other_name_through_a_later_hard_link() {
    let mut both = Both::new(&[]);
    let directories = ["d1", "d2", "d3"];
    let first = records(&within(&directories, vec![file("a", Some(0))]));
    deliver(&mut both.targets, &mut first.as_slice(), LIMITS).unwrap();
    let link = Record::Link {
        name: b"a".to_vec(),
        target: b"../../../x".to_vec(),
        modified: Time::default(),
    };
    let mut broken = records(&within(&directories, vec![link]));
    // Breaks after the link, which is allowed there.
    let end = broken.len() - 4;
    broken[end] = 0xff;
    deliver(&mut both.targets, &mut broken.as_slice(), LIMITS).unwrap_err();
    assert!(both.host.join("d1/d2/d3/a").is_symlink());
    let mut all = within(&directories, vec![file("a", Some(0))]);
    all.push(Record::HardLink { name: b"z".to_vec(), link: 0 });
    deliver(&mut both.targets, &mut records(&all).as_slice(), LIMITS).unwrap();
    assert!(both.host.join("d1/d2/d3/a").is_file() && !both.host.join("d1/d2/d3/a").is_symlink());
    assert!(both.host.join("z").is_file() && !both.host.join("z").is_symlink());
}

#[test]
fn hard_link_to_a_name_that_the_host_replaced_by_a_link_is_refused() {
    let mut both = Both::new(&[]);
    let first = records(&[file("a", Some(0))]);
    deliver(&mut both.targets, &mut first.as_slice(), LIMITS).unwrap();
    fs::remove_file(both.host.join("a")).unwrap();
    symlink("../../../x", both.host.join("a")).unwrap();
    let all = [file("a", Some(0)), Record::HardLink { name: b"z".to_vec(), link: 0 }];
    let undelivered = deliver(&mut both.targets, &mut records(&all).as_slice(), LIMITS).unwrap();
    assert_eq!(undelivered.examples[0].path, b"z");
    assert_eq!(both.names(), ["a"]);
}

#[test]
fn files_with_other_names_in_many_directories_cost_no_descriptors() {
    let both = Both::new(&[]);
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let mut target = Target::new(open(&both.host), HashSet::new());
    let before = descriptors();
    let mut place = Place::new(&mut target).unwrap();
    for number in 0..300 {
        for record in within(&[&format!("{number:03}")], vec![file("a", Some(number))]) {
            let left_out = place.entry(record, &mut [0; 4].as_slice()).unwrap();
            assert_eq!(left_out, None);
        }
    }
    // Other tests open some too.
    let now = descriptors();
    assert!(now < before + 200, "{before} before, {now} now");
    let link = Record::HardLink { name: b"z".to_vec(), link: 299 };
    assert_eq!(place.entry(link, &mut [].as_slice()).unwrap(), None);
    place.finish();
    let inode = |name: &str| fs::metadata(both.host.join(name)).unwrap().ino();
    assert_eq!(inode("299/a"), inode("z"));
}

#[test]
fn paths_that_are_too_long_are_refused_by_name_and_their_sum_is_bounded() {
    let mut both = Both::new(&[]);
    let long = "n".repeat(MAX_NAME_BYTES);
    let mut all = within(&[long.as_str(); 17], vec![file("deep", None)]);
    all.push(file("z", None));
    let undelivered = deliver(&mut both.targets, &mut records(&all).as_slice(), LIMITS).unwrap();
    assert_eq!(undelivered.count, 1, "{undelivered:?}");
    assert_eq!(undelivered.examples[0].why, Refusal::LongName.to_string());
    assert_eq!(undelivered.examples[0].path.len(), 17 * (MAX_NAME_BYTES + 1) - 1);
    assert!(both.host.join("z").is_file());
    let deleted = |number: usize| Record::Deleted { name: format!("{number:05}").into_bytes() };
    let most = MAX_KEPT_BYTES / (15 * (MAX_NAME_BYTES + 1) + 5);
    for (count, fits) in [(most - 10, true), (most + 10, false)] {
        let all = within(&[long.as_str(); 15], (0..count).map(deleted).collect());
        let limits = Limits { entries: 100_000, ..LIMITS };
        let delivered = deliver(&mut both.targets, &mut records(&all).as_slice(), limits);
        assert_eq!(delivered.is_ok(), fits, "{count}");
    }
}

#[test]
fn deleted_directory_of_the_host_alone_stays_and_one_of_the_copy_goes_once() {
    let mut both = Both::new(&["copied"]);
    for name in ["copied", "own"] {
        fs::create_dir(both.host.join(name)).unwrap();
        fs::write(both.host.join(name).join("file"), "host").unwrap();
    }
    let deleted = |name: &str| Record::Deleted { name: name.as_bytes().to_vec() };
    let gone = records(&[deleted("copied"), deleted("own")]);
    let undelivered = deliver(&mut both.targets, &mut gone.as_slice(), LIMITS).unwrap();
    assert_eq!(undelivered.examples.len(), 1);
    assert_eq!(undelivered.examples[0].path, b"own");
    assert_eq!((both.names(), both.read("own/file")), (vec!["own".to_owned()], "host".to_owned()));
}

#[test]
fn deleted_directory_that_was_delivered_goes_without_what_the_host_put_there() {
    for has_own in [false, true] {
        let mut both = Both::new(&[]);
        let made = records(&within(&["made"], vec![file("file", None)]));
        deliver(&mut both.targets, &mut made.as_slice(), LIMITS).unwrap();
        if has_own {
            fs::write(both.host.join("made/own"), "host").unwrap();
        }
        let gone = records(&[Record::Deleted { name: b"made".to_vec() }]);
        for _ in 0..2 {
            let undelivered = deliver(&mut both.targets, &mut gone.as_slice(), LIMITS).unwrap();
            assert_eq!(undelivered.count, 0);
            assert!(!both.host.join("made/file").exists());
            assert_eq!(both.host.join("made").exists(), has_own);
        }
    }
}

proptest! {
    #[test]
    fn no_records_reach_beyond_the_directory(
        acts in proptest::collection::vec((0_u8..8, 0_usize..4), 0..24),
    ) {
        let mut both = Both::new(&["a", "a/a"]);
        let outside = both.host.parent().unwrap().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("a"), "outside").unwrap();
        fs::create_dir(both.host.join("a")).unwrap();
        symlink(&outside, both.host.join("a/a")).unwrap();
        symlink(&outside, both.host.join("b")).unwrap();
        let mut all = Vec::new();
        for (act, name) in acts {
            let name = ["a", "b", "c", "d"][name].as_bytes().to_vec();
            let file = |size| FileHead { name: name.clone(), metadata: metadata(0o644), size, link: Some(0) };
            all.push(match act {
                0 => Record::Leave,
                1 | 2 => Record::Enter { name, metadata: metadata(0o755), replaces: act == 1 },
                3 => Record::File(file(0)),
                4 => Record::File(file(9)),
                5 => Record::Link { name, target: b"a".to_vec(), modified: Time::default() },
                6 => Record::HardLink { name, link: 0 },
                _ => Record::Deleted { name },
            });
        }
        for _ in 0..2 {
            let _ = deliver(&mut both.targets, &mut records(&all).as_slice(), LIMITS);
        }
        prop_assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "outside");
        prop_assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        prop_assert!(both.names().iter().all(|name| !name.starts_with(host::TEMPORARY)));
    }
}
