//! The processors, as `/proc/cpuinfo` and `/proc/stat` show them.

use std::io::{self, BufRead};

use super::Sizes;

/// No line and no processor of any machine is longer.
const MOST_BYTES_EACH: u64 = 16 * 1024;

/// `/proc/cpuinfo`: the first processors of the host, as many as the limit can keep busy, numbered
/// anew as the cores of one socket.
///
/// Reads no further than the last processor that is shown: the kernel writes a line only when it is
/// read, and 128 processors are 200 KB. The text is the same for every sandbox, so its beginning is
/// best kept; before Linux 5.18 opening the file can wait 10 ms for clock speeds.
pub fn cpuinfo(host: impl BufRead, sizes: Sizes) -> io::Result<String> {
    let wanted = sizes.processors();
    let mut lines = Lines { host: host.take(wanted.saturating_mul(MOST_BYTES_EACH)) };
    let mut processors: Vec<Vec<String>> = Vec::new();
    while (processors.len() as u64) < wanted {
        let Some(block) = lines.block()? else { break };
        // Behind the processors some machines tell of themselves, down to a serial number.
        if block.first().is_some_and(|line| key(line) == "processor") {
            processors.push(block);
        }
    }
    if processors.is_empty() {
        processors.push(vec!["processor\t: 0".to_owned()]);
    }
    let count = processors.len();
    let mut text = String::new();
    for (index, block) in processors.iter().enumerate() {
        for line in block {
            push_line(&mut text, line, index, count);
        }
        text.push('\n');
    }
    Ok(text)
}

/// `/proc/stat`: as many processors as `cpuinfo` shows, idle since one second, and when the host
/// booted, which clock_gettime(2) tells anyway. Nothing of what the host has done.
pub fn stat(host: &str, sizes: Sizes) -> String {
    // Idle is not zero, because readers divide by the sum.
    const IDLE_TICKS: u64 = 100;
    let is_processor = |line: &&str| {
        let number = line.strip_prefix("cpu").and_then(|rest| rest.split(' ').next());
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let present = host.lines().take_while(|line| line.starts_with("cpu"));
    let count = (present.filter(is_processor).count() as u64).clamp(1, sizes.processors());
    let booted = host.lines().find_map(|line| line.strip_prefix("btime ")?.parse::<u64>().ok());
    let mut text = format!("cpu  0 0 0 {} 0 0 0 0 0 0\n", IDLE_TICKS * count);
    for index in 0..count {
        text.push_str(&format!("cpu{index} 0 0 0 {IDLE_TICKS} 0 0 0 0 0 0\n"));
    }
    text.push_str("intr 0\nctxt 0\n");
    text.push_str(&format!("btime {}\n", booted.unwrap_or(0)));
    text.push_str("processes 1\nprocs_running 1\nprocs_blocked 0\n");
    text.push_str("softirq 0 0 0 0 0 0 0 0 0 0 0\n");
    text
}

struct Lines<R> {
    host: io::Take<R>,
}

impl<R: BufRead> Lines<R> {
    /// The lines up to the next empty one, or none at the end. Bytes that are no text are replaced.
    fn block(&mut self) -> io::Result<Option<Vec<String>>> {
        let mut block = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = self.host.read_until(b'\n', &mut line)?;
            let text = line.trim_ascii_end();
            match (read, text, block.is_empty()) {
                (0, _, true) => return Ok(None),
                (0, _, false) | (_, [], false) => return Ok(Some(block)),
                (_, [], true) => {}
                _ => block.push(String::from_utf8_lossy(text).into_owned()),
            }
        }
    }
}

fn key(line: &str) -> &str {
    line.split_once(':').map_or("", |(key, _)| key.trim_end())
}

/// A line of the processor at `index`. Where it sits in the host is replaced; everything that tells
/// what the processor can do stays, since programs choose their code by it.
fn push_line(text: &mut String, line: &str, index: usize, count: usize) {
    let value = match key(line) {
        "processor" | "core id" | "apicid" | "initial apicid" => index,
        "physical id" => 0,
        "siblings" | "cpu cores" => count,
        // How far the host is behind on repairs to its processor is nobody's business.
        "microcode" => return,
        _ => {
            text.push_str(line);
            text.push('\n');
            return;
        }
    };
    let start = line.find(':').map_or(line, |colon| &line[..colon]);
    text.push_str(&format!("{start}: {value}\n"));
}
