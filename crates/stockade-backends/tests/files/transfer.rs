//! Trees in both directions, and watches.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use stockade_archive::{Limits, Links, Rename, Unpacked, pack, unpack};
use stockade_provider::{FileChangeKind, FileErrorKind, FilePath, FinalLink, Transfer};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::support::{Inside, bytes, kind, path, runtime, walls_can_be_built};

const LIMITS: Limits = Limits { entries: 100_000, bytes: 1 << 40 };

fn packed(tree: &Path, name: &str) -> Vec<u8> {
    let parent = fs::File::open(tree.parent().unwrap()).unwrap();
    let mut archive = Vec::new();
    let own = tree.file_name().unwrap().as_encoded_bytes();
    pack(parent.as_fd(), own, name.as_bytes(), &mut archive).unwrap();
    archive
}

async fn downloaded(inside: &Inside, name: &str, to: &Path) -> Unpacked {
    let mut archive = Vec::new();
    let mut stream = inside.files.download(&path(name), FinalLink::Follow).await.unwrap();
    stream.read_to_end(&mut archive).await.unwrap();
    let root = fs::File::open(to).unwrap();
    unpack(archive.as_slice(), root.as_fd(), Rename::Keep, Links::Below, LIMITS).unwrap()
}

#[test]
fn tree_is_copied_in_and_out() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("sub")).unwrap();
        fs::write(tree.join("sub/data"), vec![7; 300_000]).unwrap();
        fs::write(tree.join("run.sh"), "#!/bin/sh\necho ran\n").unwrap();
        fs::set_permissions(tree.join("run.sh"), fs::Permissions::from_mode(0o775)).unwrap();
        symlink("sub/data", tree.join("link")).unwrap();
        let inside = Inside::new().await;
        let archive = packed(&tree, "project");
        let done = inside.files.upload(&path("deep/er"), bytes(&archive)).await.unwrap();
        assert_eq!(done, Transfer { bytes: 300_019, left_out: 0 });
        let seen = "cd deep/er/project; ./run.sh; wc -c < link; stat -c '%u %a %n' run.sh sub sub/data; id -u";
        let printed = inside.shell(seen).await;
        let id = printed.lines().last().unwrap();
        let expected =
            format!("ran\n300000\n{id} 755 run.sh\n{id} 755 sub\n{id} 644 sub/data\n{id}\n");
        assert_eq!(printed, expected);
        inside.shell("cd deep/er/project; mkfifo pipe; ln -s /etc/passwd out; mkdir empty").await;
        let to = folder.path().join("to");
        fs::create_dir(&to).unwrap();
        let done = downloaded(&inside, "deep/er/project", &to).await;
        assert_eq!((done.bytes, done.left_out), (300_019, 1), "the link that leads out");
        assert_eq!(fs::read(to.join("project/link")).unwrap(), vec![7; 300_000]);
        assert!(to.join("project/empty").is_dir() && !to.join("project/pipe").exists());
        let mode = fs::metadata(to.join("project/run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    });
}

#[test]
fn failures_of_transfers_are_typed() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::under("{version: \"2\", limits: {max_disk_mb: 4}}").await;
        let files = &inside.files;
        let missing = files.download(&path("none"), FinalLink::Follow).await;
        assert_eq!(kind(missing), FileErrorKind::NotFound);
        inside.shell("mkfifo pipe").await;
        let fifo = files.download(&path("pipe"), FinalLink::Follow).await;
        assert_eq!(kind(fifo), FileErrorKind::SpecialFile);
        let garbage = files.upload(&path("to"), bytes(&[1; 4096])).await;
        assert_eq!(kind(garbage), FileErrorKind::Archive);
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large");
        fs::write(&large, vec![1; 8 << 20]).unwrap();
        let full = files.upload(&path("to"), bytes(&packed(&large, "large"))).await;
        let error = full.unwrap_err();
        assert_eq!(error.kind, FileErrorKind::Quota);
        assert_eq!(
            stockade_provider::chain(&error),
            "cannot upload to to: the sandbox's space for files is full: at large"
        );
        let outside = files.upload(&path("to"), bytes(&packed(&large, "../large"))).await;
        assert_eq!(kind(outside), FileErrorKind::Traversal);
    });
}

#[test]
fn sparse_file_of_20_gb_streams_in_little_memory() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::new().await;
        let made = inside.shell("truncate -s 20G big 2>&1 || ulimit -f; stat -c %s big").await;
        assert_eq!(made, "21474836480\n");
        let before = resident_kb();
        let mut most = before;
        let mut stream = inside.files.download(&path("big"), FinalLink::Follow).await.unwrap();
        // All of it takes a minute; the memory of a stream does not grow after its first part.
        let part = if std::env::var_os("STOCKADE_LONG").is_some() { u64::MAX } else { 512 << 20 };
        let read = drain(&mut stream, part, &mut most).await;
        assert!(read >= part.min(20 << 30), "{read}");
        let grown = most - before;
        stockade_testing::say(&format!(
            "read {read} bytes of a sparse file, resident memory grew by {grown} kB"
        ));
        assert!(grown < 64 << 10, "{grown} kB");
        drop(stream);
        assert_eq!(inside.shell("echo alive").await, "alive\n");
    });
}

async fn drain(stream: &mut (impl AsyncRead + Unpin), most: u64, resident: &mut u64) -> u64 {
    let mut buffer = vec![0; 256 << 10];
    let mut read = 0;
    while read < most {
        match stream.read(&mut buffer).await.unwrap() {
            0 => break,
            bytes => {
                if read % (16 << 20) < bytes as u64 {
                    *resident = resident_kb().max(*resident);
                }
                read += bytes as u64;
            }
        }
    }
    read
}

fn resident_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn changes_are_reported_also_in_new_directories() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::new().await;
        inside.shell("mkdir watched; echo 1 > watched/old").await;
        let mut watch = inside.files.watch(&path("watched"), true).await.unwrap();
        inside
            .shell("cd watched; echo 2 >> old; mkdir new; echo 3 > new/file; mv old gone; rm gone")
            .await;
        let mut seen = Vec::new();
        let last = (FileChangeKind::Removed, "gone".to_owned());
        while !seen.contains(&last) {
            let next = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
            let change = next.expect("a change comes").unwrap().expect("the watch goes on");
            seen.push((change.kind, change.path.map_or(String::new(), |path| path.to_string())));
        }
        for (kind, name) in [
            (FileChangeKind::Modified, "old"),
            (FileChangeKind::Created, "new"),
            (FileChangeKind::Created, "new/file"),
            (FileChangeKind::Removed, "old"),
            (FileChangeKind::Created, "gone"),
        ] {
            assert!(seen.contains(&(kind, name.to_owned())), "{kind:?} {name}: {seen:?}");
        }
        inside.files.remove(&path("watched"), true).await.unwrap();
        let mut end = watch.next().await.unwrap();
        while let Some(change) = end {
            assert_ne!(change.kind, FileChangeKind::Lost);
            end = watch.next().await.unwrap();
        }
        let file = FilePath::try_from("/etc/passwd").unwrap();
        assert_eq!(kind(inside.files.watch(&file, false).await), FileErrorKind::NotADirectory);
    });
}
