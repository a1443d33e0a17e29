//! The micro-VM wall as a provider.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use stockade_policy::{Isolation, Limit};
use stockade_provider::{
    EntryProgram, Error, Execution, FACTS_AGE, Language, Obstacle, Probe, Program, ProgramKinds,
    Provider, ProviderName, Root, Sandbox, SandboxRequest, WallFacts,
};
use stockade_wasm::{Machine, WasmError};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::HyperlightError;
use crate::abilities::abilities;
use crate::error::obstacle;
use crate::jail;
use crate::link::{MachineTimes, probe, wanted};
use crate::machine::MicroVm;
use crate::worker::{Parts, is_compiled, parts, probe_as_caller, worker};

/// The device of the host that the jail needs.
pub const KVM: &str = "/dev/kvm";

/// The device of a hypervisor that the worker does not use.
const MSHV: &str = "/dev/mshv";

/// The languages of the component.
const LANGUAGES: [Language; 1] = [Language::Python];
/// The machine of a trial.
const TRIAL_MIB: u64 = 64;
const TRIAL_CPU_MILLIS: u64 = 1000;
/// The machine that is measured.
const MEASURED_MIB: u64 = 256;
/// How long its program may take.
const MOST_MEASURE: Duration = Duration::from_secs(60);
/// The interpreter's own memory: with less it does not start.
const LEAST_MIB: u64 = 96;

/// CPython as a component in a Hyperlight micro-VM, one for each sandbox.
#[derive(Clone)]
pub struct HyperlightProvider {
    jail: Arc<dyn Provider>,
    /// The last trial machine. One caller starts one, and concurrent ones wait for it.
    trial: Arc<Mutex<Option<Trial>>>,
}

/// When a trial machine was started, and why it did not.
#[derive(Clone, Debug)]
struct Trial {
    at: Instant,
    unusable: Option<Obstacle>,
}

impl Trial {
    /// Whether the trial answers a question at a moment.
    fn serves(&self, effort: Probe, now: Instant) -> bool {
        effort == Probe::Quick && now.duration_since(self.at) < FACTS_AGE
    }
}

impl HyperlightProvider {
    /// The wall's name.
    pub const NAME: ProviderName = ProviderName::new("hyperlight");

    /// Creates the provider without looking at the host. Workers run in sandboxes of `jail`, which
    /// shows [`KVM`].
    pub fn new(jail: Arc<dyn Provider>) -> HyperlightProvider {
        HyperlightProvider { jail, trial: Arc::default() }
    }

    /// Why no machine runs here, from a trial that is at most [`FACTS_AGE`] old.
    async fn unusable(&self, effort: Probe) -> Option<Obstacle> {
        let mut last = self.trial.lock().await;
        if let Some(trial) = last.as_ref().filter(|trial| trial.serves(effort, Instant::now())) {
            return trial.unusable.clone();
        }
        let unusable = self.try_out(effort).await.err().map(|error| obstacle(&error));
        *last = Some(Trial { at: Instant::now(), unusable: unusable.clone() });
        unusable
    }

    /// Starts a machine, runs an empty program, and returns how long its parts took; `None` if the
    /// component is not compiled for the machine yet.
    pub async fn measure(&self) -> Result<Option<MachineTimes>, Error> {
        if !blocking(is_compiled).await? {
            return Ok(None);
        }
        let Parts { worker, image } = blocking(parts).await?;
        let wanted = wanted(&self.jail, &worker, Some(image), MEASURED_MIB, TRIAL_CPU_MILLIS)?;
        let machine = Arc::new(MicroVm::start(wanted).await?);
        let request = SandboxRequest {
            policy: Arc::new(jail::policy_of_nothing()?),
            root: Root::Standard,
            entry: EntryProgram::Interpreter(Language::Python),
            protected: Vec::new(),
            gateway: None,
            tools: None,
            authorities: None,
        };
        let sandbox = stockade_wasm::sandbox(&request, Arc::clone(&machine) as Arc<dyn Machine>)?;
        let (name, code, arguments) = ("empty.py".to_owned(), b"pass".to_vec(), Vec::new());
        let program = Program::Code { language: Language::Python, name, code, arguments };
        let running = sandbox.start(Execution::new(program)).await?;
        drop(running.stdin);
        let ended = timeout(MOST_MEASURE, running.end).await;
        let times = machine.times().await;
        sandbox.end().await?;
        // A machine that did not end its program has no times worth showing.
        match ended {
            Ok(ended) => ended.map(|_| times),
            Err(_) => Ok(None),
        }
    }

    async fn try_out(&self, effort: Probe) -> Result<(), HyperlightError> {
        let executable = blocking(look).await?;
        let jail = self.jail.facts(effort).await;
        if let Some(obstacle) = jail.unusable {
            let remedy = Some(obstacle.remedy);
            return Err(HyperlightError::Jail { message: obstacle.reason, remedy });
        }
        let wanted = wanted(&self.jail, &executable, None, TRIAL_MIB, TRIAL_CPU_MILLIS)?;
        match probe(&wanted).await {
            // Permission alone helps only where a machine starts for the caller.
            Err(HyperlightError::Permission { reason }) => {
                blocking(move || probe_as_caller(&executable)).await?;
                Err(HyperlightError::Permission { reason })
            }
            other => other,
        }
    }

    async fn build(&self, request: &SandboxRequest) -> Result<Box<dyn Sandbox>, Error> {
        if request.root != Root::Standard {
            return Err(WasmError::Root.into());
        }
        let Parts { worker, image } = blocking(parts).await?;
        let value = |limit| request.policy.limits.value(limit);
        let memory = value(Limit::Memory).unwrap_or(512);
        if memory < LEAST_MIB {
            return Err(WasmError::TooLittleMemory { most: memory }.into());
        }
        let cpu = value(Limit::Cpu).unwrap_or(1000);
        let wanted = wanted(&self.jail, &worker, Some(image), memory, cpu)?;
        let machine = MicroVm::start(wanted).await?;
        stockade_wasm::sandbox(request, Arc::new(machine))
    }
}

impl Provider for HyperlightProvider {
    fn name(&self) -> ProviderName {
        HyperlightProvider::NAME
    }

    fn facts(&self, effort: Probe) -> BoxFuture<'_, WallFacts> {
        Box::pin(async move {
            WallFacts {
                provider: HyperlightProvider::NAME,
                isolation: Isolation::Vm,
                unusable: self.unusable(effort).await,
                programs: ProgramKinds { languages: &LANGUAGES, ..ProgramKinds::NONE },
                abilities: abilities(),
            }
        })
    }

    fn prepare(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            blocking(parts).await?;
            Ok(())
        })
    }

    fn create<'a>(
        &'a self,
        request: &'a SandboxRequest,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(self.build(request))
    }
}

/// Looks for everything that a trial machine needs, and returns the worker. What needs no machine
/// comes first: it has the better remedy.
fn look() -> Result<PathBuf, HyperlightError> {
    let executable = worker()?;
    stockade_wasm::look()?;
    match (Path::new(KVM).exists(), Path::new(MSHV).exists()) {
        (true, _) => Ok(executable),
        (false, true) => Err(HyperlightError::OtherHypervisor { name: MSHV }),
        (false, false) => Err(HyperlightError::NoKvm),
    }
}

/// Runs blocking work on another thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HyperlightError> + Send + 'static,
) -> Result<T, HyperlightError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(WasmError::Thread { source: std::io::Error::other(error) }.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn trial_is_repeated_after_a_minute_and_for_a_thorough_look() {
        let at = Instant::now();
        for unusable in [None, Some(obstacle(&HyperlightError::NoKvm))] {
            let trial = Trial { at, unusable };
            assert!(trial.serves(Probe::Quick, at + FACTS_AGE - Duration::from_millis(1)));
            assert!(!trial.serves(Probe::Quick, at + FACTS_AGE));
            assert!(!trial.serves(Probe::Thorough, at));
        }
    }
}
