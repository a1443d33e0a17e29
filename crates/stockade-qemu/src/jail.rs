//! The policy of the sandbox in which QEMU runs. Pure, except for parsing.

use std::path::Path;

use stockade_policy::Policy;

use crate::command::Machine;

/// Where QEMU sees the image, a disk of the caller and the initramfs.
pub(crate) const IMAGE: &str = "/vm";
pub(crate) const DISK: &str = "/disk.qcow2";
pub(crate) const INITRAMFS: &str = "/tmp/initramfs";

/// QEMU's own memory, apart from the machine's and from translated code.
const OWN_MIB: u64 = 160;
/// What the machine may write to its throw-away disk.
const WRITTEN_MIB: u64 = 64;
/// QEMU's threads besides one for each processor.
const THREADS: u64 = 160;
/// QEMU's own share of a processor, in thousandths.
const OWN_CPU_MILLIS: u64 = 250;

/// The policy for QEMU. `files_mib` is the size of the initramfs.
pub(crate) fn policy(
    image: &Path,
    own_disk: Option<&Path>,
    machine: &Machine,
    files_mib: u64,
) -> Result<Policy, String> {
    let shown = |path: &Path, guest: &str| {
        let path = path.to_str().ok_or("the path of the image or disk is not UTF-8 text")?;
        Ok::<_, String>(format!("{{ host: {}, guest: {guest} }}", serde_json::Value::from(path)))
    };
    let mut files = vec![shown(image, IMAGE)?];
    files.extend(own_disk.map(|disk| shown(disk, DISK)).transpose()?);
    let disk = WRITTEN_MIB + files_mib;
    let memory = machine.memory_mib + machine.translation_mib + OWN_MIB + disk;
    let cpu = machine.cpus * 1000 + OWN_CPU_MILLIS;
    let threads = machine.cpus + THREADS;
    // The caller's policy has the times: this sandbox ends with the one that it carries.
    let text = format!(
        "name: qemu\n\
         defaults: {{ max_cpu: {}.{:03}, max_memory_mb: {memory}, timeout_seconds: 604800 }}\n\
         limits: {{ max_pids: {threads}, max_disk_mb: {disk}, max_lifetime_seconds: 2592000 }}\n\
         filesystem: {{ read: [{}] }}\n",
        cpu / 1000,
        cpu % 1000,
        files.join(", "),
    );
    Policy::parse_str("the wall around QEMU", &text, Path::new("/")).map_err(|errors| {
        let first = errors.diagnostics().first().map(|first| first.message.clone());
        first.unwrap_or_else(|| "its policy is refused".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use stockade_policy::Limit;

    use super::*;
    use crate::Accelerator;

    #[test]
    fn qemu_sees_only_the_image_and_has_no_network() {
        let machine = Machine {
            accelerator: Accelerator::Tcg,
            memory_mib: 640,
            cpus: 2,
            translation_mib: 128,
            has_own_disk: false,
        };
        let image = Path::new("/srv/it's \"here\"");
        let with_disk = super::policy(image, Some(Path::new("/srv/disk")), &machine, 6).unwrap();
        assert_eq!(with_disk.mounts.len(), 2);
        let policy = policy(image, None, &machine, 6).unwrap();
        assert_eq!(policy.limits.value(Limit::Memory), Some(640 + 128 + 160 + 70));
        assert_eq!(policy.limits.value(Limit::Cpu), Some(2250));
        assert_eq!(policy.mounts.len(), 1);
        assert!(!policy.may_reach_anything());
    }
}
