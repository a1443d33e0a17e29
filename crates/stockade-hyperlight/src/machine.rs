//! The machine of one sandbox: at most one worker, which runs one program at a time. Further
//! programs wait for their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_policy::Limit;
use stockade_provider::{Error, ErrorKind, ProcessEnd};
use stockade_wasm::{Guest, Machine, Outputs, Run, end_of_outcome};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{MissedTickBehavior, interval};

use crate::HyperlightError;
use crate::functions::{Failed, perform};
use crate::link::{MachineTimes, Wanted, WorkerLink, words_of};
use crate::program::{encode, outcome};
use crate::protocol::{ANSWER, CALL, Call, DONE, MAX_FRAME, NO_MEMORY, RETURNED, RUN};

/// Streams, pollables and files of one program, also those that it has closed: the runtime inside
/// never says so.
const MAX_RESOURCES: usize = 200_000;
/// How often a running program's processor time is read.
const TICK: Duration = Duration::from_millis(100);

/// The wall's machine for the programs of one sandbox.
pub(crate) struct MicroVm {
    wanted: Wanted,
    slot: Arc<Mutex<Option<WorkerLink>>>,
    /// Where the worker's tasks run: they outlive the thread of a program.
    runtime: Handle,
}

impl MicroVm {
    /// Starts the machine.
    pub(crate) async fn start(wanted: Wanted) -> Result<MicroVm, HyperlightError> {
        let link = WorkerLink::open(&wanted).await?;
        let slot = Arc::new(Mutex::new(Some(link)));
        Ok(MicroVm { wanted, slot, runtime: Handle::current() })
    }

    /// How long the parts of the machine's life took; `None` if its worker has ended.
    pub(crate) async fn times(&self) -> Option<MachineTimes> {
        self.slot.lock().await.as_ref().map(|link| link.times)
    }

    /// The worker, when it is free; a new one if the last has ended.
    async fn turn(&self) -> Result<Turn, HyperlightError> {
        let mut place = Arc::clone(&self.slot).lock_owned().await;
        let link = match place.take() {
            Some(link) if link.is_alive() => link,
            _ => {
                let wanted = self.wanted.clone();
                let started =
                    self.runtime.spawn(async move { WorkerLink::open(&wanted).await }).await;
                let gone = |_| HyperlightError::Start { reason: "its task is gone".to_owned() };
                started.map_err(gone)??
            }
        };
        Ok(Turn { link: Some(link), place: Some(place), runtime: self.runtime.clone() })
    }
}

impl Machine for MicroVm {
    fn wall(&self) -> &'static str {
        "hyperlight"
    }

    fn run(&self, run: Run) -> BoxFuture<'_, Result<ProcessEnd, Error>> {
        Box::pin(async move {
            let turn = self.turn().await?;
            run_in(turn, run).await
        })
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(link) = self.slot.lock().await.take() {
                link.end().await;
            }
        })
    }
}

/// The worker during one program. Dropping it stops the program, and makes the worker free when it
/// is clean.
struct Turn {
    link: Option<WorkerLink>,
    place: Option<OwnedMutexGuard<Option<WorkerLink>>>,
    runtime: Handle,
}

impl Turn {
    fn link(&mut self) -> &mut WorkerLink {
        self.link.as_mut().expect("it is taken only at the end")
    }

    /// Returns the worker to its owner; `is_stopped` means that its program has ended.
    fn give_back(&mut self, is_stopped: bool) {
        let (Some(link), Some(mut place)) = (self.link.take(), self.place.take()) else { return };
        self.runtime.spawn(async move {
            *place = match is_stopped {
                true => link.cleaned().await,
                false => link.stopped().await,
            };
        });
    }

    /// Ends a worker that is not used again.
    async fn discard(&mut self) {
        if let Some(link) = self.link.take() {
            link.end().await;
        }
        self.place = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.give_back(false);
    }
}

async fn run_in(mut turn: Turn, run: Run) -> Result<ProcessEnd, Error> {
    let (limits, meter, budgets) = (run.limits, Arc::clone(&run.meter), Arc::clone(&run.budgets));
    let mut paused = run.paused.clone();
    let (peak, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    meter.share_memory(Arc::clone(&peak), Arc::clone(&refused));
    let (program, mut guest, outputs) = run.into_remote(MAX_RESOURCES)?;
    let content = encode(&program);
    if content.len() > MAX_FRAME {
        let error = Error::new(ErrorKind::Invalid, "the program with its arguments is too long");
        return Err(error.with_remedy("pass the data in a file"));
    }
    let before = turn.link().control.observe().await.cpu_time.unwrap_or_default();
    turn.link().send(RUN, content).await;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            Ok(()) = paused.changed() => {
                let is_paused = *paused.borrow_and_update();
                turn.link().pause(is_paused).await;
            }
            _ = tick.tick() => {
                let usage = turn.link().control.observe().await;
                let used = usage.cpu_time.unwrap_or_default().saturating_sub(before);
                meter.set_cpu_time(&budgets, used);
                peak.fetch_max(usage.memory_peak_bytes.unwrap_or(0), Ordering::SeqCst);
                if limits.cpu_time.is_some_and(|most| used > most) {
                    return Ok(ProcessEnd::OutOfFuel);
                }
            }
            frame = turn.link().receive() => {
                let end = follow(&mut turn, &mut guest, &outputs, frame).await;
                if let Some(end) = end {
                    if end == (ProcessEnd::LimitExceeded { limit: Limit::Memory }) {
                        refused.store(true, Ordering::SeqCst);
                    }
                    return Ok(end);
                }
            }
        }
    }
}

/// Answers a call, or returns how the program ended.
async fn follow(
    turn: &mut Turn,
    guest: &mut Guest,
    outputs: &Outputs,
    frame: Option<(u8, Vec<u8>)>,
) -> Option<ProcessEnd> {
    let trapped = |reason: String| Some(ProcessEnd::Trapped { reason });
    match frame {
        Some((CALL, content)) => {
            let result = match Call::decode(&content) {
                Some(call) => perform(guest, &call).await,
                None => Err(Failed::Malformed),
            };
            match result {
                Ok(answer) if answer.len() <= MAX_FRAME => {
                    turn.link().send(ANSWER, answer).await;
                    None
                }
                Ok(_) => trapped("an answer is too long for this wall".to_owned()),
                Err(Failed::Exit(code)) => {
                    outputs.finish().await;
                    Some(ProcessEnd::Exited { code })
                }
                Err(Failed::Trap(reason)) => trapped(reason),
                Err(Failed::Malformed) => {
                    turn.discard().await;
                    trapped("the micro-VM made a call that does not exist".to_owned())
                }
            }
        }
        Some((DONE, content)) => {
            outputs.finish().await;
            let end = match content.split_first() {
                Some((&RETURNED, result)) => match outcome(result) {
                    Ok(outcome) => end_of_outcome(&outcome, false),
                    Err(_) => {
                        turn.discard().await;
                        return trapped("the micro-VM returned no outcome".to_owned());
                    }
                },
                Some((&NO_MEMORY, _)) => ProcessEnd::LimitExceeded { limit: Limit::Memory },
                Some((_, why)) => ProcessEnd::Trapped { reason: words_of(why) },
                None => ProcessEnd::Trapped { reason: String::new() },
            };
            turn.give_back(true);
            Some(end)
        }
        Some(_) => {
            turn.discard().await;
            trapped("the micro-VM's worker does not speak as this version".to_owned())
        }
        None => {
            let memory = turn.link().ran_out_of_memory().await;
            let said = turn.link().last_words().await;
            turn.discard().await;
            if memory {
                return Some(ProcessEnd::LimitExceeded { limit: Limit::Memory });
            }
            trapped(format!("the micro-VM's worker has ended: {said}"))
        }
    }
}
