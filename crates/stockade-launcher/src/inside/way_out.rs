//! The one place inside at which connections that may leave arrive.

use std::io;
use std::net::{SocketAddrV4, TcpListener, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use stockade_sys::{Redirect, add_loopback_address, redirect_to};

use crate::outside::Listeners;
use crate::plan::{Redirected, Transport};

/// How many connections wait to be accepted.
const WAITING: i32 = 1024;

/// Listens at one more address of the loopback interface, and sends there what goes to the places.
pub(super) fn open(listen: SocketAddrV4, places: &[Redirected]) -> io::Result<Listeners> {
    // Without a second address, programs that ask which families are configured find none.
    add_loopback_address(*listen.ip())?;
    let listeners = listeners(listen)?;
    // Last: what is redirected finds somebody there.
    let places: Vec<Redirect> = places.iter().map(redirect).collect();
    redirect_to(listen, &places)?;
    Ok(listeners)
}

/// Sockets that share their address with nobody: neither says that it may be used again.
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
