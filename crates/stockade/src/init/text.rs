//! The text of the policy that `stockade init` writes.

use std::fmt::Write as _;
use std::path::Path;

use stockade_policy::Limit;

use crate::Problem;
use crate::args::{FirstPolicyArgs, WorkspaceMode};
use crate::run::amount::Amount;
use crate::run::flags::quoted;

/// A policy text, and the flag behind each line that one made, with the number of the line.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) flags: Vec<(usize, String)>,
}

impl Written {
    /// Remembers the flag behind the next line.
    fn flag(&mut self, flag: String) {
        self.flags.push((self.text.lines().count() + 1, flag));
    }
}

/// The policy. `base` is the directory of its file, where its relative paths start.
pub(super) fn policy(
    args: &FirstPolicyArgs,
    mode: WorkspaceMode,
    here: &Path,
    base: &Path,
) -> Result<Written, Problem> {
    let name = here.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy());
    let name: String = name.chars().filter(|letter| letter.is_ascii_graphic()).collect();
    let text = format!(
        "# What code in {} may use. Written by `stockade init`.\n\
         # `stockade policy schema` has every key, `stockade policy check` checks a change.\n\
         version: \"2\"\n\
         name: {}\n\n",
        quoted(&here.display().to_string()),
        quoted(&name)
    );
    let mut written = Written { text, flags: Vec::new() };
    limits(&mut written, args)?;
    files(&mut written, args, mode, here, base)?;
    hosts(&mut written, args);
    Ok(written)
}

fn limits(written: &mut Written, args: &FirstPolicyArgs) -> Result<(), Problem> {
    written.text.push_str("defaults:\n");
    let said = [
        (Limit::Memory, "--memory", &args.memory, 1 << 20, "MiB, files written inside included"),
        (Limit::Cpu, "--cpus", &args.cpus, 1, "processors"),
        (Limit::Timeout, "--timeout", &args.timeout, 1, "of one program"),
    ];
    for (limit, flag, amount, scale, comment) in said {
        let spec = limit.spec();
        if let Some(Amount { written: said, .. }) = amount {
            written.flag(format!("{flag} {said}"));
        }
        let value = match amount {
            Some(Amount { written, value }) if value % scale != 0 => {
                let message = format!("{flag} {written} is not a whole number of MiB");
                return Err(Problem::new(message, format!("write {}m", value.div_ceil(scale))));
            }
            Some(Amount { value, .. }) => value / scale,
            None => spec.default.unwrap_or(spec.max),
        };
        line(&mut written.text, &format!("  {}: {}", spec.key, spec.unit.write(value)), comment);
    }
    let text = &mut written.text;
    line(text, "  network_default: deny", "only the hosts of network_allowlist");
    text.push('\n');
    Ok(())
}

fn files(
    written: &mut Written,
    args: &FirstPolicyArgs,
    mode: WorkspaceMode,
    here: &Path,
    base: &Path,
) -> Result<(), Problem> {
    let text = &mut written.text;
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
            _ = writeln!(written.text, "  {key}:");
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
            written.flag(format!("--{key} {mount}"));
            _ = writeln!(written.text, "    - {{ host: {host}, guest: {} }}", quoted(guest));
        }
    }
    written.text.push('\n');
    Ok(())
}

fn hosts(written: &mut Written, args: &FirstPolicyArgs) {
    let text = &mut written.text;
    if args.allow_host.is_empty() {
        text.push_str("network_allowlist: []\n");
        text.push_str("#  - api.example.org         # ports 80 and 443\n");
        text.push_str("#  - \"*.example.org:8443\"    # any depth below, on this port only\n");
        return;
    }
    text.push_str("network_allowlist:\n");
    for host in &args.allow_host {
        written.flag(format!("--allow-host {host}"));
        _ = writeln!(written.text, "  - {}", quoted(host));
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
                let Written { text, flags } = policy(&args, mode, here, base).unwrap();
                for ((number, flag), part) in flags.iter().zip(["./data", "api.example.org"]) {
                    let line = text.lines().nth(number - 1).unwrap();
                    assert!(line.contains(part) && flag.contains(part), "{flag}: {line}");
                }
                assert_eq!(flags.len(), 2);
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
