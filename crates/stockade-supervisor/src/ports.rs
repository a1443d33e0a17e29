//! Answers requests about forwarded ports.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use stockade_api::{Failure, PortParams, PortView, Reply};
use stockade_engine::{ForwardedPort, PortError};
use stockade_provider::chain;

use crate::connection::of_run;
use crate::supervisor::Shared;

pub(crate) async fn answer(params: PortParams, shared: &Shared) -> Reply {
    let session = &shared.session;
    let answered = match params {
        PortParams::List => Ok(session.forwarded_ports()),
        PortParams::Open { port, listen } => {
            let listen = match listen.as_deref().map(address).transpose() {
                Ok(listen) => listen,
                Err(failure) => return Reply::Failed(failure),
            };
            session.forward_port(port, listen).await.map(|forwarded| vec![forwarded])
        }
        PortParams::Close { port } => match session.close_port(port).await {
            Ok(()) => return Reply::Done,
            Err(error) => Err(error),
        },
    };
    match answered {
        Ok(ports) => Reply::Ports(ports.into_iter().map(view).collect()),
        Err(PortError::Run(error)) => Reply::Failed(of_run(&error)),
        Err(error) => Reply::Failed(Failure {
            message: chain(&error),
            remedy: error.remedy().unwrap_or_default().to_owned(),
        }),
    }
}

/// An address with a port, or only a port or an address of loopback.
fn address(text: &str) -> Result<SocketAddr, Failure> {
    let with_port = text.parse::<SocketAddr>().ok();
    let only_port = || Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), text.parse().ok()?));
    let only_address = || Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, 0));
    with_port.or_else(only_port).or_else(only_address).ok_or_else(|| Failure {
        message: format!("{:?} is not an address", text.chars().take(80).collect::<String>()),
        remedy: "write one of loopback, such as 127.0.0.1:8000, [::1]:8000 or 8000".to_owned(),
    })
}

fn view(forwarded: ForwardedPort) -> PortView {
    let ForwardedPort { port, address, open, connections, refused } = forwarded;
    PortView { port, address: address.to_string(), open, connections, refused }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_may_lack_its_port_or_its_host() {
        let found = |text: &str| address(text).map(|it| it.to_string()).map_err(|it| it.message);
        assert_eq!(found("127.0.0.1:80").unwrap(), "127.0.0.1:80");
        assert_eq!(found("8000").unwrap(), "127.0.0.1:8000");
        assert_eq!(found("::1").unwrap(), "[::1]:0");
        for text in ["", "localhost:80", "70000", "1.2.3", "127.0.0.1:x"] {
            assert!(found(text).is_err(), "{text}");
        }
    }
}
