//! Errors of a run, for a person.

use stockade_engine::RunError;
use stockade_policy::VariableError;
use stockade_provider::chain;

use crate::Problem;
use crate::policy::refusals;

/// The remedy for a wall's error that has none of its own.
const SEE_DOCTOR: &str = "see what this host can enforce: `stockade doctor`";

/// One sentence with its remedy.
pub(crate) fn problem(error: &RunError) -> Problem {
    let message = error.to_string();
    match error {
        RunError::NoProvider => Problem::new(message, "use a version with a wall"),
        RunError::UnknownProvider { known, .. } if known.is_empty() => {
            Problem::new(message, "use a version that has it")
        }
        RunError::UnknownProvider { known, .. } => {
            Problem::new(message, format!("leave --provider out, or pass {}", known.join(", ")))
        }
        RunError::Unusable { obstacle, .. } => Problem::new(message, obstacle.remedy.clone()),
        RunError::Program { obstacle } => Problem::new(message, obstacle.remedy.clone()),
        RunError::Unenforceable { report } => {
            let message = format!("{message}\n{}", refusals(report).trim_end());
            Problem::new(message, "change each as its own line says, or choose another wall")
        }
        RunError::Variable(error) => variable(error),
        RunError::VariableTaken { .. } => {
            Problem::new(message, "leave it out, or remove it from the policy")
        }
        RunError::VariableValue { .. } => Problem::new(message, "pass large values as a file"),
        RunError::Wall(error) => Problem::new(chain(error), error.remedy().unwrap_or(SEE_DOCTOR)),
        RunError::StartTooLong { .. } => Problem::new(
            message,
            "see whether a file system that is shown inside answers, with `ls` on each",
        ),
        RunError::Gate(_) => {
            Problem::new(chain(error), "see that the file it names is there for this user")
        }
        RunError::Secret(failure) => Problem::new(chain(error), failure.remedy()),
        RunError::Record(failure) => Problem::new(chain(error), failure.remedy()),
        RunError::Output { .. } => Problem::new(chain(error), "check that its disk is not full"),
        RunError::Store(failure) => Problem::new(chain(error), failure.remedy()),
        RunError::State { remedy, .. } => Problem::new(chain(error), *remedy),
    }
}

/// The error for a variable that must not be set inside.
pub(crate) fn variable(error: &VariableError) -> Problem {
    Problem::new(format!("--env: {error}"), error.remedy())
}

#[cfg(test)]
mod tests {
    use stockade_provider::{Error, ErrorKind};

    use super::*;

    #[test]
    fn wall_error_without_a_remedy_names_the_doctor_command() {
        let error = RunError::Wall(Error::new(ErrorKind::Internal, "a reason"));
        assert_eq!(problem(&error).remedy, SEE_DOCTOR);
        let error = Error::new(ErrorKind::Internal, "a reason").with_remedy("do this");
        assert_eq!(problem(&RunError::Wall(error)).remedy, "do this");
    }
}
