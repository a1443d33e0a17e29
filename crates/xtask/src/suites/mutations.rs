//! The guards guarded: each breach of a rule, made on a copy, is found; the untouched copy is not.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::guards::{Finding, GUARDS};
use crate::scratch::Scratch;
use crate::suite::Outcome;
use crate::tree::Tree;

/// One deliberate breach.
struct Breach {
    guard: &'static str,
    file: &'static str,
    edit: fn(&str) -> String,
    /// What the guard must say about it.
    says: &'static str,
}

const BREACHES: [Breach; 11] = [
    Breach {
        guard: "rows",
        file: "crates/stockade-wire/Cargo.toml",
        edit: |text| with_dependency(text, "stockade-guest = { path = \"../stockade-guest\" }"),
        says: "stockade-wire (row 0) depends on stockade-guest (row 2)",
    },
    Breach {
        guard: "rows",
        file: "crates/stockade-sys/Cargo.toml",
        edit: |text| with_dependency(text, "tokio = \"1\""),
        says: "stockade-sys never touches tokio",
    },
    Breach {
        guard: "rows",
        file: "crates/stockade-wire/Cargo.toml",
        edit: |text| text.replace("name = \"stockade-wire\"", "name = \"stockade-stray\""),
        says: "stockade-stray has no row",
    },
    Breach {
        guard: "unsafe",
        file: "crates/stockade-wire/src/frame.rs",
        edit: |text| format!("{text}\nfn breach() {{ unsafe {{}} }}\n"),
        says: "unsafe outside stockade-sys",
    },
    Breach {
        guard: "unsafe",
        file: "crates/stockade-wire/Cargo.toml",
        edit: |text| {
            text.replace("[lints]\nworkspace = true", "[lints.rust]\nunsafe_code = \"allow\"")
        },
        says: "does not take the workspace's lints",
    },
    Breach {
        guard: "prints",
        file: "crates/stockade-wire/src/frame.rs",
        edit: |text| format!("{text}\nfn breach() {{ println!() }}\n"),
        says: "println! in a library",
    },
    Breach {
        guard: "alone",
        file: "docs/breach.md",
        edit: |_| ["see ..", "/shared", "/PLAN.md\n"].concat(),
        says: "a folder outside the project",
    },
    Breach {
        guard: "alone",
        file: ".ci/breach",
        edit: |_| ["fetch https://", "crates", ".io\n"].concat(),
        says: "names the registry",
    },
    Breach {
        guard: "sizes",
        file: "crates/stockade-wire/src/breach.rs",
        edit: |_| "//\n".repeat(601),
        says: "601 lines without tests, over 600",
    },
    Breach {
        guard: "features",
        file: "crates/stockade-native/Cargo.toml",
        edit: |text| text.replace("[features]\n", "[features]\ndefault = [\"weaken\"]\n"),
        says: "weaken is a default feature of stockade-native",
    },
    Breach {
        guard: "shell",
        file: "breach",
        edit: |_| "#!/bin/bash\nif true; then\n".to_owned(),
        says: "bash cannot parse it",
    },
];

/// Makes every breach on a copy of the tree, one at a time.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    let scratch = Scratch::new("mutations")?;
    Tree::open(root)?.copy_to(scratch.path())?;
    for (name, _) in GUARDS {
        let findings = findings_of(name, scratch.path())?;
        ensure!(findings.is_empty(), "{name} finds something in the untouched copy:\n{findings:?}");
    }
    for breach in &BREACHES {
        judge(breach, scratch.path())
            .with_context(|| format!("the breach of {} in {}", breach.guard, breach.file))?;
    }
    Ok(Outcome::passed(format!("{} breaches found, the untouched copy clean", BREACHES.len())))
}

/// Makes one breach, sees that its guard names it, and takes it back.
fn judge(breach: &Breach, root: &Path) -> Result<()> {
    let path = root.join(breach.file);
    let before = match path.exists() {
        true => Some(fs::read_to_string(&path)?),
        false => None,
    };
    let after = (breach.edit)(before.as_deref().unwrap_or_default());
    ensure!(before.as_ref() != Some(&after), "the edit changes nothing");
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    fs::write(&path, after)?;
    let findings = findings_of(breach.guard, root)?;
    match before {
        Some(text) => fs::write(&path, text)?,
        None => fs::remove_file(&path)?,
    }
    let named =
        |finding: &Finding| finding.file == breach.file && finding.what.contains(breach.says);
    ensure!(findings.iter().any(named), "was not found; the guard said {findings:?}");
    Ok(())
}

fn findings_of(name: &str, root: &Path) -> Result<Vec<Finding>> {
    match GUARDS.iter().find(|(guard, _)| *guard == name) {
        Some((_, guard)) => guard(&Tree::open(root)?),
        None => bail!("no guard is called {name}"),
    }
}

fn with_dependency(manifest: &str, line: &str) -> String {
    manifest.replace("[dependencies]\n", &format!("[dependencies]\n{line}\n"))
}
