//! The files of a release, without the wheel, which the suite `python` tests: their checksums, and
//! the Debian package, installed in a root that is thrown away.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::dist::{self, DistOptions};
use crate::program::{finish, on_path};
use crate::scratch::Scratch;
use crate::suite::Outcome;

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

/// Makes the files, checks their sums, and runs the installed package.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    if on_path(&["dpkg-deb"]).is_none() {
        return Ok(Outcome::skipped("no dpkg-deb; apt install dpkg"));
    }
    if !rustix::process::geteuid().is_root() {
        return Ok(Outcome::skipped("installing a package needs root"));
    }
    let scratch = Scratch::new("dist")?;
    let out = scratch.path().join("files");
    // The profile of the suite `install`, so that nothing is built twice.
    let options = DistOptions { profile: "release".to_owned(), out: out.clone(), wheel: false };
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
    let Some(package) = names.iter().find(|name| name.ends_with(".deb")) else {
        return Ok(Outcome::failed(format!("there is no package among {names:?}")));
    };
    let place = scratch.path().join("place");
    std::fs::create_dir(&place)?;
    let mut install = Command::new("unshare");
    install.args(["--mount", "--propagation", "private", "bash", "-c", INSTALL, "install"]);
    install.arg(&place).arg(out.join(package)).arg(root.join("examples/hello.py"));
    install.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let installed = finish(install)?;
    let printed = installed.output.trim();
    Ok(match installed.success && printed.contains("Hello from inside the stockade") {
        true => Outcome::passed(format!("{} files; the package runs hello", names.len())),
        false => Outcome::failed(format!("the installed package does not run hello: {printed}")),
    })
}
