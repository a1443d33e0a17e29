//! The fake internet as seen from the machine: the servers' log, their authority and their token.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::log::LogEntry;
use crate::world::ROUTER;

/// The variable with the log's path; it is set in every process on the fake internet.
pub const LOG_VARIABLE: &str = "STOCKADE_INTERNET_LOG";

pub(crate) const LOG_FILE: &str = "log.jsonl";
pub(crate) const AUTHORITY_FILE: &str = "authority.pem";
pub(crate) const TOKEN_FILE: &str = "token";

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest line of the log: an entry's texts are shortened.
const LONGEST_LINE: u64 = 64 * 1024;
/// The servers log datagrams to this port and do not answer.
const DISCARD_PORT: u16 = 9;

/// A position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

/// The fake internet that this process is on.
#[derive(Clone, Debug)]
pub struct Internet {
    log: PathBuf,
    token: String,
}

impl Internet {
    /// The fake internet that this process is on, if any.
    pub fn here() -> Option<Internet> {
        let log = std::env::var_os(LOG_VARIABLE)?;
        Internet::open(Path::new(&log)).ok()
    }

    pub(crate) fn open(log: &Path) -> io::Result<Internet> {
        let token = fs::read_to_string(log.with_file_name(TOKEN_FILE))?;
        Ok(Internet { log: log.to_owned(), token })
    }

    /// The path of the log.
    pub fn log_file(&self) -> &Path {
        &self.log
    }

    /// The certificate that signs every server's certificate, as PEM.
    pub fn ca_file(&self) -> PathBuf {
        self.log.with_file_name(AUTHORITY_FILE)
    }

    /// The random text that only the servers know and that `/` of every web server returns.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The current end of the log, after its last complete line.
    pub fn mark(&self) -> io::Result<Mark> {
        let end = fs::metadata(&self.log)?.len();
        let start = end.saturating_sub(LONGEST_LINE);
        let tail = self.whole_lines(start)?;
        Ok(Mark(start + u64::try_from(tail.len()).map_err(io::Error::other)?))
    }

    /// The entries since a mark.
    pub fn since(&self, mark: Mark) -> io::Result<Vec<LogEntry>> {
        let lines = self.whole_lines(mark.0)?;
        let parse = |line| serde_json::from_slice(line).map_err(io::Error::other);
        lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(parse).collect()
    }

    /// The log from a position on, without the incomplete last line: a reader may see half of a
    /// line that is being written across a page boundary.
    fn whole_lines(&self, start: u64) -> io::Result<Vec<u8>> {
        let mut file = fs::File::open(&self.log)?;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        bytes.truncate(bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1));
        Ok(bytes)
    }

    /// Waits for the first entry since a mark that matches; fails with `TimedOut` if none comes.
    pub fn wait_for(&self, mark: Mark, asked: impl Fn(&LogEntry) -> bool) -> io::Result<LogEntry> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(entry) = self.since(mark)?.into_iter().find(&asked) {
                return Ok(entry);
            }
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Waits until every packet that left the machine before this call is in the log. The link
    /// keeps packets in order, so this sends one and waits for its entry.
    pub fn settle(&self) -> io::Result<()> {
        let mark = self.mark()?;
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
        let word = format!("settle {:016x}", u64::from_ne_bytes(random));
        UdpSocket::bind("0.0.0.0:0")?.send_to(word.as_bytes(), (ROUTER, DISCARD_PORT))?;
        self.wait_for(mark, |entry| entry.detail == word).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_line_is_read_once_it_is_complete() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join(LOG_FILE);
        let internet = Internet { log: log.clone(), token: String::new() };
        let line = |name: &str| {
            serde_json::to_string(&LogEntry::new("dns", "query").named(name)).expect("plain text")
        };
        let names = |mark| -> Vec<String> {
            let entries = internet.since(mark).expect("whole lines");
            entries.into_iter().map(|entry| entry.name).collect()
        };
        let second = line("second");
        let first_and_half = format!("{}\n{}", line("first"), &second[..20]);
        fs::write(&log, &first_and_half).expect("written");

        let mark = internet.mark().expect("a mark");
        assert_eq!(names(Mark(0)), ["first"]);
        assert_eq!(names(mark), [""; 0]);

        fs::write(&log, first_and_half + &second[20..] + "\n").expect("written");
        assert_eq!(names(mark), ["second"]);
    }
}
