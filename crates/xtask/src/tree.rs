//! The project's files below one root.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// A root folder and the project's files in it, as sorted relative paths.
pub(crate) struct Tree {
    root: PathBuf,
    files: Vec<String>,
}

impl Tree {
    /// The tracked and untracked files that git does not ignore, if `root` is a git work tree;
    /// otherwise every file outside folders called `target` or `.git`.
    pub(crate) fn open(root: &Path) -> Result<Tree> {
        let mut files = match git_files(root)? {
            Some(files) => files,
            None => walk(root)?,
        };
        files.retain(|file| fs::symlink_metadata(root.join(file)).is_ok_and(|meta| meta.is_file()));
        files.sort();
        files.dedup();
        Ok(Tree { root: root.to_path_buf(), files })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// The Rust sources.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = &str> {
        self.files().filter(|file| file.ends_with(".rs"))
    }

    /// The content of a file, or `None` if it is not text.
    pub(crate) fn text(&self, file: &str) -> Result<Option<String>> {
        let bytes =
            fs::read(self.root.join(file)).with_context(|| format!("cannot read {file}"))?;
        Ok(String::from_utf8(bytes).ok())
    }

    /// Copies every file to another root.
    pub(crate) fn copy_to(&self, other: &Path) -> Result<()> {
        for file in self.files() {
            let copy = other.join(file);
            let folder = copy.parent().context("a copied file has a folder")?;
            fs::create_dir_all(folder)?;
            fs::copy(self.root.join(file), copy).with_context(|| format!("cannot copy {file}"))?;
        }
        Ok(())
    }
}

/// The files that git lists, or `None` if `root` is not the top of a work tree.
fn git_files(root: &Path) -> Result<Option<Vec<String>>> {
    if !root.join(".git").exists() {
        return Ok(None);
    }
    let started = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output();
    let output = match started {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.context("cannot start git")?,
    };
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        anyhow::bail!("git cannot list the files of {}: {error}", root.display());
    }
    let list = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(Some(list.split_terminator('\0').map(str::to_owned).collect()))
}

fn walk(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if entry.file_name() != "target" && entry.file_name() != ".git" {
                    folders.push(path);
                }
            } else {
                let relative = path.strip_prefix(root)?;
                files.push(relative.to_str().context("a file name is not UTF-8")?.to_owned());
            }
        }
    }
    Ok(files)
}
