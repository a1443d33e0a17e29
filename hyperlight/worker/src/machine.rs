//! One micro-VM: start, a snapshot, programs, and back to the snapshot.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyperlight_wasm::{
    HyperlightError, InterruptHandle, LoadedWasmSandbox, ProtoWasmSandbox, Registerable,
    SandboxBuilder, Snapshot,
};

use crate::protocol::{Call, FAULTED, Load, NO_MEMORY, STOPPED};

/// The device that makes virtual machines.
const KVM: &str = "/dev/kvm";
/// What the runtime calls the component's function.
const EXECUTE: &str = "r#stockade::r#python::execute";
/// The sizes of a machine that is started only to see whether it starts.
const TRIAL: Load =
    Load { memory: 64 << 20, heap: 16 << 20, buffer: 1 << 20, functions: Vec::new() };

/// Performs one call of a function of the host.
pub(crate) type Host = Arc<dyn Fn(Call) -> Result<Vec<u8>, String> + Send + Sync>;

/// A machine with CPython in it.
pub(crate) struct Machine {
    loaded: LoadedWasmSandbox,
    clean: Arc<Snapshot>,
    interrupt: Arc<dyn InterruptHandle>,
    pub(crate) times: Times,
}

/// How long the parts of a start took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) start: Duration,
    pub(crate) load: Duration,
    pub(crate) snapshot: Duration,
}

/// Starts a machine with the runtime in it and ends it.
pub(crate) fn probe() -> Result<(), String> {
    // The engine has one error for every reason.
    if let Err(why) = File::options().read(true).write(true).open(KVM) {
        return Err(format!("cannot open {KVM}: {why}"));
    }
    started(&TRIAL, &(Arc::new(|_| Err(String::new())) as Host)).map_err(|why| causes(&why))?;
    Ok(())
}

impl Machine {
    /// Starts a machine and loads an image.
    pub(crate) fn start(image: &Path, sizes: &Load, host: &Host) -> Result<Machine, String> {
        let begun = Instant::now();
        let runtime = started(sizes, host).map_err(|why| causes(&why))?;
        let start = begun.elapsed();
        let begun = Instant::now();
        let mut loaded = runtime.load_module(image).map_err(|why| causes(&why))?;
        let load = begun.elapsed();
        let begun = Instant::now();
        let clean = loaded.snapshot().map_err(|why| causes(&why))?;
        let times = Times { start, load, snapshot: begun.elapsed() };
        let interrupt = loaded.interrupt_handle().map_err(|why| causes(&why))?;
        Ok(Machine { loaded, clean, interrupt, times })
    }

    pub(crate) fn interrupt(&self) -> Arc<dyn InterruptHandle> {
        Arc::clone(&self.interrupt)
    }

    /// Runs a program. An error is how it ended, with the reason.
    pub(crate) fn run(&mut self, program: Vec<u8>) -> Result<Vec<u8>, (u8, String)> {
        self.loaded.call_guest_function::<Vec<u8>>(EXECUTE, (program,)).map_err(|why| {
            let text = causes(&why);
            let how = match why {
                HyperlightError::ExecutionCanceledByHost() => STOPPED,
                _ if is_exhausted(&text) => NO_MEMORY,
                _ => FAULTED,
            };
            (how, text)
        })
    }

    /// Makes the machine as it was before the first program.
    pub(crate) fn clean(&mut self) -> Result<Duration, String> {
        let begun = Instant::now();
        self.loaded.restore(Arc::clone(&self.clean)).map_err(|why| causes(&why))?;
        Ok(begun.elapsed())
    }
}

/// Whether the machine had no more memory. Its runtime says so only in words.
fn is_exhausted(text: &str) -> bool {
    ["Out of physical memory", "MallocFailed"].iter().any(|words| text.contains(words))
}

fn started(sizes: &Load, host: &Host) -> Result<hyperlight_wasm::WasmSandbox, HyperlightError> {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut machine = SandboxBuilder::new()
        .with_guest_heap_size(sizes.heap)
        .with_guest_scratch_size(size(sizes.memory.saturating_add(2 * sizes.buffer)))
        .with_guest_input_buffer_size(size(sizes.buffer))
        .with_guest_output_buffer_size(size(sizes.buffer))
        .build()?;
    for (function, (name, parameters)) in sizes.functions.iter().enumerate() {
        let function = u16::try_from(function).unwrap_or(u16::MAX);
        register(&mut machine, function, name, *parameters, host)?;
    }
    machine.load_runtime()
}

/// Registers a function of the host that takes and returns bytes.
fn register(
    machine: &mut ProtoWasmSandbox,
    function: u16,
    name: &str,
    parameters: u8,
    host: &Host,
) -> Result<(), HyperlightError> {
    type Bytes = Vec<u8>;
    let host = Arc::clone(host);
    let call = move |parameters: Vec<Bytes>| {
        host(Call { function, parameters }).map_err(HyperlightError::Error)
    };
    match parameters {
        0 => machine.register_host_function(name, move || call(Vec::new())),
        1 => machine.register_host_function(name, move |a: Bytes| call(vec![a])),
        2 => machine.register_host_function(name, move |a: Bytes, b: Bytes| call(vec![a, b])),
        3 => machine
            .register_host_function(name, move |a: Bytes, b: Bytes, c: Bytes| call(vec![a, b, c])),
        4 => machine.register_host_function(name, move |a: Bytes, b: Bytes, c: Bytes, d: Bytes| {
            call(vec![a, b, c, d])
        }),
        5 => machine.register_host_function(
            name,
            move |a: Bytes, b: Bytes, c: Bytes, d: Bytes, e: Bytes| call(vec![a, b, c, d, e]),
        ),
        _ => Err(HyperlightError::Error(format!("{name} has too many parameters"))),
    }
}

/// An error with its causes, in one line.
fn causes(error: &HyperlightError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
