//! The machine of one sandbox: namespaces of its own with a shell, the programs of this host, and
//! no network but the egress proxy.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// The port of the egress proxy inside.
const PROXY: &str = "http://127.0.0.1:3128";
/// The certificate of the egress proxy inside.
pub(crate) const CERTIFICATE: &str = "/run/egress-ca.pem";
/// The socket behind the proxy's port.
pub(crate) const SOCKET: &str = "/run/egress.sock";

/// Builds the root and becomes the first process.
const BUILD: &str = r#"
set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
for name in usr bin sbin lib lib32 lib64 libx32 etc; do
    if [ -L "/$name" ]; then cp -P "/$name" "$root/$name"
    elif [ -d "/$name" ]; then
        mkdir -p "$root/$name"
        mount --bind "/$name" "$root/$name"
        mount -o remount,bind,ro "$root/$name"
    fi
done
for name in proc dev tmp var/tmp var/lib run root workspace; do mkdir -p "$root/$name"; done
chmod 1777 "$root/tmp" "$root/var/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
echo aca-sandbox > /proc/sys/kernel/hostname
exec chroot "$root" python3 -I -S -c "$2"
"#;

/// The first process inside: collects orphans, and relays the proxy's port to its socket.
const FIRST: &str = r#"
import fcntl, os, select, signal, socket, struct, threading
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
listener = socket.create_server(("127.0.0.1", 3128))
def relay(client):
    try:
        far = socket.socket(socket.AF_UNIX)
        far.connect("/run/egress.sock")
        ends = {client: far, far: client}
        while True:
            for end in select.select(list(ends), [], [])[0]:
                data = end.recv(65536)
                if not data:
                    return
                ends[end].sendall(data)
    except OSError:
        pass
    finally:
        client.close(); far.close()
def collect():
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
threading.Thread(target=collect, daemon=True).start()
print("ready", flush=True)
while True:
    client, _ = listener.accept()
    threading.Thread(target=relay, args=(client,), daemon=True).start()
"#;

/// Why this host cannot run machines, if it cannot.
pub fn why_not() -> Option<String> {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    REASON
        .get_or_init(|| {
            let trial = tempfile::tempdir()
                .context("making a directory")
                .and_then(|directory| Machine::start(directory.path(), "").map(drop));
            trial.err().map(|error| format!("{error:#}"))
        })
        .clone()
}

/// A running machine. Dropping it ends all its processes.
pub(crate) struct Machine {
    root: PathBuf,
    holder: Mutex<Child>,
    /// The first process, as this host numbers it.
    first: String,
}

impl Machine {
    /// Starts a machine whose files are below a directory.
    pub(crate) fn start(directory: &Path, certificate: &str) -> Result<Machine> {
        ensure!(rustix::process::geteuid().is_root(), "machines of the double need root");
        let root = directory.join("root");
        fs::create_dir_all(root.join("run"))?;
        fs::write(root.join(&CERTIFICATE[1..]), certificate)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child"]);
        command.args(["sh", "-c", BUILD, "sh"]).arg(&root).arg(FIRST);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().context("starting unshare")?;
        let mut line = String::new();
        if let Some(output) = holder.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line.trim() != "ready" {
            let _ = holder.kill();
            let output = holder.wait_with_output()?;
            bail!("a machine does not start: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let of = format!("/proc/{0}/task/{0}/children", holder.id());
        let children = fs::read_to_string(of)?;
        let first = children.split_whitespace().next().context("a machine has no process")?;
        Ok(Machine { root, first: first.to_owned(), holder: Mutex::new(holder) })
    }

    /// The directory that is `/` inside.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A shell command, ready to start.
    pub(crate) fn command(
        &self,
        command: &str,
        directory: &str,
        environment: &[(String, String)],
    ) -> tokio::process::Command {
        let mut enter = tokio::process::Command::new("nsenter");
        enter.args(["--target", &self.first, "--mount", "--pid", "--net", "--uts", "--ipc"]);
        enter.args(["--root", "--wdns=/", "--", "env", "-i"]);
        enter.arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            enter.arg(format!("{name}={PROXY}"));
        }
        for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
            enter.arg(format!("{name}={CERTIFICATE}"));
        }
        enter.args(environment.iter().map(|(name, value)| format!("{name}={value}")));
        // The caller's directory, then the command, as arguments: no text becomes part of a script.
        enter.args(["sh", "-c", r#"cd "$1" && exec sh -c "$2""#, "sh", directory, command]);
        enter.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        enter.kill_on_drop(true);
        enter
    }

    /// Runs a shell command to its end.
    pub(crate) async fn execute(command: tokio::process::Command) -> Result<Value> {
        let mut command = command;
        let output = command.output().await.context("starting nsenter")?;
        Ok(json!({
            "exitCode": output.status.code().unwrap_or(137),
            "stdout": String::from_utf8_lossy(&output.stdout),
            "stderr": String::from_utf8_lossy(&output.stderr),
        }))
    }

    /// Ends all its processes.
    pub(crate) fn end(&self) {
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = holder.kill();
        let _ = holder.wait();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}
