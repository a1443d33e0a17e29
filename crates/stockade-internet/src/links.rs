//! The link between the machine and the internet, created with `ip` of iproute2.

use std::io::Write;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::EnterError;
use crate::world::{
    MACHINE, MACHINE_HARDWARE, MACHINE_PUBLIC, MACHINE_SIX, PUBLIC_SIX, ROUTER, ROUTER_HARDWARE,
    ROUTER_SIX,
};

/// Creates the link from the calling process's network namespace to that of the server process, and
/// sets the addresses of the near end.
pub(crate) fn connect_machine(internet: u32) -> Result<(), EnterError> {
    let mut lines = vec![
        "link set lo up".to_owned(),
        format!(
            "link add wan address {} type veth peer name lan address {} netns {internet}",
            hardware(MACHINE_HARDWARE),
            hardware(ROUTER_HARDWARE),
        ),
        format!("addr add {MACHINE}/24 dev wan"),
        format!("addr add {MACHINE_PUBLIC}/32 dev wan"),
        "link set wan up".to_owned(),
        format!("route add default via {ROUTER} src {MACHINE}"),
    ];
    if has_six() {
        lines.push(format!("addr add {MACHINE_SIX}/64 dev wan nodad"));
        lines.push(format!("route add ::/0 via {ROUTER_SIX}"));
    }
    run(&lines)
}

/// Makes the far end answer for every address except the machine's own.
pub(crate) fn answer_for_every_address() -> Result<(), EnterError> {
    let mut lines = vec![
        "link set lo up".to_owned(),
        format!("addr add {ROUTER}/24 dev lan"),
        "link set lan up".to_owned(),
        format!("route add {MACHINE_PUBLIC}/32 dev lan"),
        // In the table `main`, so that the longer prefixes above take precedence.
        "route add local 0.0.0.0/0 dev lo table main".to_owned(),
    ];
    if has_six() {
        lines.push(format!("addr add {ROUTER_SIX}/64 dev lan nodad"));
        // Sockets bind to this address: unlike IPv4, IPv6 needs the address itself, not just a
        // route.
        lines.push(format!("addr add {PUBLIC_SIX}/128 dev lo nodad"));
        lines.push(format!("route add local {}/0 dev lo table main", Ipv6Addr::UNSPECIFIED));
    }
    run(&lines)
}

/// Whether the kernel has IPv6.
pub(crate) fn has_six() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

fn hardware(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

fn run(lines: &[String]) -> Result<(), EnterError> {
    let missing = |source| EnterError::NoIpProgram { source };
    let mut child = Command::new(program())
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    let text = lines.join("\n") + "\n";
    // Ignored: a program that ended early has written its error to standard error.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(missing)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(EnterError::Links {
            reason: String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "),
        }),
    }
}

/// The `PATH` of an unprivileged user often lacks the sbin folders.
fn program() -> &'static str {
    let places = ["/usr/bin/ip", "/usr/sbin/ip", "/sbin/ip", "/bin/ip"];
    places.into_iter().find(|place| Path::new(place).exists()).unwrap_or("ip")
}
