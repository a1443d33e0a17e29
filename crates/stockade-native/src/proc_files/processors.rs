//! The CPUs in `/proc/cpuinfo` and `/proc/stat`.

use std::io::{self, BufRead};

use super::Sizes;

/// A bound on the size of a line and of a CPU's entry, above that of any machine.
const MOST_BYTES_EACH: u64 = 16 * 1024;

/// `/proc/cpuinfo`: the host's first CPUs, as many as the limit can keep busy, renumbered as the
/// cores of one socket.
///
/// Reads no further than the last CPU that is shown: the kernel formats a line only when it is
/// read, and 128 CPUs take 200 KB. The text is the same for every sandbox, so callers should cache
/// it; before Linux 5.18 opening the file can wait 10 ms for clock speeds.
pub fn cpuinfo(host: impl BufRead, sizes: Sizes) -> io::Result<String> {
    let wanted = sizes.processors();
    let mut lines = Lines { host: host.take(wanted.saturating_mul(MOST_BYTES_EACH)) };
    let mut processors: Vec<Vec<String>> = Vec::new();
    while (processors.len() as u64) < wanted {
        let Some(block) = lines.block()? else { break };
        // After the CPUs some machines describe themselves, including a serial number.
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

/// `/proc/stat`: as many CPUs as `cpuinfo` shows, idle for one second, and the host's boot time,
/// which clock_gettime(2) reveals anyway. Omits all activity of the host.
pub fn stat(host: &str, sizes: Sizes) -> String {
    // Not zero, because readers divide by the sum.
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
    /// The lines up to the next empty one, or `None` at the end. Replaces invalid UTF-8.
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

/// Appends one line of `/proc/cpuinfo` for the CPU at `index`. Rewrites the numbers of cores and
/// sockets, and keeps the features, by which programs choose code.
fn push_line(text: &mut String, line: &str, index: usize, count: usize) {
    let value = match key(line) {
        "processor" | "core id" | "apicid" | "initial apicid" => index,
        "physical id" => 0,
        "siblings" | "cpu cores" => count,
        // The microcode version reveals which security updates the host lacks.
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
