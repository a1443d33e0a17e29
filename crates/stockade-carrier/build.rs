//! Builds the guest as a static executable and hands its bytes to the crate.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, error, fs};

#[path = "src/elf.rs"]
mod elf;

type Result<T> = std::result::Result<T, Box<dyn error::Error>>;

/// The crates whose sources make up the guest, and those that its row lets it use.
const GUEST_CRATES: [&str; 5] =
    ["stockade-archive", "stockade-guest", "stockade-launcher", "stockade-sys", "stockade-wire"];

/// Variables of the outer build that would change the inner one, by the start of their name.
const FOREIGN_VARIABLES: [&str; 6] = [
    "CARGO_BUILD_",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_PROFILE_",
    "CARGO_TARGET_DIR",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
];

fn main() -> Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let carried = out.join("stockade-guest");
    watch(&root);
    let Some(linker) = Linker::find()? else {
        // Checking must work without a cross linker; a program that carries nothing must not link.
        fs::write(&carried, [])?;
        println!("cargo::rustc-link-lib=dylib=stockade_guest_was_not_built_for_lack_of_a_linker");
        let target = env::var("TARGET")?;
        println!("cargo::warning=no linker for {target}: the guest is missing, nothing will link");
        return Ok(());
    };
    let built = build(&root, &out, &linker)?;
    verify(&fs::read(&built)?)?;
    fs::copy(&built, &carried)?;
    Ok(())
}

/// How the guest is linked.
enum Linker {
    /// Cargo knows by itself.
    Default,
    /// A cross linker that was found for the target.
    Named(String),
}

impl Linker {
    /// The linker for the target, or nothing when this machine has none.
    fn find() -> Result<Option<Linker>> {
        let target = env::var("TARGET")?;
        if target == env::var("HOST")? || env::var_os(linker_variable(&target)).is_some() {
            return Ok(Some(Linker::Default));
        }
        if let Ok(named) = env::var("RUSTC_LINKER") {
            return Ok(Some(Linker::Named(named)));
        }
        println!("cargo::rerun-if-env-changed=PATH");
        let usual = format!("{}-linux-gnu-gcc", env::var("CARGO_CFG_TARGET_ARCH")?);
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).any(|folder| folder.join(&usual).is_file());
        Ok(found.then_some(Linker::Named(usual)))
    }
}

fn build(root: &Path, out: &Path, linker: &Linker) -> Result<PathBuf> {
    let target = target(linker)?;
    let folder = out.join("guest-target");
    let mut cargo = Command::new(env::var("CARGO")?);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if FOREIGN_VARIABLES.iter().any(|foreign| text.starts_with(foreign)) {
            cargo.env_remove(&name);
        }
    }
    if let Linker::Named(linker) = linker {
        cargo.env(linker_variable(&target), linker);
    }
    cargo
        .current_dir(root)
        .env("CARGO_ENCODED_RUSTFLAGS", guest_flags(root)?.join("\x1f"))
        .args(["build", "--locked", "--package", "stockade-guest", "--bin", "stockade-guest"])
        .args(["--profile", "guest", "--target", &target, "--target-dir"])
        .arg(&folder);
    if env::var_os("CARGO_FEATURE_WEAKEN").is_some() {
        cargo.args(["--features", "stockade-guest/weaken"]);
    }
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!(
            "the guest could not be built ({status}); its own messages are above\n\
             remedy: a static executable needs libc.a, on Debian `apt install libc6-dev`"
        )
        .into());
    }
    Ok(folder.join(target).join("guest").join("stockade-guest"))
}

/// What the guest is built for. With musl it is half as large and starts without asking the
/// processor for its features, which a virtual machine answers slowly; docs/decisions/0022.
fn target(linker: &Linker) -> Result<String> {
    let target = env::var("TARGET")?;
    let musl = target.replace("-linux-gnu", "-linux-musl");
    if matches!(linker, Linker::Named(_)) || !has_standard_library(&musl)? {
        return Ok(target);
    }
    Ok(musl)
}

fn has_standard_library(target: &str) -> Result<bool> {
    let words = ["--print", "target-libdir", "--target", target];
    let output = Command::new(env::var("RUSTC")?).args(words).output()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout)?.trim_end());
    // rustup lists here what it has installed, so what comes or goes later is noticed.
    let components = folder.ancestors().nth(2).map(|folder| folder.join("components"));
    if let Some(components) = components.filter(|list| list.is_file()) {
        println!("cargo::rerun-if-changed={}", components.display());
    }
    Ok(output.status.success() && folder.is_dir())
}

fn guest_flags(root: &Path) -> Result<Vec<String>> {
    let mut flags = vec![
        "-Ctarget-feature=+crt-static".to_owned(),
        "-Crelocation-model=static".to_owned(),
        // Panic messages carry source paths; code inside learns nothing of the builder's folders.
        format!("--remap-path-prefix={}=stockade", root.display()),
    ];
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    if let Some(home) = home {
        flags.push(format!("--remap-path-prefix={}=cargo", home.display()));
    }
    Ok(flags)
}

fn verify(image: &[u8]) -> Result<()> {
    let architecture = env::var("CARGO_CFG_TARGET_ARCH")?;
    let machine = elf::machine_of(&architecture)
        .ok_or_else(|| format!("the guest is not made for the architecture {architecture}"))?;
    elf::check_static(image, machine).map_err(|problem| {
        format!(
            "the guest was built but is not a static executable: {problem}\n\
             remedy: a static executable needs libc.a, on Debian `apt install libc6-dev`"
        )
        .into()
    })
}

fn watch(root: &Path) {
    for name in GUEST_CRATES {
        let folder = root.join("crates").join(name);
        println!("cargo::rerun-if-changed={}", folder.join("src").display());
        println!("cargo::rerun-if-changed={}", folder.join("Cargo.toml").display());
    }
    for name in ["Cargo.lock", "Cargo.toml", "rust-toolchain.toml"] {
        println!("cargo::rerun-if-changed={}", root.join(name).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/elf.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    if let Ok(target) = env::var("TARGET") {
        println!("cargo::rerun-if-env-changed={}", linker_variable(&target));
    }
}

/// The variable in which cargo takes the linker for a target.
fn linker_variable(target: &str) -> String {
    format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace(['-', '.'], "_"))
}
