//! The files of a release: their checksums, their lists of parts, the Debian package, installed in a
//! root that is thrown away, and the wheel, installed in a virtual environment.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use crate::dist::{self, DistOptions};
use crate::program::{finish, on_path};
use crate::scratch::Scratch;
use crate::suite::Outcome;
use crate::suites::python;

/// Installs the package over this system's files, in memory, makes the result the root of a mount
/// namespace, and runs an example there. Not chroot: the kernel makes no user namespaces in one.
const INSTALL: &str = r#"
set -eu
place=$1 package=$2 example=$3
mount -t tmpfs -o mode=755 none "$place"
mkdir "$place/upper" "$place/work" "$place/root"
mount -t overlay none -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$place/root"
dpkg --root="$place/root" --install "$package" > /dev/null
cp "$example" "$place/root/hello.py"
for shared in proc sys dev; do mount --rbind "/$shared" "$place/root/$shared"; done
mkdir "$place/root/old"
cd "$place/root"
pivot_root . old
umount --lazy /old
rmdir /old
dpkg --verify stockade
test "$(command -v stockade)" = /usr/bin/stockade
exec /usr/bin/stockade run /hello.py
"#;

/// Why the executable for this processor is not one stripped file that needs no loader, if so.
fn not_static(out: &Path, names: &[String]) -> Result<Option<String>> {
    let own = |name: &&String| name.ends_with(&format!("{}-linux", std::env::consts::ARCH));
    let Some(name) = names.iter().find(own) else {
        return Ok(Some(format!("no executable for this processor among {names:?}")));
    };
    let mut look = Command::new("readelf");
    look.args(["--wide", "--program-headers", "--section-headers"]).arg(out.join(name));
    let found = finish(look)?.output;
    let bad = ["INTERP", ".symtab"].into_iter().find(|part| found.contains(part));
    Ok(match (found.contains("LOAD"), bad) {
        (true, None) => None,
        (_, bad) => Some(format!("{name} has {bad:?}\n{found}")),
    })
}

/// How many packages the paths in a release binary name at least. Most have no path in it.
const LEAST_NAMED: usize = 20;

/// Why a list of parts does not have every package whose source paths are in the binary, if so. The
/// compiler writes these paths, so they do not depend on what made the list.
fn unlisted(binary: &Path, parts: &Path) -> Result<Option<String>> {
    let bytes = std::fs::read(binary)?;
    let parts: Value = serde_json::from_slice(&std::fs::read(parts)?)?;
    let listed: BTreeSet<&str> = parts["components"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|part| part["purl"].as_str()?.strip_prefix("pkg:cargo/"))
        .collect();
    let named = packages_in(&bytes);
    if named.len() < LEAST_NAMED {
        return Ok(Some(format!("the binary names only {named:?}")));
    }
    // In a path the name and the version are separated by a hyphen.
    let listed: BTreeSet<String> = listed.iter().map(|part| part.replace('@', "-")).collect();
    let missing: Vec<&String> = named.difference(&listed).collect();
    Ok((!missing.is_empty()).then(|| format!("the list of parts lacks {missing:?}")))
}

/// The packages in paths such as `…/registry/src/INDEX/NAME-VERSION/src/lib.rs`.
fn packages_in(bytes: &[u8]) -> BTreeSet<String> {
    const PLACE: &[u8] = b"/registry/src/";
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(byte);
    let mut found = BTreeSet::new();
    for at in 0..bytes.len().saturating_sub(PLACE.len()) {
        let Some(rest) = bytes[at..].strip_prefix(PLACE) else { continue };
        let mut folders = rest.split(|byte| *byte == b'/');
        let (_, Some(package), Some(_)) = (folders.next(), folders.next(), folders.next()) else {
            continue;
        };
        if package.len() < 200 && package.iter().all(is_plain) {
            found.insert(String::from_utf8_lossy(package).into_owned());
        }
    }
    found
}

/// Installs the wheel into a new virtual environment, without an index, and runs an example there.
const INSTALL_WHEEL: &str = r#"
set -eu
place=$1 wheel=$2 example=$3
python3 -m venv "$place"
"$place/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
cd "$place"
exec "$place/bin/stockade" run "$example"
"#;

/// Why the wheel does not run an example, if so.
fn wheel_fails(place: &Path, wheel: &Path, example: &Path) -> Result<Option<String>> {
    let mut install = Command::new("bash");
    install.args(["-c", INSTALL_WHEEL, "install"]).arg(place).arg(wheel).arg(example);
    let installed = finish(install)?;
    let is_hello = installed.output.contains(HELLO);
    let failed = || format!("the installed wheel does not run hello: {}", installed.output.trim());
    Ok((!installed.success || !is_hello).then(failed))
}

/// What the example prints.
const HELLO: &str = "Hello from inside the stockade";

/// Makes the files, checks their sums and lists of parts, and runs the installed packages.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    if on_path(&["dpkg-deb"]).is_none() {
        return Ok(Outcome::skipped("no dpkg-deb; apt install dpkg"));
    }
    if !rustix::process::geteuid().is_root() {
        return Ok(Outcome::skipped("installing a package needs root"));
    }
    if let Some(reason) = python::no_wheel()? {
        return Ok(Outcome::skipped(reason));
    }
    let scratch = Scratch::new("dist")?;
    let out = scratch.path().join("files");
    // The profile of the suite `install`, so that nothing is built twice.
    let options = DistOptions { profile: "release".to_owned(), out: out.clone(), wheel: true };
    let names = dist::make(root, &options)?;
    if let Some(why) = not_static(&out, &names)? {
        return Ok(Outcome::failed(why));
    }
    let mut check = Command::new("sha256sum");
    check.current_dir(&out).args(["--check", "--strict", "--quiet", "SHA256SUMS"]);
    let checked = finish(check)?;
    if !checked.success {
        return Ok(Outcome::failed(format!("the checksums are wrong: {}", checked.output)));
    }
    let one = |end: &str| names.iter().find(|name| name.ends_with(end)).map(|name| out.join(name));
    let binary_end = format!("{}-linux", std::env::consts::ARCH);
    let ends = [binary_end.as_str(), "-wheel.cdx.json", ".whl"];
    let [Some(binary), Some(of_wheel), Some(wheel)] = ends.map(one) else {
        return Ok(Outcome::failed(format!("a file is missing among {names:?}")));
    };
    let of_command = out.join(format!("stockade-{}.cdx.json", env!("CARGO_PKG_VERSION")));
    for parts in [of_command, of_wheel] {
        // The wheel contains the command.
        if let Some(why) = unlisted(&binary, &parts)? {
            return Ok(Outcome::failed(format!("{}: {why}", parts.display())));
        }
    }
    let example = root.join("examples/hello.py");
    if let Some(why) = wheel_fails(&scratch.path().join("venv"), &wheel, &example)? {
        return Ok(Outcome::failed(why));
    }
    let Some(package) = names.iter().find(|name| name.ends_with(".deb")) else {
        return Ok(Outcome::failed(format!("there is no package among {names:?}")));
    };
    let place = scratch.path().join("place");
    std::fs::create_dir(&place)?;
    let mut install = Command::new("unshare");
    install.args(["--mount", "--propagation", "private", "bash", "-c", INSTALL, "install"]);
    install.arg(&place).arg(out.join(package)).arg(&example);
    install.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let installed = finish(install)?;
    let printed = installed.output.trim();
    Ok(match installed.success && printed.contains(HELLO) {
        true => {
            Outcome::passed(format!("{} files; the package and the wheel run hello", names.len()))
        }
        false => Outcome::failed(format!("the installed package does not run hello: {printed}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_in_the_source_paths_of_a_binary() {
        let path = "/root/.cargo/registry/src/index-1/tokio-1.2.3/src/lib.rs";
        let other = "/registry/src/index/bitflags-2.0.0-rc.1+x/src/a.rs";
        let bytes = format!("\0{path}\0{path}{other}\0/registry/src/index/no end\0");
        let found: Vec<String> = packages_in(bytes.as_bytes()).into_iter().collect();
        assert_eq!(found, ["bitflags-2.0.0-rc.1+x", "tokio-1.2.3"]);
        assert!(packages_in(b"").is_empty());
    }
}
