//! Secrets planted all over the host. No output from inside may contain one.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::FlockOperation;

/// The environment variable that contains the token.
pub(crate) const PLANTED: &str = "PLANTED_SECRET";

/// A user's private files, below a home directory.
const HOME: [&str; 9] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".docker/config.json",
    ".kube/config",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".bash_history",
];

/// Folders of the host that every user may read.
const PUBLIC: [&str; 3] = ["/opt", "/srv", "/var/tmp"];

/// A program that every sandbox sees; the harness holds a lock on it.
const LOCKED: &str = "/usr/bin/env";

/// The planted secrets. Dropping it removes them.
pub(crate) struct Canaries {
    /// 128 random bits in hexadecimal.
    pub(crate) token: String,
    /// A string that occurs in names on the host and in no content.
    label: String,
    public: Vec<PathBuf>,
    /// A folder with a copy of the probe executable, for `command_allowlist`.
    programs: PathBuf,
    home: PathBuf,
    socket: PathBuf,
    port: u16,
    key: u32,
    /// A process with the token among its arguments.
    process: Child,
    /// A process that keeps queues and shared memory until its input ends.
    queues: Child,
    #[expect(dead_code, reason = "held open or locked, not read")]
    held: [File; 3],
}

impl Canaries {
    /// Plants a canary in every place.
    pub(crate) fn plant(place: &Path, probe: &Path) -> io::Result<Canaries> {
        let token = random(16)?;
        let label = format!("stockade-canary-{}", random(4)?);
        let home = place.join("home");
        for file in HOME {
            let path = home.join(file);
            fs::create_dir_all(path.parent().unwrap_or(&home))?;
            fs::write(&path, &token)?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        }
        let mut public = Vec::new();
        for folder in PUBLIC {
            // Some hosts lack one of these folders.
            fs::create_dir_all(folder)?;
            let path = Path::new(folder).join(&label);
            fs::write(&path, &token)?;
            fs::set_permissions(&path, Permissions::from_mode(0o644))?;
            public.push(path);
        }
        let programs = Path::new(PUBLIC[0]).join(format!("{label}-programs"));
        fs::create_dir(&programs)?;
        fs::copy(probe, programs.join("stockade-probe"))?;
        let socket = place.join("socket");
        let port = serve(&token, &label, &socket)?;
        let process = Command::new(probe)
            .args(["wait", "3600000", &token])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let key = 0x5354_0000 | (std::process::id() & 0xffff);
        let queues = queues(probe, &home, &label, key, &token)?;
        let held = [deleted(place, &token)?, locked()?, File::open("/dev/ptmx")?];
        Ok(Canaries {
            token,
            label,
            public,
            programs,
            home,
            socket,
            port,
            key,
            process,
            queues,
            held,
        })
    }

    /// The names that acts refer to canaries by.
    pub(crate) fn names(&self) -> BTreeMap<&'static str, String> {
        let text = |path: &Path| path.display().to_string();
        let public: Vec<String> = self.public.iter().map(|path| text(path)).collect();
        BTreeMap::from([
            ("public", public[0].clone()),
            ("public-2", public[1].clone()),
            ("public-3", public[2].clone()),
            ("home", text(&self.home)),
            ("label", self.label.clone()),
            ("socket", text(&self.socket)),
            ("port", self.port.to_string()),
            ("key", self.key.to_string()),
            ("process", self.process.id().to_string()),
            ("locked", LOCKED.to_owned()),
            ("programs", text(&self.programs)),
        ])
    }

    /// Whether a text contains the token.
    pub(crate) fn seen_in(&self, text: &str) -> bool {
        text.contains(&self.token)
    }

    /// Whether the victim process, which no probe may kill, still runs.
    pub(crate) fn process_lives(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        // Best effort: the check of the host afterwards reports what could not be removed.
        let _ = self.process.kill();
        let _ = self.process.wait();
        drop(self.queues.stdin.take());
        let _ = self.queues.wait();
        for path in &self.public {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir_all(&self.programs);
    }
}

pub(crate) fn random(bytes: usize) -> io::Result<String> {
    let mut buffer = vec![0; bytes];
    File::open("/dev/urandom")?.read_exact(&mut buffer)?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Starts servers that send the token to every client; returns the port of those on loopback.
fn serve(token: &str, label: &str, socket: &Path) -> io::Result<u16> {
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(label)?)?;
    let named = UnixListener::bind(socket)?;
    fs::set_permissions(socket, Permissions::from_mode(0o777))?;
    let four = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = four.local_addr()?.port();
    let six = TcpListener::bind((Ipv6Addr::LOCALHOST, port))?;
    for listener in [hidden, named] {
        let token = token.to_owned();
        std::thread::spawn(move || {
            // Ignored: the client may disconnect early.
            listener.incoming().flatten().for_each(|mut it| drop(it.write_all(token.as_bytes())));
        });
    }
    for listener in [four, six] {
        let token = token.to_owned();
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|mut it| drop(it.write_all(token.as_bytes())));
        });
    }
    let sockets = [
        UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?,
        UdpSocket::bind((Ipv6Addr::LOCALHOST, port))?,
    ];
    for socket in sockets {
        let token = token.to_owned();
        std::thread::spawn(move || {
            while let Ok((_, from)) = socket.recv_from(&mut [0; 64]) {
                let _ = socket.send_to(token.as_bytes(), from);
            }
        });
    }
    Ok(port)
}

fn queues(probe: &Path, folder: &Path, label: &str, key: u32, token: &str) -> io::Result<Child> {
    let mut child = Command::new(probe)
        .args(["plant", label, &key.to_string(), token])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = [0; 8];
    child.stdout.as_mut().map_or(Ok(()), |out| out.read_exact(&mut line))?;
    match &line {
        b"planted\n" => Ok(child),
        _ => Err(io::Error::other("the queues were not planted")),
    }
}

/// A deleted file that this process holds open.
fn deleted(place: &Path, token: &str) -> io::Result<File> {
    let path = place.join("deleted");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    file.write_all(token.as_bytes())?;
    fs::remove_file(&path)?;
    Ok(file)
}

fn locked() -> io::Result<File> {
    let file = File::open(LOCKED)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}
