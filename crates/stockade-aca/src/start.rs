//! Creates a sandbox and makes it ready: its egress policy is the requested one, and its
//! runner can hold the rest.
//!
//! ```text
//! group ──▶ create ──▶ runs ──▶ egress policy compared ──▶ runner, tools ──▶ setup ──▶ ready
//!              └── any failure, or the caller stops waiting ──▶ deleted
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use stockade_provider::ToolAccess;
use tokio::time::sleep;

use crate::AcaError;
use crate::call::harmless;
use crate::cleanup::Held;
use crate::client::{SandboxId, Service};
use crate::egress::compare;
use crate::runner::{HOME, Machine, RUNNER, RunId, Verb};
use crate::wire::{CreateSandbox, SandboxView};

/// The first pause between two polls of a sandbox that is being created.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// A sandbox that is ready for programs.
pub(crate) struct Ready {
    pub(crate) held: Held,
    pub(crate) id: SandboxId,
    pub(crate) machine: Machine,
}

/// Creates a sandbox. Dropping the future deletes what exists of it.
pub(crate) async fn start(
    service: &Arc<Service>,
    body: &CreateSandbox,
    tools: Option<&ToolAccess>,
) -> Result<Ready, AcaError> {
    service.ensure_group().await?;
    let mut held = Held::unborn(service, &body.labels);
    match ready(service, &mut held, body, tools).await {
        Ok((id, machine)) => Ok(Ready { held, id, machine }),
        // The first error has the cause; an error of the deletion does not replace it.
        Err(error) => {
            let _ = held.delete().await;
            Err(error)
        }
    }
}

async fn ready(
    service: &Service,
    held: &mut Held,
    body: &CreateSandbox,
    tools: Option<&ToolAccess>,
) -> Result<(SandboxId, Machine), AcaError> {
    let created = match service.create(body).await {
        Ok(created) => created,
        Err(error) => {
            if !error.is_ambiguous() {
                held.forget();
            }
            return Err(error);
        }
    };
    let id = SandboxId::parse(&created.id)?;
    held.born(&id);
    let view = running(service, &id).await?;
    compare(&body.egress_policy, view.egress_policy.as_ref())?;
    if let Some(found) = view.resources.filter(|found| *found != body.resources) {
        let found = harmless(&format!("{} and {}", found.cpu, found.memory));
        let reason =
            format!("it has {found}, not {} and {}", body.resources.cpu, body.resources.memory);
        return Err(AcaError::Response { doing: "create a sandbox", reason });
    }
    let runner = Bytes::from_static(RUNNER.as_bytes());
    service.put(&id, &format!("{HOME}/runner.py"), None, runner).await?;
    for (path, content) in tools.iter().flat_map(|tools| &tools.files) {
        let path = format!("{}/{path}", ToolAccess::DIRECTORY);
        service.put(&id, &path, None, Bytes::from(content.clone())).await?;
    }
    let machine = service.ask_runner(&id, Verb::Setup, RunId::new()?, None).await?;
    Ok((id, machine))
}

/// Waits until a sandbox runs.
async fn running(service: &Service, id: &SandboxId) -> Result<SandboxView, AcaError> {
    let timing = service.settings.timing;
    let deadline = Instant::now() + timing.running;
    let mut pause = FIRST_LOOK.min(timing.poll);
    let mut last = "unknown".to_owned();
    while Instant::now() < deadline {
        match service.get(id).await {
            Ok(view) => match State::of(&view) {
                State::Running => return Ok(view),
                State::Over => {
                    let state = harmless(view.state.as_deref().unwrap_or_default());
                    return Err(AcaError::NeverRuns { reason: format!("its state is {state}") });
                }
                State::Resumable | State::Disabled | State::Waits => {
                    last = harmless(view.state.as_deref().unwrap_or("unset"));
                }
            },
            // A new sandbox is not visible at once.
            Err(AcaError::Missing { .. }) => last = "not visible".to_owned(),
            Err(error) => return Err(error),
        }
        sleep(pause).await;
        pause = (pause * 2).min(timing.poll);
    }
    let seconds = timing.running.as_secs_f32();
    Err(AcaError::NeverRuns { reason: format!("after {seconds} s its state is {last}") })
}

/// Makes sure that a sandbox runs before a program starts in it. A resumed one must still have its
/// egress policy.
pub(crate) async fn ensure_running(
    service: &Service,
    id: &SandboxId,
    body: &CreateSandbox,
) -> Result<(), AcaError> {
    let view = service.get(id).await?;
    match State::of(&view) {
        State::Running => return Ok(()),
        State::Resumable => match service.resume(id).await {
            // It may be resuming already.
            Ok(()) | Err(AcaError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        },
        State::Waits => {}
        State::Disabled => {
            let reason = "an administrator disabled it".to_owned();
            return Err(AcaError::NeverRuns { reason });
        }
        State::Over => {
            let state = harmless(view.state.as_deref().unwrap_or_default());
            return Err(AcaError::NeverRuns { reason: format!("its state is {state}") });
        }
    }
    let view = running(service, id).await?;
    compare(&body.egress_policy, view.egress_policy.as_ref())
}

/// What the state of a sandbox means. Unknown states are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// It stopped, and a request resumes it.
    Resumable,
    /// It stopped, and may not be resumed.
    Disabled,
    /// It will never run again.
    Over,
    Waits,
}

impl State {
    pub(crate) fn of(view: &SandboxView) -> State {
        let state = view.state.as_deref().unwrap_or_default().to_ascii_lowercase();
        let reason = view.state_details.as_ref().and_then(|it| it.stopped_reason.as_deref());
        match state.as_str() {
            "running" => State::Running,
            "failed" | "deleting" | "deleted" => State::Over,
            "stopped" | "suspended" | "idle" if reason == Some("Disabled") => State::Disabled,
            "stopped" | "suspended" | "idle" => State::Resumable,
            _ => State::Waits,
        }
    }
}

/// The labels of a create call.
pub(crate) fn labels(service: &Service) -> Result<BTreeMap<String, String>, AcaError> {
    crate::cleanup::labels(&service.settings.labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_in_any_case_and_unknown_ones_are_waited_for() {
        let of = |state: &str, reason: Option<&str>| {
            let details = reason.map(|reason| serde_json::json!({ "stoppedReason": reason }));
            let view = serde_json::json!({ "id": "x", "state": state, "stateDetails": details });
            State::of(&serde_json::from_value(view).unwrap())
        };
        assert_eq!(of("RUNNING", None), State::Running);
        assert_eq!(of("Stopped", Some("Idle")), State::Resumable);
        assert_eq!(of("Suspended", Some("Disabled")), State::Disabled);
        assert_eq!(of("Failed", None), State::Over);
        assert_eq!(of("Deleting", None), State::Over);
        for state in ["Creating", "Resuming", "", "Running\0"] {
            assert_eq!(of(state, None), State::Waits, "{state:?}");
        }
    }
}
