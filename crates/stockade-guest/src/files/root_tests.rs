use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::*;

/// A tree with a root inside it, and a secret next to the root.
///
/// ```text
/// top/secret            must never be reached
/// top/root/file         "inside"
/// top/root/a/b/file     "deep"
/// ```
struct Tree {
    top: tempfile::TempDir,
    root: Root,
}

fn tree() -> Tree {
    let top = tempfile::tempdir().unwrap();
    let inside = top.path().join("root");
    fs::create_dir_all(inside.join("a/b")).unwrap();
    fs::write(top.path().join("secret"), "secret").unwrap();
    fs::write(inside.join("file"), "inside").unwrap();
    fs::write(inside.join("a/b/file"), "deep").unwrap();
    let root = Root::at(&inside).ok().unwrap();
    Tree { top, root }
}

impl Tree {
    fn inside(&self, name: &str) -> std::path::PathBuf {
        self.top.path().join("root").join(name)
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.inside(name)).unwrap();
    }

    /// What the file at a path contains, or the fault of resolving or opening it.
    fn read(&self, path: impl AsRef<[u8]>) -> Result<String, FileFault> {
        let path = PathBytes::try_from(path.as_ref().to_vec()).unwrap();
        let place = self.root.place(&path, Last::Follow, Missing::Fail).map_err(fault)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&place.directory, place.name(), flags, Mode::empty());
        let opened = opened.map_err(|errno| fault(Fault::from(errno)))?;
        let mut text = String::new();
        let read = fs::File::from(opened).read_to_string(&mut text);
        read.map_err(|_| FileFault::IsADirectory)?;
        Ok(text)
    }
}

fn fault(fault: Fault) -> FileFault {
    fault.kind
}

fn text(text: &str) -> Result<String, FileFault> {
    Ok(text.to_owned())
}

#[test]
fn paths_are_resolved_below_the_root_in_every_spelling() {
    let tree = tree();
    for path in ["/file", "file", "//file", "/./file", "./././file", "/a/../file"] {
        let expected = match path.contains("..") {
            true => Err(FileFault::Traversal),
            false => text("inside"),
        };
        assert_eq!(tree.read(path), expected, "{path}");
    }
    assert_eq!(tree.read("/a/b/file"), text("deep"));
    assert_eq!(tree.read("/a//b/./file"), text("deep"));
    assert_eq!(tree.read("/file/more"), Err(FileFault::NotADirectory));
    assert_eq!(tree.read("/nowhere/more"), Err(FileFault::NotFound));
}

#[test]
fn dots_in_a_path_are_refused_before_anything_is_opened() {
    let tree = tree();
    for path in ["..", "/..", "../secret", "/a/../../secret", "a/b/..", "/nowhere/../file"] {
        assert_eq!(tree.read(path), Err(FileFault::Traversal), "{path}");
    }
    fs::write(tree.inside("..."), "three").unwrap();
    assert_eq!(tree.read("/..."), text("three"), "three dots are a name");
}

#[test]
fn links_are_resolved_below_the_root_and_never_lead_out() {
    let tree = tree();
    let top = tree.top.path().to_owned();
    tree.link("a/b", "relative");
    tree.link("/a/b/file", "absolute");
    tree.link("../../../../file", "above");
    tree.link("relative/../../file", "back");
    assert_eq!(tree.read("/relative/file"), text("deep"));
    assert_eq!(tree.read("/absolute"), text("deep"), "an absolute link starts at the root");
    assert_eq!(tree.read("/above"), text("inside"), "above the root is the root");
    assert_eq!(tree.read("/back"), text("inside"));
    tree.link("../secret", "out");
    tree.link(top.join("secret"), "out-absolute");
    tree.link("..", "parent");
    for path in ["/out", "/out-absolute", "/parent/secret", "/parent/root/file"] {
        assert_eq!(tree.read(path), Err(FileFault::NotFound), "{path}");
    }
}

#[test]
fn link_at_the_end_is_kept_or_followed_as_asked() {
    let tree = tree();
    tree.link("/a/b", "link");
    let path = PathBytes::try_from(b"/link".to_vec()).unwrap();
    let place = |last| self_place(&tree.root, &path, last);
    assert_eq!(place(Last::Keep), "link");
    assert_eq!(place(Last::Follow), "b");
}

fn self_place(root: &Root, path: &PathBytes, last: Last) -> String {
    let place = root.place(path, last, Missing::Fail).ok().unwrap();
    place.name().to_str().unwrap().to_owned()
}

#[test]
fn circles_and_long_chains_of_links_end_with_an_error() {
    let tree = tree();
    tree.link("two", "one");
    tree.link("one", "two");
    tree.link("self/self", "self");
    let circle = tree.read("/one").unwrap_err();
    assert_eq!(
        (tree.read("/self").unwrap_err(), tree.read("/one/file").unwrap_err()),
        (circle, circle)
    );
    assert_ne!(circle, FileFault::NotFound);
    for number in 0..MAX_LINKS {
        let target = match number {
            0 => "file".to_owned(),
            number => format!("chain-{}", number - 1),
        };
        tree.link(target, &format!("chain-{number}"));
    }
    assert_eq!(tree.read(format!("/chain-{}", MAX_LINKS - 1)), text("inside"));
    tree.link(format!("chain-{}", MAX_LINKS - 1), "too-long");
    assert_eq!(tree.read("/too-long"), Err(circle));
}

#[test]
fn magic_links_of_proc_lead_nowhere() {
    // The root of this process contains /proc; its links name open files and directories.
    let root = Root::of_this_process().ok().unwrap();
    let top = tempfile::tempdir().unwrap();
    let secret = top.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let open = fs::File::open(&secret).unwrap();
    // The name of an open file that is gone is not a path, so only a magic link still reaches it.
    fs::remove_file(&secret).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&open);
    let path = format!("/proc/self/fd/{number}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "secret", "the kernel follows it");
    let path = PathBytes::try_from(path.into_bytes()).unwrap();
    let place = root.place(&path, Last::Follow, Missing::Fail).ok().unwrap();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(&place.directory, place.name(), flags, Mode::empty());
    assert_eq!(opened.unwrap_err(), Errno::NOENT);
}

#[test]
fn mount_points_are_crossed_like_directories() {
    // /proc is a file system of its own below the root of this process.
    let root = Root::of_this_process().ok().unwrap();
    for path in ["/proc/sys/kernel/ostype", "//proc/./sys/kernel/ostype"] {
        let path = PathBytes::try_from(path.as_bytes().to_vec()).unwrap();
        let place = root.place(&path, Last::Follow, Missing::Fail).ok().unwrap();
        let found = openat(&place.directory, place.name(), OFlags::RDONLY, Mode::empty()).unwrap();
        let mut text = String::new();
        fs::File::from(found).read_to_string(&mut text).unwrap();
        assert_eq!(text, "Linux\n");
    }
}

#[test]
fn names_have_any_bytes_except_separators() {
    use std::ffi::OsStr;
    let tree = tree();
    for name in [&b"\xff\xfe"[..], b"a\nb", b" ", b"-rf", b"*", b"\x1b[2J", b"caf\xc3\xa9", b"..."]
    {
        fs::write(tree.inside("").join(OsStr::from_bytes(name)), "named").unwrap();
        assert_eq!(tree.read([b"/", name].concat()), text("named"), "{name:?}");
        let link = [name, b"-link"].concat();
        symlink(OsStr::from_bytes(name), tree.inside("").join(OsStr::from_bytes(&link))).unwrap();
        assert_eq!(tree.read([b"/", link.as_slice()].concat()), text("named"), "{link:?}");
    }
}

#[test]
fn missing_directories_are_made_below_the_root_only() {
    let tree = tree();
    let make = |path: &str| {
        let path = PathBytes::try_from(path.as_bytes().to_vec()).unwrap();
        tree.root.place(&path, Last::Follow, Missing::Make).map(|_| ()).map_err(fault)
    };
    assert_eq!(make("/new/below/file"), Ok(()));
    assert!(tree.inside("new/below").is_dir() && !tree.inside("new/below/file").exists());
    tree.link("../../outside/dir", "dangling");
    assert_eq!(make("/dangling/file"), Ok(()));
    assert!(tree.inside("outside/dir").is_dir(), "above the root is the root");
    assert!(!tree.top.path().join("outside").exists());
    assert_eq!(make("/file/below/x"), Err(FileFault::NotADirectory));
    let closed = tree.inside("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    if !rustix::process::geteuid().is_root() {
        assert_eq!(make("/closed/new/file"), Err(FileFault::Permission));
    }
}
