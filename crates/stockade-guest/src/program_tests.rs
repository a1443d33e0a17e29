use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::process::{WaitOptions, waitpid};

use super::*;

fn text(text: &str) -> Text {
    Text::try_from(text).unwrap()
}

fn request(program: &str, path: &str) -> Execute {
    Execute {
        execution: 1,
        program: text(program),
        arguments: vec![text(program)],
        environment: vec![(text("PATH"), text(path))],
        working_directory: text("/"),
        code: None,
        next_code: None,
        terminal: None,
        filters: Vec::new(),
        leaf: None,
        next_leaf: None,
    }
}

fn script(folder: &Path, name: &str, mode: u32, prints: &str) {
    fs::create_dir_all(folder).unwrap();
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\necho {prints}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
}

/// The working directory is shared by all threads, and tests run in several threads.
static WORKING_DIRECTORY: Mutex<()> = Mutex::new(());

fn nothing() -> fs::File {
    fs::File::options().read(true).write(true).open("/dev/null").unwrap()
}

/// The program's output, or why it did not start.
fn outcome(request: &Execute) -> Result<String, (i32, String)> {
    let (stdin, (mut stdout, their_stdout)) = (nothing(), io::pipe().unwrap());
    let stderr = stdin.try_clone().unwrap();
    let started = {
        let _guard = WORKING_DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = Theirs::Pipes([stdin.into(), their_stdout.into(), stderr.into()]);
        start(request, &theirs, Settings::default())
    };
    let pid = started.map_err(|failure| (failure.errno, failure.about.into()))?;
    let mut printed = String::new();
    stdout.read_to_string(&mut printed).unwrap();
    waitpid(Some(pid.0), WaitOptions::empty()).unwrap();
    Ok(printed)
}

#[test]
fn bare_name_is_found_in_path_after_files_that_cannot_be_executed() {
    const EACCES: i32 = 13;
    const ENOENT: i32 = 2;
    let folder = tempfile::tempdir().unwrap();
    let (plain, good) = (folder.path().join("plain"), folder.path().join("good"));
    script(&plain, "tool", 0o644, "wrong");
    script(&good, "tool", 0o755, "right");
    let (plain, good) = (plain.display(), good.display());
    let found = outcome(&request("tool", &format!("/nowhere:{plain}:{good}")));
    assert_eq!(found, Ok("right\n".to_owned()));
    let refused = outcome(&request("tool", &format!("{plain}:/nowhere")));
    assert_eq!(refused, Err((EACCES, "tool".to_owned())));
    assert_eq!(outcome(&request("tool", "/nowhere")), Err((ENOENT, "tool".to_owned())));
    assert_eq!(outcome(&request("", "/bin")), Err((ENOENT, String::new())));
}

#[test]
fn name_with_a_slash_is_not_searched_in_path() {
    let folder = tempfile::tempdir().unwrap();
    script(folder.path(), "tool", 0o755, "here");
    let mut beside = request("./tool", "/nowhere");
    beside.working_directory = text(folder.path().to_str().unwrap());
    assert_eq!(outcome(&beside), Ok("here\n".to_owned()));
    let elsewhere = request("/nowhere/tool", folder.path().to_str().unwrap());
    assert_eq!(outcome(&elsewhere), Err((2, "/nowhere/tool".to_owned())));
}

#[test]
fn failure_names_the_missing_working_directory() {
    let mut nowhere = request("/bin/true", "");
    nowhere.working_directory = text("/nowhere");
    assert_eq!(outcome(&nowhere), Err((2, "/nowhere".to_owned())));
}
