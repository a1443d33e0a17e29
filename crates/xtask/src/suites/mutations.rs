//! Tests the guards: each must find a deliberate violation in a copy of the tree, and nothing in an
//! unchanged copy.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::guards::{Finding, GUARDS};
use crate::scratch::Scratch;
use crate::suite::Outcome;
use crate::tree::Tree;

/// One deliberate violation.
struct Breach {
    guard: &'static str,
    file: &'static str,
    edit: fn(&str) -> String,
    /// The text that the guard's finding must contain.
    finding: &'static str,
}

const BREACHES: [Breach; 12] = [
    Breach {
        guard: "rows",
        file: "crates/stockade-wire/Cargo.toml",
        edit: |text| with_dependency(text, "stockade-guest = { path = \"../stockade-guest\" }"),
        finding: "stockade-wire (row 1) depends on stockade-guest (row 3)",
    },
    Breach {
        guard: "rows",
        file: "crates/stockade-sys/Cargo.toml",
        edit: |text| with_dependency(text, "tokio = \"1\""),
        finding: "stockade-sys must not depend on tokio",
    },
    Breach {
        guard: "rows",
        file: "crates/stockade-wire/Cargo.toml",
        edit: |text| text.replace("name = \"stockade-wire\"", "name = \"stockade-stray\""),
        finding: "stockade-stray has no row",
    },
    Breach {
        guard: "unsafe",
        file: "crates/stockade-wire/src/frame.rs",
        edit: |text| format!("{text}\nfn breach() {{ unsafe {{}} }}\n"),
        finding: "unsafe outside stockade-sys",
    },
    Breach {
        guard: "unsafe",
        file: "crates/stockade-wire/Cargo.toml",
        edit: |text| {
            text.replace("[lints]\nworkspace = true", "[lints.rust]\nunsafe_code = \"allow\"")
        },
        finding: "does not use the workspace's lints",
    },
    Breach {
        guard: "prints",
        file: "crates/stockade-wire/src/frame.rs",
        edit: |text| format!("{text}\nfn breach() {{ println!() }}\n"),
        finding: "println! in a library",
    },
    Breach {
        guard: "alone",
        file: "docs/breach.md",
        edit: |_| ["see ..", "/shared", "/PLAN.md\n"].concat(),
        finding: "a folder outside the project",
    },
    Breach {
        guard: "alone",
        file: ".ci/breach",
        edit: |_| ["fetch https://", "crates", ".io\n"].concat(),
        finding: "names the registry",
    },
    Breach {
        guard: "sizes",
        file: "crates/stockade-wire/src/breach.rs",
        edit: |_| "//\n".repeat(601),
        finding: "601 lines without tests, over 600",
    },
    Breach {
        guard: "features",
        file: "crates/stockade-native/Cargo.toml",
        edit: |text| text.replace("[features]\n", "[features]\ndefault = [\"weaken\"]\n"),
        finding: "weaken is a default feature of stockade-native",
    },
    Breach {
        guard: "words",
        file: "docs/breach.md",
        edit: |_| ["the guest is ", "told\n"].concat(),
        finding: "says",
    },
    Breach {
        guard: "shell",
        file: "breach",
        edit: |_| "#!/bin/bash\nif true; then\n".to_owned(),
        finding: "bash cannot parse it",
    },
];

/// Makes every violation in a copy of the tree, one at a time.
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

/// Makes one violation, checks that its guard finds it, and reverts it.
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
        |finding: &Finding| finding.file == breach.file && finding.what.contains(breach.finding);
    ensure!(findings.iter().any(named), "was not found; the guard reported {findings:?}");
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
