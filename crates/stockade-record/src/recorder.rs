//! The record of one session while it is written.
//!
//! ```text
//! planned ── begin ──▶ open ── end ──▶ ended
//!    │                  ├── an event that cannot be written ──▶ failed
//!    └── no place ──────┴── too many events ──▶ full ── end ──▶ ended
//! ```
//! After a failure nothing more is written, and `Recorder::failed` resolves: a session without a
//! record must not continue.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::place::{RecordDirectory, settled};
use crate::writer::{WriteError, Writer};
use crate::{
    Body, Egress, SessionEnded, SessionId, SessionStarted, Sink, Time, ToolCall, Unrecorded,
};

/// The maximum size of one stream, except its final events: a program cannot fill the disk with
/// events.
pub const MAX_RECORD_BYTES: u64 = 64 << 20;

/// Writes the record of one session. All threads that record events share it.
pub struct Recorder {
    session: SessionId,
    places: Vec<RecordDirectory>,
    limit: u64,
    state: Mutex<State>,
    /// Whether writing an event failed.
    failed: watch::Sender<bool>,
    /// Receives each event after it is written.
    observer: Option<Box<Observer>>,
}

/// A function that receives the events of a record.
type Observer = dyn Fn(&Body) + Send + Sync;

struct State {
    stage: Stage,
    failure: Option<Arc<WriteError>>,
}

enum Stage {
    Planned,
    Open(Box<Writer>),
    Ended(PathBuf),
    Failed,
}

impl Recorder {
    /// A record at the first usable place. Touches no file yet.
    pub fn new(places: Vec<RecordDirectory>) -> Result<Recorder, WriteError> {
        let session = SessionId::new(Time::now()).map_err(WriteError::Name)?;
        let state = State { stage: Stage::Planned, failure: None };
        let failed = watch::Sender::new(false);
        let limit = MAX_RECORD_BYTES;
        let state = Mutex::new(state);
        Ok(Recorder { session, places, limit, state, failed, observer: None })
    }

    /// Sets a smaller size limit, in bytes.
    #[must_use]
    pub fn with_limit(self, bytes: u64) -> Recorder {
        Recorder { limit: bytes.min(MAX_RECORD_BYTES), ..self }
    }

    /// Sets a function that receives each event after it is written, except the first and the last.
    /// It runs on the thread that records the event and must not block.
    #[must_use]
    pub fn with_observer(self, observer: impl Fn(&Body) + Send + Sync + 'static) -> Recorder {
        Recorder { observer: Some(Box::new(observer)), ..self }
    }

    /// The session's id.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Creates the stream with its first event. Called once, before anything runs.
    pub fn begin(&self, event: SessionStarted) -> Result<(), Unrecorded> {
        let mut state = self.state();
        let begun = match state.stage {
            Stage::Planned => self.make().and_then(|mut writer| {
                writer.append(Body::SessionStarted(event))?;
                Ok(writer)
            }),
            Stage::Open(_) | Stage::Ended(_) | Stage::Failed => Err(WriteError::Closed),
        };
        match begun {
            Ok(writer) => {
                state.stage = Stage::Open(Box::new(writer));
                Ok(())
            }
            Err(error) => Err(self.fail(&mut state, error)),
        }
    }

    /// Writes one event.
    pub fn record(&self, body: Body) -> Result<(), Unrecorded> {
        let mut state = self.state();
        if state.failure.is_some() && !body.is_end() {
            return Err(Unrecorded);
        }
        let observed = self.observer.as_ref().map(|observer| (observer, body.clone()));
        let appended = match &mut state.stage {
            Stage::Open(writer) => writer.append(body),
            Stage::Planned | Stage::Ended(_) | Stage::Failed => Err(WriteError::Closed),
        };
        if let (Ok(()), Some((observer, body))) = (&appended, observed) {
            observer(&body);
        }
        appended.map_err(|error| self.fail(&mut state, error))
    }

    /// Writes the last event; the stream is then complete.
    pub fn end(&self, outcome: &str) -> Result<(), Unrecorded> {
        let mut state = self.state();
        let ended = match &mut state.stage {
            Stage::Open(writer) => {
                let ended = SessionEnded { outcome: outcome.to_owned(), events: writer.events() };
                let appended = writer.append(Body::SessionEnded(ended));
                appended.and_then(|()| writer.finish()).map(|()| writer.path())
            }
            Stage::Planned | Stage::Ended(_) | Stage::Failed => Err(WriteError::Closed),
        };
        match ended {
            Ok(path) => {
                state.stage = Stage::Ended(path);
                Ok(())
            }
            Err(error) => Err(self.fail(&mut state, error)),
        }
    }

    /// The file of the stream; `None` before it is created.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.state().stage {
            Stage::Open(writer) => Some(writer.open_path()),
            Stage::Ended(path) => Some(path.clone()),
            Stage::Planned | Stage::Failed => None,
        }
    }

    /// Why writing an event failed, if it did.
    pub fn failure(&self) -> Option<Arc<WriteError>> {
        self.state().failure.clone()
    }

    /// Why the last event was refused.
    pub fn failure_or_closed(&self) -> Arc<WriteError> {
        self.failure().unwrap_or_else(|| Arc::new(WriteError::Closed))
    }

    /// Resolves when writing an event fails.
    pub async fn failed(&self) {
        // `self` owns the sender, so it lives while this waits.
        let _ = self.failed.subscribe().wait_for(|failed| *failed).await;
    }

    /// Creates the file at the first usable place.
    fn make(&self) -> Result<Writer, WriteError> {
        let (_, directory) = settled(&self.places).map_err(WriteError::Place)?;
        Writer::make(directory, self.session.clone(), self.limit)
    }

    fn fail(&self, state: &mut State, error: WriteError) -> Unrecorded {
        let keeps_its_stage =
            matches!((&state.stage, &error), (Stage::Ended(_), _) | (_, WriteError::Full { .. }));
        if !keeps_its_stage {
            state.stage = Stage::Failed;
        }
        state.failure.get_or_insert(Arc::new(error));
        self.failed.send_replace(true);
        Unrecorded
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Recorder {
    fn egress(&self, event: Egress) -> Result<(), Unrecorded> {
        self.record(Body::Egress(event))
    }

    fn tool_call(&self, event: ToolCall) -> Result<(), Unrecorded> {
        self.record(Body::ToolCall(event.bounded()))
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("session", &self.session).finish_non_exhaustive()
    }
}
