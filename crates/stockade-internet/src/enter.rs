//! Entering: the calling process becomes the one machine on the fake internet.
//!
//! ```text
//! caller ── unshares namespaces, starts ────▶ servers ── unshare the network ────── apart
//!   creates the link ◀───────────────────────────────────────────────────────────────┘
//!   go ──────────────────────────────────────▶ addresses, sockets, authority ────── ready
//!   covers resolv.conf and certificates, drops its capabilities
//!   ends ── seen through a pidfd ────────────▶ kill remaining processes, remove the files
//! ```

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::thread::{CapabilitySet, CapabilitySets};
use stockade_sys::{Namespaces, unshare_namespaces};

use crate::error::EnterError;
use crate::internet::{Internet, LOG_FILE, LOG_VARIABLE};
use crate::links;
use crate::machine;
use crate::servers::{self, APART, GO, READY, ROLE_VARIABLE};

/// The capabilities for creating and serving the link, inside a new user namespace.
const CAPABILITIES: [CapabilitySet; 4] = [
    CapabilitySet::NET_ADMIN,
    CapabilitySet::NET_RAW,
    CapabilitySet::NET_BIND_SERVICE,
    CapabilitySet::SYS_ADMIN,
];

/// Moves the calling process, which must have a single thread, onto the fake internet. From then on
/// it and its children reach nothing else. Does nothing if the process is already on it.
///
/// Call it first in `main`: it starts the same executable again as the servers, and in that process
/// this function serves and does not return.
pub fn enter() -> Result<Internet, EnterError> {
    if let Some(role) = std::env::var_os(ROLE_VARIABLE) {
        servers::main(Path::new(&role));
    }
    if let Some(internet) = Internet::here() {
        return Ok(internet);
    }
    let directory = tempfile::Builder::new()
        .prefix("stockade-internet-")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .map_err(EnterError::file(std::env::temp_dir()))?;
    let user = rustix::process::geteuid();
    let group = rustix::process::getegid();
    match user.is_root() {
        true => unshare_namespaces(Namespaces::NETWORK_AND_MOUNTS),
        false => unshare_namespaces(Namespaces::UNPRIVILEGED_NETWORK_AND_MOUNTS),
    }
    .map_err(|source| EnterError::Namespaces { source })?;
    if !user.is_root() {
        machine::map_ids(user.as_raw(), group.as_raw())?;
        raise_ambient_capabilities()?;
    }
    machine::keep_mounts_private()?;
    machine::open_low_ports()?;
    let mut servers = start_servers(directory.path())?;
    let started = converse(&mut servers, directory.path());
    if let Err(error) = started {
        // Best effort: it may have ended by itself.
        let _ = servers.kill();
        let _ = servers.wait();
        return Err(error);
    }
    machine::cover(directory.path())?;
    if !user.is_root() {
        drop_capabilities()?;
    }
    // From here on the servers remove the directory.
    let directory = directory.keep();
    Internet::open(&directory.join(LOG_FILE)).map_err(EnterError::file(directory))
}

/// Sets the variables by which a command detects that it is on the fake internet.
pub fn set_environment(command: &mut Command, internet: &Internet) {
    command.env(LOG_VARIABLE, internet.log_file());
}

fn start_servers(directory: &Path) -> Result<Child, EnterError> {
    let errors = directory.join("servers.txt");
    let errors = fs::File::create(&errors).map_err(EnterError::file(errors))?;
    let network =
        fs::metadata("/proc/self/ns/net").map_err(EnterError::file("/proc/self/ns/net"))?;
    Command::new("/proc/self/exe")
        .env(ROLE_VARIABLE, directory)
        .env(servers::MACHINE_VARIABLE, format!("{} {}", std::process::id(), network.ino()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        // A new process group, so that Ctrl-C does not end the servers: they clean up after the
        // command.
        .process_group(0)
        .spawn()
        .map_err(EnterError::file("/proc/self/exe"))
}

fn converse(servers: &mut Child, directory: &Path) -> Result<(), EnterError> {
    let failed = || EnterError::Servers {
        reason: fs::read_to_string(directory.join("servers.txt"))
            .unwrap_or_default()
            .replace('\n', " "),
    };
    let id = servers.id();
    let (Some(mut input), Some(output)) = (servers.stdin.take(), servers.stdout.take()) else {
        return Err(failed());
    };
    let mut lines = BufReader::new(output).lines();
    let mut receive = |word: &str| match lines.next() {
        Some(Ok(line)) if line == word => Ok(()),
        _ => Err(failed()),
    };
    receive(APART)?;
    links::connect_machine(id)?;
    writeln!(input, "{GO}").map_err(|_| failed())?;
    receive(READY)
}

/// Makes our capabilities ambient, so that the programs we start keep them.
fn raise_ambient_capabilities() -> Result<(), EnterError> {
    let failed = |source: rustix::io::Errno| EnterError::Rights {
        what: "capabilities of the servers",
        source: source.into(),
    };
    let mut sets = rustix::thread::capabilities(None).map_err(failed)?;
    for right in CAPABILITIES {
        sets.inheritable |= right;
    }
    rustix::thread::set_capabilities(None, sets).map_err(failed)?;
    for right in CAPABILITIES {
        rustix::thread::configure_capability_in_ambient_set(right, true).map_err(failed)?;
    }
    Ok(())
}

/// Drops all capabilities: the command runs as an ordinary user.
fn drop_capabilities() -> Result<(), EnterError> {
    let failed = |source: rustix::io::Errno| EnterError::Rights {
        what: "dropping all capabilities",
        source: source.into(),
    };
    rustix::thread::clear_ambient_capability_set().map_err(failed)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).map_err(failed)
}
