//! One call of a context, from the policy's answer to its report.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use stockade_contexts::{CellError, ContextName, ContextReport};
use stockade_policy::Limit;
use stockade_provider::{Language, Program};
use stockade_record::{CodeDigest, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use super::inside::{Done, Job};
use super::start::check_language;
use super::table::LiveContext;
use super::{CallReport, ContextCall, ContextError, ContextEvent, INTERRUPT_GRACE};
use crate::execute::{clock, exceeded, of_execution};
use crate::outcome::Outcome;
use crate::stopping::Stopping;
use crate::{Audit, RunReport, Session, StartedExecution, Usage, environment, gate};

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

/// The error of a call whose interpreter has ended.
const UNEXPECTED_END: &str = "UnexpectedEndOfExecution";

/// Why a call is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Cancelled,
    TimedOut,
    Exceeded(Limit),
}

impl Session {
    /// Runs code in a context, after the calls that run or wait there already. A name without a
    /// context starts one.
    ///
    /// When `cancel` resolves, the call is interrupted as by Ctrl-C; one that goes on is killed with
    /// its context. The events must be received while this future runs; they come with backpressure.
    pub async fn run_in_context(
        &self,
        name: &ContextName,
        call: ContextCall,
        events: mpsc::Sender<ContextEvent>,
        cancel: impl Future<Output = ()> + Send,
        started: Option<oneshot::Sender<StartedExecution>>,
    ) -> Result<CallReport, ContextError> {
        check_language(&call.language)?;
        self.check_paused()?;
        let asked = Instant::now();
        let variables = environment::names(&call.environment);
        let credentials = [&self.credentials[..], &call.credentials].concat();
        let added = environment::merged(&self.policy, &[], call.environment, &credentials)?;
        let own = self.policy.environment.len();
        let added: BTreeMap<String, String> = added.into_iter().skip(own).collect();
        let execution = self.executions.fetch_add(1, Ordering::Relaxed);
        let code = CodeDigest::of(super::PYTHON, "cell.py", &call.code);
        let program = Program::Code {
            language: Language::Python,
            name: "cell.py".to_owned(),
            code: call.code,
            arguments: Vec::new(),
        };
        let verdict =
            gate::judge(&self.policy, &program, call.rules.as_ref().unwrap_or(&self.context));
        self.record.verdict(execution, &verdict)?;
        if let Some(denial) = verdict.denial() {
            let report = RunReport::unstarted(Outcome::Denied { denial }, None);
            return Ok(CallReport { report, context: of_context(name) });
        }
        let Program::Code { code: bytes, .. } = program else { unreachable!("it is code") };
        let not_text = |_| ContextError::NotText { name: name.clone() };
        let text = String::from_utf8(bytes).map_err(not_text)?;
        let entry = self.context_named(name).await?;
        entry.check()?;
        let words = ["context".to_owned(), name.as_str().to_owned()];
        let command = Command::of(&words, Some(code));
        self.record.execution_started(execution, &self.plan, Some(command), variables)?;
        let mut stop = pin!(Stopping::new(cancel.into(), &self.record));
        self.running.add(execution);
        let before = self.services.limits_hit();
        let result = async {
            let turn = tokio::select! {
                biased;
                turn = entry.turn.lock() => turn,
                _ = stop.as_mut() => {
                    let report = RunReport::unstarted(Outcome::Cancelled, None);
                    return Ok(CallReport { report, context: of_context(name) });
                }
            };
            self.record.check()?;
            // It may have ended while this call waited for its turn.
            entry.check()?;
            if let Some(started) = started {
                let control = Arc::clone(&entry.control);
                // Fails if the caller does not want to know.
                let _ = started.send(StartedExecution { execution, control });
            }
            self.running.started(execution, entry.id);
            let busy = Busy::new(&entry);
            let report = self.call(&entry, text, added, events, call.timeout, stop, asked).await;
            drop((busy, turn));
            report
        };
        let mut result = result.await;
        let denials = self.running.remove(execution);
        if let Ok(called) = &mut result {
            called.report.denials.extend(denials);
            called.report.limits_hit.extend(self.services.limits_hit().difference(&before));
            called.report.audits.extend(Audit::of(&verdict));
            called.report.plan = Some(self.plan.clone());
        }
        match result {
            Ok(CallReport { report, context }) => {
                let report = Ok(report);
                self.record.execution_ended(execution, &report)?;
                Ok(CallReport { report: self.record.named(report)?, context })
            }
            Err(ContextError::Run(error)) => {
                let failed = Err(error);
                self.record.execution_ended(execution, &failed)?;
                Err(self.record.named(failed).err().map_or(ContextError::Paused, Into::into))
            }
            Err(error) => {
                let cancelled = Ok(RunReport::unstarted(Outcome::Cancelled, None));
                self.record.execution_ended(execution, &cancelled)?;
                Err(error)
            }
        }
    }

    /// Sends a call to the interpreter and waits for its end.
    #[expect(clippy::too_many_arguments, reason = "each is a different part of one call")]
    async fn call(
        &self,
        entry: &Arc<LiveContext>,
        code: String,
        environment: BTreeMap<String, String>,
        events: mpsc::Sender<ContextEvent>,
        timeout: Option<Duration>,
        mut cancel: std::pin::Pin<&mut Stopping<'_>>,
        asked: Instant,
    ) -> Result<CallReport, ContextError> {
        let (abandon, is_abandoned) = watch::channel(false);
        let (reply, answered) = oneshot::channel();
        let most_output = self.policy.limits.value(Limit::Output).unwrap_or(0);
        let job = Job { code, environment, most_output, events, is_abandoned, reply };
        let began = Instant::now();
        // Fails if the interpreter has ended, and then the answer does too.
        let _ = entry.jobs.send(job).await;
        let most = clock(&self.policy, Limit::Timeout);
        let mut deadline = pin!(sleep(timeout.map_or(most, |timeout| timeout.min(most))));
        let mut answered = pin!(answered);
        let sandbox = self.sandbox();
        let mut exceeded = pin!(exceeded(sandbox.as_ref().as_ref(), &self.services));
        let stop = tokio::select! {
            biased;
            done = &mut answered => {
                return Ok(self.report(entry, done.ok(), None, began, asked).await);
            }
            _ = &mut cancel => Stop::Cancelled,
            () = &mut deadline => Stop::TimedOut,
            limit = &mut exceeded => Stop::Exceeded(limit),
        };
        let mut done = None;
        // Twice: the first one is lost if it overtakes the call itself on its way inside.
        for _ in 0..2 {
            if matches!(stop, Stop::Exceeded(_))
                || !entry.interrupts
                || entry.control.signal(SIGINT).await.is_err()
            {
                break;
            }
            tokio::select! {
                biased;
                answer = &mut answered => {
                    done = Some(answer.ok());
                    break;
                }
                () = sleep(INTERRUPT_GRACE) => {}
                // Nothing may run whose record cannot be written.
                _ = &mut cancel => break,
            }
        }
        let done = match done {
            Some(done) => done,
            None => {
                // Before the kill: the task may wait for a reader of events.
                abandon.send_replace(true);
                let killed = async {
                    entry
                        .kill(match (stop, entry.interrupts) {
                            (Stop::Cancelled, true) => {
                                "its call was cancelled and ignored the interrupt"
                            }
                            (Stop::TimedOut, true) => {
                                "its call ran out of time and ignored the interrupt"
                            }
                            (Stop::Cancelled, false) => "its call was cancelled",
                            (Stop::TimedOut, false) => "its call ran out of time",
                            (Stop::Exceeded(_), _) => "a limit of the sandbox was exceeded",
                        })
                        .await;
                };
                // The answer comes when the interpreter is gone.
                tokio::join!(killed, async {
                    match tokio::time::timeout(GONE, answered).await {
                        Ok(answer) => answer.ok(),
                        Err(_) => None,
                    }
                })
                .1
            }
        };
        Ok(self.report(entry, done, Some(stop), began, asked).await)
    }

    async fn report(
        &self,
        entry: &Arc<LiveContext>,
        done: Option<Done>,
        stop: Option<Stop>,
        began: Instant,
        asked: Instant,
    ) -> CallReport {
        let duration = began.elapsed();
        let done = done.unwrap_or_default();
        let mut why = None;
        if done.count.is_none() {
            // The task has the end, and derives the reason from it.
            let mut state = entry.state.subscribe();
            let ended = state.wait_for(|state| state.ended.is_some());
            let ended = tokio::time::timeout(GONE, ended).await;
            let ended = ended.ok().and_then(Result::ok).and_then(|state| state.ended.clone());
            why = Some(ended.unwrap_or_else(|| "it does not answer".to_owned()));
        }
        let used = of_execution(Some(Arc::clone(&entry.control))).await;
        // No critical section leaves the value inconsistent.
        let before = std::mem::replace(
            &mut *entry.used.lock().unwrap_or_else(PoisonError::into_inner),
            used.clone(),
        );
        let is_starved = used.oom_kills > before.oom_kills;
        let (is_alive, failed) = (done.count.is_some(), done.error.is_some());
        let outcome = match (stop, is_alive) {
            (Some(Stop::Cancelled), _) => Outcome::Cancelled,
            (Some(Stop::TimedOut), _) => Outcome::TimedOut,
            (Some(Stop::Exceeded(limit)), _) => Outcome::LimitExceeded { limit },
            (None, true) => Outcome::Exited { code: i32::from(failed) },
            (None, false) if is_starved => Outcome::OutOfMemory,
            (None, false) => entry
                .state
                .borrow()
                .outcome
                .clone()
                .unwrap_or(Outcome::Signaled { signal: SIGKILL }),
        };
        let error = match why {
            Some(why) => {
                let value = format!("context {} has ended: {why}", entry.name);
                let name = UNEXPECTED_END.to_owned();
                Some(CellError { name, value, traceback: String::new() })
            }
            None => done.error,
        };
        let mut report = RunReport::unstarted(outcome, None);
        report.usage = Usage {
            cpu_time: used
                .cpu_time
                .map(|time| time.saturating_sub(before.cpu_time.unwrap_or_default())),
            memory_peak_bytes: used.memory_peak_bytes,
            tasks_peak: used.tasks_peak,
        };
        report.limits_hit = used.limits_hit.difference(&before.limits_hit).copied().collect();
        if done.stdout.dropped_bytes + done.stderr.dropped_bytes + done.dropped_results > 0 {
            report.limits_hit.insert(Limit::Output);
        }
        if is_starved && report.outcome != Outcome::OutOfMemory {
            report.limits_hit.insert(Limit::Memory);
        }
        let known = |denial: &stockade_policy::Denial| !before.denials.contains(denial);
        report.denials = used.denials.into_iter().filter(known).collect();
        (report.stdout, report.stderr) = (done.stdout, done.stderr);
        (report.start, report.duration) = (began.duration_since(asked), duration);
        let context = ContextReport {
            context: entry.name.as_str().to_owned(),
            execution_count: done.count,
            error,
            dropped_results: done.dropped_results,
            is_alive,
        };
        CallReport { report, context }
    }
}

/// How long an interpreter that was killed may take to be gone.
const GONE: Duration = Duration::from_secs(3);

fn of_context(name: &ContextName) -> ContextReport {
    ContextReport { context: name.as_str().to_owned(), is_alive: true, ..ContextReport::default() }
}

/// Marks a context as busy until it is dropped.
struct Busy<'e>(&'e LiveContext);

impl Busy<'_> {
    fn new(entry: &LiveContext) -> Busy<'_> {
        entry.state.send_modify(|state| state.is_busy = true);
        Busy(entry)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.is_busy = false);
    }
}
