//! Chooses the wall that enforces a policy on this host.

use std::sync::Arc;

use stockade_policy::Policy;
use stockade_provider::{Obstacle, Plan, Probe, Program, Provider, ProviderName, WallReport, plan};

use crate::RunError;

/// The requested wall, or the first not in `passed_over` that enforces the whole policy. Probes a
/// wall only if all walls before it fail.
pub(crate) async fn choose(
    providers: &[Arc<dyn Provider>],
    asked: Option<&str>,
    policy: &Policy,
    program: Option<&Program>,
    passed_over: &[ProviderName],
) -> Result<(Arc<dyn Provider>, Plan), RunError> {
    let is_candidate = |provider: &&Arc<dyn Provider>| {
        let name = provider.name();
        asked.is_none_or(|asked| name.as_str() == asked) && !passed_over.contains(&name)
    };
    let mut best: Option<Refusal> = None;
    for provider in providers.iter().filter(is_candidate) {
        let facts = provider.facts(Probe::Quick).await;
        let refusal =
            match (plan(policy, &facts), program.and_then(|program| facts.refuses(program))) {
                (Ok(plan), None) => return Ok((Arc::clone(provider), plan)),
                (Ok(_), Some(obstacle)) => Refusal::Program(obstacle),
                (Err(report), _) => match facts.unusable {
                    Some(obstacle) => Refusal::Unusable(obstacle, Box::new(report)),
                    None => Refusal::Policy(Box::new(report)),
                },
            };
        let is_unusable = |held: &Refusal| matches!(held, Refusal::Unusable(..));
        if best.as_ref().is_none_or(|held| is_unusable(held) && !is_unusable(&refusal)) {
            best = Some(refusal);
        }
    }
    Err(match (best, asked) {
        (Some(Refusal::Unusable(obstacle, report)), _) => RunError::Unusable { obstacle, report },
        (Some(Refusal::Policy(report)), _) => RunError::Unenforceable { report },
        (Some(Refusal::Program(obstacle)), _) => RunError::Program { obstacle },
        (None, Some(name)) => RunError::UnknownProvider {
            name: name.to_owned(),
            known: providers.iter().map(|provider| provider.name().as_str()).collect(),
        },
        (None, None) => RunError::NoProvider,
    })
}

/// Why a wall is not chosen. The returned error describes the first wall that is usable at all.
enum Refusal {
    Unusable(Obstacle, Box<WallReport>),
    /// It cannot enforce the policy.
    Policy(Box<WallReport>),
    /// It does not support this kind of program.
    Program(Obstacle),
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scripted::Scripted;

    fn walls(walls: Vec<Scripted>) -> Vec<Arc<dyn Provider>> {
        walls.into_iter().map(|wall| Arc::new(wall) as Arc<dyn Provider>).collect()
    }

    async fn chosen(
        all: &[Arc<dyn Provider>],
        asked: Option<&str>,
        policy: &str,
    ) -> Result<&'static str, RunError> {
        let policy = Policy::parse_str("p", policy, Path::new("/srv")).unwrap();
        let program = Program::Command { argv: vec!["ls".to_owned()] };
        let chosen = choose(all, asked, &policy, Some(&program), &[]).await;
        chosen.map(|(provider, _)| provider.name().as_str())
    }

    #[tokio::test]
    async fn first_wall_that_enforces_everything_is_chosen_and_later_walls_are_not_probed() {
        let second = Scripted::named("second");
        let asked = second.times_asked();
        let all = walls(vec![Scripted::named("first"), second]);
        assert_eq!(chosen(&all, None, "{}").await.unwrap(), "first");
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 0);
        assert_eq!(chosen(&all, Some("second"), "{}").await.unwrap(), "second");
    }

    #[tokio::test]
    async fn error_describes_the_first_usable_wall() {
        let all = walls(vec![Scripted::named("gone").unusable(), Scripted::named("weak")]);
        let error = chosen(&all, None, "isolation: vm").await.unwrap_err();
        assert_eq!(error.to_string(), "the weak wall cannot enforce the policy here");
        let error = chosen(&all, Some("gone"), "{}").await.unwrap_err();
        assert_eq!(error.to_string(), "the gone wall cannot be used here: it is a test");
    }

    #[tokio::test]
    async fn missing_wall_is_not_replaced_by_another() {
        let all = walls(vec![Scripted::named("first")]);
        let error = chosen(&all, Some("other"), "{}").await.unwrap_err();
        assert!(matches!(error, RunError::UnknownProvider { .. }), "{error}");
        assert!(matches!(chosen(&[], None, "{}").await.unwrap_err(), RunError::NoProvider));
    }

    #[tokio::test]
    async fn wall_that_cannot_run_the_program_is_skipped_and_named_if_no_wall_can() {
        let code_only = || Scripted::named("code").without_commands();
        let all = walls(vec![code_only(), Scripted::named("second")]);
        assert_eq!(chosen(&all, None, "{}").await.unwrap(), "second");
        let error = chosen(&walls(vec![code_only()]), None, "{}").await.unwrap_err();
        assert!(error.to_string().contains("the code wall does not run commands"), "{error}");
    }
}
