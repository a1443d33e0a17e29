//! Deleting sandboxes: also when a caller drops one, when a create call fails halfway, and when the
//! process that owned one has died.
//!
//! ```text
//! create call ── labels ──▶ Orphan ── id ──▶ Held ── end ──▶ deleted
//!                             │ dropped        │ dropped
//!                             ▼                ▼
//!                   delete by label       delete by id       on a thread of its own
//! ```
//! A drop waits for the deletion, for a bounded time: this process may exit next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use stockade_cgroup::{Life, Owner, Realm};
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::time::{sleep, timeout};

use crate::client::{SandboxId, Service};
use crate::{AcaError, AcaOptions};

/// The label with the process that owns a sandbox.
const OWNER: &str = "stockade.owner";
/// The label with the user id of that process.
const USER: &str = "stockade.user";
/// The label with the sandbox's own name.
const SESSION: &str = "stockade.session";

/// The labels of a new sandbox.
pub(crate) fn labels(more: &[(String, String)]) -> Result<BTreeMap<String, String>, AcaError> {
    let cannot = |source| AcaError::Prepare { doing: "name a sandbox", source };
    let random = stockade_sys::random_bytes::<16>().map_err(cannot)?;
    let mut labels: BTreeMap<String, String> = more.iter().cloned().collect();
    labels.insert(OWNER.to_owned(), Owner::current().map_err(cannot)?.to_string());
    labels.insert(USER.to_owned(), user());
    labels.insert(SESSION.to_owned(), format!("{:032x}", u128::from_be_bytes(random)));
    Ok(labels)
}

fn user() -> String {
    rustix::process::getuid().as_raw().to_string()
}

/// Which sandboxes to delete.
#[derive(Clone)]
enum Wanted {
    Id(SandboxId),
    /// Those with this label: a create call may have made one without saying its id.
    Session(String),
}

/// A sandbox that exists, or may exist. Dropping it deletes the sandbox.
pub(crate) struct Held {
    service: Arc<Service>,
    wanted: Option<Wanted>,
}

impl Held {
    /// Before the create call.
    pub(crate) fn unborn(service: &Arc<Service>, labels: &BTreeMap<String, String>) -> Held {
        let session = labels.get(SESSION).cloned().unwrap_or_default();
        Held { service: Arc::clone(service), wanted: Some(Wanted::Session(session)) }
    }

    /// The create call returned an id.
    pub(crate) fn born(&mut self, id: &SandboxId) {
        self.wanted = Some(Wanted::Id(id.clone()));
    }

    /// The create call certainly had no effect.
    pub(crate) fn forget(&mut self) {
        self.wanted = None;
    }

    /// Deletes the sandbox and waits until it is gone.
    pub(crate) async fn delete(mut self) -> Result<(), AcaError> {
        let Some(wanted) = self.wanted.clone() else { return Ok(()) };
        let limit = self.service.settings.timing.cleanup;
        let result = delete_within(&self.service, &wanted, limit).await;
        if result.is_ok() {
            self.wanted = None;
        }
        result
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(wanted) = self.wanted.take() else { return };
        let limit = self.service.settings.timing.cleanup;
        let Ok(service) = self.service.again() else { return };
        let (done, waits) = mpsc::channel();
        // The caller's runtime may be ending, so the request has a thread and a runtime of its own.
        let deletion =
            std::thread::Builder::new().name("aca-cleanup".to_owned()).spawn(move || {
                if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
                    let _ = runtime.block_on(delete_within(&service, &wanted, limit));
                }
                let _ = done.send(());
            });
        if deletion.is_ok() {
            let wait = || waits.recv_timeout(limit + Duration::from_secs(1));
            match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
                Ok(RuntimeFlavor::MultiThread) => _ = tokio::task::block_in_place(wait),
                _ => _ = wait(),
            }
        }
    }
}

/// What became of a sandbox after the service accepted its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Gone,
    /// The service is deleting it.
    Leaving,
    /// It is as before.
    Stays,
}

/// Deletes sandboxes, looks until they are gone, and repeats what fails until the time is over. One
/// that the service is still deleting then counts as deleted.
async fn delete_within(
    service: &Service,
    wanted: &Wanted,
    limit: Duration,
) -> Result<(), AcaError> {
    let deadline = Instant::now() + limit;
    let mut last = None;
    let mut fate = Fate::Stays;
    let mut pause = service.settings.timing.pause;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match timeout(left, delete(service, wanted, fate)).await {
            Ok(Ok(Fate::Gone)) => return Ok(()),
            Ok(Ok(found)) => {
                fate = found;
                let reason = "it was accepted, and the sandbox is still there".to_owned();
                let kept = AcaError::Response { doing: "delete a sandbox", reason };
                last = (found == Fate::Stays).then(|| Box::new(kept));
            }
            Ok(Err(error)) => last = Some(Box::new(error)),
            Err(_) => {}
        }
        if Instant::now() + pause >= deadline {
            if fate == Fate::Leaving {
                return Ok(());
            }
            let id = match wanted {
                Wanted::Id(id) => id.to_string(),
                Wanted::Session(session) => format!("with the label {SESSION}={session}"),
            };
            return Err(AcaError::Undeleted { id, limit, source: last });
        }
        sleep(pause).await;
        pause = (pause * 2).min(service.settings.timing.poll);
    }
}

async fn delete(service: &Service, wanted: &Wanted, before: Fate) -> Result<Fate, AcaError> {
    match wanted {
        Wanted::Id(id) => {
            if before != Fate::Leaving {
                service.delete(id).await?;
            }
            fate(service, id).await
        }
        Wanted::Session(session) => {
            let labels = BTreeMap::from([(SESSION.to_owned(), session.clone())]);
            let mut worst = Fate::Gone;
            for sandbox in service.list(&labels).await? {
                // The service's filter is not relied on: another sandbox must not be deleted.
                if sandbox.labels.get(SESSION) == Some(session) {
                    let id = SandboxId::parse(&sandbox.id)?;
                    service.delete(&id).await?;
                    worst = worst.max(fate(service, &id).await?);
                }
            }
            Ok(worst)
        }
    }
}

/// Looks at a sandbox whose deletion the service has accepted: it may keep it nevertheless.
async fn fate(service: &Service, id: &SandboxId) -> Result<Fate, AcaError> {
    match service.get(id).await {
        Err(AcaError::Missing { .. }) => Ok(Fate::Gone),
        Ok(view) => {
            let state = view.state.unwrap_or_default();
            let is_leaving =
                ["deleting", "deleted"].iter().any(|it| state.eq_ignore_ascii_case(it));
            Ok(if is_leaving { Fate::Leaving } else { Fate::Stays })
        }
        Err(error) => Err(error),
    }
}

/// Deletes the sandboxes whose owner was a process of this user and has died. Returns their ids, or
/// the first error after it has tried all.
pub async fn sweep(options: &AcaOptions) -> Result<Vec<String>, AcaError> {
    sweep_of(&Service::new(options)?).await
}

pub(crate) async fn sweep_of(service: &Service) -> Result<Vec<String>, AcaError> {
    let here = Realm::current();
    let here = here.map_err(|source| AcaError::Prepare { doing: "look at this boot", source })?;
    let mine = BTreeMap::from([(USER.to_owned(), user())]);
    let (mut swept, mut failed) = (Vec::new(), None);
    for sandbox in service.list(&mine).await? {
        if is_left(&sandbox.labels, here) {
            let wanted = Wanted::Id(SandboxId::parse(&sandbox.id)?);
            match delete_within(service, &wanted, service.settings.timing.cleanup).await {
                Ok(()) => swept.push(sandbox.id),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
    }
    failed.map_or(Ok(swept), Err)
}

/// Whether labels name an owner of this user that has certainly died.
fn is_left(labels: &BTreeMap<String, String>, here: Realm) -> bool {
    let owner = labels.get(OWNER).and_then(|text| Owner::parse(text));
    labels.get(USER) == Some(&user()) && owner.is_some_and(|owner| owner.life(here) == Life::Dead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sandboxes_of_dead_owners_of_this_user_are_left_over() {
        let here = Realm::current().unwrap();
        let own = labels(&[("agent_id".to_owned(), "a".to_owned())]).unwrap();
        assert_eq!(own.get("agent_id").map(String::as_str), Some("a"));
        assert!(!is_left(&own, here));
        let owner = Owner::current().unwrap();
        let with = |owner: &str, user: &str| {
            let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            BTreeMap::from([label(OWNER, owner), label(USER, user)])
        };
        let dead = Owner { start: owner.start + 1, ..owner };
        assert!(is_left(&with(&dead.to_string(), &user()), here));
        assert!(!is_left(&with(&dead.to_string(), "4294967294"), here));
        let elsewhere = Owner { realm: Realm(1), ..dead };
        assert!(!is_left(&with(&elsewhere.to_string(), &user()), here));
        assert!(!is_left(&with("nonsense", &user()), here));
        assert!(!is_left(&BTreeMap::new(), here));
    }

    #[test]
    fn labels_of_two_sandboxes_differ_and_a_caller_cannot_replace_them() {
        let forged = [(OWNER.to_owned(), "1.1.1".to_owned())];
        let (one, other) = (labels(&forged).unwrap(), labels(&[]).unwrap());
        assert_ne!(one.get(SESSION), other.get(SESSION));
        assert_eq!(one.get(OWNER), other.get(OWNER));
    }
}
