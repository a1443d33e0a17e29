//! Requests that a wall's own gate decided, in the same record and report as those of the gate on
//! this host.

use stockade_policy::{Control, Denial, Effect, Host, Policy, Verdict};
use stockade_provider::DecidedRequest;
use stockade_record::{Egress, Inspection, Via};

/// The rule of a decision that the policy does not explain.
const SERVICE: &str = "the egress policy of the service";

/// The event of a decided request; `connection` is its number in the session.
pub(crate) fn event(policy: &Policy, request: DecidedRequest, connection: u64) -> Egress {
    let port = match request.scheme.as_deref() {
        Some("http") => 80,
        _ => 443,
    };
    let verdict = Host::parse(&request.host).ok().map(|host| policy.judge_host(&host, port));
    let rule = verdict.as_ref().map_or_else(|| SERVICE.to_owned(), |it| it.basis.to_string());
    let agrees = verdict.as_ref().is_some_and(|verdict| verdict.allows() == request.allowed);
    let (effect, denial, failure) = match request.allowed {
        true if agrees => (Effect::Allow, None, None),
        true => {
            let why = "the service let it through, although the policy denies it";
            (Effect::Allow, None, Some(why.to_owned()))
        }
        false => (Effect::Deny, Some(denial(&request.host, port, verdict)), None),
    };
    let inspection = match &request.method {
        Some(_) => Inspection::Requests,
        None => Inspection::None,
    };
    Egress {
        execution: None,
        connection,
        via: Via::Transparent,
        host: request.host,
        port: Some(port),
        address: None,
        method: request.method,
        path: request.path,
        status: None,
        inspection,
        sent_bytes: 0,
        received_bytes: 0,
        duration_ms: 0,
        verdict: effect,
        rule: if agrees { rule } else { SERVICE.to_owned() },
        denial,
        failure,
        secrets: Vec::new(),
    }
}

/// The denial in the policy's words, if the policy denies it too.
fn denial(host: &str, port: u16, verdict: Option<Verdict>) -> Denial {
    verdict.and_then(|verdict| verdict.denial()).unwrap_or_else(|| Denial {
        control: Control::NetworkHosts.as_str().into(),
        rule: SERVICE.to_owned(),
        target: format!("{host}:{port}"),
        why: "the service denied it".to_owned(),
        how_to_allow: "compare the entry in network_allowlist with the name that was used"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn policy() -> Policy {
        Policy::parse_str("p", "network_allowlist: [packages.example.net]", Path::new("/srv"))
            .unwrap()
    }

    fn request(host: &str, allowed: bool) -> DecidedRequest {
        DecidedRequest {
            host: host.to_owned(),
            method: Some("GET".to_owned()),
            path: Some("/simple/".to_owned()),
            scheme: Some("https".to_owned()),
            at: None,
            allowed,
        }
    }

    #[test]
    fn decisions_of_a_service_have_the_policys_rule_and_denial() {
        let allowed = event(&policy(), request("packages.example.net", true), 3);
        assert_eq!(
            (allowed.verdict, allowed.connection, allowed.port),
            (Effect::Allow, 3, Some(443))
        );
        assert!(allowed.denial.is_none() && allowed.failure.is_none());
        let denied = event(&policy(), request("evil.example", false), 4);
        let denial = denied.denial.unwrap();
        assert_eq!((denied.verdict, &*denial.control), (Effect::Deny, "network_hosts"));
        assert_eq!(denial.target, "evil.example:443");
        assert!(denial.how_to_allow.contains("network_allowlist"), "{denial:?}");
    }

    #[test]
    fn service_that_decides_differently_from_the_policy_is_named() {
        let leaked = event(&policy(), request("evil.example", true), 0);
        assert_eq!(leaked.rule, SERVICE);
        assert!(leaked.failure.unwrap().contains("although the policy denies it"));
        let refused = event(&policy(), request("packages.example.net", false), 0);
        assert_eq!(refused.denial.unwrap().why, "the service denied it");
        let nonsense = event(&policy(), request("\\u{a}", false), 0);
        assert_eq!((nonsense.rule.as_str(), nonsense.verdict), (SERVICE, Effect::Deny));
    }
}
