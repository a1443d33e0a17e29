//! The listeners inside to which the kernel redirects connections to the network.

use std::io;
use std::net::{SocketAddrV4, TcpListener, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use stockade_sys::{Redirect, add_loopback_address, redirect_to};

use crate::outside::Listeners;
use crate::plan::{Redirected, Transport};

/// The backlog of the listener.
const WAITING: i32 = 1024;

/// Listens at an additional loopback address, and redirects connections to `places` there.
pub(super) fn open(listen: SocketAddrV4, places: &[Redirected]) -> io::Result<Listeners> {
    // getaddrinfo(3) with AI_ADDRCONFIG ignores 127.0.0.1 and would find no IPv4 address.
    add_loopback_address(*listen.ip())?;
    let listeners = listeners(listen)?;
    // Last: redirected connections then find the listeners ready.
    let places: Vec<Redirect> = places.iter().map(redirect).collect();
    redirect_to(listen, &places)?;
    Ok(listeners)
}

/// Binds without address reuse, so that no other socket can share the addresses.
fn listeners(listen: SocketAddrV4) -> io::Result<Listeners> {
    let socket = |kind| {
        let socket =
            rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&socket, &listen)?;
        Ok::<_, io::Error>(socket)
    };
    let connections = socket(SocketType::STREAM)?;
    rustix::net::listen(&connections, WAITING)?;
    let datagrams = socket(SocketType::DGRAM)?;
    Ok(Listeners {
        connections: TcpListener::from(connections),
        datagrams: UdpSocket::from(datagrams),
    })
}

fn redirect(place: &Redirected) -> Redirect {
    let Redirected { transport, network, prefix, port } = *place;
    let transport = match transport {
        Transport::Tcp => stockade_sys::Transport::Tcp,
        Transport::Udp => stockade_sys::Transport::Udp,
    };
    Redirect { transport, network, prefix, port }
}
