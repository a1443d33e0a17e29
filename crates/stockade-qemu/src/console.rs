//! The machine's console: the last lines are kept for errors.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

/// How much is kept.
const MOST_BYTES: usize = 16 << 10;
/// How many lines an error shows, and how much of each.
const MOST_LINES: usize = 12;
const MOST_CHARACTERS: usize = 160;
/// The beginning of the kernel's reason for a panic.
const PANIC: &str = "Kernel panic - not syncing";

/// The last bytes of a console.
#[derive(Clone, Debug, Default)]
pub(crate) struct Console(Arc<Mutex<VecDeque<u8>>>);

impl Console {
    /// Reads the console until its end.
    pub(crate) fn follow(
        &self,
        mut from: impl AsyncRead + Send + Unpin + 'static,
    ) -> JoinHandle<()> {
        let console = self.clone();
        tokio::spawn(async move {
            let mut buffer = vec![0; 4096];
            while let Ok(read) = from.read(&mut buffer).await {
                if read == 0 {
                    break;
                }
                console.keep(&buffer[..read]);
            }
        })
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(MOST_BYTES);
        kept.drain(..excess);
    }

    fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }

    /// The last lines, without control characters: they come from inside. After a panic they end
    /// with the kernel's reason, because a page of registers follows it.
    pub(crate) fn tail(&self) -> String {
        let text = self.text();
        let mut lines: Vec<String> =
            text.lines().map(plain).filter(|line| !line.is_empty()).collect();
        if let Some(panic) = lines.iter().position(|line| line.contains(PANIC)) {
            lines.truncate(panic + 1);
        }
        match lines.len() {
            0 => "(nothing)".to_owned(),
            count => lines[count.saturating_sub(MOST_LINES)..].join("\n"),
        }
    }

    /// The kernel's own last words, if it panicked.
    pub(crate) fn panic(&self) -> Option<String> {
        let text = self.text();
        let line = text.lines().find(|line| line.contains(PANIC))?;
        Some(plain(line))
    }
}

fn plain(line: &str) -> String {
    let visible = line.trim_end().chars().filter(|it| !it.is_control());
    visible.take(MOST_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_shown_without_control_characters() {
        let console = Console::default();
        assert_eq!(console.tail(), "(nothing)");
        for number in 0..40 {
            console.keep(format!("line {number}\u{1b}[2J\r\n").as_bytes());
        }
        let tail = console.tail();
        assert!(tail.starts_with("line 28[2J\n") && tail.ends_with("line 39[2J"), "{tail:?}");
        console.keep(&vec![b'x'; 1 << 20]);
        assert_eq!(console.text().len(), MOST_BYTES);
    }

    #[test]
    fn panic_is_recognised_by_the_kernels_own_line() {
        let console = Console::default();
        console.keep(b"booting\n");
        assert_eq!(console.panic(), None);
        console
            .keep(b"[ 3.1] Kernel panic - not syncing: sysrq triggered crash\r\n[ 3.2] CPU: 0\n");
        let line = "[ 3.1] Kernel panic - not syncing: sysrq triggered crash".to_owned();
        assert_eq!(console.panic(), Some(line.clone()));
        assert_eq!(console.tail(), format!("booting\n{line}"));
    }
}
