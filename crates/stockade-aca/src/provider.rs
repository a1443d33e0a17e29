//! The managed wall as a provider.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_hostfiles::program_filters;
use stockade_interpreters::{Directories, ProgramSetup, threads};
use stockade_policy::{Isolation, Limit, Policy, WORKSPACE, Workspace};
use stockade_provider::{
    Error, ErrorKind, Probe, ProgramKinds, Provider, ProviderName, Sandbox, SandboxRequest,
    WallFacts,
};
use stockade_seccomp::{
    Architecture, ExecutableMemfd, Options, Program, Tracing, built_in, compile, ready,
};
use tokio::time::timeout;

use crate::abilities::abilities;
use crate::cleanup::sweep_of;
use crate::client::Service;
use crate::execution::encoded;
use crate::plan::plan;
use crate::runner::{HOME, Machine, RunLimits};
use crate::sandbox::{AcaSandbox, Parts};
use crate::start::{labels, start};
use crate::{AcaError, AcaOptions};

/// How long a request for the service's state may take.
const MOST_LOOK: Duration = Duration::from_secs(20);
/// How long a create call takes beyond the time until the sandbox runs.
const MOST_EXTRA: Duration = Duration::from_secs(420);

/// Sandboxes of Azure Container Apps.
#[derive(Clone, Debug)]
pub struct AcaProvider {
    options: Arc<AcaOptions>,
}

impl AcaProvider {
    /// The wall's name.
    pub const NAME: ProviderName = ProviderName::new("aca");

    /// Creates the provider without connecting to anything.
    pub fn new(options: AcaOptions) -> AcaProvider {
        AcaProvider { options: Arc::new(options) }
    }

    async fn build(&self, request: &SandboxRequest) -> Result<AcaSandbox, AcaError> {
        let service = Arc::new(Service::new(&self.options)?);
        // Everything that can be refused is refused before the first request.
        let body = plan(request, &service.settings, labels(&service)?)?;
        let policy = Arc::clone(&request.policy);
        let (started, ()) = tokio::join!(
            start(&service, &body, request.tools.as_ref()),
            // Failures are left for the next sweep.
            async { _ = timeout(MOST_LOOK, sweep_of(&service)).await }
        );
        let started = started?;
        let machine = started.machine.clone();
        let filters = tokio::task::spawn_blocking(move || filters(&policy, &machine)).await;
        let filters = filters.map_err(|error| AcaError::Prepare {
            doing: "compile the system-call filters",
            source: std::io::Error::other(error),
        })??;
        let policy = &request.policy;
        let has_tools = request.gateway.as_ref().is_some_and(|gateway| gateway.carries().tools);
        let setup = ProgramSetup {
            directories: Directories {
                working_directory: WORKSPACE.to_owned(),
                home: "/tmp".to_owned(),
                code: format!("{HOME}-code"),
            },
            threads: Some(threads(policy, u64::MAX)),
            tools: request.tools.as_ref().map(|access| access.environment.clone()),
            ..ProgramSetup::default()
        };
        Ok(AcaSandbox::new(Parts {
            service,
            held: started.held,
            id: started.id,
            machine: started.machine,
            limits: limits(policy),
            filters,
            is_workspace_writable: policy.workspace.value != Workspace::Nothing,
            gateway: request.gateway.clone().filter(|_| has_tools),
            setup,
            body,
        }))
    }

    /// Whether the service answers this credential.
    async fn look(&self) -> Result<(), AcaError> {
        let service = Service::new(&self.options)?;
        let labels = BTreeMap::from([("stockade.session".to_owned(), "none".to_owned())]);
        match service.list(&labels).await {
            // The group is created with the first sandbox.
            Err(AcaError::Missing { .. }) if service.settings.location.is_some() => Ok(()),
            result => result.map(|_| ()),
        }
    }
}

/// The limits that the runner holds.
fn limits(policy: &Policy) -> RunLimits {
    let limit = |limit: Limit| policy.limits.value(limit).unwrap_or_else(|| limit.spec().max);
    RunLimits {
        timeout_seconds: Duration::from_millis(limit(Limit::Timeout)).as_secs_f64(),
        open_files: limit(Limit::OpenFiles),
        pids: limit(Limit::Pids),
        // The kernel counts whole seconds; the next one after the limit ends the program.
        cpu_seconds: policy.limits.value(Limit::CpuTime).map(|it| it.div_ceil(1000).max(1)),
        output_bytes: limit(Limit::Output),
        disk_bytes: limit(Limit::Disk) << 20,
        inodes: limit(Limit::Inodes),
        connections: limit(Limit::Connections),
        egress_bytes: limit(Limit::EgressBytes),
    }
}

/// The system-call filters of a policy for the machine of a sandbox. Reads profiles, so it blocks.
fn filters(policy: &Policy, machine: &Machine) -> Result<Vec<String>, AcaError> {
    let named = |architecture: &Architecture| match architecture {
        Architecture::X86_64 => machine.machine == "x86_64",
        Architecture::Aarch64 => machine.machine == "aarch64",
    };
    let Some(architecture) = Architecture::ALL.into_iter().find(named) else {
        return Err(AcaError::Unsupported {
            what: format!("a machine of the kind {}", crate::call::harmless(&machine.machine)),
            reason: "Stockade has no system-call filter for it".to_owned(),
            remedy: "use another disk image or another wall",
        });
    };
    let options = Options { executable_memfd: ExecutableMemfd::Allowed, tracing: Tracing::Refused };
    let own: Program = match ready(options, architecture) {
        Some(program) => program,
        None => compile(&built_in(options), architecture)
            .map_err(|source| AcaError::Filter(source.into()))?,
    };
    let mut filters = vec![encoded(&own)];
    if !policy.seccomp.is_empty() {
        if Architecture::native() != Some(architecture) {
            return Err(AcaError::Unsupported {
                what: "a seccomp profile of the policy".to_owned(),
                reason: "the sandbox has another kind of machine than this host".to_owned(),
                remedy: "remove it, or use a wall on this host",
            });
        }
        let custom = program_filters(policy, release(&machine.kernel))?;
        if let Some(call) = custom.refused_call {
            return Err(AcaError::Unsupported {
                what: "a seccomp profile of the policy".to_owned(),
                reason: format!("it refuses {call}, which every start needs"),
                remedy: "allow that call in the profile",
            });
        }
        filters.extend(custom.programs.iter().map(encoded));
    }
    Ok(filters)
}

/// The two numbers of a kernel's release; an unreadable one is the oldest.
fn release(text: &str) -> (u32, u32) {
    let mut numbers = text.split(|character: char| !character.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    (next(), next())
}

impl Provider for AcaProvider {
    fn name(&self) -> ProviderName {
        AcaProvider::NAME
    }

    fn facts(&self, probe: Probe) -> BoxFuture<'_, WallFacts> {
        Box::pin(async move {
            let looked = match probe {
                // Creating a sandbox checks the rest.
                Probe::Quick => Service::new(&self.options).map(|_| ()),
                Probe::Thorough => match timeout(MOST_LOOK, self.look()).await {
                    Ok(looked) => looked,
                    Err(_) => Err(AcaError::NeverRuns {
                        reason: "the service does not answer".to_owned(),
                    }),
                },
            };
            let unusable = looked.err().map(AcaError::into_obstacle);
            let abilities = if unusable.is_none() { abilities() } else { BTreeMap::new() };
            WallFacts {
                provider: AcaProvider::NAME,
                isolation: Isolation::Vm,
                unusable,
                // Output comes at the end of a program, and no input comes at all.
                programs: ProgramKinds { contexts: false, interrupts: false, ..ProgramKinds::ALL },
                abilities,
            }
        })
    }

    fn most_start(&self) -> Duration {
        self.options.timing.running + MOST_EXTRA
    }

    fn create<'a>(
        &'a self,
        request: &'a SandboxRequest,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async move {
            match self.build(request).await {
                Ok(sandbox) => Ok(Box::new(sandbox) as Box<dyn Sandbox>),
                Err(error) => {
                    let error = Error::from(error);
                    debug_assert!(error.kind() != ErrorKind::Lost);
                    Err(error)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_of_a_kernel_has_two_numbers() {
        assert_eq!(release("6.12.8+"), (6, 12));
        assert_eq!(release("5.15.0-azure"), (5, 15));
        assert_eq!(release("nonsense"), (0, 0));
    }

    #[test]
    fn filter_is_made_for_the_machine_of_the_sandbox_and_an_unknown_one_is_refused() {
        let policy = Policy::parse_str("p", "{}", std::path::Path::new("/")).unwrap();
        let of = |machine: &str| {
            let (machine, kernel) = (machine.to_owned(), "6.12".to_owned());
            filters(&policy, &Machine { machine, kernel })
        };
        assert_eq!(of("x86_64").unwrap().len(), 1);
        assert_ne!(of("x86_64").unwrap(), of("aarch64").unwrap());
        assert!(of("riscv64").is_err());
    }
}
