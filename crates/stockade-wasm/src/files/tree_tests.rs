use proptest::prelude::*;
use stockade_policy::Policy;

use super::*;

fn tree() -> Tree {
    let policy = "{defaults: {max_memory_mb: 64}, limits: {max_inodes: 40}}";
    let policy = Policy::parse_str("p", policy, "/".as_ref()).unwrap();
    Tree::new(Arc::new(Budgets::of(&policy)), &["/workspace", "/tmp"]).unwrap()
}

const NEW: Opening = Opening {
    create: true,
    exclusive: false,
    truncate: false,
    directory: false,
    write: true,
    keep_link: false,
};

fn write(tree: &Tree, path: &str, text: &str) -> Result<(), Fault> {
    let (node, _) = tree.open(&tree.root(), path, NEW)?;
    node.write(Some(0), text.as_bytes())
}

fn read(tree: &Tree, path: &str) -> Result<String, Fault> {
    let node = tree.find(&tree.root(), path, Last::Follow)?.node.ok_or(Fault::NotFound)?;
    Ok(String::from_utf8(node.read(0, 1 << 20)?).unwrap())
}

#[test]
fn only_the_sandboxs_own_directories_can_be_changed() {
    let tree = tree();
    assert_eq!(write(&tree, "/workspace/a", "x"), Ok(()));
    assert_eq!(write(&tree, "/a", "x"), Err(Fault::ReadOnly));
    tree.add_file("/run/stockade/python/a.py", b"fixed").unwrap();
    assert_eq!(write(&tree, "/run/stockade/python/a.py", "x"), Err(Fault::ReadOnly));
    assert_eq!(write(&tree, "/run/stockade/python/b.py", "x"), Err(Fault::ReadOnly));
    let root = tree.root();
    for path in ["/run/stockade/python/a.py", "/workspace", "/dev/null"] {
        assert_eq!(tree.remove(&root, path, Removed::Everything), Err(Fault::ReadOnly), "{path}");
        assert_eq!(
            tree.rename((&root, path), (&root, "/tmp/x"), true),
            Err(Fault::ReadOnly),
            "{path}"
        );
    }
    assert_eq!(read(&tree, "/run/stockade/python/a.py").unwrap(), "fixed");
    assert_eq!(write(&tree, "/dev/null", "x"), Ok(()));
    assert_eq!(read(&tree, "/dev/null").unwrap(), "");
}

#[test]
fn links_lead_within_the_tree_and_circles_end() {
    let tree = tree();
    let root = tree.root();
    write(&tree, "/workspace/a", "x").unwrap();
    tree.make_link(&root, "/workspace/up", "../../../../workspace/a").unwrap();
    tree.make_link(&root, "/workspace/far", "/workspace/up").unwrap();
    tree.make_link(&root, "/workspace/self", "self").unwrap();
    tree.make_link(&root, "/workspace/dir", "/tmp").unwrap();
    assert_eq!(read(&tree, "/workspace/far").unwrap(), "x");
    assert_eq!(read(&tree, "/workspace/self"), Err(Fault::Loop));
    write(&tree, "/workspace/dir/b", "y").unwrap();
    assert_eq!(read(&tree, "/tmp/b").unwrap(), "y");
    assert_eq!(read(&tree, "/workspace/a/b"), Err(Fault::NotADirectory));
    assert_eq!(read(&tree, "/workspace/a/"), Err(Fault::NotADirectory));
}

#[test]
fn directory_cannot_be_moved_below_itself() {
    let tree = tree();
    let root = tree.root();
    tree.make_directory(&root, "/tmp/a").unwrap();
    tree.make_directory(&root, "/tmp/a/b").unwrap();
    let below = tree.rename((&root, "/tmp/a"), (&root, "/tmp/a/b/c"), true);
    assert_eq!(below, Err(Fault::Invalid));
    assert_eq!(tree.remove(&root, "/tmp/a", Removed::Directory), Err(Fault::NotEmpty));
    tree.rename((&root, "/tmp/a/b"), (&root, "/tmp/c"), false).unwrap();
    tree.remove(&root, "/tmp/a", Removed::Directory).unwrap();
}

#[test]
fn inodes_are_counted_and_returned() {
    let tree = tree();
    let root = tree.root();
    let made = (0..100).take_while(|n| tree.make_directory(&root, &format!("/tmp/{n}")).is_ok());
    let made = made.count();
    // Two are the directories of the sandbox.
    assert_eq!(made, 38);
    for number in 0..made {
        tree.remove(&root, &format!("/tmp/{number}"), Removed::Directory).unwrap();
    }
    assert!(tree.make_directory(&root, "/tmp/again").is_ok());
}

#[test]
fn removed_file_that_is_open_can_still_be_read() {
    let tree = tree();
    let root = tree.root();
    write(&tree, "/tmp/a", "kept").unwrap();
    let (node, _) = tree.open(&root, "/tmp/a", Opening::default()).unwrap();
    tree.remove(&root, "/tmp/a", Removed::File).unwrap();
    assert_eq!(node.read(0, 10).unwrap(), b"kept");
    assert_eq!(read(&tree, "/tmp/a"), Err(Fault::NotFound));
}

proptest! {
    #[test]
    fn no_path_panics_or_leaves_the_tree(path in "[a-z./]{0,40}", target in "[a-z./]{0,20}") {
        let tree = tree();
        let root = tree.root();
        let _ = tree.make_link(&root, "/workspace/l", &target);
        let _ = tree.find(&root, &path, Last::Follow);
        let _ = write(&tree, &format!("/workspace/{path}"), "x");
        let _ = tree.rename((&root, "/workspace/l"), (&root, &path), true);
        let _ = tree.remove(&root, &path, Removed::Everything);
        prop_assert!(tree.find(&root, "/workspace", Last::Keep).unwrap().node.is_some());
    }
}
