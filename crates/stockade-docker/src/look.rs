//! An engine and its runtimes, for display by `stockade doctor`.

use serde::Serialize;
use stockade_provider::Obstacle;

use crate::engine::Engine;
use crate::trial::look;
use crate::{DockerError, DockerOptions, EngineFacts, RuntimeLook};

/// An engine and its runtimes.
#[derive(Clone, Debug, Serialize)]
pub struct EngineLook {
    /// Its address.
    pub address: String,
    /// What it offers.
    #[serde(flatten)]
    pub facts: EngineFacts,
    /// The runtimes that Stockade knows, strongest first, each with the result of a trial start.
    pub trials: Vec<RuntimeLook>,
}

impl EngineLook {
    /// Connects to the engine and starts each of its runtimes.
    pub async fn look(options: &DockerOptions) -> Result<EngineLook, Obstacle> {
        let looked = async {
            let engine = Engine::connect(options).await?;
            let facts = engine.facts().await?;
            let trials = look(&engine, &facts, options).await;
            Ok(EngineLook { address: engine.endpoint.to_string(), facts, trials })
        };
        looked.await.map_err(DockerError::into_obstacle)
    }

    /// Names and values, one line each; a line without a name continues the one before.
    pub fn lines(&self) -> Vec<(String, String)> {
        let facts = &self.facts;
        let rights = match (facts.is_rootless, facts.remaps_ids) {
            (true, _) => "rootless",
            (false, true) => "as root, with other user ids in containers",
            (false, false) => "as root",
        };
        let engine = format!(
            "{} at {}, API {}, {rights}, cgroup v{}",
            facts.version, self.address, facts.api, facts.cgroups
        );
        let mut lines = vec![("Docker engine".to_owned(), engine)];
        for trial in &self.trials {
            let name = format!("runtime {}", trial.runtime);
            match (&trial.kernel, &trial.obstacle) {
                (Some(kernel), _) => {
                    lines.push((name, format!("{}, on {kernel}", trial.isolation.as_str())));
                }
                (None, Some(obstacle)) => {
                    lines.push((name, obstacle.reason.clone()));
                    lines.push((String::new(), format!("= {}", obstacle.remedy)));
                }
                (None, None) => {}
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use stockade_policy::Isolation;

    use super::*;
    use crate::Runtime;

    #[test]
    fn engine_and_each_runtime_have_a_line_and_a_failed_trial_a_remedy() {
        let trial = |runtime: Runtime, kernel: Option<&str>| RuntimeLook {
            runtime,
            isolation: runtime.isolation(),
            kernel: kernel.map(str::to_owned),
            obstacle: kernel
                .is_none()
                .then(|| Obstacle { reason: "it cannot".to_owned(), remedy: "mend it".to_owned() }),
        };
        assert_eq!(Runtime::Kata.isolation(), Isolation::Vm);
        let look = EngineLook {
            address: "unix:///run/docker.sock".to_owned(),
            facts: crate::host::example(),
            trials: vec![trial(Runtime::Kata, None), trial(Runtime::Runc, Some("Linux 6.1"))],
        };
        let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let engine = "20.10.24 at unix:///run/docker.sock, API 1.41, as root, cgroup v2";
        let expected = [
            line("Docker engine", engine),
            line("runtime kata-runtime", "it cannot"),
            line("", "= mend it"),
            line("runtime runc", "container, on Linux 6.1"),
        ];
        assert_eq!(look.lines(), expected);
    }
}
