//! Judges whether an act inside is stopped, and whether its control works without the wall.

use crate::answer::Answer;
use crate::bench::Bench;
use crate::probe::{Act, ControlSite, Expect, Probe, Trial};
use crate::seen::{Output, Seen, finish};
use crate::wall::Wall;

/// The result of a control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The act works without the wall; the text is what happened.
    Proven(String),
    /// The act does not work without the wall, and why.
    Unproven(String),
    /// This host has nothing to try it on, and why.
    NotApplicable(String),
}

/// The result of a probe behind one wall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Held,
    Broken(String),
}

/// The user `nobody`, which owns no files.
pub(crate) const NOBODY: u32 = 65_534;

/// Runs every control of a probe: of acts on the host or behind the plain wall without a layer, of
/// scenes with the wall under test.
pub(crate) fn prove(bench: &Bench, plain: &Wall, wall: &Wall, probe: &Probe) -> Proof {
    let shown = match &probe.trial {
        Trial::NotApplicable(why) => return Proof::NotApplicable((*why).to_owned()),
        Trial::Scene(scene) => (scene.control)(bench, wall),
        Trial::Acts(acts) => prove_acts(bench, plain, acts),
    };
    match shown {
        Ok(shown) => Proof::Proven(shown),
        Err(why) => match why.strip_prefix(ABSENT) {
            Some(why) => Proof::NotApplicable(format!("this host lacks it: {why}")),
            None => Proof::Unproven(why),
        },
    }
}

/// Every act must work, except those that this host has nothing to try on. If it has nothing for
/// any act, the whole probe is not applicable.
fn prove_acts(bench: &Bench, wall: &Wall, acts: &[Act]) -> Result<String, String> {
    let (mut shown, mut absent) = (Vec::new(), Vec::new());
    for act in acts {
        match prove_act(bench, wall, act) {
            Ok(seen) => shown.push(seen),
            Err(why) if why.starts_with(ABSENT) => absent.push(why),
            Err(why) => return Err(format!("{}: {why}", act.without.join(" "))),
        }
    }
    match (shown.is_empty(), absent.into_iter().next()) {
        (true, Some(why)) => Err(why),
        _ => Ok(shown.join(", ")),
    }
}

/// The prefix with which a control reports that this host has nothing to try it on.
pub(crate) const ABSENT: &str = "not here: ";

/// Runs a probe behind a wall.
pub(crate) fn judge(bench: &Bench, wall: &Wall, probe: &Probe) -> Verdict {
    let result = match &probe.trial {
        Trial::NotApplicable(_) => Ok(()),
        Trial::Scene(scene) => (scene.play)(bench, wall),
        Trial::Acts(acts) => acts.iter().try_for_each(|act| judge_act(bench, wall, act)),
    };
    match result {
        Ok(()) => Verdict::Held,
        Err(why) => Verdict::Broken(why),
    }
}

fn judge_act(bench: &Bench, wall: &Wall, act: &Act) -> Result<(), String> {
    let seen = wall.act_after(bench, act.after, act.flags, act.words)?;
    let with_act = |why: String| format!("{}: {why}", act.words.join(" "));
    if bench.canaries.seen_in(&seen.text) {
        return Err(with_act("a canary came back".to_owned()));
    }
    holds(bench, act.expect, &seen).map_err(with_act)
}

fn prove_act(bench: &Bench, wall: &Wall, act: &Act) -> Result<String, String> {
    bench.renew_tree().map_err(|error| error.to_string())?;
    let seen = match act.control {
        ControlSite::Host => {
            finish(bench.host_command_after(act.after, act.without), Output::Plain)?
        }
        ControlSite::HostNobody => {
            use std::os::unix::process::CommandExt;
            let mut command = bench.host_command(act.without);
            command.uid(NOBODY).gid(NOBODY);
            finish(command, Output::Plain)?
        }
        ControlSite::Without(layer) => {
            bench.weakened(wall, layer).act_after(bench, act.after, act.flags, act.without)?
        }
    };
    fails(bench, act.expect, &seen)
}

/// Whether the act inside was stopped as expected.
fn holds(bench: &Bench, expect: Expect, seen: &Seen) -> Result<(), String> {
    let otherwise = |held: bool| match held {
        true => Ok(()),
        false => Err(seen.summary()),
    };
    match expect {
        Expect::Refused(errnos, _) => otherwise(is_refused(seen, errnos)),
        Expect::Hidden => otherwise(seen.answer.is_some()),
        Expect::Searched => otherwise(seen.ret().is_some_and(|found| found > 0)),
        Expect::Note(text) => otherwise(seen.answer.is_some() && seen.note() == text),
        Expect::Most(most) => otherwise(seen.ret().is_some_and(|ret| ret <= most)),
        Expect::Limited(most, limit) => {
            otherwise(seen.ret().is_none_or(|ret| ret <= most) && seen.names_limit(limit))
        }
        Expect::Killed(signal) => otherwise(seen.report["signal"]["number"] == signal),
        Expect::Check(check) => check(bench, seen),
    }
}

/// Whether the same check fails without the wall; returns what happened.
fn fails(bench: &Bench, expect: Expect, seen: &Seen) -> Result<String, String> {
    let shown = match expect {
        Expect::Refused(_, reached) => match &seen.answer {
            Some(answer) if answer.ret >= 0 => true,
            Some(_) => !reached.is_empty() && is_refused(seen, reached),
            None => false,
        },
        Expect::Hidden | Expect::Searched => bench.canaries.seen_in(&seen.text),
        Expect::Note(text) => seen.ret().is_some_and(|ret| ret >= 0) && seen.note() != text,
        Expect::Most(most) | Expect::Limited(most, _) => seen.ret().is_some_and(|it| it > most),
        Expect::Killed(_) => seen.ret().is_some_and(|ret| ret >= 0),
        Expect::Check(check) => seen.answer.is_some() && check(bench, seen).is_err(),
    };
    // Leaves out the content: it belongs to the host and includes canaries.
    let summary = match &seen.answer {
        Some(Answer { ret, errno: Some(errno), .. }) => format!("returned {ret} {errno}"),
        Some(Answer { ret, .. }) => format!("returned {ret}"),
        None => "no answer".to_owned(),
    };
    let is_absent = |answer: &Answer| {
        answer.ret < 0 && answer.errnos().all(|errno| matches!(errno, "ENOENT" | "ENOSYS"))
    };
    match (shown, &seen.answer) {
        (true, _) => Ok(summary),
        (false, Some(answer)) if is_absent(answer) => Err(format!("{ABSENT}{summary}")),
        (false, _) => Err(summary),
    }
}

fn is_refused(seen: &Seen, errnos: &[&str]) -> bool {
    let all_named =
        |mut names: Box<dyn Iterator<Item = &str> + '_>| names.all(|name| errnos.contains(&name));
    seen.answer.as_ref().is_some_and(|it| it.ret < 0 && all_named(Box::new(it.errnos())))
}
