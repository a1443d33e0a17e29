//! The record of one session while it is written.
//!
//! ```text
//! planned ── begin ──▶ open ── end ──▶ ended
//!    │                  ├── an event that cannot be written ──▶ failed
//!    └── no place ──────┴── too many events ──▶ full ── end ──▶ ended
//! ```
//! After a failure nothing more is written, and whoever waits for it learns it: a session without a
//! record does not go on.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::place::{Place, settled};
use crate::writer::{WriteError, Writer};
use crate::{
    Body, Egress, SessionEnded, SessionId, SessionStarted, Sink, Time, ToolCall, Unrecorded,
};

/// The most bytes of one stream, its ends apart: what comes from inside does not fill a disk.
pub const MAX_RECORD_BYTES: u64 = 64 << 20;

/// Writes the record of one session. Shared by everybody who has something to tell.
pub struct Recorder {
    session: SessionId,
    places: Vec<Place>,
    limit: u64,
    state: Mutex<State>,
    /// Whether an event could not be kept.
    failed: watch::Sender<bool>,
}

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
    /// A record that is kept at the first place that is there. Touches no file.
    pub fn new(places: Vec<Place>) -> Result<Recorder, WriteError> {
        let session = SessionId::new(Time::now()).map_err(WriteError::Name)?;
        let state = State { stage: Stage::Planned, failure: None };
        let failed = watch::Sender::new(false);
        let limit = MAX_RECORD_BYTES;
        Ok(Recorder { session, places, limit, state: Mutex::new(state), failed })
    }

    /// The same with room for less, in bytes.
    #[must_use]
    pub fn with_limit(self, bytes: u64) -> Recorder {
        Recorder { limit: bytes.min(MAX_RECORD_BYTES), ..self }
    }

    /// The session's name.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Makes the stream with its first event. Called once, before anything runs.
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

    /// Keeps one event.
    pub fn record(&self, body: Body) -> Result<(), Unrecorded> {
        let mut state = self.state();
        if state.failure.is_some() && !body.is_end() {
            return Err(Unrecorded);
        }
        let appended = match &mut state.stage {
            Stage::Open(writer) => writer.append(body),
            Stage::Planned | Stage::Ended(_) | Stage::Failed => Err(WriteError::Closed),
        };
        appended.map_err(|error| self.fail(&mut state, error))
    }

    /// Writes the last event; the stream is complete.
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

    /// The file of the stream; none before it was made.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.state().stage {
            Stage::Open(writer) => Some(writer.open_path()),
            Stage::Ended(path) => Some(path.clone()),
            Stage::Planned | Stage::Failed => None,
        }
    }

    /// Why an event could not be kept, if one could not.
    pub fn failure(&self) -> Option<Arc<WriteError>> {
        self.state().failure.clone()
    }

    /// Why an event was just refused.
    pub fn failure_or_closed(&self) -> Arc<WriteError> {
        self.failure().unwrap_or_else(|| Arc::new(WriteError::Closed))
    }

    /// Resolves when an event could not be kept.
    pub async fn failed(&self) {
        // The sender is ours, so it stays for as long as we wait.
        let _ = self.failed.subscribe().wait_for(|failed| *failed).await;
    }

    /// Makes the file at the first place that is there.
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
