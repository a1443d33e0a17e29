//! The job of a machine, and the disk that carries it into the machine.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use stockade_bootimage::Cpio;

/// The `PATH` of every command.
const PATH: &str = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// One command, its user, its environment and its files.
pub(crate) struct Job {
    pub(crate) user: String,
    pub(crate) delegate: bool,
    pub(crate) sysctls: Vec<String>,
    /// `NAME=value`, in addition to `PATH`, `HOME`, `USER` and `LANG`.
    pub(crate) environment: Vec<String>,
    /// Paths on the host, and absolute paths in the machine.
    pub(crate) files: Vec<(PathBuf, String)>,
    /// Packages in addition to those of every machine; they make an image of their own.
    pub(crate) packages: Vec<String>,
    pub(crate) command: Vec<String>,
}

impl Job {
    /// A command of root without further settings.
    pub(crate) fn of(command: &[&str]) -> Job {
        Job {
            user: "root".to_owned(),
            delegate: false,
            sysctls: Vec::new(),
            environment: Vec::new(),
            files: Vec::new(),
            packages: Vec::new(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    /// Writes the disk, an unnamed temporary file, and returns it with the mark that ends both
    /// streams.
    pub(crate) fn pack(&self) -> Result<(File, String)> {
        let mark = new_mark()?;
        let file = tempfile::tempfile().context("cannot make a temporary file")?;
        let mut parcel = Cpio::new(BufWriter::new(file));
        for (from, to) in &self.files {
            parcel.host(from, Path::new(to.trim_start_matches('/')))?;
        }
        parcel.file(Path::new("lab/job"), 0o644, self.script(&mark).as_bytes())?;
        let file = parcel.finish()?.into_inner().context("cannot write a temporary file")?;
        Ok((file, mark))
    }

    /// The script that the machine's first process reads.
    fn script(&self, mark: &str) -> String {
        let user = self.user.as_str();
        let home = match user {
            "root" => "/root".to_owned(),
            other => format!("/home/{other}"),
        };
        let mut become_user = vec!["setpriv".to_owned()];
        if user != "root" {
            let ids = ["--reuid", "--regid"].map(|option| format!("{option}={user}"));
            become_user.extend(ids);
            become_user.push("--init-groups".to_owned());
        }
        become_user.extend(["setsid", "--wait", "env", "-i", PATH].map(str::to_owned));
        become_user.extend([format!("HOME={home}"), format!("USER={user}")]);
        become_user.push("LANG=C.UTF-8".to_owned());
        let words = become_user.iter().chain(&self.environment).chain(&self.command);
        let words: Vec<String> = words.map(|word| quoted(word)).collect();
        let mut script = String::new();
        let values = [
            ("user", user),
            ("delegate", if self.delegate { "yes" } else { "no" }),
            ("sysctls", &self.sysctls.join("\n")),
            ("mark", mark),
        ];
        for (name, value) in values {
            // Writing to a String cannot fail.
            let _ = writeln!(script, "{name}={}", quoted(value));
        }
        let _ = writeln!(script, "job() {{\n    exec {}\n}}", words.join(" "));
        script
    }
}

/// A word quoted for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn new_mark() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.map(|byte| format!("{byte:02x}")).concat())
}
