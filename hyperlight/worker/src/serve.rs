//! Serves the host: one machine, one program at a time. The main thread owns the machine; another
//! one reads what the host sends.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use hyperlight_wasm::InterruptHandle;

use crate::frames::{receive, send};
use crate::machine::{Host, Machine};
use crate::protocol::{
    ANSWER, CALL, CLEAN, Call, DONE, FAILED, LOAD, Load, READY, RETURNED, RUN, STOP, STOPPED,
};

/// How often a machine is interrupted until its program has ended.
const AGAIN: Duration = Duration::from_millis(2);

/// What the host said during a call.
enum Reply {
    Answer(Vec<u8>),
    Stop,
}

/// What both threads know.
#[derive(Default)]
struct Shared {
    is_running: AtomicBool,
    is_stopped: AtomicBool,
    interrupt: Mutex<Option<Arc<dyn InterruptHandle>>>,
}

/// Serves until the host closes standard input.
pub(crate) fn serve(image: &Path) -> Result<(), String> {
    let mut input = io::stdin();
    let sizes = match receive(&mut input) {
        Ok(Some((LOAD, content))) => Load::decode(&content).ok_or("the host's sizes are wrong")?,
        _ => return Err("the host sent no sizes".to_owned()),
    };
    let shared = Arc::new(Shared::default());
    let (replies, answers) = channel();
    let answers = Arc::new(Mutex::new(answers));
    let (programs, next) = channel();
    let machine = Machine::start(image, &sizes, &host(&answers, &shared));
    let mut machine = match machine {
        Ok(machine) => machine,
        Err(why) => return send(FAILED, why.as_bytes()).map_err(|error| error.to_string()),
    };
    *shared.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = Some(machine.interrupt());
    let reading = Arc::clone(&shared);
    thread::spawn(move || read(&reading, &replies, &programs));
    let times = machine.times;
    let times = [times.start, times.load, times.snapshot].map(|time| time.as_micros().to_string());
    send(READY, times.join(" ").as_bytes()).map_err(|error| error.to_string())?;
    while let Ok(program) = next.recv() {
        // What the program before did not wait for.
        while answers.lock().unwrap_or_else(PoisonError::into_inner).try_recv().is_ok() {}
        run(&mut machine, program, &shared).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Runs one program, and makes the machine clean behind its end.
fn run(machine: &mut Machine, program: Vec<u8>, shared: &Shared) -> io::Result<()> {
    let result = machine.run(program);
    // From here on a stop finds no program.
    shared.is_running.store(false, Ordering::SeqCst);
    let is_stopped = shared.is_stopped.load(Ordering::SeqCst);
    let (how, content) = match result {
        Ok(content) => (RETURNED, content),
        Err((_, why)) if is_stopped => (STOPPED, why.into_bytes()),
        Err((how, why)) => (how, why.into_bytes()),
    };
    let mut done = vec![how];
    done.extend(content);
    send(DONE, &done)?;
    let time = machine.clean().map_err(io::Error::other)?;
    send(CLEAN, time.as_micros().to_string().as_bytes())
}

/// Sends calls to the host and waits for their answers.
fn host(answers: &Arc<Mutex<Receiver<Reply>>>, shared: &Arc<Shared>) -> Host {
    let (answers, shared) = (Arc::clone(answers), Arc::clone(shared));
    Arc::new(move |call: Call| {
        let stopped = || Err("the program was stopped".to_owned());
        if shared.is_stopped.load(Ordering::SeqCst) {
            return stopped();
        }
        send(CALL, &call.encode()).map_err(|error| error.to_string())?;
        match answers.lock().unwrap_or_else(PoisonError::into_inner).recv() {
            Ok(Reply::Answer(content)) => Ok(content),
            Ok(Reply::Stop) => stopped(),
            Err(_) => Err("the host is gone".to_owned()),
        }
    })
}

/// Reads what the host sends. Its end is the end of this process.
fn read(shared: &Shared, replies: &Sender<Reply>, programs: &Sender<Vec<u8>>) {
    let mut input = io::stdin();
    while let Ok(Some((kind, content))) = receive(&mut input) {
        let is_sent = match kind {
            RUN => {
                shared.is_stopped.store(false, Ordering::SeqCst);
                shared.is_running.store(true, Ordering::SeqCst);
                programs.send(content).is_ok()
            }
            ANSWER => replies.send(Reply::Answer(content)).is_ok(),
            STOP => stop(shared, replies),
            _ => false,
        };
        if !is_sent {
            break;
        }
    }
    std::process::exit(0);
}

/// Interrupts the machine until its program has ended.
fn stop(shared: &Shared, replies: &Sender<Reply>) -> bool {
    shared.is_stopped.store(true, Ordering::SeqCst);
    let interrupt = shared.interrupt.lock().unwrap_or_else(PoisonError::into_inner).clone();
    while shared.is_running.load(Ordering::SeqCst) {
        if replies.send(Reply::Stop).is_err() {
            return false;
        }
        if let Some(interrupt) = &interrupt {
            interrupt.kill();
        }
        thread::sleep(AGAIN);
    }
    true
}
