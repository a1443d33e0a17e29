//! The files of a sandbox, over the service's files interface.

use std::io::Cursor;

use stockade_azure_double::Double;
use stockade_provider::{
    FileErrorKind, FileKind, FilePart, FilePath, FileWriteMode, FileWriting, Files, FinalLink,
};
use tokio::io::AsyncReadExt;

use crate::support::{can_run, code, create, options, run};

fn path(text: &str) -> FilePath {
    FilePath::try_from(text).expect("the double answers as asked")
}

async fn write(
    files: &dyn Files,
    place: &str,
    mode: FileWriteMode,
    text: &str,
) -> Result<u64, FileErrorKind> {
    let how = FileWriting { mode, executable: false };
    let content = Box::new(Cursor::new(text.as_bytes().to_vec()));
    files.write(&path(place), how, content).await.map_err(|error| error.kind)
}

async fn read(files: &dyn Files, place: &str, part: FilePart) -> Result<String, FileErrorKind> {
    let mut stream = files.read(&path(place), part).await.map_err(|error| error.kind)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("the double answers as asked");
    Ok(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_read_listed_and_removed() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    let files = sandbox.files().expect("the double answers as asked");
    let files = files.as_ref();
    assert_eq!(write(files, "d/a b&c.txt", FileWriteMode::Replace, "hello").await, Ok(5));
    assert_eq!(
        read(files, "/workspace/d/a b&c.txt", FilePart::default())
            .await
            .expect("the double answers as asked"),
        "hello"
    );
    let part = FilePart { offset: 1, length: Some(3) };
    assert_eq!(read(files, "d/a b&c.txt", part).await.expect("the double answers as asked"), "ell");
    let exists = write(files, "d/a b&c.txt", FileWriteMode::Create, "x").await;
    assert_eq!(exists, Err(FileErrorKind::Exists));
    assert_eq!(write(files, "x", FileWriteMode::Append, "x").await, Err(FileErrorKind::Other));
    let missing = read(files, "nothing", FilePart::default()).await;
    assert_eq!(missing, Err(FileErrorKind::NotFound));
    files.make_directory(&path("d/e/f"), true).await.expect("the double answers as asked");
    let listed = files.list(&path("."), 2, 100).await.expect("the double answers as asked");
    let names: Vec<String> = listed.iter().map(|entry| entry.path.to_string()).collect();
    assert_eq!(names, ["d", "d/a b&c.txt", "d/e"]);
    let stat = files
        .stat(&path("d/a b&c.txt"), FinalLink::Follow)
        .await
        .expect("the double answers as asked");
    assert_eq!((stat.kind, stat.bytes), (FileKind::File, 5));
    let full = files.remove(&path("d"), false).await.unwrap_err();
    assert_eq!(full.kind, FileErrorKind::NotEmpty);
    assert!(files.remove(&path("d"), true).await.expect("the double answers as asked"));
    assert!(!files.remove(&path("d"), true).await.expect("the double answers as asked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_use_files_of_the_host_and_trees_travel_both_ways() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    let files = sandbox.files().expect("the double answers as asked");
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text) in [("in/one.txt", "1"), ("in/deep/two.txt", "2")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, name, text.as_bytes())
            .expect("the double answers as asked");
    }
    let archive = Box::new(Cursor::new(builder.into_inner().expect("the double answers as asked")));
    let sent =
        files.upload(&path("/workspace"), archive).await.expect("the double answers as asked");
    assert_eq!((sent.bytes, sent.left_out), (2, 0));
    let text = "import os\nopen('in/deep/two.txt', 'a').write('!')\n\
                os.makedirs('out'); open('out/result', 'w').write(open('in/one.txt').read() * 3)";
    run(sandbox.as_ref(), code(text)).await.output();
    let mut bytes = Vec::new();
    let mut archive =
        files.download(&path("out"), FinalLink::Follow).await.expect("the double answers as asked");
    archive.read_to_end(&mut bytes).await.expect("the double answers as asked");
    let mut archive = tar::Archive::new(bytes.as_slice());
    let mut found = Vec::new();
    for entry in archive.entries().expect("the double answers as asked") {
        let mut entry = entry.expect("the double answers as asked");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut entry, &mut text).expect("the double answers as asked");
        found
            .push((entry.path().expect("the double answers as asked").display().to_string(), text));
    }
    let expected = [("out", ""), ("out/result", "111")];
    assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let two = read(files.as_ref(), "in/deep/two.txt", FilePart::default())
        .await
        .expect("the double answers as asked");
    assert_eq!(two, "2!");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_service_cannot_do_with_files_is_refused_by_name() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    let files = sandbox.files().expect("the double answers as asked");
    let renamed = files.rename(&path("a"), &path("b"), false).await.unwrap_err();
    assert!(stockade_provider::chain(&renamed).contains("cannot move"), "{renamed}");
    let watched = files.watch(&path("."), false).await.err().expect("the double answers as asked");
    assert!(stockade_provider::chain(&watched).contains("cannot watch"), "{watched}");
}
