use proptest::prelude::*;
use stockade_archive::tree::Node as SpecialNode;
use stockade_policy::Policy;
use stockade_provider::FilePath;
use tokio::io::AsyncReadExt;

use super::*;
use crate::files::archive;
use crate::files::tree::{Opening, Removed};
use crate::limits::Budgets;

fn tree_with(limits: &str) -> Tree {
    let policy = format!("{{defaults: {{max_memory_mb: 64}}, limits: {limits}}}");
    let policy = Policy::parse_str("p", &policy, "/".as_ref()).unwrap();
    let budgets = Arc::new(Budgets::of(&policy));
    Tree::new(budgets, &["/workspace", "/tmp", "/var/tmp"]).unwrap()
}

fn tree() -> Tree {
    tree_with("{max_inodes: 4000}")
}

fn places() -> Vec<WritablePlace> {
    let place = |path: &str| {
        let path = FilePath::new(path).unwrap();
        WritablePlace { path, base: None, skip: Vec::new() }
    };
    ["/tmp", "/var/tmp", "/workspace"].map(place).to_vec()
}

fn write(tree: &Tree, path: &str, bytes: &[u8]) -> Arc<Node> {
    let how = Opening { create: true, write: true, ..Opening::default() };
    let (node, _) = tree.open(&tree.root(), path, how).unwrap();
    node.write(Some(0), bytes).unwrap();
    node
}

fn read(tree: &Tree, path: &str) -> Result<Vec<u8>, Fault> {
    let node = tree.find(&tree.root(), path, Last::Follow)?.node.ok_or(Fault::NotFound)?;
    node.read(0, usize::MAX)
}

fn bytes_of(mut captured: Captured) -> Vec<u8> {
    let mut bytes = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(captured.read_to_end(&mut bytes)).unwrap();
    bytes
}

fn captured(tree: &Tree) -> Vec<u8> {
    bytes_of(capture(tree, &places()).ok().unwrap())
}

/// Why records are not filled.
fn refusal(tree: &Tree, mut bytes: &[u8]) -> (FileErrorKind, String) {
    match fill(tree, &places(), &mut bytes).unwrap_err() {
        Failure::Fault(fault) => (fault.kind(), String::new()),
        Failure::Kind(kind) => (kind, String::new()),
        Failure::Because(kind, why) => (kind, why.to_string()),
    }
}

#[test]
fn tree_with_every_kind_of_entry_is_filled_as_it_was_captured() {
    let tree = tree();
    let root = tree.root();
    tree.make_directory(&root, "/workspace/deep").unwrap();
    tree.make_directory(&root, "/workspace/deep/empty").unwrap();
    write(&tree, "/workspace/deep/file", b"content").make_executable();
    tree.link((&root, "/workspace/deep/file"), (&root, "/tmp/same")).unwrap();
    tree.make_link(&root, "/workspace/link", "deep/file").unwrap();
    let sparse = write(&tree, "/var/tmp/sparse", b"");
    sparse.set_len(8 << 20).unwrap();
    sparse.write(Some(5 << 20), b"middle").unwrap();
    sparse.set_modified(UNIX_EPOCH + Duration::new(1_000_000_000, 7));
    let first = captured(&tree);
    assert!(first.len() < 1 << 20, "holes are not copied: {}", first.len());
    let other = tree_with("{max_inodes: 16, max_disk_mb: 9}");
    write(&other, "/workspace/link", b"in the way");
    let filled = fill(&other, &places(), &mut first.as_slice()).ok().unwrap();
    assert_eq!(filled, Transfer { bytes: 7 + PIECE as u64, left_out: 0 });
    assert_eq!(captured(&other), first);
    assert_eq!(read(&other, "/workspace/link").unwrap(), b"content");
    write(&other, "/tmp/same", b"changed");
    assert_eq!(read(&other, "/workspace/deep/file").unwrap(), b"changed", "one file, two names");
    assert_eq!(read(&tree, "/workspace/deep/file").unwrap(), b"content", "another tree");
}

#[test]
fn write_after_a_capture_is_not_in_it_and_loses_nothing() {
    let tree = tree();
    let file = write(&tree, "/workspace/file", b"first");
    let before = captured(&tree);
    let streaming = capture(&tree, &places()).ok().unwrap();
    file.set_len(3).unwrap();
    file.write(None, b"xyz").unwrap();
    write(&tree, "/workspace/new", b"new");
    tree.remove(&tree.root(), "/workspace/file", Removed::File).unwrap();
    assert_eq!(bytes_of(streaming), before);
    assert_eq!(file.read(0, 100).unwrap(), b"firxyz");
}

#[test]
fn fill_obeys_the_limits_of_its_sandbox() {
    let tree = tree();
    write(&tree, "/workspace/large", &vec![1; 3 << 20]);
    for number in 0..13 {
        write(&tree, &format!("/workspace/{number}"), b"x");
    }
    let bytes = captured(&tree);
    assert!(
        fill(&tree_with("{max_disk_mb: 4, max_inodes: 17}"), &places(), &mut bytes.as_slice())
            .is_ok()
    );
    for limits in ["{max_disk_mb: 3}", "{max_inodes: 16}"] {
        assert_eq!(refusal(&tree_with(limits), &bytes).0, FileErrorKind::Quota, "{limits}");
    }
    let mut lie = Vec::new();
    Record::Place { number: 0, changes: false, metadata: Metadata::default() }.encode(&mut lie);
    let size = u64::MAX >> 1;
    Record::File(FileHead { name: b"lie".into(), size, ..FileHead::default() }).encode(&mut lie);
    assert_eq!(refusal(&tree, &lie).0, FileErrorKind::Quota);
}

#[test]
fn what_this_wall_cannot_have_is_refused_by_name() {
    let place = Record::Place { number: 0, changes: false, metadata: Metadata::default() };
    let filled = |record: Record| {
        let mut bytes = Vec::new();
        for record in [&place, &record, &Record::End] {
            record.encode(&mut bytes);
        }
        refusal(&tree(), &bytes)
    };
    let (kind, metadata) = (SpecialNode::Fifo, Metadata::default());
    let (kind, why) = filled(Record::Node { name: b"pipe".into(), kind, metadata });
    assert_eq!(kind, FileErrorKind::SpecialFile);
    assert_eq!(why, "pipe is a FIFO or a socket, which this wall does not have");
    let (name, target) = (b"l\xff".to_vec(), b"x".to_vec());
    let (_, why) = filled(Record::Link { name, target, modified: Time::default() });
    assert_eq!(why, "the name l\\xff is not UTF-8, and this wall has only such names");
    let mut changes = Vec::new();
    Record::Place { number: 0, changes: true, metadata: Metadata::default() }.encode(&mut changes);
    Record::Deleted { name: b"x".into() }.encode(&mut changes);
    assert_eq!(refusal(&tree(), &changes).0, FileErrorKind::Archive);
    assert_eq!(
        filled(Record::Place { number: 3, changes: false, metadata: Metadata::default() }).0,
        FileErrorKind::Archive,
        "a place that does not exist"
    );
}

#[test]
fn files_of_the_wall_itself_are_neither_captured_nor_replaced() {
    let with_file = || {
        let tree = tree();
        tree.add_file("/tmp/mounted", b"the policy's").unwrap();
        tree
    };
    let tree = with_file();
    write(&tree, "/tmp/own", b"own");
    let bytes = captured(&tree);
    let other = with_file();
    fill(&other, &places(), &mut bytes.as_slice()).ok().unwrap();
    assert_eq!(read(&other, "/tmp/own").unwrap(), b"own");
    let plain = self::tree();
    fill(&plain, &places(), &mut bytes.as_slice()).ok().unwrap();
    assert_eq!(read(&plain, "/tmp/mounted"), Err(Fault::NotFound));
    write(&plain, "/tmp/mounted", b"a program's");
    assert_eq!(refusal(&with_file(), &captured(&plain)).0, FileErrorKind::Permission);
}

#[test]
fn tree_that_renames_made_too_deep_is_refused_without_overflow() {
    let tree = tree_with("{max_inodes: 100000}");
    let root = tree.root();
    for round in 0..100 {
        let top = format!("/tmp/{round}");
        let mut path = top.clone();
        tree.make_directory(&root, &top).unwrap();
        for _ in 0..500 {
            path.push_str("/d");
            tree.make_directory(&root, &path).unwrap();
        }
        if round > 0 {
            let below = format!("/tmp/{}", round - 1);
            tree.rename((&root, &below), (&root, &format!("{path}/n")), false).unwrap();
        }
    }
    let too_large =
        |result: Result<(), Failure>| matches!(result, Err(Failure::Kind(FileErrorKind::TooLarge)));
    assert!(too_large(capture(&tree, &places()).map(|_| ())));
    let node = tree.find(&root, "/tmp/99", Last::Keep).unwrap().node.unwrap();
    assert!(too_large(archive::pack(&node, "99").map(|_| ())));
}

#[test]
fn file_without_a_captured_content_is_an_error_and_not_an_empty_file() {
    let tree = tree();
    let file = write(&tree, "/workspace/kept", b"content");
    let root = place_node(&tree, &places()[2]).unwrap();
    let mut walk = Walk {
        names: HashMap::from([(file.number, 1)]),
        contents: HashMap::new(),
        links: HashMap::new(),
        parts: VecDeque::new(),
        records: Vec::new(),
    };
    match walk.directory(&root) {
        Err(Failure::Because(FileErrorKind::Incomplete, why)) => {
            let found = why.downcast_ref::<CaptureError>().unwrap();
            assert!(matches!(found, CaptureError::NoContent { name } if name == "kept"), "{why}");
        }
        _ => panic!("the missing content is an error"),
    }
    walk.contents.insert(file.number, Arc::new(b"content".to_vec()));
    assert!(walk.directory(&root).is_ok(), "the same walk with the content works");
}

proptest! {
    #[test]
    fn any_change_of_a_stream_is_filled_or_refused(
        at in 0_usize..200,
        bytes in proptest::collection::vec(0_u8.., 0..40),
    ) {
        let tree = tree();
        tree.make_directory(&tree.root(), "/tmp/a").unwrap();
        write(&tree, "/tmp/a/file", b"content");
        tree.link((&tree.root(), "/tmp/a/file"), (&tree.root(), "/workspace/same")).unwrap();
        let mut stream = captured(&tree);
        let at = at.min(stream.len());
        let end = (at + bytes.len()).min(stream.len());
        stream.splice(at..end, bytes);
        let _ = fill(&self::tree(), &places(), &mut stream.as_slice());
    }
}
