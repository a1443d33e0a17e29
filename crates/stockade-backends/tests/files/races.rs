//! A program inside swaps a directory and a link while the host uses the files around it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use stockade_archive::{Entries, EntryKind, pack};
use stockade_provider::{
    EntryProgram, FileErrorKind, FileKind, FinalLink, Language, Running, SandboxRequest,
};
use tokio::io::AsyncReadExt;

use crate::support::{Inside, bytes, path, request, runtime, walls_can_be_built};

/// How long each of the four operations races.
const EACH: Duration = Duration::from_millis(2500);

/// What nothing may read, change or remove through the link.
const TOKEN: &str = "canary-5d1f0c";

/// Swaps `/workspace/tree/d`, a directory with a file, and a link to TARGET: a canary inside, or the
/// path of one on the host, which only code of the host could reach.
const SWAP: &str = r#"
import os, shutil
os.makedirs("/tmp/canary/inner", exist_ok=True)
open("/tmp/canary/secret", "w").write("canary-5d1f0c")
open("/tmp/canary/inner/secret", "w").write("canary-5d1f0c")
print("up", flush=True)
while True:
    try:
        os.makedirs("/workspace/tree/d", exist_ok=True)
        open("/workspace/tree/d/own", "w").close()
        if not os.path.islink("/workspace/l"):
            os.symlink("TARGET", "/workspace/l")
        for _ in range(50):
            os.rename("/workspace/tree/d", "/workspace/aside")
            os.rename("/workspace/l", "/workspace/tree/d")
            os.rename("/workspace/tree/d", "/workspace/l")
            os.rename("/workspace/aside", "/workspace/tree/d")
    except OSError:
        shutil.rmtree("/workspace/aside", ignore_errors=True)
        if os.path.islink("/workspace/tree/d"):
            try:
                os.unlink("/workspace/tree/d")
            except OSError:
                pass
"#;

/// How often an operation met the link and the directory, and how often it was refused.
#[derive(Debug, Default)]
struct Met {
    link: u32,
    directory: u32,
    refused: u32,
}

async fn upload(inside: &Inside, archive: &[u8], met: &mut Met) {
    match inside.files.upload(&path("."), bytes(archive)).await {
        Ok(_) => met.directory += 1,
        Err(error) if error.kind == FileErrorKind::Traversal => met.link += 1,
        Err(error) => {
            let passing = [FileErrorKind::NotFound, FileErrorKind::Exists, FileErrorKind::Other];
            assert!(passing.contains(&error.kind), "{error:?}");
            met.refused += 1;
        }
    }
}

async fn list(inside: &Inside, met: &mut Met) {
    let Ok(entries) = inside.list("tree", 5).await else {
        met.refused += 1;
        return;
    };
    for entry in entries {
        // Only the canary has this directory.
        assert!(!entry.path.to_string().contains("inner"), "the link was followed: {entry:?}");
        match (entry.path.to_string().as_str(), entry.stat.kind) {
            ("d", FileKind::Link) => met.link += 1,
            ("d", FileKind::Directory) => met.directory += 1,
            _ => {}
        }
    }
}

async fn download(inside: &Inside, met: &mut Met) {
    let mut archive = Vec::new();
    let read = match inside.files.download(&path("tree"), FinalLink::Keep).await {
        Ok(mut stream) => stream.read_to_end(&mut archive).await.is_ok(),
        Err(_) => false,
    };
    if !read {
        met.refused += 1;
        return;
    }
    let has_token = archive.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes());
    assert!(!has_token, "the link was followed");
    let mut entries = Entries::new(archive.as_slice());
    while let Some(entry) = entries.next_entry().expect("the guest packs whole archives") {
        match (entry.name.as_slice(), entry.kind) {
            (b"tree/d", EntryKind::Link { .. }) => met.link += 1,
            (b"tree/d/", EntryKind::Directory) => met.directory += 1,
            _ => {}
        }
    }
}

async fn remove(inside: &Inside, met: &mut Met) {
    let before = inside.files.stat(&path("tree/d"), FinalLink::Keep).await;
    match (before.map(|stat| stat.kind), inside.files.remove(&path("tree"), true).await) {
        (Ok(FileKind::Link), Ok(true)) => met.link += 1,
        (Ok(FileKind::Directory), Ok(true)) => met.directory += 1,
        _ => met.refused += 1,
    }
}

#[test]
fn swapped_link_never_leads_an_operation_to_the_canary() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let inside = of_python().await;
        let swap = swapping(&inside, "/tmp/canary").await;
        let canary = "cd /tmp/canary; find . | sort; cat secret inner/secret";
        let untouched = inside.shell(canary).await;
        assert!(untouched.ends_with(&TOKEN.repeat(2)), "{untouched}");
        // Without the care of the guest, a path through the link reads the canary.
        let deadline = Instant::now() + Duration::from_secs(20);
        while inside.read("tree/d/secret").await.is_err() {
            assert!(Instant::now() < deadline, "the link is never there");
        }
        race(&inside, EACH).await;
        assert_eq!(inside.shell(canary).await, untouched);
        swap.control.kill().await.expect("the program is killed");
    });
}

#[test]
fn swapped_link_never_leads_an_operation_to_a_canary_of_the_host() {
    if !walls_can_be_built() {
        return;
    }
    let canary = tempfile::tempdir().expect("a directory");
    let place = canary.path();
    std::fs::create_dir(place.join("inner")).expect("a directory");
    for name in ["secret", "inner/secret"] {
        std::fs::write(place.join(name), TOKEN).expect("a file");
    }
    let untouched = seen(place);
    let host = place.to_str().expect("a text");
    // The same path on the host, by several ways to a root that is not the sandbox's.
    let above = format!("../../../../../../../..{host}");
    let targets =
        [host, &above, &format!("/proc/1/root{host}"), &format!("/proc/self/cwd/{above}")];
    // The user of the sandbox must not be what protects the canary.
    stockade_testing::set_mode(place, 0o777);
    let reached = std::fs::read_to_string(place.join("inner/secret")).expect("the host reaches it");
    assert_eq!(reached, TOKEN);
    runtime().block_on(async {
        for target in targets {
            let inside = of_python().await;
            let swap = swapping(&inside, target).await;
            race(&inside, EACH / 4).await;
            let through = inside.read("tree/d/secret").await;
            assert!(through.is_err(), "{target}: {through:?}");
            swap.control.kill().await.expect("the program is killed");
        }
    });
    assert_eq!(seen(place), untouched);
}

/// Every file below a directory with its content and the time of its last change.
fn seen(place: &Path) -> Vec<(PathBuf, Option<String>, SystemTime)> {
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(place).expect("it is there").flatten() {
        let (path, found) = (entry.path(), entry.metadata().expect("it is there"));
        let content = found.is_file().then(|| std::fs::read_to_string(&path).expect("it is text"));
        if found.is_dir() {
            seen.extend(self::seen(&path));
        }
        seen.push((path, content, found.modified().expect("the kernel says it")));
    }
    seen.sort();
    seen
}

async fn of_python() -> Inside {
    let entry = EntryProgram::Interpreter(Language::Python);
    Inside::of(&SandboxRequest { entry, ..request("{}") }).await
}

/// Starts the program that swaps a directory and a link to `target`.
async fn swapping(inside: &Inside, target: &str) -> Running {
    let script = SWAP.replace("TARGET", target);
    let mut swap = inside.run(stockade_testing::sandbox::python(script)).await;
    swap.stdout.read_exact(&mut [0; 3]).await.expect("the program starts");
    swap
}

/// Carries out each of the four operations again and again, for `each` of the time.
async fn race(inside: &Inside, each: Duration) {
    let archive = uploaded();
    for operation in ["upload", "list", "download", "remove"] {
        let mut met = Met::default();
        // On a busy machine it takes longer until both are met.
        let (until, at_most) = (Instant::now() + each, Instant::now() + 20 * each);
        while Instant::now() < until
            || (Instant::now() < at_most && (met.link == 0 || met.directory == 0))
        {
            match operation {
                "upload" => upload(inside, &archive, &mut met).await,
                "list" => list(inside, &mut met).await,
                "download" => download(inside, &mut met).await,
                _ => remove(inside, &mut met).await,
            }
        }
        stockade_testing::say(&format!("{operation}: {met:?}"));
        assert!(met.link > 0 && met.directory > 0, "{operation}: {met:?}");
    }
}

/// An archive with `tree/d/secret` and more files, which would replace the canary through the link.
fn uploaded() -> Vec<u8> {
    use std::os::fd::AsFd;
    let folder = tempfile::tempdir().expect("a directory");
    let place = folder.path().join("tree/d");
    std::fs::create_dir_all(&place).expect("a directory");
    for number in 0..20 {
        std::fs::write(place.join(format!("new-{number}")), "bad").expect("a file");
    }
    std::fs::write(place.join("secret"), "bad").expect("a file");
    let parent = std::fs::File::open(folder.path()).expect("a directory");
    let mut archive = Vec::new();
    pack(parent.as_fd(), b"tree", b"tree", &mut archive).expect("it is packed");
    archive
}
