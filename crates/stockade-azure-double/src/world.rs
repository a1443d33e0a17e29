//! What exists: tokens, groups, sandboxes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};
use stockade_internet::Authority;
use tempfile::TempDir;
use tokio::net::UnixListener;

use crate::fault::{Fault, Injection, Operation};
use crate::log::Logged;
use crate::machine::{Machine, SOCKET};
use crate::{egress, identity};

/// Everything, shared by all connections.
pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) authority: Arc<Authority>,
    pub(crate) inner: Mutex<Inner>,
    pub(crate) count: AtomicUsize,
}

/// What changes.
#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) log: Vec<Logged>,
    pub(crate) injections: Vec<Injection>,
    /// Groups by their path in Azure Resource Manager, with how many looks at their operation are
    /// left until they are there.
    pub(crate) groups: BTreeMap<String, Value>,
    pub(crate) pending_groups: BTreeMap<String, (Value, usize)>,
    pub(crate) sandboxes: BTreeMap<String, Arc<Sandbox>>,
    pub(crate) snapshots: BTreeMap<String, Value>,
    /// Valid tokens with their scope.
    pub(crate) tokens: BTreeMap<String, String>,
    /// How many polls a new sandbox needs until it runs; `None` is never.
    pub(crate) looks: Option<usize>,
    /// The state in which a new sandbox ends, instead of Running.
    pub(crate) state: Option<String>,
    /// What new sandboxes store instead of the requested egress policy.
    pub(crate) egress: Option<Value>,
    /// What new sandboxes report instead of what they hold, when they were resumed.
    pub(crate) egress_after_resume: Option<Value>,
    /// Lists have pages of this length, and this as the address of further ones.
    pub(crate) page: Option<(usize, String)>,
    /// The ids of all sandboxes that ever existed.
    pub(crate) created: BTreeSet<String>,
}

impl World {
    pub(crate) fn new(directory: TempDir, authority: Arc<Authority>) -> World {
        let mut inner = Inner { looks: Some(1), ..Inner::default() };
        for (token, scope) in identity::STATIC {
            inner.tokens.insert(token.to_owned(), scope.to_owned());
        }
        World { directory, authority, inner: Mutex::new(inner), count: AtomicUsize::new(0) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other object has.
    pub(crate) fn number(&self) -> usize {
        self.count.fetch_add(1, Ordering::SeqCst)
    }

    /// The fault for a request, if one is due.
    pub(crate) fn fault(&self, operation: Operation) -> Option<(Fault, bool)> {
        let mut inner = self.lock();
        let due = inner
            .injections
            .iter_mut()
            .find(|injection| injection.operation == operation && injection.times > 0)?;
        if due.after > 0 {
            due.after -= 1;
            return None;
        }
        due.times -= 1;
        Some((due.fault.clone(), due.takes_effect))
    }

    /// Makes a sandbox with a machine of its own.
    pub(crate) fn create(self: &Arc<Self>, body: &Value) -> Result<Value> {
        let id = format!("sb-{:08x}", self.number() + 1);
        let place = self.directory.path().join(&id);
        let machine = Machine::start(&place, self.authority.pem())?;
        let listener = UnixListener::bind(machine.root().join(&SOCKET[1..]))?;
        open_to_all(&machine.root().join(&SOCKET[1..]))?;
        let mut inner = self.lock();
        let open = json!({ "defaultAction": "Allow" });
        let asked = body.get("egressPolicy").cloned().unwrap_or(open);
        let sandbox = Arc::new(Sandbox {
            id: id.clone(),
            body: body.clone(),
            machine,
            state: Mutex::new(SandboxState {
                name: "Creating".to_owned(),
                stopped_reason: None,
                looks: inner.looks,
                target: inner.state.clone().unwrap_or_else(|| "Running".to_owned()),
                egress: inner.egress.clone().unwrap_or(asked),
                allowed: Vec::new(),
                denied: Vec::new(),
            }),
        });
        tokio::spawn(egress::serve(listener, Arc::clone(&sandbox), Arc::clone(&self.authority)));
        inner.created.insert(id.clone());
        let view = sandbox.view();
        inner.sandboxes.insert(id, sandbox);
        Ok(view)
    }

    /// Deletes a sandbox with everything in it.
    pub(crate) fn delete(&self, id: &str) -> bool {
        let found = self.lock().sandboxes.remove(id);
        if let Some(sandbox) = &found {
            sandbox.machine.end();
        }
        let _ = std::fs::remove_dir_all(self.directory.path().join(id));
        found.is_some()
    }
}

fn open_to_all(socket: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666))
}

/// One sandbox.
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) body: Value,
    pub(crate) machine: Machine,
    pub(crate) state: Mutex<SandboxState>,
}

pub(crate) struct SandboxState {
    pub(crate) name: String,
    pub(crate) stopped_reason: Option<String>,
    pub(crate) looks: Option<usize>,
    pub(crate) target: String,
    pub(crate) egress: Value,
    pub(crate) allowed: Vec<Value>,
    pub(crate) denied: Vec<Value>,
}

impl Sandbox {
    pub(crate) fn state(&self) -> MutexGuard<'_, SandboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sandbox as the service describes it.
    pub(crate) fn view(&self) -> Value {
        let state = self.state();
        let mut view = json!({
            "id": self.id,
            "state": state.name,
            "labels": self.body.get("labels").cloned().unwrap_or(json!({})),
            "resources": self.body.get("resources").cloned().unwrap_or(Value::Null),
            "lifecycle": self.body.get("lifecycle").cloned().unwrap_or(Value::Null),
            "sourcesRef": self.body["sourcesRef"],
            "environment": self.body.get("environment").cloned().unwrap_or(json!({})),
            "egressPolicy": state.egress,
            "createdAt": "2026-11-18T20:00:00Z",
        });
        if let Some(reason) = &state.stopped_reason {
            view["stateDetails"] = json!({ "stoppedReason": reason });
        }
        view
    }

    /// A poll from outside advances a new sandbox to its next state.
    pub(crate) fn look(&self) {
        let mut state = self.state();
        if !["Creating", "Resuming"].contains(&state.name.as_str()) {
            return;
        }
        match state.looks {
            Some(0) => state.name = state.target.clone(),
            Some(left) => state.looks = Some(left - 1),
            None => {}
        }
    }

    /// Whether the egress policy allows a host.
    pub(crate) fn allows(&self, host: &str) -> bool {
        let state = self.state();
        let matches = |pattern: &str| match pattern.strip_prefix('*') {
            Some(end) => host.ends_with(end) && host.len() > end.len(),
            None => host == pattern,
        };
        let rules = state.egress["hostRules"].as_array().into_iter().flatten();
        let mut rules = rules.filter(|rule| matches(rule["pattern"].as_str().unwrap_or_default()));
        let action = rules.next().map_or(&state.egress["defaultAction"], |rule| &rule["action"]);
        action == "Allow"
    }

    /// Keeps a decision.
    pub(crate) fn decide(&self, decision: Value, allowed: bool) {
        let mut state = self.state();
        match allowed {
            true => state.allowed.push(decision),
            false => state.denied.push(decision),
        }
    }

    /// The environment of commands.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let found = self.body.get("environment").and_then(Value::as_object);
        found
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect()
    }
}
