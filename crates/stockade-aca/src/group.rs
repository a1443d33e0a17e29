//! The sandbox group in Azure Resource Manager: created only if it is missing, and only if the
//! caller names a location.

use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::{HeaderName, LOCATION};
use serde_json::{Value, json};
use tokio::time::sleep;
use url::Url;

use crate::AcaError;
use crate::call::{Call, Repeats, retry_after};
use crate::client::Service;
use crate::http::{Answered, origin};

/// How long the creation of a group may take.
const MOST_TIME: Duration = Duration::from_secs(300);
const ASYNC_OPERATION: HeaderName = HeaderName::from_static("azure-asyncoperation");

impl Service {
    /// Creates the sandbox group if the caller named a location and it is missing.
    pub(crate) async fn ensure_group(&self) -> Result<(), AcaError> {
        let Some(location) = &self.settings.location else { return Ok(()) };
        let path = self.settings.arm_path();
        let look = Call::new("look at the sandbox group", Method::GET, path.clone());
        match self.caller.json(&self.arm, &look).await {
            Ok(group) if state_of(&group["properties"]["provisioningState"]) != State::Waits => {
                return Ok(());
            }
            Ok(_) => return self.wait_for_group().await,
            Err(AcaError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        let call = Call::new("create the sandbox group", Method::PUT, path)
            .json(json!({ "location": location }))
            // The same group again has no further effect.
            .repeats(Repeats::Freely);
        let answered = self.caller.call(&self.arm, &call).await?;
        self.follow(answered).await
    }

    /// Follows a long-running operation to its end.
    async fn follow(&self, answered: Answered) -> Result<(), AcaError> {
        let doing = "create the sandbox group";
        let deadline = Instant::now() + MOST_TIME;
        let operation = link(&answered, &ASYNC_OPERATION);
        let location = link(&answered, &LOCATION);
        let mut pause = retry_after(&answered);
        let Some(next) = operation.as_ref().or(location.as_ref()) else {
            return match serde_json::from_slice::<Value>(&answered.body) {
                Ok(group)
                    if state_of(&group["properties"]["provisioningState"]) == State::Waits =>
                {
                    self.wait_for_group().await
                }
                _ => Ok(()),
            };
        };
        let call = self.same_host(doing, next)?;
        while Instant::now() < deadline {
            sleep(pause.unwrap_or(self.settings.timing.poll).min(self.settings.timing.poll)).await;
            let answered = self.caller.call(&self.arm, &call).await?;
            pause = retry_after(&answered);
            let body: Value = serde_json::from_slice(&answered.body).unwrap_or(Value::Null);
            let state = match operation.is_some() {
                true => state_of(&body["status"]),
                // In this form the HTTP status shows whether the operation has ended.
                false if answered.status == 202 => State::Waits,
                false => State::Done,
            };
            match state {
                State::Waits => {}
                State::Done => return Ok(()),
                State::Failed => {
                    let reason = "the operation failed".to_owned();
                    return Err(AcaError::Response { doing, reason });
                }
            }
        }
        Err(AcaError::NeverRuns { reason: "its group was not created in time".to_owned() })
    }

    async fn wait_for_group(&self) -> Result<(), AcaError> {
        let deadline = Instant::now() + MOST_TIME;
        let path = self.settings.arm_path();
        let look = Call::new("look at the sandbox group", Method::GET, path);
        while Instant::now() < deadline {
            let group = self.caller.json(&self.arm, &look).await?;
            match state_of(&group["properties"]["provisioningState"]) {
                State::Waits => sleep(self.settings.timing.poll).await,
                State::Done => return Ok(()),
                State::Failed => {
                    return Err(AcaError::Response {
                        doing: "create the sandbox group",
                        reason: "its state is Failed".to_owned(),
                    });
                }
            }
        }
        Err(AcaError::NeverRuns { reason: "its group was not created in time".to_owned() })
    }

    /// A call of a link, which must lead to the same host.
    fn same_host(&self, doing: &'static str, link: &str) -> Result<Call, AcaError> {
        let url = Url::parse(link).ok();
        let url = url.filter(|url| origin(url) == origin(&self.arm.base));
        let Some(url) = url else {
            let reason = "its operation is on another host".to_owned();
            return Err(AcaError::Response { doing, reason });
        };
        let mut call = Call::new(doing, Method::GET, url.path().to_owned());
        call.query = url
            .query_pairs()
            .filter(|(name, _)| name != "api-version")
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        Ok(call)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    Done,
    Failed,
}

/// A state of Azure Resource Manager; a missing one means that nothing is pending.
fn state_of(state: &Value) -> State {
    match state.as_str().map(str::to_ascii_lowercase).as_deref() {
        None | Some("succeeded") => State::Done,
        Some("failed" | "canceled") => State::Failed,
        Some(_) => State::Waits,
    }
}

fn link(answered: &Answered, name: &HeaderName) -> Option<String> {
    answered.headers.get(name)?.to_str().ok().map(str::to_owned)
}
