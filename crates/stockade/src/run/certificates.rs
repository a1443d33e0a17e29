//! Certificate authorities of the caller, such as a company's own: a run that reaches the network
//! sees the files that the usual variables name.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stockade_policy::{Basis, Mount, Policy, SYSTEM};

use super::flags::quoted;

/// Variables that name a file with certificates.
const VARIABLES: [&str; 5] =
    ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS"];

/// The largest file of certificates; a whole system's is a quarter of a megabyte.
const MAX_BYTES: u64 = 4 << 20;

/// Shows the caller's certificates inside, read-only and at their own path, and adds the variables
/// that name them. Skips a file that holds anything but certificates, that another user could
/// replace, or that cannot be shown.
pub(super) fn show(
    policy: &mut Policy,
    environment: &mut Vec<(String, String)>,
    variable: impl Fn(&str) -> Option<OsString>,
    user: u32,
) {
    for name in VARIABLES {
        let is_set = environment.iter().any(|(own, _)| own == name);
        let Some(file) = variable(name).filter(|_| !is_set).map(PathBuf::from) else { continue };
        let Some(file) = file.canonicalize().ok().filter(|file| holds_certificates(file, user))
        else {
            continue;
        };
        let Some(text) = file.to_str() else { continue };
        if is_visible(policy, &file) || mount(policy, text) {
            environment.push((name.to_owned(), text.to_owned()));
        }
    }
}

/// Whether every sandbox shows the file, or a mount shows it at its own path.
fn is_visible(policy: &Policy, file: &Path) -> bool {
    let is_system = SYSTEM.iter().chain(&["/etc/ssl/certs"]).any(|place| file.starts_with(place));
    let is_mounted = |mount: &Mount| {
        mount.host == Path::new(mount.guest.as_str()) && file.starts_with(&mount.host)
    };
    is_system || policy.mounts.iter().any(is_mounted)
}

/// Adds the mount, if a policy could have it.
fn mount(policy: &mut Policy, text: &str) -> bool {
    let asked = format!("filesystem: {{ read: [{}] }}", quoted(text));
    let Ok(asked) = Policy::parse_str("certificates", &asked, Path::new("/")) else { return false };
    let basis = Basis::BuiltIn { rule: "certificates that a variable of the caller names" };
    policy
        .mounts
        .extend(asked.mounts.into_iter().map(|mount| Mount { basis: basis.clone(), ..mount }));
    true
}

/// Whether a file has certificates and nothing else, and belongs to the user or to root.
fn holds_certificates(file: &Path, user: u32) -> bool {
    let Ok(mut open) = File::open(file) else { return false };
    let Ok(found) = open.metadata() else { return false };
    let is_own = [0, user].contains(&found.uid()) && found.mode() & 0o022 == 0;
    if !found.is_file() || !is_own || found.len() > MAX_BYTES {
        return false;
    }
    let mut text = String::new();
    let read = open.by_ref().take(MAX_BYTES).read_to_string(&mut text);
    read.is_ok() && are_certificates(&text)
}

/// Whether every block of a PEM text is a certificate, and there is one.
fn are_certificates(text: &str) -> bool {
    let mut blocks = text.lines().filter(|line| line.contains("-----BEGIN")).peekable();
    blocks.peek().is_some()
        && blocks.all(|line| {
            ["-----BEGIN CERTIFICATE-----", "-----BEGIN TRUSTED CERTIFICATE-----"]
                .contains(&line.trim())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = "# a company\n-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

    #[test]
    fn only_texts_of_nothing_but_certificates_are_shown() {
        assert!(are_certificates(PEM));
        let key = format!("{PEM}-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n");
        for text in ["", "no certificate", key.as_str()] {
            assert!(!are_certificates(text), "{text}");
        }
    }

    #[test]
    fn certificates_that_others_could_replace_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, PEM).unwrap();
        let set = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&file, mode).unwrap();
        };
        let user = file.metadata().unwrap().uid();
        set(0o644);
        assert!(holds_certificates(&file, user));
        assert!(!holds_certificates(folder.path(), user));
        set(0o666);
        assert!(!holds_certificates(&file, user));
    }
}
