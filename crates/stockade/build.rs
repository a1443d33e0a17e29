//! Links the command as a static executable: loading shared libraries takes a fifth of its start.
//!
//! Cargo can request static linking only for the whole build, procedural macros included, which
//! cannot be static. This script passes linker arguments for one executable: linker scripts named
//! like the shared libraries refer to the static ones.
//! docs/decisions/0023-static-executable.md.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Shared libraries that the Rust standard library links.
const REPLACED: [&str; 2] = ["libc.so", "libgcc_s.so"];
/// The static archives that replace them.
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
    // Undefined weak symbols resolve to null, as the code that tests them expects.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,nodynamic-undefined-weak");
    // The standard library references these symbols weakly, and a weak reference does not extract
    // an archive member. Without them it spawns processes with fork instead of posix_spawn.
    for symbol in ["gnu_get_libc_version", "posix_spawn_file_actions_addchdir_np"] {
        println!("cargo::rustc-link-arg-bins=-Wl,-u,{symbol}");
    }
    if has_packed_relocations(&archives[0]) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// Whether the static C library applies DT_RELR relocations: glibc 2.36 added them with this tag.
fn has_packed_relocations(libc: &str) -> bool {
    let tag = b"GLIBC_ABI_DT_RELR";
    // If libc.so.6 is in another directory, the executable keeps ordinary relocations.
    fs::read(Path::new(libc).with_file_name("libc.so.6"))
        .is_ok_and(|bytes| bytes.windows(tag.len()).any(|window| window == tag))
}

/// The static libraries at the paths that the linker driver reports.
fn find(linker: &str) -> Option<Vec<String>> {
    let one = |name: &&str| {
        let asked = Command::new(linker).arg(format!("-print-file-name={name}")).output().ok()?;
        let path = String::from_utf8(asked.stdout).ok()?.trim_end().to_owned();
        // For a missing file the driver prints the bare name. Paths in a linker script are
        // unquoted.
        let is_usable = Path::new(&path).is_absolute() && !path.contains(char::is_whitespace);
        is_usable.then_some(path)
    };
    ARCHIVES.iter().map(one).collect()
}
