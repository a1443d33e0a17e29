//! Reading, writing, listing and changing files.

use stockade_provider::{
    FileErrorKind, FileKind, FilePart, FilePath, FileWriteMode, FileWriting, FinalLink,
};

use crate::support::{Inside, bytes, kind, path, runtime, walls_can_be_built};

#[test]
fn written_file_is_read_by_programs_and_by_the_host() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::new().await;
        assert_eq!(inside.write("a/b/c.txt", b"hello\n").await.unwrap(), 6);
        assert_eq!(inside.shell("cat /workspace/a/b/c.txt").await, "hello\n");
        assert_eq!(inside.read("/workspace/a/b/c.txt").await.unwrap(), b"hello\n");
        let modes = inside.shell("stat -c '%u %a' a a/b/c.txt; id -u").await;
        let id = modes.lines().last().unwrap();
        assert_eq!(modes, format!("{id} 755\n{id} 644\n{id}\n"));
        inside.shell("printf 0123456789 > digits").await;
        let part = FilePart { offset: 3, length: Some(4) };
        assert_eq!(inside.read_part(&path("digits"), part).await.unwrap(), b"3456");
        let after = FilePart { offset: 20, length: None };
        assert_eq!(inside.read_part(&path("digits"), after).await.unwrap(), b"");
    });
}

#[test]
fn large_content_passes_in_both_directions() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::new().await;
        let content: Vec<u8> = (0..5_000_000_u32).map(|at| (at * 7 / 3) as u8).collect();
        assert_eq!(inside.write("large", &content).await.unwrap(), 5_000_000);
        assert!(inside.read("large").await.unwrap() == content);
        assert_eq!(inside.shell("wc -c < large").await.trim(), "5000000");
    });
}

#[test]
fn write_modes_create_append_and_keep_permissions() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::new().await;
        let write = async |mode, executable, content: &[u8]| {
            let how = FileWriting { mode, executable };
            inside.files.write(&path("file"), how, bytes(content)).await
        };
        write(FileWriteMode::Create, false, b"one").await.unwrap();
        assert_eq!(kind(write(FileWriteMode::Create, false, b"two").await), FileErrorKind::Exists);
        write(FileWriteMode::Append, false, b"two").await.unwrap();
        assert_eq!(inside.read("file").await.unwrap(), b"onetwo");
        write(FileWriteMode::Replace, true, b"#!/bin/sh\necho ran\n").await.unwrap();
        assert_eq!(inside.shell("./file").await, "ran\n");
        inside.shell("chmod 700 file").await;
        write(FileWriteMode::Replace, false, b"x").await.unwrap();
        assert_eq!(inside.shell("stat -c %a file; ls -A | wc -l").await, "700\n1\n");
    });
}

#[test]
fn list_shows_every_kind_of_file_to_the_given_depth() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::new().await;
        inside.shell("mkdir -p d/e/f; printf abc > d/g; ln -s /etc d/link; mkfifo d/fifo").await;
        let shown = |entries: Vec<stockade_provider::FileEntry>| -> Vec<(String, FileKind, u64)> {
            let size = |kind, bytes| if kind == FileKind::File { bytes } else { 0 };
            let one = |entry: stockade_provider::FileEntry| {
                let kind = entry.stat.kind;
                (entry.path.to_string(), kind, size(kind, entry.stat.bytes))
            };
            entries.into_iter().map(one).collect()
        };
        let top = [
            ("e".to_owned(), FileKind::Directory, 0),
            ("fifo".to_owned(), FileKind::Special, 0),
            ("g".to_owned(), FileKind::File, 3),
            ("link".to_owned(), FileKind::Link, 0),
        ];
        assert_eq!(shown(inside.list("d", 1).await.unwrap()), top);
        let mut all = top.to_vec();
        all.insert(1, ("e/f".to_owned(), FileKind::Directory, 0));
        assert_eq!(shown(inside.list("d", 9).await.unwrap()), all);
        let link = inside.files.stat(&path("d/link"), FinalLink::Keep).await.unwrap();
        assert_eq!((link.kind, link.target.as_deref()), (FileKind::Link, Some(&b"/etc"[..])));
        let followed = inside.files.stat(&path("d/link"), FinalLink::Follow).await.unwrap();
        assert_eq!(followed.kind, FileKind::Directory);
        assert_eq!(kind(inside.files.list(&path("d"), 9, 4).await), FileErrorKind::TooLarge);
    });
}

#[test]
fn directories_are_made_and_files_moved_and_removed() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::new().await;
        let files = &inside.files;
        files.make_directory(&path("x/y"), true).await.unwrap();
        files.make_directory(&path("x/y"), true).await.unwrap();
        assert_eq!(kind(files.make_directory(&path("x"), false).await), FileErrorKind::Exists);
        let deep = files.make_directory(&path("q/r"), false).await;
        assert_eq!(kind(deep), FileErrorKind::NotFound);
        inside.write("x/file", b"1").await.unwrap();
        inside.write("other", b"2").await.unwrap();
        let refused = files.rename(&path("x/file"), &path("other"), false).await;
        assert_eq!(kind(refused), FileErrorKind::Exists);
        files.rename(&path("x/file"), &path("other"), true).await.unwrap();
        assert_eq!(inside.read("other").await.unwrap(), b"1");
        files.rename(&path("x"), &path("new/place"), false).await.unwrap();
        assert_eq!(inside.shell("find new | sort").await, "new\nnew/place\nnew/place/y\n");
        assert_eq!(kind(files.remove(&path("new"), false).await), FileErrorKind::NotEmpty);
        inside.shell("ln -s /workspace/other new/link").await;
        assert!(files.remove(&path("new"), true).await.unwrap());
        assert!(!files.remove(&path("new"), true).await.unwrap());
        assert!(!files.remove(&path("nothing/here"), true).await.unwrap());
        assert_eq!(inside.shell("ls").await, "other\n");
    });
}

#[test]
fn names_in_any_bytes_are_kept() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::new().await;
        let name = FilePath::new(b"caf\xe9 \n\x1b\xff".to_vec()).unwrap();
        let how = FileWriting { mode: FileWriteMode::Replace, executable: false };
        inside.files.write(&name, how, bytes(b"in")).await.unwrap();
        let listed = inside.list(".", 1).await.unwrap();
        assert_eq!(listed.iter().map(|one| &one.path).collect::<Vec<_>>(), [&name]);
        assert_eq!(inside.shell(r#"cat "caf$(printf '\351 \n\033\377')""#).await, "in");
        assert!(inside.files.remove(&name, false).await.unwrap());
        assert_eq!(inside.shell("ls").await, "");
    });
}

#[test]
fn every_failure_has_its_kind() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::new().await;
        inside
            .shell(
                "mkdir d; printf x > f; mkfifo fifo; ln -s loop loop; mkdir d/full; : > d/full/x",
            )
            .await;
        assert_eq!(kind(inside.read("none").await), FileErrorKind::NotFound);
        assert_eq!(kind(inside.read("d").await), FileErrorKind::IsADirectory);
        assert_eq!(kind(inside.write("d", b"").await), FileErrorKind::IsADirectory);
        assert_eq!(kind(inside.read("f/g").await), FileErrorKind::NotADirectory);
        assert_eq!(kind(inside.write("f/g", b"").await), FileErrorKind::NotADirectory);
        assert_eq!(kind(inside.list("f", 1).await), FileErrorKind::NotADirectory);
        assert_eq!(kind(inside.read("fifo").await), FileErrorKind::SpecialFile);
        assert_eq!(kind(inside.write("fifo", b"x").await), FileErrorKind::SpecialFile);
        assert_eq!(kind(inside.read("/dev/zero").await), FileErrorKind::SpecialFile);
        assert_eq!(kind(inside.read("loop").await), FileErrorKind::Traversal);
        assert_eq!(kind(inside.write("/usr/x", b"").await), FileErrorKind::Permission);
        let long = "n".repeat(300);
        assert_eq!(kind(inside.write(&long, b"").await), FileErrorKind::NameTooLong);
        let error = inside.read("none").await.unwrap_err();
        assert_eq!(error.to_string(), "cannot read none: no such file or directory");
        // The links of /proc name files of the guest, and are not followed.
        for magic in ["/proc/self/fd/0", "/proc/self/exe", "/proc/1/exe"] {
            assert_ne!(kind(inside.read(magic).await), FileErrorKind::Lost, "{magic}");
        }
    });
}

#[test]
fn full_space_is_a_quota_error_and_keeps_the_old_content() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::under("{version: \"2\", limits: {max_disk_mb: 4}}").await;
        inside.write("kept", b"old").await.unwrap();
        let full = inside.write("kept", &vec![7; 16 << 20]).await;
        let error = full.unwrap_err();
        assert_eq!(error.kind, FileErrorKind::Quota);
        assert!(error.kind.remedy().is_some_and(|remedy| remedy.contains("max_disk_mb")));
        assert_eq!(inside.read("kept").await.unwrap(), b"old");
        assert_eq!(inside.shell("ls -A").await, "kept\n");
        inside.write("kept", &vec![7; 1 << 20]).await.unwrap();
    });
}

#[test]
fn operations_continue_while_a_program_ends_and_is_cleaned_up() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = Inside::new().await;
        // The content ends only after a program and its orphans are gone.
        let (mut sender, receiver) = tokio::io::duplex(1024);
        let how = FileWriting { mode: FileWriteMode::Replace, executable: false };
        let name = path("slow");
        let write = inside.files.write(&name, how, Box::new(receiver));
        let meanwhile = async {
            use tokio::io::AsyncWriteExt;
            sender.write_all(b"first").await.unwrap();
            inside.shell("setsid sleep 1000 >/dev/null 2>&1 & true").await;
            let left = inside.shell("cat /proc/[0-9]*/comm | grep -x sleep || true").await;
            assert_eq!(left, "", "the orphan is gone");
            sender.write_all(b" last").await.unwrap();
            drop(sender);
        };
        let (written, ()) = tokio::join!(write, meanwhile);
        assert_eq!(written.unwrap(), 10);
        assert_eq!(inside.read("slow").await.unwrap(), b"first last");
    });
}

#[test]
fn content_that_ends_early_changes_nothing() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        struct Broken(usize);
        impl tokio::io::AsyncRead for Broken {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.0 += 1;
                if self.0 > 3 {
                    return std::task::Poll::Ready(Err(std::io::Error::other("broken")));
                }
                buffer.put_slice(b"part");
                std::task::Poll::Ready(Ok(()))
            }
        }
        let inside = Inside::new().await;
        inside.write("file", b"old").await.unwrap();
        let how = FileWriting { mode: FileWriteMode::Replace, executable: false };
        let broken = inside.files.write(&path("file"), how, Box::new(Broken(0))).await;
        assert_eq!(kind(broken), FileErrorKind::Incomplete);
        assert_eq!(inside.read("file").await.unwrap(), b"old");
        // The guest removes the temporary file when it sees that the stream has ended.
        let wait =
            "for i in $(seq 100); do [ $(ls -A | wc -l) = 1 ] && break; sleep 0.05; done; ls -A";
        assert_eq!(inside.shell(wait).await, "file\n");
    });
}
