//! Links the command as one static file: loading shared libraries is a fifth of its start.
//!
//! Cargo can ask for that only for everything at once, procedural macros included, which cannot be
//! static. So the linker is told here: the shared libraries that the standard library asks for are
//! replaced, for this one executable, by scripts that name the static ones.
//! docs/decisions/0023-the-command-is-linked-statically.md.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What the standard library asks the linker for, of what is not part of libc.
const REPLACED: [&str; 2] = ["libc.so", "libgcc_s.so"];
/// What stands in for it.
const ARCHIVES: [&str; 3] = ["libc.a", "libgcc_eh.a", "libgcc.a"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let is_native = env::var("TARGET")? == env::var("HOST")?;
    let is_glibc = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu");
    if !is_native || !is_glibc {
        return Ok(());
    }
    let linker = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let Some(archives) = find(&linker) else {
        println!("cargo::warning=no static C library: the command is linked to the shared one");
        return Ok(());
    };
    let scripts = PathBuf::from(env::var("OUT_DIR")?).join("static");
    fs::create_dir_all(&scripts)?;
    for name in REPLACED {
        fs::write(scripts.join(name), format!("GROUP ( {} )\n", archives.join(" ")))?;
    }
    println!("cargo::rustc-link-arg-bins=-L{}", scripts.display());
    println!("cargo::rustc-link-arg-bins=-static-pie");
    // What is weak and nowhere is null, as the code that asks for it expects.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,nodynamic-undefined-weak");
    // The standard library asks weakly for these, which takes nothing out of an archive. Without
    // them it copies the whole process to start another.
    for symbol in ["gnu_get_libc_version", "posix_spawn_file_actions_addchdir_np"] {
        println!("cargo::rustc-link-arg-bins=-Wl,-u,{symbol}");
    }
    if has_packed_relocations(&archives[0]) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// Whether the C library relocates a static executable by packed tables: since glibc 2.36, which
/// has this tag for it.
fn has_packed_relocations(libc: &str) -> bool {
    let tag = b"GLIBC_ABI_DT_RELR";
    // Where the shared library lies elsewhere the tables stay as they are.
    fs::read(Path::new(libc).with_file_name("libc.so.6"))
        .is_ok_and(|bytes| bytes.windows(tag.len()).any(|window| window == tag))
}

/// The static libraries, as the linker's own driver finds them.
fn find(linker: &str) -> Option<Vec<String>> {
    let one = |name: &&str| {
        let asked = Command::new(linker).arg(format!("-print-file-name={name}")).output().ok()?;
        let path = String::from_utf8(asked.stdout).ok()?.trim_end().to_owned();
        // What it does not find it answers with the bare name; a script has no quotes.
        let is_usable = Path::new(&path).is_absolute() && !path.contains(char::is_whitespace);
        is_usable.then_some(path)
    };
    ARCHIVES.iter().map(one).collect()
}
