//! The policy of the sandbox in which the worker runs. Pure, except for parsing.

use std::path::Path;

use stockade_policy::Policy;

use crate::HyperlightError;

/// The paths of the worker's executable and the image inside the jail.
pub(crate) const WORKER: &str = "/hyperlight/worker";
pub(crate) const IMAGE: &str = "/hyperlight/image";

/// The runtime's own memory in the machine.
pub(crate) const HEAP_MIB: u64 = 64;
/// Each of the two buffers between machine and worker.
pub(crate) const BUFFER_MIB: u64 = 20;
/// The worker's own memory, with its copies of the machine's first state.
const OWN_MIB: u64 = 320;
/// The worker's threads.
const THREADS: u64 = 16;
/// The worker's own share of a processor, in thousandths.
const OWN_CPU_MILLIS: u64 = 250;

/// The policy for a worker whose machine has so much memory, and a share of a processor in
/// thousandths.
pub(crate) fn policy(
    worker: &Path,
    image: Option<&Path>,
    memory_mib: u64,
    cpu_millis: u64,
) -> Result<Policy, HyperlightError> {
    let mount = |host: &Path, guest: &str| {
        let host = host.to_str().ok_or_else(|| failed("a path is not UTF-8 text"))?;
        Ok::<_, HyperlightError>(format!("{{ host: {host:?}, guest: {guest} }}"))
    };
    let mut mounts = vec![mount(worker, WORKER)?];
    if let Some(image) = image {
        mounts.push(mount(image, IMAGE)?);
    }
    let memory = memory_mib + HEAP_MIB + 2 * BUFFER_MIB + OWN_MIB;
    let cpu = cpu_millis + OWN_CPU_MILLIS;
    // The caller's policy has the times: this sandbox ends with the one that it carries.
    let text = format!(
        "name: hyperlight\n\
         defaults: {{ max_cpu: {}.{:03}, max_memory_mb: {memory}, timeout_seconds: 604800 }}\n\
         limits: {{ max_pids: {THREADS}, max_lifetime_seconds: 2592000 }}\n\
         filesystem: {{ read: [{}] }}\n",
        cpu / 1000,
        cpu % 1000,
        mounts.join(", "),
    );
    parsed(&text)
}

/// The policy of a program that uses nothing.
pub(crate) fn policy_of_nothing() -> Result<Policy, HyperlightError> {
    parsed("name: hyperlight\ndefaults: { max_memory_mb: 256, timeout_seconds: 60 }\n")
}

fn parsed(text: &str) -> Result<Policy, HyperlightError> {
    Policy::parse_str("the wall around the worker", text, Path::new("/")).map_err(|errors| {
        let first = errors.diagnostics().first().map(|first| first.message.clone());
        failed(&first.unwrap_or_else(|| "its policy is refused".to_owned()))
    })
}

fn failed(message: &str) -> HyperlightError {
    HyperlightError::Jail { message: message.to_owned(), remedy: None }
}

#[cfg(test)]
mod tests {
    use stockade_policy::Limit;

    use super::*;

    #[test]
    fn worker_sees_itself_and_the_image_and_has_no_network() {
        let (worker, image) = (Path::new("/srv/it's \"w\""), Path::new("/srv/image"));
        let policy = policy(worker, Some(image), 256, 1000).unwrap();
        assert_eq!(policy.limits.value(Limit::Memory), Some(256 + 64 + 40 + 320));
        assert_eq!(policy.limits.value(Limit::Cpu), Some(1250));
        assert_eq!(policy.mounts.len(), 2);
        assert!(!policy.may_reach_anything());
    }
}
