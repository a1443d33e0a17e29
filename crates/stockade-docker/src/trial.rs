//! Chooses the runtime: the requested one, or the strongest that passes a trial start.
//!
//! A trial starts the guest in a container of an empty image and identifies the kernel from inside.
//! Results are kept, failures for a minute only, because a trial takes as long as a run; every start
//! of a sandbox checks the kernel again.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use stockade_policy::{Isolation, Policy};
use stockade_provider::{Obstacle, Probe};

use crate::archive::archive;
use crate::engine::Engine;
use crate::files::{Files, NOBODY};
use crate::filters::filters;
use crate::image::Image;
use crate::kept::Kept;
use crate::owner::Labels;
use crate::plan::{Inputs, plan};
use crate::runtime::Kernel;
use crate::start::{Prepared, start};
use crate::volumes::Volumes;
use crate::{DockerError, DockerOptions, EngineFacts, Runtime, RuntimeChoice, trial_image};

/// How long a trial may take. gVisor takes less than a second here, Kata a few.
const PATIENCE: Duration = Duration::from_secs(8);

/// The runtime to use, and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) runtime: Runtime,
    /// The kernel that a trial start found inside.
    pub(crate) kernel: Option<Kernel>,
}

impl Chosen {
    /// The version of the kernel inside, as far as it is known before the start.
    pub(crate) fn kernel_numbers(&self, facts: &EngineFacts) -> (u32, u32) {
        let engine = || Kernel { release: facts.kernel.clone(), version: String::new() };
        self.kernel.clone().unwrap_or_else(engine).numbers()
    }
}

/// A registered runtime and the result of its trial start.
#[derive(Clone, Debug, Serialize)]
pub struct RuntimeLook {
    /// Its name.
    pub runtime: Runtime,
    /// The strength of its containers.
    pub isolation: Isolation,
    /// The kernel inside, if the trial succeeded.
    pub kernel: Option<String>,
    /// Why it cannot be used.
    pub obstacle: Option<Obstacle>,
}

/// Chooses a runtime. A thorough probe starts every candidate anew.
pub(crate) async fn choose(
    engine: &Engine,
    facts: &EngineFacts,
    options: &DockerOptions,
    probe: Probe,
) -> Result<Chosen, DockerError> {
    match options.runtime {
        RuntimeChoice::Named(runtime) => {
            if !facts.has(runtime) {
                return Err(no_runtime(facts, runtime.name()));
            }
            let kernel = match probe {
                // Starting the sandbox is the trial.
                Probe::Quick => None,
                Probe::Thorough => Some(trial(engine, facts, runtime).await?),
            };
            Ok(Chosen { runtime, kernel })
        }
        RuntimeChoice::Auto => strongest(engine, facts, options, probe).await,
    }
}

async fn strongest(
    engine: &Engine,
    facts: &EngineFacts,
    options: &DockerOptions,
    probe: Probe,
) -> Result<Chosen, DockerError> {
    let candidates = facts.known_runtimes();
    let Some(first) = candidates.first() else { return Err(no_runtime(facts, "runc")) };
    let is_plain = first.isolation() == Isolation::Container;
    if is_plain && probe == Probe::Quick {
        return Ok(Chosen { runtime: *first, kernel: None });
    }
    let mut kept = Kept::read(options.cache.as_deref(), facts);
    let mut first_error = None;
    for runtime in candidates {
        let known = kept.result(runtime).filter(|_| probe == Probe::Quick);
        let kernel = match known {
            Some(known) => known,
            None => match trial(engine, facts, runtime).await {
                Ok(kernel) => {
                    kept.keep(runtime, Some(kernel.clone()));
                    Some(kernel)
                }
                // An unreachable engine is no evidence about the runtime.
                Err(error @ (DockerError::Down { .. } | DockerError::DiskFull { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    keep_failure(&mut kept, runtime, &error);
                    first_error.get_or_insert(error);
                    None
                }
            },
        };
        if kernel.is_some() {
            kept.write();
            return Ok(Chosen { runtime, kernel });
        }
    }
    kept.write();
    Err(first_error.unwrap_or_else(|| no_runtime(facts, "runc")))
}

/// Keeps a failure that is the runtime's own. A slow trial may be the fault of a busy machine.
fn keep_failure(kept: &mut Kept, runtime: Runtime, error: &DockerError) {
    match error {
        DockerError::Start { .. } | DockerError::WrongKernel { .. } => kept.keep(runtime, None),
        _ => kept.forget(runtime),
    }
}

/// Starts every registered runtime that Stockade knows, at once, and keeps the results.
pub(crate) async fn look(
    engine: &Engine,
    facts: &EngineFacts,
    options: &DockerOptions,
) -> Vec<RuntimeLook> {
    let trials = facts
        .known_runtimes()
        .into_iter()
        .map(|runtime| async move { (runtime, trial(engine, facts, runtime).await) });
    let mut kept = Kept::read(options.cache.as_deref(), facts);
    let looks = join_all(trials).await.into_iter().map(|(runtime, result)| {
        match &result {
            Ok(kernel) => kept.keep(runtime, Some(kernel.clone())),
            Err(error) => keep_failure(&mut kept, runtime, error),
        }
        let (kernel, obstacle) = match result {
            Ok(kernel) => (Some(kernel.to_string()), None),
            Err(error) => (None, Some(error.into_obstacle())),
        };
        RuntimeLook { runtime, isolation: runtime.isolation(), kernel, obstacle }
    });
    let looks = looks.collect();
    kept.write();
    looks
}

fn no_runtime(facts: &EngineFacts, name: &'static str) -> DockerError {
    let known = facts.runtimes.keys().cloned().collect::<Vec<_>>().join(", ");
    DockerError::NoRuntime { name, known }
}

/// Starts the guest with a runtime and returns the kernel that it sees.
async fn trial(
    engine: &Engine,
    facts: &EngineFacts,
    runtime: Runtime,
) -> Result<Kernel, DockerError> {
    let image = Image { id: trial_image::find(engine).await?, ..Image::default() };
    let policy = Policy::parse_str("trial", "{}", std::path::Path::new("/"))
        .expect("an empty policy is valid");
    let filters = filters(&policy, (0, 0))?;
    let labels = Labels::new()?;
    let configuration = plan(&Inputs {
        policy: &policy,
        facts,
        runtime,
        image: &image,
        volumes: &Volumes::default(),
        files: &Files { shown: Vec::new(), user: NOBODY },
        has_network: false,
        has_tools: false,
        bundles: &[],
        labels: &labels.labels,
        seccomp: &filters.engine,
    });
    let prepared = Prepared {
        name: labels.name,
        configuration,
        runtime,
        volumes: Volumes::default(),
        archive: archive(None, None)?,
        bundles: Vec::new(),
        filters: filters.programs,
        gateway: None,
        engine_release: facts.kernel.clone(),
        most_start: PATIENCE,
    };
    let started = start(engine, prepared).await?;
    let kernel = started.kernel.clone();
    drop(started.link);
    let _ = started.container.remove().await;
    Ok(kernel)
}
