//! The server process, in its own network namespace.

pub(crate) mod accept;
mod datagrams;
mod end;
mod names;
mod packets;
mod web;

use std::fs;
use std::io::{self, BufRead, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use stockade_sys::{Namespaces, unshare_namespaces};

use crate::authority::Authority;
use crate::internet::{AUTHORITY_FILE, LOG_FILE, TOKEN_FILE};
use crate::links;
use crate::log::Log;
use crate::world;

pub(crate) use web::Site;

/// The variable that makes a process the server process; its value is the directory of the fake
/// internet.
pub(crate) const ROLE_VARIABLE: &str = "STOCKADE_INTERNET_SERVERS";
/// The variable with the machine's process id and network namespace.
pub(crate) const MACHINE_VARIABLE: &str = "STOCKADE_INTERNET_MACHINE";
/// The server process sends this once it has its own network namespace.
pub(crate) const APART: &str = "apart";
/// The server process receives this once the link exists.
pub(crate) const GO: &str = "go";
/// The server process sends this once all servers listen.
pub(crate) const READY: &str = "ready";

/// Serves until the machine ends.
pub(crate) fn main(directory: &Path) -> ! {
    let code = match serve(directory) {
        Ok(()) => 0,
        Err(error) => {
            // The machine reads this file if it does not receive READY.
            let _ = writeln!(io::stderr(), "{error:#}");
            1
        }
    };
    std::process::exit(code)
}

/// Listening sockets, by protocol.
struct Sockets {
    http: Vec<TcpListener>,
    https: Vec<TcpListener>,
    banner: Vec<TcpListener>,
    raw: Vec<TcpListener>,
    names_by_stream: TcpListener,
    names: Vec<UdpSocket>,
    echo: Vec<UdpSocket>,
}

fn serve(directory: &Path) -> Result<()> {
    let machine = end::Machine::from_environment()?;
    unshare_namespaces(Namespaces::NETWORK).context("unsharing the network of the servers")?;
    send(APART)?;
    let mut received = String::new();
    io::stdin().lock().read_line(&mut received)?;
    ensure!(received.trim_end() == GO, "the machine ended before its link existed");
    links::answer_for_every_address()?;

    let log = Log::open(&directory.join(LOG_FILE))?;
    let authority = Arc::new(Authority::new()?);
    fs::write(directory.join(AUTHORITY_FILE), authority.pem())?;
    let token = token()?;
    fs::write(directory.join(TOKEN_FILE), &token)?;
    let site = Arc::new(Site::new(token, directory.join("repositories"), Some(log.clone())));
    let sockets = Sockets::open()?;
    packets::watch(log.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || runtime.block_on(run(sockets, authority, site, log)));
    send(READY)?;
    machine.wait();
    machine.kill_remaining_processes();
    fs::remove_dir_all(directory).context("removing the files of the fake internet")
}

async fn run(sockets: Sockets, authority: Arc<Authority>, site: Arc<Site>, log: Log) -> Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for listener in sockets.http {
        tasks.spawn(accept::http(listener, Arc::clone(&site)));
    }
    for listener in sockets.https {
        tasks.spawn(accept::https(listener, Arc::clone(&authority), Arc::clone(&site)));
    }
    for listener in sockets.banner {
        tasks.spawn(accept::server_first(listener, log.clone()));
    }
    for listener in sockets.raw {
        tasks.spawn(accept::anything(listener, log.clone()));
    }
    let names = Arc::new(names::Names::new(log.clone()));
    tasks.spawn(names::by_stream(sockets.names_by_stream, Arc::clone(&names)));
    for socket in sockets.names {
        tasks.spawn(names::by_datagram(socket, Arc::clone(&names)));
    }
    for socket in sockets.echo {
        tasks.spawn(datagrams::echo(socket, log.clone()));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

impl Sockets {
    fn open() -> Result<Sockets> {
        // A reply must come from the address the datagram was sent to, so each address has a
        // socket.
        let mut addresses =
            vec![IpAddr::V4(world::ROUTER), IpAddr::V4(world::PUBLIC), IpAddr::V4(world::RESOLVER)];
        if links::has_six() {
            addresses.push(IpAddr::V6(world::PUBLIC_SIX));
        }
        let datagrams = |port: u16| {
            let open = |address: &IpAddr| datagram_socket(SocketAddr::new(*address, port));
            addresses.iter().map(open).collect::<Result<Vec<_>>>()
        };
        let mut echo = Vec::new();
        for port in world::DATAGRAM_PORTS {
            echo.extend(datagrams(port)?);
        }
        Ok(Sockets {
            http: listeners(&world::HTTP_PORTS)?,
            https: listeners(&world::HTTPS_PORTS)?,
            banner: listeners(&world::BANNER_PORTS)?,
            raw: listeners(&world::RAW_PORTS)?,
            names_by_stream: listener(53)?,
            names: datagrams(53)?,
            echo,
        })
    }
}

fn listeners(ports: &[u16]) -> Result<Vec<TcpListener>> {
    ports.iter().map(|port| listener(*port)).collect()
}

/// Listens on every address.
fn listener(port: u16) -> Result<TcpListener> {
    let any = match links::has_six() {
        true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    let listener = TcpListener::bind((any, port)).with_context(|| format!("port {port}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn datagram_socket(address: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(address).with_context(|| format!("datagrams to {address}"))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn send(word: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{word}")?;
    output.flush()
}

fn token() -> Result<String> {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
