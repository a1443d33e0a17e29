//! `stockade top`: the sessions on this terminal, as they change.
//!
//! ```text
//! every interval ──▶ measure: asks each supervisor ──▶ Model ──▶ view: draws it
//! a key ──▶ Model: what to do ──▶ a request to a supervisor
//! ```

mod keys;
mod measure;
mod model;
mod view;

use std::io::{self, IsTerminal, Write, stdin, stdout};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TermionBackend;
use stockade_api::Request;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use crate::Problem;
use crate::args::TopArgs;
use crate::render::Output;
use crate::run::input::Input;
use crate::run::interrupt::Interrupts;
use crate::sessions::client;
use crate::sessions::terminal::RawTerminal;

use keys::Keys;
use measure::Measures;
use model::{Act, Model};
use view::Style;

/// The default time between two measurements, and the shortest.
const INTERVAL: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(100);

/// Shows the sessions until a key quits.
pub(crate) fn top(args: &TopArgs, output: Output) -> anyhow::Result<u8> {
    let remedy = "use `stockade ls` and `stockade stats`, which also have --json";
    if output == Output::Json {
        return Err(Problem::new("`stockade top` has no JSON form", remedy).into());
    }
    if !stdin().is_terminal() || !stdout().is_terminal() {
        let message = "`stockade top` needs a terminal as standard input and standard output";
        return Err(Problem::new(message, remedy).into());
    }
    let every = args.interval.as_ref().map_or(INTERVAL, |said| Duration::from_millis(said.value));
    let cannot = |error: io::Error| {
        let message = format!("cannot draw on the terminal: {error}");
        Problem::new(message, "see that the terminal is still there, or use `stockade stats`")
    };
    client::state()?;
    let runtime = client::runtime()?;
    let interrupts = Interrupts::wanted();
    let shown = runtime.block_on(async {
        let interrupted = interrupts.come().map_err(cannot)?;
        // Restored in reverse order, also by an error.
        let _raw = RawTerminal::of_input().map_err(cannot)?;
        let _screen = Screen::open().map_err(cannot)?;
        tokio::select! {
            shown = show(every.max(SHORTEST)) => shown,
            () = interrupted => Ok(()),
        }
    });
    // The thread that reads keys blocks until the next one.
    runtime.shutdown_background();
    shown.map(|()| 0)
}

/// The other screen of the terminal, without a cursor. Dropping it shows what was there before.
struct Screen;

impl Screen {
    fn open() -> io::Result<Screen> {
        let screen = Screen;
        stdout().write_all(b"\x1b[?1049h\x1b[?25l")?;
        stdout().flush()?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Fails if the terminal is gone.
        let _ = stdout().write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = stdout().flush();
    }
}

async fn show(every: Duration) -> anyhow::Result<()> {
    let style = Style::of(std::env::var_os("NO_COLOR").as_deref());
    let mut terminal = Terminal::new(TermionBackend::new(stdout()))?;
    let mut input = Input::stdin();
    let mut resized = signal(SignalKind::window_change())?;
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut model, mut measures, mut keys) =
        (Model::default(), Measures::default(), Keys::default());
    let mut buffer = [0; 64];
    loop {
        tokio::select! {
            _ = ticks.tick() => measures.take(&mut model).await?,
            _ = resized.recv() => terminal.autoresize()?,
            read = read(&mut input, &mut buffer) => {
                if read == 0 {
                    // The terminal is gone.
                    return Ok(());
                }
                for key in keys.of(&buffer[..read]) {
                    match model.press(key) {
                        Act::Nothing => {}
                        Act::Quit => return Ok(()),
                        Act::Pause(name) => ask(&mut model, &name, Request::Pause).await,
                        Act::Resume(name) => ask(&mut model, &name, Request::Resume).await,
                        Act::End(name) => {
                            ask(&mut model, &name, Request::Remove { force: true }).await;
                        }
                    }
                    measures.take(&mut model).await?;
                }
            }
        }
        terminal.draw(|frame| view::draw(frame, &model, style))?;
    }
}

async fn read(input: &mut Option<Input>, buffer: &mut [u8]) -> usize {
    match input {
        Some(input) => input.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}

/// Sends a request; an error is shown.
async fn ask(model: &mut Model, name: &str, request: Request) {
    if let Err(error) = client::ask(name, request).await {
        model.message = Some(format!("{error:#}"));
    }
}
