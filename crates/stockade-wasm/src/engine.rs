//! The engine of this process, and the clock that interrupts running programs.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::{Config, Engine, OptLevel};

use crate::WasmError;

/// How often a running program is interrupted, so that its limits can be checked.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The stack of a program. CPython's own recursion limit ends ordinary recursion much earlier.
const STACK: usize = 16 << 20;
/// The stack of a program with that of the host functions which it calls.
const STACK_WITH_HOST: usize = STACK + (1 << 20);

/// The engine. All sandboxes of the process share its configuration and nothing else.
pub(crate) fn engine() -> Result<&'static Engine, WasmError> {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    if let Some(engine) = ENGINE.get() {
        return Ok(engine);
    }
    let engine = Engine::new(&configuration())
        .map_err(|source| WasmError::engine("start on this host", source))?;
    Ok(ENGINE.get_or_init(|| engine))
}

fn configuration() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .epoch_interruption(true)
        .memory_init_cow(true)
        // The process may belong to another program, such as Python, and a handler that this program
        // sets later would take a trap for its own crash.
        .signals_based_traps(false)
        .cranelift_opt_level(OptLevel::Speed)
        .max_wasm_stack(STACK)
        .async_stack_size(STACK_WITH_HOST)
        // A trap is reported in one line.
        .wasm_backtrace_max_frames(None);
    config
}

/// The clock of the programs of this process.
#[derive(Debug)]
pub(crate) struct Ticking(());

static RUNNING: Mutex<usize> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

impl Ticking {
    /// The clock, whose thread is started once.
    pub(crate) fn start(engine: &'static Engine) -> Result<Ticking, WasmError> {
        static THREAD: OnceLock<()> = OnceLock::new();
        if THREAD.get().is_none() {
            let clock = thread::Builder::new().name("stockade-tick".to_owned());
            let is_first = THREAD.set(()).is_ok();
            if is_first {
                clock.spawn(move || tick(engine)).map_err(|source| WasmError::Thread { source })?;
            }
        }
        Ok(Ticking(()))
    }

    /// Runs a program. The clock goes while the program computes, and rests while it waits, as a
    /// context does for its next call.
    pub(crate) async fn time<T>(&self, program: impl Future<Output = T>) -> T {
        let mut program = pin!(program);
        poll_fn(|context| {
            let _computing = Computing::begin();
            program.as_mut().poll(context)
        })
        .await
    }
}

/// A program that computes now.
struct Computing(());

impl Computing {
    fn begin() -> Computing {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        *running += 1;
        if *running == 1 {
            CHANGED.notify_one();
        }
        Computing(())
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

/// Advances the epoch while a program computes, and sleeps otherwise. The thread lives as long as the
/// process.
fn tick(engine: &'static Engine) {
    loop {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |running: &mut usize| *running == 0;
        drop(CHANGED.wait_while(running, idle).unwrap_or_else(PoisonError::into_inner));
        thread::sleep(TICK);
        engine.increment_epoch();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn clock_goes_only_while_a_program_computes() {
        let running = || *RUNNING.lock().unwrap();
        let clock = Ticking::start(engine().unwrap()).unwrap();
        let mut polls = 0;
        let program = poll_fn(|_| {
            polls += 1;
            assert_eq!(running(), 1);
            if polls < 2 { Poll::Pending } else { Poll::Ready(polls) }
        });
        let mut timed = pin!(clock.time(program));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(timed.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(running(), 0, "it waits");
        assert_eq!(timed.as_mut().poll(&mut context), Poll::Ready(2));
        assert_eq!(running(), 0, "it has ended");
    }
}
