//! The whole run: every probe with its control, behind every wall.

use crate::bench::{Bench, Inputs};
use crate::catalogue::{COUNTED, catalogue};
use crate::gaps::Gaps;
use crate::judge::{NOBODY, Proof, Verdict, judge, prove};
use crate::probe::{Class, Probe};
use crate::report::{Line, Report, Standing};
use crate::wall::Wall;

/// The fewest distinct ids that must hold with a control.
const FEWEST: usize = 60;

/// Runs every probe as root and as a user without rights.
pub fn run(inputs: &Inputs, gaps: &str) -> Result<Report, String> {
    let gaps = Gaps::parse(gaps).map_err(|why| format!("the file of gaps: {why}"))?;
    let ids: Vec<&str> = catalogue().map(|probe| probe.id).collect();
    let strangers = gaps.strangers(&ids);
    if !strangers.is_empty() {
        return Err(format!("the file of gaps names {strangers:?}, which no probe has"));
    }
    let bench = Bench::new(inputs).map_err(|error| format!("the bench: {error}"))?;
    let walls = [None, Some(NOBODY)].map(|user| bench.wall(user));
    let walls: Vec<Wall> =
        walls.into_iter().collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let mut report = Report::new(walls.iter().map(|wall| wall.name.clone()).collect());
    for probe in catalogue() {
        report.lines.push(line(&bench, &walls, &gaps, probe));
    }
    report.after = bench.host.changed_since(&bench, std::time::Duration::from_secs(10));
    report.fewest = FEWEST;
    Ok(report)
}

fn line(bench: &Bench, walls: &[Wall], gaps: &Gaps, probe: &Probe) -> Line {
    let proof = prove(bench, &walls[0], probe);
    let stands = |wall: &Wall| {
        let known = gaps.reason(probe.id, &wall.name);
        standing(&proof, known, || judge(bench, wall, probe))
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
        standings: walls.iter().map(stands).collect(),
        control: match proof {
            Proof::Proven(shown) | Proof::Unproven(shown) | Proof::NotApplicable(shown) => shown,
        },
    }
}

/// How a probe stands, from what its control showed, the file of gaps, and the trial itself, which
/// is held only where there is something to try.
fn standing(proof: &Proof, known: Option<&str>, trial: impl FnOnce() -> Verdict) -> Standing {
    if let Proof::NotApplicable(why) = proof {
        return Standing::NotApplicable(why.clone());
    }
    match (trial(), known, proof) {
        (Verdict::Held, Some(_), _) => {
            Standing::Broken("it holds, and the file of gaps says that it does not".to_owned())
        }
        (Verdict::Broken(_), Some(reason), _) => Standing::Gap(reason.to_owned()),
        (Verdict::Broken(why), None, _) => Standing::Broken(why),
        (Verdict::Held, None, Proof::Unproven(why)) => Standing::Unproven(why.clone()),
        (Verdict::Held, None, _) => Standing::Held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_that_holds_fails_and_so_does_a_failure_that_is_no_gap() {
        let proven = Proof::Proven("it works without".to_owned());
        let broken = || Verdict::Broken("came back".to_owned());
        assert_eq!(standing(&proven, None, || Verdict::Held), Standing::Held);
        assert_eq!(standing(&proven, None, broken), Standing::Broken("came back".to_owned()));
        assert_eq!(standing(&proven, Some("known"), broken), Standing::Gap("known".to_owned()));
        let healed = standing(&proven, Some("known"), || Verdict::Held);
        assert!(matches!(healed, Standing::Broken(_)), "{healed:?}");
    }

    #[test]
    fn probe_without_a_control_is_unproven_and_one_without_a_subject_is_not_tried() {
        let unproven = Proof::Unproven("refused there too".to_owned());
        let stands = standing(&unproven, None, || Verdict::Held);
        assert_eq!(stands, Standing::Unproven("refused there too".to_owned()));
        let absent = Proof::NotApplicable("no such device".to_owned());
        let stands = standing(&absent, None, || unreachable!("there is nothing to try"));
        assert_eq!(stands, Standing::NotApplicable("no such device".to_owned()));
    }
}
