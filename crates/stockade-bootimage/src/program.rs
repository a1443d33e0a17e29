//! Programs of this host that build images.

use std::process::{Command, Stdio};

use crate::BootImageError;

/// The programs and their Debian packages.
const PROGRAMS: [(&str, &str); 5] = [
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("tar", "tar"),
    ("mksquashfs", "squashfs-tools"),
    ("xz", "xz-utils"),
];

/// A command that starts a program. Its directory may be outside an ordinary user's PATH.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C");
    command.stdin(Stdio::null());
    command
}

/// Runs a program to its end, and returns its output.
pub(crate) fn finish(
    program: &'static str,
    mut command: Command,
) -> Result<String, BootImageError> {
    let output = command.output().map_err(|source| no_program(program, source))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let output = format!("{}{}", text.trim(), errors.trim());
        return Err(BootImageError::Program { program, output });
    }
    Ok(text)
}

/// The error for a program that cannot be started.
pub(crate) fn no_program(program: &'static str, source: std::io::Error) -> BootImageError {
    match PROGRAMS.iter().find(|(name, _)| *name == program) {
        Some((_, package)) if source.kind() == std::io::ErrorKind::NotFound => {
            BootImageError::NoProgram { program, package }
        }
        _ => BootImageError::file("start", program)(source),
    }
}
