//! The whole run: every probe with its control, behind every wall.

use crate::bench::{Bench, Inputs};
use crate::catalogue::{COUNTED, catalogue};
use crate::gaps::{Gaps, Known};
use crate::judge::{NOBODY, Proof, Verdict, judge, prove};
use crate::probe::{Class, Probe};
use crate::report::{Line, Report, Status};
use crate::wall::Wall;

/// The minimum number of distinct ids that must hold with a control behind the walls of a machine.
const FEWEST: usize = 60;
/// The same for containers.
const FEWEST_IN_CONTAINERS: usize = 70;

/// Runs every probe as root and as an unprivileged user, or in containers with one runtime.
pub fn run(inputs: &Inputs, gaps: &str) -> Result<Report, String> {
    let gaps = Gaps::parse(gaps).map_err(|why| format!("gaps.toml: {why}"))?;
    let ids: Vec<&str> = catalogue().map(|probe| probe.id).collect();
    let unknown_ids = gaps.unknown_ids(&ids);
    if !unknown_ids.is_empty() {
        return Err(format!("gaps.toml names {unknown_ids:?}, which no probe has"));
    }
    let bench = Bench::new(inputs).map_err(|error| format!("the bench: {error}"))?;
    let plain = bench.wall(None).map_err(|error| error.to_string())?;
    let other = match &inputs.runtime {
        Some(runtime) => bench.container_wall(runtime),
        None => bench.wall(Some(NOBODY)),
    };
    let other = other.map_err(|error| error.to_string())?;
    let walls = match inputs.runtime {
        Some(_) => vec![other],
        None => vec![plain.clone(), other],
    };
    let mut report = Report::new(walls.iter().map(|wall| wall.name.clone()).collect());
    for probe in catalogue() {
        report.lines.push(line(&bench, &plain, &walls, &gaps, probe));
    }
    report.after = bench.host.changed_since(&bench, std::time::Duration::from_secs(10));
    report.unprobed = gaps.unprobed().to_vec();
    report.fewest = match inputs.runtime {
        Some(_) => FEWEST_IN_CONTAINERS,
        None => FEWEST,
    };
    Ok(report)
}

fn line(bench: &Bench, plain: &Wall, walls: &[Wall], gaps: &Gaps, probe: &Probe) -> Line {
    let proof = prove(bench, plain, &walls[0], probe);
    let status = |wall: &Wall| {
        let known = gaps.known(probe.id, &wall.name);
        status_of(&proof, known, || judge(bench, wall, probe))
    };
    Line {
        id: probe.id,
        title: probe.title,
        class: match probe.class {
            Class::Blocked => "blocked",
            Class::Virtual => "virtual",
            Class::Limited => "limited",
        },
        counts: COUNTED.contains(&probe.id[..1]),
        statuses: walls.iter().map(status).collect(),
        control: match proof {
            Proof::Proven(shown) | Proof::Unproven(shown) | Proof::NotApplicable(shown) => shown,
        },
    }
}

/// The status of a probe, from its control, the list of gaps, and the trial itself, which runs only
/// if there is something to try.
fn status_of(proof: &Proof, known: Option<Known<'_>>, trial: impl FnOnce() -> Verdict) -> Status {
    if let Proof::NotApplicable(why) = proof {
        return Status::NotApplicable(why.clone());
    }
    match (trial(), known, proof) {
        (Verdict::Held, Some(_), _) => {
            Status::Broken("it holds, but gaps.toml lists it".to_owned())
        }
        (Verdict::Broken(_), Some(Known::Gap(reason)), _) => Status::Gap(reason.to_owned()),
        (Verdict::Broken(_), Some(Known::NotApplicable(reason)), _) => {
            Status::NotApplicable(reason.to_owned())
        }
        (Verdict::Broken(why), None, _) => Status::Broken(why),
        (Verdict::Held, None, Proof::Unproven(why)) => Status::Unproven(why.clone()),
        (Verdict::Held, None, _) => Status::Held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_gap_that_holds_and_unlisted_failure_are_both_broken() {
        let proven = Proof::Proven("it works without".to_owned());
        let broken = || Verdict::Broken("came back".to_owned());
        assert_eq!(status_of(&proven, None, || Verdict::Held), Status::Held);
        assert_eq!(status_of(&proven, None, broken), Status::Broken("came back".to_owned()));
        let gap = Some(Known::Gap("known"));
        assert_eq!(status_of(&proven, gap, broken), Status::Gap("known".to_owned()));
        let foreign = Some(Known::NotApplicable("known"));
        assert_eq!(status_of(&proven, foreign, broken), Status::NotApplicable("known".to_owned()));
        for known in [gap, foreign] {
            let healed = status_of(&proven, known, || Verdict::Held);
            assert!(matches!(healed, Status::Broken(_)), "{healed:?}");
        }
    }

    #[test]
    fn probe_whose_control_fails_is_unproven_and_one_without_a_target_does_not_run() {
        let unproven = Proof::Unproven("refused there too".to_owned());
        let status = status_of(&unproven, None, || Verdict::Held);
        assert_eq!(status, Status::Unproven("refused there too".to_owned()));
        let absent = Proof::NotApplicable("no such device".to_owned());
        let status = status_of(&absent, None, || unreachable!("there is nothing to try"));
        assert_eq!(status, Status::NotApplicable("no such device".to_owned()));
    }
}
