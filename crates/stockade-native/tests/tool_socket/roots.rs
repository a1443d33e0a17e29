//! Minimal roots, and allowlists in them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use stockade_provider::{Destination, EntryProgram, Program, Root, Running, SandboxRequest};
use tokio::io::AsyncReadExt;

use crate::broker::TestBroker;
use crate::support::{finish, request, runtime, sandbox, shell, start, walls_can_be_built};

#[test]
fn tool_command_works_under_an_allowlist() {
    if !walls_can_be_built() {
        return;
    }
    let broker = TestBroker::default();
    let asked = |policy: &str| {
        let entry = EntryProgram::Program("sh".to_owned());
        let script =
            "stockade-tool echo '{\"a\":1}'; /usr/bin/ls / >/dev/null 2>&1 && echo listed; true";
        let wanted = SandboxRequest { entry, ..request(policy, &broker) };
        runtime().block_on(async {
            let mut sandbox = sandbox(&wanted).await?;
            let running = start(&mut sandbox, shell(script)).await;
            let said = finish(running).await;
            let denials = sandbox.observe().await.denials;
            Ok((said, denials.into_iter().map(|denial| denial.target).collect::<Vec<_>>()))
        })
    };
    assert_eq!(asked("{}"), Ok::<_, String>(("{\"a\":1}\nlisted\n".to_owned(), Vec::new())));
    match asked("command_allowlist: [sh]") {
        Ok((said, denials)) => {
            assert_eq!(said, "{\"a\":1}\n");
            assert!(denials.iter().all(|target| target.ends_with("/ls")), "{denials:?}");
            assert!(!denials.is_empty());
        }
        // Without Landlock the wall refuses an allowlist and names the reason.
        Err(reason) => assert!(reason.contains("Landlock"), "{reason}"),
    }
}

#[test]
fn root_directory_has_tools() {
    if !walls_can_be_built() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    install(&root, "/bin/sh");
    // The tool directory must cover files of the image at the same path.
    fs::create_dir_all(root.join("run/stockade")).unwrap();
    fs::write(root.join("run/stockade/tools.sock"), "the image's own\n").unwrap();
    open_to_all(directory.path());
    let broker = TestBroker::default();
    let wanted = SandboxRequest {
        root: Root::Directory(root.clone()),
        entry: EntryProgram::Program("/usr/bin/sh".to_owned()),
        ..request("{}", &broker)
    };
    let program = Program::Command {
        argv: ["/usr/bin/sh", "-c", "stockade-tool echo '{\"b\":[]}'; echo x > /run/stockade/y"]
            .map(str::to_owned)
            .to_vec(),
    };
    let said = runtime().block_on(async {
        let mut sandbox = sandbox(&wanted).await.unwrap();
        let running = start(&mut sandbox, program).await;
        let mut out = String::new();
        let Running { mut stdout, end, .. } = running;
        stdout.read_to_string(&mut out).await.unwrap();
        end.await.unwrap();
        out
    });
    assert_eq!(said, "{\"b\":[]}\n");
    assert_eq!(broker.opened(), [Destination::Tools]);
}

/// Copies a program and the libraries that its loader needs into a root.
fn install(root: &Path, program: &str) {
    let put = |from: &str, to: PathBuf| {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    };
    let name = program.rsplit_once('/').map_or(program, |(_, name)| name);
    put(program, root.join("usr/bin").join(name));
    let needed = Command::new("ldd").arg(program).output().unwrap().stdout;
    for word in String::from_utf8_lossy(&needed).split_whitespace() {
        if word.starts_with('/') {
            put(word, root.join(word.trim_start_matches('/')));
        }
    }
}

/// As root a sandbox has its own ids, which need permission to enter the directory.
fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
}
