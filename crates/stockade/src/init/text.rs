//! The text of the policy that `stockade init` writes.

use std::fmt::Write as _;
use std::path::Path;

use stockade_policy::Limit;

use crate::Problem;
use crate::args::{FirstPolicyArgs, WorkspaceMode};
use crate::run::amount::Amount;
use crate::run::flags::quoted;

/// The policy. `base` is the directory of its file, where its relative paths start.
pub(super) fn policy(
    args: &FirstPolicyArgs,
    mode: WorkspaceMode,
    here: &Path,
    base: &Path,
) -> Result<String, Problem> {
    let name = here.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy());
    let name: String = name.chars().filter(|letter| letter.is_ascii_graphic()).collect();
    let mut text = format!(
        "# What code in {} may use. Written by `stockade init`.\n\
         # `stockade policy schema` has every key, `stockade policy check` checks a change.\n\
         version: \"2\"\n\
         name: {}\n\n",
        quoted(&here.display().to_string()),
        quoted(&name)
    );
    limits(&mut text, args)?;
    files(&mut text, args, mode, here, base)?;
    hosts(&mut text, args);
    Ok(text)
}

fn limits(text: &mut String, args: &FirstPolicyArgs) -> Result<(), Problem> {
    text.push_str("defaults:\n");
    let said = [
        (Limit::Memory, &args.memory, 1 << 20, "MiB, files written inside included"),
        (Limit::Cpu, &args.cpus, 1, "processors"),
        (Limit::Timeout, &args.timeout, 1, "of one program"),
    ];
    for (limit, amount, scale, comment) in said {
        let spec = limit.spec();
        let value = match amount {
            Some(Amount { written, value }) if value % scale != 0 => {
                let message = format!("{written} is not a whole number of MiB");
                return Err(Problem::new(message, format!("write {}m", value.div_ceil(scale))));
            }
            Some(Amount { value, .. }) => value / scale,
            None => spec.default.unwrap_or(spec.max),
        };
        line(text, &format!("  {}: {}", spec.key, spec.unit.write(value)), comment);
    }
    line(text, "  network_default: deny", "only the hosts of network_allowlist");
    text.push('\n');
    Ok(())
}

fn files(
    text: &mut String,
    args: &FirstPolicyArgs,
    mode: WorkspaceMode,
    here: &Path,
    base: &Path,
) -> Result<(), Problem> {
    text.push_str("filesystem:\n");
    let comment = match mode {
        WorkspaceMode::Overlay => "its changes are dropped at the end; or read, write, scratch",
        WorkspaceMode::Read => "or overlay, write, scratch",
        WorkspaceMode::Write => "its changes are made to your files; or overlay, read, scratch",
        WorkspaceMode::Scratch => "an empty directory; or overlay, read, write with `host: .`",
    };
    let host = if base == here { ".".into() } else { here.to_string_lossy() };
    let host = match mode {
        WorkspaceMode::Scratch => String::new(),
        _ => format!("host: {}, ", quoted(&host)),
    };
    line(text, &format!("  workspace: {{ {host}mode: {} }}", mode.as_str()), comment);
    // In a writable directory only directories can be hidden.
    let is_hidden = matches!(mode, WorkspaceMode::Overlay | WorkspaceMode::Read);
    if is_hidden && here.join(".env").is_file() {
        line(text, "  hide: [ /workspace/.env ]", "not even readable inside");
    }
    for (key, said) in [("read", &args.read), ("write", &args.write)] {
        if !said.is_empty() {
            _ = writeln!(text, "  {key}:");
        }
        for mount in said {
            let parts = mount.split_once(':').filter(|(host, guest)| {
                !host.is_empty() && guest.starts_with('/') && !guest.contains(':')
            });
            let Some((host, guest)) = parts else {
                let message = format!("--{key} {mount} is not HOST:GUEST");
                return Err(Problem::new(message, format!("write --{key} ./data:/data")));
            };
            let host = if base == here { host.into() } else { here.join(host) };
            let host = quoted(&host.to_string_lossy());
            _ = writeln!(text, "    - {{ host: {host}, guest: {} }}", quoted(guest));
        }
    }
    text.push('\n');
    Ok(())
}

fn hosts(text: &mut String, args: &FirstPolicyArgs) {
    if args.allow_host.is_empty() {
        text.push_str("network_allowlist: []\n");
        text.push_str("#  - api.example.org         # ports 80 and 443\n");
        text.push_str("#  - \"*.example.org:8443\"    # any depth below, on this port only\n");
        return;
    }
    text.push_str("network_allowlist:\n");
    for host in &args.allow_host {
        _ = writeln!(text, "  - {}", quoted(host));
    }
}

/// A line with a comment in its own column.
fn line(text: &mut String, line: &str, comment: &str) {
    _ = writeln!(text, "{line:<28} # {comment}");
}

#[cfg(test)]
mod tests {
    use stockade_policy::Policy;

    use super::*;

    #[test]
    fn every_mode_makes_a_valid_policy() {
        let here = Path::new("/srv/project");
        for mode in [
            WorkspaceMode::Overlay,
            WorkspaceMode::Read,
            WorkspaceMode::Write,
            WorkspaceMode::Scratch,
        ] {
            for base in [here, Path::new("/srv")] {
                let args = FirstPolicyArgs {
                    read: vec!["./data:/data".to_owned()],
                    allow_host: vec!["api.example.org".to_owned()],
                    ..Default::default()
                };
                let text = policy(&args, mode, here, base).unwrap();
                let parsed = Policy::parse_str("p", &text, base);
                assert!(parsed.is_ok(), "{mode:?} {base:?}\n{text}\n{parsed:?}");
            }
        }
    }

    #[test]
    fn mount_without_a_guest_path_is_refused() {
        let here = Path::new("/srv/project");
        let args = FirstPolicyArgs { write: vec!["out".to_owned()], ..Default::default() };
        assert!(policy(&args, WorkspaceMode::Read, here, here).is_err());
    }
}
