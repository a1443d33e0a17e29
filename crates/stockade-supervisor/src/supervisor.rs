//! Holds one session and serves its clients.
//!
//! ```text
//! serving ── removed, ttl, idle, the sandbox is gone, a signal ──▶ ending ──▶ ended
//! ```
//! Ending kills everything inside, removes the state, answers the client that asked, and then waits
//! until the other clients have their replies and nothing of the sandbox is left on the host.

use std::os::unix::net::UnixListener as StdListener;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use stockade_api::{Frame, Reply, SessionView, StatsView, write_frame};
use stockade_engine::{RunError, Session};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connection;
use crate::executions::Executions;
use crate::hub::Hub;
use crate::{Activity, Claimed, Origin, Settings};

/// How many clients are served at once; further ones wait.
const CLIENTS: usize = 512;

/// How long the tasks of clients may take to end after their programs were killed.
const LAST_REPLIES: Duration = Duration::from_secs(2);

/// How long programs may take to end for the same reason as the session, so that their clients
/// receive that reason and not a cancellation.
const OWN_ENDS: Duration = Duration::from_millis(500);

/// How long the client that removes a session waits for the wall to confirm the kill. A container
/// engine can take longer; it has the request by then.
const KILLED: Duration = Duration::from_millis(250);

/// How long no client may need the session before this process gives back the memory that serving
/// the last one took.
const QUIET: Duration = Duration::from_millis(300);

/// What the connections of a session share.
pub(crate) struct Shared {
    pub(crate) session: Session,
    pub(crate) executions: Executions,
    pub(crate) hub: Hub,
    pub(crate) name: String,
    pub(crate) activity: Arc<Activity>,
    created: u64,
    settings: Settings,
    started: AtomicU64,
    /// Where it comes from, for its checkpoints.
    pub(crate) origin: Origin,
    /// Becomes true when the session ends.
    pub(crate) ending: watch::Sender<bool>,
    last_use: Mutex<Instant>,
}

impl Shared {
    /// Notes that the session is in use.
    pub(crate) fn touch(&self) {
        *self.last_use.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(crate) fn count_start(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) async fn pause(&self, is_paused: bool) -> Result<(), RunError> {
        match is_paused {
            true => self.session.pause().await?,
            false => self.session.resume().await?,
        }
        Ok(())
    }

    pub(crate) fn set_secret(&self, name: &str, value: String) -> Result<(), RunError> {
        self.session.set_secret(name, value)
    }

    pub(crate) fn view(&self) -> SessionView {
        let (plan, policy) = (self.session.plan(), self.session.policy());
        let state = match (*self.ending.borrow(), self.session.is_paused()) {
            (true, _) => "ending",
            (false, true) => "paused",
            (false, false) => "running",
        };
        SessionView {
            name: self.name.clone(),
            supervisor: std::process::id(),
            state: state.to_owned(),
            created: self.created,
            provider: plan.provider.as_str().to_owned(),
            isolation: plan.isolation.as_str().to_owned(),
            policy: policy.name.to_string(),
            policy_text: policy.to_yaml(),
            running: self.executions.count_running(),
            executions: self.started.load(Ordering::Relaxed),
            ttl_seconds: self.settings.ttl.map(|ttl| ttl.as_secs()),
            idle_seconds: self.settings.idle.map(|idle| idle.as_secs()),
            record: self.session.identity().0.map(|id| id.as_str().to_owned()),
            controls: serde_json::to_value(&plan.controls).unwrap_or_default(),
        }
    }

    pub(crate) async fn stats(&self) -> StatsView {
        let used = self.session.usage().await;
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (network, denied, denials) = self.activity.view();
        StatsView {
            cpu_ms: used.cpu_time.map(milliseconds),
            memory_bytes: used.memory_bytes,
            memory_peak_bytes: used.memory_peak_bytes,
            tasks_peak: used.tasks_peak,
            oom_kills: used.oom_kills,
            running: self.executions.count_running(),
            network,
            denied,
            denials,
        }
    }

    /// Resolves when the session has been idle for too long.
    async fn idle(&self) {
        let Some(most) = self.settings.idle else { return std::future::pending().await };
        loop {
            let used = *self.last_use.lock().unwrap_or_else(PoisonError::into_inner);
            let left = most.saturating_sub(used.elapsed());
            if left.is_zero() {
                // A client may use a server of a context, in which no call runs.
                let is_connected = self.session.forwarded_ports().iter().any(|port| port.open > 0);
                if self.executions.count_running() == 0 && !is_connected {
                    return;
                }
                self.touch();
                continue;
            }
            sleep(left).await;
        }
    }
}

/// A session with its socket.
pub struct Supervisor {
    shared: Arc<Shared>,
    claimed: Claimed,
    listener: UnixListener,
}

impl Supervisor {
    /// Takes over an open session that was created at a time, in seconds since 1970. Must be called
    /// in a tokio runtime. `origin` is kept in checkpoints.
    pub fn new(
        session: Session,
        activity: Arc<Activity>,
        claimed: Claimed,
        listener: StdListener,
        created: u64,
        origin: Origin,
    ) -> std::io::Result<Supervisor> {
        listener.set_nonblocking(true)?;
        let settings = Settings::of(session.policy());
        let shared = Shared {
            session,
            executions: Executions::default(),
            hub: Hub::default(),
            name: claimed.name.as_str().to_owned(),
            activity,
            created,
            settings,
            started: AtomicU64::new(0),
            origin,
            ending: watch::Sender::new(false),
            last_use: Mutex::new(Instant::now()),
        };
        let listener = UnixListener::from_std(listener)?;
        Ok(Supervisor { shared: Arc::new(shared), claimed, listener })
    }

    /// The session as clients see it.
    pub fn view(&self) -> SessionView {
        self.shared.view()
    }

    /// Serves clients until the session ends, or until `stop` resolves.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), RunError> {
        let Supervisor { shared, claimed, listener } = self;
        let mut clients = JoinSet::new();
        let (reason, remover) = accept(&shared, &listener, &mut clients, stop).await;
        drop(listener);
        if matches!(reason, Reason::Lost | Reason::Ttl) {
            let _ = timeout(OWN_ENDS, shared.executions.all_ended()).await;
        }
        shared.ending.send_replace(true);
        // Programs are cancelled before the sandbox is killed: their clients must not see a loss.
        tokio::task::yield_now().await;
        {
            let mut kill = pin!(shared.session.kill());
            let is_confirmed = timeout(KILLED, &mut kill).await.is_ok();
            // The name is free again before the client is answered.
            drop(claimed);
            let answer = async {
                if let Some(mut remover) = remover {
                    // Fails if the client has left.
                    let _ = write_frame(&mut remover, &Frame::Reply(Reply::Done)).await;
                }
            };
            let rest = async {
                if !is_confirmed {
                    kill.await;
                }
            };
            tokio::join!(rest, answer);
        }
        let last = async { while clients.join_next().await.is_some() {} };
        let _ = timeout(LAST_REPLIES, last).await;
        clients.shutdown().await;
        match Arc::try_unwrap(shared) {
            Ok(shared) => shared.session.end(reason.as_str()).await,
            // A task that follows a program still holds it. Dropping it ends the sandbox too.
            Err(_) => Ok(()),
        }
    }
}

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Stopped,
    Lost,
    Ttl,
    Idle,
    Removed,
}

impl Reason {
    /// The word in the record.
    fn as_str(self) -> &'static str {
        match self {
            Reason::Stopped => "stopped",
            Reason::Lost => "lost",
            Reason::Ttl => "ttl",
            Reason::Idle => "idle",
            Reason::Removed => "removed",
        }
    }
}

/// Accepts clients until the session must end. Returns the reason, and the client that requested
/// it.
async fn accept(
    shared: &Arc<Shared>,
    listener: &UnixListener,
    clients: &mut JoinSet<()>,
    stop: impl Future<Output = ()>,
) -> (Reason, Option<UnixStream>) {
    let (remove, mut removals) = mpsc::channel::<UnixStream>(1);
    let ttl = async {
        match shared.settings.ttl {
            Some(ttl) => sleep(ttl).await,
            None => std::future::pending().await,
        }
    };
    let (mut ttl, mut stop) = (pin!(ttl), pin!(stop));
    let (mut over, mut idle) = (pin!(shared.session.over()), pin!(shared.idle()));
    let mut has_released = false;
    loop {
        let is_quiet = clients.is_empty() && shared.executions.count_running() == 0;
        tokio::select! {
            biased;
            () = &mut stop => return (Reason::Stopped, None),
            _ = &mut over => return (Reason::Lost, None),
            () = &mut ttl => return (Reason::Ttl, None),
            () = &mut idle => return (Reason::Idle, None),
            remover = removals.recv() => return (Reason::Removed, remover),
            Some(_) = clients.join_next(), if !clients.is_empty() => {}
            accepted = listener.accept(), if clients.len() < CLIENTS => match accepted {
                Ok((stream, _)) if is_ours(&stream) => {
                    has_released = false;
                    let (shared, remove) = (Arc::clone(shared), remove.clone());
                    clients.spawn(connection::serve(stream, shared, remove));
                }
                Ok(_) => {}
                // Too many descriptors for now.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            () = sleep(QUIET), if is_quiet && !has_released => {
                stockade_sys::release_memory();
                has_released = true;
            }
        }
    }
}

/// Whether a client has our user id. The directory of the socket keeps others out already.
fn is_ours(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}
