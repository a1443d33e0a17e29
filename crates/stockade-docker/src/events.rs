//! What the engine reports about a container: memory kills, its end, its removal.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::EventMessage;
use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::engine::Engine;
use crate::owner::SANDBOX;

/// What has happened to a container so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How often the kernel killed a process because memory ran out.
    pub(crate) memory_kills: u64,
    /// The exit code of the first process, 128 plus the signal if one killed it.
    pub(crate) exit_code: Option<i32>,
    /// Whether the container is removed.
    pub(crate) is_removed: bool,
    /// Whether the engine reports nothing more.
    pub(crate) is_over: bool,
}

impl Seen {
    fn add(&mut self, event: &EventMessage) {
        match event.action.as_deref() {
            Some("oom") => self.memory_kills += 1,
            Some("die") => {
                let attributes = event.actor.as_ref().and_then(|actor| actor.attributes.as_ref());
                let code = attributes.and_then(|all| all.get("exitCode"));
                self.exit_code = code.and_then(|code| code.parse().ok()).or(Some(-1));
            }
            Some("destroy") => self.is_removed = true,
            _ => {}
        }
    }
}

/// Follows the events of one container until it is dropped.
#[derive(Debug)]
pub(crate) struct Events {
    seen: watch::Receiver<Seen>,
    task: AbortHandle,
}

impl Events {
    /// Subscribes to the events of a sandbox, before its container exists.
    pub(crate) fn follow(engine: &Engine, sandbox: &str) -> Events {
        let label = format!("{SANDBOX}={sandbox}");
        let filters = HashMap::from([
            ("type".to_owned(), vec!["container".to_owned()]),
            ("label".to_owned(), vec![label]),
        ]);
        let options = EventsOptionsBuilder::new().filters(&filters).build();
        let (sender, seen) = watch::channel(Seen::default());
        let docker = engine.docker.clone();
        let task = tokio::spawn(async move {
            let mut events = std::pin::pin!(docker.events(Some(options)));
            while let Some(Ok(event)) = events.next().await {
                sender.send_modify(|seen| seen.add(&event));
                if sender.borrow().is_removed {
                    break;
                }
            }
            sender.send_modify(|seen| seen.is_over = true);
        });
        Events { seen, task: task.abort_handle() }
    }

    /// What has happened so far.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until something has happened, at most for a time. Returns what has happened then.
    pub(crate) async fn wait_for(
        &self,
        most: Duration,
        happened: impl FnMut(&Seen) -> bool,
    ) -> Seen {
        let mut happened = happened;
        let mut seen = self.seen.clone();
        let _ = timeout(most, seen.wait_for(|seen| happened(seen) || seen.is_over)).await;
        self.seen()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_facts() {
        let mut seen = Seen::default();
        for (action, attributes) in
            [("start", ""), ("oom", ""), ("die", r#""exitCode":"137""#), ("destroy", "")]
        {
            let text =
                format!(r#"{{"Action":"{action}","Actor":{{"Attributes":{{{attributes}}}}}}}"#);
            seen.add(&serde_json::from_str(&text).unwrap());
        }
        let expected =
            Seen { memory_kills: 1, exit_code: Some(137), is_removed: true, is_over: false };
        assert_eq!(seen, expected);
    }
}
