//! A Debian package: the command, its manual pages and completions, and the account for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::program::finish;
use crate::scratch::Scratch;

/// Makes `stockade_VERSION_ARCHITECTURE.deb` in a folder.
pub(super) fn make(
    root: &Path,
    binary: &Path,
    architecture: &str,
    version: &str,
    out: &Path,
) -> Result<()> {
    let scratch = Scratch::new("deb")?;
    let tree = scratch.path();
    let put = |path: &str, text: &[u8], mode: u32| -> Result<()> {
        let file = tree.join(path);
        let folder = file.parent().context("every file of the package has a folder")?;
        fs::create_dir_all(folder)?;
        fs::write(&file, text).with_context(|| format!("cannot write {path}"))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
        Ok(())
    };
    put("usr/bin/stockade", &fs::read(binary)?, 0o755)?;
    put("usr/share/doc/stockade/copyright", &fs::read(root.join("LICENSE"))?, 0o644)?;
    let account = fs::read(root.join("packaging/sysusers.d/stockade.conf"))?;
    put("usr/lib/sysusers.d/stockade.conf", &account, 0o644)?;
    // A binary of another architecture cannot print them.
    if architecture == debian_of_host() {
        pages(binary, tree)?;
        let shells = [
            ("bash", "bash-completion/completions/stockade"),
            ("zsh", "zsh/vendor-completions/_stockade"),
        ];
        for (shell, place) in shells {
            let text = printed(binary, &["completions", shell])?;
            put(&format!("usr/share/{place}"), text.as_bytes(), 0o644)?;
        }
    }
    let size = size_kib(&tree.join("usr"))?;
    let control = format!(
        "Package: stockade\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: The Stockade authors <stockade@localhost>\nInstalled-Size: {size}\n\
         Section: utils\nPriority: optional\nRecommends: python3\n\
         Description: sandbox for code that AI agents write\n \
         Runs code that no person has reviewed behind a wall of namespaces, cgroups,\n \
         Landlock and seccomp. One policy file lists what it may use.\n"
    );
    put("DEBIAN/control", control.as_bytes(), 0o644)?;
    fs::set_permissions(tree, fs::Permissions::from_mode(0o755))?;
    let file = out.join(format!("stockade_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(tree).arg(file);
    let built = finish(build)?;
    ensure!(built.success, "dpkg-deb cannot make the package: {}", built.output);
    Ok(())
}

fn debian_of_host() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

fn pages(binary: &Path, tree: &Path) -> Result<()> {
    let folder = tree.join("usr/share/man/man1");
    fs::create_dir_all(&folder)?;
    printed(binary, &["man", "--dir", &folder.display().to_string()])?;
    let mut compress = Command::new("gzip");
    compress.args(["--best", "--no-name", "--recursive"]).arg(&folder);
    let compressed = finish(compress)?;
    ensure!(compressed.success, "gzip cannot compress the pages: {}", compressed.output);
    Ok(())
}

fn printed(binary: &Path, words: &[&str]) -> Result<String> {
    let mut stockade = Command::new(binary);
    stockade.args(words);
    let finished = finish(stockade)?;
    ensure!(finished.success, "`stockade {}` fails: {}", words.join(" "), finished.output);
    Ok(finished.output)
}

fn size_kib(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        total += match entry.file_type()?.is_dir() {
            true => size_kib(&entry.path())?,
            false => entry.metadata()?.len().div_ceil(1024),
        };
    }
    Ok(total)
}
