//! Files left in a workspace that the host could run later.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::faults::REFUSED;
use super::{error_text, existing, must};
use crate::bench::Bench;
use crate::seen::{Output, finish};
use crate::wall::Wall;

/// Files that tools of the host run or read automatically.
const HOOKS: [&str; 6] = [
    ".git/hooks/post-checkout",
    ".git/config",
    ".bashrc",
    ".envrc",
    ".vscode/tasks.json",
    ".mcp.json",
];

fn written(folder: &Path) -> Vec<&'static str> {
    HOOKS.into_iter().filter(|name| folder.join(name).exists()).collect()
}

/// Without the wall all of them are written.
pub(crate) fn hooks_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    bench.renew_tree().map_err(error_text)?;
    let words: Vec<String> = HOOKS.iter().map(|name| format!("{{tree}}/{name}")).collect();
    let words: Vec<&str> = ["write"].into_iter().chain(words.iter().map(String::as_str)).collect();
    bench.on_host(&words)?;
    let found = written(Path::new(&bench.names["tree"])).len();
    must(found == HOOKS.len(), format!("only {found} were written"))?;
    Ok(format!("{found} files are on the host"))
}

/// In a workspace of the default mode none reaches the host, though the program sees them.
pub(crate) fn hooks(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let words: Vec<String> = HOOKS.iter().map(|name| format!("/workspace/{name}")).collect();
    let words: Vec<&str> = ["write"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let seen = wall.act(bench, &["--workspace", "{workspace}"], &words)?;
    must(seen.ret() == Some(HOOKS.len() as i64), seen.summary())?;
    let found = written(Path::new(&wall.names["workspace"]));
    must(found.is_empty(), format!("{found:?} are on the host"))
}

/// Programs that Stockade would run by mistake if it searched its working directory.
const FAKES: [&str; 7] = ["sh", "bash", "git", "bwrap", "runc", "newuidmap", "true"];

fn plant_fakes(folder: &Path) -> Result<(), String> {
    for name in FAKES {
        let path = folder.join(name);
        let script = format!("#!/bin/sh\necho ran > {}/fake-ran\n", folder.display());
        fs::write(&path, script).map_err(error_text)?;
        fs::set_permissions(&path, Permissions::from_mode(0o755)).map_err(error_text)?;
    }
    Ok(())
}

/// A shell that searches the working directory runs them.
pub(crate) fn fakes_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    bench.renew_tree().map_err(error_text)?;
    let tree = Path::new(&bench.names["tree"]);
    plant_fakes(tree)?;
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "git"]).current_dir(tree).env("PATH", ".");
    finish(command, Output::Plain)?;
    must(tree.join("fake-ran").exists(), "the fake did not run")?;
    Ok("a shell in the same folder runs the fake".to_owned())
}

/// Stockade runs none of them, though they come first on its PATH.
pub(crate) fn fakes(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let writable = Path::new(&wall.names["writable"]);
    plant_fakes(writable)?;
    let mut command = wall.command(bench, &[], &["effective-user"]);
    command.current_dir(writable).env("PATH", format!(".:{}:/usr/bin:/bin", writable.display()));
    let seen = finish(command, Output::Report)?;
    must(seen.answer.is_some(), seen.summary())?;
    must(!writable.join("fake-ran").exists(), "a program of the folder ran on the host")
}

/// A policy that the program could change is refused before anything starts.
pub(crate) fn changeable_policy(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let seen = wall.act(bench, &["--policy", "{changeable}"], &["effective-user"])?;
    must(seen.code == Some(REFUSED) && seen.answer.is_none(), seen.summary())
}

/// Without the wall a folder is moved away and a link takes its place.
pub(crate) fn link_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    bench.renew_tree().map_err(error_text)?;
    let seen = bench.on_host(&["replace-by-link", "{tree}/directory"])?;
    must(seen.ret() == Some(1), seen.summary())?;
    Ok("the folder is replaced on the host".to_owned())
}

/// A folder above something read-only stays where it is.
pub(crate) fn link(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let top = Path::new(&wall.names["own"]).join("pinned");
    let guarded = top.join("guarded");
    if guarded.is_symlink() {
        // An earlier trial without the layer left it.
        fs::remove_file(&guarded).map_err(error_text)?;
        fs::remove_dir_all(top.join("guarded-away")).map_err(error_text)?;
    }
    for path in [&top, &guarded, &guarded.join("kept")] {
        existing(path, wall.user)?;
    }
    let words = ["replace-by-link", "/workspace/guarded"];
    let seen = wall.act(bench, &["--policy", "{guarded}"], &words)?;
    must(seen.ret().is_some_and(|ret| ret < 0), seen.summary())?;
    must(!guarded.is_symlink(), "the folder was replaced")
}
