//! Converts flags to a policy text, so that every path and bound is checked as in a file. Without
//! `--policy` they add to the preset; with it they only tighten the policy.

use std::fmt::Write as _;
use std::path::Path;

use stockade_engine::{Learned, Passage};
use stockade_policy::{Host, Limit, Policy, TightenError, Unit, is_harmless, parse_host_port};

use crate::Problem;
use crate::args::PolicyFlags;

use super::amount::Amount;
use super::requests::{Requests, secret};
use super::tools::Offered;
use super::uses::{self, Reads};

const MEBIBYTE: u64 = 1 << 20;

/// The preset `default` with the flags applied.
pub(crate) fn preset(
    flags: &PolicyFlags,
    passage: Passage,
    offered: &Offered,
    here: &Path,
) -> Result<Policy, Problem> {
    let mut limits = limits(flags)?;
    refuse_disk_over_memory(flags, default_memory())?;
    limits.extend(timeout_of_ttl(flags, Limit::Timeout.spec().default.unwrap_or(0)));
    let mut text = Text::default();
    text.line(None, "name: default");
    text.limits(flags, &limits, passage);
    text.files(flags, None)?;
    text.hosts(flags)?;
    text.tools(offered.names());
    text.parse(here).map(|policy| inspected(policy, flags))
}

/// A policy whose hosts are inspected, if the flags ask for it.
fn inspected(policy: Policy, flags: &PolicyFlags) -> Policy {
    if flags.inspect { policy.inspecting() } else { policy }
}

/// The smallest policy text that includes the flags and everything that was learned.
pub(crate) fn learned(
    flags: &PolicyFlags,
    learned: &[Learned],
    tools: &[String],
    here: &Path,
) -> Result<String, Problem> {
    let mut text = Text::default();
    text.line(None, "# Written by `stockade run --learn`: what one run used. Read it before use.");
    text.line(None, "version: \"2\"");
    text.line(None, "name: learned");
    text.limits(flags, &limits(flags)?, Passage::Allowed);
    text.files(flags, Some(here))?;
    let reads = if flags.inspect { Reads::Everything } else { Reads::Some };
    text.learned(learned, reads, &literals(flags, learned));
    text.secrets(flags)?;
    text.blocked(flags);
    text.tools(tools.iter().map(String::as_str));
    Ok(text.text)
}

/// A policy with the limits and the floor of the flags, which may only be stricter.
pub(crate) fn tightened(
    policy: Policy,
    flags: &PolicyFlags,
    here: &Path,
) -> Result<Policy, Problem> {
    let widening =
        [("--mount", !flags.mount.is_empty()), ("--workspace", flags.workspace.is_some())];
    if let Some((flag, _)) = widening.iter().find(|(_, said)| *said) {
        let message = format!("{flag} would widen the policy that --policy names");
        return Err(Problem::new(message, "add it to `filesystem` in the policy file"));
    }
    let policy = inspected(with_hosts(policy, flags, here)?, flags);
    let limits = limits(flags)?;
    if limits.is_empty() && flags.isolation.is_none() {
        return Ok(policy);
    }
    let memory = policy.limits.value(Limit::Memory).unwrap_or(u64::MAX / MEBIBYTE);
    refuse_disk_over_memory(flags, memory)?;
    let mut text = Text::default();
    let mut said = limits.clone();
    if flags.disk.is_some() && flags.memory.is_none() {
        // The parser compares the disk limit with this memory limit.
        said.push((Limit::Memory, memory, String::new()));
    }
    said.extend(timeout_of_ttl(flags, policy.limits.value(Limit::Timeout).unwrap_or(u64::MAX)));
    text.limits(flags, &said, Passage::Allowed);
    let said = text.parse(here)?;
    policy.tightened(&said).map_err(|error| wider(&error, &limits, flags))
}

/// A policy with the hosts of the flags.
fn with_hosts(policy: Policy, flags: &PolicyFlags, here: &Path) -> Result<Policy, Problem> {
    let said = [&flags.allow_host, &flags.block_host, &flags.allow, &flags.secret];
    if said.iter().all(|list| list.is_empty()) {
        return Ok(policy);
    }
    let mut text = Text::default();
    text.hosts(flags)?;
    let said = text.parse(here)?;
    refuse_second_secrets(&policy, &said)?;
    Ok(policy.with_hosts_of_caller(&said))
}

/// Refuses a secret of the flags that the policy defines too, or whose variable it sets: one of the
/// two would be lost without a word.
fn refuse_second_secrets(policy: &Policy, said: &Policy) -> Result<(), Problem> {
    for name in said.secrets.iter().map(|secret| &secret.name) {
        if policy.secrets.iter().any(|secret| secret.name == *name) {
            let message = format!("--secret {name}: the secret `{name}` is defined twice");
            let remedy = "leave the flag out, or remove the secret from the policy file";
            return Err(Problem::new(message, remedy));
        }
        if policy.environment.iter().any(|variable| variable.name == *name) {
            let message = format!("--secret {name}: the policy sets `{name}` in `environment`");
            let remedy = "leave the flag out, or remove the variable from the policy file";
            return Err(Problem::new(message, remedy));
        }
    }
    Ok(())
}

/// The limits given as flags, in policy units, each with its flag as written.
type SaidLimits = Vec<(Limit, u64, String)>;

fn limits(flags: &PolicyFlags) -> Result<SaidLimits, Problem> {
    let said = [
        (Limit::Cpu, "--cpus", &flags.cpus),
        (Limit::Memory, "--memory", &flags.memory),
        (Limit::Timeout, "--timeout", &flags.timeout),
        (Limit::Pids, "--pids", &flags.pids),
        (Limit::Disk, "--disk", &flags.disk),
        (Limit::Output, "--max-output", &flags.max_output),
        (Limit::ToolCalls, "--max-tool-calls", &flags.max_tool_calls),
        (Limit::Lifetime, "--ttl", &flags.ttl),
        (Limit::Idle, "--idle", &flags.idle),
    ];
    let mut limits = SaidLimits::new();
    for (limit, flag, amount) in said {
        let Some(Amount { written, value }) = amount else { continue };
        let flag = format!("{flag} {written}");
        let is_mebibytes = limit.spec().unit == Unit::Mebibytes;
        if is_mebibytes && value % MEBIBYTE != 0 {
            let message = format!("{flag} is not a whole number of MiB");
            let nearest = value.div_ceil(MEBIBYTE);
            return Err(Problem::new(message, format!("write {nearest}m")));
        }
        let held = if is_mebibytes { value / MEBIBYTE } else { *value };
        limits.push((limit, held, flag));
    }
    Ok(limits)
}

/// A program cannot run longer than its session: `--ttl` shortens the time limit of programs, if no
/// flag sets that limit.
fn timeout_of_ttl(flags: &PolicyFlags, timeout: u64) -> Option<(Limit, u64, String)> {
    let ttl = flags.ttl.as_ref().filter(|_| flags.timeout.is_none())?;
    Some((Limit::Timeout, ttl.value.min(timeout), format!("--ttl {}", ttl.written)))
}

fn default_memory() -> u64 {
    Limit::Memory.spec().default.unwrap_or(0)
}

/// The parser refuses this too; here the remedy can name the flags. `unsaid` is the memory limit
/// without `--memory`.
fn refuse_disk_over_memory(flags: &PolicyFlags, unsaid: u64) -> Result<(), Problem> {
    let Some(disk) = &flags.disk else { return Ok(()) };
    let memory = flags.memory.as_ref().map_or(unsaid * MEBIBYTE, |memory| memory.value);
    if disk.value <= memory {
        return Ok(());
    }
    let said = flags.memory.as_ref().map_or_else(
        || format!("the {unsaid} MiB of memory"),
        |memory| format!("--memory {}", memory.written),
    );
    let message = format!(
        "--disk {} is more than {said}: writable files live in memory and count as memory",
        disk.written
    );
    let remedy = format!("raise --memory to at least {}, or lower --disk", disk.written);
    Err(Problem::new(message, remedy))
}

fn wider(error: &TightenError, limits: &SaidLimits, flags: &PolicyFlags) -> Problem {
    let flag = match error {
        TightenError::Limit { limit, .. } => {
            let said = limits.iter().find(|(said, ..)| said == limit);
            said.map_or_else(String::new, |(_, _, flag)| flag.clone())
        }
        TightenError::Floor { .. } => {
            format!("--isolation {}", flags.isolation.as_deref().unwrap_or_default())
        }
    };
    let remedy = "leave the flag out, or change the policy: a flag only tightens it";
    Problem::new(format!("{flag} would widen the policy: {error}"), remedy)
}

/// A policy text that remembers the flag behind each line.
#[derive(Default)]
struct Text {
    text: String,
    flags: Vec<Option<String>>,
}

impl Text {
    fn line(&mut self, flag: Option<String>, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.flags.push(flag);
    }

    fn limits(&mut self, flags: &PolicyFlags, limits: &SaidLimits, passage: Passage) {
        if let Some(floor) = &flags.isolation {
            self.line(Some(format!("--isolation {floor}")), &format!("isolation: {floor}"));
        }
        for section in ["defaults", "limits"] {
            let said = || limits.iter().filter(|(limit, ..)| limit.spec().section == section);
            let is_open = section == "defaults" && passage != Passage::Allowed;
            if said().next().is_some() || is_open {
                self.line(None, &format!("{section}:"));
            }
            if is_open {
                self.line(Some("--learn".to_owned()), "  network_default: allow");
            }
            for (limit, held, flag) in said() {
                let spec = limit.spec();
                let line = format!("  {}: {}", spec.key, spec.unit.write(*held));
                self.line(Some(flag.clone()), &line);
            }
        }
    }

    /// Adds mounts and the workspace. Host paths stay as written, or become absolute with `here`.
    fn files(&mut self, flags: &PolicyFlags, here: Option<&Path>) -> Result<(), Problem> {
        if flags.mount.is_empty() && flags.workspace.is_none() {
            return Ok(());
        }
        let mounts: Vec<Mount<'_>> =
            flags.mount.iter().map(|said| Mount::parse(said)).collect::<Result<_, _>>()?;
        self.line(None, "filesystem:");
        for access in ["read", "write"] {
            let said = || mounts.iter().filter(|mount| mount.access == access);
            if said().next().is_some() {
                self.line(None, &format!("  {access}:"));
            }
            for Mount { host, guest, said, .. } in said() {
                let host = from(host, here);
                let line = format!("    - {{ host: {}, guest: {} }}", quoted(&host), quoted(guest));
                self.line(Some(format!("--mount {said}")), &line);
            }
        }
        if let Some(said) = &flags.workspace {
            let (host, mode) = workspace(said)?;
            let host = from(host, here);
            let line = format!("  workspace: {{ host: {}, mode: {mode} }}", quoted(&host));
            self.line(Some(format!("--workspace {said}")), &line);
        }
        Ok(())
    }

    fn hosts(&mut self, flags: &PolicyFlags) -> Result<(), Problem> {
        self.list("network_allowlist", "--allow-host", &flags.allow_host);
        if flags.allow_host.is_empty() && !flags.allow.is_empty() {
            self.line(None, "network_allowlist:");
        }
        for said in &flags.allow {
            let entry = Requests::parse(said)?.entry();
            self.line(Some(format!("--allow {said}")), &format!("  - {entry}"));
        }
        self.secrets(flags)?;
        self.blocked(flags);
        Ok(())
    }

    fn blocked(&mut self, flags: &PolicyFlags) {
        self.list("network_blocklist", "--block-host", &flags.block_host);
    }

    /// Allows every offered tool, for runs without `--policy`.
    fn tools<'t>(&mut self, names: impl Iterator<Item = &'t str>) {
        let names: Vec<String> = names.map(str::to_owned).collect();
        self.list("tool_allowlist", "--tools", &names);
    }

    fn list(&mut self, key: &str, flag: &str, said: &[String]) {
        if !said.is_empty() {
            self.line(None, &format!("{key}:"));
        }
        for host in said {
            self.line(Some(format!("{flag} {host}")), &format!("  - {}", quoted(host)));
        }
    }

    /// Adds what was learned, and the literals without which a name would not be reached.
    fn learned(&mut self, learned: &[Learned], reads: Reads, literals: &[String]) {
        if !learned.is_empty() || !literals.is_empty() {
            self.line(None, "network_allowlist:");
        }
        for literal in literals {
            self.line(None, &format!("  - {}", quoted(literal)));
        }
        for line in uses::entries(learned, reads) {
            self.line(None, &format!("  {line}"));
        }
    }

    /// Adds secrets. Their hosts are allowed elsewhere.
    fn secrets(&mut self, flags: &PolicyFlags) -> Result<(), Problem> {
        if !flags.secret.is_empty() {
            self.line(None, "secrets:");
        }
        for said in &flags.secret {
            let entry = secret(said)?;
            let name = said.split('=').next().unwrap_or_default();
            self.line(Some(format!("--secret {name}")), &format!("  - {entry}"));
        }
        Ok(())
    }

    fn parse(&self, here: &Path) -> Result<Policy, Problem> {
        Policy::parse_flags(&self.text, &self.flags, here).map_err(|errors| {
            let Some(first) = errors.diagnostics().first() else {
                return Problem::new("the flags make no policy", "leave some out");
            };
            let flag = self.flags.get(first.line.saturating_sub(1)).cloned().flatten();
            let flag = flag.map_or_else(String::new, |flag| format!("{flag}: "));
            let remedy = match first.remedy.contains("`filesystem.workspace`") {
                true => "pass --workspace DIR, or --workspace DIR:write to change its files",
                false => &first.remedy,
            };
            Problem::new(format!("{flag}{}", first.message), remedy)
        })
    }
}

struct Mount<'f> {
    host: &'f str,
    guest: &'f str,
    access: &'static str,
    said: &'f str,
}

impl Mount<'_> {
    fn parse(said: &str) -> Result<Mount<'_>, Problem> {
        let parts: Vec<&str> = said.split(':').collect();
        let (host, guest, access) = match parts[..] {
            [host, guest] | [host, guest, "ro"] => (host, guest, "read"),
            [host, guest, "rw"] => (host, guest, "write"),
            _ => ("", "", ""),
        };
        if host.is_empty() || guest.is_empty() {
            let message = format!("--mount {said} is not HOST:GUEST or HOST:GUEST:rw");
            return Err(Problem::new(message, "write it such as --mount ./data:/data"));
        }
        Ok(Mount { host, guest, access, said })
    }
}

fn workspace(said: &str) -> Result<(&str, &str), Problem> {
    let (host, mode) = said.rsplit_once(':').unwrap_or((said, "overlay"));
    if host.is_empty() || !["overlay", "read", "write"].contains(&mode) {
        let message = format!("--workspace {said} is not DIR, or DIR with a mode");
        let remedy =
            "write it such as --workspace .:overlay; the modes are overlay, read and write";
        return Err(Problem::new(message, remedy));
    }
    Ok((host, mode))
}

/// The literal addresses of `--allow-host`, except those that the run used by their literal.
fn literals(flags: &PolicyFlags, learned: &[Learned]) -> Vec<String> {
    let is_needed = |said: &&String| match parse_host_port(said) {
        Ok((host @ Host::Address(_), port)) => {
            !learned.iter().any(|used| used.host == host && port == Some(used.port))
        }
        _ => false,
    };
    flags.allow_host.iter().filter(is_needed).cloned().collect()
}

/// A host path as written, or joined to `here`.
fn from(host: &str, here: Option<&Path>) -> String {
    match here.map(|here| here.join(host)) {
        Some(path) => path.to_str().unwrap_or(host).to_owned(),
        None => host.to_owned(),
    }
}

/// A text in YAML double quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            plain if is_harmless(plain) => quoted.push(plain),
            // Writing to a string does not fail.
            strange => _ = write!(quoted, "\\U{:08x}", u32::from(strange)),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
#[path = "flags_tests.rs"]
mod tests;
