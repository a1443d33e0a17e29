//! One stream of questions.

use std::sync::Arc;

use stockade_policy::{Basis, Control, Effect, Host, Verdict};
use stockade_record::{SecretAct, Via};

use super::answer::{Asked, Question, Reply, answer, read_question};
use super::table::MAX_NAMES;
use crate::egress_record::EgressRecord;
use crate::shared::Shared;
use crate::side::Side;

/// The longest question that is read.
const MAX_QUESTION_BYTES: usize = 4096;
/// Codes of RFC 8914.
const BLOCKED: u16 = 15;
const PROHIBITED: u16 = 18;

/// Answers questions, each with exactly one answer, until the program closes the stream.
pub(crate) async fn serve(shared: &Arc<Shared>, mut inside: Side) {
    let idle = shared.settings.times.idle;
    while let Ok(Ok(Some(question))) = tokio::time::timeout(idle, next(&mut inside)).await {
        let bytes = respond(shared, &question);
        let length = u16::try_from(bytes.len()).unwrap_or(0).to_be_bytes();
        let framed = [&length, bytes.as_slice()].concat();
        if inside.outgoing.send(&framed).await.is_err() {
            return;
        }
    }
}

/// The next question; `None` at the end, or if it is too long.
async fn next(inside: &mut Side) -> std::io::Result<Option<Vec<u8>>> {
    let incoming = &mut inside.incoming;
    if !incoming.fill_to(2).await? {
        return Ok(None);
    }
    let length = incoming.held().first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes));
    let length = usize::from(length);
    if length > MAX_QUESTION_BYTES || !incoming.fill_to(2 + length).await? {
        return Ok(None);
    }
    let question = incoming.held()[2..2 + length].to_vec();
    incoming.used(2 + length);
    Ok(Some(question))
}

fn respond(shared: &Arc<Shared>, bytes: &[u8]) -> Vec<u8> {
    match read_question(bytes) {
        Ok(question) => answer(&question, &reply(shared, &question)),
        Err(answer) => answer,
    }
}

fn reply(shared: &Arc<Shared>, question: &Question) -> Reply {
    let name = question.name();
    if let Some((secret, denial)) = shared.settings.secrets.in_host_name(&name, &name) {
        let mut record = EgressRecord::new(shared, 0, Via::Dns, None);
        record.no_host(&denial.target);
        record.secret(secret, SecretAct::Misplaced);
        record.denied(&denial);
        return Reply::Refused(BLOCKED, format!("{}; {}", denial.why, denial.how_to_allow));
    }
    match &question.asked {
        Asked::Localhost => Reply::Localhost,
        Asked::Reverse => {
            Reply::Refused(PROHIBITED, "addresses have no names in this sandbox".to_owned())
        }
        Asked::Name(name) => {
            let host = Host::Name(name.clone());
            let verdict = shared.rules().judge_name(&host);
            if !verdict.allows() {
                return refuse(shared, &verdict);
            }
            match shared.names().address_of(name) {
                Some(address) => Reply::Address(address),
                None => refuse(shared, &too_many(&host)),
            }
        }
        Asked::Service(name) => {
            let verdict = shared.rules().judge_name(&Host::Name(name.clone()));
            if verdict.allows() { Reply::Nothing } else { refuse(shared, &verdict) }
        }
        Asked::NoHost(text) => refuse(shared, &no_host(text)),
    }
}

/// Records a denial and turns it into the answer.
fn refuse(shared: &Arc<Shared>, verdict: &Verdict) -> Reply {
    let Some(denial) = verdict.denial() else {
        return Reply::Nothing;
    };
    let mut record = EgressRecord::new(shared, 0, Via::Dns, None);
    record.no_host(&denial.target);
    record.denied(&denial);
    let code = if verdict.control == Control::NetworkBlock { BLOCKED } else { PROHIBITED };
    Reply::Refused(code, format!("{}; {}", denial.why, denial.how_to_allow))
}

fn too_many(host: &Host) -> Verdict {
    Verdict {
        effect: Effect::Deny,
        control: Control::NetworkHosts,
        target: host.to_string(),
        basis: Basis::BuiltIn { rule: "a sandbox asks for 1024 names at most" },
        why: format!("this sandbox has asked for {MAX_NAMES} different names already"),
        change: "use the proxy, which has no such bound, or a new sandbox".to_owned(),
    }
}

fn no_host(text: &str) -> Verdict {
    Verdict {
        effect: Effect::Deny,
        control: Control::NetworkHosts,
        target: crate::words::harmless(text, crate::words::MAX_HOST),
        basis: Basis::BuiltIn { rule: "only host names are resolved" },
        why: "it is not the name of a host".to_owned(),
        change: "ask for a name of letters, digits, hyphens and dots".to_owned(),
    }
}
