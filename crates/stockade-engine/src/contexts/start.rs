//! Starts the interpreter of a context, and follows it to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use stockade_contexts::{ContextName, ContextView, HELLO, KERNEL_FILE, Token, kernel, token_frame};
use stockade_provider::{
    Language, Probe, ProcessEnd, Program, ProgramKinds, Running, Sandbox, chain,
};
use stockade_record::Command;
use stockade_sys::random_bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::timeout;

use super::inside::Inside;
use super::table::{LiveContext, State};
use super::{ContextError, ContextRequest, PYTHON};
use crate::execute::of_execution;
use crate::outcome::{Outcome, Reader, of_end};
use crate::record::Record;
use crate::{ExecutionRequest, RunError, RunReport, Session, environment};

/// How long an interpreter may take to become usable.
const MOST_START: Duration = Duration::from_secs(30);

/// How many bytes an interpreter may print before it is usable.
const MOST_GREETING: usize = 64 << 10;

/// How many bytes of its errors a refusal shows.
const MOST_SHOWN: usize = 2000;

impl Session {
    /// Starts a context.
    pub async fn create_context(
        &self,
        request: ContextRequest,
    ) -> Result<ContextView, ContextError> {
        let _starting = self.contexts.starting.lock().await;
        let name = self.contexts.free_name(request.name.as_ref())?;
        Ok(self.start_context(name, request).await?.view())
    }

    /// The contexts, by name.
    pub fn contexts(&self) -> Vec<ContextView> {
        self.contexts.views()
    }

    /// Interrupts the call that runs, as Ctrl-C does. Does nothing if none runs. On a wall that
    /// cannot interrupt code this ends the interpreter, and the context must be restarted.
    pub async fn interrupt_context(&self, name: &ContextName) -> Result<(), ContextError> {
        const SIGINT: i32 = 2;
        let entry = self.contexts.get(name)?;
        entry.check()?;
        let is_busy = entry.state.borrow().is_busy;
        match (is_busy, entry.interrupts) {
            (true, true) => entry.control.signal(SIGINT).await.map_err(RunError::from)?,
            (true, false) => entry.kill("an interrupt ends it on this wall").await,
            (false, _) => {}
        }
        Ok(())
    }

    /// Ends the interpreter of a context and starts a new one.
    pub async fn restart_context(&self, name: &ContextName) -> Result<ContextView, ContextError> {
        let _starting = self.contexts.starting.lock().await;
        let entry = self.contexts.get(name)?;
        self.check_paused()?;
        entry.kill("it was restarted").await;
        Ok(self.start_context(name.clone(), entry.request.clone()).await?.view())
    }

    /// Ends the interpreter of a context and forgets the context.
    pub async fn remove_context(&self, name: &ContextName) -> Result<(), ContextError> {
        let _starting = self.contexts.starting.lock().await;
        let entry = self.contexts.get(name)?;
        entry.kill("it was removed").await;
        self.contexts.remove(name);
        Ok(())
    }

    /// The context with a name; starts one if no context has it.
    pub(super) async fn context_named(
        &self,
        name: &ContextName,
    ) -> Result<Arc<LiveContext>, ContextError> {
        if let Ok(entry) = self.contexts.get(name) {
            return Ok(entry);
        }
        let _starting = self.contexts.starting.lock().await;
        match self.contexts.get(name) {
            Ok(entry) => Ok(entry),
            Err(_) => {
                let name = self.contexts.free_name(Some(name))?;
                self.start_context(name.clone(), ContextRequest::python(Some(name))).await
            }
        }
    }

    pub(super) fn check_paused(&self) -> Result<(), ContextError> {
        match self.is_paused.load(Ordering::SeqCst) {
            true => Err(ContextError::Paused),
            false => Ok(()),
        }
    }

    /// What the wall does for contexts; refuses a wall on which no program waits for calls.
    async fn programs_of_contexts(&self) -> Result<ProgramKinds, ContextError> {
        let facts = self.provider.facts(Probe::Quick).await;
        match facts.programs.contexts {
            true => Ok(facts.programs),
            false => Err(ContextError::NoProcesses { wall: facts.provider }),
        }
    }

    async fn start_context(
        &self,
        name: ContextName,
        request: ContextRequest,
    ) -> Result<Arc<LiveContext>, ContextError> {
        check_language(&request.language)?;
        self.check_paused()?;
        let interrupts = self.programs_of_contexts().await?.interrupts;
        let execution = self.executions.fetch_add(1, Ordering::Relaxed);
        let words = [PYTHON.to_owned(), "context".to_owned(), name.as_str().to_owned()];
        let command = Some(Command::of(&words, None));
        let variables = environment::names(&request.environment);
        self.record.execution_started(execution, &self.plan, command, variables)?;
        let program = Program::Code {
            language: Language::Python,
            name: KERNEL_FILE.to_owned(),
            code: kernel().into_bytes(),
            arguments: Vec::new(),
        };
        let asked = ExecutionRequest {
            environment: request.environment.clone(),
            credentials: request.credentials.clone(),
            working_directory: request.working_directory.clone(),
            ..ExecutionRequest::new(program)
        };
        let usable = async {
            // Restoring a checkpoint replaces the sandbox, and ends this context with the old one.
            let _held = self.change_lock.read().await;
            let _alone = self.contexts.alone.write().await;
            let sandbox = self.sandbox();
            let stopped = Stopped::all_of(Arc::clone(&sandbox)).await?;
            // The other programs do not wait for a guest that never answers.
            let running = timeout(MOST_START, self.start(sandbox.as_ref().as_ref(), &asked)).await;
            let running = running.map_err(|_| too_late(&name))??.map_err(RunError::from)?;
            let greeted = greeted(running, &name).await;
            stopped.go_on().await?;
            greeted
        };
        let (running, token) = match usable.await {
            Ok(usable) => usable,
            Err(error) => {
                let outcome = Err(RunError::Wall(stockade_provider::Error::new(
                    stockade_provider::ErrorKind::Unavailable,
                    error.to_string(),
                )));
                self.record.execution_ended(execution, &outcome)?;
                return Err(error);
            }
        };
        let Running { id, control, stdin, stdout, stderr, end, .. } = running;
        let control_of_calls = (Arc::clone(&control), interrupts);
        let inside = Inside::new(stdout, stderr, end, control_of_calls, &token);
        let (jobs, received) = mpsc::channel(1);
        let state = Arc::new(watch::Sender::new(State::default()));
        let (counting, record) = (Arc::clone(&state), self.record.clone());
        let observed = Arc::clone(&control);
        let since = std::time::Instant::now();
        tokio::spawn(async move {
            let counted = |count| counting.send_modify(|state| state.count = count);
            let ended = inside.serve(stdin, received, counted).await;
            let mut used = of_execution(Some(observed)).await;
            if counting.borrow().reason.is_some() {
                // The engine killed it; what it survived before is not its end.
                used.oom_kills = 0;
            }
            let breach = ended.breach;
            let outcome = of_end(ended.end, &used, Reader::Stayed);
            let why = why(&outcome, breach, counting.borrow().reason);
            let known = outcome.as_ref().ok().cloned();
            let report = outcome.map(|outcome| RunReport {
                duration: since.elapsed(),
                ..RunReport::unstarted(outcome, None)
            });
            write_end(&record, execution, &report);
            counting.send_modify(|state| (state.outcome, state.ended) = (known, Some(why)));
        });
        let (turn, started, used) =
            (Mutex::new(()), SystemTime::now(), std::sync::Mutex::default());
        let entry = Arc::new(LiveContext {
            id,
            name,
            request,
            started,
            jobs,
            control,
            interrupts,
            turn,
            state,
            used,
        });
        self.contexts.put(Arc::clone(&entry));
        Ok(entry)
    }
}

/// The other programs of a sandbox, stopped while an interpreter starts: between its execve and the
/// moment when it protects itself, a program of the same user could open its memory and its pipes,
/// and keep them.
struct Stopped {
    sandbox: Option<Arc<Box<dyn Sandbox>>>,
}

impl Stopped {
    async fn all_of(sandbox: Arc<Box<dyn Sandbox>>) -> Result<Stopped, RunError> {
        let stopped = Stopped { sandbox: Some(Arc::clone(&sandbox)) };
        sandbox.hold().await?;
        Ok(stopped)
    }

    async fn go_on(mut self) -> Result<(), RunError> {
        match self.sandbox.take() {
            Some(sandbox) => Ok(sandbox.resume().await?),
            None => Ok(()),
        }
    }
}

/// Continues them also if the start failed or its caller left.
impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            // Fails if the sandbox has ended.
            tokio::spawn(async move { sandbox.resume().await });
        }
    }
}

/// The record reports its own failure to the session.
fn write_end(record: &Record, execution: u64, report: &Result<RunReport, RunError>) {
    let _ = record.execution_ended(execution, report);
}

/// Refuses every language but Python, by name.
pub(super) fn check_language(language: &str) -> Result<(), ContextError> {
    match language {
        PYTHON => Ok(()),
        other => {
            let language = other.chars().filter(|it| !it.is_control()).take(40).collect();
            Err(ContextError::Language { language })
        }
    }
}

fn too_late(name: &ContextName) -> ContextError {
    ContextError::NotStarted {
        name: name.clone(),
        why: format!("it took more than {MOST_START:?}"),
    }
}

/// Waits until the script has protected itself, and sends it the token.
async fn greeted(
    mut running: Running,
    name: &ContextName,
) -> Result<(Running, Token), ContextError> {
    let failed = |why: String| ContextError::NotStarted { name: name.clone(), why };
    let random = random_bytes().map_err(|error| failed(format!("no random bytes: {error}")))?;
    let token = Token::of(random);
    let is_greeted = timeout(MOST_START, async {
        greeting(&mut running.stdout).await
            && running.stdin.write_all(&token_frame(&token)).await.is_ok()
            && running.stdin.flush().await.is_ok()
    });
    match is_greeted.await {
        Ok(true) => return Ok((running, token)),
        Ok(false) => {}
        Err(_) => {
            let _ = running.control.kill().await;
            return Err(too_late(name));
        }
    }
    // Fails if it has ended.
    let _ = running.control.kill().await;
    let mut errors = Vec::new();
    let mut shown = (&mut running.stderr).take(MOST_GREETING as u64);
    let _ = timeout(Duration::from_secs(1), shown.read_to_end(&mut errors)).await;
    let end = timeout(Duration::from_secs(2), &mut running.end).await;
    let words = match end {
        Ok(Ok(ProcessEnd::NotStarted { errno, program, .. })) => {
            let error = std::io::Error::from_raw_os_error(errno);
            return Err(failed(format!("{program} could not be executed: {error}")));
        }
        Ok(Ok(ProcessEnd::Exited { code })) => format!("Python exited with code {code}"),
        Ok(Ok(ProcessEnd::Signaled { signal })) => format!("signal {signal} ended Python"),
        Ok(Err(error)) => chain(&error),
        _ => "Python ended".to_owned(),
    };
    let from = errors.len().saturating_sub(MOST_SHOWN);
    match String::from_utf8_lossy(&errors[from..]).trim() {
        "" => Err(failed(words)),
        text => Err(failed(format!("{words}: {text}"))),
    }
}

/// Reads up to the end of the greeting; false if it does not come.
async fn greeting(stdout: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0];
    // One byte at a time: what follows the greeting belongs to the first call.
    while seen.len() < MOST_GREETING && matches!(stdout.read(&mut byte).await, Ok(1)) {
        seen.push(byte[0]);
        if seen.ends_with(HELLO) {
            return true;
        }
    }
    false
}

/// Why an interpreter has ended, in words.
fn why(
    outcome: &Result<Outcome, RunError>,
    breach: Option<&'static str>,
    reason: Option<&'static str>,
) -> String {
    if let Some(reason) = reason {
        return reason.to_owned();
    }
    if let Some(breach) = breach {
        return format!("{breach}, and was killed");
    }
    match outcome {
        Ok(Outcome::Exited { code }) => format!("it exited with code {code}"),
        Ok(Outcome::Signaled { signal }) => format!("{} killed it", crate::signal_name(*signal)),
        Ok(Outcome::OutOfMemory) => "it ran out of memory".to_owned(),
        Ok(Outcome::Trapped { reason }) => format!("it was trapped: {reason}"),
        Ok(Outcome::LimitExceeded { limit }) => format!("it exceeded {}", limit.spec().key),
        Ok(Outcome::EngineLost) => "the sandbox has ended".to_owned(),
        Ok(other) => format!("it ended: {}", other.as_str()),
        Err(error) => format!("it ended: {error}"),
    }
}
