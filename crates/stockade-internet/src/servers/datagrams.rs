//! The echo server for datagrams.

use std::io;
use std::net::UdpSocket as StandardSocket;

use tokio::net::UdpSocket;

use crate::log::{Log, LogEntry};

/// Sends every datagram back to its source.
pub(super) async fn echo(socket: StandardSocket, log: Log) -> io::Result<()> {
    let socket = UdpSocket::from_std(socket)?;
    let to = socket.local_addr()?;
    let mut buffer = vec![0; 65_536];
    loop {
        // An error here belongs to an earlier reply that no socket received.
        let Ok((count, from)) = socket.recv_from(&mut buffer).await else { continue };
        let detail = String::from_utf8_lossy(&buffer[..count]);
        log.add(&LogEntry::new("udp", "datagram").between(from, to).with(&detail));
        let _ = socket.send_to(&buffer[..count], from).await;
    }
}
