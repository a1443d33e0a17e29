//! The proxy inside the sandbox: HTTP and SOCKS on one port, distinguished by the first byte.

mod socks;
mod tunnel;

use stockade_policy::{Control, Denial};
use stockade_record::Via;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::converse::converse;
use crate::http::{Authority, Leaving, exchange, linger};
use crate::side::Side;

pub(crate) use self::socks::{read_greeting, read_request};
use self::tunnel::{connect, socks5};

/// The SOCKS 4 reply for a refused request.
const SOCKS4_REFUSED: [u8; 8] = [0, 91, 0, 0, 0, 0, 0, 0];

/// Serves one connection to the proxy.
pub(crate) async fn serve(mut connection: Connection, mut inside: Side) {
    let times = connection.shared.settings.times;
    // A connection over the limit only gets a refusal.
    let patience = if connection.is_overfull() { times.brief } else { times.idle };
    match timeout(patience, inside.incoming.fill()).await {
        Ok(Ok(read)) if read > 0 => {}
        _ => return,
    }
    match inside.incoming.held().first() {
        Some(5) => {
            connection.via = Via::Socks;
            socks5(&connection, inside).await;
        }
        Some(4) => {
            connection.via = Via::Socks;
            let mut record = connection.request_account();
            record.denied(&socks4());
            let _ = inside.outgoing.send(&SOCKS4_REFUSED).await;
            drop(record);
            linger(&mut inside, times.linger).await;
        }
        _ => match exchange(&connection, &mut inside, &Authority::Proxy, None).await {
            Leaving::Ended => {}
            Leaving::Tunnel(target) => {
                connection.via = Via::Connect;
                if let Some(dialled) = connect(&connection, &mut inside, &target).await {
                    converse(&connection, inside, &target, Some(dialled)).await;
                }
            }
        },
    }
}

fn socks4() -> Denial {
    Denial {
        control: Control::NetworkHosts.as_str().into(),
        rule: "built in: the proxy speaks HTTP and SOCKS 5".to_owned(),
        target: "SOCKS 4".to_owned(),
        why: "SOCKS 4 is not spoken here".to_owned(),
        how_to_allow: "use SOCKS 5 or an HTTP proxy at the same address".to_owned(),
    }
}
