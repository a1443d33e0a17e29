//! Controls that parts on the host enforce, the same behind every wall with a link to a guest.

use stockade_policy::{Control, Limit};

use crate::Ability;

/// How the engine, the gate and the tool broker enforce a control. One that only a wall can enforce
/// is missing.
pub fn enforced_outside(control: Control) -> Ability {
    let only_by_a_wall = || {
        let reason = format!("only a wall can enforce {}", control.as_str());
        Ability::missing(reason, "use another wall, or remove the clause")
    };
    match control {
        Control::NetworkBlock => Ability::exact(
            "the gate on the host, by name and again by address; nothing else leaves",
        ),
        Control::NetworkRequests => Ability::exact(
            "the gate on the host, request by request; it ends TLS with an authority that only \
             this sandbox trusts, and verifies the server",
        ),
        Control::Secrets => Ability::exact(
            "the gate on the host, which alone has the values; inside are placeholders",
        ),
        Control::CodeRules => Ability::exact("judged by the engine before anything is started"),
        Control::Limit(limit) => of_limit(limit).map_or_else(only_by_a_wall, Ability::exact),
        _ => only_by_a_wall(),
    }
}

fn of_limit(limit: Limit) -> Option<&'static str> {
    Some(match limit {
        Limit::Output => "counted by the engine; what is beyond is dropped",
        Limit::Idle => "the clock of the session's supervisor; it ends everything inside",
        Limit::CancelGrace | Limit::TimeoutGrace => {
            "the engine's clock, from SIGTERM to the kill from outside"
        }
        Limit::ToolCalls | Limit::ToolRate => {
            "counted by the tool broker on the host; what is beyond is refused"
        }
        Limit::ToolsAtOnce => "counted by the tool broker on the host; what is beyond waits",
        Limit::ToolTime => "the clock of the tool broker on the host; a call beyond it is ended",
        Limit::ToolBytes | Limit::ToolDepth => {
            "measured by the tool broker on the host, of arguments and of results"
        }
        Limit::Connections | Limit::EgressBytes => {
            "counted by the gate on the host; nothing else leaves"
        }
        Limit::ForwardedPorts => {
            "counted by the engine, which forwards only to its own user on this host"
        }
        Limit::EgressRate => "paced by the gate on the host; nothing else leaves",
        Limit::Cpu
        | Limit::Memory
        | Limit::Timeout
        | Limit::Pids
        | Limit::Disk
        | Limit::Inodes
        | Limit::OpenFiles
        | Limit::CpuTime
        | Limit::IoRate
        | Limit::Lifetime => return None,
    })
}
