use std::io::Cursor;

use stockade_provider::{
    FileErrorKind, FileKind, FilePart, FilePath, FileWriteMode, FileWriting, Files, FinalLink,
};
use tokio::io::AsyncReadExt;

use crate::support::{run, sandbox};

fn path(text: &str) -> FilePath {
    FilePath::new(text).unwrap()
}

async fn read(files: &dyn Files, name: &str) -> Result<String, FileErrorKind> {
    let all = FilePart::default();
    let mut bytes = files.read(&path(name), all).await.map_err(|error| error.kind)?;
    let mut text = String::new();
    bytes.read_to_string(&mut text).await.unwrap();
    Ok(text)
}

async fn write(
    files: &dyn Files,
    name: &str,
    mode: FileWriteMode,
    text: &'static str,
) -> Result<u64, FileErrorKind> {
    let how = FileWriting { mode, executable: false };
    let content = Box::new(Cursor::new(text.as_bytes()));
    files.write(&path(name), how, content).await.map_err(|error| error.kind)
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_and_programs_share_the_files() {
    let sandbox = sandbox("{}").await;
    let files = sandbox.files().unwrap();
    let files = files.as_ref();
    write(files, "a/b.txt", FileWriteMode::Create, "one").await.unwrap();
    let again = write(files, "a/b.txt", FileWriteMode::Create, "x").await;
    assert_eq!(again, Err(FileErrorKind::Exists));
    write(files, "/workspace/a/b.txt", FileWriteMode::Append, " two").await.unwrap();
    let code = "import os\nprint(open('a/b.txt').read())\nos.symlink('b.txt', 'a/link')\n\
                open('c.txt', 'w').write('made')";
    assert_eq!(run(sandbox.as_ref(), code).await.stdout, "one two\n");
    assert_eq!(read(files, "c.txt").await.unwrap(), "made");
    write(files, "c.txt", FileWriteMode::Replace, "new").await.unwrap();
    assert_eq!(read(files, "c.txt").await.unwrap(), "new");
    let mut names: Vec<String> = files
        .list(&path("/workspace"), 3, 100)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.path.to_string())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "a/b.txt", "a/link", "c.txt"]);
    let link = files.stat(&path("a/link"), FinalLink::Keep).await.unwrap();
    assert_eq!((link.kind, link.target), (FileKind::Link, Some(b"b.txt".to_vec())));
    assert_eq!(files.stat(&path("a/link"), FinalLink::Follow).await.unwrap().bytes, 7);
    files.rename(&path("c.txt"), &path("a/d.txt"), false).await.unwrap();
    assert_eq!(read(files, "c.txt").await, Err(FileErrorKind::NotFound));
    let full = files.remove(&path("a"), false).await.map_err(|error| error.kind);
    assert_eq!(full.unwrap_err(), FileErrorKind::NotEmpty);
    assert!(files.remove(&path("a"), true).await.unwrap());
    assert!(!files.remove(&path("a"), true).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_goes_in_and_out_and_nothing_leaves_its_directory() {
    let sandbox = sandbox("{}").await;
    let files = sandbox.files().unwrap();
    run(sandbox.as_ref(), "import os; os.makedirs('t/u'); open('t/u/f', 'w').write('x')").await;
    let mut archive = Vec::new();
    files
        .download(&path("t"), FinalLink::Keep)
        .await
        .unwrap()
        .read_to_end(&mut archive)
        .await
        .unwrap();
    let sent = files.upload(&path("copy"), Box::new(Cursor::new(archive))).await.unwrap();
    assert_eq!(sent.bytes, 1);
    assert_eq!(read(files.as_ref(), "copy/t/u/f").await.unwrap(), "x");
    for name in ["../../tmp/escaped", "/tmp/escaped"] {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(1);
        header.set_mode(0o644);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, &b"x"[..]).unwrap();
        let archive = Box::new(Cursor::new(builder.into_inner().unwrap()));
        let error = files.upload(&path("copy"), archive).await.unwrap_err();
        assert_eq!(error.kind, FileErrorKind::Archive, "{name}");
    }
    let garbage = Box::new(Cursor::new(vec![b'x'; 2000]));
    assert_eq!(
        files.upload(&path("copy"), garbage).await.unwrap_err().kind,
        FileErrorKind::Archive
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_and_protected_places_hold_for_the_caller_too() {
    let sandbox = sandbox("limits: {max_disk_mb: 1}").await;
    let files = sandbox.files().unwrap();
    let how = FileWriting { mode: FileWriteMode::Replace, executable: false };
    let large = Box::new(Cursor::new(vec![0; 2 << 20]));
    let error = files.write(&path("large"), how, large).await.unwrap_err();
    assert_eq!(error.kind, FileErrorKind::Quota);
    assert_eq!(files.list(&path("/workspace"), 1, 10).await.unwrap(), [], "nothing is left of it");
    let refused = write(files.as_ref(), "/dev/x", FileWriteMode::Create, "x").await;
    assert_eq!(refused, Err(FileErrorKind::Permission));
    let error = files.watch(&path("/workspace"), true).await.err().unwrap();
    assert!(stockade_provider::chain(&error).contains("does not watch files"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mounted_directory_is_the_hosts_and_the_error_names_it() {
    let host = tempfile::tempdir().unwrap();
    let shown = host.path().canonicalize().unwrap();
    let policy = format!("filesystem: {{read: [{{host: {}, guest: /data}}]}}", shown.display());
    let sandbox = sandbox(&policy).await;
    let files = sandbox.files().unwrap();
    let error = files.read(&path("/data/a"), FilePart::default()).await.err().unwrap();
    assert_eq!(error.kind, FileErrorKind::Permission);
    let text = stockade_provider::chain(&error);
    assert!(text.contains(&shown.display().to_string()), "{text}");
}
