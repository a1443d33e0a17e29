//! Downloads and requests through the gate, compared with the same without a sandbox.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, bail};

use super::curl::{SAYS, times};
use super::directory::Directory;
use super::peers::{Absent, on_path};
use super::programs::{output, shown};
use super::report::{Bound, Row};
use super::rows::{Ours, passes};
use super::samples::{Samples, Side};
use super::server::{ADDRESS, PROXIES, Proxy, Server};
use crate::args::BenchArgs;

/// Requests of one round.
const REQUESTS: usize = 50;
/// Bytes of each response.
const REQUEST_BYTES: u64 = 100;

/// What a side fetches in one round.
#[derive(Clone, Copy)]
enum Fetch {
    /// One file of `bytes` bytes, measured in megabytes per second.
    Download { bytes: u64 },
    /// Many small files, each on a new connection, measured in milliseconds.
    Fresh,
    /// Many small files on one connection, measured in milliseconds.
    Kept,
}

/// How the gate treats the connections of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// Bytes pass through untouched.
    Passes,
    /// TLS ends at the gate, which judges and records each request.
    Opens,
}

/// The rows of downloads and requests.
pub(super) const ROWS: [&str; 6] = [
    "download",
    "request",
    "request-kept",
    "download-opened",
    "request-opened",
    "request-opened-kept",
];

/// One of [`ROWS`].
pub(super) fn row(
    name: &'static str,
    args: &BenchArgs,
    ours: &Ours,
    absent: &mut Vec<Absent>,
) -> anyhow::Result<Row> {
    let download = Fetch::Download { bytes: u64::from(args.megabytes) << 20 };
    let least = |least| Bound::Least { against: "direct", least };
    let added = |most| Bound::Added { against: "direct", most };
    let (what, bound, fetch, gate) = match name {
        "download" => {
            let what = "one HTTPS download through the gate, by curl's own clock";
            (what, least(0.5), download, Gate::Passes)
        }
        "request" => {
            let what =
                "one HTTPS request through the gate, on a new connection, by curl's own clock";
            (what, added(1.5), Fetch::Fresh, Gate::Passes)
        }
        "request-kept" => {
            let what =
                "one more HTTPS request on a connection through the gate, by curl's own clock";
            (what, added(1.5), Fetch::Kept, Gate::Passes)
        }
        "download-opened" => {
            let what = "one HTTPS download whose TLS ends at the gate, by curl's own clock";
            (what, least(0.4), download, Gate::Opens)
        }
        "request-opened" => {
            let what = "one HTTPS request that the gate reads, on a new connection, by curl's own \
                        clock";
            (what, added(3.0), Fetch::Fresh, Gate::Opens)
        }
        "request-opened-kept" => {
            let what = "one more HTTPS request that the gate reads, by curl's own clock";
            (what, added(0.5), Fetch::Kept, Gate::Opens)
        }
        other => bail!("{other} is not a row of downloads and requests"),
    };
    measured((name, what), bound, (fetch, gate), (args, ours, absent))
}

fn measured(
    (name, what): (&'static str, &'static str),
    bound: Bound,
    (fetch, gate): (Fetch, Gate),
    (args, ours, absent): (&BenchArgs, &Ours, &mut Vec<Absent>),
) -> anyhow::Result<Row> {
    let curl = on_path("curl").context("curl is not installed")?;
    let directory = Directory::new("server")?;
    let server = Server::start(&directory)?;
    let proxy = proxy(&args.against, &directory, server.port, absent);
    let policy = directory.file("policy.yaml", &policy(server.port, gate))?;
    let certificate = server.certificate.clone().into_os_string();

    let fetching = fetch.argv(curl, server.port);
    // The gate verifies the server of an opened connection.
    let mut inside: Vec<OsString> = match gate {
        Gate::Passes => Vec::new(),
        Gate::Opens => {
            let mut trusted = OsString::from("SSL_CERT_FILE=");
            trusted.push(certificate);
            vec!["env".into(), trusted]
        }
    };
    inside.extend(ours.argv(&["--policy"]));
    inside.extend([policy.into(), "--".into()]);
    inside.extend(fetching.iter().cloned());
    // Removes proxy variables of the caller's environment, which could name another proxy.
    let outside = |variable: Option<OsString>| {
        let mut argv = vec!["env".into(), "-i".into()];
        argv.extend(variable);
        argv.extend(fetching.iter().cloned());
        argv
    };
    let mut sides = vec![fetch.side("stockade", inside), fetch.side("direct", outside(None))];
    if let Some(proxy) = &proxy {
        let variable = format!("https_proxy=http://127.0.0.1:{}", proxy.port);
        sides.push(fetch.side(proxy.name, outside(Some(variable.into()))));
    }
    Ok(Row::new((name, what), fetch.unit(), bound, passes(name, &mut sides, args)?))
}

/// The first requested forward proxy that is installed.
fn proxy(
    asked: &[String],
    directory: &Directory,
    server: u16,
    absent: &mut Vec<Absent>,
) -> Option<Proxy> {
    let mut missing = Vec::new();
    let is_asked = |name: &&str| asked.is_empty() || asked.iter().any(|one| one == name);
    for name in PROXIES.into_iter().filter(is_asked) {
        match Proxy::start(name, directory, server) {
            Ok(proxy) => return Some(proxy),
            Err(error) => missing.push(Absent {
                peer: name,
                reason: format!("{error:#}"),
                remedy: format!("install the package {name}"),
            }),
        }
    }
    // Several rows look for the same peer: lists it once.
    missing.retain(|new| !absent.iter().any(|known| known.peer == new.peer));
    absent.extend(missing);
    None
}

/// A policy that allows the server and lifts every limit that would distort the measurement.
fn policy(port: u16, gate: Gate) -> String {
    let conditions = match gate {
        Gate::Passes => "protocol: tcp",
        Gate::Opens => "methods: [GET], paths: [\"/bytes/*\"]",
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "name: bench\n\
         defaults: {{ max_cpu: {processors}, timeout_seconds: 600 }}\n\
         limits: {{ max_egress_bytes: 1125899906842624 }}\n\
         network_allowlist:\n  - {{ host: {ADDRESS}, ports: [{port}], {conditions} }}\n"
    )
}

impl Fetch {
    fn many(self) -> usize {
        match self {
            Fetch::Download { .. } => 1,
            Fetch::Fresh | Fetch::Kept => REQUESTS,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Fetch::Download { .. } => "MB/s",
            Fetch::Fresh | Fetch::Kept => "ms",
        }
    }

    fn bytes(self) -> u64 {
        match self {
            Fetch::Download { bytes } => bytes,
            Fetch::Fresh | Fetch::Kept => REQUEST_BYTES,
        }
    }

    /// The curl command, the same inside and outside.
    fn argv(self, curl: PathBuf, port: u16) -> Vec<OsString> {
        // Ignores curl's configuration file and does not verify the certificate.
        let words = ["-q", "-k", "-s", "-S", "--http1.1", "--no-sessionid", "-w", SAYS];
        let mut argv: Vec<OsString> = vec![curl.into()];
        argv.extend(words.map(OsString::from));
        if let Fetch::Fresh = self {
            argv.extend(["-H", "Connection: close"].map(OsString::from));
        }
        argv.extend(["-o", "/dev/null"].map(OsString::from));
        let (many, bytes) = (self.many(), self.bytes());
        argv.push(format!("https://{ADDRESS}:{port}/bytes/{bytes}?[1-{many}]").into());
        argv
    }

    fn side(self, name: &str, argv: Vec<OsString>) -> Side<'static> {
        let command = shown(&argv);
        Side {
            name: name.to_owned(),
            command: command.clone(),
            round: Box::new(move || {
                let output = output(&argv)?;
                let (stdout, stderr) = (
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr),
                );
                if !output.status.success() {
                    bail!("`{command}` ended with {}: {}", output.status, stderr.trim());
                }
                let times = times(&stdout, self.many(), self.bytes());
                Ok(self.number(&times.with_context(|| format!("`{command}`"))?))
            }),
        }
    }

    /// The result of one round from its transfer times.
    fn number(self, times: &[f64]) -> f64 {
        let median =
            |times: &[f64]| Samples::new(String::new(), String::new(), times.to_vec()).median;
        match self {
            Fetch::Download { bytes } => bytes as f64 / f64::from(1 << 20) / median(times),
            Fetch::Fresh => median(times) * 1000.0,
            // Skips the first transfer, which opens the connection.
            Fetch::Kept => median(times.get(1..).unwrap_or_default()) * 1000.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_is_a_rate_or_the_median_of_its_requests() {
        let download = Fetch::Download { bytes: 64 << 20 };
        assert_eq!(download.number(&[0.5]), 128.0);
        assert_eq!(Fetch::Fresh.number(&[0.009, 0.001, 0.002]), 2.0);
        assert_eq!(Fetch::Kept.number(&[0.009, 0.001, 0.003]), 2.0, "without the first");
    }

    #[test]
    fn policy_of_an_opened_row_judges_each_request() {
        for (gate, opens) in [(Gate::Passes, false), (Gate::Opens, true)] {
            let text = policy(7, gate);
            let here = std::path::Path::new("/");
            let policy = stockade_policy::Policy::parse_str("bench", &text, here).unwrap();
            assert_eq!(policy.may_read_requests(), opens, "{text}");
        }
    }

    #[test]
    fn fresh_and_kept_requests_differ_only_in_the_connection() {
        let words = |fetch: Fetch| shown(&fetch.argv("curl".into(), 7));
        assert_eq!(words(Fetch::Fresh).replace(" -H 'Connection: close'", ""), words(Fetch::Kept));
        assert!(words(Fetch::Kept).ends_with("'https://127.0.0.2:7/bytes/100?[1-50]'"));
    }
}
