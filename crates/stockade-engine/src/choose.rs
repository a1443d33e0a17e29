//! Which wall holds a policy here.

use std::sync::Arc;

use stockade_policy::Policy;
use stockade_provider::{Obstacle, Plan, Probe, Provider, ProviderName, WallReport, plan};

use crate::RunError;

/// The wall that was asked for, or the first that holds everything; `passed_over` are those that
/// turned out not to be there. A wall is asked only when those before it cannot.
pub(crate) fn choose(
    providers: &[Arc<dyn Provider>],
    asked: Option<&str>,
    policy: &Policy,
    passed_over: &[ProviderName],
) -> Result<(Arc<dyn Provider>, Plan), RunError> {
    let is_candidate = |provider: &&Arc<dyn Provider>| {
        let name = provider.name();
        asked.is_none_or(|asked| name.as_str() == asked) && !passed_over.contains(&name)
    };
    let mut best: Option<Refusal> = None;
    for provider in providers.iter().filter(is_candidate) {
        let facts = provider.facts(Probe::Quick);
        let report = match plan(policy, &facts) {
            Ok(plan) => return Ok((Arc::clone(provider), plan)),
            Err(report) => report,
        };
        let refusal = Refusal { unusable: facts.unusable, report };
        let better = |held: &Refusal| held.unusable.is_some() && refusal.unusable.is_none();
        if best.as_ref().is_none_or(better) {
            best = Some(refusal);
        }
    }
    Err(match (best, asked) {
        (Some(Refusal { unusable: Some(obstacle), report }), _) => {
            RunError::Unusable { obstacle, report: Box::new(report) }
        }
        (Some(Refusal { unusable: None, report }), _) => {
            RunError::Unenforceable { report: Box::new(report) }
        }
        (None, Some(name)) => RunError::UnknownProvider {
            name: name.to_owned(),
            known: providers.iter().map(|provider| provider.name().as_str()).collect(),
        },
        (None, None) => RunError::NoProvider,
    })
}

/// Why one wall does not do. The first that can be used at all is the one to tell about.
struct Refusal {
    unusable: Option<Obstacle>,
    report: WallReport,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scripted::Scripted;

    fn walls(walls: Vec<Scripted>) -> Vec<Arc<dyn Provider>> {
        walls.into_iter().map(|wall| Arc::new(wall) as Arc<dyn Provider>).collect()
    }

    fn chosen(
        all: &[Arc<dyn Provider>],
        asked: Option<&str>,
        policy: &str,
    ) -> Result<&'static str, RunError> {
        let policy = Policy::parse_str("p", policy, Path::new("/srv")).unwrap();
        choose(all, asked, &policy, &[]).map(|(provider, _)| provider.name().as_str())
    }

    #[test]
    fn first_wall_that_holds_everything_is_taken_and_later_ones_are_not_asked() {
        let second = Scripted::named("second");
        let asked = second.times_asked();
        let all = walls(vec![Scripted::named("first"), second]);
        assert_eq!(chosen(&all, None, "{}").unwrap(), "first");
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 0);
        assert_eq!(chosen(&all, Some("second"), "{}").unwrap(), "second");
    }

    #[test]
    fn refusal_is_of_the_first_wall_that_can_be_used_at_all() {
        let all = walls(vec![Scripted::named("gone").unusable(), Scripted::named("weak")]);
        let error = chosen(&all, None, "isolation: vm").unwrap_err();
        assert_eq!(error.to_string(), "the weak wall cannot enforce the policy here");
        let error = chosen(&all, Some("gone"), "{}").unwrap_err();
        assert_eq!(error.to_string(), "the gone wall cannot be used here: it is a test");
    }

    #[test]
    fn wall_that_is_not_there_is_no_reason_to_take_another() {
        let all = walls(vec![Scripted::named("first")]);
        let error = chosen(&all, Some("other"), "{}").unwrap_err();
        assert!(matches!(error, RunError::UnknownProvider { .. }), "{error}");
        assert!(matches!(chosen(&[], None, "{}").unwrap_err(), RunError::NoProvider));
    }
}
