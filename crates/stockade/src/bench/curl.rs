//! Parses curl's report about its transfers.

use anyhow::{Context, bail};

/// The `-w` format: status, bytes and seconds of each transfer.
pub(super) const SAYS: &str = r"%{http_code} %{size_download} %{time_total}\n";

/// The seconds of each transfer. Fails unless there are `many`, each with `bytes` bytes.
pub(super) fn times(output: &str, many: usize, bytes: u64) -> anyhow::Result<Vec<f64>> {
    let times: Vec<f64> =
        output.lines().map(|line| time(line, bytes)).collect::<anyhow::Result<_>>()?;
    if times.len() != many {
        bail!("curl says {} transfers, not {many}", times.len());
    }
    Ok(times)
}

fn time(line: &str, bytes: u64) -> anyhow::Result<f64> {
    let words: Vec<&str> = line.split(' ').collect();
    let [status, size, seconds] = words[..] else { bail!("curl says {line:?}") };
    if status != "200" || size.parse() != Ok(bytes) {
        bail!("curl says status {status} and {size} bytes, not 200 and {bytes}");
    }
    let seconds: f64 = seconds.parse().with_context(|| format!("curl says {line:?}"))?;
    if !seconds.is_finite() || seconds <= 0.0 {
        bail!("curl says that it took {seconds} seconds");
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_transfer_is_an_error() {
        assert_eq!(times("200 7 0.25\n200 7 1.5\n", 2, 7).unwrap(), [0.25, 1.5]);
        for (output, many) in [
            ("200 7 0.25\n", 2),
            ("200 6 0.25\n", 1),
            ("403 7 0.25\n", 1),
            ("000 0 0.25\n", 1),
            ("200 7 0.000000\n", 1),
            ("200 7 NaN\n", 1),
            ("200 7\n", 1),
            ("200 7 0.25 more\n", 1),
        ] {
            assert!(times(output, many, 7).is_err(), "{output}");
        }
    }
}
